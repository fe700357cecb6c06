//! Point reads: from a key to its value.
//!
//! A get searches its sources newest first: the active memtable, the sealed memtables, the tables
//! of level 0, then one table of each further level. It first searches what is in memory while it
//! is pinned in an epoch, without a lock, a change of a reference count or an allocation. Only when
//! it needs a block or table from a file does it take references to its sources, leave the epoch,
//! and continue with the source that it had reached.

mod get;
mod multi_get;
mod options;
mod snapshot;
mod state;

pub(crate) use get::get;
pub(crate) use multi_get::multi_get;
pub use options::ReadOptions;
pub use snapshot::Snapshot;
pub(crate) use snapshot::SnapshotList;
pub(crate) use state::ReadState;
