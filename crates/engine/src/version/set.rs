//! The versions of all column families, in memory. [`Versions`](super::Versions) locks them and
//! orders their changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use tailwater_format::Comparator;
use tailwater_format::key::Sequence;
use tailwater_format::version_edit::{BlobFileGarbage, FamilyOptions, VersionEdit};

use super::manifest_writer::{ManifestLimits, ManifestNumbers, NewManifest};
use crate::error::{Error, ErrorKind, Result};
use crate::file_numbers::FileNumbers;
use crate::table::FileMetadata;
use crate::version::{CompactionState, Retired, Version, VersionBuilder};

/// The state of a column family according to the MANIFEST.
#[derive(Debug)]
pub(crate) struct FamilyVersion {
    pub(crate) name: String,
    pub(crate) comparator: Comparator,
    /// Number of the oldest log that the family needs.
    pub(crate) log_number: u64,
    pub(crate) level_count: usize,
    pub(crate) version: Arc<Version>,
    pub(crate) compactions: CompactionState,
    /// Epoch number of the next table that is flushed or ingested.
    pub(crate) next_epoch: u64,
    /// The options that the MANIFEST records, because no OPTIONS file has them yet.
    pub(crate) recorded_options: Option<FamilyOptions>,
}

impl FamilyVersion {
    /// Returns the epoch number that follows those of all tables of a version.
    pub(crate) fn epoch_after(version: &Version) -> u64 {
        let epochs = version.files().map(|(_, file)| file.added().epoch_number);
        epochs.max().unwrap_or(0) + 1
    }
}

/// The state of the database that the MANIFEST records.
pub(crate) struct VersionSet {
    numbers: FileNumbers,
    /// The database's id; `None` if it is not recorded in the MANIFEST.
    database_id: Option<String>,
    max_column_family: u32,
    last_sequence: Sequence,
    /// Number of the oldest log that any column family needs.
    min_log_number: u64,
    families: BTreeMap<u32, FamilyVersion>,
    /// The logs whose directory entries are durable, which the MANIFEST must list; `None` until
    /// they are known.
    existing_logs: Option<Vec<u64>>,
    /// Whether `existing_logs` was set and the MANIFEST does not list it yet.
    is_log_list_new: bool,
    failure: Option<Error>,
    limits: ManifestLimits,
    /// Whether compactions must wait before they claim inputs. Set while an ingestion is installed.
    /// The ingestion has chosen levels for its tables, and has checked for conflicts only with the
    /// compactions that were running then.
    pub(super) holds_claims: bool,
}

