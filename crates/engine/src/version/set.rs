//! The versions of all column families, in memory. [`Versions`](super::Versions) has the lock on
//! them and the order in which they change.

use std::collections::BTreeMap;
use std::sync::Arc;

use tailwater_format::Comparator;
use tailwater_format::key::Sequence;
use tailwater_format::version_edit::{BlobFileGarbage, VersionEdit};

use super::manifest_writer::{ManifestLimits, NewManifest};
use crate::error::{Error, ErrorKind, Result};
use crate::file_numbers::FileNumbers;
use crate::table::FileMetadata;
use crate::version::{CompactionState, Version, VersionBuilder};

/// A column family, as the MANIFEST has it.
#[derive(Debug)]
pub(crate) struct FamilyVersion {
    pub(crate) name: String,
    pub(crate) comparator: Comparator,
    /// Logs with a lower number hold nothing for it that is not in tables.
    pub(crate) log_number: u64,
    pub(crate) level_count: usize,
    pub(crate) version: Arc<Version>,
    pub(crate) compactions: CompactionState,
    /// The epoch number of the next table that is flushed or ingested.
    pub(crate) next_epoch: u64,
}

impl FamilyVersion {
    /// The epoch number after those of all tables of a version.
    pub(crate) fn epoch_after(version: &Version) -> u64 {
        let epochs = version.files().map(|(_, file)| file.added().epoch_number);
        epochs.max().unwrap_or(0) + 1
    }
}

/// What all versions together consist of.
pub(crate) struct VersionSet {
    numbers: FileNumbers,
    /// `None` where it is not to stand in the MANIFEST.
    database_id: Option<String>,
    max_column_family: u32,
    last_sequence: Sequence,
    /// Logs with a lower number are needed by no column family.
    min_log_number: u64,
    families: BTreeMap<u32, FamilyVersion>,
    /// The logs that exist under durable names, as the MANIFEST is to say; `None` before that is
    /// known.
    existing_logs: Option<Vec<u64>>,
    /// Whether the MANIFEST does not say it yet.
    is_log_list_new: bool,
    failure: Option<Error>,
    limits: ManifestLimits,
    /// Whether no compaction may be claimed: where ingested files go was decided by those that run.
    pub(super) holds_claims: bool,
}

/// What a set of versions begins with.
pub(crate) struct VersionSetBeginning {
    pub(crate) numbers: FileNumbers,
    pub(crate) database_id: Option<String>,
    pub(crate) max_column_family: u32,
    pub(crate) last_sequence: Sequence,
    pub(crate) min_log_number: u64,
    pub(crate) families: BTreeMap<u32, FamilyVersion>,
    pub(crate) limits: ManifestLimits,
}

impl VersionSet {
    /// Lets MANIFESTs grow to other bounds.
    pub(crate) fn set_limits(&mut self, limits: ManifestLimits) {
        self.limits = limits;
    }

    /// Versions that no MANIFEST is being written for yet.
    pub(super) fn new(beginning: VersionSetBeginning) -> Self {
        let VersionSetBeginning {
            numbers,
            database_id,
            max_column_family,
            last_sequence,
            min_log_number,
            families,
            limits,
        } = beginning;
        Self {
            numbers,
            database_id,
            max_column_family,
            last_sequence,
            min_log_number,
            families,
            existing_logs: None,
            is_log_list_new: false,
            failure: None,
            limits,
            holds_claims: false,
        }
    }

    /// The column families, by id.
    pub(crate) fn families(&self) -> &BTreeMap<u32, FamilyVersion> {
        &self.families
    }

    /// What the compactions of a column family have in common.
    pub(crate) fn compactions(&mut self, id: u32) -> Option<&mut CompactionState> {
        self.families.get_mut(&id).map(|family| &mut family.compactions)
    }

    /// Logs with a lower number are needed by no column family.
    pub(crate) fn min_log_number(&self) -> u64 {
        self.min_log_number
    }

    /// Whether the MANIFEST says that exactly these logs exist, or its next edit will.
    pub(crate) fn knows_logs(&self, logs: &[u64]) -> bool {
        self.existing_logs.as_deref() == Some(logs)
    }

    /// Has the next edit say that these logs exist, in ascending order. Their names must be on the
    /// device.
    pub(crate) fn set_existing_logs(&mut self, logs: Vec<u64>) {
        self.existing_logs = Some(logs);
        self.is_log_list_new = true;
    }

    /// An id for a new column family.
    pub(crate) fn next_family_id(&self) -> u32 {
        self.max_column_family + 1
    }

    /// Why nothing more is written, if that is so.
    pub(crate) fn failure(&self) -> Option<&Error> {
        self.failure.as_ref()
    }

    /// Notes that nothing more is written, and why, or that a new MANIFEST was written since.
    pub(super) fn set_failure(&mut self, failure: Option<Error>) {
        self.failure = failure;
    }

    /// How long MANIFESTs may become.
    pub(super) fn limits(&self) -> ManifestLimits {
        self.limits
    }

    /// Takes epoch numbers for new tables of a column family, and returns the first of them. `None`
    /// for a column family that was dropped.
    ///
    /// A table takes its number before it is installed, so one that is installed later may have a
    /// lower number. It has none of the other's keys then: whatever was in memory of these was
    /// flushed before an ingestion took its numbers, and one flush comes after the other.
    pub(crate) fn take_epochs(&mut self, id: u32, count: usize) -> Option<u64> {
        let family = self.families.get_mut(&id)?;
        let first = family.next_epoch;
        family.next_epoch += count as u64;
        Some(first)
    }

