//! Flushes of memtables and of the log.

use std::ffi::{c_int, c_uchar};

use tailwater::ColumnFamily;

use crate::boundary::{Outcome, entry, give, pointers};
use crate::database::rocksdb_t;
use crate::families::rocksdb_column_family_handle_t;
use crate::marks::{Marked, Marks};

/// Options of a flush.
pub(crate) struct rocksdb_flushoptions_t {
    pub(crate) marks: Marks,
    /// Has no effect: a flush always waits until its tables are in the database.
    pub(crate) wait: bool,
}

impl Marked for rocksdb_flushoptions_t {
    fn marks(&self) -> &Marks {
        &self.marks
    }
}

entry! {
    fn rocksdb_flushoptions_create() -> *mut rocksdb_flushoptions_t {
        Ok(give(rocksdb_flushoptions_t { marks: Marks::default(), wait: true }))
    }
}

entry! {
    fn rocksdb_flushoptions_destroy(opt: own rocksdb_flushoptions_t) {
        drop(opt);
        Ok(())
    }
}

fn flush(
    db: &rocksdb_t,
    options: &rocksdb_flushoptions_t,
    families: &[&ColumnFamily],
) -> Outcome<()> {
    db.ready()?;
    options.marks.check(db)?;
    for family in families {
        db.db.flush_cf(family)?;
    }
    Ok(())
}

entry! {
    fn rocksdb_flush(db: shared rocksdb_t, options: &rocksdb_flushoptions_t, errptr) {
        flush(db, options, &[db.db.default_cf()])
    }
}

entry! {
    fn rocksdb_flush_cf(
        db: shared rocksdb_t,
        options: &rocksdb_flushoptions_t,
        column_family: shared rocksdb_column_family_handle_t,
        errptr,
    ) {
        flush(db, options, &[&column_family.family])
    }
}

entry! {
    fn rocksdb_flush_cfs(
        db: shared rocksdb_t,
        options: &rocksdb_flushoptions_t,
        column_family: *mut *mut rocksdb_column_family_handle_t,
        num_column_families: c_int,
        errptr,
    ) {
        let count = usize::try_from(num_column_families).unwrap_or(0);
        // SAFETY: the caller passes an array of this length.
        let handles: Vec<&rocksdb_column_family_handle_t> = unsafe {
            pointers(column_family.cast_const().cast(), count, "column_family")?
        };
        let families: Vec<&ColumnFamily> = handles.iter().map(|handle| &handle.family).collect();
        flush(db, options, &families)
    }
}

entry! {
    fn rocksdb_flush_wal(db: shared rocksdb_t, sync: c_uchar, errptr) {
        db.ready()?;
        db.db.flush_wal(sync != 0)?;
        Ok(())
    }
}
