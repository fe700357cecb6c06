//! Checkpoints.

use tailwater::Db;

use crate::boundary::{entry, give};
use crate::database::rocksdb_t;
use crate::open::path;

/// A maker of checkpoints.
pub(crate) struct rocksdb_checkpoint_t {
    db: Db,
}

entry! {
    fn rocksdb_checkpoint_object_create(
        db: shared rocksdb_t,
        errptr,
    ) -> *mut rocksdb_checkpoint_t {
        db.ready()?;
        Ok(give(rocksdb_checkpoint_t { db: db.db.clone() }))
    }
}

entry! {
    /// The memtables are always flushed, as they are in RocksDB if the size is 0.
    fn rocksdb_checkpoint_create(
        checkpoint: shared rocksdb_checkpoint_t,
        checkpoint_dir: text,
        log_size_for_flush: u64,
        errptr,
    ) {
        let _ = log_size_for_flush;
        Ok(checkpoint.db.checkpoint(path(checkpoint_dir))?)
    }
}

entry! {
    fn rocksdb_checkpoint_object_destroy(checkpoint: own rocksdb_checkpoint_t) {
        drop(checkpoint);
        Ok(())
    }
}
