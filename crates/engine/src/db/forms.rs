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
    /// [`Db::get_cf_opt`] in the column family `default`, with default options.
    ///
    /// # Errors
    /// The errors of [`Db::get_cf_opt`].
    #[inline]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.get_cf_opt(self.default_cf(), key, &READ)
    }

    /// [`Db::get_cf_opt`] in the column family `default`.
    ///
    /// # Errors
    /// The errors of [`Db::get_cf_opt`].
    #[inline]
    pub fn get_opt(&self, key: impl AsRef<[u8]>, options: &ReadOptions) -> Result<Option<Vec<u8>>> {
        self.get_cf_opt(self.default_cf(), key, options)
    }

    /// [`Db::get_cf_opt`] with default options.
    ///
    /// # Errors
    /// The errors of [`Db::get_cf_opt`].
    #[inline]
    pub fn get_cf(&self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.get_cf_opt(family, key, &READ)
    }

    /// [`Db::get_into_cf_opt`] in the column family `default`, with default options.
    ///
    /// # Errors
    /// The errors of [`Db::get_into_cf_opt`].
    #[inline]
    pub fn get_into(&self, key: impl AsRef<[u8]>, value: &mut Vec<u8>) -> Result<bool> {
        self.get_into_cf_opt(self.default_cf(), key, &READ, value)
    }

    /// [`Db::get_into_cf_opt`] in the column family `default`.
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

    /// [`Db::get_into_cf_opt`] with default options.
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

    /// [`Db::get_pinned_cf_opt`] in the column family `default`, with default options.
    ///
    /// # Errors
    /// The errors of [`Db::get_pinned_cf_opt`].
    #[inline]
    pub fn get_pinned(&self, key: impl AsRef<[u8]>) -> Result<Option<PinnedValue>> {
        self.get_pinned_cf_opt(self.default_cf(), key, &READ)
    }

    /// [`Db::get_pinned_cf_opt`] in the column family `default`.
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

    /// [`Db::get_pinned_cf_opt`] with default options.
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

    /// [`Db::multi_get_cf_opt`] in the column family `default`, with default options.
    ///
    /// # Errors
    /// The errors of [`Db::multi_get_cf_opt`].
    #[inline]
    pub fn multi_get(&self, keys: &[impl AsRef<[u8]>]) -> Vec<Result<Option<PinnedValue>>> {
        self.multi_get_cf_opt(self.default_cf(), keys, &READ)
    }

    /// [`Db::multi_get_cf_opt`] in the column family `default`.
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

    /// [`Db::multi_get_cf_opt`] with default options.
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

    /// [`Db::raw_iterator_cf_opt`] in the column family `default`, with default options.
    ///
    /// # Errors
    /// The errors of [`Db::raw_iterator_cf_opt`].
    #[inline]
    pub fn raw_iterator(&self) -> Result<DbIterator> {
        self.raw_iterator_cf_opt(self.default_cf(), &READ)
    }

    /// [`Db::raw_iterator_cf_opt`] in the column family `default`.
    ///
    /// # Errors
    /// The errors of [`Db::raw_iterator_cf_opt`].
    #[inline]
    pub fn raw_iterator_opt(&self, options: &ReadOptions) -> Result<DbIterator> {
        self.raw_iterator_cf_opt(self.default_cf(), options)
    }

    /// [`Db::raw_iterator_cf_opt`] with default options.
    ///
    /// # Errors
    /// The errors of [`Db::raw_iterator_cf_opt`].
    #[inline]
    pub fn raw_iterator_cf(&self, family: &ColumnFamily) -> Result<DbIterator> {
        self.raw_iterator_cf_opt(family, &READ)
    }

    /// [`Db::range_cf_opt`] in the column family `default`, with default options.
    ///
    /// # Errors
    /// The errors of [`Db::range_cf_opt`].
    #[inline]
    pub fn range(&self, bounds: impl KeyBounds) -> Entries {
        self.range_cf_opt(self.default_cf(), bounds, &READ)
    }

    /// [`Db::range_cf_opt`] in the column family `default`.
    ///
    /// # Errors
    /// The errors of [`Db::range_cf_opt`].
    #[inline]
    pub fn range_opt(&self, bounds: impl KeyBounds, options: &ReadOptions) -> Entries {
        self.range_cf_opt(self.default_cf(), bounds, options)
    }

    /// [`Db::range_cf_opt`] with default options.
    ///
    /// # Errors
    /// The errors of [`Db::range_cf_opt`].
    #[inline]
    pub fn range_cf(&self, family: &ColumnFamily, bounds: impl KeyBounds) -> Entries {
        self.range_cf_opt(family, bounds, &READ)
    }

    /// [`Db::prefix_cf_opt`] in the column family `default`, with default options.
    ///
    /// # Errors
    /// The errors of [`Db::prefix_cf_opt`].
    #[inline]
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Entries {
        self.prefix_cf_opt(self.default_cf(), prefix, &READ)
    }

    /// [`Db::prefix_cf_opt`] in the column family `default`.
    ///
    /// # Errors
    /// The errors of [`Db::prefix_cf_opt`].
    #[inline]
    pub fn prefix_opt(&self, prefix: impl AsRef<[u8]>, options: &ReadOptions) -> Entries {
        self.prefix_cf_opt(self.default_cf(), prefix, options)
    }

    /// [`Db::prefix_cf_opt`] with default options.
    ///
    /// # Errors
    /// The errors of [`Db::prefix_cf_opt`].
    #[inline]
    pub fn prefix_cf(&self, family: &ColumnFamily, prefix: impl AsRef<[u8]>) -> Entries {
        self.prefix_cf_opt(family, prefix, &READ)
    }

    /// [`Db::put_cf_opt`] in the column family `default`, with default options.
    ///
    /// # Errors
    /// The errors of [`Db::put_cf_opt`].
    #[inline]
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_cf_opt(self.default_cf(), key, value, &WRITE)
    }

    /// [`Db::put_cf_opt`] in the column family `default`.
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

    /// [`Db::put_cf_opt`] with default options.
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

    /// [`Db::delete_cf_opt`] in the column family `default`, with default options.
    ///
    /// # Errors
    /// The errors of [`Db::delete_cf_opt`].
    #[inline]
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_cf_opt(self.default_cf(), key, &WRITE)
    }

    /// [`Db::delete_cf_opt`] in the column family `default`.
    ///
    /// # Errors
    /// The errors of [`Db::delete_cf_opt`].
    #[inline]
    pub fn delete_opt(&self, key: impl AsRef<[u8]>, options: &WriteOptions) -> Result<()> {
        self.delete_cf_opt(self.default_cf(), key, options)
    }

    /// [`Db::delete_cf_opt`] with default options.
    ///
    /// # Errors
    /// The errors of [`Db::delete_cf_opt`].
    #[inline]
    pub fn delete_cf(&self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_cf_opt(family, key, &WRITE)
    }

    /// [`Db::single_delete_cf_opt`] in the column family `default`, with default options.
    ///
    /// # Errors
    /// The errors of [`Db::single_delete_cf_opt`].
    #[inline]
    pub fn single_delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.single_delete_cf_opt(self.default_cf(), key, &WRITE)
    }

    /// [`Db::single_delete_cf_opt`] in the column family `default`.
    ///
    /// # Errors
    /// The errors of [`Db::single_delete_cf_opt`].
    #[inline]
    pub fn single_delete_opt(&self, key: impl AsRef<[u8]>, options: &WriteOptions) -> Result<()> {
        self.single_delete_cf_opt(self.default_cf(), key, options)
    }

    /// [`Db::single_delete_cf_opt`] with default options.
    ///
    /// # Errors
    /// The errors of [`Db::single_delete_cf_opt`].
    #[inline]
    pub fn single_delete_cf(&self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<()> {
        self.single_delete_cf_opt(family, key, &WRITE)
    }

    /// [`Db::delete_range_cf_opt`] in the column family `default`, with default options.
    ///
    /// # Errors
    /// The errors of [`Db::delete_range_cf_opt`].
    #[inline]
    pub fn delete_range(&self, begin: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Result<()> {
        self.delete_range_cf_opt(self.default_cf(), begin, end, &WRITE)
    }

    /// [`Db::delete_range_cf_opt`] in the column family `default`.
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

    /// [`Db::delete_range_cf_opt`] with default options.
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

    /// [`Db::merge_cf_opt`] in the column family `default`, with default options.
    ///
    /// # Errors
    /// The errors of [`Db::merge_cf_opt`].
    #[inline]
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.merge_cf_opt(self.default_cf(), key, operand, &WRITE)
    }

    /// [`Db::merge_cf_opt`] in the column family `default`.
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

    /// [`Db::merge_cf_opt`] with default options.
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

    /// [`Db::compact_range_cf_opt`] in the column family `default`, with default options.
    ///
    /// # Errors
    /// The errors of [`Db::compact_range_cf_opt`].
    #[inline]
    pub fn compact_range(&self, begin: Option<&[u8]>, end: Option<&[u8]>) -> Result<()> {
        self.compact_range_cf_opt(self.default_cf(), begin, end, &CompactRangeOptions::default())
    }

    /// [`Db::compact_range_cf_opt`] in the column family `default`.
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

    /// [`Db::compact_range_cf_opt`] with default options.
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

    /// [`Db::ingest_external_file_cf_opts`] in the column family `default`, with default options.
    ///
    /// # Errors
    /// The errors of [`Db::ingest_external_file_cf_opts`].
    #[inline]
    pub fn ingest_external_file(&self, paths: &[impl AsRef<Path>]) -> Result<Vec<IngestedFile>> {
        self.ingest_external_file_cf_opts(self.default_cf(), paths, &IngestOptions::default())
    }

    /// [`Db::ingest_external_file_cf_opts`] in the column family `default`.
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

    /// [`Db::ingest_external_file_cf_opts`] with default options.
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

    /// [`Db::write_opt`] with default options.
    ///
    /// # Errors
    /// The errors of [`Db::write_opt`].
    #[inline]
    pub fn write(&self, batch: &mut WriteBatch) -> Result<()> {
        self.write_opt(batch, &WRITE)
    }

    /// [`Db::flush_cf`] of the column family `default`.
    ///
    /// # Errors
    /// The errors of [`Db::flush_cf`].
    pub fn flush(&self) -> Result<()> {
        self.flush_cf(self.default_cf())
    }

    /// [`Db::set_options_cf`] for the column family `default`.
    ///
    /// # Errors
    /// The errors of [`Db::set_options_cf`].
    pub fn set_options(&self, changes: &[(&str, &str)]) -> Result<()> {
        self.set_options_cf(self.default_cf(), changes)
    }

    /// [`Db::property_value_cf`] of the column family `default`.
    ///
    /// # Errors
    /// The errors of [`Db::property_value_cf`].
    pub fn property_value(&self, name: &str) -> Result<Option<String>> {
        self.property_value_cf(self.default_cf(), name)
    }

    /// [`Db::property_int_value_cf`] of the column family `default`.
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
