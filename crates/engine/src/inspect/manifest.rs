//! MANIFEST files, edit by edit, and the state that results from their edits.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_format::Comparator;
use tailwater_format::file_name::FileKind;
use tailwater_format::key::Sequence;
use tailwater_format::record_log::{Event, RecordReader};
use tailwater_format::version_edit::{BlobFileAddition, NewFile, VersionEdit};
use tailwater_io::{IoMode, Purpose, ReadFile, Storage};

pub use super::record_log::{Irregularity, IrregularityKind, Placement};
use crate::error::{Error, ErrorKind, Result};
use crate::record_log::{self, FileSource};
use crate::version::manifest::{self, Manifest};
use crate::version::manifest_tail::ManifestTail;

/// Minimum number of levels in the state of a column family. Levels without tables are added.
const LEVEL_COUNT: usize = 7;

/// A reader of a MANIFEST.
pub struct ManifestReader {
    file: Arc<dyn ReadFile>,
    length: u64,
    reader: RecordReader<FileSource>,
    records: u64,
}

/// An item of a MANIFEST.
#[derive(Debug)]
#[non_exhaustive]
pub enum ManifestItem {
    /// A record and its edit.
    Edit {
        /// Number of records before this one.
        number: u64,
        /// The location and form of the record.
        placement: Placement,
        /// The edit, or the reason why it does not decode. Offsets in the reason count from the
        /// edit's first byte.
        edit: std::result::Result<Box<VersionEdit>, tailwater_format::Error>,
    },
    /// Bytes that are not a record.
    Irregularity(Irregularity),
}

impl fmt::Debug for ManifestReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManifestReader")
            .field("path", &self.path())
            .field("records", &self.records)
            .finish_non_exhaustive()
    }
}

impl ManifestReader {
    /// Opens a MANIFEST.
    ///
    /// # Errors
    /// I/O errors.
    pub fn open(storage: &dyn Storage, path: impl AsRef<Path>) -> Result<Self> {
        let file = storage.open(path.as_ref(), IoMode::Buffered, Purpose::Manifest)?;
        let length = file.length()?;
        let reader = record_log::reader(Arc::clone(&file), 0, Purpose::Manifest);
        Ok(Self { file, length, reader, records: 0 })
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Returns the length of the file when it was opened, in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Returns the next item; `None` at the end. Reading continues after damage.
    ///
    /// # Errors
    /// I/O errors.
    pub fn next_item(&mut self) -> Result<Option<ManifestItem>> {
        loop {
            match self.reader.next_event()? {
                Event::End => return Ok(None),
                Event::Record(record) => {
                    let (number, placement) = (self.records, Placement::of(&record, false));
                    self.records += 1;
                    let edit = VersionEdit::decode(record.payload).map(Box::new);
                    return Ok(Some(ManifestItem::Edit { number, placement, edit }));
                }
                // Some records are about logs, and have no meaning in a MANIFEST.
                event => {
                    if let Some(irregularity) = Irregularity::of(&event) {
                        return Ok(Some(ManifestItem::Irregularity(irregularity)));
                    }
                }
            }
        }
    }
}

/// The state of a database according to its MANIFEST.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ManifestState {
    /// The path of the MANIFEST.
    pub path: PathBuf,
    /// The number in the MANIFEST's name.
    pub number: u64,
    /// The database's id, if the MANIFEST has it.
    pub database_id: Option<String>,
    /// The lowest file number that is not yet in use.
    pub next_file_number: u64,
    /// The highest sequence number in tables.
    pub last_sequence: Sequence,
    /// The highest id that any column family has had.
    pub max_column_family: u32,
    /// No column family needs logs with a lower number.
    pub min_log_number_to_keep: u64,
    /// The synced length, in bytes, of each log for which the MANIFEST records one, by log number.
    pub synced_logs: BTreeMap<u64, u64>,
    /// Number of records in the MANIFEST.
    pub records: u64,
    /// If the file ends inside a record: the offset of that record and a description.
    pub torn: Option<(u64, String)>,
    /// Number of edits at the end of the file that belong to an incomplete group. They have no
    /// effect.
    pub unfinished_edits: usize,
    /// The column families that were not dropped, in the order of their ids.
    pub column_families: Vec<FamilyState>,
}

/// The state of a column family according to a MANIFEST.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FamilyState {
    /// The id of the column family; 0 is `default`.
    pub id: u32,
    /// The name of the column family.
    pub name: String,
    /// The name of the comparator.
    pub comparator: String,
    /// All writes to the column family that are in logs with a lower number are in tables.
    pub log_number: u64,
    /// The tables by level. The tables of level 0 are ordered from the newest to the oldest, and
    /// those of deeper levels by key. If the comparator is not built in, all levels are ordered by
    /// file number.
    pub levels: Vec<Vec<NewFile>>,
    /// The blob files, in the order of their file numbers.
    pub blob_files: Vec<BlobFileState>,
}

