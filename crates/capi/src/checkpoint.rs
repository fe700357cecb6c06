//! Checkpoints.

use tailwater::{CheckpointOptions, Db};

use crate::boundary::{entry, give, path};
use crate::database::rocksdb_t;

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
    fn rocksdb_checkpoint_create(
        checkpoint: shared rocksdb_checkpoint_t,
        checkpoint_dir: text,
        log_size_for_flush: u64,
        errptr,
    ) {
        let options = CheckpointOptions::new().with_log_size_for_flush(log_size_for_flush);
        Ok(checkpoint.db.checkpoint_opt(path(checkpoint_dir), &options)?)
    }
}

entry! {
    fn rocksdb_checkpoint_object_destroy(checkpoint: own rocksdb_checkpoint_t) {
        drop(checkpoint);
        Ok(())
    }
}
