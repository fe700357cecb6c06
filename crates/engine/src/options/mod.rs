//! The options: their names, values and meaning, the OPTIONS file, and checks of their
//! combinations.
//!
//! Every option of RocksDB is declared once, in a table (`schema.rs`). The table states the
//! option's type and default, when it can be changed, and what effect it has ([`Verdict`]). Source
//! of names, defaults and units: `include/rocksdb/{options,advanced_options,table}.h`,
//! `options/{db,cf}_options.cc`, `table/block_based/block_based_table_factory.cc`.
//!
//! - [`DbOptions`] and [`ColumnFamilyOptions`] hold the values. The options of tables,
//!   [`BlockBasedTableOptions`], are a part of the column family's.
//! - [`TailwaterOptions`] are the options that RocksDB does not have.
//! - [`Options`] holds the options of a database and of all its column families. It is read from
//!   and written to an OPTIONS file.
//! - [`set_from_string`] applies an option string to the options of a database and a column family.
//!   [`crate::Db::set_options`] changes options while the database is open.
//!
//! When a database is opened, values that are out of range are replaced by valid ones, as RocksDB
//! does (`sanitize.rs`). Then contradictory values and unsupported features are refused
//! (`check.rs`). For a database that is opened read-only, only options that affect reading are
//! checked.
//!
//! [`DbOptions::io_mode`] returns the I/O mode that RocksDB's and Tailwater's options request for a
//! purpose of I/O.

mod error;
#[macro_use]
mod schema;
mod as_set;
mod block_based_table;
mod change;
mod check;
mod choice;
mod column_family;
mod database;
mod document;
mod group;
mod io_mode;
pub(crate) mod log_text;
mod object;
mod sanitize;
mod tailwater;
mod value;

pub(crate) use as_set::{SetOptions, unset_derived_of_database, unset_derived_of_family};
pub use block_based_table::{BlockBasedTableOptions, CacheUsageOptions, MetadataCacheOptions};
pub(crate) use change::{change_column_family, change_database};
pub(crate) use check::{
    LEVELS_MAX, check_column_family, check_database, check_family_for_reading, check_for_reading,
};
pub use choice::{
    CacheEntryRoleDecision, CacheTier, CompactionPriority, CompactionStyle, CompressionType,
    DataBlockIndexType, IndexSearchType, InfoLogLevel, IoModeChoice, PinningTier,
    PrepopulateBlobCache, PrepopulateBlockCache, StopStyle,
};
pub use column_family::ColumnFamilyOptions;
pub use database::{DbOptions, DbPath};
pub(crate) use document::database_option_in;
pub use document::{Options, UnknownOptions, set_from_string};
pub use error::{Error, Problem, Result};
pub use group::{
    CompressionOptions, FifoCompactionOptions, FileTemperatureAge, UniversalCompactionOptions,
};
pub use io_mode::RequestedIoMode;
pub(crate) use object::DEFAULT_CACHE_CAPACITY;
pub use object::{CacheCapacity, FilterPolicy, ObjectName, PrefixExtractor};
pub(crate) use sanitize::{sanitize_column_family, sanitize_database};
pub use schema::{Mutability, OptionInfo, OptionTable, OtherName, Verdict};
pub use tailwater::TailwaterOptions;
#[doc(inline)]
pub use tailwater_format::block::IndexShortening;
#[doc(inline)]
pub use tailwater_format::checksum::ChecksumType;
#[doc(inline)]
pub use tailwater_format::options_text::{Document, TextError};
#[doc(inline)]
pub use tailwater_format::record_log::RecoveryMode;
#[doc(inline)]
pub use tailwater_format::table::IndexType;
#[doc(inline)]
pub use tailwater_format::version_edit::Temperature;
pub use value::{OptionValue, ValueKind};
