//! Options and results of an ingestion.

use std::path::{Path, PathBuf};

use tailwater_format::key::Sequence;

use crate::column_family::ColumnFamily;
use crate::error::{Error, Result};
use crate::setters::setters;

/// Options of an ingestion. Names and defaults are those of RocksDB's `IngestExternalFileOptions`.
///
/// Whole-file checksums are neither verified nor created: they need `file_checksum_gen_factory`,
/// which has no effect.
///
/// ```
/// # fn main() -> tailwater::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// # let directory = directory.path();
/// # let db = tailwater::Db::open_default(directory.join("db"))?;
/// use tailwater::{IngestOptions, OpenOptions, SstFileWriter};
///
/// let file = directory.join("bulk.sst");
/// let mut writer = SstFileWriter::new(&OpenOptions::default(), "default")?;
/// writer.open(&file)?;
/// writer.put("key", "value")?;
/// writer.finish()?;
///
/// // The file becomes a table of the database, and loses its old name.
/// let options = IngestOptions::new().with_move_files(true);
/// let ingested = db.ingest_external_file_opts(&[&file], &options)?;
/// assert!(!file.exists());
/// println!("it is in level {}", ingested.first().expect("a file").level);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct IngestOptions {
    /// Moves the files: they are linked into the database's directory, and their original names are
    /// removed at the end. If a name is a symbolic link, its target is linked, and the symbolic
    /// link is removed. A file that is a table of this database is refused as an invalid argument,
    /// whatever path, symbolic link or hard link leads to it.
    pub move_files: bool,
    /// Links the files into the database's directory, and keeps the original names. The files must
    /// not be changed through the original names.
    pub link_files: bool,
    /// Copies files that cannot be linked.
    pub failed_move_fall_back_to_copy: bool,
    /// Hides the files from snapshots that exist at the time of the ingestion.
    pub snapshot_consistency: bool,
    /// Allows assigning a file a sequence number for all its records. A file needs a sequence
    /// number if it hides any record of the database.
    pub allow_global_seqno: bool,
    /// Allows flushing memtables that overlap a file's key range. Writes wait during such a flush.
    pub allow_blocking_flush: bool,
    /// Reads and verifies every block of the files before anything is changed.
    pub verify_checksums_before_ingest: bool,
    /// Fails if a file cannot be placed in the last level.
    pub fail_if_not_bottommost_level: bool,
    /// Not supported; true is refused. RocksDB's `ingest_behind`: ingests the files below all
    /// existing data.
    pub ingest_behind: bool,
    /// Not supported; true is refused. Sequence numbers are written to the MANIFEST only and not to
    /// the files, as by RocksDB since 5.16.
    pub write_global_seqno: bool,
    /// Not supported; true is refused. Ingests tables of a database, whose records keep their own
    /// sequence numbers.
    pub allow_db_generated_files: bool,
}

impl Default for IngestOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl IngestOptions {
    /// Returns the default options.
    pub const fn new() -> Self {
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

    /// Refuses unsupported and contradictory options. The error names the option.
    pub(super) fn check(&self) -> Result<()> {
        let refused = [
            (self.ingest_behind, "ingest_behind"),
            (self.write_global_seqno, "write_global_seqno"),
            (self.allow_db_generated_files, "allow_db_generated_files"),
        ];
        if let Some((_, name)) = refused.iter().find(|(is_set, _)| *is_set) {
            return Err(Error::not_supported(format!("ingestion option {name}")));
        }
        if self.move_files && self.link_files {
            return Err(Error::invalid_argument("move_files and link_files exclude each other"));
        }
        Ok(())
    }

    /// Whether files are linked rather than copied.
    pub(super) fn links(&self) -> bool {
        self.move_files || self.link_files
    }
}

setters!(IngestOptions {
    with_move_files(move_files: bool),
    with_link_files(link_files: bool),
    with_failed_move_fall_back_to_copy(failed_move_fall_back_to_copy: bool),
    with_snapshot_consistency(snapshot_consistency: bool),
    with_allow_global_seqno(allow_global_seqno: bool),
    with_allow_blocking_flush(allow_blocking_flush: bool),
    with_verify_checksums_before_ingest(verify_checksums_before_ingest: bool),
    with_fail_if_not_bottommost_level(fail_if_not_bottommost_level: bool),
    with_ingest_behind(ingest_behind: bool),
    with_write_global_seqno(write_global_seqno: bool),
    with_allow_db_generated_files(allow_db_generated_files: bool),
});

/// Files to ingest into one column family. If several of the files have the same key, the last of
/// these files takes precedence.
///
/// ```
/// # fn main() -> tailwater::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// # let directory = directory.path();
/// # let db = tailwater::Db::open_default(directory.join("db"))?;
/// use tailwater::options::ColumnFamilyOptions;
/// use tailwater::{ExternalFiles, IngestOptions, OpenOptions, SstFileWriter};
///
/// let by_name = db.create_cf("by_name", &ColumnFamilyOptions::default())?;
/// let (users, names) = (directory.join("users.sst"), directory.join("names.sst"));
/// let mut writer = SstFileWriter::new(&OpenOptions::default(), "default")?;
/// for (file, key, value) in [(&users, "7", "ada"), (&names, "ada", "7")] {
///     writer.open(file)?;
///     writer.put(key, value)?;
///     writer.finish()?;
/// }
/// // Readers see the data and its index, or neither.
/// let options = IngestOptions::default();
/// db.ingest_external_files(&[
///     ExternalFiles { family: db.default_cf(), paths: &[&users], options },
///     ExternalFiles { family: &by_name, paths: &[&names], options },
/// ])?;
/// assert!(db.get("7")?.is_some() && db.get_cf(&by_name, "ada")?.is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct ExternalFiles<'a> {
    /// The column family into which the files are ingested.
    pub family: &'a ColumnFamily,
    /// The paths of the files.
    pub paths: &'a [&'a Path],
    /// The options of the ingestion of these files.
    pub options: IngestOptions,
}

/// A file that was ingested.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct IngestedFile {
    /// The path from which the file was ingested.
    pub path: PathBuf,
    /// The file number of the new table.
    pub number: u64,
    /// The level of the new table.
    pub level: usize,
    /// The sequence number assigned to all records of the file; 0 if none was assigned.
    pub sequence: Sequence,
    /// Length of the file, in bytes.
    pub size: u64,
    /// Number of records in the file, range tombstones included.
    pub entries: u64,
    /// Number of range tombstones in the file.
    pub range_deletions: u64,
    /// Whether the file was copied rather than linked.
    pub is_copy: bool,
}
