//! Small databases that RocksDB wrote, on a simulated disk, with random edits.
//!
//! An edit consists of four numbers (the file, the action, the position and the length) and the new
//! bytes. Any input can therefore be interpreted as a list of edits. Most edits would only cause
//! checksum mismatches. A target can request that correct checksums are written after the edits, so
//! that the code behind the verification of checksums reads the edited bytes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use tailwater::{BlockCache, ColumnFamily, Db, OpenOptions, ReadOptions, Result};
use tailwater_format::blob::{BLOB_FOOTER_LENGTH, BLOB_HEADER_LENGTH, BLOB_RECORD_HEADER_LENGTH};
use tailwater_format::checksum::{crc32c, mask_crc32c};
use tailwater_format::file_name::FileKind;
use tailwater_format::record_log::RecoveryMode;
use tailwater_format::options_text::Document;
use tailwater_fuzz_seeds::{
    Choices, Files, SMALL_DATABASES, Table, fragments, small_database, write_crc,
};
use tailwater_io::sim::SimStorage;
use tailwater_io::{Create, IoMode, Purpose, Storage};

/// Maximum memory for reading an edited database, in bytes. The blocks of the small databases are a
/// few hundred bytes long, and zstd may decompress each byte to 32 KiB.
pub const MEMORY_MAX: usize = 160 << 20;

/// Capacity of the block cache, in bytes. Some blocks of databases that a fuzz target has edited do
/// not fit into the cache after decompression.
const BLOCK_CACHE: usize = 1 << 20;

/// Directory of databases on the simulated disk.
const DIRECTORY: &str = "/db";

/// Maximum number of steps of an iterator. It is higher than the number of entries in any small
/// database.
const STEPS_MAX: usize = 2_000;

/// A small database, with the information that is needed to edit it.
pub struct Database {
    files: Files,
    tables: BTreeMap<String, Table>,
    editable: Vec<String>,
}

/// The entries of a column family, in the order of its comparator.
pub type Entries = Vec<(Vec<u8>, Vec<u8>)>;

impl Database {
    /// Returns the small database with this number, modulo the number of small databases. Each
    /// database is unpacked and parsed only once per process.
    pub fn number(number: usize) -> &'static Self {
        static DATABASES: OnceLock<Vec<Database>> = OnceLock::new();
        let all = DATABASES
            .get_or_init(|| SMALL_DATABASES.iter().map(|(name, _)| Self::unpack(name)).collect());
        &all[number % all.len()]
    }

    fn unpack(name: &str) -> Self {
        let mut files = small_database(name);
        files.iter_mut().for_each(|(name, bytes)| shorten_options(name, bytes));
        let mut tables = BTreeMap::new();
        let mut editable = Vec::new();
        for (name, bytes) in &files {
            match FileKind::parse(name) {
                Some(FileKind::Table(_)) => {
                    let table = Table::parse(bytes).expect("RocksDB wrote it");
                    tables.insert(name.clone(), table);
                }
                // These files are never edited. Targets test the reading of the other files, and
                // need valid options.
                Some(FileKind::Options(_) | FileKind::Identity) => continue,
                _ => {}
            }
            editable.push(name.clone());
        }
        Self { files, tables, editable }
    }

    /// Returns the files of the database as RocksDB wrote them, except that OPTIONS files are
    /// shortened.
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// Returns the files of the database after the edits that `choices` contain. Only files for
    /// which `may_edit` returns true are edited. With `right_checksums`, the correct checksums are
    /// written after each edit.
    pub fn edited(
        &self,
        mut choices: Choices<'_>,
        right_checksums: bool,
        may_edit: impl Fn(FileKind) -> bool,
    ) -> Files {
        let mut files = self.files.clone();
        let kind = |name: &&String| FileKind::parse(name).is_some_and(&may_edit);
        let names: Vec<&String> = self.editable.iter().filter(kind).collect();
        while !choices.is_empty() {
            let name = choices.of(&names);
            edit(&mut files, name, &mut choices);
            if right_checksums && let Some(bytes) = files.get_mut(name) {
                self.write_checksums(name, bytes);
            }
        }
        files
    }

    /// Writes the correct checksums into an edited file.
    fn write_checksums(&self, name: &str, bytes: &mut [u8]) {
        match FileKind::parse(name) {
            Some(FileKind::Table(_)) => {
                if let Some(table) = self.tables.get(name) {
                    table.write_checksums(bytes);
                }
            }
            Some(FileKind::Blob(_)) => write_blob_checksums(&self.files[name], bytes),
            Some(FileKind::Wal(_) | FileKind::Manifest(_)) => {
                for fragment in fragments(bytes) {
                    write_crc(&mut bytes[fragment.place]);
                }
            }
            _ => {}
        }
    }
}

