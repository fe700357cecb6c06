//! Tables (SST files): readers, their iterators, the cache of open ones, and builders.
//!
//! Reading has three stages: `reader::BlockFile` reads a block from the file, the block cache keeps
//! it, and `TableReader` and `TableIterator` search it.

mod block;
mod block_cache;
pub(crate) mod builder;
mod iterator;
mod new_files;
mod open_budget;
mod open_shares;
mod open_tables;
mod reader;
mod table_cache;

pub(crate) use block::{Block, BlockBytes, BlockKind, BlockRef};
pub use block_cache::BlockCache;
pub use builder::Builder;
pub(crate) use iterator::{ReadPlan, Streaming, TableIterator};
pub(crate) use new_files::{NewFiles, table_buffers};
pub(crate) use open_budget::{OpenBudget, OpenPermit};
pub(crate) use open_shares::OpenShares;
pub(crate) use open_tables::{KeepsFilesOpen, OpenTables, relieve};
pub(crate) use reader::{
    AutoReadAhead, BlockAccess, GetCursors, Kept, Loading, MetaBlockPlacement, ReadProfile,
    Resident, TableContext, TableIdentity, TableReader, TableStep,
};
pub(crate) use table_cache::TableCache;