/// The state of a blob file according to a MANIFEST.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlobFileState {
    /// The record of the version edit that added the blob file.
    pub added: BlobFileAddition,
    /// Number of garbage blobs, that is, blobs in the file to which no table refers.
    pub garbage_count: u64,
    /// Total size of the garbage blobs in the file, in bytes.
    pub garbage_bytes: u64,
}

impl FamilyState {
    /// Returns the number of the column family's tables.
    pub fn table_count(&self) -> usize {
        self.levels.iter().map(Vec::len).sum()
    }

    /// Returns the total size of the column family's tables, in bytes.
    pub fn table_bytes(&self) -> u64 {
        self.levels.iter().flatten().map(|file| file.size).fold(0, u64::saturating_add)
    }

    fn of(state: manifest::FamilyState) -> std::result::Result<Self, String> {
        let manifest::FamilyState { id, name, comparator, log_number, files, .. } = state;
        let Some(order) = Comparator::built_in(&comparator) else {
            let mut levels = vec![Vec::new(); LEVEL_COUNT];
            for (level, file) in files.files() {
                if levels.len() <= level {
                    levels.resize_with(level + 1, Vec::new);
                }
                levels[level].push(file.added().clone());
            }
            let blob_files = files.blob_files().values().map(BlobFileState::of).collect();
            return Ok(Self { id, name, comparator, log_number, levels, blob_files });
        };
        let version = files.finish(&order, LEVEL_COUNT)?;
        let files = |level: &crate::version::Level| {
            level.files().iter().map(|file| file.added().clone()).collect()
        };
        let levels = version.levels().iter().map(|level| files(level)).collect();
        let blob_files = version.blob_files().values().map(BlobFileState::of).collect();
        Ok(Self { id, name, comparator, log_number, levels, blob_files })
    }
}

impl BlobFileState {
    fn of(file: &crate::version::BlobFileMetadata) -> Self {
        let (garbage_count, garbage_bytes) = (file.garbage_count, file.garbage_bytes);
        Self { added: (*file.added).clone(), garbage_count, garbage_bytes }
    }
}

/// Returns the number of the MANIFEST that CURRENT names.
///
/// # Errors
/// Not found, if there is no CURRENT and so no database; corruption, if it names no MANIFEST.
pub fn current(storage: &dyn Storage, directory: impl AsRef<Path>) -> Result<u64> {
    let directory = directory.as_ref();
    manifest::current(storage, directory)
        .map_err(|error| if error.is_not_found() { no_database(directory) } else { error })
}

/// Returns the state that results from the edits of `MANIFEST-<number>`. The edits are applied and
/// checked as when a database is opened.
///
/// # Errors
/// Corruption, with file, record and offset, if a database with this MANIFEST could not be opened;
/// not found, if the MANIFEST does not exist.
pub fn state(
    storage: &dyn Storage,
    directory: impl AsRef<Path>,
    number: u64,
) -> Result<ManifestState> {
    let directory = directory.as_ref();
    let path = directory.join(FileKind::Manifest(number).to_string());
    storage.metadata(&path)?;
    described(Manifest::read(storage, directory, number)?)
}

/// Returns the state that the MANIFEST that CURRENT names records. Another process may write the
/// database meanwhile, and replace the MANIFEST.
///
/// # Errors
/// Not found, if there is no CURRENT and so no database; corruption, with file, record and offset,
/// if the database could not be opened.
pub fn current_state(storage: &dyn Storage, directory: impl AsRef<Path>) -> Result<ManifestState> {
    let directory = directory.as_ref();
    // The end of the MANIFEST may be an edit that is being written. It counts as torn if it does
    // not change.
    let mut torn_at = None;
    loop {
        let tail = ManifestTail::open(storage, directory)
            .map_err(|error| if error.is_not_found() { no_database(directory) } else { error })?;
        let state = described(tail.state()?)?;
        let found = state.torn.as_ref().map(|(offset, _)| (state.number, *offset));
        if found.is_none() || found == torn_at {
            return Ok(state);
        }
        torn_at = found;
    }
}

fn no_database(directory: &Path) -> Error {
    let message = "there is no database here: no CURRENT file";
    Error::new(ErrorKind::NotFound, message).in_file(directory)
}

fn described(manifest: Manifest) -> Result<ManifestState> {
    let Manifest { database: manifest, families } = manifest;
    let (path, number) = (manifest.path, manifest.number);
    let mut column_families = Vec::new();
    for state in families.into_values() {
        let family = FamilyState::of(state)
            .map_err(|what| Error::corruption(&path, format!("the MANIFEST {what}")))?;
        column_families.push(family);
    }
    Ok(ManifestState {
        path,
        number,
        database_id: manifest.database_id,
        next_file_number: manifest.next_file_number,
        last_sequence: manifest.last_sequence,
        max_column_family: manifest.max_column_family,
        min_log_number_to_keep: manifest.min_log_number_to_keep,
        synced_logs: manifest.synced_logs,
        records: manifest.records,
        torn: manifest.torn.map(|torn| (torn.offset, torn.reason.to_string())),
        unfinished_edits: manifest.unfinished_edits,
        column_families,
    })
}