/// Removes from an OPTIONS file the options that are not needed to read the database. Parsing them
/// would take most of the time of a run.
fn shorten_options(name: &str, bytes: &mut Vec<u8>) {
    const NEEDED: [&str; 3] = ["comparator", "merge_operator", "prefix_extractor"];
    if let Some(FileKind::Options(_)) = FileKind::parse(name) {
        let text = str::from_utf8(bytes).expect("RocksDB wrote it");
        let mut document = Document::parse(text).expect("RocksDB wrote it");
        for section in &mut document.sections {
            section.entries.retain(|entry| NEEDED.contains(&&*entry.name));
        }
        *bytes = document.to_text().into_bytes();
    }
}

fn edit(files: &mut Files, name: &str, choices: &mut Choices<'_>) {
    let (action, place) = (choices.below(16), choices.number(2) as usize);
    let Some(bytes) = files.get_mut(name) else { return };
    let at = place % (bytes.len() + 1);
    let length = choices.below(17);
    let new = choices.bytes(length);
    match action {
        0 => bytes.truncate(at),
        1 => bytes.splice(at..at, new.iter().copied()).for_each(drop),
        2 => {
            files.remove(name);
        }
        3 => bytes.extend_from_slice(new),
        _ => {
            let length = new.len().min(bytes.len() - at);
            bytes[at..at + length].copy_from_slice(&new[..length]);
        }
    }
}

/// Writes the correct checksums into an edited blob file. The records are assumed to be at the same
/// positions as in `original`.
fn write_blob_checksums(original: &[u8], bytes: &mut [u8]) {
    let number = |at: usize| {
        let field = original.get(at..).and_then(|rest| rest.first_chunk::<8>());
        field.map_or(0, |bytes| u64::from_le_bytes(*bytes) as usize)
    };
    let end = original.len().saturating_sub(BLOB_FOOTER_LENGTH);
    let mut at = BLOB_HEADER_LENGTH;
    while at < end {
        let body = at + BLOB_RECORD_HEADER_LENGTH;
        let next = body + number(at) + number(at + 8);
        put_crc(bytes, at + 24, at..at + 24);
        put_crc(bytes, at + 28, body..next);
        at = next;
    }
    put_crc(bytes, end + BLOB_FOOTER_LENGTH - 4, end..end + BLOB_FOOTER_LENGTH - 4);
}

/// Writes the checksum of the bytes in the range `covered` to the offset `at`. Changes nothing if
/// either is outside of `bytes`.
fn put_crc(bytes: &mut [u8], at: usize, covered: std::ops::Range<usize>) {
    let Some(crc) = bytes.get(covered).map(|covered| mask_crc32c(crc32c(covered))) else { return };
    if let Some(place) = bytes.get_mut(at..at + 4) {
        place.copy_from_slice(&crc.to_le_bytes());
    }
}

