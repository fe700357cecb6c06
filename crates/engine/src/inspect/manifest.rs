//! MANIFEST files, edit by edit, and the state that results from their edits.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tailwater_format::Comparator;
use tailwater_format::file_name::FileKind;
use tailwater_format::key::Sequence;
use tailwater_format::version_edit::{BlobFileAddition, NewFile, VersionEdit};
use tailwater_io::{IoMode, Purpose, Storage};

pub use super::record_log::{Irregularity, IrregularityKind, Placement};
use super::record_log::{Item, Items};
use crate::error::{Error, ErrorKind, Result};
use crate::version::manifest::{self, Manifest};

/// Minimum number of levels shown for a column family.
const LEVEL_COUNT: usize = 7;

/// A reader of a MANIFEST.
pub struct ManifestReader {
    items: Items,
    records: u64,
}

/// An item of a MANIFEST.
#[derive(Debug)]
pub enum ManifestItem {
    /// A record and its edit.
    Edit {
        /// The number of records before it.
        number: u64,
        /// Its location and form.
        placement: Placement,
        /// The edit, or why it does not decode; offsets count from the edit's first byte.
        edit: std::result::Result<Box<VersionEdit>, tailwater_format::Error>,
    },
    /// Bytes that are not a record.
    Irregularity(Irregularity),
}

impl ManifestReader {
    /// Opens a MANIFEST.
    ///
    /// # Errors
    /// I/O errors.
    pub fn open(storage: &dyn Storage, path: &Path) -> Result<Self> {
        let file = storage.open(path, IoMode::Buffered, Purpose::Manifest)?;
        Ok(Self { items: Items::open(file, Some(0), Purpose::Manifest)?, records: 0 })
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        self.items.path()
    }

    /// Returns the length of the file when it was opened, in bytes.
    pub fn length(&self) -> u64 {
        self.items.length()
    }

    /// Returns the next item; `None` at the end. Reading continues after damage.
    ///
    /// # Errors
    /// I/O errors.
    pub fn next_item(&mut self) -> Result<Option<ManifestItem>> {
        loop {
            let (placement, payload) = match self.items.next()? {
                None => return Ok(None),
                Some(Item::Irregularity(irregularity)) => {
                    return Ok(Some(ManifestItem::Irregularity(irregularity)));
                }
                // Records about logs have no meaning in a MANIFEST.
                Some(Item::TimestampSizes { .. } | Item::Predecessor { .. }) => continue,
                Some(Item::Record { placement, payload }) => (placement, payload),
            };
            let number = self.records;
            self.records += 1;
            let edit = VersionEdit::decode(payload).map(Box::new);
            return Ok(Some(ManifestItem::Edit { number, placement, edit }));
        }
    }
}

/// The state of a database according to its MANIFEST.
#[derive(Debug, Clone)]
pub struct ManifestState {
    /// The file.
    pub path: PathBuf,
    /// The number in its name.
    pub number: u64,
    /// The database's id, if the MANIFEST has it.
    pub database_id: Option<String>,
    /// The next file number.
    pub next_file_number: u64,
    /// The highest sequence number in tables.
    pub last_sequence: Sequence,
    /// The highest id that any column family has had.
    pub max_column_family: u32,
    /// No column family needs logs with a lower number.
    pub min_log_number_to_keep: u64,
    /// Logs with a recorded synced length, and that length in bytes.
    pub synced_logs: BTreeMap<u64, u64>,
    /// The number of records in the file.
    pub records: u64,
    /// If the file ends inside a record, its offset and a description.
    pub torn: Option<(u64, String)>,
    /// The number of edits of an incomplete group at the end, which have no effect.
    pub unfinished_edits: usize,
    /// The column families that were not dropped, by id.
    pub column_families: Vec<FamilyState>,
}

/// The state of a column family according to a MANIFEST.
#[derive(Debug, Clone)]
pub struct FamilyState {
    /// Its id; 0 is the default one.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// The name of its comparator.
    pub comparator: String,
    /// All its writes in logs with a lower number are in tables.
    pub log_number: u64,
    /// Its tables by level: in level 0 newest first, in the others in key order; by number if its
    /// comparator is not built in.
    pub levels: Vec<Vec<NewFile>>,
    /// Its blob files, by number.
    pub blob_files: Vec<BlobFileState>,
}

/// The state of a blob file according to a MANIFEST.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobFileState {
    /// The edit that added it.
    pub added: BlobFileAddition,
    /// Number of its garbage blobs, which nothing refers to.
    pub garbage_count: u64,
    /// The size of its garbage blobs, in bytes.
    pub garbage_bytes: u64,
}

impl FamilyState {
    /// Returns the number of its tables.
    pub fn table_count(&self) -> usize {
        self.levels.iter().map(Vec::len).sum()
    }

    /// Returns the size of its tables, in bytes.
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
        Self { added: file.added.clone(), garbage_count, garbage_bytes }
    }
}

/// Returns the number of the MANIFEST that CURRENT names.
///
/// # Errors
/// Not found, if there is no CURRENT and so no database; corruption, if it names no MANIFEST.
pub fn current(storage: &dyn Storage, directory: &Path) -> Result<u64> {
    manifest::current(storage, directory).map_err(|error| {
        if !error.is_not_found() {
            return error;
        }
        let message = "there is no database here: no CURRENT file";
        Error::new(ErrorKind::NotFound, message).in_file(directory)
    })
}

/// Returns the state that results from the edits of `MANIFEST-<number>`, by the rules for opening a
/// database.
///
/// # Errors
/// Corruption, with file, record and offset, if a database with this MANIFEST could not be opened;
/// not found, if the MANIFEST does not exist.
pub fn state(storage: &dyn Storage, directory: &Path, number: u64) -> Result<ManifestState> {
    let path = directory.join(FileKind::Manifest(number).to_string());
    storage.metadata(&path)?;
    let manifest = Manifest::read(storage, directory, number)?;
    let mut column_families = Vec::new();
    for state in manifest.column_families.into_values() {
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
