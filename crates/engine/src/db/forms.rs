//! Short forms of the methods of [`Db`], under the names of crate `rocksdb`.
//!
//! Each operation has one full form: `_cf` takes a column family, `_opt` takes options, and options
//! come last. The shorter forms use the column family `default` and default options, and are
//! inlined calls of the full one.

use std::path::Path;

use tailwater_format::batch::WriteBatch;

use crate::column_family::ColumnFamily;
use crate::compaction::CompactRangeOptions;
use crate::db::{Db, Entries, KeyBounds};
use crate::error::{Error, Result};
use crate::ingest::{IngestOptions, IngestedFile};
use crate::iterator::DbIterator;
use crate::read::ReadOptions;
use crate::table::PinnedValue;
use crate::write::WriteOptions;

static READ: ReadOptions = ReadOptions::new();
static WRITE: WriteOptions = WriteOptions { sync: false, disable_wal: false, no_slowdown: false };

impl Db {
    /// Calls [`Db::get_cf_opt`] for the column family `default`, with default options.
    ///
    /// # Errors
    /// The errors of [`Db::get_cf_opt`].
    #[inline]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.get_cf_opt(self.default_cf(), key, &READ)
    }

    /// Calls [`Db::get_cf_opt`] for the column family `default`.
    ///
    /// # Errors
    /// The errors of [`Db::get_cf_opt`].
    #[inline]
    pub fn get_opt(&self, key: impl AsRef<[u8]>, options: &ReadOptions) -> Result<Option<Vec<u8>>> {
        self.get_cf_opt(self.default_cf(), key, options)
    }

    /// Calls [`Db::get_cf_opt`] with default options.
    ///
    /// # Errors
    /// The errors of [`Db::get_cf_opt`].
    #[inline]
    pub fn get_cf(&self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.get_cf_opt(family, key, &READ)
    }

    /// Calls [`Db::get_into_cf_opt`] for the column family `default`, with default options.
    ///
    /// # Errors
    /// The errors of [`Db::get_into_cf_opt`].
    #[inline]
    pub fn get_into(&self, key: impl AsRef<[u8]>, value: &mut Vec<u8>) -> Result<bool> {
        self.get_into_cf_opt(self.default_cf(), key, &READ, value)
    }

    /// Calls [`Db::get_into_cf_opt`] for the column family `default`.
    ///
    /// # Errors
    /// The errors of [`Db::get_into_cf_opt`].
    #[inline]
    pub fn get_into_opt(
        &self,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        self.get_into_cf_opt(self.default_cf(), key, options, value)
    }

    /// Calls [`Db::get_into_cf_opt`] with default options.
    ///
    /// # Errors
    /// The errors of [`Db::get_into_cf_opt`].
    #[inline]
    pub fn get_into_cf(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        self.get_into_cf_opt(family, key, &READ, value)
    }

    /// Calls [`Db::get_pinned_cf_opt`] for the column family `default`, with default options.
    ///
    /// # Errors
    /// The errors of [`Db::get_pinned_cf_opt`].
    #[inline]
    pub fn get_pinned(&self, key: impl AsRef<[u8]>) -> Result<Option<PinnedValue>> {
        self.get_pinned_cf_opt(self.default_cf(), key, &READ)
    }

    /// Calls [`Db::get_pinned_cf_opt`] for the column family `default`.
    ///
    /// # Errors
    /// The errors of [`Db::get_pinned_cf_opt`].
    #[inline]
    pub fn get_pinned_opt(
        &self,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
    ) -> Result<Option<PinnedValue>> {
        self.get_pinned_cf_opt(self.default_cf(), key, options)
    }

    /// Calls [`Db::get_pinned_cf_opt`] with default options.
    ///
    /// # Errors
    /// The errors of [`Db::get_pinned_cf_opt`].
    #[inline]
    pub fn get_pinned_cf(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<PinnedValue>> {
        self.get_pinned_cf_opt(family, key, &READ)
    }

    /// Calls [`Db::multi_get_cf_opt`] for the column family `default`, with default options.
    ///
    /// # Errors
    /// The errors of [`Db::multi_get_cf_opt`].
    #[inline]
    pub fn multi_get(&self, keys: &[impl AsRef<[u8]>]) -> Vec<Result<Option<PinnedValue>>> {
        self.multi_get_cf_opt(self.default_cf(), keys, &READ)
    }

    /// Calls [`Db::multi_get_cf_opt`] for the column family `default`.
    ///
    /// # Errors
    /// The errors of [`Db::multi_get_cf_opt`].
    #[inline]
    pub fn multi_get_opt(
        &self,
        keys: &[impl AsRef<[u8]>],
        options: &ReadOptions,
    ) -> Vec<Result<Option<PinnedValue>>> {
        self.multi_get_cf_opt(self.default_cf(), keys, options)
    }

    /// Calls [`Db::multi_get_cf_opt`] with default options.
    ///
    /// # Errors
    /// The errors of [`Db::multi_get_cf_opt`].
    #[inline]
    pub fn multi_get_cf(
        &self,
        family: &ColumnFamily,
        keys: &[impl AsRef<[u8]>],
    ) -> Vec<Result<Option<PinnedValue>>> {
        self.multi_get_cf_opt(family, keys, &READ)
    }

    /// Calls [`Db::raw_iterator_cf_opt`] for the column family `default`, with default options.
    ///
    /// # Errors
    /// The errors of [`Db::raw_iterator_cf_opt`].
    #[inline]
    pub fn raw_iterator(&self) -> Result<DbIterator> {
        self.raw_iterator_cf_opt(self.default_cf(), &READ)
    }

    /// Calls [`Db::raw_iterator_cf_opt`] for the column family `default`.
    ///
    /// # Errors
    /// The errors of [`Db::raw_iterator_cf_opt`].
    #[inline]
    pub fn raw_iterator_opt(&self, options: &ReadOptions) -> Result<DbIterator> {
        self.raw_iterator_cf_opt(self.default_cf(), options)
    }

    /// Calls [`Db::raw_iterator_cf_opt`] with default options.
    ///
    /// # Errors
    /// The errors of [`Db::raw_iterator_cf_opt`].
    #[inline]
    pub fn raw_iterator_cf(&self, family: &ColumnFamily) -> Result<DbIterator> {
        self.raw_iterator_cf_opt(family, &READ)
    }

    /// Calls [`Db::range_cf_opt`] for the column family `default`, with default options.
    ///
    /// # Errors
    /// The errors of [`Db::range_cf_opt`].
    #[inline]
    pub fn range(&self, bounds: impl KeyBounds) -> Entries {
        self.range_cf_opt(self.default_cf(), bounds, &READ)
    }

    /// Calls [`Db::range_cf_opt`] for the column family `default`.
    ///
    /// # Errors
    /// The errors of [`Db::range_cf_opt`].
    #[inline]
    pub fn range_opt(&self, bounds: impl KeyBounds, options: &ReadOptions) -> Entries {
        self.range_cf_opt(self.default_cf(), bounds, options)
    }

    /// Calls [`Db::range_cf_opt`] with default options.
    ///
    /// # Errors
    /// The errors of [`Db::range_cf_opt`].
    #[inline]
    pub fn range_cf(&self, family: &ColumnFamily, bounds: impl KeyBounds) -> Entries {
        self.range_cf_opt(family, bounds, &READ)
    }

    /// Calls [`Db::prefix_cf_opt`] for the column family `default`, with default options.
    ///
    /// # Errors
    /// The errors of [`Db::prefix_cf_opt`].
    #[inline]
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Entries {
        self.prefix_cf_opt(self.default_cf(), prefix, &READ)
    }

    /// Calls [`Db::prefix_cf_opt`] for the column family `default`.
    ///
    /// # Errors
    /// The errors of [`Db::prefix_cf_opt`].
    #[inline]
    pub fn prefix_opt(&self, prefix: impl AsRef<[u8]>, options: &ReadOptions) -> Entries {
        self.prefix_cf_opt(self.default_cf(), prefix, options)
    }

    /// Calls [`Db::prefix_cf_opt`] with default options.
    ///
    /// # Errors
    /// The errors of [`Db::prefix_cf_opt`].
    #[inline]
    pub fn prefix_cf(&self, family: &ColumnFamily, prefix: impl AsRef<[u8]>) -> Entries {
        self.prefix_cf_opt(family, prefix, &READ)
    }

    /// Calls [`Db::put_cf_opt`] for the column family `default`, with default options.
    ///
    /// # Errors
    /// The errors of [`Db::put_cf_opt`].
    #[inline]
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_cf_opt(self.default_cf(), key, value, &WRITE)
    }

    /// Calls [`Db::put_cf_opt`] for the column family `default`.
    ///
    /// # Errors
    /// The errors of [`Db::put_cf_opt`].
    #[inline]
    pub fn put_opt(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        self.put_cf_opt(self.default_cf(), key, value, options)
    }

    /// Calls [`Db::put_cf_opt`] with default options.
    ///
    /// # Errors
    /// The errors of [`Db::put_cf_opt`].
    #[inline]
    pub fn put_cf(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.put_cf_opt(family, key, value, &WRITE)
    }

    /// Calls [`Db::delete_cf_opt`] for the column family `default`, with default options.
    ///
    /// # Errors
    /// The errors of [`Db::delete_cf_opt`].
    #[inline]
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_cf_opt(self.default_cf(), key, &WRITE)
    }

    /// Calls [`Db::delete_cf_opt`] for the column family `default`.
    ///
    /// # Errors
    /// The errors of [`Db::delete_cf_opt`].
    #[inline]
    pub fn delete_opt(&self, key: impl AsRef<[u8]>, options: &WriteOptions) -> Result<()> {
        self.delete_cf_opt(self.default_cf(), key, options)
    }

    /// Calls [`Db::delete_cf_opt`] with default options.
    ///
    /// # Errors
    /// The errors of [`Db::delete_cf_opt`].
    #[inline]
    pub fn delete_cf(&self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_cf_opt(family, key, &WRITE)
    }

    /// Calls [`Db::single_delete_cf_opt`] for the column family `default`, with default options.
    ///
    /// # Errors
    /// The errors of [`Db::single_delete_cf_opt`].
    #[inline]
    pub fn single_delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.single_delete_cf_opt(self.default_cf(), key, &WRITE)
    }

    /// Calls [`Db::single_delete_cf_opt`] for the column family `default`.
    ///
    /// # Errors
    /// The errors of [`Db::single_delete_cf_opt`].
    #[inline]
    pub fn single_delete_opt(&self, key: impl AsRef<[u8]>, options: &WriteOptions) -> Result<()> {
        self.single_delete_cf_opt(self.default_cf(), key, options)
    }

    /// Calls [`Db::single_delete_cf_opt`] with default options.
    ///
    /// # Errors
    /// The errors of [`Db::single_delete_cf_opt`].
    #[inline]
    pub fn single_delete_cf(&self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<()> {
        self.single_delete_cf_opt(family, key, &WRITE)
    }

    /// Calls [`Db::delete_range_cf_opt`] for the column family `default`, with default options.
    ///
    /// # Errors
    /// The errors of [`Db::delete_range_cf_opt`].
    #[inline]
    pub fn delete_range(&self, begin: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Result<()> {
        self.delete_range_cf_opt(self.default_cf(), begin, end, &WRITE)
    }

    /// Calls [`Db::delete_range_cf_opt`] for the column family `default`.
    ///
    /// # Errors
    /// The errors of [`Db::delete_range_cf_opt`].
    #[inline]
    pub fn delete_range_opt(
        &self,
        begin: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        self.delete_range_cf_opt(self.default_cf(), begin, end, options)
    }

    /// Calls [`Db::delete_range_cf_opt`] with default options.
    ///
    /// # Errors
    /// The errors of [`Db::delete_range_cf_opt`].
    #[inline]
    pub fn delete_range_cf(
        &self,
        family: &ColumnFamily,
        begin: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.delete_range_cf_opt(family, begin, end, &WRITE)
    }

    /// Calls [`Db::merge_cf_opt`] for the column family `default`, with default options.
    ///
    /// # Errors
    /// The errors of [`Db::merge_cf_opt`].
    #[inline]
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.merge_cf_opt(self.default_cf(), key, operand, &WRITE)
    }

    /// Calls [`Db::merge_cf_opt`] for the column family `default`.
    ///
    /// # Errors
    /// The errors of [`Db::merge_cf_opt`].
    #[inline]
    pub fn merge_opt(
        &self,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        self.merge_cf_opt(self.default_cf(), key, operand, options)
    }

    /// Calls [`Db::merge_cf_opt`] with default options.
    ///
    /// # Errors
    /// The errors of [`Db::merge_cf_opt`].
    #[inline]
    pub fn merge_cf(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.merge_cf_opt(family, key, operand, &WRITE)
    }

    /// Calls [`Db::compact_range_cf_opt`] for the column family `default`, with default options.
    ///
    /// # Errors
    /// The errors of [`Db::compact_range_cf_opt`].
    #[inline]
    pub fn compact_range(&self, begin: Option<&[u8]>, end: Option<&[u8]>) -> Result<()> {
        self.compact_range_cf_opt(self.default_cf(), begin, end, &CompactRangeOptions::default())
    }

    /// Calls [`Db::compact_range_cf_opt`] for the column family `default`.
    ///
    /// # Errors
    /// The errors of [`Db::compact_range_cf_opt`].
    #[inline]
    pub fn compact_range_opt(
        &self,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
        options: &CompactRangeOptions,
    ) -> Result<()> {
        self.compact_range_cf_opt(self.default_cf(), begin, end, options)
    }

    /// Calls [`Db::compact_range_cf_opt`] with default options.
    ///
    /// # Errors
    /// The errors of [`Db::compact_range_cf_opt`].
    #[inline]
    pub fn compact_range_cf(
        &self,
        family: &ColumnFamily,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Result<()> {
        self.compact_range_cf_opt(family, begin, end, &CompactRangeOptions::default())
    }

    /// Calls [`Db::ingest_external_file_cf_opts`] for the column family `default`, with default
    /// options.
    ///
    /// # Errors
    /// The errors of [`Db::ingest_external_file_cf_opts`].
    #[inline]
    pub fn ingest_external_file(&self, paths: &[impl AsRef<Path>]) -> Result<Vec<IngestedFile>> {
        self.ingest_external_file_cf_opts(self.default_cf(), paths, &IngestOptions::default())
    }

    /// Calls [`Db::ingest_external_file_cf_opts`] for the column family `default`.
    ///
    /// # Errors
    /// The errors of [`Db::ingest_external_file_cf_opts`].
    #[inline]
    pub fn ingest_external_file_opts(
        &self,
        paths: &[impl AsRef<Path>],
        options: &IngestOptions,
    ) -> Result<Vec<IngestedFile>> {
        self.ingest_external_file_cf_opts(self.default_cf(), paths, options)
    }

    /// Calls [`Db::ingest_external_file_cf_opts`] with default options.
    ///
    /// # Errors
    /// The errors of [`Db::ingest_external_file_cf_opts`].
    #[inline]
    pub fn ingest_external_file_cf(
        &self,
        family: &ColumnFamily,
        paths: &[impl AsRef<Path>],
    ) -> Result<Vec<IngestedFile>> {
        self.ingest_external_file_cf_opts(family, paths, &IngestOptions::default())
    }

    /// Calls [`Db::write_opt`] with default options.
    ///
    /// # Errors
    /// The errors of [`Db::write_opt`].
    #[inline]
    pub fn write(&self, batch: &mut WriteBatch) -> Result<()> {
        self.write_opt(batch, &WRITE)
    }

    /// Calls [`Db::flush_cf`] for the column family `default`.
    ///
    /// # Errors
    /// The errors of [`Db::flush_cf`].
    pub fn flush(&self) -> Result<()> {
        self.flush_cf(self.default_cf())
    }

    /// Calls [`Db::set_options_cf`] for the column family `default`.
    ///
    /// # Errors
    /// The errors of [`Db::set_options_cf`].
    pub fn set_options(&self, changes: &[(&str, &str)]) -> Result<()> {
        self.set_options_cf(self.default_cf(), changes)
    }

    /// Calls [`Db::property_value_cf`] for the column family `default`.
    ///
    /// # Errors
    /// The errors of [`Db::property_value_cf`].
    pub fn property_value(&self, name: &str) -> Result<Option<String>> {
        self.property_value_cf(self.default_cf(), name)
    }

    /// Calls [`Db::property_int_value_cf`] for the column family `default`.
    ///
    /// # Errors
    /// The errors of [`Db::property_int_value_cf`].
    pub fn property_int_value(&self, name: &str) -> Result<Option<u64>> {
        self.property_int_value_cf(self.default_cf(), name)
    }

    /// Returns a property of a column family as a number; see [`Db::property_value_cf`].
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
}
