//! Tailwater is a key-value engine for Linux, drop-in for RocksDB, whose reads keep a flat tail
//! latency while it writes and compacts. A [`Db`] is a directory in RocksDB's own format: both
//! engines read and write the same files. Methods follow the names of crate `rocksdb`;
//! `docs/migrating.md` lists the differences.
//!
//! ```
#![doc = include_str!("../examples/first_program.rs")]
//! ```
//!
//! # Where to go next
//!
//! | to | see |
//! |---|---|
//! | open, read, write and maintain a database | [`Db`], [`OpenOptions`] |
//! | set options, by name or by field | [`OpenOptions`], [`options`] |
//! | read without copying, or into a buffer | [`Db::get_pinned`], [`Db::get_into`] |
//! | read as of a point in time | [`Db::snapshot`], [`ReadOptions`] |
//! | iterate over entries, or move a cursor | [`Db::range`], [`Db::prefix`], [`DbIterator`] |
//! | write atomically, durably | [`WriteBatch`], [`WriteOptions`] |
//! | give a part of the data its own key space and options | [`ColumnFamily`], [`Db::create_cf`] |
//! | update values without reading them | [`MergeOperator`], [`Db::merge`] |
//! | remove data as it is compacted | [`CompactionFilter`] |
//! | load data in bulk | [`SstFileWriter`], [`Db::ingest_external_file`] |
//! | follow the writes of a database | [`Db::updates_since`], [`Updates`], [`batch`] |
//! | choose the I/O mode of each purpose | [`options::TailwaterOptions`] |
//! | share memory between databases | [`BlockCache`], [`WriteBufferManager`] |
//! | limit the space of databases, remove files slowly | [`SstFileManager`] |
//! | observe | [`Statistics`], [`Db::property_value`] |
//! | handle failures | [`Error`], [`ErrorKind`] |
//! | verify or inspect files | [`verify`], [`inspect`] |
//! | keep files elsewhere | [`storage`] |
//!
//! # User-defined objects
//!
//! Objects that options refer to by name are registered under that name with `OpenOptions::add_*`,
//! or given to a single column family ([`FamilyObjects`]). Each column family names those that it
//! uses: [`Comparator`], [`MergeOperator`],
//! [`PrefixExtractor`], [`CompactionFilter`]. Each is an enum of the built-in objects, which need
//! no registration and no virtual call, and `Custom`, which holds a user's object: a
//! [`CustomComparator`], [`CustomMergeOperator`], [`CustomPrefixExtractor`] or
//! [`CustomCompactionFilter`].
//!
//! Objects without a name are set with `OpenOptions::set_*`, and can be shared between databases:
//! [`BlockCache`], [`WriteBufferManager`], [`RateLimiter`] with its [`RateLimiterMode`] and
//! [`RateLimiterPriority`], [`SstFileManager`], [`Statistics`], [`Clock`]. A filter policy has
//! neither form: filters must be readable by RocksDB, so the option string `filter_policy` selects
//! a built-in one.

#![deny(missing_docs)]

mod background;
mod blob;
mod block_cache;
mod cache;
mod column_family;
mod compaction;
mod compaction_filter;
mod context;
mod contracts;
mod db;
mod directory;
pub mod env;
mod epoch;
mod error;
mod file_copy;
mod file_numbers;
mod flush;
#[cfg(feature = "for-tests")]
#[doc(hidden)]
pub mod for_tests;
mod handover;
mod incomplete_file;
mod ingest;
pub mod inspect;
mod io_modes;
mod iterator;
mod left_out;
mod memory_counters;
mod memtable;
mod merge_operator;
mod open_options;
mod opening;
pub mod options;
mod panics;
mod prefetch;
mod prefix_extractor;
mod range_tombstone;
mod read;
mod record_log;
mod recovery;
mod sequence_times;
mod setters;
mod skipped_damage;
mod sst_file_manager;
mod stall;
mod stats;
pub mod storage;
mod table;
pub mod verify;
mod version;
mod wal;
mod write;
mod write_buffer_manager;

pub use block_cache::BlockCache;
pub use column_family::ColumnFamily;
pub use compaction::{BottommostRewrite, CompactRangeOptions};
pub use compaction_filter::{
    CompactionFilter, CustomCompactionFilter, FilterContext, FilterDecision, FilteredValue,
};
pub use db::{
    CheckpointOptions, CompactionPause, CreateFamiliesError, Db, Entries, KeyBounds,
    LEVEL_PROPERTY_NAMES, LiveFile, MemTableStatistics, PROPERTY_NAMES, SizeOptions,
};
pub use error::{Error, ErrorKind, Result};
pub use ingest::{ExternalFileInfo, ExternalFiles, IngestOptions, IngestedFile, SstFileWriter};
pub use iterator::DbIterator;
pub use left_out::LeftOut;
pub use merge_operator::{CustomMergeOperator, MergeOperator};
pub use open_options::{FamilyObjects, OpenOptions, OptionWithoutEffect};
pub use prefix_extractor::{CustomPrefixExtractor, PrefixExtractor};
pub use read::{ReadOptions, Snapshot, ValueBuffer};
pub use skipped_damage::{SkippedDamage, SkippedKeys, SkippedPart};
pub use sst_file_manager::SstFileManager;
pub use stall::{StallCause, StallState};
pub use stats::{HistogramData, ProcessMemory, SlowReadCause, SlowReadTotals, Statistics};
pub use storage::{DescriptorBudget, IoMode, PosixStorage, Purpose, Storage};
pub use table::PinnedValue;
pub use tailwater_format::Error as FormatError;
#[doc(inline)]
pub use tailwater_format::batch;
#[doc(inline)]
pub use tailwater_format::batch::{AsColumnFamilyId, WriteBatch};
#[doc(inline)]
pub use tailwater_format::comparator::{
    Comparator, CustomComparator, ForeignComparator, ForeignCompare,
};
#[doc(inline)]
pub use tailwater_format::key::Sequence;
#[doc(inline)]
pub use tailwater_format::wide_column::WideColumn;
#[doc(inline)]
pub use tailwater_io::Clock;
#[doc(inline)]
pub use tailwater_io::clock::SystemClock;
#[doc(inline)]
pub use tailwater_io::pace::{
    Mode as RateLimiterMode, Priority as RateLimiterPriority, RateLimiter,
};
#[doc(inline)]
pub use tailwater_io::sizing::AutoSizes;
pub use wal::Updates;
pub use write::WriteOptions;
pub use write_buffer_manager::WriteBufferManager;