/// Returns a simulated disk with these files in the directory [`directory`].
pub fn storage(files: &Files) -> Arc<dyn Storage> {
    let storage = SimStorage::new(1);
    storage.create_directory(directory()).expect("the disk is empty");
    for (name, bytes) in files {
        let path = directory().join(name);
        let created = storage.create(&path, Create::New, IoMode::Buffered, Purpose::Metadata);
        created
            .and_then(|mut file| file.write_all_at(bytes, 0, Purpose::Metadata))
            .expect("the disk has no faults");
    }
    Arc::new(storage)
}

/// Returns the directory of databases on the simulated disk.
pub fn directory() -> &'static Path {
    Path::new(DIRECTORY)
}

/// Returns options with which the database in `storage` is opened in this recovery mode.
pub fn options(storage: Arc<dyn Storage>, mode: RecoveryMode) -> OpenOptions {
    let mode = match mode {
        RecoveryMode::TolerateCorruptedTailRecords => "kTolerateCorruptedTailRecords",
        RecoveryMode::AbsoluteConsistency => "kAbsoluteConsistency",
        RecoveryMode::PointInTime => "kPointInTimeRecovery",
        RecoveryMode::SkipAnyCorruptedRecords => "kSkipAnyCorruptedRecords",
    };
    let mut options =
        OpenOptions::load_from(storage, directory()).expect("OPTIONS files are not edited");
    // With a limit on open files, a table is opened only when it is first read. A damaged table
    // then does not prevent the others from being read.
    let text = format!("wal_recovery_mode={mode};max_open_files=8");
    options.set_from_string(&text).expect("valid options");
    options.set_block_cache(Arc::new(BlockCache::new(BLOCK_CACHE)));
    options
}

/// Opens a database that consists of these files, for reading only.
///
/// # Errors
/// Errors from opening the database.
pub fn open(files: &Files, mode: RecoveryMode) -> Result<Db> {
    Db::open_read_only(directory(), &options(storage(files), mode))
}

/// Returns the entries of a column family, read by a forward iterator.
///
/// # Errors
/// The first error of the iterator.
pub fn entries(db: &Db, family: &ColumnFamily) -> Result<Entries> {
    let mut entries = Entries::new();
    let mut iterator = db.raw_iterator_cf_opt(family, &total_order())?;
    iterator.seek_to_first()?;
    while let Some((key, value)) = iterator.item().filter(|_| entries.len() < STEPS_MAX) {
        entries.push((key.to_vec(), value.to_vec()));
        iterator.next()?;
    }
    Ok(entries)
}

/// Reads a database in several ways: forward, backward, and by gets. All results are accepted; the
/// reads must only terminate without a panic.
pub fn read_everything(db: &Db) {
    for family in &db.column_families() {
        let forward = entries(db, family).unwrap_or_default();
        let _ = read_backward(db, family);
        for (key, _) in forward.iter().step_by(3) {
            let _ = db.get_cf_opt(family, key, &ReadOptions::default());
            let _ = db.get_pinned_cf_opt(family, &key[..key.len() / 2], &total_order());
        }
    }
}

fn read_backward(db: &Db, family: &ColumnFamily) -> Result<()> {
    let mut iterator = db.raw_iterator_cf_opt(family, &total_order())?;
    iterator.seek_to_last()?;
    for _ in 0..STEPS_MAX {
        if !iterator.valid() {
            break;
        }
        iterator.prev()?;
    }
    Ok(())
}

/// Returns read options for iterators that visit all keys, even with a prefix extractor.
pub fn total_order() -> ReadOptions {
    ReadOptions::new().with_total_order_seek(true)
}

/// Returns a random key, usually in the form of the keys that the databases contain.
pub fn key(choices: &mut Choices<'_>) -> Vec<u8> {
    let number = choices.byte();
    match choices.below(5) {
        0 => format!("key{number:03}").into_bytes(),
        1 => format!("c{:02}", number % 100).into_bytes(),
        2 => format!("p{}-{:02}", number % 7, number / 3).into_bytes(),
        3 => format!("k{:02}", number % 100).into_bytes(),
        _ => {
            let length = usize::from(number % 8);
            choices.bytes(length).to_vec()
        }
    }
}
