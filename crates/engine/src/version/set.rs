//! The versions of all column families, and the MANIFEST they are written to.
//!
//! # Order
//!
//! 1. The edits are applied to the versions in memory, aside; what does not fit is refused here.
//! 2. They are appended to the MANIFEST, as one group if they are several.
//! 3. The MANIFEST is synced.
//! 4. The new versions take the place of the old.
//!
//! A crash before the end of step 3 is safe: the records may be there or not, or be cut short,
//! which replay takes for the end; with a group, none of it counts unless all of it is there. After
//! a failed write or sync nothing is known of the end of the file, so the set latches;
//! [`VersionSet::start_over`] writes a new MANIFEST.
//!
//! A new MANIFEST is written whole and synced before CURRENT names it. CURRENT is written aside,
//! synced and renamed, and the directory is synced, so that at every moment it names a MANIFEST
//! that is whole.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tailwater_format::Comparator;
use tailwater_format::file_name::{self, FileKind};
use tailwater_format::key::Sequence;
use tailwater_format::log::Writer;
use tailwater_format::version_edit::{BlobFileGarbage, VersionEdit};
use tailwater_io::{Create, IoMode, Purpose, Storage, WriteFile};

use crate::compaction::CompactionState;
use crate::version::{Version, VersionBuilder};
use crate::{Error, ErrorKind, Result};

/// One counter numbers every file of a database.
#[derive(Debug, Clone)]
pub(crate) struct FileNumbers(Arc<AtomicU64>);

impl FileNumbers {
    /// Begins with `next`.
    pub(crate) fn starting_at(next: u64) -> Self {
        Self(Arc::new(AtomicU64::new(next)))
    }

    /// A number that no file has.
    pub(crate) fn take(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    /// The number that the next file gets.
    pub(crate) fn next(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

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
}

impl FamilyVersion {
    /// The epoch number of the next table in level 0.
    pub(crate) fn next_epoch(&self) -> u64 {
        let epochs = self.version.files().map(|(_, file)| file.added().epoch_number);
        epochs.max().unwrap_or(0) + 1
    }
}

/// What all versions together consist of.
pub(crate) struct VersionSet {
    storage: Arc<dyn Storage>,
    directory: PathBuf,
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
    manifest: Option<ManifestFile>,
    failure: Option<Error>,
    limits: ManifestLimits,
}

/// How long a MANIFEST may become before it is written anew.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ManifestLimits {
    /// In bytes.
    pub(crate) max_bytes: u64,
    /// How much longer than it was when it was new, in percent.
    pub(crate) max_growth_percent: u64,
}

/// The MANIFEST that is being written.
pub(crate) struct ManifestFile {
    number: u64,
    path: PathBuf,
    file: Box<dyn WriteFile>,
    encoder: Writer,
    buffer: Vec<u8>,
    written: u64,
    /// How long it was when it was new, in bytes.
    first_bytes: u64,
    /// How long it must be at least for another to take its place, in bytes.
    rolled_from: u64,
}

/// What a set of versions begins with.
pub(crate) struct VersionSetBeginning {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) directory: PathBuf,
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
    pub(crate) fn new(beginning: VersionSetBeginning) -> Self {
        let VersionSetBeginning {
            storage,
            directory,
            numbers,
            database_id,
            max_column_family,
            last_sequence,
            min_log_number,
            families,
            limits,
        } = beginning;
        Self {
            storage,
            directory,
            numbers,
            database_id,
            max_column_family,
            last_sequence,
            min_log_number,
            families,
            existing_logs: None,
            is_log_list_new: false,
            manifest: None,
            failure: None,
            limits,
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

    /// The number of the MANIFEST that is written; 0 before there is one.
    pub(crate) fn manifest_number(&self) -> u64 {
        self.manifest.as_ref().map_or(0, |manifest| manifest.number)
    }

    /// An id for a new column family.
    pub(crate) fn next_family_id(&self) -> u32 {
        self.max_column_family + 1
    }

    /// Why nothing more is written, if that is so.
    pub(crate) fn failure(&self) -> Option<&Error> {
        self.failure.as_ref()
    }

    /// Applies edits, all or none, and makes them durable.
    ///
    /// # Errors
    /// Corruption, for edits that do not fit the versions: nothing is written then. Those of
    /// writing the MANIFEST, after which nothing more is written until [`VersionSet::start_over`].
    pub(crate) fn apply(
        &mut self,
        mut edits: Vec<VersionEdit>,
        last_sequence: Sequence,
    ) -> Result<()> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let versions = self.next_versions(&edits)?;
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
        }
        let is_long = self.manifest.as_ref().is_none_or(|manifest| {
            let bound = self.limits.bound(manifest.first_bytes);
            manifest.written >= bound.max(manifest.rolled_from)
        });
        let rolled = if is_long { self.roll_if_possible() } else { Ok(()) };
        if let Err(error) = rolled.and_then(|()| self.append(&edits)) {
            // Which MANIFEST CURRENT names, or what its end is, is not known now.
            self.failure = Some(error.clone());
            return Err(error);
        }
        self.is_log_list_new = false;
        self.install(&edits, versions);
        Ok(())
    }

