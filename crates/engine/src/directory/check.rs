//! Checks that every file of a database is in its expected directory.

use std::path::{Path, PathBuf};

use tailwater_format::file_name::FileKind;
use tailwater_io::{IoMode, Purpose, Storage};

use super::files::{Files, TableName};
use super::found::Directories;
use crate::error::{Error, Result};
use crate::left_out::LeftOut;
use crate::table::FileMetadata;
use crate::version::Version;

/// The logs that a database needs.
pub(crate) struct NeededLogs<'a> {
    /// The log directory.
    pub(crate) directory: &'a Path,
    /// The value of the option `wal_dir`, as given.
    pub(crate) option: &'a Path,
    /// Number of the oldest log that is needed.
    pub(crate) oldest: u64,
    /// The numbers of the logs listed in the MANIFEST; `None` if it lists none.
    pub(crate) recorded: Option<&'a [u64]>,
    /// Whether the database opens without a missing log, and reports the log as ignored data
    /// ([`LeftOut`]). If false, a missing log is an error.
    pub(crate) may_be_missing: bool,
}

impl Directories {
    /// Checks that every blob file of a version, and every table that is not open yet, exists with
    /// the length recorded in the MANIFEST. `paths` are the directories of the column family's
    /// tables; a table's path id is an index into them. Blob files are in the first of them.
    ///
    /// # Errors
    /// Corruption, naming the file.
    pub(crate) fn check_version(
        &self,
        storage: &dyn Storage,
        version: &Version,
        paths: &[PathBuf],
    ) -> Result<()> {
        let nothing = Files::default();
        let mut listed = Vec::with_capacity(paths.len());
        for path in paths {
            listed.push((path.as_path(), self.files_in(storage, path)?.unwrap_or(&nothing)));
        }
        let place = |path_id: usize| listed.get(path_id).or(listed.last()).copied();
        let mut next = 0;
        for (_, file) in version.files() {
            let Some((path, files)) = place(usize::from(file.added().path_id)) else { continue };
            self.check_table(storage, file, path, files, &mut next)?;
        }
        for (&number, blob_file) in version.blob_files() {
            let Some((path, files)) = place(0) else { continue };
            let kind = FileKind::Blob(number);
            if !files.has(kind) {
                return Err(self.missing(path, kind));
            }
            check_length(storage, path, kind, files.length(kind), blob_file.file_bytes())?;
        }
        Ok(())
    }

    fn check_table(
        &self,
        storage: &dyn Storage,
        file: &FileMetadata,
        path: &Path,
        files: &Files,
        next: &mut usize,
    ) -> Result<()> {
        // An open table can be read even if another process has removed its file.
        if file.reader.get().is_some() {
            return Ok(());
        }
        let number = file.number();
        let (kind, length) = match files.table_near(number, next) {
            Some((TableName::Table, length)) => (FileKind::Table(number), length),
            Some((TableName::LevelDb, length)) => {
                file.set_leveldb_name();
                (FileKind::LevelDbTable(number), length)
            }
            None => return Err(self.missing(path, FileKind::Table(number))),
        };
        check_length(storage, path, kind, length, file.size())
    }

    /// Returns the error for a missing file that the MANIFEST names.
    fn missing(&self, directory: &Path, kind: FileKind) -> Error {
        let mut message = "the MANIFEST names this file, and it is missing".to_owned();
        if let Some((elsewhere, _)) = self.all().find(|(_, files)| files.has(kind)) {
            message.push_str(&format!(
                "; there is a file of that name in {}: check db_paths and cf_paths",
                elsewhere.display()
            ));
        }
        Error::corruption(&directory.join(kind.to_string()), message)
    }

    /// Checks the logs before recovery. Every needed log that the MANIFEST lists must exist, and
    /// every log that could be needed must be in the log directory. If missing logs are accepted,
    /// appends them to `left_out`. Appends a warning if the MANIFEST lists no logs and the log
    /// directory contains no needed log.
    ///
    /// # Errors
    /// Corruption, naming the log; invalid argument, for a log in a directory other than the log
    /// directory.
    pub(crate) fn check_logs(
        &self,
        storage: &dyn Storage,
        needed: &NeededLogs<'_>,
        left_out: &mut Vec<LeftOut>,
        warnings: &mut Vec<String>,
    ) -> Result<()> {
        let nothing = Files::default();
        let files = self.files_in(storage, needed.directory)?.unwrap_or(&nothing);
        self.check_strays(storage, needed, files)?;
        let recorded = needed.recorded.unwrap_or_default().iter();
        for &number in recorded.filter(|&&number| number >= needed.oldest) {
            let kind = FileKind::Wal(number);
            if files.has(kind) {
                continue;
            }
            let path = needed.directory.join(kind.to_string());
            let message = format!("write-ahead log {number} is missing; it may have held writes");
            if !needed.may_be_missing {
                return Err(Error::corruption(&path, message));
            }
            left_out.push(LeftOut { path, offset: 0, bytes: 0, reason: message, torn_tail: false });
        }
        let has_any = files.logs().any(|number| number >= needed.oldest);
        // The first opening writes a log before it writes an OPTIONS file, so a database with an
        // OPTIONS file has had a log.
        let was_opened = self.home_files().iter().any(|kind| matches!(kind, FileKind::Options(_)));
        if !has_any && was_opened && needed.recorded.is_none() {
            warnings.push(format!(
                "there is no write-ahead log in {}: writes that were only in log {} or later are \
                 lost, if there were any",
                needed.directory.display(),
                needed.oldest
            ));
        }
        Ok(())
    }