/// The initial state of a set of versions.
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
    /// Sets the size limits of MANIFESTs.
    pub(crate) fn set_limits(&mut self, limits: ManifestLimits) {
        self.limits = limits;
    }

    /// Creates the set of versions in memory. Reads and writes no MANIFEST.
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

    /// Returns the column families, by id.
    pub(crate) fn families(&self) -> &BTreeMap<u32, FamilyVersion> {
        &self.families
    }

    /// Returns the compaction state of a column family.
    pub(crate) fn compactions(&mut self, id: u32) -> Option<&mut CompactionState> {
        self.families.get_mut(&id).map(|family| &mut family.compactions)
    }

    /// Returns the number of the oldest log that any column family needs.
    pub(crate) fn min_log_number(&self) -> u64 {
        self.min_log_number
    }

    /// Whether the MANIFEST lists exactly these logs, or will list them once the next edit is
    /// written.
    pub(crate) fn knows_logs(&self, logs: &[u64]) -> bool {
        self.existing_logs.as_deref() == Some(logs)
    }

    /// Causes the next edit to record that these logs exist. `logs` is ascending. The directory
    /// entries of the logs must be durable.
    pub(crate) fn set_existing_logs(&mut self, logs: Vec<u64>) {
        self.existing_logs = Some(logs);
        self.is_log_list_new = true;
    }

    /// Returns an id for a new column family.
    pub(crate) fn next_family_id(&self) -> u32 {
        self.max_column_family + 1
    }

    /// Returns the latched failure. While there is a failure, nothing is written.
    pub(crate) fn failure(&self) -> Option<&Error> {
        self.failure.as_ref()
    }

    /// Latches a failure, so that nothing more is written, or clears it after a new MANIFEST was
    /// written.
    pub(super) fn set_failure(&mut self, failure: Option<Error>) {
        self.failure = failure;
    }

    /// Returns the size limits of MANIFESTs.
    pub(super) fn limits(&self) -> ManifestLimits {
        self.limits
    }

    /// Reserves `count` epoch numbers for new tables of a column family. Returns the first number,
    /// or `None` if the column family was dropped.
    ///
    /// A table gets its number before it is installed, so a table installed later may have a lower
    /// number. Two such tables have no keys in common: an ingestion reserves its numbers after
    /// overlapping memtables were flushed, and the flushes of a column family reserve theirs in the
    /// order of their memtables, each after the previous one was installed.
    pub(crate) fn take_epochs(&mut self, id: u32, count: usize) -> Option<u64> {
        let family = self.families.get_mut(&id)?;
        let first = family.next_epoch;
        family.next_epoch += count as u64;
        Some(first)
    }

    /// Completes edits that are about to be written as one group. Sets the fields that depend on
    /// the state of the set: the counters, the position of each edit in the group, and the list of
    /// logs.
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
            // The flag may be cleared even if writing this edit fails: the next edit is then
            // written to a new MANIFEST, and every new MANIFEST contains the list of logs.
            self.is_log_list_new = false;
        }
    }

    /// Returns a new MANIFEST with these file numbers.
    pub(super) fn new_manifest(&self, numbers: ManifestNumbers) -> NewManifest {
        NewManifest { numbers, edits: self.snapshot() }
    }

    /// Returns the versions that result from edits, for the column families whose files the edits
    /// change. If an edit adds a table that is in `new_tables`, the new version gets the
    /// `FileMetadata` from `new_tables`.
    pub(super) fn next_versions(
        &self,
        edits: &[VersionEdit],
        new_tables: &[Arc<FileMetadata>],
    ) -> Result<BTreeMap<u32, Arc<Version>>> {
        let mut builders: BTreeMap<u32, VersionBuilder> = BTreeMap::new();
        let wrong = |what: String| Error::new(ErrorKind::Corruption, format!("an edit {what}"));
        for edit in edits {
            let id = edit.column_family;
            if edit.column_family_add.is_some() {
                continue;
            }
            let Some(family) = self.families.get(&id) else {
                let message = format!("an edit is about column family {id}, which does not exist");
                return Err(Error::new(ErrorKind::Internal, message));
            };
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

    /// Installs the versions that resulted from edits. Returns the files of each column family that
    /// are no longer in its version.
    pub(super) fn install(
        &mut self,
        edits: &[VersionEdit],
        mut versions: BTreeMap<u32, Arc<Version>>,
    ) -> BTreeMap<u32, Retired> {
        let mut retired = BTreeMap::new();
        for edit in edits {
            let id = edit.column_family;
            let min_log_number = edit.min_log_number_to_keep.unwrap_or(0);
            self.min_log_number = self.min_log_number.max(min_log_number);
            if edit.column_family_drop {
                if let Some(dropped) = self.families.remove(&id) {
                    retired.insert(id, Retired::all(&dropped.version));
                }
                continue;
            }
            self.max_column_family = self.max_column_family.max(id);
            if let Some(family) = self.families.get_mut(&id) {
                family.log_number = family.log_number.max(edit.log_number.unwrap_or(0));
                if let Some(version) = versions.remove(&id) {
                    let own_edits = edits.iter().filter(|edit| edit.column_family == id);
                    retired.insert(id, Retired::between(&family.version, &version, own_edits));
                    family.version = version;
                }
            }
        }
        retired
    }

    /// Adds a new column family, whose edit was applied.
    pub(crate) fn add_family(&mut self, id: u32, family: FamilyVersion) {
        self.max_column_family = self.max_column_family.max(id);
        self.families.insert(id, family);
    }

    /// Notes that OPTIONS file `number` was written. A new MANIFEST then need not record options
    /// that are in this file.
    pub(crate) fn options_written(&mut self, number: u64) {
        for family in self.families.values_mut() {
            family.recorded_options.take_if(|recorded| recorded.options_number <= number);
        }
    }

    /// Returns edits that produce the set's current state when they are applied to an empty state.
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
                family_options: family.recorded_options.clone(),
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

/// Returns the edit that adds every file of a column family.
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
        edit.blob_file_additions.push((*blob_file.added).clone());
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
