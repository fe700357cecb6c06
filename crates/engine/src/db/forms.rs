//! Short forms of the methods of [`Db`], with the method names of crate `rocksdb`.
//!
//! Each operation has a full form: the suffix `_cf` means that it takes a column family, and `_opt`
//! that it takes options, which are the last parameter. The shorter forms use the column family
//! `default` and default options, and are inlined calls of the full form.

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
    /// Returns a copy of the value of `key` in the column family `default`, or `None` if the key
    /// has no value.
    ///
    /// Like [`Db::get_cf_opt`] with default options.
    ///
    /// # Errors
    /// Errors from reading files and from the merge operator.
    #[inline]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.get_cf_opt(self.default_cf(), key, &READ)
    }

    /// Returns a copy of the value of `key` in the column family `default`, or `None` if the key
    /// has no value.
    ///
    /// Like [`Db::get_cf_opt`], with the given options.
    ///
    /// # Errors
    /// Errors from reading files and from the merge operator; invalid argument, for a snapshot of
    /// another opening of the database.
    #[inline]
    pub fn get_opt(&self, key: impl AsRef<[u8]>, options: &ReadOptions) -> Result<Option<Vec<u8>>> {
        self.get_cf_opt(self.default_cf(), key, options)
    }

    /// Returns a copy of the value of `key` in `family`, or `None` if the key has no value.
    ///
    /// Like [`Db::get_cf_opt`] with default options.
    ///
    /// # Errors
    /// Errors from reading files and from the merge operator; invalid argument, for a column family
    /// of another opening of the database.
    #[inline]
    pub fn get_cf(&self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.get_cf_opt(family, key, &READ)
    }

    /// Replaces the content of `value` with the value of `key` in the column family `default`, and
    /// returns true. If the key has no value, returns false, and `value` is unspecified.
    ///
    /// Like [`Db::get_into_cf_opt`] with default options.
    ///
    /// # Errors
    /// Errors from reading files and from the merge operator.
    #[inline]
    pub fn get_into(&self, key: impl AsRef<[u8]>, value: &mut Vec<u8>) -> Result<bool> {
        self.get_into_cf_opt(self.default_cf(), key, &READ, value)
    }

    /// Replaces the content of `value` with the value of `key` in the column family `default`, and
    /// returns true. If the key has no value, returns false, and `value` is unspecified.
    ///
    /// Like [`Db::get_into_cf_opt`], with the given options.
    ///
    /// # Errors
    /// Errors from reading files and from the merge operator; invalid argument, for a snapshot of
    /// another opening of the database.
    #[inline]
    pub fn get_into_opt(
        &self,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        self.get_into_cf_opt(self.default_cf(), key, options, value)
    }

    /// Replaces the content of `value` with the value of `key` in `family`, and returns true. If
    /// the key has no value, returns false, and `value` is unspecified.
    ///
    /// Like [`Db::get_into_cf_opt`] with default options.
    ///
    /// # Errors
    /// Errors from reading files and from the merge operator; invalid argument, for a column family
    /// of another opening of the database.
    #[inline]
    pub fn get_into_cf(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        self.get_into_cf_opt(family, key, &READ, value)
    }

    /// Returns the value of `key` in the column family `default`, pinned in memory rather than
    /// copied, or `None` if the key has no value.
    ///
    /// Like [`Db::get_pinned_cf_opt`] with default options.
    ///
    /// # Errors
    /// Errors from reading files and from the merge operator.
    #[inline]
    pub fn get_pinned(&self, key: impl AsRef<[u8]>) -> Result<Option<PinnedValue>> {
        self.get_pinned_cf_opt(self.default_cf(), key, &READ)
    }

    /// Returns the value of `key` in the column family `default`, pinned in memory rather than
    /// copied, or `None` if the key has no value.
    ///
    /// Like [`Db::get_pinned_cf_opt`], with the given options.
    ///
    /// # Errors
    /// Errors from reading files and from the merge operator; invalid argument, for a snapshot of
    /// another opening of the database.
    #[inline]
    pub fn get_pinned_opt(
        &self,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
    ) -> Result<Option<PinnedValue>> {
        self.get_pinned_cf_opt(self.default_cf(), key, options)
    }

    /// Returns the value of `key` in `family`, pinned in memory rather than copied, or `None` if
    /// the key has no value.
    ///
    /// Like [`Db::get_pinned_cf_opt`] with default options.
    ///
    /// # Errors
    /// Errors from reading files and from the merge operator; invalid argument, for a column family
    /// of another opening of the database.
    #[inline]
    pub fn get_pinned_cf(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<PinnedValue>> {
        self.get_pinned_cf_opt(family, key, &READ)
    }

    /// Returns the values of several keys in the column family `default`, as of one point in time,
    /// in the order of `keys`; `None` for a key without a value.
    ///
    /// Like [`Db::multi_get_cf_opt`] with default options.
    ///
    /// # Errors
    /// For each key, errors from reading files and of the merge operator.
    #[inline]
    pub fn multi_get(&self, keys: &[impl AsRef<[u8]>]) -> Vec<Result<Option<PinnedValue>>> {
        self.multi_get_cf_opt(self.default_cf(), keys, &READ)
    }

    /// Returns the values of several keys in the column family `default`, as of one point in time,
    /// in the order of `keys`; `None` for a key without a value.
    ///
    /// Like [`Db::multi_get_cf_opt`], with the given options.
    ///
    /// # Errors
    /// For each key, errors from reading files and of the merge operator; invalid argument, for a
    /// snapshot of another opening of the database.
    #[inline]
    pub fn multi_get_opt(
        &self,
        keys: &[impl AsRef<[u8]>],
        options: &ReadOptions,
    ) -> Vec<Result<Option<PinnedValue>>> {
        self.multi_get_cf_opt(self.default_cf(), keys, options)
    }

    /// Returns the values of several keys in `family`, as of one point in time, in the order of
    /// `keys`; `None` for a key without a value.
    ///
    /// Like [`Db::multi_get_cf_opt`] with default options.
    ///
    /// # Errors
    /// For each key, errors from reading files and of the merge operator; invalid argument, for a
    /// column family of another opening of the database.
    #[inline]
    pub fn multi_get_cf(
        &self,
        family: &ColumnFamily,
        keys: &[impl AsRef<[u8]>],
    ) -> Vec<Result<Option<PinnedValue>>> {
        self.multi_get_cf_opt(family, keys, &READ)
    }

    /// Creates an iterator over the column family `default`. It can seek, and has no position
    /// before its first seek.
    ///
    /// Like [`Db::raw_iterator_cf_opt`] with default options.
    ///
    /// # Errors
    /// Errors from opening tables.
    #[inline]
    pub fn raw_iterator(&self) -> Result<DbIterator> {
        self.raw_iterator_cf_opt(self.default_cf(), &READ)
    }

    /// Creates an iterator over the column family `default`. It can seek, and has no position
    /// before its first seek.
    ///
    /// Like [`Db::raw_iterator_cf_opt`], with the given options.
    ///
    /// # Errors
    /// Errors from opening tables; invalid argument, for a snapshot of another opening of the
    /// database.
    #[inline]
    pub fn raw_iterator_opt(&self, options: &ReadOptions) -> Result<DbIterator> {
        self.raw_iterator_cf_opt(self.default_cf(), options)
    }

    /// Creates an iterator over `family`. It can seek, and has no position before its first seek.
    ///
    /// Like [`Db::raw_iterator_cf_opt`] with default options.
    ///
    /// # Errors
    /// Errors from opening tables; invalid argument, for a column family of another opening of the
    /// database.
    #[inline]
    pub fn raw_iterator_cf(&self, family: &ColumnFamily) -> Result<DbIterator> {
        self.raw_iterator_cf_opt(family, &READ)
    }

    /// Returns an iterator over copies of the entries of the column family `default` whose keys are
    /// within `bounds`, such as `"a".."c"`, `"a"..` or `..`, in the order of the keys.
    ///
    /// Like [`Db::range_cf_opt`] with default options.
    ///
    /// # Errors
    /// Errors from reading, as the last item.
    #[inline]
    pub fn range(&self, bounds: impl KeyBounds) -> Entries {
        self.range_cf_opt(self.default_cf(), bounds, &READ)
    }

    /// Returns an iterator over copies of the entries of the column family `default` whose keys are
    /// within `bounds`, such as `"a".."c"`, `"a"..` or `..`, in the order of the keys.
    ///
    /// Like [`Db::range_cf_opt`], with the given options.
    ///
    /// # Errors
    /// Errors from reading, as the last item; invalid argument, as the only item, for a snapshot of
    /// another opening of the database.
    #[inline]
    pub fn range_opt(&self, bounds: impl KeyBounds, options: &ReadOptions) -> Entries {
        self.range_cf_opt(self.default_cf(), bounds, options)
    }

    /// Returns an iterator over copies of the entries of `family` whose keys are within `bounds`,
    /// such as `"a".."c"`, `"a"..` or `..`, in the order of the keys.
    ///
    /// Like [`Db::range_cf_opt`] with default options.
    ///
    /// # Errors
    /// Errors from reading, as the last item; invalid argument, as the only item, for a column
    /// family of another opening of the database.
    #[inline]
    pub fn range_cf(&self, family: &ColumnFamily, bounds: impl KeyBounds) -> Entries {
        self.range_cf_opt(family, bounds, &READ)
    }

    /// Returns an iterator over copies of the entries of the column family `default` whose keys
    /// begin with `prefix`, in the order of the keys.
    ///
    /// Like [`Db::prefix_cf_opt`] with default options.
    ///
    /// # Errors
    /// Errors from reading, as the last item; not supported, as the only item, for a comparator
    /// other than the bytewise one.
    #[inline]
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Entries {
        self.prefix_cf_opt(self.default_cf(), prefix, &READ)
    }

    /// Returns an iterator over copies of the entries of the column family `default` whose keys
    /// begin with `prefix`, in the order of the keys.
    ///
    /// Like [`Db::prefix_cf_opt`], with the given options.
    ///
    /// # Errors
    /// Errors from reading, as the last item; not supported, as the only item, for a comparator
    /// other than the bytewise one; invalid argument, likewise, for a snapshot of another opening
    /// of the database.
    #[inline]
    pub fn prefix_opt(&self, prefix: impl AsRef<[u8]>, options: &ReadOptions) -> Entries {
        self.prefix_cf_opt(self.default_cf(), prefix, options)
    }

    /// Returns an iterator over copies of the entries of `family` whose keys begin with `prefix`,
    /// in the order of the keys.
    ///
    /// Like [`Db::prefix_cf_opt`] with default options.
    ///
    /// # Errors
    /// Errors from reading, as the last item; not supported, as the only item, for a comparator
    /// other than the bytewise one; invalid argument, likewise, for a column family of another
    /// opening of the database.
    #[inline]
    pub fn prefix_cf(&self, family: &ColumnFamily, prefix: impl AsRef<[u8]>) -> Entries {
        self.prefix_cf_opt(family, prefix, &READ)
    }

    /// Sets the value of `key` in the column family `default`.
    ///
    /// Like [`Db::put_cf_opt`] with default options.
    ///
    /// # Errors
    /// Errors from writing, such as no space: see [`Db::put_cf_opt`].
    #[inline]
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_cf_opt(self.default_cf(), key, value, &WRITE)
    }

    /// Sets the value of `key` in the column family `default`.
    ///
    /// Like [`Db::put_cf_opt`], with the given options.
    ///
    /// # Errors
    /// Errors from writing, such as no space; busy, if `no_slowdown` is set and writes are stalled:
    /// see [`Db::put_cf_opt`].
    #[inline]
    pub fn put_opt(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        self.put_cf_opt(self.default_cf(), key, value, options)
    }

    /// Sets the value of `key` in `family`.
    ///
    /// Like [`Db::put_cf_opt`] with default options.
    ///
    /// # Errors
    /// Errors from writing, such as no space: see [`Db::put_cf_opt`].
    #[inline]
    pub fn put_cf(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.put_cf_opt(family, key, value, &WRITE)
    }

    /// Removes `key` from the column family `default`; a missing key is no error.
    ///
    /// Like [`Db::delete_cf_opt`] with default options.
    ///
    /// # Errors
    /// Errors from writing, such as no space: see [`Db::delete_cf_opt`].
    #[inline]
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_cf_opt(self.default_cf(), key, &WRITE)
    }

    /// Removes `key` from the column family `default`; a missing key is no error.
    ///
    /// Like [`Db::delete_cf_opt`], with the given options.
    ///
    /// # Errors
    /// Errors from writing, such as no space; busy, if `no_slowdown` is set and writes are stalled:
    /// see [`Db::delete_cf_opt`].
    #[inline]
    pub fn delete_opt(&self, key: impl AsRef<[u8]>, options: &WriteOptions) -> Result<()> {
        self.delete_cf_opt(self.default_cf(), key, options)
    }

    /// Removes `key` from `family`; a missing key is no error.
    ///
    /// Like [`Db::delete_cf_opt`] with default options.
    ///
    /// # Errors
    /// Errors from writing, such as no space: see [`Db::delete_cf_opt`].
    #[inline]
    pub fn delete_cf(&self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_cf_opt(family, key, &WRITE)
    }

    /// Removes `key`, which must have been put exactly once since it was last removed, from the
    /// column family `default`.
    ///
    /// Like [`Db::single_delete_cf_opt`] with default options.
    ///
    /// # Errors
    /// Errors from writing, such as no space: see [`Db::single_delete_cf_opt`].
    #[inline]
    pub fn single_delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.single_delete_cf_opt(self.default_cf(), key, &WRITE)
    }

    /// Removes `key`, which must have been put exactly once since it was last removed, from the
    /// column family `default`.
    ///
    /// Like [`Db::single_delete_cf_opt`], with the given options.
    ///
    /// # Errors
    /// Errors from writing, such as no space; busy, if `no_slowdown` is set and writes are stalled:
    /// see [`Db::single_delete_cf_opt`].
    #[inline]
    pub fn single_delete_opt(&self, key: impl AsRef<[u8]>, options: &WriteOptions) -> Result<()> {
        self.single_delete_cf_opt(self.default_cf(), key, options)
    }

    /// Removes `key`, which must have been put exactly once since it was last removed, from
    /// `family`.
    ///
    /// Like [`Db::single_delete_cf_opt`] with default options.
    ///
    /// # Errors
    /// Errors from writing, such as no space: see [`Db::single_delete_cf_opt`].
    #[inline]
    pub fn single_delete_cf(&self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<()> {
        self.single_delete_cf_opt(family, key, &WRITE)
    }

    /// Removes every key from `begin` up to, not including, `end` from the column family `default`.
    ///
    /// Like [`Db::delete_range_cf_opt`] with default options.
    ///
    /// # Errors
    /// Errors from writing, such as no space; invalid argument, if `end` comes before `begin`: see
    /// [`Db::delete_range_cf_opt`].
    #[inline]
    pub fn delete_range(&self, begin: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Result<()> {
        self.delete_range_cf_opt(self.default_cf(), begin, end, &WRITE)
    }

    /// Removes every key from `begin` up to, not including, `end` from the column family `default`.
    ///
    /// Like [`Db::delete_range_cf_opt`], with the given options.
    ///
    /// # Errors
    /// Errors from writing, such as no space; invalid argument, if `end` comes before `begin`;
    /// busy, if `no_slowdown` is set and writes are stalled: see [`Db::delete_range_cf_opt`].
    #[inline]
    pub fn delete_range_opt(
        &self,
        begin: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        self.delete_range_cf_opt(self.default_cf(), begin, end, options)
    }

    /// Removes every key from `begin` up to, not including, `end` from `family`.
    ///
    /// Like [`Db::delete_range_cf_opt`] with default options.
    ///
    /// # Errors
    /// Errors from writing, such as no space; invalid argument, if `end` comes before `begin`: see
    /// [`Db::delete_range_cf_opt`].
    #[inline]
    pub fn delete_range_cf(
        &self,
        family: &ColumnFamily,
        begin: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.delete_range_cf_opt(family, begin, end, &WRITE)
    }

    /// Merges `operand` into the value of `key` in the column family `default`, with the family's
    /// merge operator.
    ///
    /// Like [`Db::merge_cf_opt`] with default options.
    ///
    /// # Errors
    /// Errors from writing, such as no space; invalid argument, without a merge operator: see
    /// [`Db::merge_cf_opt`].
    #[inline]
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.merge_cf_opt(self.default_cf(), key, operand, &WRITE)
    }

    /// Merges `operand` into the value of `key` in the column family `default`, with the family's
    /// merge operator.
    ///
    /// Like [`Db::merge_cf_opt`], with the given options.
    ///
    /// # Errors
    /// Errors from writing, such as no space; invalid argument, without a merge operator; busy, if
    /// `no_slowdown` is set and writes are stalled: see [`Db::merge_cf_opt`].
    #[inline]
    pub fn merge_opt(
        &self,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        self.merge_cf_opt(self.default_cf(), key, operand, options)
    }

    /// Merges `operand` into the value of `key` in `family`, with the family's merge operator.
    ///
    /// Like [`Db::merge_cf_opt`] with default options.
    ///
    /// # Errors
    /// Errors from writing, such as no space; invalid argument, without a merge operator: see
    /// [`Db::merge_cf_opt`].
    #[inline]
    pub fn merge_cf(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.merge_cf_opt(family, key, operand, &WRITE)
    }

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

    /// Writes a batch atomically, and sets its sequence number.
    ///
    /// Like [`Db::write_opt`] with default options.
    ///
    /// # Errors
    /// Errors from writing, such as no space; invalid argument, for a record that its column family
    /// cannot store: see [`Db::write_opt`].
    #[inline]
    pub fn write(&self, batch: &mut WriteBatch) -> Result<()> {
        self.write_opt(batch, &WRITE)
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
}