    /// Refuses logs that may be needed but are in directories of the database other than the log
    /// directory. A log is accepted there if the log directory, too, has it.
    ///
    /// If the database has not yet claimed the log directory, a log there with the same number may
    /// belong to another database. Then the two logs must have equal bytes to count as the same
    /// log.
    fn check_strays(
        &self,
        storage: &dyn Storage,
        needed: &NeededLogs<'_>,
        in_place: &Files,
    ) -> Result<()> {
        // If `wal_dir` was a relative path, versions before 0.2 took it relative to the home.
        let below_home = self.home().path.join(needed.option);
        let below = match self.files_in(storage, &below_home)? {
            Some(_) => Files::default(),
            None => Files::list(storage, &below_home)?,
        };
        // A claim or a CURRENT file shows that this directory belongs to another database.
        // Tailwater before version 0.2 wrote no claims, so a directory without claim may be this
        // database's.
        let is_anothers = below.has(FileKind::Claim) || below.has(FileKind::Current);
        let below = if is_anothers { Files::default() } else { below };
        let home = [(self.home().path.as_path(), self.home_files()), (&below_home, &below)];
        let in_home = home
            .into_iter()
            .flat_map(|(path, files)| files.logs().map(move |number| (path, number)));
        let own = self.outside().iter().flat_map(|outside| {
            outside.removable().filter_map(|kind| match kind {
                FileKind::Wal(number) => Some((outside.path.as_path(), number)),
                _ => None,
            })
        });
        for (directory, number) in in_home.chain(own).filter(|(_, it)| *it >= needed.oldest) {
            let kind = FileKind::Wal(number);
            let path = directory.join(kind.to_string());
            if storage.metadata(&path)?.length == 0 {
                continue;
            }
            if in_place.has(kind)
                && (self.is_own(storage, needed.directory)?
                    || have_same_bytes(storage, &path, &needed.directory.join(kind.to_string()))?)
            {
                continue;
            }
            let message = format!(
                "this write-ahead log may hold writes that are not in tables, and the logs are \
                 expected in {}: check wal_dir",
                needed.directory.display()
            );
            return Err(Error::invalid_argument(message).in_file(&path));
        }
        Ok(())
    }
}

fn have_same_bytes(storage: &dyn Storage, one: &Path, other: &Path) -> Result<bool> {
    /// The files are read and compared in pieces of this size, in bytes.
    const PART_BYTES: usize = 1 << 16;
    let open = |path| storage.open(path, IoMode::Buffered, Purpose::Wal);
    let files = (open(one)?, open(other)?);
    if files.0.length()? != files.1.length()? {
        return Ok(false);
    }
    let mut parts = (vec![0; PART_BYTES], vec![0; PART_BYTES]);
    let mut offset = 0;
    loop {
        let count = files.0.read_full_at(&mut parts.0, offset, Purpose::Wal)?;
        files.1.read_full_at(&mut parts.1, offset, Purpose::Wal)?;
        if parts.0.get(..count) != parts.1.get(..count) {
            return Ok(false);
        }
        if count < PART_BYTES {
            return Ok(true);
        }
        offset += count as u64;
    }
}

/// Checks that the file of kind `kind` in `directory` has `expected` bytes. `listed` is its length
/// from the directory listing, if lengths were requested for the listing.
fn check_length(
    storage: &dyn Storage,
    directory: &Path,
    kind: FileKind,
    listed: Option<u64>,
    expected: u64,
) -> Result<()> {
    let path = || directory.join(kind.to_string());
    let found = match listed {
        Some(length) => length,
        None => storage.metadata(&path())?.length,
    };
    if found != expected {
        let message = format!("the file has {found} bytes, and the MANIFEST says {expected}");
        return Err(Error::corruption(&path(), message));
    }
    Ok(())
}
