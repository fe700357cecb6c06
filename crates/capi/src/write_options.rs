//! Options of writes.

use std::ffi::c_int;

use tailwater::{RateLimiterPriority, WriteOptions};

use crate::boundary::{Outcome, entry, give};
use crate::database::rocksdb_t;
use crate::marks::{Marked, Marks};
use crate::rate_limiter::IoPriority;

/// Options of writes.
#[derive(Default)]
pub(crate) struct rocksdb_writeoptions_t {
    pub(crate) options: WriteOptions,
    pub(crate) marks: Marks,
    priority: IoPriority,
}

impl Marked for rocksdb_writeoptions_t {
    fn marks(&self) -> &Marks {
        &self.marks
    }
}

impl rocksdb_writeoptions_t {
    /// Returns the options for a write to `db`.
    #[inline]
    pub(crate) fn ready(&self, db: &rocksdb_t) -> Outcome<&WriteOptions> {
        db.ready()?;
        self.marks.check(db)?;
        Ok(&self.options)
    }
}

entry! {
    fn rocksdb_writeoptions_create() -> *mut rocksdb_writeoptions_t {
        Ok(give(rocksdb_writeoptions_t::default()))
    }
}

entry! {
    fn rocksdb_writeoptions_destroy(opt: own rocksdb_writeoptions_t) {
        drop(opt);
        Ok(())
    }
}

entry! {
    /// A write with a number that RocksDB does not define fails, as with one that it does not allow
    /// for writes.
    fn rocksdb_writeoptions_set_rate_limiter_priority(opt: &mut rocksdb_writeoptions_t, v: c_int) {
        opt.priority = IoPriority(v);
        let refused = (!opt.priority.is_defined()).then_some(RateLimiterPriority::Low);
        opt.options.rate_limiter_priority = opt.priority.priority().or(refused);
        Ok(())
    }
}

entry! {
    fn rocksdb_writeoptions_get_rate_limiter_priority(opt: shared rocksdb_writeoptions_t) -> c_int {
        Ok(opt.priority.0)
    }
}
