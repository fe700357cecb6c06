//! The second step: the logs, in memory.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tailwater_format::file_name::FileKind;
use tailwater_io::{Purpose, Storage};

use super::{LogsReplayed, ManifestRead, OpenOptions};
use crate::db::{ColumnFamily, ReaderFactory};
use crate::memtable::MemTable;
use crate::version::Version;
use crate::version::manifest::FamilyState;
use crate::wal::replay::{self, ReplayFamily, ReplayRules};
use crate::{Error, ErrorKind, Result};

impl ManifestRead {
    /// Replays the logs into memtables.
    pub(crate) fn replay_logs(self) -> Result<LogsReplayed> {
        let Self { unrecovered, mut manifest } = self;
        let (directory, storage) = (unrecovered.directory, unrecovered.storage);
        let options = unrecovered.options;
        let factory = ReaderFactory::new(&directory, &options, unrecovered.io_modes);
        let mut left_out = manifest.left_out();
        let mut families = Vec::new();
        let mut log_numbers = Vec::new();
        let mut cursors = Vec::new();
        let mut targets = BTreeMap::new();
        for (id, mut state) in std::mem::take(&mut manifest.column_families) {
            let log_number = state.log_number;
            cursors.push(std::mem::take(&mut state.cursors));
            let family =
                family(&options, &factory, state).map_err(|error| error.in_file(&manifest.path))?;
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
        let logs = options.wal_directory(&directory);
        let rules = ReplayRules {
            mode: options.database().wal_recovery_mode,
            min_log_number: manifest.min_log_number_to_keep,
            verifies_predecessors: options.database().track_and_verify_wals,
        };
        if options.database().track_and_verify_wals_in_manifest {
            let tracked = manifest.synced_logs.range(rules.min_log_number..);
            check_tracked(&*storage, &logs, tracked)?;
        }
        let last_sequence = manifest.last_sequence;
        let replayed = replay::replay(&*storage, &logs, rules, last_sequence, &targets)?;
        if options.database().max_open_files == -1 {
            for family in &families {
                open_tables(family)?;
            }
        }
        left_out.extend(replayed.left_out);
        Ok(LogsReplayed {
            directory,
            storage,
            options,
            factory,
            families,
            log_numbers,
            cursors,
            manifest,
            logs: replayed.logs,
            last_sequence: replayed.last_sequence,
            left_out,
        })
    }
}

/// Checks that the logs which the MANIFEST says were synced are there, as long as they were then at
/// least.
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
                return Err(Error::corruption(&path, "the log was synced, and is missing"));
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

fn family(
    options: &OpenOptions,
    factory: &ReaderFactory,
    state: FamilyState,
) -> Result<ColumnFamily> {
    let FamilyState { id, name, comparator, files, .. } = state;
    let comparator = options.comparator(&name, &comparator)?;
    let set = options.column_family(&name).clone();
    let version = files
        .finish(&comparator, set.num_levels as usize)
        .map_err(|what| Error::new(ErrorKind::Corruption, format!("the MANIFEST {what}")))?;
    check_levels(&name, &version, set.num_levels)?;
    let readers = Arc::new(factory.readers(options, &name, &comparator));
    let memtable = Arc::new(MemTable::new(comparator));
    let (opening, version) = (factory.opening(), Arc::new(version));
    Ok(ColumnFamily::new(opening, id, name, set, readers, memtable, version))
}

/// Refuses tables in levels that the options do not count, as RocksDB does: what is written could
/// come to lie below what is older.
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

/// Opens all tables of a column family, so that one that uses what is not built is refused now and
/// not when it is read. Damage is left for the reads that meet it: the other tables can be read.
fn open_tables(family: &ColumnFamily) -> Result<()> {
    let source = family.super_version();
    for (_, file) in source.version().files() {
        match source.tables().open(file, Purpose::UserRead) {
            Err(error) if error.kind() == ErrorKind::NotSupported => return Err(error),
            _ => {}
        }
    }
    Ok(())
}
