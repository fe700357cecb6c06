//! Writes the MANIFEST, and the file CURRENT, which names the current MANIFEST.
//!
//! A new MANIFEST is complete and synced before CURRENT names it. CURRENT is written to a temporary
//! file, synced and renamed, and the directory is synced, so CURRENT always names a complete
//! MANIFEST.
//!
//! After a failed write or sync the end of the file is unknown. The caller must then not append to
//! the file; [`ManifestWriter::start_over`] writes a new one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_format::file_name::{self, FileKind};
use tailwater_format::record_log::Writer;
use tailwater_format::version_edit::VersionEdit;
use tailwater_io::{Create, IoMode, Purpose, Storage, WriteFile};

use super::obsolete::ObsoleteFiles;
use crate::error::{Error, Result};
use crate::file_numbers::FileNumbers;
use crate::incomplete_file::IncompleteFile;
use crate::options::DbOptions;

/// The limits on the length of a MANIFEST. A new MANIFEST is begun when the current one reaches
/// both limits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ManifestLimits {
    /// The limit on the total length of the MANIFEST, in bytes.
    pub(crate) max_bytes: u64,
    /// The limit on the growth of the MANIFEST over its initial length, in percent of that length.
    pub(crate) max_growth_percent: u64,
}

impl ManifestLimits {
    /// Returns the limits that the options set.
    pub(crate) fn of(options: &DbOptions) -> Self {
        Self {
            max_bytes: options.max_manifest_file_size,
            max_growth_percent: u64::try_from(options.max_manifest_space_amp_pct).unwrap_or(0),
        }
    }
}

/// The MANIFEST that is being written.
pub(crate) struct ManifestFile {
    number: u64,
    path: PathBuf,
    file: Box<dyn WriteFile>,
    encoder: Writer,
    buffer: Vec<u8>,
    written: u64,
    /// Initial length of the file, in bytes.
    first_bytes: u64,
    /// Length at which a new MANIFEST is begun, in bytes.
    rolled_from: u64,
}

/// The file numbers of a new MANIFEST.
#[derive(Debug, Clone, Copy)]
pub(super) struct ManifestNumbers {
    manifest: u64,
    /// Number of the temporary file that is renamed to CURRENT.
    temporary: u64,
}

/// A new MANIFEST.
pub(super) struct NewManifest {
    pub(super) numbers: ManifestNumbers,
    /// Edits that produce the database's current state when they are applied to an empty state.
    pub(super) edits: Vec<VersionEdit>,
}

/// Writes MANIFESTs, one after the other.
pub(super) struct ManifestWriter {
    storage: Arc<dyn Storage>,
    directory: PathBuf,
    numbers: FileNumbers,
    obsolete: Arc<ObsoleteFiles>,
    current: Option<ManifestFile>,
}

impl ManifestWriter {
    /// Creates a writer without a MANIFEST. Replaced MANIFESTs are passed to `obsolete`.
    pub(super) fn new(
        storage: Arc<dyn Storage>,
        directory: PathBuf,
        numbers: FileNumbers,
        obsolete: Arc<ObsoleteFiles>,
    ) -> Self {
        Self { storage, directory, numbers, obsolete, current: None }
    }

    /// Takes the file numbers of a new MANIFEST. They must be taken before the contents of the
    /// MANIFEST are determined, which include the next file number.
    pub(super) fn take_numbers(&self) -> Result<ManifestNumbers> {
        let take = |kind: fn(u64) -> FileKind| {
            let path = |number| self.directory.join(kind(number).to_string());
            self.numbers.take_unused(&*self.storage, path).map(|(number, _)| number)
        };
        Ok(ManifestNumbers {
            manifest: take(FileKind::Manifest)?,
            temporary: take(FileKind::Temporary)?,
        })
    }

    /// Returns the number of the current MANIFEST; 0 if none was written yet.
    pub(super) fn number(&self) -> u64 {
        self.current.as_ref().map_or(0, |manifest| manifest.number)
    }

    /// Whether a new MANIFEST should be begun because the current one is too long.
    pub(super) fn is_long(&self, limits: ManifestLimits) -> bool {
        self.current.as_ref().is_none_or(|manifest| {
            let bound = limits.bound(manifest.first_bytes);
            manifest.written >= bound.max(manifest.rolled_from)
        })
    }

    /// Appends edits and syncs them.
    pub(super) fn append(&mut self, edits: &[VersionEdit]) -> Result<()> {
        let Some(manifest) = &mut self.current else {
            return Err(Error::internal("there is no MANIFEST to write to"));
        };
        for edit in edits {
            manifest.add(edit)?;
        }
        // A crash here is safe: replay treats an incomplete record as the end of the MANIFEST.
        manifest.write_out()?;
        manifest.file.sync_data(Purpose::Manifest)?;
        Ok(())
    }

