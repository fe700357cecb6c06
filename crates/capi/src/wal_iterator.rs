//! Iterators over the batches in the logs.

use std::ffi::c_uchar;

use tailwater::{Updates, WriteBatch};

use crate::batch::rocksdb_writebatch_t;
use crate::boundary::{Class, Failure, entry, give, reference_mut};
use crate::database::rocksdb_t;
use crate::marks::Marks;

/// Options of an iterator over the logs.
pub(crate) struct rocksdb_wal_readoptions_t {
    /// Has no effect: checksums are always verified.
    pub(crate) verify_checksums: bool,
    pub(crate) marks: Marks,
}

entry! {
    fn rocksdb_wal_readoptions_create() -> *mut rocksdb_wal_readoptions_t {
        Ok(give(rocksdb_wal_readoptions_t { verify_checksums: true, marks: Marks::default() }))
    }
}

entry! {
    fn rocksdb_wal_readoptions_destroy(options: own rocksdb_wal_readoptions_t) {
        drop(options);
        Ok(())
    }
}

/// An iterator over the batches in the logs.
pub(crate) struct rocksdb_wal_iterator_t {
    updates: Updates,
    current: Option<WriteBatch>,
    failure: Option<Failure>,
}

impl rocksdb_wal_iterator_t {
    fn advance(&mut self) {
        self.current = None;
        match self.updates.next() {
            None => {}
            Some(Ok(batch)) => self.current = Some(batch),
            Some(Err(error)) => {
                self.failure = Some(match error.kind() {
                    // Numbers are missing.
                    tailwater::ErrorKind::NotFound => {
                        Failure::from(error).with_class(Class::Corruption)
                    }
                    _ => error.into(),
                });
            }
        }
    }
}

entry! {
    fn rocksdb_get_updates_since(
        db: shared rocksdb_t,
        seq_number: u64,
        options: maybe_const rocksdb_wal_readoptions_t,
        errptr,
    ) -> *mut rocksdb_wal_iterator_t {
        let _ = options;
        db.ready()?;
        let updates = db.db.updates_since_or_after(seq_number)?;
        let mut iterator = rocksdb_wal_iterator_t { updates, current: None, failure: None };
        iterator.advance();
        Ok(give(iterator))
    }
}

entry! {
    fn rocksdb_wal_iter_destroy(iter: own_const rocksdb_wal_iterator_t) {
        drop(iter);
        Ok(())
    }
}

entry! {
    fn rocksdb_wal_iter_valid(iter: &rocksdb_wal_iterator_t) -> c_uchar {
        Ok(iter.current.is_some().into())
    }
}

entry! {
    fn rocksdb_wal_iter_next(iter: &mut rocksdb_wal_iterator_t) {
        iter.advance();
        Ok(())
    }
}

entry! {
    fn rocksdb_wal_iter_status(iter: &rocksdb_wal_iterator_t, errptr) {
        iter.failure.clone().map_or(Ok(()), Err)
    }
}

entry! {
    /// As in RocksDB, the batch can be taken once.
    fn rocksdb_wal_iter_get_batch(
        iter: *const rocksdb_wal_iterator_t,
        seq: out u64,
    ) -> *mut rocksdb_writebatch_t {
        // SAFETY: the caller does not use the iterator otherwise during the call.
        let iter = unsafe { reference_mut(iter.cast_mut(), "iter")? };
        let batch = iter.current.as_mut().map(std::mem::take).unwrap_or_default();
        seq.set(batch.sequence());
        Ok(give(rocksdb_writebatch_t::new(batch)))
    }
}
