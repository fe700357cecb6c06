//! The third step of recovery: replays the logs into memtables.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tailwater_format::file_name::FileKind;
use tailwater_io::{Purpose, Storage};

use super::{FilesFound, FoundFamily, LogsReplayed};
use crate::column_family::{ColumnFamily, ReaderFactory};
use crate::error::{Error, ErrorKind, Result};
use crate::open_options::OpenOptions;
use crate::wal::replay::{self, ReplayFamily, ReplayRules};

impl FilesFound {
    /// Replays the logs into memtables.
    pub(crate) fn replay_logs(self) -> Result<LogsReplayed> {
        let Self { unrecovered, manifest, families: found, mut left_out, .. } = self;
        let (home, storage) = (unrecovered.home.path, unrecovered.storage);
        let options = unrecovered.options;
        let factory = ReaderFactory::new(&home, &options, unrecovered.io_modes);
        let mut families = Vec::new();
        let mut log_numbers = Vec::new();
        let mut cursors = Vec::new();
        let mut recorded_options = Vec::new();
        let mut targets = BTreeMap::new();
        for mut found in found {
            let (id, log_number) = (found.id, found.log_number);
            cursors.push(found.cursors.clone());
            recorded_options.push(found.recorded_options.take());
            let family = column_family(&options, &factory, found);
            targets.insert(
                id,
                ReplayFamily {
                    name: family.name().to_owned(),
                    log_number,
                    has_tables: family.super_version().version().files().next().is_some(),
                    memtable: family.active(),
                },
            );
            families.push(family);
            log_numbers.push(log_number);
        }
        let logs = options.wal_directory(&home);
        let rules = ReplayRules {
            mode: options.database().wal_recovery_mode,
            min_log_number: manifest.min_log_number_to_keep,
            verifies_predecessors: options.database().track_and_verify_wals,
            recycles: options.database().recycle_log_file_num > 0,
        };
        // The logs are compared with the MANIFEST's list of synced logs even if option
        // `track_and_verify_wals_in_manifest` is off now. Entries of the list are never outdated.
        // The reason: an engine that opens the database for writing with this option off starts a
        // new MANIFEST with an empty list.
        let tracked = manifest.synced_logs.range(rules.min_log_number..);
        check_tracked(&*storage, &logs, tracked)?;
        let last_sequence = manifest.last_sequence;
        // If the second step of recovery listed the log directory, that listing is used: listing a
        // directory with very many tables takes long.
        let numbers: Vec<u64> = match self.directories.files_in(&*storage, &logs)? {
            Some(files) => files.logs().collect(),
            None => replay::list_logs(&*storage, &logs)?,
        };
        let replayed = replay::replay(&*storage, &logs, &numbers, rules, last_sequence, &targets)?;
        if options.database().max_open_files == -1 {
            open_tables(&families)?;
        }
        left_out.extend(replayed.left_out);
        Ok(LogsReplayed {
            home,
            storage,
            options,
            factory,
            families,
            log_numbers,
            cursors,
            recorded_options,
            manifest,
            logs: replayed.logs,
            blob_files: replayed.blob_files,
            last_sequence: replayed.last_sequence,
            left_out,
            warnings: self.warnings,
            directories: self.directories,
            oldest_needed_log: self.oldest_needed_log,
        })
    }
}

/// Checks that every log that the MANIFEST records as synced exists, and that it is at least as
/// long as the recorded length.
fn check_tracked<'a>(
    storage: &dyn Storage,
    directory: &Path,
    tracked: impl Iterator<Item = (&'a u64, &'a u64)>,
) -> Result<()> {
    for (&number, &size) in tracked {
        let path = directory.join(FileKind::Wal(number).to_string());
        let length = match storage.metadata(&path) {
            Ok(metadata) => metadata.length,
            Err(error) if error.is_not_found() => {
                return Err(Error::corruption(&path, "the log was synced, but is missing"));
            }
            Err(error) => return Err(error.into()),
        };
        if length < size {
            let message = format!("{size} bytes were synced, but it has {length}");
            return Err(Error::corruption(&path, message));
        }
    }
    Ok(())
}

fn column_family(
    options: &OpenOptions,
    factory: &ReaderFactory,
    found: FoundFamily,
) -> ColumnFamily {
    let FoundFamily { id, name, options: set, comparator, version, .. } = found;
    let readers = Arc::new(factory.readers(options, &name, &comparator));
    ColumnFamily::new(factory.opening(), id, name, set, readers, version)
}

/// Opens the tables of column families, up to the number of tables that may stay open. So a table
/// with an unsupported feature is refused when the database is opened, and not when the table is
/// first read. Other errors are ignored here: a damaged table does not prevent the opening of the
/// database. Later, reads of this table fail, and all other tables can be read.
fn open_tables(families: &[ColumnFamily]) -> Result<()> {
    let mut opened = 0;
    for family in families {
        let source = family.super_version();
        for (_, file) in source.version().files() {
            if opened >= source.tables().open_max() {
                return Ok(());
            }
            match source.tables().open(file, Purpose::UserRead) {
                Err(error) if error.kind() == ErrorKind::NotSupported => return Err(error),
                _ => opened += 1,
            }
        }
    }
    Ok(())
}