    /// Completes edits that are written next, as one group, with what only the set knows.
    pub(super) fn complete(&mut self, edits: &mut [VersionEdit], last_sequence: Sequence) {
        self.last_sequence = self.last_sequence.max(last_sequence);
        let count = edits.len() as u32;
        for (index, edit) in edits.iter_mut().enumerate() {
            edit.next_file_number = Some(self.numbers.next());
            edit.last_sequence = Some(self.last_sequence);
            edit.atomic_group_remaining = (count > 1).then(|| count - 1 - index as u32);
            if edit.column_family_add.is_some() {
                edit.max_column_family = Some(self.max_column_family.max(edit.column_family));
            }
        }
        if self.is_log_list_new
            && let Some(last) = edits.last_mut()
        {
            last.existing_logs.clone_from(&self.existing_logs);
            // Where it is not written, a whole MANIFEST follows, which says it, too.
            self.is_log_list_new = false;
        }
    }

    /// What a new MANIFEST says, and its numbers.
    pub(super) fn new_manifest(&self) -> NewManifest {
        let (number, temporary) = (self.numbers.take(), self.numbers.take());
        NewManifest { number, temporary, edits: self.snapshot() }
    }

    /// The versions that edits lead to, of the column families that they change files of. A table
    /// that an edit adds is the one of `new_tables`, if that has it.
    pub(super) fn next_versions(
        &self,
        edits: &[VersionEdit],
        new_tables: &[Arc<FileMetadata>],
    ) -> Result<BTreeMap<u32, Arc<Version>>> {
        let mut builders: BTreeMap<u32, VersionBuilder> = BTreeMap::new();
        let wrong = |what: String| Error::new(ErrorKind::Corruption, format!("an edit {what}"));
        for edit in edits {
            let Some(family) = self.families.get(&edit.column_family) else { continue };
            let builder = builders
                .entry(edit.column_family)
                .or_insert_with(|| VersionBuilder::from_version(&family.version, new_tables));
            builder.apply(edit).map_err(wrong)?;
        }
        let mut versions = BTreeMap::new();
        for (id, builder) in builders {
            if let Some(family) = self.families.get(&id) {
                let version =
                    builder.finish(&family.comparator, family.level_count).map_err(wrong)?;
                versions.insert(id, Arc::new(version));
            }
        }
        Ok(versions)
    }

    /// Puts versions in the place of those before, as the edits say that led to them.
    pub(super) fn install(
        &mut self,
        edits: &[VersionEdit],
        mut versions: BTreeMap<u32, Arc<Version>>,
    ) {
        for edit in edits {
            let id = edit.column_family;
            let min_log_number = edit.min_log_number_to_keep.unwrap_or(0);
            self.min_log_number = self.min_log_number.max(min_log_number);
            if edit.column_family_drop {
                self.families.remove(&id);
                continue;
            }
            self.max_column_family = self.max_column_family.max(id);
            if let Some(family) = self.families.get_mut(&id) {
                family.log_number = family.log_number.max(edit.log_number.unwrap_or(0));
                if let Some(version) = versions.remove(&id) {
                    family.version = version;
                }
            }
        }
    }

    /// Makes a new column family known, whose edit was applied.
    pub(crate) fn add_family(&mut self, id: u32, family: FamilyVersion) {
        self.max_column_family = self.max_column_family.max(id);
        self.families.insert(id, family);
    }

    /// The edits that lead from nothing to what is in memory.
    pub(crate) fn snapshot(&self) -> Vec<VersionEdit> {
        let mut edits = Vec::new();
        if self.database_id.is_some() {
            let database_id = self.database_id.clone();
            edits.push(VersionEdit { database_id, ..VersionEdit::default() });
        }
        for (&id, family) in &self.families {
            let is_default = id == 0;
            edits.push(VersionEdit {
                column_family: id,
                column_family_add: (!is_default).then(|| family.name.clone()),
                comparator: Some(family.comparator.name().to_owned()),
                ..VersionEdit::default()
            });
            edits.push(family_files(id, family));
        }
        edits.push(VersionEdit {
            previous_log_number: Some(0),
            next_file_number: Some(self.numbers.next() + 1),
            max_column_family: Some(self.max_column_family),
            min_log_number_to_keep: Some(self.min_log_number),
            last_sequence: Some(self.last_sequence),
            existing_logs: self.existing_logs.clone(),
            ..VersionEdit::default()
        });
        edits
    }
}

/// The edit that adds every file of a column family.
fn family_files(id: u32, family: &FamilyVersion) -> VersionEdit {
    let mut edit = VersionEdit {
        column_family: id,
        log_number: Some(family.log_number),
        compact_cursors: family.compactions.cursors().iter().collect(),
        ..VersionEdit::default()
    };
    for (level, file) in family.version.files() {
        let mut added = file.added().clone();
        added.level = level as u32;
        edit.new_files.push(added);
    }
    for (&number, blob_file) in family.version.blob_files() {
        edit.blob_file_additions.push(blob_file.added.clone());
        if blob_file.garbage_count > 0 {
            edit.blob_file_garbage.push(BlobFileGarbage {
                number,
                blob_count: blob_file.garbage_count,
                blob_bytes: blob_file.garbage_bytes,
            });
        }
    }
    edit
}
