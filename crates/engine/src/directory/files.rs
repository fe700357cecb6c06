//! The files of a database that are in one directory, by number and kind.

use std::path::Path;

use tailwater_format::file_name::FileKind;
use tailwater_io::Storage;

use crate::Result;

/// Largest number that a file of a database can have. The counter never comes near it; a name with
/// a larger number was not given by a database.
pub(crate) const FILE_NUMBER_MAX: u64 = 1 << 62;

/// The files in a directory whose names a database gives, sorted. Other names are not in it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Files {
    kinds: Vec<FileKind>,
}

/// The name under which a table was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TableName {
    /// `.sst`.
    Table,
    /// `.ldb`, LevelDB's name.
    LevelDb,
}

impl Files {
    /// The files in a directory; none where the directory is missing.
    pub(crate) fn list(storage: &dyn Storage, directory: &Path) -> Result<Self> {
        let entries = match storage.list(directory) {
            Err(error) if error.is_not_found() => return Ok(Self::default()),
            entries => entries?,
        };
        let files = entries.iter().filter(|entry| !entry.is_directory);
        let mut kinds: Vec<FileKind> =
            files.filter_map(|entry| kind_of_own_name(&entry.name)).collect();
        kinds.sort_unstable();
        Ok(Self { kinds })
    }

    /// The files, sorted by kind and number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = FileKind> + '_ {
        self.kinds.iter().copied()
    }

    /// Whether a file is there.
    pub(crate) fn has(&self, kind: FileKind) -> bool {
        self.kinds.binary_search(&kind).is_ok()
    }

    /// The name of the table with that number, if it is there.
    pub(crate) fn table(&self, number: u64) -> Option<TableName> {
        if self.has(FileKind::Table(number)) {
            Some(TableName::Table)
        } else {
            self.has(FileKind::LevelDbTable(number)).then_some(TableName::LevelDb)
        }
    }

    /// The numbers of the logs, in ascending order.
    pub(crate) fn logs(&self) -> impl Iterator<Item = u64> + '_ {
        self.kinds.iter().filter_map(|kind| match kind {
            FileKind::Wal(number) => Some(*number),
            _ => None,
        })
    }

    /// The first file that holds what was written to a database: a log, a table or a blob file.
    pub(crate) fn first_with_data(&self) -> Option<FileKind> {
        self.iter().find(|&kind| holds_data(kind))
    }

    /// The largest file number; 0 without files.
    pub(crate) fn highest_number(&self) -> u64 {
        let numbers = self.iter().filter_map(|kind| match kind {
            // Their numbers are times.
            FileKind::OldInfoLog(_) | FileKind::CompactionProgress(_) => None,
            kind => kind.number(),
        });
        numbers.max().unwrap_or(0)
    }
}

/// The kind of a file that a database may have named so: not of a name that only parses as one,
/// because it is written in another form or has a number that the counter does not reach.
fn kind_of_own_name(name: &str) -> Option<FileKind> {
    FileKind::parse(name).filter(|kind| {
        let is_reached = kind.number().is_none_or(|number| number <= FILE_NUMBER_MAX);
        is_reached && (kind.to_string() == name || *kind == FileKind::OldInfoLog(0))
    })
}

/// Whether files of a kind hold what was written to a database.
pub(crate) fn holds_data(kind: FileKind) -> bool {
    matches!(
        kind,
        FileKind::Wal(_) | FileKind::Table(_) | FileKind::LevelDbTable(_) | FileKind::Blob(_)
    )
}
