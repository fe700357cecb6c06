//! The files of a database that are in one directory, by number and kind.

use std::path::Path;

use tailwater_format::file_name::FileKind;
use tailwater_io::Storage;

use crate::error::Result;
use crate::file_numbers::FILE_NUMBER_MAX;

/// The files in a directory that have a database's file names, sorted. Other files are left out.
#[derive(Debug, Clone, Default)]
pub(crate) struct Files {
    /// The files, each with its length in bytes, or [`UNKNOWN`].
    files: Vec<(FileKind, u64)>,
}

/// Placeholder for the length of a file whose length was not requested, or that was gone when its
/// length was read.
const UNKNOWN: u64 = u64::MAX;

/// The extension of a table's file name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TableName {
    /// The extension is `.sst`.
    Table,
    /// The extension is `.ldb`, which LevelDB gives to tables.
    LevelDb,
}

impl Files {
    /// Returns the files in a directory; none if the directory is missing.
    pub(crate) fn list(storage: &dyn Storage, directory: &Path) -> Result<Self> {
        Self::list_as(storage, directory, false)
    }

    /// Like [`Files::list`], but also reads the lengths of the tables and blob files. For callers
    /// that need most of the lengths.
    pub(crate) fn list_with_lengths(storage: &dyn Storage, directory: &Path) -> Result<Self> {
        Self::list_as(storage, directory, true)
    }

    fn list_as(storage: &dyn Storage, directory: &Path, with_lengths: bool) -> Result<Self> {
        let mut files = Vec::new();
        let listed = storage.visit_entries(directory, &mut |entry| {
            let Some(kind) = kind_of_own_name(entry.name) else { return Ok(()) };
            if entry.is_directory {
                return Ok(());
            }
            let needs_length =
                with_lengths && holds_data(kind) && !matches!(kind, FileKind::Wal(_));
            let length = match needs_length.then(|| entry.length()) {
                None => UNKNOWN,
                // The file was removed after it was listed, or is a dangling link.
                Some(Err(error)) if error.is_not_found() => UNKNOWN,
                Some(length) => length?,
            };
            files.push((kind, length));
            Ok(())
        });
        match listed {
            Err(error) if error.is_not_found() => return Ok(Self::default()),
            listed => listed?,
        }
        files.sort_unstable();
        Ok(Self { files })
    }

    /// Returns the length of a file, in bytes, as of the time when the directory was listed.
    /// Returns `None` if there is no such file, or if its length was not requested or could not be
    /// read.
    pub(crate) fn length(&self, kind: FileKind) -> Option<u64> {
        let place = self.place(kind)?;
        self.files.get(place).map(|(_, length)| *length).filter(|length| *length != UNKNOWN)
    }

    fn place(&self, kind: FileKind) -> Option<usize> {
        self.files.binary_search_by_key(&kind, |(kind, _)| *kind).ok()
    }

    /// Returns the name and, if requested, the length in bytes of the table with this number.
    ///
    /// `next` is the index in the list of files that is tried before a binary search. It is set to
    /// the index after the table that was found. Callers look up the tables of a level in key
    /// order. Most of them were created in that order and so have successive numbers, which makes a
    /// search rare.
    pub(crate) fn table_near(
        &self,
        number: u64,
        next: &mut usize,
    ) -> Option<(TableName, Option<u64>)> {
        let kind = FileKind::Table(number);
        let is_next = self.files.get(*next).is_some_and(|(found, _)| *found == kind);
        let (name, place) = match is_next.then_some(*next).or_else(|| self.place(kind)) {
            Some(place) => (TableName::Table, place),
            None => (TableName::LevelDb, self.place(FileKind::LevelDbTable(number))?),
        };
        *next = place + 1;
        let length = self.files.get(place).map(|(_, length)| *length);
        Some((name, length.filter(|length| *length != UNKNOWN)))
    }

    /// Returns the files, sorted by kind and number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = FileKind> + '_ {
        self.files.iter().map(|(kind, _)| *kind)
    }

    /// Whether the directory has the file of this kind and number.
    pub(crate) fn has(&self, kind: FileKind) -> bool {
        self.place(kind).is_some()
    }

    /// Returns the numbers of the logs, in ascending order.
    pub(crate) fn logs(&self) -> impl Iterator<Item = u64> + '_ {
        self.iter().filter_map(|kind| match kind {
            FileKind::Wal(number) => Some(number),
            _ => None,
        })
    }

    /// Returns the numbers of the OPTIONS files, in ascending order.
    pub(crate) fn options(&self) -> impl Iterator<Item = u64> + '_ {
        self.iter().filter_map(|kind| match kind {
            FileKind::Options(number) => Some(number),
            _ => None,
        })
    }

    /// Returns the times in the names of old information logs, in microseconds since 1970, in
    /// ascending order.
    pub(crate) fn old_info_logs(&self) -> impl Iterator<Item = u64> + '_ {
        self.iter().filter_map(|kind| match kind {
            FileKind::OldInfoLog(time_us) => Some(time_us),
            _ => None,
        })
    }

    /// Returns the first file that holds data of a database: a log, a table or a blob file.
    pub(crate) fn first_with_data(&self) -> Option<FileKind> {
        self.iter().find(|&kind| holds_data(kind))
    }

    /// Returns the largest file number; 0 without files.
    pub(crate) fn highest_number(&self) -> u64 {
        let numbers = self.iter().filter_map(|kind| match kind {
            // The numbers of these files are times.
            FileKind::OldInfoLog(_) | FileKind::CompactionProgress(_) => None,
            kind => kind.number(),
        });
        numbers.max().unwrap_or(0)
    }
}

/// Returns the kind of a file if a database may have given it this name; `None` for all other
/// names. Two sorts of names can be parsed but are never given by a database: names whose number is
/// not spelled as a database spells it, such as with extra zeros, and names with a number above
/// [`FILE_NUMBER_MAX`].
fn kind_of_own_name(name: &str) -> Option<FileKind> {
    if let Some(number) = number_of_table(name) {
        return Some(FileKind::Table(number));
    }
    FileKind::parse(name).filter(|kind| {
        let is_reached = kind.number().is_none_or(|number| number <= FILE_NUMBER_MAX);
        is_reached && (kind.to_string() == name || *kind == FileKind::OldInfoLog(0))
    })
}

/// Returns the number in the name of a table, if the name has six digits, the usual length. This is
/// a fast path, since there may be very many tables.
fn number_of_table(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".sst").filter(|digits| digits.len() == 6)?;
    let is_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
    is_digits.then(|| digits.parse().ok()).flatten()
}

/// Whether files of a kind are kept in outside directories: those that hold data, and their trash.
pub(crate) fn may_be_outside(kind: FileKind) -> bool {
    holds_data(kind) || matches!(kind, FileKind::Trash(_))
}

/// Whether files of a kind hold data that was written to a database.
pub(crate) fn holds_data(kind: FileKind) -> bool {
    matches!(
        kind,
        FileKind::Wal(_) | FileKind::Table(_) | FileKind::LevelDbTable(_) | FileKind::Blob(_)
    )
}
