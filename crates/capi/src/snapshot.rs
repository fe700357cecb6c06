//! Snapshots.

use std::sync::Arc;

use tailwater::Snapshot;

use crate::boundary::{entry, give};
use crate::database::rocksdb_t;

/// A snapshot.
pub(crate) struct rocksdb_snapshot_t {
    pub(crate) snapshot: Arc<Snapshot>,
}

entry! {
    fn rocksdb_create_snapshot(db: shared rocksdb_t) -> *const rocksdb_snapshot_t {
        Ok(give(rocksdb_snapshot_t { snapshot: Arc::new(db.db.snapshot()) }).cast_const())
    }
}

entry! {
    fn rocksdb_release_snapshot(
        db: maybe rocksdb_t,
        snapshot: own_const rocksdb_snapshot_t,
    ) {
        let _ = db;
        drop(snapshot);
        Ok(())
    }
}

entry! {
    fn rocksdb_snapshot_get_sequence_number(snapshot: &rocksdb_snapshot_t) -> u64 {
        Ok(snapshot.snapshot.sequence_number())
    }
}
