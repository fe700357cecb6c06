//! Writes: puts, deletions, merges and batches.

use std::cell::Cell;

use tailwater_format::batch::WriteBatch;

use super::{Access, Database, Db, Writing};
use crate::column_family::ColumnFamily;
use crate::error::{Error, ErrorKind, Result};
use crate::write::{WriteOptions, no_merge_operator};

thread_local! {
    /// The batch with which this thread performs single operations, such as a put. It is reused, so
    /// that single operations need not allocate.
    static SINGLE: Cell<Option<WriteBatch>> = const { Cell::new(None) };
}

/// Maximum size in bytes of a batch that is kept for reuse. A larger batch is freed after its
/// operation.
const SINGLE_BYTES_KEPT: usize = 64 << 10;

impl Db {
    /// Sets the value of `key` in `family`. Key and value are arbitrary bytes. The key may have up
    /// to [`KEY_LENGTH_MAX`] bytes, and the key and the value together up to [`ENTRY_LENGTH_MAX`].
    ///
    /// # Errors
    /// The errors of [`Db::write_opt`]; invalid argument, for a key or value that is too long, and
    /// for a column family that was dropped, or was not obtained from this `Db` or a clone of it.
    ///
    /// [`KEY_LENGTH_MAX`]: tailwater_format::batch::KEY_LENGTH_MAX
    /// [`ENTRY_LENGTH_MAX`]: tailwater_format::batch::ENTRY_LENGTH_MAX
    #[inline]
    pub fn put_cf_opt(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        self.write_one(family, options, |batch, id| batch.put_cf(id, key, value))
    }

    /// Removes `key` from `family`; a missing key is no error.
    ///
    /// # Errors
    /// The errors of [`Db::put_cf_opt`].
    #[inline]
    pub fn delete_cf_opt(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        let key = key.as_ref();
        self.write_one(family, options, |batch, id| batch.delete_cf(id, key))
    }

    /// Removes `key` from `family`. The key must have been put exactly once since a single deletion
    /// last removed it, or exactly once in total if none has. The tombstone is dropped as soon as a
    /// compaction finds it together with that put. A tombstone of [`Db::delete`], in contrast,
    /// stays until no deeper level can have the key.
    ///
    /// This contract is RocksDB's. If a flush or compaction finds that it was broken, because the
    /// key was put twice, merged, or also removed by [`Db::delete`], it keeps a tombstone of
    /// [`Db::delete`], so that no older value becomes visible again. It reports the violation in
    /// the LOG and in the property `tailwater.contract-violations`, unless
    /// `enforce_single_del_contracts` is disabled, and goes on. RocksDB fails the compaction, or
    /// shows the older value.
    ///
    /// But a flush or compaction does not find every violation. An older value in a deeper level,
    /// which the compaction does not read, becomes visible again when the tombstone is dropped
    /// together with a newer put.
    ///
    /// # Errors
    /// The errors of [`Db::put_cf_opt`].
    #[inline]
    pub fn single_delete_cf_opt(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        let key = key.as_ref();
        self.write_one(family, options, |batch, id| batch.single_delete_cf(id, key))
    }

    /// Removes every key from `begin` up to, not including, `end` from `family`.
    ///
    /// # Errors
    /// The errors of [`Db::put_cf_opt`]; invalid argument, if `end` comes before `begin`.
    #[inline]
    pub fn delete_range_cf_opt(
        &self,
        family: &ColumnFamily,
        begin: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        let (begin, end) = (begin.as_ref(), end.as_ref());
        self.write_one(family, options, |batch, id| batch.delete_range_cf(id, begin, end))
    }

    /// Merges `operand` into the value of `key` in `family`, with the family's
    /// [`MergeOperator`](crate::MergeOperator), when the key is read or compacted.
    ///
    /// # Errors
    /// The errors of [`Db::put_cf_opt`]; not supported, for a column family without a merge
    /// operator.
    #[inline]
    pub fn merge_cf_opt(
        &self,
        family: &ColumnFamily,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<()> {
        if !family.has_merge_operator() {
            self.check_writable(family)?;
            self.database()?.context.errors.check()?;
            let message = no_merge_operator(family);
            return Err(Error::new(ErrorKind::NotSupported, message));
        }
        let (key, operand) = (key.as_ref(), operand.as_ref());
        self.write_one(family, options, |batch, id| batch.merge_cf(id, key, operand))
    }

    /// Writes a batch atomically, and sets its sequence number. A batch refers to column families
    /// by their IDs; it is not checked that the IDs are meant for this database. The same batch can
    /// be written again.
    ///
    /// # Errors
    /// Invalid argument, for a batch that names a column family that does not exist, and for a
    /// record that its column family cannot store, such as an operand without a merge operator or
    /// an entry that is too long; not supported, for records of prepared transactions; limit
    /// reached, if no sequence number is left; read-only, for a handle that was opened for reading;
    /// closed, for one that was closed; busy, if writes are stalled and
    /// [`WriteOptions::no_slowdown`] is set; no space or I/O. After a no-space or I/O error, writes
    /// are refused with the same error until [`Db::resume`] or reopening. After a failed write, the
    /// batch may nevertheless be present when the database is reopened. The same is true of a batch
    /// that was being written when the process ended.
    ///
    /// # Panics
    /// Panics if a user's comparator panics. Concurrent and later writers then get an error.
    pub fn write_opt(&self, batch: &mut WriteBatch, options: &WriteOptions) -> Result<()> {
        self.database()?.writes.write(batch, options)
    }

    /// Writes buffered log records to the log file. (With the option `manual_wal_flush`, log
    /// records are buffered in memory.) With `sync`, also makes everything that was logged durable.
    ///
    /// # Errors
    /// No space or I/O, after which writes are refused; read-only or closed, if the handle is.
    pub fn flush_wal(&self, sync: bool) -> Result<()> {
        self.database()?.writes.flush_wal(sync)
    }

    fn write_one(
        &self,
        family: &ColumnFamily,
        options: &WriteOptions,
        add: impl FnOnce(&mut WriteBatch, u32) -> tailwater_format::Result<()>,
    ) -> Result<()> {
        self.check_writable(family)?;
        // The batch is taken out of the thread-local value while it is used, because a user's
        // callback in this thread may write, too. If the thread is ending, the value may already be
        // destroyed.
        let mut batch = SINGLE.try_with(Cell::take).ok().flatten().unwrap_or_default();
        batch.clear();
        add(&mut batch, family.id())?;
        let written = self.write_opt(&mut batch, options);
        if batch.size_in_bytes() <= SINGLE_BYTES_KEPT {
            let _ = SINGLE.try_with(|single| single.set(Some(batch)));
        }
        written
    }

    /// Refuses a column family that was dropped, or was not obtained from this `Db` or a clone of
    /// it.
    #[inline]
    pub(super) fn check_writable(&self, family: &ColumnFamily) -> Result<()> {
        self.check_family(family)?;
        if family.is_dropped() { Err(dropped(family)) } else { Ok(()) }
    }

    pub(super) fn database(&self) -> Result<&Database> {
        self.write_side().map(|writing| &*writing.database)
    }

    pub(super) fn write_side(&self) -> Result<&Writing> {
        match &self.inner.access {
            Access::Writing(writing) => Ok(writing),
            Access::Reading(_) => Err(Error::read_only()),
        }
    }
}

#[cold]
fn dropped(family: &ColumnFamily) -> Error {
    Error::invalid_argument(format!("column family '{}' was dropped", family.name()))
}
