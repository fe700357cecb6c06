//! Methods with default arguments for reads of single keys, of several keys, and with iterators.

use crate::column_family::ColumnFamily;
use crate::db::{Db, Entries, KeyBounds};
use crate::error::Result;
use crate::iterator::DbIterator;
use crate::read::ReadOptions;
use crate::table::PinnedValue;

static READ: ReadOptions = ReadOptions::new();

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
    /// Errors from reading files and from the merge operator; invalid argument, for a snapshot that
    /// was not taken from this `Db` or a clone of it.
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
    /// that was not obtained from this `Db` or a clone of it.
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
    /// Errors from reading files and from the merge operator; invalid argument, for a snapshot that
    /// was not taken from this `Db` or a clone of it.
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
    /// that was not obtained from this `Db` or a clone of it.
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
    /// Errors from reading files and from the merge operator; invalid argument, for a snapshot that
    /// was not taken from this `Db` or a clone of it.
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
    /// that was not obtained from this `Db` or a clone of it.
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
    /// Like [`Db::batched_multi_get_cf_opt`] with default options.
    ///
    /// # Errors
    /// For each key, errors from reading files and of the merge operator.
    #[inline]
    pub fn multi_get(&self, keys: &[impl AsRef<[u8]>]) -> Vec<Result<Option<PinnedValue>>> {
        self.batched_multi_get_cf_opt(self.default_cf(), keys, &READ)
    }

    /// Returns the values of several keys in the column family `default`, as of one point in time,
    /// in the order of `keys`; `None` for a key without a value.
    ///
    /// Like [`Db::batched_multi_get_cf_opt`], with the given options.
    ///
    /// # Errors
    /// For each key, errors from reading files and of the merge operator; invalid argument, for a
    /// snapshot that was not taken from this `Db` or a clone of it.
    #[inline]
    pub fn multi_get_opt(
        &self,
        keys: &[impl AsRef<[u8]>],
        options: &ReadOptions,
    ) -> Vec<Result<Option<PinnedValue>>> {
        self.batched_multi_get_cf_opt(self.default_cf(), keys, options)
    }

    /// Returns the values of several keys in `family`, as of one point in time, in the order of
    /// `keys`; `None` for a key without a value.
    ///
    /// Like [`Db::batched_multi_get_cf_opt`] with default options.
    ///
    /// # Errors
    /// For each key, errors from reading files and of the merge operator; invalid argument, for a
    /// column family that was not obtained from this `Db` or a clone of it.
    #[inline]
    pub fn batched_multi_get_cf(
        &self,
        family: &ColumnFamily,
        keys: &[impl AsRef<[u8]>],
    ) -> Vec<Result<Option<PinnedValue>>> {
        self.batched_multi_get_cf_opt(family, keys, &READ)
    }

    /// Returns the values of several keys, each with the column family to search, as of one point
    /// in time, in the order of `keys`; `None` for a key without a value.
    ///
    /// Like [`Db::multi_get_cf_opt`] with default options.
    ///
    /// # Errors
    /// For each key, errors from reading files and of the merge operator; invalid argument, for a
    /// column family that was not obtained from this `Db` or a clone of it.
    #[inline]
    pub fn multi_get_cf(
        &self,
        keys: &[(&ColumnFamily, impl AsRef<[u8]>)],
    ) -> Vec<Result<Option<PinnedValue>>> {
        self.multi_get_cf_opt(keys, &READ)
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
    /// Errors from opening tables; invalid argument, for a snapshot that was not taken from this
    /// `Db` or a clone of it.
    #[inline]
    pub fn raw_iterator_opt(&self, options: &ReadOptions) -> Result<DbIterator> {
        self.raw_iterator_cf_opt(self.default_cf(), options)
    }

    /// Creates an iterator over `family`. It can seek, and has no position before its first seek.
    ///
    /// Like [`Db::raw_iterator_cf_opt`] with default options.
    ///
    /// # Errors
    /// Errors from opening tables; invalid argument, for a column family that was not obtained from
    /// this `Db` or a clone of it.
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
    /// An error from reading is the last item.
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
    /// An error from reading is the last item. If the snapshot was not taken from this `Db` or a
    /// clone of it, the only item is the error "invalid argument".
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
    /// An error from reading is the last item. If `family` was not obtained from this `Db` or a
    /// clone of it, the only item is the error "invalid argument".
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
    /// An error from reading is the last item. If the comparator is not the bytewise one, the only
    /// item is the error "not supported".
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
    /// An error from reading is the last item. If the comparator is not the bytewise one, the only
    /// item is the error "not supported". If the snapshot was not taken from this `Db` or a clone
    /// of it, the only item is the error "invalid argument".
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
    /// An error from reading is the last item. If the comparator is not the bytewise one, the only
    /// item is the error "not supported". If `family` was not obtained from this `Db` or a clone of
    /// it, the only item is the error "invalid argument".
    #[inline]
    pub fn prefix_cf(&self, family: &ColumnFamily, prefix: impl AsRef<[u8]>) -> Entries {
        self.prefix_cf_opt(family, prefix, &READ)
    }
}