    /// Begins a new MANIFEST. If no file descriptor is free, the old MANIFEST stays in use.
    pub(super) fn roll_if_possible(&mut self, new: &NewManifest) -> Result<()> {
        match self.prepare(new) {
            Ok((manifest, aside)) => self.complete_roll(manifest, &aside),
            Err(error) => match &mut self.current {
                Some(manifest) if error.is_out_of_descriptors() => {
                    // The next attempt to begin a new MANIFEST is made when the old one has grown
                    // by an eighth, because each attempt writes the whole state.
                    manifest.rolled_from = manifest.written + manifest.written / 8;
                    Ok(())
                }
                _ => Err(error),
            },
        }
    }

    /// Writes a new MANIFEST, and makes CURRENT name it. Used when a database is opened, and after
    /// a failure to write the MANIFEST.
    pub(super) fn start_over(&mut self, new: &NewManifest) -> Result<()> {
        let (manifest, aside) = self.prepare(new)?;
        self.complete_roll(manifest, &aside)
    }

    /// Writes a new MANIFEST, and the new contents of CURRENT to a temporary file. Returns both
    /// files. On failure the old MANIFEST is unchanged.
    fn prepare(&self, new: &NewManifest) -> Result<(ManifestFile, PathBuf)> {
        let (storage, directory) = (&*self.storage, &self.directory);
        let ManifestNumbers { manifest, temporary } = new.numbers;
        let written = write_manifest(storage, directory, Create::New, manifest, &new.edits)?;
        let path = written.path.clone();
        let incomplete = IncompleteFile::created(storage, &path);
        let aside = write_current_aside(storage, directory, manifest, temporary)?;
        incomplete.complete();
        Ok((written, aside))
    }

    fn complete_roll(&mut self, manifest: ManifestFile, aside: &Path) -> Result<()> {
        // A crash here is safe: CURRENT still names the old MANIFEST.
        replace_current(&*self.storage, &self.directory, aside)?;
        if let Some(old) = self.current.replace(manifest) {
            self.obsolete.remove(old.path);
        }
        Ok(())
    }
}

impl ManifestLimits {
    /// Returns the length, in bytes, at which a MANIFEST with this initial length is replaced by a
    /// new one.
    fn bound(self, first_bytes: u64) -> u64 {
        let growth = first_bytes.saturating_mul(self.max_growth_percent) / 100;
        self.max_bytes.max(first_bytes.saturating_add(growth))
    }
}

/// Writes a new MANIFEST with these edits, and syncs the file and its directory entry. After a
/// failure, a created file is removed.
pub(crate) fn write_manifest(
    storage: &dyn Storage,
    directory: &Path,
    create: Create,
    number: u64,
    edits: &[VersionEdit],
) -> Result<ManifestFile> {
    let path = directory.join(FileKind::Manifest(number).to_string());
    let file = storage.create(&path, create, IoMode::Buffered, Purpose::Manifest)?;
    let incomplete = IncompleteFile::created(storage, &path);
    let mut manifest = ManifestFile {
        number,
        path: path.clone(),
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
    // CURRENT must not become durable before the file that it names.
    storage.sync_directory(directory)?;
    incomplete.complete();
    Ok(manifest)
}

/// Makes CURRENT name a complete and synced MANIFEST.
pub(crate) fn set_current(
    storage: &dyn Storage,
    directory: &Path,
    manifest: u64,
    temporary: u64,
) -> Result<()> {
    let aside = write_current_aside(storage, directory, manifest, temporary)?;
    // A crash here is safe: the old CURRENT still exists.
    replace_current(storage, directory, &aside)
}

/// Writes the new contents of CURRENT to a temporary file. Returns its path.
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
    // A crash here may leave the old or the new CURRENT; each names a complete MANIFEST.
    storage.sync_directory(directory)?;
    Ok(())
}

/// Writes and syncs a small file; its directory entry is not synced. An existing file is replaced.
/// After a failure the file is removed.
pub(crate) fn write_whole(
    storage: &dyn Storage,
    path: &Path,
    contents: &[u8],
    purpose: Purpose,
) -> Result<()> {
    let mut file = storage.create(path, Create::Truncate, IoMode::Buffered, purpose)?;
    let incomplete = IncompleteFile::created(storage, path);
    file.write_all_at(contents, 0, purpose)?;
    file.sync_all(purpose)?;
    incomplete.complete();
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
