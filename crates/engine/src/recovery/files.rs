//! The second step of recovery: locates every file that the MANIFEST lists.

use std::path::Path;
use std::sync::Arc;

use tailwater_format::record_log::RecoveryMode;

use super::{FilesFound, FoundFamily, ManifestRead};
use crate::directory::{Directories, NeededLogs, durable_id};
use crate::error::{Error, ErrorKind, Result};
use crate::open_options::OpenOptions;
use crate::version::Version;
use crate::version::manifest::{FamilyState, Manifest};

impl ManifestRead {
    /// Finds the database's directories and files, and checks them against the MANIFEST.
    ///
    /// # Errors
    /// - Corruption: a file is missing or has another length than recorded.
    /// - Invalid argument: a directory belongs to another database, a column family was written
    ///   with another comparator, or tables are on levels that `num_levels` excludes.
    pub(crate) fn find_files(self) -> Result<FilesFound> {
        let Self { mut unrecovered, mut manifest } = self;
        let home_files = unrecovered.home_files.take();
        let (storage, options) = (&*unrecovered.storage, &unrecovered.options);
        let home = unrecovered.home.clone();
        let id = durable_id(storage, &home.path, manifest.database_id.as_deref())?;
        let id = id.unwrap_or_default();
        let directories = match home_files {
            Some(files) => Directories::find_with_home_files(storage, home, files, options, &id)?,
            None => Directories::find(storage, home, options, &id)?,
        };
        directories.check(storage)?;
        let mut families = Vec::new();
        for (_, state) in std::mem::take(&mut manifest.column_families) {
            let family =
                found_family(options, state).map_err(|error| error.in_file(&manifest.path))?;
            let paths = options.table_directories(&unrecovered.home.path, &family.name);
            directories.check_version(storage, &family.version, &paths)?;
            families.push(family);
        }
        let mut left_out = manifest.left_out();
        let mut warnings = options.warnings().to_vec();
        let oldest = oldest_needed_log(&manifest, &families);
        let needed = NeededLogs {
            directory: &options.wal_directory(&unrecovered.home.path),
            option: Path::new(&options.database().wal_dir),
            oldest,
            recorded: manifest.existing_logs.as_deref(),
            may_be_missing: options.database().wal_recovery_mode
                == RecoveryMode::SkipAnyCorruptedRecords,
        };
        directories.check_logs(storage, &needed, &mut left_out, &mut warnings)?;
        Ok(FilesFound {
            unrecovered,
            manifest,
            families,
            directories,
            oldest_needed_log: oldest,
            left_out,
            warnings,
        })
    }
}

/// Returns the number of the oldest log that is needed. The contents of all older logs are in
/// tables.
fn oldest_needed_log(manifest: &Manifest, families: &[FoundFamily]) -> u64 {
    let unflushed = families.iter().map(|family| family.log_number).min().unwrap_or(0);
    unflushed.max(manifest.min_log_number_to_keep)
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
