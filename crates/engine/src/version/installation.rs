//! The lock on the versions, and the queue of those who change them.
//!
//! # Invariants
//!
//! - The lock is held for what is in memory only, never across a call to storage.
//! - Only whoever has the turn changes versions or writes to the MANIFEST. So edits take effect in
//!   the order in which they are written, and what is found of the versions in a turn stays true
//!   until its end. Compactions alone come and go, which claim their inputs under the lock;
//!   [`Installation::hold_claims`] lets none come.
//! - Files of a version that is not installed are private to who brings them. Nothing looks for
//!   files that no version has while a database is open: each is removed by who made it or has it
//!   replaced, so the outputs of work in progress need no other protection.
//!
//! # Order
//!
//! 1. New tables are opened by whoever brings them, before the turn: nobody waits for that.
//! 2. The turn: those who come first go first.
//! 3. Under the lock the edits are applied to the versions, aside; what does not fit is refused
//!    here.
//! 4. Without the lock the edits are appended to the MANIFEST, as one group if they are several,
//!    and synced. A MANIFEST that has become long is rolled before.
//! 5. Under the lock the new versions take the place of the old. Whoever installs them shows them
//!    to readers before the lock is released, so that under the lock both are the same.
//! 6. The turn passes on.
//!
//! # A crash
//!
//! Before the end of step 4 the records may be there or not, or be cut short, which replay takes
//! for the end; with a group, none of it counts unless all of it is there. Where the edits do not
//! count the tables are left over. After step 4 they count.
//!
//! # An error
//!
//! After a failed write or sync nothing is known of the end of the MANIFEST, so the versions latch:
//! whoever waits for a turn, or comes later, is refused before anything is written, until
//! [`Versions::start_over`] has written a new MANIFEST of what is in memory. A panic between the
//! beginning of step 4 and the end of step 5 latches them, too, because memory may lack edits that
//! the MANIFEST has. Only reopening helps then.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::sync::{Arc, MutexGuard};

use tailwater_format::key::Sequence;
use tailwater_format::version_edit::VersionEdit;
use tailwater_io::Storage;
use tailwater_io::sync::{Condvar, Mutex};

use super::manifest_writer::ManifestWriter;
use super::obsolete::ObsoleteTables;
use super::turns::{Turn, Turns};
use crate::error::{Error, Result};
use crate::panics;
use crate::stats::InfoLog;
use crate::table::FileMetadata;
use crate::version::{Version, VersionSet, VersionSetBeginning};

/// The versions of all column families, and the MANIFEST that they are written to.
pub(crate) struct Versions {
    set: Mutex<VersionSet>,
    /// Notified when compactions may be claimed again.
    claims_released: Condvar,
    manifest: Turns<ManifestWriter>,
    obsolete: ObsoleteTables,
}

/// The turn of someone who changes the versions. Dropping it passes the turn on.
pub(crate) struct Installation<'v> {
    versions: &'v Versions,
    manifest: Turn<'v, ManifestWriter>,
    /// Whether the MANIFEST may have edits that the versions have not.
    is_halfway: bool,
    holds_claims: bool,
}

/// Edits that the MANIFEST has, and the versions that they lead to. Dropping it without installing
/// them latches the versions.
#[must_use]
pub(crate) struct Written<'v> {
    installation: Installation<'v>,
    edits: Vec<VersionEdit>,
    next: BTreeMap<u32, Arc<Version>>,
}

/// The versions, with the edits of an installation, locked: for readers to be shown them.
pub(crate) struct Installed<'v> {
    set: MutexGuard<'v, VersionSet>,
    #[expect(dead_code, reason = "the turn passes on when the lock is released")]
    installation: Installation<'v>,
}

impl Versions {
    /// Versions of a database at `directory` that no MANIFEST is being written for yet.
    pub(crate) fn new(
        storage: Arc<dyn Storage>,
        directory: PathBuf,
        beginning: VersionSetBeginning,
        info_log: Arc<InfoLog>,
    ) -> Self {
        Self {
            obsolete: ObsoleteTables::new(Arc::clone(&storage), info_log),
            set: Mutex::new(VersionSet::new(beginning)),
            claims_released: Condvar::new(),
            manifest: Turns::new(ManifestWriter::new(storage, directory)),
        }
    }

    /// Locks the versions. The lock is for looking at them and never held across a call to storage.
    pub(crate) fn lock(&self) -> MutexGuard<'_, VersionSet> {
        self.set.lock()
    }

    /// Returns the tables that no version has any more.
    pub(crate) fn obsolete(&self) -> &ObsoleteTables {
        &self.obsolete
    }

    /// Locks the versions to claim a compaction, when no installation holds claims off.
    pub(crate) fn lock_to_claim(&self) -> MutexGuard<'_, VersionSet> {
        let mut set = self.set.lock();
        while set.holds_claims {
            set = self.claims_released.wait(set);
        }
        set
    }

    /// Waits for the turn to change the versions.
    pub(crate) fn begin_installation(&self) -> Installation<'_> {
        let manifest = self.manifest.wait();
        Installation { versions: self, manifest, is_halfway: false, holds_claims: false }
    }

    /// Writes a new MANIFEST of what is in memory, after a failure or at the start, and makes
    /// CURRENT name it.
    pub(crate) fn start_over(&self) -> Result<()> {
        let mut installation = self.begin_installation();
        let new = self.lock().new_manifest();
        installation.manifest.start_over(&new)?;
        self.lock().set_failure(None);
        Ok(())
    }

    /// The number of the MANIFEST that is written; 0 before there is one. Waits for installations.
    pub(crate) fn manifest_number(&self) -> u64 {
        self.begin_installation().manifest.number()
    }
}

impl<'v> Installation<'v> {
    /// Locks the versions: but for compactions that begin or end they are as they were at the
    /// beginning of the turn.
    pub(crate) fn versions(&self) -> MutexGuard<'v, VersionSet> {
        self.versions.lock()
    }

    /// Lets no compaction be claimed until the turn passes on.
    pub(crate) fn hold_claims(&mut self) {
        self.holds_claims = true;
        self.versions.lock().holds_claims = true;
    }

    /// Steps 3 and 4: makes edits durable, all or none. A table that an edit adds is the one of
    /// `new_tables`, if that has it. `failed` is called with a failure before the turn passes on.
    ///
    /// # Errors
    /// Corruption, for edits that do not fit the versions: nothing is written then. Those of
    /// writing the MANIFEST, after which nothing more is written until [`Versions::start_over`].
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
        let (next, rolled) = {
            let mut set = self.versions.lock();
            if let Some(failure) = set.failure() {
                return Err(failure.clone());
            }
            let next = set.next_versions(edits, new_tables)?;
            set.complete(edits, last_sequence);
            (next, self.manifest.is_long(set.limits()).then(|| set.new_manifest()))
        };
        self.is_halfway = true;
        let rolled = rolled.map_or(Ok(()), |new| self.manifest.roll_if_possible(&new));
        if let Err(error) = rolled.and_then(|()| self.manifest.append(edits)) {
            // Which MANIFEST CURRENT names, or what its end is, is not known now.
            self.is_halfway = false;
            self.versions.lock().set_failure(Some(error.clone()));
            return Err(error);
        }
        Ok(next)
    }
}

impl<'v> Written<'v> {
    /// Step 5: lets the edits take effect.
    pub(crate) fn install(self) -> Installed<'v> {
        let Self { mut installation, edits, next } = self;
        let mut set = installation.versions.lock();
        set.install(&edits, next);
        installation.is_halfway = false;
        Installed { set, installation }
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
