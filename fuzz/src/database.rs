//! Small databases that RocksDB wrote, with edits, on a simulated disk.
//!
//! An edit is four numbers and some bytes (the file, the action, the position, the length and the
//! new bytes), so that any input is a list of edits. Most edits would only cause checksum
//! mismatches. A target can therefore request that checksums are recomputed after the edits, so
//! that the edited bytes reach the code behind the checks.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use tailwater::{BlockCache, ColumnFamily, Db, OpenOptions, ReadOptions, Result};
use tailwater_format::blob::{BLOB_FOOTER_LENGTH, BLOB_HEADER_LENGTH, BLOB_RECORD_HEADER_LENGTH};
use tailwater_format::checksum::{crc32c, mask_crc32c};
use tailwater_format::file_name::FileKind;
use tailwater_format::log::RecoveryMode;
use tailwater_format::options_text::Document;
use tailwater_fuzz_seeds::{
    Choices, Files, SMALL_DATABASES, Table, fragments, small_database, write_crc,
};
use tailwater_io::sim::SimStorage;
use tailwater_io::{Create, IoMode, Purpose, Storage};

/// Maximum memory for reading an edited database, in bytes: its blocks are a few hundred bytes
/// long, and zstd may decompress each byte to 32 KiB.
pub const MEMORY_MAX: usize = 160 << 20;

/// Size of the block cache, in bytes: too small for some of the decompressed blocks.
const BLOCK_CACHE: usize = 1 << 20;

/// Directory of databases on the simulated disk.
const DIRECTORY: &str = "/db";

/// Maximum number of steps of an iterator: more than the number of entries of any of the databases.
const STEPS_MAX: usize = 2_000;

/// A database, with the information needed to edit it.
pub struct Database {
    files: Files,
    tables: BTreeMap<String, Table>,
    editable: Vec<String>,
}

/// The entries of a column family, in order.
pub type Entries = Vec<(Vec<u8>, Vec<u8>)>;

impl Database {
    /// Returns the small database with this number, modulo the number of small databases. Each
    /// database is parsed only once.
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
                // Edits of these files would only change the options that targets override.
                Some(FileKind::Options(_) | FileKind::Identity) => continue,
                _ => {}
            }
            editable.push(name.clone());
        }
        Self { files, tables, editable }
    }

    /// Returns the database's files as RocksDB wrote them.
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// Returns the database's files after the edits in `choices`, which apply only to files for
    /// which `may_edit` returns true. With `right_checksums`, checksums are recomputed after each
    /// edit.
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

    /// Recomputes the checksums of an edited file.
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

/// Removes options that reading does not need from an OPTIONS file, because parsing them would take
/// most of the time.
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

/// Recomputes the checksums of a blob file whose records are at the same positions as in
/// `original`.
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

/// Writes the checksum of the bytes `covered` at the offset `at`, if both are inside `bytes`.
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

/// Returns the options with which a database on that disk is opened.
pub fn options(storage: Arc<dyn Storage>, mode: RecoveryMode) -> OpenOptions {
    let mode = match mode {
        RecoveryMode::TolerateCorruptedTailRecords => "kTolerateCorruptedTailRecords",
        RecoveryMode::AbsoluteConsistency => "kAbsoluteConsistency",
        RecoveryMode::PointInTime => "kPointInTimeRecovery",
        RecoveryMode::SkipAnyCorruptedRecords => "kSkipAnyCorruptedRecords",
    };
    let mut options =
        OpenOptions::load_from(storage, directory()).expect("OPTIONS files are not edited");
    // With a bound on open files, a table is opened when it is first read, so that a damaged table
    // does not prevent reading the others.
    let text = format!("wal_recovery_mode={mode};max_open_files=8");
    options.set_options(&text).expect("valid options");
    options.set_block_cache(Arc::new(BlockCache::new(BLOCK_CACHE)));
    options
}

/// Opens the database that consists of these files.
///
/// # Errors
/// Errors from opening.
pub fn open(files: &Files, mode: RecoveryMode) -> Result<Db> {
    Db::open_read_only(directory(), &options(storage(files), mode))
}

/// Reads the entries of a column family forward, until the end or the first error.
///
/// # Errors
/// Errors from reading.
pub fn entries(db: &Db, family: &ColumnFamily) -> Result<Entries> {
    let mut entries = Entries::new();
    let mut iterator = db.raw_iterator_cf_opt(family, &total_order())?;
    iterator.seek_to_first()?;
    while let Some((key, value)) = iterator.entry().filter(|_| entries.len() < STEPS_MAX) {
        entries.push((key.to_vec(), value.to_vec()));
        iterator.next()?;
    }
    Ok(entries)
}

/// Reads all entries of a database: forward, backward, and key by key. Any result is accepted.
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
        iterator.previous()?;
    }
    Ok(())
}

/// Returns read options that ignore prefixes.
pub fn total_order() -> ReadOptions {
    ReadOptions { total_order_seek: true, ..ReadOptions::default() }
}
