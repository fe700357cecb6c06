//! Manual compactions.

use tailwater::{ColumnFamily, CompactRangeOptions};

use crate::boundary::{Outcome, entry, give};
use crate::database::rocksdb_t;
use crate::families::rocksdb_column_family_handle_t;
use crate::marks::{Marked, Marks};

/// Options of a manual compaction.
#[derive(Default)]
pub(crate) struct rocksdb_compactoptions_t {
    pub(crate) options: CompactRangeOptions,
    pub(crate) marks: Marks,
    /// Has no effect: a manual compaction never excludes others.
    pub(crate) exclusive: bool,
}

impl Marked for rocksdb_compactoptions_t {
    fn marks(&self) -> &Marks {
        &self.marks
    }
}

entry! {
    fn rocksdb_compactoptions_create() -> *mut rocksdb_compactoptions_t {
        Ok(give(rocksdb_compactoptions_t::default()))
    }
}

entry! {
    fn rocksdb_compactoptions_destroy(opt: own rocksdb_compactoptions_t) {
        drop(opt);
        Ok(())
    }
}

fn compact(
    db: &rocksdb_t,
    family: &ColumnFamily,
    options: Option<&rocksdb_compactoptions_t>,
    (begin, end): (Option<&[u8]>, Option<&[u8]>),
) -> Outcome<()> {
    let default = CompactRangeOptions::default();
    let options = match options {
        Some(options) => {
            options.marks.check(db)?;
            &options.options
        }
        None => &default,
    };
    Ok(db.db.compact_range_cf_opt(family, begin, end, options)?)
}

entry! {
    fn rocksdb_compact_range(
        db: shared rocksdb_t,
        start_key: option[start_key_len],
        limit_key: option[limit_key_len],
    ) {
        compact(db, db.db.default_cf(), None, (start_key, limit_key))
    }
}

entry! {
    fn rocksdb_compact_range_cf(
        db: shared rocksdb_t,
        column_family: shared rocksdb_column_family_handle_t,
        start_key: option[start_key_len],
        limit_key: option[limit_key_len],
    ) {
        compact(db, &column_family.family, None, (start_key, limit_key))
    }
}

entry! {
    fn rocksdb_compact_range_opt(
        db: shared rocksdb_t,
        opt: shared rocksdb_compactoptions_t,
        start_key: option[start_key_len],
        limit_key: option[limit_key_len],
    ) {
        compact(db, db.db.default_cf(), Some(opt), (start_key, limit_key))
    }
}

entry! {
    fn rocksdb_compact_range_cf_opt(
        db: shared rocksdb_t,
        column_family: shared rocksdb_column_family_handle_t,
        opt: shared rocksdb_compactoptions_t,
        start_key: option[start_key_len],
        limit_key: option[limit_key_len],
    ) {
        compact(db, &column_family.family, Some(opt), (start_key, limit_key))
    }
}

entry! {
    fn rocksdb_suggest_compact_range(
        db: shared rocksdb_t,
        start_key: option[start_key_len],
        limit_key: option[limit_key_len],
        errptr,
    ) {
        db.ready()?;
        Ok(db.db.suggest_compact_range_cf(db.db.default_cf(), start_key, limit_key)?)
    }
}

entry! {
    fn rocksdb_suggest_compact_range_cf(
        db: shared rocksdb_t,
        column_family: shared rocksdb_column_family_handle_t,
        start_key: option[start_key_len],
        limit_key: option[limit_key_len],
        errptr,
    ) {
        db.ready()?;
        Ok(db.db.suggest_compact_range_cf(&column_family.family, start_key, limit_key)?)
    }
}
