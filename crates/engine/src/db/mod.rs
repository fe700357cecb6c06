//! The handle: a database that is open.

mod column_family;
mod properties;
mod read_options;
mod snapshot;
mod super_version;

pub use column_family::ColumnFamily;
pub use properties::{LEVEL_PROPERTY_NAMES, PROPERTY_NAMES};
pub use read_options::ReadOptions;
pub use snapshot::Snapshot;
pub(crate) use super_version::{FamilyReaders, SuperVersion};

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tailwater_format::key::Sequence;
use tailwater_io::{Purpose, Storage};

use crate::iterator::DbIterator;
use crate::read::{self, PinnedValue, Sink};
use crate::recovery::{self, LogsReplayed, OpenOptions};
use crate::table::ReadProfile;
use crate::wal::replay::LeftOut;
use crate::{Error, ErrorKind, Result};

/// A database that is open. Clones are handles to the same one; any thread may use them.
#[derive(Debug, Clone)]
pub struct Db {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    directory: PathBuf,
    storage: Arc<dyn Storage>,
    families: Vec<ColumnFamily>,
    /// The highest sequence number that reads see.
    last_sequence: AtomicU64,
    left_out: Vec<LeftOut>,
}

impl Db {
    /// Opens the database in `directory` for reading. No file is changed or created and no lock is
    /// taken, so it may be open for writing elsewhere; this handle shows it as it was at this
    /// moment.
    ///
    /// The write-ahead logs are replayed into memory, as the recovery mode says; [`Db::left_out`]
    /// tells what it left out.
    ///
    /// # Errors
    /// Not found, where there is no database; corruption, for damage to its MANIFEST, or to its
    /// logs that the recovery mode does not accept; invalid argument, for a comparator that is not
    /// the one it was written with; not supported, for what is not built; busy, where the database
    /// is written elsewhere and its MANIFEST changed every time it was read. Damage to tables shows
    /// when they are read.
    pub fn open_read_only(directory: &Path, options: &OpenOptions) -> Result<Self> {
        recovery::recover_read_only(directory, options).map(Self::from_recovered)
    }

    fn from_recovered(recovered: LogsReplayed) -> Self {
        let LogsReplayed { directory, storage, families, last_sequence, left_out } = recovered;
        let last_sequence = AtomicU64::new(last_sequence);
        Self { inner: Arc::new(Inner { directory, storage, families, last_sequence, left_out }) }
    }

    /// The database's directory.
    pub fn directory(&self) -> &Path {
        &self.inner.directory
    }

    /// Where its files are.
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.inner.storage
    }

    /// What of the MANIFEST and the write-ahead logs was not taken when it was opened.
    pub fn left_out(&self) -> &[LeftOut] {
        &self.inner.left_out
    }

    /// The column families, in the order of their ids; the first is `default`.
    pub fn column_families(&self) -> &[ColumnFamily] {
        &self.inner.families
    }

    /// The column family of that name.
    ///
    /// # Errors
    /// Not found, where there is none.
    pub fn column_family(&self, name: &str) -> Result<ColumnFamily> {
        let mut families = self.inner.families.iter();
        families.find(|family| family.name() == name).cloned().ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("there is no column family '{name}'"))
        })
    }

    /// The highest sequence number that reads see.
    #[inline]
    pub fn latest_sequence(&self) -> Sequence {
        self.inner.last_sequence.load(Ordering::Acquire)
    }

    /// The state of all column families at this moment, for reads that must see no later write.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::at(self.latest_sequence())
    }

    /// A copy of a key's value, if it has one.
    ///
    /// # Errors
    /// Those of reading tables and blob files, and of the merge operator; also of the other reads
    /// here.
    pub fn get(
        &self,
        family: &ColumnFamily,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.get_into(family, key, options, &mut value)?.then_some(value))
    }

    /// Copies a key's value over what `value` held. Answers whether the key has one; if not,
    /// `value` is unspecified.
    ///
    /// A value that is in memory is copied without a lock or an allocation, but for `value`'s own
    /// growth.
    #[inline]
    pub fn get_into(
        &self,
        family: &ColumnFamily,
        key: &[u8],
        options: &ReadOptions,
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        self.get_to_sink(family, key, options, value)
    }

    /// A key's value where it stands in memory, if it has one.
    pub fn get_pinned(
        &self,
        family: &ColumnFamily,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<Option<PinnedValue>> {
        let mut value = None;
        self.get_to_sink(family, key, options, &mut value)?;
        Ok(value)
    }

    #[inline]
    fn get_to_sink<S: Sink>(
        &self,
        family: &ColumnFamily,
        key: &[u8],
        options: &ReadOptions,
        sink: &mut S,
    ) -> Result<bool> {
        let snapshot = || self.read_sequence(options);
        read::get(family.current(), key, snapshot, &profile(options), sink)
    }

    /// The values of several keys of one column family at one moment, in the order of the keys.
    pub fn multi_get(
        &self,
        family: &ColumnFamily,
        keys: &[&[u8]],
        options: &ReadOptions,
    ) -> Vec<Result<Option<PinnedValue>>> {
        let source = family.super_version();
        read::multi_get(&source, keys, self.read_sequence(options), &profile(options))
    }

    /// An iterator over a column family. It stands on nothing until it is sought.
    ///
    /// # Errors
    /// Those of opening tables.
    pub fn iterator(&self, family: &ColumnFamily, options: &ReadOptions) -> Result<DbIterator> {
        let source = family.super_version();
        let snapshot = self.read_sequence(options);
        DbIterator::over(source, snapshot, options, &profile(options))
    }

    fn read_sequence(&self, options: &ReadOptions) -> Sequence {
        options.snapshot.as_ref().map_or_else(|| self.latest_sequence(), Snapshot::sequence)
    }
}

fn profile(options: &ReadOptions) -> ReadProfile {
    ReadProfile {
        purpose: Purpose::UserRead,
        verify_checksums: options.verify_checksums,
        fill_cache: options.fill_cache,
    }
}
