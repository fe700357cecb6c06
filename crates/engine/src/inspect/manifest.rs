//! MANIFEST files, edit by edit, and the state that their edits lead to.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tailwater_format::Comparator;
use tailwater_format::file_name::FileKind;
use tailwater_format::key::Sequence;
use tailwater_format::version_edit::{BlobFileAddition, NewFile, VersionEdit};
use tailwater_io::{IoMode, Purpose, Storage};

pub use super::record_log::{Irregularity, IrregularityKind, Placement};
use super::record_log::{Item, Items};
use crate::version::manifest::{self, Manifest};
use crate::{Error, ErrorKind, Result};

/// How many levels a column family is shown with at least.
const LEVEL_COUNT: usize = 7;

/// A MANIFEST that is read from its start.
pub struct ManifestReader {
    items: Items,
    records: u64,
}

/// The next thing in a MANIFEST.
#[derive(Debug)]
pub enum ManifestItem {
    /// A record and what it says.
    Edit {
        /// How many records stand before it.
        number: u64,
        /// Where it stands.
        placement: Placement,
        /// The edit, or why it does not decode; offsets count from the edit's first byte.
        edit: std::result::Result<Box<VersionEdit>, tailwater_format::Error>,
    },
    /// Bytes that are no record.
    Irregularity(Irregularity),
}

impl ManifestReader {
    /// Opens a MANIFEST.
    ///
    /// # Errors
    /// Those of the system.
    pub fn open(storage: &dyn Storage, path: &Path) -> Result<Self> {
        let file = storage.open(path, IoMode::Buffered, Purpose::Manifest)?;
        Ok(Self { items: Items::open(file, Some(0), Purpose::Manifest)?, records: 0 })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.items.path()
    }

    /// Its length when it was opened, in bytes.
    pub fn length(&self) -> u64 {
        self.items.length()
    }

    /// The next thing in the file; `None` at its end. It goes on behind damage.
    ///
    /// # Errors
    /// Those of the system.
    pub fn next_item(&mut self) -> Result<Option<ManifestItem>> {
        loop {
            let (placement, payload) = match self.items.next()? {
                None => return Ok(None),
                Some(Item::Irregularity(irregularity)) => {
                    return Ok(Some(ManifestItem::Irregularity(irregularity)));
                }
                // Records about logs mean nothing in a MANIFEST.
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

/// What a MANIFEST says the database consists of.
#[derive(Debug, Clone)]
pub struct ManifestState {
    /// The file.
    pub path: PathBuf,
    /// The number in its name.
    pub number: u64,
    /// The database's id, where the MANIFEST has it.
    pub database_id: Option<String>,
    /// The number that the next file gets.
    pub next_file_number: u64,
    /// The highest sequence number in tables.
    pub last_sequence: Sequence,
    /// The highest id that a column family has had.
    pub max_column_family: u32,
    /// Logs with a lower number are needed by no column family.
    pub min_log_number_to_keep: u64,
    /// Logs whose synced length was noted, and that length in bytes.
    pub synced_logs: BTreeMap<u64, u64>,
    /// How many records the file has.
    pub records: u64,
    /// Where the file ends inside a record, if it does, and what it ends inside.
    pub torn: Option<(u64, String)>,
    /// How many edits at the end are of a group that is not complete and have no effect.
    pub unfinished_edits: usize,
    /// The column families that were not dropped, by id.
    pub column_families: Vec<FamilyState>,
}

/// A column family, as a MANIFEST says it is.
#[derive(Debug, Clone)]
pub struct FamilyState {
    /// Its id; 0 is the default one.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// The name of its order.
    pub comparator: String,
    /// Logs with a lower number hold nothing for it that is not in tables.
    pub log_number: u64,
    /// Its tables by level: in level 0 the newest first, in the others in key order; by their
    /// numbers where the order of keys is not known here.
    pub levels: Vec<Vec<NewFile>>,
    /// Its blob files, by number.
    pub blob_files: Vec<BlobFileState>,
}

/// A blob file, as a MANIFEST says it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobFileState {
    /// What was said when it was added.
    pub added: BlobFileAddition,
    /// How many of its blobs nothing refers to any more.
    pub garbage_count: u64,
    /// How many bytes those take.
    pub garbage_bytes: u64,
}

impl FamilyState {
    /// How many tables it has.
    pub fn table_count(&self) -> usize {
        self.levels.iter().map(Vec::len).sum()
    }

    /// How many bytes its tables take.
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

/// The number of the MANIFEST that CURRENT names.
///
/// # Errors
/// Not found, where there is no CURRENT and so no database; corruption, where it names none.
pub fn current(storage: &dyn Storage, directory: &Path) -> Result<u64> {
    manifest::current(storage, directory).map_err(|error| {
        if !error.is_not_found() {
            return error;
        }
        let message = "there is no database here: no CURRENT file";
        Error::new(ErrorKind::NotFound, message).in_file(directory)
    })
}

/// What the edits of `MANIFEST-<number>` lead to, under the rules by which a database opens.
///
/// # Errors
/// Corruption, with file, record and offset, where a database would not open with it; not found,
/// where it is not there.
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
