//! Methods with default arguments for compaction, ingestion, flushes, changes of options, and
//! properties.

use std::path::Path;

use crate::column_family::ColumnFamily;
use crate::compaction::CompactRangeOptions;
use crate::db::{Db, MemTableStatistics, SizeOptions};
use crate::error::{Error, Result};
use crate::ingest::{IngestOptions, IngestedFile};

impl Db {
    /// Compacts the keys of the column family `default` from `begin` to `end`, both inclusive, down
    /// to the last level, and waits until it is done. `None` means no bound.
    ///
    /// Like [`Db::compact_range_cf_opt`] with default options.
    ///
    /// # Errors
    /// Errors from flushing; corruption, for damaged tables; busy, while compactions are paused:
    /// see [`Db::compact_range_cf_opt`].
    #[inline]
    pub fn compact_range(&self, begin: Option<&[u8]>, end: Option<&[u8]>) -> Result<()> {
        self.compact_range_cf_opt(self.default_cf(), begin, end, &CompactRangeOptions::default())
    }

    /// Compacts the keys of the column family `default` from `begin` to `end`, both inclusive, down
    /// to the last level, and waits until it is done. `None` means no bound.
    ///
    /// Like [`Db::compact_range_cf_opt`], with the given options.
    ///
    /// # Errors
    /// Errors from flushing; corruption, for damaged tables; busy, while compactions are paused:
    /// see [`Db::compact_range_cf_opt`].
    #[inline]
    pub fn compact_range_opt(
        &self,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
        options: &CompactRangeOptions,
    ) -> Result<()> {
        self.compact_range_cf_opt(self.default_cf(), begin, end, options)
    }

