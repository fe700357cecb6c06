//! File names in a database's directory, and the contents of `CURRENT`.
//!
//! Tables, logs, blob files, MANIFESTs and OPTIONS files take their numbers from one counter, so no
//! two of them that are in use have the same number. Numbers are decimal, padded with zeros to six
//! digits. A file whose name [`FileKind::parse`] does not recognise does not belong to the
//! database: it is neither read nor removed. Source: `file/filename.cc`.

use std::fmt;

use crate::{Error, Result};

/// Name of the subdirectory of the log directory to which write-ahead logs are moved if they are to
/// be kept after their contents were flushed to tables.
pub const ARCHIVE_DIRECTORY: &str = "archive";

/// The name of the information log if it is in the database's own directory.
pub const INFO_LOG: &str = "LOG";

/// The end of the names of trash files. Source: `file/delete_scheduler.cc`.
const TRASH_EXTENSION: &str = ".trash";

/// Maximum length of the prefix that [`info_log_prefix`] derives from a path, in bytes. The `_LOG`
/// at its end is not counted.
const INFO_LOG_PREFIX_MAX: usize = 255;

/// The kind of a file in a database's directory, with the number in its name.
///
/// [`fmt::Display`] writes the name: `FileKind::Table(7)` is `000007.sst`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    /// `000007.log`: a write-ahead log.
    Wal(u64),
    /// `archive/000007.log`: a write-ahead log that was archived after its contents were flushed to
    /// tables.
    ArchivedWal(u64),
    /// `000007.sst`: a table.
    Table(u64),
    /// `000007.ldb`: a table under LevelDB's name.
    LevelDbTable(u64),
    /// `000007.blob`: a file of large values.
    Blob(u64),
    /// `000007.sst.trash` or `000007.sst0.trash`: a file that the database no longer needs, renamed
    /// so that it can be removed slowly.
    Trash(TrashName),
    /// `MANIFEST-000007`: the log of version edits.
    Manifest(u64),
    /// `CURRENT`: names the current MANIFEST.
    Current,
    /// `OPTIONS-000007`: the options with which the database was opened.
    Options(u64),
    /// `OPTIONS-000007.dbtmp`: an OPTIONS file that is being written.
    TemporaryOptions(u64),
    /// `000007.dbtmp`: a file that is written under this name and then renamed, such as `CURRENT`
    /// and `IDENTITY`.
    Temporary(u64),
    /// `IDENTITY`: the database's id.
    Identity,
    /// `LOCK`: held while the database is open for writing.
    Lock,
    /// `LOG`: the information log.
    InfoLog,
    /// `LOG.old.1700000000000000`: an earlier `LOG`, with the time of its replacement in
    /// microseconds since 1970.
    OldInfoLog(u64),
    /// `COMPACTION_PROGRESS-1700000000000000`: the progress of an interrupted compaction.
    CompactionProgress(u64),
    /// `COMPACTION_PROGRESS-1700000000000000.dbtmp`: a progress file that is being written.
    TemporaryCompactionProgress(u64),
    /// `METADB-7`: a meta database of early RocksDB versions.
    MetaDatabase(u64),
    /// `TAILWATER-OPTIONS`: options that RocksDB does not have.
    TailwaterOptions,
    /// `TAILWATER-CLAIM`: names the owner of the files in a directory outside the database's own,
    /// see [`crate::claim`].
    Claim,
    /// `TAILWATER-LOCK`: held in a directory outside the database's own while the database is open
    /// for writing.
    OutsideLock,
    /// `TAILWATER-DIRECTORIES`: the directories that the database has claimed outside its home,
    /// which is the directory with its CURRENT file. Each line is an absolute path.
    ClaimedDirectories,
    /// `TAILWATER-STAGING`: marks a directory in which a checkpoint is being assembled.
    Staging,
}

/// The name of a trash file: what the file was before it was renamed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrashName {
    /// The kind of the file.
    pub of: TrashOf,
    /// The number in the file's name.
    pub number: u64,
    /// A further number in the name of the trash file, if the name without it was taken.
    pub conflict: Option<u64>,
}

