//! The third step of recovery: replays the logs into memtables.

use std::sync::Arc;

use tailwater_io::Purpose;

use super::files::needed_logs;
use super::second_replay::{ReplayLimit, SecondReplay, empty_memtables};
use super::{FilesFound, FoundFamily, LogsReplayed, ReplayedFamily, Unrecovered};
use crate::column_family::{ColumnFamily, FamilyReaders, ReaderFactory};
use crate::error::{ErrorKind, Result};
use crate::opening::OpeningId;
use crate::table::TableCache;
use crate::version::Version;
use crate::version::synced_logs;
use crate::wal::replay::{self, Log, ReplayFamilies, ReplayFamily, ReplayRules};

impl FilesFound {
    /// Replays the logs into memtables.
    pub(crate) fn replay_logs(self) -> Result<LogsReplayed> {
        let Unrecovered { home, storage, options, io_modes, .. } = &self.unrecovered;
        let factory = Arc::new(ReaderFactory::new(&home.path, options, Arc::clone(io_modes)));
        let storage = Arc::clone(storage);
        let directory = options.wal_directory(&home.path);
        let numbers = needed_logs(&self.unrecovered, &self.directories, &self.manifest)?;
        self.check_synced(|number| synced_logs::length_of(&*storage, &directory, number))?;
        let logs = numbers.into_iter().map(|number| Log::open(&*storage, &directory, number));
        let all_readers = |family: &FoundFamily| {
            Arc::new(factory.readers(options, &family.name, &family.comparator))
        };
        let readers: Vec<_> = self.families.iter().map(all_readers).collect();
        let opens_tables = options.database().max_open_files == -1;
        let is_limited = options.database().enforce_write_buffer_manager_during_recovery;
        let manager = factory.write_buffer_manager.clone().filter(|_| is_limited);
        let replayed = self.replay(factory, readers, logs, manager.map(ReplayLimit::new))?;
        if opens_tables {
            let mut opened = 0;
            for family in replayed.families() {
                let source = family.super_version();
                open_tables(source.tables(), source.version(), &mut opened)?;
            }
        }
        Ok(replayed)
    }

    /// Replays the given logs, oldest first, into memtables. `readers` has the readers of each
    /// column family, in the order of their ids. If the memtables exceed `limit`, they are emptied,
    /// and the result has a second replay.
    pub(super) fn replay(
        self,
        factory: Arc<ReaderFactory>,
        readers: Vec<Arc<FamilyReaders>>,
        logs: impl Iterator<Item = Result<Log>>,
        mut limit: Option<ReplayLimit>,
    ) -> Result<LogsReplayed> {
        let Self { unrecovered, manifest, families: found, mut left_out, .. } = self;
        let Unrecovered { home, storage, options, io_modes, .. } = unrecovered;
        let opening = OpeningId::new();
        let mut families = Vec::new();
        let mut targets = ReplayFamilies::new();
        for (found, readers) in found.into_iter().zip(readers) {
            let FoundFamily { id, name, options: set, version, log_number, .. } = found;
            let FoundFamily { cursors, recorded_options, .. } = found;
            let manager = factory.write_buffer_manager.clone();
            let family = ColumnFamily::new(opening, id, name, set, readers, version, manager);
            targets.insert(
                id,
                ReplayFamily {
                    name: family.name().to_owned(),
                    log_number,
                    has_tables: family.super_version().version().files().next().is_some(),
                    memtable: Some(family.active()),
                },
            );
            families.push(ReplayedFamily { family, log_number, cursors, recorded_options });
        }
        let rules = ReplayRules {
            mode: options.database().wal_recovery_mode,
            min_log_number: manifest.oldest_needed_log,
            verifies_predecessors: options.database().track_and_verify_wals,
            recycles: options.database().recycle_log_file_num > 0,
        };
        let mut exceeded = None;
        let last_sequence = manifest.last_sequence;
        let replayed = replay::replay(
            logs,
            rules,
            last_sequence,
            &mut targets,
            &mut |targets: &mut ReplayFamilies, bytes| {
                if let Some(limit) = limit.take_if(|limit| limit.is_exceeded_by(bytes)) {
                    targets.values_mut().for_each(|family| family.memtable = None);
                    let emptied = families.iter().map(|replayed| &replayed.family);
                    empty_memtables(emptied, &factory.garbage, 0, 0);
                    exceeded = Some(limit);
                }
                Ok(())
            },
        )?;
        let second_replay = exceeded.map(|limit| SecondReplay {
            limit,
            rules,
            last_sequence,
            families: targets,
            log_directory: options.wal_directory(&home.path),
            logs: replayed.logs.clone(),
        });
        left_out.extend(replayed.left_out);
        Ok(LogsReplayed {
            home: home.path,
            storage,
            options,
            opening,
            factory,
            io_modes,
            families,
            manifest,
            logs: replayed.logs,
            second_replay,
            blob_files: replayed.blob_files,
            last_sequence: replayed.last_sequence,
            left_out,
            warnings: self.warnings,
            directories: self.directories,
        })
    }

    /// Checks the lengths of the logs that the MANIFEST records as synced. `length_of` returns the
    /// length of a log in bytes; `None` if the log does not exist.
    pub(super) fn check_synced(
        &self,
        length_of: impl Fn(u64) -> Result<Option<u64>>,
    ) -> Result<()> {
        let directory = self.unrecovered.options.wal_directory(&self.unrecovered.home.path);
        let loss = synced_logs::losses(&self.manifest, &directory, length_of).next();
        loss.map_or(Ok(()), Err)
    }
}

/// Opens the tables of a version, up to the number of tables that may stay open. So a table with an
/// unsupported feature is refused when the database is opened, and not when the table is first
/// read. Returns whether a table does not exist. Other errors are ignored here: a damaged table
/// does not prevent the opening of the database. Later, reads of this table fail, and all other
/// tables can be read. `opened` is the number of open tables of all column families.
pub(super) fn open_tables(
    tables: &TableCache,
    version: &Version,
    opened: &mut usize,
) -> Result<bool> {
    let mut is_any_missing = false;
    for (_, file) in version.files() {
        if *opened >= tables.open_max() {
            break;
        }
        match tables.open(file, Purpose::UserRead) {
            Err(error) if error.kind() == ErrorKind::NotSupported => return Err(error),
            Err(error) if error.is_not_found() => is_any_missing = true,
            _ => *opened += 1,
        }
    }
    Ok(is_any_missing)
}
