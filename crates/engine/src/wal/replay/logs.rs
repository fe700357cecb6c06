//! The logs to be replayed: how they are found and opened.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_format::file_name::FileKind;
use tailwater_io::{IoMode, Purpose, ReadFile, Storage};

use crate::error::Result;
use crate::file_numbers::FILE_NUMBER_MAX;

/// Returns the numbers of the write-ahead logs in a directory, in ascending order.
pub(crate) fn list_logs(storage: &dyn Storage, directory: &Path) -> Result<Vec<u64>> {
    let entries = storage.list(directory)?;
    let mut numbers: Vec<u64> = entries
        .iter()
        .filter_map(|entry| match FileKind::parse(&entry.name) {
            Some(FileKind::Wal(number)) if number <= FILE_NUMBER_MAX => Some(number),
            _ => None,
        })
        .collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// A log to be replayed.
#[derive(Debug)]
pub(crate) struct Log {
    pub(super) path: PathBuf,
    pub(crate) number: u64,
    /// The file's length in bytes when it was opened. What is written later is not replayed.
    pub(crate) length: u64,
    pub(super) file: Arc<dyn ReadFile>,
}

impl Log {
    /// Opens the log with this number.
    pub(crate) fn open(storage: &dyn Storage, directory: &Path, number: u64) -> Result<Self> {
        let path = directory.join(FileKind::Wal(number).to_string());
        let file = storage.open(&path, IoMode::Buffered, Purpose::Wal)?;
        let length = file.length()?;
        Ok(Self::of_file(file, number, length))
    }

    /// Returns the log with this number in an open file, of which `length` bytes are to be read.
    pub(crate) fn of_file(file: Arc<dyn ReadFile>, number: u64, length: u64) -> Self {
        Self { path: file.path().to_owned(), number, length, file }
    }
}
