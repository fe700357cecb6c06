//! A journal: a file of records, to which new records are appended. It is rewritten when most of
//! its records are obsolete.
//!
//! Files are named `NAME-NNNNNN.journal`. The first record of each file is a snapshot that includes
//! the effect of all earlier records. So the file with the highest number is the journal, and older
//! files are obsolete.
//!
//! # Order of a rewrite
//!
//! 1. The new file is written with the snapshot under a temporary name, and synced.
//! 2. The new file is renamed to the next number, and the directory is synced: from here on the new
//!    file is the journal.
//! 3. The old file is removed.
//!
//! A crash before step 2 leaves the temporary file; a crash after step 2 leaves the old file.
//! Either file is removed when the journal is next opened.
//!
//! # Crash while appending
//! A crash may leave an incomplete record at the end of the file. It is cut off when the journal is
//! opened. If a valid record follows the damage, the damage cannot be the result of a crash, and is
//! reported as an error.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_format::message::journal::{Reader, put_record};
use tailwater_format::message::name::TEMPORARY;
use tailwater_io::{Create, IoMode, Purpose, Storage, WriteFile};

use crate::{Error, ErrorKind, Result};

/// Extension of the names of journal files.
const EXTENSION: &str = ".journal";
/// A journal of at most this many bytes is not rewritten.
const REWRITE_MIN: u64 = 64 << 10;
/// A journal is rewritten when it is larger than this multiple of the snapshot at its beginning.
const GROWTH: u64 = 4;

/// A journal that is open for appending.
#[derive(Debug)]
pub(crate) struct Journal {
    storage: Arc<dyn Storage>,
    directory: PathBuf,
    name: &'static str,
    number: u64,
    file: Box<dyn WriteFile>,
    path: PathBuf,
    length: u64,
    next_record: u64,
    snapshot_length: u64,
    /// The first error that left it unknown whether the file contains the last record. While it is
    /// set, the next append must begin a new file.
    failed: Option<Error>,
}

/// The content of a journal's file when it was read.
#[derive(Debug)]
pub(crate) struct Contents {
    /// Path of the file.
    pub(crate) path: PathBuf,
    /// Number in the file's name.
    number: u64,
    bytes: Vec<u8>,
    /// End of the last whole record in `bytes`.
    end: usize,
}

impl Contents {
    /// Returns the journal's records in order. The first one is the snapshot.
    pub(crate) fn records(&self) -> impl Iterator<Item = &[u8]> {
        Reader::new(self.bytes.get(..self.end).unwrap_or_default())
    }
}

/// Reads a journal without opening it for appending; `None` if it does not exist.
///
/// # Errors
/// Corruption, for damage other than an incomplete last record; I/O errors.
pub(crate) fn read(
    storage: &dyn Storage,
    directory: &Path,
    name: &str,
) -> Result<Option<Contents>> {
    let Some(number) = numbers(storage, directory, name)?.into_iter().max() else {
        return Ok(None);
    };
    let path = path(directory, name, number);
    let file = storage.open(&path, IoMode::Buffered, Purpose::LogJournal)?;
    let mut bytes = vec![0; file.length()? as usize];
    let count = file.read_full_at(&mut bytes, 0, Purpose::LogJournal)?;
    bytes.truncate(count);
    let mut reader = Reader::new(&bytes);
    let records = reader.by_ref().count();
    let end = reader.offset();
    if records == 0 || reader.has_record_behind() {
        let message = format!("the journal is damaged after record {records}");
        return Err(Error::corruption(&path, end as u64, message));
    }
    Ok(Some(Contents { path, number, bytes, end }))
}

fn path(directory: &Path, name: &str, number: u64) -> PathBuf {
    directory.join(format!("{name}-{number:06}{EXTENSION}"))
}

/// Returns the numbers of all files of a journal, in no particular order.
fn numbers(storage: &dyn Storage, directory: &Path, name: &str) -> Result<Vec<u64>> {
    let entries = storage.list(directory)?;
    let number = |entry: &str| {
        let rest = entry.strip_prefix(name)?.strip_prefix('-')?;
        rest.strip_suffix(EXTENSION)?.parse().ok()
    };
    Ok(entries.iter().filter_map(|entry| number(&entry.name)).collect())
}

impl Journal {
    /// Opens a journal. If it does not exist, creates it with the snapshot that `first_snapshot`
    /// returns. Returns the journal and, unless it was created, its content.
    ///
    /// # Errors
    /// The errors of [`read`] and of `first_snapshot`; I/O errors.
    pub(crate) fn open(
        storage: &Arc<dyn Storage>,
        directory: &Path,
        name: &'static str,
        first_snapshot: impl FnOnce() -> Result<Vec<u8>>,
    ) -> Result<(Self, Option<Contents>)> {
        let contents = match read(&**storage, directory, name)? {
            Some(contents) => contents,
            None => {
                let journal = Self::begin(storage, directory, name, 1, 0, &first_snapshot()?)?;
                return Ok((journal, None));
            }
        };
        let number = contents.number;
        for old in numbers(&**storage, directory, name)? {
            if old < number {
                storage.remove(&path(directory, name, old))?;
            }
        }
        let temporary = temporary(directory, name);
        match storage.remove(&temporary) {
            Err(error) if error.is_not_found() => {}
            removed => removed?,
        }
        let path = contents.path.clone();
        let mode = IoMode::Buffered;
        let mut file = storage.create(&path, Create::Existing, mode, Purpose::LogJournal)?;
        let end = contents.end as u64;
        if file.length()? != end {
            file.truncate(end)?;
        }
        // The process that wrote the records may have ended before it synced them.
        file.sync_all(Purpose::LogJournal)?;
        storage.sync_directory(directory)?;
        let mut reader = Reader::new(&contents.bytes);
        let _ = reader.next();
        let snapshot_length = reader.offset() as u64;
        let _ = reader.by_ref().count();
        let next_record = reader.next_number().unwrap_or(0);
        let journal = Self {
            storage: Arc::clone(storage),
            directory: directory.to_owned(),
            name,
            number,
            file,
            path,
            length: end,
            next_record,
            snapshot_length,
            failed: None,
        };
        Ok((journal, Some(contents)))
    }

