//! The second step of recovery: locates every file that the MANIFEST lists.

use std::path::Path;
use std::sync::Arc;

use tailwater_format::record_log::RecoveryMode;

use super::{DirectoriesFound, FilesFound, FoundFamily, ManifestRead, Unrecovered};
use crate::directory::{Directories, NeededLogs, durable_id};
use crate::error::{Error, ErrorKind, Result};
use crate::open_options::OpenOptions;
use crate::version::Version;
use crate::version::manifest::{DatabaseState, FamilyState, Manifest};
use crate::wal::replay::{self, Log};

impl ManifestRead {
    /// Finds the database's directories and files, and checks them against the MANIFEST.
    ///
    /// # Errors
    /// The errors of [`ManifestRead::find_directories`] and [`DirectoriesFound::find_files`].
    pub(crate) fn find_files(self) -> Result<FilesFound> {
        self.find_directories()?.find_files()
    }

    /// Finds the database's directories, and lists the files in them.
    ///
    /// # Errors
    /// Invalid argument, for a directory that belongs to another database.
    pub(crate) fn find_directories(self) -> Result<DirectoriesFound> {
        let Self { mut unrecovered, manifest } = self;
        let home_files = unrecovered.home_files.take();
        let (storage, options) = (&*unrecovered.storage, &unrecovered.options);
        let home = unrecovered.home.clone();
        let id = durable_id(storage, &home.path, manifest.database.database_id.as_deref())?;
        let id = id.unwrap_or_default();
        let directories = match home_files {
            Some(files) => Directories::find_with_home_files(storage, home, files, options, &id)?,
            None => Directories::find(storage, home, options, &id)?,
        };
        directories.check(storage)?;
        Ok(DirectoriesFound { unrecovered, manifest, directories })
    }
}

impl DirectoriesFound {
    /// Opens the logs that are needed, oldest first.
    pub(super) fn open_logs(&self) -> Result<Vec<Log>> {
        let Unrecovered { storage, options, home, .. } = &self.unrecovered;
        let directory = options.wal_directory(&home.path);
        let numbers = needed_logs(&self.unrecovered, &self.directories, &self.manifest.database)?;
        numbers.into_iter().map(|number| Log::open(&**storage, &directory, number)).collect()
    }

    /// Finds the files that the MANIFEST names.
    ///
    /// # Errors
    /// - Corruption: a file is missing or has another length than recorded.
    /// - Invalid argument: a column family was written with another comparator, or tables are on
    ///   levels that `num_levels` excludes.
    pub(super) fn find_files(self) -> Result<FilesFound> {
        let Self { unrecovered, manifest, directories } = self;
        let Manifest { database: manifest, families: states } = manifest;
        let (storage, options) = (&*unrecovered.storage, &unrecovered.options);
        let mut families = Vec::new();
        for state in states.into_values() {
            let family =
                found_family(options, state).map_err(|error| error.in_file(&manifest.path))?;
            let paths = options.table_directories(&unrecovered.home.path, &family.name);
            directories.check_version(storage, &family.version, &paths)?;
            families.push(family);
        }
        let mut left_out = manifest.left_out();
        let mut warnings = options.warnings().to_vec();
        let needed = NeededLogs {
            directory: &options.wal_directory(&unrecovered.home.path),
            option: Path::new(&options.database().wal_dir),
            oldest: manifest.oldest_needed_log,
            recorded: manifest.existing_logs.as_deref(),
            may_be_missing: options.database().wal_recovery_mode
                == RecoveryMode::SkipAnyCorruptedRecords,
        };
        directories.check_logs(storage, &needed, &mut left_out, &mut warnings)?;
        Ok(FilesFound { unrecovered, manifest, families, directories, left_out, warnings })
    }
}

/// Returns the numbers of the logs that are needed, in ascending order: those in the log directory
/// whose number is at least that of the oldest needed log. If `directories` has a listing of the
/// log directory, that is used: listing a directory with very many tables takes long.
///
/// # Errors
/// Corruption, with `track_and_verify_wals`: no log exists, although the database had one.
pub(super) fn needed_logs(
    unrecovered: &Unrecovered,
    directories: &Directories,
    manifest: &DatabaseState,
) -> Result<Vec<u64>> {
    let Unrecovered { storage, options, home, .. } = unrecovered;
    let directory = options.wal_directory(&home.path);
    let mut numbers = match directories.files_in(&**storage, &directory)? {
        Some(files) => files.logs().collect(),
        None => replay::list_logs(&**storage, &directory)?,
    };
    // If both numbers are 0, the database is new and never had a log.
    let had_logs = manifest.oldest_needed_log > 0 || manifest.last_sequence > 0;
    if options.database().track_and_verify_wals && numbers.is_empty() && had_logs {
        return Err(Error::corruption(&directory, "the database has no write-ahead log"));
    }
    numbers.retain(|number| *number >= manifest.oldest_needed_log);
    Ok(numbers)
}

fn found_family(options: &OpenOptions, state: FamilyState) -> Result<FoundFamily> {
    let FamilyState { id, name, comparator, log_number, files, cursors, recorded_options } = state;
    let comparator = options.comparator(&name, &comparator)?;
    let set = options.column_family(&name).clone();
    let version = files
        .finish(&comparator, set.num_levels as usize)
        .map_err(|what| Error::new(ErrorKind::Corruption, format!("the MANIFEST {what}")))?;
    check_levels(&name, &version, set.num_levels)?;
    let version = Arc::new(version);
    let options = set;
    Ok(FoundFamily {
        id,
        name,
        options,
        comparator,
        version,
        log_number,
        cursors,
        recorded_options,
    })
}

/// Refuses a column family with tables on level `num_levels` or deeper, as RocksDB does. Otherwise
/// compactions could place newer data below older data.
fn check_levels(name: &str, version: &Version, num_levels: i32) -> Result<()> {
    match version.files().map(|(level, _)| level).max() {
        Some(deepest) if deepest >= num_levels as usize => {
            let message = format!(
                "column family '{name}' has tables in level {deepest}, and num_levels is \
                 {num_levels}"
            );
            Err(Error::invalid_argument(message))
        }
        _ => Ok(()),
    }
}
