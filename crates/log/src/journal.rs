//! A journal: a file of records, rewritten when most of it is out of date.
//!
//! Files are called `NAME-NNNNNN.journal`. The first record of each is a snapshot of all that the
//! records before it said, so one file is the whole journal, and the one of the highest number
//! counts.
//!
//! # Order of a rewrite
//!
//! 1. The new file is written with the snapshot under a temporary name, and synced.
//! 2. It is renamed to the next number, and the directory synced: from here on it counts.
//! 3. The old file is removed.
//!
//! A crash before step 2 leaves a temporary file, one after it the old file; both are removed when
//! the journal is opened.
//!
//! # Crash while appending
//! The end of the file may be torn: it is cut off when the journal is opened. Damage with a whole
//! record behind it is no crash's doing, and an error.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_format::message::journal::{Reader, put_record};
use tailwater_format::message::name::TEMPORARY;
use tailwater_io::{Create, IoMode, Purpose, Storage, WriteFile};

use crate::{Error, ErrorKind, Result};

/// What a journal's file ends with.
const EXTENSION: &str = ".journal";
/// Size from which on a journal may be worth rewriting, in bytes.
const REWRITE_MIN: u64 = 64 << 10;
/// How many times as large as its snapshot a journal becomes before it is rewritten.
const GROWTH: u64 = 4;

/// An open journal.
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
    /// Whether the next record is to be the first one of a new file.
    failed: Option<Error>,
}

/// What a journal had when it was opened.
#[derive(Debug)]
pub(crate) struct Contents {
    bytes: Vec<u8>,
    end: usize,
}

impl Contents {
    /// Returns its records in order, the snapshot first.
    pub(crate) fn records(&self) -> impl Iterator<Item = &[u8]> {
        Reader::new(self.bytes.get(..self.end).unwrap_or_default())
    }
}

/// Reads a journal without opening it for writing; `None` where there is none.
///
/// # Errors
/// Corruption, for damage that is no torn end; those of the system.
pub(crate) fn read(
    storage: &dyn Storage,
    directory: &Path,
    name: &str,
) -> Result<Option<(u64, Contents)>> {
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
    Ok(Some((number, Contents { bytes, end })))
}

fn path(directory: &Path, name: &str, number: u64) -> PathBuf {
    directory.join(format!("{name}-{number:06}{EXTENSION}"))
}

/// Returns the numbers of a journal's files.
fn numbers(storage: &dyn Storage, directory: &Path, name: &str) -> Result<Vec<u64>> {
    let entries = storage.list(directory)?;
    let number = |entry: &str| {
        let rest = entry.strip_prefix(name)?.strip_prefix('-')?;
        rest.strip_suffix(EXTENSION)?.parse().ok()
    };
    Ok(entries.iter().filter_map(|entry| number(&entry.name)).collect())
}

impl Journal {
    /// Opens a journal, or begins it with a snapshot. Returns what it had.
    ///
    /// # Errors
    /// As [`read`].
    pub(crate) fn open(
        storage: &Arc<dyn Storage>,
        directory: &Path,
        name: &'static str,
        first_snapshot: impl FnOnce() -> Vec<u8>,
    ) -> Result<(Self, Option<Contents>)> {
        let (number, contents) = match read(&**storage, directory, name)? {
            Some(found) => found,
            None => {
                let journal = Self::begin(storage, directory, name, 1, 0, &first_snapshot())?;
                return Ok((journal, None));
            }
        };
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
        let path = path(directory, name, number);
        let mode = IoMode::Buffered;
        let mut file = storage.create(&path, Create::Existing, mode, Purpose::LogJournal)?;
        let end = contents.end as u64;
        if file.length()? != end {
            file.truncate(end)?;
        }
        // What was read may not have been synced by the process that wrote it.
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

    /// Begins a file with a snapshot.
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
        // A crash here is safe: the file of the lower number counts.
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

    /// Returns the journal's file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends records, and makes them durable if `is_durable`: else they survive the process.
    /// `snapshot` makes the first record of a new file, should it be time for one: it includes what
    /// `records` say.
    ///
    /// # Errors
    /// Those of the system; nothing of `records` counts then. After a failed write or sync the next
    /// call begins a new file, since nothing is known of this one's end.
    pub(crate) fn append(
        &mut self,
        records: &[Vec<u8>],
        is_durable: bool,
        snapshot: impl FnOnce() -> Vec<u8>,
    ) -> Result<()> {
        let is_outgrown = self.length > REWRITE_MIN.max(GROWTH * self.snapshot_length);
        if self.failed.is_some() || is_outgrown {
            return self.rewrite(&snapshot());
        }
        let mut bytes = Vec::new();
        for (number, record) in (self.next_record..).zip(records) {
            put(&mut bytes, number, record)?;
        }
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
        self.next_record += records.len() as u64;
        Ok(())
    }

    /// Makes all that was appended durable.
    ///
    /// # Errors
    /// As [`Self::append`].
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

    fn rewrite(&mut self, snapshot: &[u8]) -> Result<()> {
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
                // The new file's name may be there or not: only a later file is certain to count.
                self.number += 1;
                self.failed = Some(error.clone());
                return Err(error);
            }
        };
        drop(old.file);
        // What cannot be removed is removed when the journal is opened next.
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
