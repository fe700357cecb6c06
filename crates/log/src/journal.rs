//! A journal: a file of records, to which new records are appended. It is rewritten when most of
//! its records are obsolete.
//!
//! Files are named `NAME-NNNNNN.journal`. The first record of each file is a snapshot that includes
//! the effect of all earlier records. So the file with the highest number is the journal, and older
//! files are obsolete.
//!
//! # Order of a rewrite
//!
//! 1. The new file is created under a temporary name. If that fails, for example because no
//!    descriptor is left, the journal goes on in its file, and the next append tries again.
//! 2. The new file is written with the snapshot, and synced.
//! 3. The new file is renamed to the next number, and the directory is synced: from here on the new
//!    file is the journal.
//! 4. The old file is removed.
//!
//! A crash before step 3 leaves the temporary file; a crash after step 3 leaves the old file.
//! Either file is removed when the journal is next opened.
//!
//! # Crash while appending
//! A crash may leave an incomplete record at the end of the file. It is cut off when the journal is
//! opened. If a valid record follows the damage, the damage cannot be the result of a crash, and is
//! reported as an error.

use std::io::ErrorKind::AlreadyExists;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_format::message::journal::{Reader, put_record};
use tailwater_format::message::name::TEMPORARY;
use tailwater_io::{Create, IoMode, Purpose, Storage, WriteFile};

use crate::patience::patiently;
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
    /// Number of attempts to write a record or a snapshot so far. A call that did not increase it
    /// has written nothing.
    attempts: u64,
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
    let bytes = storage.read_file(&path, u64::MAX, Purpose::LogJournal)?;
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
    directory.join(file_name(name, number))
}

/// Returns the numbers of all files of a journal, in no particular order.
fn numbers(storage: &dyn Storage, directory: &Path, name: &str) -> Result<Vec<u64>> {
    let entries = storage.list(directory)?;
    Ok(entries.iter().filter_map(|entry| number_in(&entry.name, name)).collect())
}

/// Returns the number in the name of a journal's file; `None` if the journal has no such file.
fn number_in(entry: &str, name: &str) -> Option<u64> {
    let rest = entry.strip_prefix(name)?.strip_prefix('-')?;
    let number = rest.strip_suffix(EXTENSION)?.parse().ok()?;
    (file_name(name, number) == entry).then_some(number)
}

fn file_name(name: &str, number: u64) -> String {
    format!("{name}-{number:06}{EXTENSION}")
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
                let snapshot = first_snapshot()?;
                let new = NewFile::create(storage, directory, name, 1)?;
                return Ok((Self::begin(new, 0, &snapshot)?, None));
            }
        };
        let number = contents.number;
        for entry in storage.list(directory)? {
            let path = directory.join(&entry.name);
            let is_obsolete = match entry.name.strip_suffix(TEMPORARY) {
                Some(rest) => number_in(rest, name).is_some(),
                // A file that is no journal belongs to somebody else.
                None if number_in(&entry.name, name).is_some_and(|old| old < number) => {
                    let bytes = storage.read_file(&path, u64::MAX, Purpose::LogJournal)?;
                    Reader::new(&bytes).next().is_some()
                }
                None => false,
            };
            if is_obsolete {
                storage.remove(&path)?;
            }
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
            attempts: 0,
            failed: None,
        };
        Ok((journal, Some(contents)))
    }

    /// Creates the file with this number, whose first record is `snapshot`, and makes it durable.
    /// The snapshot gets the record number `record`.
    fn begin(new: NewFile<'_>, record: u64, snapshot: &[u8]) -> Result<Self> {
        let NewFile { storage, directory, name, number, mut file } = new;
        let mut bytes = Vec::new();
        put(&mut bytes, record, snapshot)?;
        file.write_all_at(&bytes, 0, Purpose::LogJournal)?;
        file.sync_all(Purpose::LogJournal)?;
        let path = path(directory, name, number);
        // A crash before the rename is safe: the file with the next lower number is still the
        // journal.
        storage.rename(&temporary(directory, name, number), &path)?;
        patiently(|| storage.sync_directory(directory))?;
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
            attempts: 0,
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
        if self.failed.is_some() {
            return self.rewrite(&snapshot()?);
        }
        if self.length > REWRITE_MIN.max(GROWTH * self.snapshot_length) {
            match self.rewrite(&snapshot()?) {
                Err(_) if self.failed.is_none() => {}
                rewritten => return rewritten,
            }
        }
        let mut bytes = Vec::new();
        put(&mut bytes, self.next_record, record)?;
        self.attempts += 1;
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
        let (storage, directory) = (Arc::clone(&self.storage), self.directory.clone());
        let new = NewFile::create(&storage, &directory, self.name, self.number + 1)?;
        self.attempts += 1;
        let number = new.number;
        let mut next = Self::begin(new, self.next_record, snapshot).inspect_err(|error| {
            // The new file may or may not exist. The next attempt must use a higher number: only
            // then does its file certainly supersede this one.
            self.number = number;
            self.failed = Some(error.clone());
        })?;
        next.attempts = self.attempts;
        let old = std::mem::replace(self, next);
        drop(old.file);
        // If the old file cannot be removed now, it is removed when the journal is next opened.
        let _ = self.storage.remove(&old.path);
        Ok(())
    }

    /// Returns the number of attempts to write a record or a snapshot so far. A call that failed
    /// and did not increase it has written nothing.
    pub(crate) fn attempts(&self) -> u64 {
        self.attempts
    }
}

/// A file that is to become a journal. It has a temporary name.
struct NewFile<'a> {
    storage: &'a Arc<dyn Storage>,
    directory: &'a Path,
    name: &'static str,
    number: u64,
    file: Box<dyn WriteFile>,
}

impl<'a> NewFile<'a> {
    /// Creates the file. Its number is `number` or, if this journal did not create the file that
    /// has this number, the next one that is free.
    fn create(
        storage: &'a Arc<dyn Storage>,
        directory: &'a Path,
        name: &'static str,
        mut number: u64,
    ) -> Result<Self> {
        loop {
            match storage.metadata(&path(directory, name, number)) {
                Err(error) if error.is_not_found() => {
                    let (path, mode) = (temporary(directory, name, number), IoMode::Buffered);
                    match storage.create(&path, Create::New, mode, Purpose::LogJournal) {
                        Ok(file) => return Ok(Self { storage, directory, name, number, file }),
                        Err(error) if error.source.kind() == AlreadyExists => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                Err(error) => return Err(error.into()),
                Ok(_) => {}
            }
            number += 1;
        }
    }
}

fn put(bytes: &mut Vec<u8>, number: u64, record: &[u8]) -> Result<()> {
    put_record(bytes, number, record)
        .map_err(|error| Error::new(ErrorKind::InvalidArgument, error.to_string()))
}

fn temporary(directory: &Path, name: &str, number: u64) -> PathBuf {
    directory.join(file_name(name, number) + TEMPORARY)
}
