//! Point reads: from a key to its value.
//!
//! A get searches its sources newest first: the active memtable, the sealed memtables, the tables
//! of level 0, then at most a few tables of each deeper level. At first it is pinned in an epoch
//! and searches only what is in memory, without a lock, a change of a reference count or an
//! allocation. If it needs a block or table that is not in memory, it takes references to its
//! sources, leaves the epoch, and continues at the source that it had reached.

mod get;
mod multi_get;
mod options;
mod snapshot;
mod state;

pub(crate) use get::get;
pub use multi_get::ValueBuffer;
pub(crate) use multi_get::{
    CopiedValue, FamilyKeys, MultiGetProfile, multi_get, multi_get_of_families,
};
pub use options::ReadOptions;
pub use snapshot::Snapshot;
pub(crate) use snapshot::SnapshotList;
pub(crate) use state::ReadState;
