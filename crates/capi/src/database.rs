//! The open database.

use std::collections::BTreeSet;
use std::ffi::{c_char, c_uchar, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

use tailwater::Db;
use tailwater_io::sync::Mutex;

use crate::boundary::{Outcome, copy_bytes, entry};
use crate::marks::{Marked, Marks};

/// An open database.
pub(crate) struct rocksdb_t {
    pub(crate) db: Db,
    pub(crate) marks: Marks,
    /// The number of this open call in the process, at least 1.
    pub(crate) number: u64,
    /// The functions without effect that the LOG has lines of.
    noted: Mutex<BTreeSet<&'static str>>,
}

impl Marked for rocksdb_t {
    fn marks(&self) -> &Marks {
        &self.marks
    }
}

impl rocksdb_t {
    pub(crate) fn new(db: Db) -> Self {
        static OPENED: AtomicU64 = AtomicU64::new(0);
        let number = OPENED.fetch_add(1, Ordering::Relaxed) + 1;
        Self { db, marks: Marks::default(), number, noted: Mutex::default() }
    }

    /// Checks whether a function without implementation was called on this database. The first
    /// call after it fails.
    #[inline]
    pub(crate) fn ready(&self) -> Outcome<()> {
        if self.marks.is_clear() { Ok(()) } else { self.take_marks() }
    }

    #[cold]
    fn take_marks(&self) -> Outcome<()> {
        self.note(&self.marks.notes());
        let refusal = self.marks.refusal();
        self.marks.clear();
        refusal
    }

    /// Writes one line to the LOG for each of these functions without effect, once.
    pub(crate) fn note(&self, functions: &[&'static str]) {
        let mut noted = self.noted.lock();
        for &function in functions {
            if noted.insert(function) {
                self.db.write_to_log(&format!("{function} has no effect in Tailwater"));
            }
        }
    }
}

entry! {
    fn rocksdb_close(db: own rocksdb_t) {
        if let Some(db) = db {
            db.db.close()?;
        }
        Ok(())
    }
}

entry! {
    /// Always waits.
    fn rocksdb_cancel_all_background_work(db: shared rocksdb_t, wait: c_uchar) {
        let _ = wait;
        Ok(db.db.cancel_background_work()?)
    }
}

entry! {
    fn rocksdb_get_latest_sequence_number(db: shared rocksdb_t) -> u64 {
        Ok(db.db.latest_sequence_number())
    }
}

entry! {
    fn rocksdb_get_db_identity(
        db: shared rocksdb_t,
        id_len: out usize,
    ) -> *mut c_char {
        let identity = db.db.identity()?;
        id_len.set(identity.len());
        Ok(copy_bytes(identity.as_bytes()))
    }
}

entry! {
    fn rocksdb_disable_manual_compaction(db: shared rocksdb_t) {
        Ok(db.db.disable_manual_compaction()?)
    }
}

entry! {
    fn rocksdb_enable_manual_compaction(db: shared rocksdb_t) {
        Ok(db.db.enable_manual_compaction()?)
    }
}

entry! {
    fn rocksdb_free(ptr: *mut c_void) {
        // SAFETY: the caller passes memory that the interface returned, which comes from `malloc`.
        unsafe { crate::boundary::release(ptr) };
        Ok(())
    }
}
