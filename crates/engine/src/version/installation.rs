//! The lock on the versions, and the queue of their changes.
//!
//! # Invariants
//!
//! - The lock protects memory only, and is never held while storage is accessed.
//! - Only the installation whose turn it is changes versions or writes to the MANIFEST. So edits
//!   take effect in the order in which they are written, and an installation finds the versions
//!   unchanged throughout its turn. Only the set of running compactions may change during a turn: a
//!   compaction claims and releases its inputs under the lock, without a turn.
//!   [`Installation::hold_claims`] prevents new claims.
//! - The files of a version that is not yet installed are known only to the installing thread.
//!   While a database is open, nothing searches for unreferenced files: a file is removed only if
//!   its creator gave it up, or an installation took it out of the versions. So the outputs of work
//!   in progress need no other protection.
//!
//! # Order
//!
//! 1. New tables are opened before the turn begins, so that no other installation waits while they
//!    are opened.
//! 2. The installation waits for its turn, first come, first served.
//! 3. Under the lock, the edits are applied to copies of the versions; contradictory edits are
//!    refused here.
//! 4. Without the lock, the edits are appended to the MANIFEST and synced; several edits are
//!    written as an atomic group. If the MANIFEST exceeds its size limit, a new MANIFEST is begun
//!    first.
//! 5. Under the lock, the new versions replace the old ones. They are published to readers before
//!    the lock is released, so a thread that holds the lock sees the versions that readers see. The
//!    files that are no longer in the new versions are listed for removal
//!    ([`super::ObsoleteFiles`]).
//! 6. The turn passes to the next installation.
//!
//! # A crash
//!
//! Before the end of step 4 the new records may be missing or incomplete; replay treats this as the
//! end of the MANIFEST, and ignores an incomplete group. The new tables are then unreferenced.
//! After step 4 the edits are in effect.
//!
//! # An error
//!
//! After a failed write or sync the end of the MANIFEST is unknown, so the error is latched:
//! waiting and later installations are refused before they write anything, until
//! [`Versions::start_over`] has written a new MANIFEST of the state in memory. A panic between the
//! beginning of step 4 and the end of step 5 latches an error, too, because the MANIFEST may have
//! edits that the versions in memory lack. The database must then be reopened.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::sync::{Arc, MutexGuard};

use tailwater_format::key::Sequence;
use tailwater_format::version_edit::VersionEdit;
use tailwater_io::sync::{Condvar, Mutex};

use super::manifest_writer::ManifestWriter;
use super::obsolete::ObsoleteFiles;
use super::turns::{Turn, Turns};
use crate::blob::BlobCache;
use crate::error::{Error, Result};
use crate::panics;
use crate::sst_file_manager::TrackedFiles;
use crate::stats::InfoLog;
use crate::table::{FileMetadata, TableCache};
use crate::version::{Retired, Version, VersionSet, VersionSetBeginning};

/// The versions of all column families, and their MANIFEST.
pub(crate) struct Versions {
    set: Mutex<VersionSet>,
    /// Notified when compactions may claim their inputs again.
    claims_released: Condvar,
    manifest: Turns<ManifestWriter>,
    obsolete: Arc<ObsoleteFiles>,
}

/// The turn of one installation. Dropping it passes the turn to the next installation.
pub(crate) struct Installation<'v> {
    versions: &'v Versions,
    manifest: Turn<'v, ManifestWriter>,
    /// Whether the MANIFEST may have edits that the versions in memory lack.
    is_halfway: bool,
    holds_claims: bool,
}

/// Edits that were written to the MANIFEST, and the resulting versions. Dropping this value without
/// installing the versions latches an error.
#[must_use]
pub(crate) struct Written<'v> {
    installation: Installation<'v>,
    edits: Vec<VersionEdit>,
    next: BTreeMap<u32, Arc<Version>>,
}

/// The lock on the versions, which is still held after an installation so that the caller can
/// publish the new versions to readers.
pub(crate) struct Installed<'v> {
    set: MutexGuard<'v, VersionSet>,
    /// The files that the installation took out of versions, by the id of the column family.
    retired: BTreeMap<u32, Retired>,
    /// The turn, which passes on when the lock is released.
    installation: Installation<'v>,
}

impl Versions {
    /// Creates the versions of a database in the state `beginning`. [`Versions::start_over`] then
    /// writes the first MANIFEST to `directory`.
    pub(crate) fn new(
        files: Arc<TrackedFiles>,
        directory: PathBuf,
        beginning: VersionSetBeginning,
        info_log: Arc<InfoLog>,
    ) -> Self {
        let storage = Arc::clone(files.storage());
        let obsolete = Arc::new(ObsoleteFiles::new(files, info_log));
        let numbers = beginning.numbers.clone();
        let manifest = ManifestWriter::new(storage, directory, numbers, Arc::clone(&obsolete));
        Self {
            set: Mutex::new(VersionSet::new(beginning)),
            claims_released: Condvar::new(),
            manifest: Turns::new(manifest),
            obsolete,
        }
    }

