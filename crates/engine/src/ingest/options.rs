//! What can be asked of an ingestion, and what it answers.

use std::path::{Path, PathBuf};

use tailwater_format::key::Sequence;

use crate::db::ColumnFamily;
use crate::{Error, Result};

/// How files are taken in. The names and defaults are RocksDB's, of its
/// `IngestExternalFileOptions`.
///
/// Checksums of whole files are neither taken nor made: they need `file_checksum_gen_factory`,
/// which is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IngestOptions {
    /// The files are linked into the database's directory, and their first names removed when the
    /// ingestion is done. Of a symbolic link it is the file that it leads to which is linked, and
    /// the symbolic link that is removed. A file that is a table of this database, whatever path,
    /// symbolic link or hard link leads to it, is refused as an invalid argument.
    pub move_files: bool,
    /// The same, but the first names stay. The files must not be changed by them.
    pub link_files: bool,
    /// Files that cannot be linked are copied.
    pub failed_move_fall_back_to_copy: bool,
    /// Snapshots that there are go on showing what they showed.
    pub snapshot_consistency: bool,
    /// A file may get a sequence number for all its records, which it needs if it hides anything.
    pub allow_global_seqno: bool,
    /// What is in memory of a file's keys may be flushed.
    pub allow_blocking_flush: bool,
    /// Every block of the files is read and checked before anything is changed.
    pub verify_checksums_before_ingest: bool,
    /// Only the last level will do.
    pub fail_if_not_bottommost_level: bool,
    /// Not built, refused: files are not taken in behind all others.
    pub ingest_behind: bool,
    /// Not built, refused: sequence numbers stand in the MANIFEST alone, as RocksDB has them since
    /// 5.16.
    pub write_global_seqno: bool,
    /// Not built, refused: tables of a database are not taken in with their own sequence numbers.
    pub allow_db_generated_files: bool,
}

impl Default for IngestOptions {
    fn default() -> Self {
        Self {
            move_files: false,
            link_files: false,
            failed_move_fall_back_to_copy: true,
            snapshot_consistency: true,
            allow_global_seqno: true,
            allow_blocking_flush: true,
            verify_checksums_before_ingest: false,
            fail_if_not_bottommost_level: false,
            ingest_behind: false,
            write_global_seqno: false,
            allow_db_generated_files: false,
        }
    }
}

impl IngestOptions {
    /// Refuses, by name, what is not built and what contradicts itself.
    pub(super) fn check(&self) -> Result<()> {
        let refused = [
            (self.ingest_behind, "ingest_behind"),
            (self.write_global_seqno, "write_global_seqno"),
            (self.allow_db_generated_files, "allow_db_generated_files"),
        ];
        if let Some((_, name)) = refused.iter().find(|(is_set, _)| *is_set) {
            return Err(Error::not_supported(format!("{name}, an option of ingestion")));
        }
        if self.move_files && self.link_files {
            return Err(Error::invalid_argument("move_files and link_files exclude each other"));
        }
        Ok(())
    }

    /// Whether files get a second name rather than a copy.
    pub(super) fn links(&self) -> bool {
        self.move_files || self.link_files
    }
}

/// Files for one column family. Where two of them have the same keys, the later one counts.
#[derive(Debug, Clone, Copy)]
pub struct ExternalFiles<'a> {
    /// The column family that takes them in.
    pub family: &'a ColumnFamily,
    /// The files.
    pub paths: &'a [&'a Path],
    /// How.
    pub options: IngestOptions,
}

/// A file that was taken in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IngestedFile {
    /// Where it came from.
    pub path: PathBuf,
    /// The number of the table that it is now.
    pub number: u64,
    /// The level that it is in.
    pub level: usize,
    /// The sequence number of its records: 0 if it hides nothing.
    pub sequence: Sequence,
    /// Its length in bytes.
    pub size: u64,
    /// How many records it has, range tombstones included.
    pub entries: u64,
    /// How many of them are range tombstones.
    pub range_deletions: u64,
    /// Whether it was copied rather than linked.
    pub is_copy: bool,
}