/// The kinds of files that are removed slowly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TrashOf {
    /// A write-ahead log.
    Wal,
    /// A table.
    Table,
    /// A table under LevelDB's name.
    LevelDbTable,
    /// A file of large values.
    Blob,
}

impl TrashName {
    /// Parses a name without its extension `.trash`: `000007.sst` or `000007.sst0`.
    fn parse(name: &str) -> Option<Self> {
        let whole = name.trim_end_matches(|digit: char| digit.is_ascii_digit());
        let conflict = name.strip_prefix(whole)?;
        let conflict = if conflict.is_empty() { None } else { Some(parse_number(conflict)?) };
        FileKind::parse_numbered(whole)?.trash(conflict)
    }

    /// Returns the file before it was renamed.
    pub fn origin(self) -> FileKind {
        match self.of {
            TrashOf::Wal => FileKind::Wal(self.number),
            TrashOf::Table => FileKind::Table(self.number),
            TrashOf::LevelDbTable => FileKind::LevelDbTable(self.number),
            TrashOf::Blob => FileKind::Blob(self.number),
        }
    }
}

impl fmt::Display for TrashName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.origin().fmt(f)?;
        self.conflict.map_or(Ok(()), |conflict| conflict.fmt(f))?;
        f.write_str(TRASH_EXTENSION)
    }
}

impl FileKind {
    /// Returns the name as trash of a file of this kind; `None` if files of this kind are not
    /// removed slowly. With `conflict`, the name differs from the usual one.
    pub fn trash(self, conflict: Option<u64>) -> Option<TrashName> {
        let (of, number) = match self {
            Self::Wal(number) => (TrashOf::Wal, number),
            Self::Table(number) => (TrashOf::Table, number),
            Self::LevelDbTable(number) => (TrashOf::LevelDbTable, number),
            Self::Blob(number) => (TrashOf::Blob, number),
            _ => return None,
        };
        Some(TrashName { of, number, conflict })
    }

    /// Returns the kind of the file with this name; `None` for a name that the database does not
    /// use.
    ///
    /// `name` is relative to the database's directory or, for a log, to the log directory. It has
    /// no leading slash.
    pub fn parse(name: &str) -> Option<Self> {
        let unnumbered = match name {
            "CURRENT" => Some(Self::Current),
            "IDENTITY" => Some(Self::Identity),
            "LOCK" => Some(Self::Lock),
            "TAILWATER-OPTIONS" => Some(Self::TailwaterOptions),
            "TAILWATER-CLAIM" => Some(Self::Claim),
            "TAILWATER-LOCK" => Some(Self::OutsideLock),
            "TAILWATER-DIRECTORIES" => Some(Self::ClaimedDirectories),
            "TAILWATER-STAGING" => Some(Self::Staging),
            _ => None,
        };
        unnumbered
            .or_else(|| Self::parse_info_log(name, INFO_LOG))
            .or_else(|| Self::parse_prefixed(name))
            .or_else(|| Self::parse_numbered(name))
    }

    /// Returns the kind of the information log with this name. `prefix` is the beginning of the
    /// names of information logs: [`INFO_LOG`] in the database's own directory, or the result of
    /// [`info_log_prefix`] in a separate directory.
    pub fn parse_info_log(name: &str, prefix: &str) -> Option<Self> {
        match name.strip_prefix(prefix)? {
            "" => Some(Self::InfoLog),
            ".old" => Some(Self::OldInfoLog(0)),
            rest => Some(Self::OldInfoLog(parse_number(rest.strip_prefix(".old.")?)?)),
        }
    }

