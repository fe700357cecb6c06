//! Databases assembled by hand, on a simulated disk.

use std::path::Path;
use std::sync::Arc;

use tailwater::inspect::wal::LogReader;
use tailwater::verify::{Report, verify};
use tailwater::{Db, Error, OpenOptions};
use tailwater_format::batch::WriteBatch;
use tailwater_format::file_name::format_current;
use tailwater_format::record_log::Writer;
use tailwater_format::version_edit::{NewFile, VersionEdit};
use tailwater_io::sim::SimStorage;
use tailwater_io::{Create, IoMode, Purpose, Storage};

const MANIFEST_NUMBER: u64 = 1;
const IDENTITY: &str = "5f1b3c1e-0000-4000-8000-000000000001";

/// A database's files.
pub(crate) struct Database {
    storage: SimStorage,
}

impl Database {
    /// Creates a database directory without files.
    pub(crate) fn new() -> Self {
        let storage = SimStorage::new(1);
        storage.create_directory(directory()).expect("the disk is empty");
        Self { storage }
    }

    /// Adds a file.
    pub(crate) fn with(self, name: &str, bytes: &[u8]) -> Self {
        let path = directory().join(name);
        let parent = path.parent().expect("the database's directory");
        self.storage.create_directory(parent).expect("the disk has no faults");
        self.storage
            .create(&path, Create::New, IoMode::Buffered, Purpose::Metadata)
            .and_then(|mut file| file.write_all_at(bytes, 0, Purpose::Metadata))
            .expect("the disk has no faults");
        self
    }

    /// Adds a MANIFEST with these edits, and a CURRENT file that refers to this MANIFEST.
    pub(crate) fn with_manifest(self, edits: &[VersionEdit]) -> Self {
        let mut manifest = Vec::new();
        let mut writer = Writer::new(MANIFEST_NUMBER, false);
        for edit in edits {
            let mut record = Vec::new();
            edit.encode(&mut record).expect("the edit can be written");
            writer.add_record(&record, &mut manifest).expect("it is not compressed");
        }
        self.with("CURRENT", format_current(MANIFEST_NUMBER).as_bytes())
            .with("MANIFEST-000001", &manifest)
            .with("IDENTITY", IDENTITY.as_bytes())
    }

    /// Returns options for opening the database, with these values.
    pub(crate) fn options(&self, text: &str) -> OpenOptions {
        let mut options = OpenOptions::with_storage(Arc::new(self.storage.clone()));
        options.set_from_string(text).expect("options");
        options
    }

    /// Opens the database for reading.
    pub(crate) fn open(&self) -> Result<Db, Error> {
        self.open_with("")
    }

    /// Opens the database for reading with these options.
    pub(crate) fn open_with(&self, text: &str) -> Result<Db, Error> {
        Db::open_read_only(directory(), &self.options(text))
    }

    /// Opens the database for writing.
    pub(crate) fn open_for_writing(&self) -> Result<Db, Error> {
        let mut options = self.options("");
        options.set_inline_background(true);
        Db::open(directory(), &options)
    }

    /// Whether the database has a file with that name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.storage.metadata(&directory().join(name)).is_ok()
    }

    /// Opens a log for inspection.
    pub(crate) fn log_reader(&self, name: &str) -> LogReader {
        LogReader::open(&self.storage, directory().join(name)).expect("the disk has no faults")
    }

    /// Verifies the database.
    pub(crate) fn verify(&self) -> Report {
        self.verify_with("")
    }

    /// Verifies the database with these options.
    pub(crate) fn verify_with(&self, text: &str) -> Report {
        verify(directory(), &self.options(text))
    }
}

fn directory() -> &'static Path {
    Path::new("/db")
}

/// Returns the first edit in the MANIFEST of a database with one column family.
pub(crate) fn first_edit() -> VersionEdit {
    VersionEdit {
        database_id: Some(IDENTITY.to_owned()),
        comparator: Some("leveldb.BytewiseComparator".to_owned()),
        log_number: Some(0),
        next_file_number: Some(100),
        last_sequence: Some(100),
        ..VersionEdit::default()
    }
}

/// Returns the MANIFEST entry of a table in level 1, with these internal keys as bounds.
pub(crate) fn new_file(number: u64, file: &[u8], smallest: Vec<u8>, largest: Vec<u8>) -> NewFile {
    NewFile {
        level: 1,
        number,
        size: file.len() as u64,
        smallest,
        largest,
        smallest_sequence: 1,
        largest_sequence: 100,
        epoch_number: 1,
        ..NewFile::default()
    }
}

/// Returns the bytes of a log that puts keys into the default column family. Each key is given with
/// its sequence number.
pub(crate) fn log(number: u64, puts: &[(u64, &str)]) -> Vec<u8> {
    log_by(Writer::new(number, false), puts)
}

/// Returns the bytes that `writer` writes for the puts, like [`log`]. `writer` must not have
/// written anything before.
pub(crate) fn log_by(mut writer: Writer, puts: &[(u64, &str)]) -> Vec<u8> {
    let mut log = Vec::new();
    for (sequence, key) in puts {
        let mut batch = WriteBatch::new();
        batch.put_cf(0, key.as_bytes(), b"value").expect("the batch has room");
        batch.set_sequence(*sequence);
        writer.add_record(batch.data(), &mut log).expect("it is not compressed");
    }
    log
}
