//! Methods of [`Db`] with default arguments. The names are those of crate `rocksdb`.
//!
//! Each operation has a full form: the suffix `_cf` means that it takes a column family, and `_opt`
//! that it takes options. The shorter forms use the column family `default` and default options,
//! and are inlined calls of the full form.

use std::path::Path;

use tailwater_format::batch::WriteBatch;

use crate::column_family::ColumnFamily;
use crate::compaction::CompactRangeOptions;
use crate::db::{Db, Entries, KeyBounds, MemTableStatistics, SizeOptions};
use crate::error::Result;
use crate::ingest::{IngestOptions, IngestedFile};
use crate::iterator::DbIterator;
use crate::read::{ReadOptions, ValueBuffer};
use crate::table::PinnedValue;
use crate::write::WriteOptions;

static READ: ReadOptions = ReadOptions::new();
static WRITE: WriteOptions = WriteOptions::new();

/// Defines the forms of methods that take a column family and options. Each row has the full form
/// with its arguments between those two (and after the options, if there are any), the options with
/// their default, and the names of three forms: without both, without the column family, and
/// without options.
macro_rules! short_forms {
    ($(
        $(#[$doc:meta])*
        $full:ident($($arg:ident: $type:ty),*; $options:ty = $default:expr $(; $last:ident: $last_type:ty)?) -> $returned:ty:
            $plain:ident, $opt:ident, $cf:ident;
    )*) => {
        impl Db {
            $(
                $(#[$doc])*
                ///
                #[doc = concat!("[`", stringify!($full), "`](Self::", stringify!($full), ")")]
                /// with the column family `default` and default options.
                ///
                /// # Errors
                /// The errors of that method.
                #[inline]
                pub fn $plain(&self $(, $arg: $type)* $(, $last: $last_type)?) -> $returned {
                    self.$full(self.default_cf() $(, $arg)*, &$default $(, $last)?)
                }

                $(#[$doc])*
                ///
                #[doc = concat!("[`", stringify!($full), "`](Self::", stringify!($full), ")")]
                /// with the column family `default`.
                ///
                /// # Errors
                /// The errors of that method.
                #[inline]
                pub fn $opt(
                    &self $(, $arg: $type)*, options: &$options $(, $last: $last_type)?
                ) -> $returned {
                    self.$full(self.default_cf() $(, $arg)*, options $(, $last)?)
                }

                $(#[$doc])*
                ///
                #[doc = concat!("[`", stringify!($full), "`](Self::", stringify!($full), ")")]
                /// with default options.
                ///
                /// # Errors
                /// The errors of that method.
                #[inline]
                pub fn $cf(
                    &self, family: &ColumnFamily $(, $arg: $type)* $(, $last: $last_type)?
                ) -> $returned {
                    self.$full(family $(, $arg)*, &$default $(, $last)?)
                }
            )*
        }
    };
}

/// Defines the forms of methods that take a column family and no options.
macro_rules! default_family_forms {
    ($(
        $(#[$doc:meta])*
        $full:ident($($arg:ident: $type:ty),*) -> $returned:ty: $plain:ident;
    )*) => {
        impl Db {
            $(
                $(#[$doc])*
                ///
                #[doc = concat!("[`", stringify!($full), "`](Self::", stringify!($full), ")")]
                /// with the column family `default`.
                ///
                /// # Errors
                /// The errors of that method.
                #[inline]
                pub fn $plain(&self $(, $arg: $type)*) -> $returned {
                    self.$full(self.default_cf() $(, $arg)*)
                }
            )*
        }
    };
}

short_forms! {
    /// Returns a copy of the value of `key`; `None` if the key has no value.
    get_cf_opt(key: impl AsRef<[u8]>; ReadOptions = READ) -> Result<Option<Vec<u8>>>:
        get, get_opt, get_cf;
    /// Replaces the content of `value` with the value of `key`, and returns true. If the key has no
    /// value, returns false.
    get_into_cf_opt(
        key: impl AsRef<[u8]>; ReadOptions = READ; value: &mut Vec<u8>
    ) -> Result<bool>:
        get_into, get_into_opt, get_into_cf;
    /// Returns the value of `key`, pinned in memory rather than copied; `None` if the key has no
    /// value.
    get_pinned_cf_opt(key: impl AsRef<[u8]>; ReadOptions = READ) -> Result<Option<PinnedValue>>:
        get_pinned, get_pinned_opt, get_pinned_cf;
    /// Returns the values of several keys as of one point in time, in the order of `keys`; `None`
    /// for a key without a value.
    batched_multi_get_cf_opt(
        keys: &[impl AsRef<[u8]>]; ReadOptions = READ
    ) -> Vec<Result<Option<PinnedValue>>>:
        multi_get, multi_get_opt, batched_multi_get_cf;
    /// Passes the values of several keys as of one point in time to `receive`, each with the index
    /// of its key in `keys`; `None` for a key without a value.
    batched_multi_get_with_cf_opt(
        keys: &[impl AsRef<[u8]>]; ReadOptions = READ;
        receive: impl FnMut(usize, Result<Option<PinnedValue>>)
    ) -> ():
        multi_get_with, multi_get_with_opt, batched_multi_get_with_cf;
    /// Copies the values of several keys as of one point in time into `values`, in the order of
    /// `keys`.
    multi_get_into_cf_opt(
        keys: &[impl AsRef<[u8]>]; ReadOptions = READ; values: &mut ValueBuffer
    ) -> ():
        multi_get_into, multi_get_into_opt, multi_get_into_cf;
    /// Creates an iterator. It can seek, and has no position before its first seek.
    raw_iterator_cf_opt(; ReadOptions = READ) -> Result<DbIterator>:
        raw_iterator, raw_iterator_opt, raw_iterator_cf;
    /// Returns an iterator over copies of the entries whose keys are within `bounds`, such as
    /// `"a".."c"`, `"a"..` or `..`, in the order of the keys.
    range_cf_opt(bounds: impl KeyBounds; ReadOptions = READ) -> Entries:
        range, range_opt, range_cf;
    /// Returns an iterator over copies of the entries whose keys begin with `prefix`, in the order
    /// of the keys.
    prefix_cf_opt(prefix: impl AsRef<[u8]>; ReadOptions = READ) -> Entries:
        prefix, prefix_opt, prefix_cf;

    /// Sets the value of `key`.
    put_cf_opt(
        key: impl AsRef<[u8]>, value: impl AsRef<[u8]>; WriteOptions = WRITE
    ) -> Result<()>:
        put, put_opt, put_cf;
    /// Removes `key`; a missing key is no error.
    delete_cf_opt(key: impl AsRef<[u8]>; WriteOptions = WRITE) -> Result<()>:
        delete, delete_opt, delete_cf;
    /// Removes `key`, which must have been put exactly once since a single deletion last removed
    /// it, and must not be merged. Mixed with other deletions of the key, older values may become
    /// visible again.
    single_delete_cf_opt(key: impl AsRef<[u8]>; WriteOptions = WRITE) -> Result<()>:
        single_delete, single_delete_opt, single_delete_cf;
    /// Removes every key from `begin` up to, not including, `end`.
    delete_range_cf_opt(
        begin: impl AsRef<[u8]>, end: impl AsRef<[u8]>; WriteOptions = WRITE
    ) -> Result<()>:
        delete_range, delete_range_opt, delete_range_cf;
    /// Merges `operand` into the value of `key` with the merge operator.
    merge_cf_opt(
        key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>; WriteOptions = WRITE
    ) -> Result<()>:
        merge, merge_opt, merge_cf;

    /// Compacts the keys from `begin` to `end`, both inclusive, down to the last level, and waits
    /// until it is done. `None` means no bound.
    compact_range_cf_opt(
        begin: Option<&[u8]>, end: Option<&[u8]>;
        CompactRangeOptions = CompactRangeOptions::default()
    ) -> Result<()>:
        compact_range, compact_range_opt, compact_range_cf;
    /// Ingests tables made outside the database, all or none. If two files contain the same key,
    /// the later file takes precedence.
    ingest_external_file_cf_opts(
        paths: &[impl AsRef<Path>]; IngestOptions = IngestOptions::default()
    ) -> Result<Vec<IngestedFile>>:
        ingest_external_file, ingest_external_file_opts, ingest_external_file_cf;
    /// Returns the approximate size of each range of keys, by default of its tables, in bytes. A
    /// range includes its first key and excludes its second.
    approximate_sizes_cf_opt(
        ranges: &[(&[u8], &[u8])]; SizeOptions = SizeOptions::new()
    ) -> Result<Vec<u64>>:
        approximate_sizes, approximate_sizes_opt, approximate_sizes_cf;
}

default_family_forms! {
    /// Flushes the memtables to a table, and waits until the flush is complete.
    flush_cf() -> Result<()>: flush;
    /// Changes options, each given as a name and a value, while the database is open: all of them
    /// or none.
    set_options_cf(changes: &[(&str, &str)]) -> Result<()>: set_options;
    /// Returns a property by its name, such as `rocksdb.levelstats`, as text; `None` if the
    /// property is unknown. [`PROPERTY_NAMES`](crate::PROPERTY_NAMES) lists the names.
    property_value_cf(name: &str) -> Result<Option<String>>: property_value;
    /// Returns a property, such as `rocksdb.num-files-at-level0`, as a number; `None` if the
    /// property is unknown. Sizes are in bytes.
    property_int_value_cf(name: &str) -> Result<Option<u64>>: property_int_value;
    /// Returns whether a compaction is needed. Also true if it cannot start at present.
    needs_compaction_cf() -> Result<bool>: needs_compaction;
    /// Returns the approximate number and size of the entries that the memtables have in a range of
    /// keys. Visits every entry in the range.
    approximate_memtable_stats_cf(
        begin: &[u8], end: &[u8]
    ) -> Result<MemTableStatistics>: approximate_memtable_stats;
}

impl Db {
    /// Returns the values of several keys, each with the column family to search, as of one point
    /// in time, in the order of `keys`; `None` for a key without a value.
    ///
    /// [`multi_get_cf_opt`](Self::multi_get_cf_opt) with default options.
    ///
    /// # Errors
    /// The errors of that method.
    #[inline]
    pub fn multi_get_cf(
        &self,
        keys: &[(&ColumnFamily, impl AsRef<[u8]>)],
    ) -> Vec<Result<Option<PinnedValue>>> {
        self.multi_get_cf_opt(keys, &READ)
    }

    /// Writes a batch atomically, and sets its sequence number.
    ///
    /// [`write_opt`](Self::write_opt) with default options.
    ///
    /// # Errors
    /// The errors of that method.
    #[inline]
    pub fn write(&self, batch: &mut WriteBatch) -> Result<()> {
        self.write_opt(batch, &WRITE)
    }
}