    /// Creates the file with this number, whose first record is `snapshot`, and makes it durable.
    /// The snapshot gets the record number `record`.
    fn begin(
        storage: &Arc<dyn Storage>,
        directory: &Path,
        name: &'static str,
        number: u64,
        record: u64,
        snapshot: &[u8],
    ) -> Result<Self> {
        let mut bytes = Vec::new();
        put(&mut bytes, record, snapshot)?;
        let temporary = temporary(directory, name);
        let mode = IoMode::Buffered;
        let mut file = storage.create(&temporary, Create::Truncate, mode, Purpose::LogJournal)?;
        file.write_all_at(&bytes, 0, Purpose::LogJournal)?;
        file.sync_all(Purpose::LogJournal)?;
        let path = path(directory, name, number);
        // A crash before the rename is safe: the file with the next lower number is still the
        // journal.
        storage.rename(&temporary, &path)?;
        storage.sync_directory(directory)?;
        let length = bytes.len() as u64;
        Ok(Self {
            storage: Arc::clone(storage),
            directory: directory.to_owned(),
            name,
            number,
            file,
            path,
            length,
            next_record: record + 1,
            snapshot_length: length,
            failed: None,
        })
    }

    /// Returns the path of the journal's current file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a record. If `is_durable`, the record is durable on return; otherwise it survives a
    /// crash of the process but not a power cut.
    ///
    /// If a new file must be begun instead, `snapshot` is called for its first record. The snapshot
    /// must already include the effect of `record`.
    ///
    /// # Errors
    /// I/O errors: the file may or may not contain the record. The next append begins a new file,
    /// which settles that. Errors of `snapshot`: nothing was written.
    pub(crate) fn append(
        &mut self,
        record: &[u8],
        is_durable: bool,
        snapshot: impl FnOnce() -> Result<Vec<u8>>,
    ) -> Result<()> {
        let is_outgrown = self.length > REWRITE_MIN.max(GROWTH * self.snapshot_length);
        if self.failed.is_some() || is_outgrown {
            return self.rewrite(&snapshot()?);
        }
        let mut bytes = Vec::new();
        put(&mut bytes, self.next_record, record)?;
        let written =
            self.file.write_all_at(&bytes, self.length, Purpose::LogJournal).and_then(|()| {
                if is_durable { self.file.sync_data(Purpose::LogJournal) } else { Ok(()) }
            });
        if let Err(error) = written {
            let error = Error::from(error);
            self.failed = Some(error.clone());
            return Err(error);
        }
        self.length += bytes.len() as u64;
        self.next_record += 1;
        Ok(())
    }

    /// Notes that it is unknown whether the file contains the last record. The next append then
    /// begins a new file.
    pub(crate) fn fail(&mut self, error: &Error) {
        self.failed.get_or_insert_with(|| error.clone());
    }

    /// Makes all records durable.
    ///
    /// # Errors
    /// I/O errors, and the error of an earlier failed append or sync until a new file is begun.
    pub(crate) fn sync(&mut self) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        self.file.sync_data(Purpose::LogJournal).map_err(|error| {
            let error = Error::from(error);
            self.failed = Some(error.clone());
            error
        })
    }

    /// Begins a new file with a snapshot, and makes it durable. Then the content of the old file is
    /// obsolete, whatever it is.
    ///
    /// # Errors
    /// I/O errors.
    pub(crate) fn rewrite(&mut self, snapshot: &[u8]) -> Result<()> {
        let next = Self::begin(
            &self.storage,
            &self.directory,
            self.name,
            self.number + 1,
            self.next_record,
            snapshot,
        );
        let old = match next {
            Ok(next) => std::mem::replace(self, next),
            Err(error) => {
                // The new file may or may not exist. The next attempt must use a higher number:
                // only then does its file certainly supersede this one.
                self.number += 1;
                self.failed = Some(error.clone());
                return Err(error);
            }
        };
        drop(old.file);
        // If the old file cannot be removed now, it is removed when the journal is next opened.
        let _ = self.storage.remove(&old.path);
        Ok(())
    }
}

fn put(bytes: &mut Vec<u8>, number: u64, record: &[u8]) -> Result<()> {
    put_record(bytes, number, record)
        .map_err(|error| Error::new(ErrorKind::InvalidArgument, error.to_string()))
}

fn temporary(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}{EXTENSION}{TEMPORARY}"))
}