    /// Writes a new MANIFEST of what is in memory, after a failure or at the start, and makes
    /// CURRENT name it.
    pub(crate) fn start_over(&mut self) -> Result<()> {
        self.roll_manifest()?;
        self.failure = None;
        Ok(())
    }

    /// The versions that edits lead to, of the column families that they change files of.
    fn next_versions(&self, edits: &[VersionEdit]) -> Result<BTreeMap<u32, Arc<Version>>> {
        let mut builders: BTreeMap<u32, VersionBuilder> = BTreeMap::new();
        let wrong = |what: String| Error::new(ErrorKind::Corruption, format!("an edit {what}"));
        for edit in edits {
            let Some(family) = self.families.get(&edit.column_family) else { continue };
            let builder = builders
                .entry(edit.column_family)
                .or_insert_with(|| VersionBuilder::from_version(&family.version));
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

    fn append(&mut self, edits: &[VersionEdit]) -> Result<()> {
        let Some(manifest) = &mut self.manifest else {
            return Err(Error::new(ErrorKind::Io, "there is no MANIFEST to write to"));
        };
        for edit in edits {
            manifest.add(edit)?;
        }
        // A crash here is safe: replay takes what is not whole for the end.
        manifest.write_out()?;
        manifest.file.sync_data(Purpose::Manifest)?;
        Ok(())
    }

    fn install(&mut self, edits: &[VersionEdit], mut versions: BTreeMap<u32, Arc<Version>>) {
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

    /// Rolls the MANIFEST, unless there is no descriptor left for that: the old one goes on then.
    fn roll_if_possible(&mut self) -> Result<()> {
        match self.prepare_manifest() {
            Ok((manifest, aside)) => self.complete_roll(manifest, &aside),
            Err(error) => match &mut self.manifest {
                Some(manifest) if error.is_out_of_descriptors() => {
                    // Not again for every edit: it writes everything anew.
                    manifest.rolled_from = manifest.written + manifest.written / 8;
                    Ok(())
                }
                _ => Err(error),
            },
        }
    }

    /// Writes a new MANIFEST of what is in memory and makes CURRENT name it.
    fn roll_manifest(&mut self) -> Result<()> {
        let (manifest, aside) = self.prepare_manifest()?;
        self.complete_roll(manifest, &aside)
    }

    /// Writes a new MANIFEST of what is in memory, and aside what CURRENT is to be. Returns both;
    /// if it fails, the old MANIFEST is as it was.
    fn prepare_manifest(&self) -> Result<(ManifestFile, PathBuf)> {
        let number = self.numbers.take();
        let (storage, directory) = (&*self.storage, &self.directory);
        let temporary = self.numbers.take();
        let written = write_manifest(storage, directory, number, &self.snapshot());
        let prepared = written.and_then(|manifest| {
            let aside = write_current_aside(storage, directory, number, temporary)?;
            Ok((manifest, aside))
        });
        if prepared.is_err() {
            // The next open removes what stays.
            for kind in [FileKind::Manifest(number), FileKind::Temporary(temporary)] {
                let _ = storage.remove(&directory.join(kind.to_string()));
            }
        }
        prepared
    }

    fn complete_roll(&mut self, manifest: ManifestFile, aside: &Path) -> Result<()> {
        // A crash here is safe: CURRENT still names the old MANIFEST.
        replace_current(&*self.storage, &self.directory, aside)?;
        if let Some(old) = self.manifest.replace(manifest) {
            // It stays where it is if that fails: nothing refers to it.
            let _ = self.storage.remove(&old.path);
        }
        Ok(())
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

impl ManifestLimits {
    /// How long a MANIFEST may become that had so many bytes when it was new.
    fn bound(self, first_bytes: u64) -> u64 {
        let growth = first_bytes.saturating_mul(self.max_growth_percent) / 100;
        self.max_bytes.max(first_bytes.saturating_add(growth))
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

/// Writes a MANIFEST of these edits, and puts it and its name on the device.
pub(crate) fn write_manifest(
    storage: &dyn Storage,
    directory: &Path,
    number: u64,
    edits: &[VersionEdit],
) -> Result<ManifestFile> {
    let path = directory.join(FileKind::Manifest(number).to_string());
    // One that is there is what an opening left that did not come to name it in CURRENT.
    let file = storage.create(&path, Create::Truncate, IoMode::Buffered, Purpose::Manifest)?;
    let mut manifest = ManifestFile {
        number,
        path,
        file,
        encoder: Writer::new(number, false),
        buffer: Vec::new(),
        written: 0,
        first_bytes: 0,
        rolled_from: 0,
    };
    for edit in edits {
        manifest.add(edit)?;
    }
    manifest.write_out()?;
    manifest.first_bytes = manifest.written;
    manifest.file.sync_data(Purpose::Manifest)?;
    // CURRENT must not be on the device before the file that it names.
    storage.sync_directory(directory)?;
    Ok(manifest)
}

/// Makes CURRENT name a MANIFEST that is whole and on the device.
pub(crate) fn set_current(
    storage: &dyn Storage,
    directory: &Path,
    manifest: u64,
    temporary: u64,
) -> Result<()> {
    let aside = write_current_aside(storage, directory, manifest, temporary)?;
    // A crash here is safe: the old CURRENT is still there.
    replace_current(storage, directory, &aside)
}

/// Writes what CURRENT is to be into a temporary file, and returns its path.
fn write_current_aside(
    storage: &dyn Storage,
    directory: &Path,
    manifest: u64,
    temporary: u64,
) -> Result<PathBuf> {
    let aside = directory.join(FileKind::Temporary(temporary).to_string());
    let contents = file_name::format_current(manifest);
    write_whole(storage, &aside, contents.as_bytes(), Purpose::Manifest)?;
    Ok(aside)
}

fn replace_current(storage: &dyn Storage, directory: &Path, aside: &Path) -> Result<()> {
    storage.rename(aside, &directory.join(FileKind::Current.to_string()))?;
    // A crash here may leave the old or the new CURRENT; each names a MANIFEST that is whole.
    storage.sync_directory(directory)?;
    Ok(())
}

/// Writes a small file and puts it on the device; its name is not synced.
pub(crate) fn write_whole(
    storage: &dyn Storage,
    path: &Path,
    contents: &[u8],
    purpose: Purpose,
) -> Result<()> {
    let mut file = storage.create(path, Create::Truncate, IoMode::Buffered, purpose)?;
    file.write_all_at(contents, 0, purpose)?;
    file.sync_all(purpose)?;
    Ok(())
}

impl ManifestFile {
    fn add(&mut self, edit: &VersionEdit) -> Result<()> {
        let mut record = Vec::new();
        let encoded = edit.encode(&mut record);
        encoded
            .and_then(|()| self.encoder.add_record(&record, &mut self.buffer))
            .map_err(|error| Error::decoding(&self.path, self.written, error))
    }

    fn write_out(&mut self) -> Result<()> {
        self.file.write_all_at(&self.buffer, self.written, Purpose::Manifest)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}