    /// Locks the versions for reading. The lock must not be held while storage is accessed.
    pub(crate) fn lock(&self) -> MutexGuard<'_, VersionSet> {
        self.set.lock()
    }

    /// Returns the list of files that the database no longer needs.
    pub(crate) fn obsolete(&self) -> &Arc<ObsoleteFiles> {
        &self.obsolete
    }

    /// Locks the versions so that a compaction can claim its inputs. Waits while an installation
    /// holds claims.
    pub(crate) fn lock_to_claim(&self) -> MutexGuard<'_, VersionSet> {
        let mut set = self.set.lock();
        while set.holds_claims {
            set = self.claims_released.wait(set);
        }
        set
    }

    /// Waits until it is the caller's turn to change the versions.
    pub(crate) fn begin_installation(&self) -> Installation<'_> {
        let manifest = self.manifest.wait();
        Installation { versions: self, manifest, is_halfway: false, holds_claims: false }
    }

    /// Writes a new MANIFEST with the current state of the versions, and makes CURRENT name it.
    /// Used when a database is opened, and after a failure to write the MANIFEST.
    pub(crate) fn start_over(&self) -> Result<()> {
        let mut installation = self.begin_installation();
        let numbers = installation.manifest.take_numbers()?;
        let new = self.lock().new_manifest(numbers);
        installation.manifest.start_over(&new)?;
        self.lock().set_failure(None);
        Ok(())
    }

    /// Returns the number of the current MANIFEST; 0 if none was written yet. Waits until the
    /// installations that began earlier have ended.
    pub(crate) fn manifest_number(&self) -> u64 {
        self.begin_installation().manifest.number()
    }
}

impl<'v> Installation<'v> {
    /// Locks the versions. During this installation's turn, other threads may begin and end
    /// compactions, but change nothing else.
    pub(crate) fn versions(&self) -> MutexGuard<'v, VersionSet> {
        self.versions.lock()
    }

    /// Prevents compactions from claiming inputs until this turn ends.
    pub(crate) fn hold_claims(&mut self) {
        self.holds_claims = true;
        self.versions.lock().holds_claims = true;
    }

    /// Performs steps 3 and 4 of an installation (see the module documentation): makes edits
    /// durable, all or none. If an edit adds a table that is in `new_tables`, the new version gets
    /// the `FileMetadata` from `new_tables`. If writing the MANIFEST fails, or failed earlier,
    /// calls `failed` with the error before this installation's turn ends.
    ///
    /// # Errors
    /// Corruption, for edits that contradict the versions, in which case nothing is written. Errors
    /// from writing the MANIFEST, after which nothing is written until [`Versions::start_over`].
    pub(crate) fn write(
        mut self,
        mut edits: Vec<VersionEdit>,
        new_tables: &[Arc<FileMetadata>],
        last_sequence: Sequence,
        failed: impl FnOnce(&Error),
    ) -> Result<Written<'v>> {
        let written = self.write_edits(&mut edits, new_tables, last_sequence);
        match written {
            Ok(next) => Ok(Written { installation: self, edits, next }),
            Err(error) => {
                if self.versions().failure().is_some() {
                    failed(&error);
                }
                Err(error)
            }
        }
    }

    fn write_edits(
        &mut self,
        edits: &mut [VersionEdit],
        new_tables: &[Arc<FileMetadata>],
        last_sequence: Sequence,
    ) -> Result<BTreeMap<u32, Arc<Version>>> {
        let limits = self.versions.lock().limits();
        let numbers = self.manifest.is_long(limits).then(|| self.manifest.take_numbers());
        let numbers = numbers.transpose()?;
        let (next, rolled) = {
            let mut set = self.versions.lock();
            if let Some(failure) = set.failure() {
                return Err(failure.clone());
            }
            let next = set.next_versions(edits, new_tables)?;
            set.complete(edits, last_sequence);
            (next, numbers.map(|numbers| set.new_manifest(numbers)))
        };
        self.is_halfway = true;
        let rolled = rolled.map_or(Ok(()), |new| self.manifest.roll_if_possible(&new));
        if let Err(error) = rolled.and_then(|()| self.manifest.append(edits)) {
            // It is now unknown which MANIFEST CURRENT names, or where the MANIFEST ends. This
            // error is latched here, so dropping the installation must not latch another.
            self.is_halfway = false;
            self.versions.lock().set_failure(Some(error.clone()));
            return Err(error);
        }
        Ok(next)
    }
}

impl<'v> Written<'v> {
    /// Performs step 5 of an installation (see the module documentation): replaces the old versions
    /// by those that result from the edits.
    pub(crate) fn install(self) -> Installed<'v> {
        let Self { mut installation, edits, next } = self;
        let mut set = installation.versions.lock();
        let retired = set.install(&edits, next);
        installation.is_halfway = false;
        Installed { set, retired, installation }
    }
}

impl Installed<'_> {
    /// Schedules the removal of the files that the installation took out of the version of column
    /// family `id`. `tables` and `blobs` are the caches through which the family's files are read.
    /// Returns whether there are such files; the cleaning job must be notified then.
    pub(crate) fn retire(&mut self, id: u32, tables: &TableCache, blobs: &BlobCache) -> bool {
        let retired = self.retired.remove(&id).filter(|retired| !retired.is_empty());
        let is_any = retired.is_some();
        if let Some(retired) = retired {
            self.installation.versions.obsolete.add(retired, tables, blobs);
        }
        is_any
    }
}

impl Deref for Installed<'_> {
    type Target = VersionSet;

    fn deref(&self) -> &VersionSet {
        &self.set
    }
}

impl DerefMut for Installed<'_> {
    fn deref_mut(&mut self) -> &mut VersionSet {
        &mut self.set
    }
}

impl Drop for Installation<'_> {
    fn drop(&mut self) {
        if !self.is_halfway && !self.holds_claims {
            return;
        }
        let mut set = self.versions.lock();
        if self.is_halfway {
            set.set_failure(Some(panics::unwinding("an installation")));
        }
        if self.holds_claims {
            set.holds_claims = false;
            drop(set);
            self.versions.claims_released.notify_all();
        }
    }
}
