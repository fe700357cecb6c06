//! Methods with default arguments for writes.

use tailwater_format::batch::WriteBatch;

use crate::column_family::ColumnFamily;
use crate::db::Db;
use crate::error::Result;
use crate::write::WriteOptions;

static WRITE: WriteOptions = WriteOptions::new();

impl Db {
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

    /// Removes `key` from the column family `default`. The key must have been put exactly once
    /// since a single deletion last removed it, and must not be merged. Do not mix this method with
    /// [`Db::delete`] on one key: older values may become visible again.
    ///
    /// Like [`Db::single_delete_cf_opt`] with default options.
    ///
    /// # Errors
    /// Errors from writing, such as no space: see [`Db::single_delete_cf_opt`].
    #[inline]
    pub fn single_delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.single_delete_cf_opt(self.default_cf(), key, &WRITE)
    }

    /// Removes `key` from the column family `default`. The key must have been put exactly once
    /// since a single deletion last removed it, and must not be merged. Do not mix this method with
    /// [`Db::delete`] on one key: older values may become visible again.
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

    /// Removes `key` from `family`. The key must have been put exactly once since a single deletion
    /// last removed it, and must not be merged. Do not mix this method with [`Db::delete_cf`] on
    /// one key: older values may become visible again.
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
}
