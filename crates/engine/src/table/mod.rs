//! Tables (SST files): their readers, iterators over them, the cache of open tables, and builders.
//!
//! Reading has three stages: `reader::BlockFile` reads a block from the file, the block cache keeps
//! it, and `TableReader` and `TableIterator` search it.

#[cfg_attr(
    not(feature = "for-tests"),
    expect(unreachable_pub, dead_code, reason = "integration tests use the builder")
)]
pub(crate) mod builder;
mod compaction_marks;
mod file;
mod iterator;
mod lookup;
mod new_files;
mod open_budget;
mod open_shares;
mod open_tables;
mod reader;
mod row_cache;
mod sink;
mod stored_block;
mod table_cache;
mod warm_installation;

pub(crate) use builder::Builder;
pub(crate) use compaction_marks::CompactionMarks;
pub(crate) use file::{FileMetadata, FileStatistics};
pub(crate) use iterator::{Direction, ReadAheadPlan, ReadPlan, SeekTo, Streaming, TableIterator};
pub(crate) use lookup::{Lookup, PlainValue, Step, fold, plain_value};
pub(crate) use new_files::{NewFiles, table_buffers};
pub(crate) use open_budget::{OpenBudget, OpenPermit};
pub(crate) use open_shares::OpenShares;
pub(crate) use open_tables::{OpenReader, OpenTables};
pub(crate) use reader::{
    AccessResult, AutoReadAhead, BlockAccess, BlockFile, GetCursors, Kept, LoadTogether, Loaded,
    Loading, MetaBlockPlacement, Missing, PassedFilter, Probe, ReadProfile, Resident, Stop,
    TableContext, TableIdentity, TableReader, Wanted, load_together,
};
pub(crate) use row_cache::{AbsentRow, Row, RowCache};
pub use sink::PinnedValue;
pub(crate) use sink::{BatchPinned, LastPinned, Owner, Sink};
pub(crate) use stored_block::StoredBlock;
pub(crate) use table_cache::TableCache;
pub(crate) use warm_installation::{HandedOver, WarmInstallation};