    /// Returns the number in the name; `None` for a name without one.
    pub fn number(self) -> Option<u64> {
        match self {
            Self::Wal(number)
            | Self::ArchivedWal(number)
            | Self::Table(number)
            | Self::LevelDbTable(number)
            | Self::Blob(number)
            | Self::Trash(TrashName { number, .. })
            | Self::Manifest(number)
            | Self::Options(number)
            | Self::TemporaryOptions(number)
            | Self::Temporary(number)
            | Self::OldInfoLog(number)
            | Self::CompactionProgress(number)
            | Self::TemporaryCompactionProgress(number)
            | Self::MetaDatabase(number) => Some(number),
            Self::Current
            | Self::Identity
            | Self::Lock
            | Self::InfoLog
            | Self::TailwaterOptions
            | Self::Claim
            | Self::OutsideLock
            | Self::ClaimedDirectories
            | Self::Staging => None,
        }
    }

    /// Parses a name that consists of a known prefix, `-` and a number: `MANIFEST-000007`. The name
    /// of a temporary file also ends with `.dbtmp`.
    fn parse_prefixed(name: &str) -> Option<Self> {
        let (prefix, rest) = name.split_once('-')?;
        let (digits, temporary) = match rest.strip_suffix(".dbtmp") {
            Some(digits) => (digits, true),
            None => (rest, false),
        };
        let number = parse_number(digits)?;
        match (prefix, temporary) {
            ("MANIFEST", false) => Some(Self::Manifest(number)),
            ("OPTIONS", false) => Some(Self::Options(number)),
            ("OPTIONS", true) => Some(Self::TemporaryOptions(number)),
            ("COMPACTION_PROGRESS", false) => Some(Self::CompactionProgress(number)),
            ("COMPACTION_PROGRESS", true) => Some(Self::TemporaryCompactionProgress(number)),
            ("METADB", false) => Some(Self::MetaDatabase(number)),
            _ => None,
        }
    }

    /// Parses names that begin with their number: `000007.sst`.
    fn parse_numbered(name: &str) -> Option<Self> {
        if let Some(archived) =
            name.strip_prefix(ARCHIVE_DIRECTORY).and_then(|rest| rest.strip_prefix('/'))
        {
            return Some(Self::ArchivedWal(parse_number(archived.strip_suffix(".log")?)?));
        }
        if let Some(name) = name.strip_suffix(TRASH_EXTENSION) {
            return TrashName::parse(name).map(Self::Trash);
        }
        let (digits, extension) = name.split_once('.')?;
        let number = parse_number(digits)?;
        match extension {
            "log" => Some(Self::Wal(number)),
            "sst" => Some(Self::Table(number)),
            "ldb" => Some(Self::LevelDbTable(number)),
            "blob" => Some(Self::Blob(number)),
            "dbtmp" => Some(Self::Temporary(number)),
            _ => None,
        }
    }
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wal(number) => write!(f, "{number:06}.log"),
            Self::ArchivedWal(number) => write!(f, "{ARCHIVE_DIRECTORY}/{number:06}.log"),
            Self::Table(number) => write!(f, "{number:06}.sst"),
            Self::LevelDbTable(number) => write!(f, "{number:06}.ldb"),
            Self::Blob(number) => write!(f, "{number:06}.blob"),
            Self::Trash(trash) => trash.fmt(f),
            Self::Manifest(number) => write!(f, "MANIFEST-{number:06}"),
            Self::Current => f.write_str("CURRENT"),
            Self::Options(number) => write!(f, "OPTIONS-{number:06}"),
            Self::TemporaryOptions(number) => write!(f, "OPTIONS-{number:06}.dbtmp"),
            Self::Temporary(number) => write!(f, "{number:06}.dbtmp"),
            Self::Identity => f.write_str("IDENTITY"),
            Self::Lock => f.write_str("LOCK"),
            Self::InfoLog => f.write_str(INFO_LOG),
            Self::OldInfoLog(time_us) => write!(f, "{INFO_LOG}.old.{time_us}"),
            Self::CompactionProgress(time_us) => write!(f, "COMPACTION_PROGRESS-{time_us}"),
            Self::TemporaryCompactionProgress(time_us) => {
                write!(f, "COMPACTION_PROGRESS-{time_us}.dbtmp")
            }
            Self::MetaDatabase(number) => write!(f, "METADB-{number}"),
            Self::TailwaterOptions => f.write_str("TAILWATER-OPTIONS"),
            Self::Claim => f.write_str("TAILWATER-CLAIM"),
            Self::OutsideLock => f.write_str("TAILWATER-LOCK"),
            Self::ClaimedDirectories => f.write_str("TAILWATER-DIRECTORIES"),
            Self::Staging => f.write_str("TAILWATER-STAGING"),
        }
    }
}

