//! Writes.

use crate::batch::rocksdb_writebatch_t;
use crate::boundary::entry;
use crate::database::rocksdb_t;
use crate::families::rocksdb_column_family_handle_t;
use crate::write_options::rocksdb_writeoptions_t;

entry! {
    fn rocksdb_put(
        db: shared rocksdb_t,
        options: &rocksdb_writeoptions_t,
        key: bytes[keylen],
        val: bytes[vallen],
        errptr,
    ) {
        Ok(db.db.put_cf_opt(db.db.default_cf(), key, val, options.ready(db)?)?)
    }
}

entry! {
    fn rocksdb_put_cf(
        db: shared rocksdb_t,
        options: &rocksdb_writeoptions_t,
        column_family: shared rocksdb_column_family_handle_t,
        key: bytes[keylen],
        val: bytes[vallen],
        errptr,
    ) {
        Ok(db.db.put_cf_opt(&column_family.family, key, val, options.ready(db)?)?)
    }
}

entry! {
    fn rocksdb_delete(
        db: shared rocksdb_t,
        options: &rocksdb_writeoptions_t,
        key: bytes[keylen],
        errptr,
    ) {
        Ok(db.db.delete_cf_opt(db.db.default_cf(), key, options.ready(db)?)?)
    }
}

entry! {
    fn rocksdb_delete_cf(
        db: shared rocksdb_t,
        options: &rocksdb_writeoptions_t,
        column_family: shared rocksdb_column_family_handle_t,
        key: bytes[keylen],
        errptr,
    ) {
        Ok(db.db.delete_cf_opt(&column_family.family, key, options.ready(db)?)?)
    }
}

entry! {
    fn rocksdb_singledelete(
        db: shared rocksdb_t,
        options: &rocksdb_writeoptions_t,
        key: bytes[keylen],
        errptr,
    ) {
        Ok(db.db.single_delete_cf_opt(db.db.default_cf(), key, options.ready(db)?)?)
    }
}

entry! {
    fn rocksdb_singledelete_cf(
        db: shared rocksdb_t,
        options: &rocksdb_writeoptions_t,
        column_family: shared rocksdb_column_family_handle_t,
        key: bytes[keylen],
        errptr,
    ) {
        Ok(db.db.single_delete_cf_opt(&column_family.family, key, options.ready(db)?)?)
    }
}

entry! {
    fn rocksdb_delete_range_cf(
        db: shared rocksdb_t,
        options: &rocksdb_writeoptions_t,
        column_family: shared rocksdb_column_family_handle_t,
        start_key: bytes[start_key_len],
        end_key: bytes[end_key_len],
        errptr,
    ) {
        let family = &column_family.family;
        Ok(db.db.delete_range_cf_opt(family, start_key, end_key, options.ready(db)?)?)
    }
}

entry! {
    fn rocksdb_merge(
        db: shared rocksdb_t,
        options: &rocksdb_writeoptions_t,
        key: bytes[keylen],
        val: bytes[vallen],
        errptr,
    ) {
        Ok(db.db.merge_cf_opt(db.db.default_cf(), key, val, options.ready(db)?)?)
    }
}

entry! {
    fn rocksdb_merge_cf(
        db: shared rocksdb_t,
        options: &rocksdb_writeoptions_t,
        column_family: shared rocksdb_column_family_handle_t,
        key: bytes[keylen],
        val: bytes[vallen],
        errptr,
    ) {
        Ok(db.db.merge_cf_opt(&column_family.family, key, val, options.ready(db)?)?)
    }
}

entry! {
    fn rocksdb_write(
        db: shared rocksdb_t,
        options: &rocksdb_writeoptions_t,
        batch: &mut rocksdb_writebatch_t,
        errptr,
    ) {
        let options = options.ready(db)?;
        batch.marks.check(db)?;
        Ok(db.db.write_opt(&mut batch.batch, options)?)
    }
}