    /// Compacts the keys of `family` from `begin` to `end`, both inclusive, down to the last level,
    /// and waits until it is done. `None` means no bound.
    ///
    /// Like [`Db::compact_range_cf_opt`] with default options.
    ///
    /// # Errors
    /// Errors from flushing; corruption, for damaged tables; busy, while compactions are paused:
    /// see [`Db::compact_range_cf_opt`].
    #[inline]
    pub fn compact_range_cf(
        &self,
        family: &ColumnFamily,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Result<()> {
        self.compact_range_cf_opt(family, begin, end, &CompactRangeOptions::default())
    }

    /// Ingests tables made outside the database into the column family `default`, all or none. If
    /// two files contain the same key, the later file takes precedence.
    ///
    /// Like [`Db::ingest_external_file_cf_opts`] with default options.
    ///
    /// # Errors
    /// Not found, corruption and invalid argument, which name the file; errors from writing: see
    /// [`Db::ingest_external_file_cf_opts`].
    #[inline]
    pub fn ingest_external_file(&self, paths: &[impl AsRef<Path>]) -> Result<Vec<IngestedFile>> {
        self.ingest_external_file_cf_opts(self.default_cf(), paths, &IngestOptions::default())
    }

    /// Ingests tables made outside the database into the column family `default`, all or none. If
    /// two files contain the same key, the later file takes precedence.
    ///
    /// Like [`Db::ingest_external_file_cf_opts`], with the given options.
    ///
    /// # Errors
    /// Not found, corruption and invalid argument, which name the file; errors from writing: see
    /// [`Db::ingest_external_file_cf_opts`].
    #[inline]
    pub fn ingest_external_file_opts(
        &self,
        paths: &[impl AsRef<Path>],
        options: &IngestOptions,
    ) -> Result<Vec<IngestedFile>> {
        self.ingest_external_file_cf_opts(self.default_cf(), paths, options)
    }

    /// Ingests tables made outside the database into `family`, all or none. If two files contain
    /// the same key, the later file takes precedence.
    ///
    /// Like [`Db::ingest_external_file_cf_opts`] with default options.
    ///
    /// # Errors
    /// Not found, corruption and invalid argument, which name the file; errors from writing: see
    /// [`Db::ingest_external_file_cf_opts`].
    #[inline]
    pub fn ingest_external_file_cf(
        &self,
        family: &ColumnFamily,
        paths: &[impl AsRef<Path>],
    ) -> Result<Vec<IngestedFile>> {
        self.ingest_external_file_cf_opts(family, paths, &IngestOptions::default())
    }

    /// Flushes the memtables of the column family `default` to a table, and waits until the flush
    /// is complete.
    ///
    /// Like [`Db::flush_cf`].
    ///
    /// # Errors
    /// Errors from writing; panicked, for user code that panics.
    pub fn flush(&self) -> Result<()> {
        self.flush_cf(self.default_cf())
    }

    /// Changes options of the column family `default`, each given as a name and a value, while the
    /// database is open: all of them or none.
    ///
    /// Like [`Db::set_options_cf`].
    ///
    /// # Errors
    /// Invalid argument, naming the option, and errors from writing the OPTIONS file. On an error
    /// nothing is changed.
    pub fn set_options(&self, changes: &[(&str, &str)]) -> Result<()> {
        self.set_options_cf(self.default_cf(), changes)
    }

    /// Returns a property of the column family `default` by its name, such as `rocksdb.levelstats`,
    /// as text; `None` if the property is unknown.
    ///
    /// Like [`Db::property_value_cf`]; [`PROPERTY_NAMES`](crate::PROPERTY_NAMES) lists the names.
    ///
    /// # Errors
    /// Errors from opening tables, for properties derived from tables.
    pub fn property_value(&self, name: &str) -> Result<Option<String>> {
        self.property_value_cf(self.default_cf(), name)
    }

    /// Returns a property of the column family `default`, such as `rocksdb.num-files-at-level0`, as
    /// a number; `None` if the property is unknown. Sizes are in bytes.
    ///
    /// Like [`Db::property_int_value_cf`].
    ///
    /// # Errors
    /// Errors from opening tables; invalid argument, for a property that is not a number.
    pub fn property_int_value(&self, name: &str) -> Result<Option<u64>> {
        self.property_int_value_cf(self.default_cf(), name)
    }

    /// Returns a property of `family`, such as `rocksdb.num-files-at-level0`, as a number; `None`
    /// if the property is unknown. Sizes are in bytes.
    ///
    /// Like [`Db::property_value_cf`], but parses the text as a number.
    ///
    /// # Errors
    /// The errors of [`Db::property_value_cf`]; invalid argument, for a property that is not a
    /// number.
    pub fn property_int_value_cf(&self, family: &ColumnFamily, name: &str) -> Result<Option<u64>> {
        let Some(text) = self.property_value_cf(family, name)? else { return Ok(None) };
        let number = text
            .parse()
            .map_err(|_| Error::invalid_argument(format!("property '{name}' is not a number")))?;
        Ok(Some(number))
    }

    /// Whether the column family `default` needs a compaction. Also true if the compaction cannot
    /// start at present.
    ///
    /// Like [`Db::needs_compaction_cf`].
    ///
    /// # Errors
    /// None for the column family `default`.
    #[inline]
    pub fn needs_compaction(&self) -> Result<bool> {
        self.needs_compaction_cf(self.default_cf())
    }

    /// Returns the approximate size of the tables in each range of keys of the column family
    /// `default`, in bytes. A range includes its first key and excludes its second.
    ///
    /// Like [`Db::approximate_sizes_cf_opt`] with default options.
    ///
    /// # Errors
    /// Invalid argument, if a range ends before it begins; errors from opening tables and reading
    /// their indexes: see [`Db::approximate_sizes_cf_opt`].
    #[inline]
    pub fn approximate_sizes(&self, ranges: &[(&[u8], &[u8])]) -> Result<Vec<u64>> {
        self.approximate_sizes_cf_opt(self.default_cf(), ranges, &SizeOptions::new())
    }

    /// Returns the approximate size of each range of keys of the column family `default`, in bytes.
    /// A range includes its first key and excludes its second.
    ///
    /// Like [`Db::approximate_sizes_cf_opt`], with the given options.
    ///
    /// # Errors
    /// Invalid argument, if no `include_` option is set or a range ends before it begins; errors
    /// from opening tables and reading their indexes: see [`Db::approximate_sizes_cf_opt`].
    #[inline]
    pub fn approximate_sizes_opt(
        &self,
        ranges: &[(&[u8], &[u8])],
        options: &SizeOptions,
    ) -> Result<Vec<u64>> {
        self.approximate_sizes_cf_opt(self.default_cf(), ranges, options)
    }

    /// Returns the approximate size of the tables in each range of keys of `family`, in bytes. A
    /// range includes its first key and excludes its second.
    ///
    /// Like [`Db::approximate_sizes_cf_opt`] with default options.
    ///
    /// # Errors
    /// Invalid argument, if a range ends before it begins or the column family was not obtained
    /// from this `Db`; errors from opening tables and reading their indexes: see
    /// [`Db::approximate_sizes_cf_opt`].
    #[inline]
    pub fn approximate_sizes_cf(
        &self,
        family: &ColumnFamily,
        ranges: &[(&[u8], &[u8])],
    ) -> Result<Vec<u64>> {
        self.approximate_sizes_cf_opt(family, ranges, &SizeOptions::new())
    }

    /// Returns the approximate number and size of the entries that the memtables of the column
    /// family `default` have in a range of keys. Visits every entry in the range.
    ///
    /// Like [`Db::approximate_memtable_stats_cf`].
    ///
    /// # Errors
    /// Invalid argument, if the range ends before it begins.
    #[inline]
    pub fn approximate_memtable_stats(
        &self,
        begin: &[u8],
        end: &[u8],
    ) -> Result<MemTableStatistics> {
        self.approximate_memtable_stats_cf(self.default_cf(), begin, end)
    }
}