/// Parses a 64-bit number that consists only of digits.
fn parse_number(digits: &str) -> Option<u64> {
    let only_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    only_digits.then(|| digits.parse().ok()).flatten()
}

/// Returns the prefix of names of information logs in a separate directory: the database's absolute
/// path with every byte outside `[0-9A-Za-z._-]` replaced by `_`, without a leading `_`, followed
/// by `_LOG`.
pub fn info_log_prefix(absolute_path: &str) -> String {
    let mut prefix = String::new();
    for (index, byte) in absolute_path.bytes().enumerate() {
        if prefix.len() == INFO_LOG_PREFIX_MAX {
            break;
        }
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_') {
            prefix.push(char::from(byte));
        } else if index > 0 {
            prefix.push('_');
        }
    }
    prefix.push_str("_LOG");
    prefix
}

/// Returns the number of the MANIFEST that the contents of `CURRENT` name.
///
/// # Errors
/// Corruption, for contents that are not `MANIFEST-<number>` and one newline.
pub fn parse_current(contents: &[u8]) -> Result<u64> {
    let Some(name) = contents.strip_suffix(b"\n") else {
        return Err(Error::corruption("CURRENT", contents.len(), "a newline", "the end"));
    };
    match std::str::from_utf8(name).ok().and_then(FileKind::parse) {
        Some(FileKind::Manifest(number)) => Ok(number),
        _ => {
            let found = format!("'{}'", name.escape_ascii());
            Err(Error::corruption("CURRENT", 0, "MANIFEST-<number>", found))
        }
    }
}

