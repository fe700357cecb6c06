//! Tailwater: a key-value engine, drop-in for RocksDB, whose reads keep a flat tail while it writes
//! and compacts.
//!
//! A [`Db`] is a directory in RocksDB's format.

mod background;
mod blob;
pub mod cache;
mod compaction;
mod db;
mod directory;
pub mod epoch;
mod error;
mod file_copy;
mod flush;
mod handover;
mod ingest;
pub mod inspect;
mod io_modes;
mod iterator;
pub mod memtable;
mod merge_operator;
pub mod options;
mod panics;
mod prefix_extractor;
pub mod range_tombstone;
mod read;
mod record_log;
mod recovery;
mod sequence_times;
mod stats;
pub mod table;
pub mod verify;
mod version;
mod wal;
mod write;

pub use compaction::{
    BottommostRewrite, CompactRangeOptions, CompactionFilter, FilterDecision, FilteredValue,
};
pub use db::{
    ColumnFamily, Db, Entries, KeyBounds, LEVEL_PROPERTY_NAMES, LiveFile, MemTableStatistics,
    PROPERTY_NAMES, ReadOptions, SizeOptions, Snapshot,
};
pub use error::{Error, ErrorKind, Result};
pub use ingest::{ExternalFileInfo, ExternalFiles, IngestOptions, IngestedFile, SstFileWriter};
pub use iterator::DbIterator;
pub use merge_operator::{CustomMergeOperator, MergeOperator};
pub use prefix_extractor::{CustomPrefixExtractor, PrefixExtractor};
pub use read::PinnedValue;
pub use recovery::OpenOptions;
pub use stats::{HistogramData, Statistics};
pub use table::BlockCache;
pub use tailwater_format::batch::{AsColumnFamilyId, WriteBatch};
pub use wal::Updates;
pub use wal::replay::LeftOut;
pub use write::{StallCause, StallState, WriteOptions};
