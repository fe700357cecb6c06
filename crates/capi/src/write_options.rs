//! Options of writes.

use tailwater::WriteOptions;

use crate::boundary::{Outcome, entry, give};
use crate::database::rocksdb_t;
use crate::marks::{Marked, Marks};

/// Options of writes.
#[derive(Default)]
pub(crate) struct rocksdb_writeoptions_t {
    pub(crate) options: WriteOptions,
    pub(crate) marks: Marks,
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