/// Returns the contents of a `CURRENT` that names the MANIFEST with this number.
pub fn format_current(manifest_number: u64) -> String {
    format!("{}\n", FileKind::Manifest(manifest_number))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn trash(of: TrashOf, number: u64) -> FileKind {
        FileKind::Trash(TrashName { of, number, conflict: None })
    }

    /// Names that RocksDB writes, and their kinds.
    const NAMES: [(&str, FileKind); 27] = [
        ("000001.log", FileKind::Wal(1)),
        ("archive/000123.log", FileKind::ArchivedWal(123)),
        ("000081.sst", FileKind::Table(81)),
        ("1234567.sst", FileKind::Table(1_234_567)),
        ("18446744073709551615.sst", FileKind::Table(u64::MAX)),
        ("000081.ldb", FileKind::LevelDbTable(81)),
        ("000010.blob", FileKind::Blob(10)),
        ("000081.sst.trash", trash(TrashOf::Table, 81)),
        ("000010.log.trash", trash(TrashOf::Wal, 10)),
        ("MANIFEST-000005", FileKind::Manifest(5)),
        ("MANIFEST-1000005", FileKind::Manifest(1_000_005)),
        ("CURRENT", FileKind::Current),
        ("OPTIONS-000007", FileKind::Options(7)),
        ("OPTIONS-000007.dbtmp", FileKind::TemporaryOptions(7)),
        ("000005.dbtmp", FileKind::Temporary(5)),
        ("IDENTITY", FileKind::Identity),
        ("LOCK", FileKind::Lock),
        ("LOG", FileKind::InfoLog),
        ("LOG.old.1700000000000000", FileKind::OldInfoLog(1_700_000_000_000_000)),
        ("COMPACTION_PROGRESS-17", FileKind::CompactionProgress(17)),
        ("COMPACTION_PROGRESS-17.dbtmp", FileKind::TemporaryCompactionProgress(17)),
        ("METADB-2", FileKind::MetaDatabase(2)),
        ("TAILWATER-OPTIONS", FileKind::TailwaterOptions),
        ("TAILWATER-CLAIM", FileKind::Claim),
        ("TAILWATER-LOCK", FileKind::OutsideLock),
        ("TAILWATER-DIRECTORIES", FileKind::ClaimedDirectories),
        ("TAILWATER-STAGING", FileKind::Staging),
    ];

    #[test]
    fn names_parse_and_print() {
        for (name, kind) in NAMES {
            assert_eq!(FileKind::parse(name), Some(kind), "{name}");
            assert_eq!(kind.to_string(), name);
            let digits: String = name.chars().filter(char::is_ascii_digit).collect();
            assert_eq!(kind.number(), digits.parse().ok(), "{name}");
        }
    }

    #[test]
    fn a_trash_file_has_the_name_of_the_file_and_a_number_if_that_was_taken() {
        for kind in [FileKind::Wal(7), FileKind::LevelDbTable(7), FileKind::Blob(7)] {
            for conflict in [None, Some(0), Some(12)] {
                let trash = kind.trash(conflict).expect("it is removed slowly");
                assert_eq!(FileKind::parse(&trash.to_string()), Some(FileKind::Trash(trash)));
                assert_eq!(trash.origin(), kind);
            }
        }
        let second = FileKind::Table(7).trash(Some(1)).map(|trash| trash.to_string());
        assert_eq!(second.as_deref(), Some("000007.sst1.trash"));
        assert_eq!(FileKind::Manifest(7).trash(None), None);
    }

    #[test]
    fn foreign_names_are_not_parsed() {
        let foreign = [
            "",
            ".",
            "..",
            "foo",
            "foo-dx-100.log",
            ".log",
            "100",
            "100.",
            "100.lop",
            "100.sst.bak",
            "-100.sst",
            "+100.sst",
            "0x7.sst",
            "18446744073709551616.log",
            "manifest-3",
            "MANIFEST",
            "MANIFEST-",
            "MANIFEST-3x",
            "XMANIFEST-3",
            "MANIFEST-3.dbtmp",
            "CURRENT2",
            "LOCKE",
            "LOGS",
            "LOG.old.x",
            "OPTIONS-",
            "OPTIONS-7.tmp",
            "archive",
            "archive/",
            "archive/000001.sst",
            "archive000001.log",
            "TAILWATER-OPTIONS-1",
            ".trash",
            "notes.trash",
            "000007.trash",
            "000007.sstx.trash",
            "000007.sst.trash.trash",
            "000007.dbtmp.trash",
            "CURRENT.trash",
            "archive/000007.log.trash",
        ];
        for name in foreign {
            assert_eq!(FileKind::parse(name), None, "{name}");
        }
    }

    #[test]
    fn information_logs_in_their_own_directory_carry_the_path() {
        let prefix = info_log_prefix("/data/my db/1");
        assert_eq!(prefix, "data_my_db_1_LOG");
        let current = FileKind::parse_info_log("data_my_db_1_LOG", &prefix);
        assert_eq!(current, Some(FileKind::InfoLog));
        let old = FileKind::parse_info_log("data_my_db_1_LOG.old.9", &prefix);
        assert_eq!(old, Some(FileKind::OldInfoLog(9)));
        assert_eq!(FileKind::parse_info_log("data_other_LOG", &prefix), None);
        assert_eq!(info_log_prefix(&"a".repeat(1000)).len(), INFO_LOG_PREFIX_MAX + 4);
    }

    #[test]
    fn current_names_a_manifest_and_ends_its_line() {
        assert_eq!(parse_current(b"MANIFEST-000005\n"), Ok(5));
        assert_eq!(format_current(5), "MANIFEST-000005\n");
        let damaged: [&[u8]; 7] = [
            b"",
            b"\n",
            b"MANIFEST-000005",
            b"MANIFEST-000005\n\n",
            b"MANIFEST-00000x\n",
            b"000005.sst\n",
            b"\xff\xfe\n",
        ];
        for contents in damaged {
            assert!(parse_current(contents).is_err(), "{}", contents.escape_ascii());
        }
    }
}
