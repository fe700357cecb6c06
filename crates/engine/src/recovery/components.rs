//! The part of recovery after the logs were replayed. It claims the database's directories, and
//! begins a new MANIFEST and a new log. Then it creates the database's components.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tailwater_format::table::unique_id::encode_session_id;
use tailwater_io::Storage;
use tailwater_io::sync::Mutex;

use super::wal_files::{are_on_device, set_aside, sync_logs};

use super::recovered::{Recovered, needed_files};
use super::{LogsReplayed, ReplayedFamily};
use crate::background::{Background, ErrorState};
use crate::compaction::CompactionScheduler;
use crate::context::Context;
use crate::directory::{
    DatabaseIdentity, Directories, GuardedStorage, Locks, Needed, host_id, new_identity,
    read_identity, write_identity,
};
use crate::env::{Needs, Threads};
use crate::error::{Error, Result};
use crate::file_numbers::{FILE_NUMBER_MAX, FileNumbers};
use crate::flush::FlushScheduler;
use crate::open_options::{CurrentOptions, OpenOptions, OptionsFiles};
use crate::options::ColumnFamilyOptions;
use crate::sequence_times::{WriteTimes, first_sequence};
use crate::sst_file_manager::TrackedFiles;
use crate::stall::StallController;
use crate::stats::InfoLog;
use crate::version::manifest::DatabaseState;
use crate::version::{
    CompactionState, FamilyVersion, ManifestLimits, VersionSetBeginning, Versions,
};
use crate::wal::{LiveLog, LogSet};
use crate::write::{WritePath, wal_options};

/// The state of recovery from which the components are created.
struct Begun {
    identity: DatabaseIdentity,
    numbers: FileNumbers,
    info_log: Arc<InfoLog>,
    files: Arc<TrackedFiles>,
    versions: Arc<Versions>,
    logs: LogSet,
    locks: Locks,
    guard: Arc<GuardedStorage>,
    is_new: bool,
    /// Whether the old logs were kept. If so, their contents are not flushed to tables.
    keeps_logs: bool,
}

impl LogsReplayed {
    /// Checks that the MANIFEST lists every blob file to which the logs refer. Otherwise recovery
    /// would remove the blob file as a leftover file.
    fn check_blob_files(&self) -> Result<()> {
        for &(id, number) in &self.blob_files {
            let Some(family) = self.families().find(|family| family.id() == id) else {
                continue;
            };
            if !family.super_version().version().blob_files().contains_key(&number) {
                let message = format!(
                    "the logs refer to blob file {number} of column family '{}', which is not in \
                     the MANIFEST: blob files that enable_blob_direct_write wrote, and that no \
                     flush has added to the database, are not recovered",
                    family.name()
                );
                return Err(Error::not_supported(message));
            }
        }
        Ok(())
    }

    /// Performs steps 4 to 6 of opening a database for writing. The steps are listed in `open.rs`.
    pub(super) fn recover(
        self,
        guard: Arc<GuardedStorage>,
        mut locks: Locks,
        info_log: Arc<InfoLog>,
        is_new: bool,
    ) -> Result<Recovered> {
        // If this function fails, locals are dropped before the parameter `locks`. So files are
        // closed before the LOCKs are released.
        let mut replayed = self;
        replayed.check_blob_files()?;
        let numbers = file_numbers(&replayed.manifest, &replayed.directories)?;
        let in_manifest = replayed.manifest.database_id.clone();
        let identity =
            identity(&*replayed.storage, &replayed.home, &replayed.options, in_manifest)?;
        // `owns_old_logs` must be determined before the log directory is claimed below. If the
        // directory is not claimed yet, the log files in it may belong to another database. In this
        // case they are kept until the database is opened the next time.
        let log_directory = replayed.options.wal_directory(&replayed.home);
        let owns_old_logs = replayed.directories.is_own(&*replayed.storage, &log_directory)?;
        replayed.claim_directories(&mut locks, &identity, &info_log)?;
        let files = Arc::new(replayed.tracked_files(&info_log));
        let versions = Arc::new(replayed.begin_versions(&numbers, &identity, &info_log, &files));
        versions.start_over()?;
        let keeps_logs = replayed.settle_old_logs(&info_log, is_new)?;
        let number = numbers.take();
        let logs = replayed.begin_logs(&numbers, number, owns_old_logs)?;
        let oldest = replayed.logs.first().map_or(number, |log| log.as_predecessor.log_number);
        let begun = Begun {
            locks,
            guard,
            identity,
            numbers,
            info_log,
            files,
            versions,
            logs,
            is_new,
            keeps_logs,
        };
        let second_replay = replayed.second_replay.take();
        let (mut recovered, directories) = replayed.into_recovered(begun)?;
        recovered.flushes.record_logs()?;
        if keeps_logs {
            recovered.keep_logs(oldest)?
        } else {
            recovered.flush_logs(number, second_replay)?
        }
        recovered.clear(&directories)?;
        Ok(recovered)
    }

    /// Locks and claims the database's directories outside its home directory.
    fn claim_directories(
        &self,
        locks: &mut Locks,
        identity: &DatabaseIdentity,
        info_log: &Arc<InfoLog>,
    ) -> Result<()> {
        let oldest_log = self.manifest.oldest_needed_log;
        let needed = Needed { oldest_log, ..needed_files(self.families()) };
        self.factory.open_files.report_to(info_log, needed.tables.len());
        self.directories.lock_outside(&*self.storage, locks)?;
        let id = identity.durable_id(self.options.database());
        self.directories.claim(&*self.storage, id, &needed)?;
        Ok(())
    }

    /// Returns the version set that the MANIFEST describes.
    fn begin_versions(
        &self,
        numbers: &FileNumbers,
        identity: &DatabaseIdentity,
        info_log: &Arc<InfoLog>,
        files: &Arc<TrackedFiles>,
    ) -> Versions {
        let (manifest, database) = (&self.manifest, self.options.database());
        let beginning = VersionSetBeginning {
            numbers: numbers.clone(),
            database_id: database.write_dbid_to_manifest.then(|| identity.database_id.clone()),
            max_column_family: manifest.max_column_family,
            last_sequence: self.last_sequence.max(manifest.last_sequence),
            min_log_number: manifest.min_log_number_to_keep,
            families: self.family_versions(),
            limits: ManifestLimits::of(database),
        };
        Versions::new(Arc::clone(files), self.home.clone(), beginning, Arc::clone(info_log))
    }

    /// Returns the database's files, which the manager in the options tracks from now on.
    fn tracked_files(&self, info_log: &Arc<InfoLog>) -> TrackedFiles {
        let options = &self.options;
        let files = options
            .tracked_files(&self.storage, &self.home)
            .reported_to(options.statistics().cloned(), info_log);
        for family in self.families().filter(|_| files.is_managed()) {
            let (source, readers) = (family.super_version(), family.readers());
            for (_, table) in source.version().files() {
                files.added(&readers.tables.path(table), table.size());
            }
            for (number, blob_file) in source.version().blob_files() {
                files.added(&readers.blobs.path(*number), blob_file.file_bytes());
            }
        }
        files
    }

    fn family_versions(&self) -> BTreeMap<u32, FamilyVersion> {
        let newest_options = self.directories.home_files().options().last().unwrap_or(0);
        let versions = self.families.iter().map(|replayed| {
            let ReplayedFamily { family, log_number, cursors, recorded_options } = replayed;
            let version = FamilyVersion {
                name: family.name().to_owned(),
                comparator: family.comparator().clone(),
                log_number: *log_number,
                level_count: family.options().num_levels as usize,
                version: Arc::clone(family.super_version().version()),
                compactions: CompactionState::new(cursors.clone()),
                next_epoch: FamilyVersion::epoch_after(family.super_version().version()),
                recorded_options: recorded_options
                    .clone()
                    .filter(|recorded| recorded.options_number > newest_options),
            };
            (family.id(), version)
        });
        versions.collect()
    }

    /// First links damaged logs into the folder `lost`. Then decides whether to keep the logs that
    /// were replayed, instead of flushing their contents. If the logs are to be kept, syncs them.
    /// Returns whether they are kept.
    fn settle_old_logs(&self, info_log: &InfoLog, is_new: bool) -> Result<bool> {
        let storage = &self.storage;
        let directory = &self.options.wal_directory(&self.home);
        let damaged = self.logs.iter().filter(|log| log.damaged);
        let damaged: Vec<u64> = damaged.map(|log| log.as_predecessor.log_number).collect();
        // Logs are kept only if all of them end cleanly. After a log without a clean end, a later
        // replay continues with the next log only if the next log's first sequence number directly
        // follows the last one replayed. This cannot be checked when no batch of an earlier log is
        // left.
        let are_whole = self.logs.iter().all(|log| log.whole);
        let avoids_flush = self.options.database().avoid_flush_during_recovery;
        let may_keep_logs = avoids_flush
            && are_whole
            && damaged.is_empty()
            && self.second_replay.is_none()
            && !is_new;
        set_aside(storage, &self.home, directory, &damaged, info_log)?;
        if !may_keep_logs {
            return Ok(false);
        }
        let older = self.old_logs();
        sync_logs(&**storage, directory, &older)?;
        let keeps_logs = are_on_device(&**storage, directory, &older)?;
        if !keeps_logs {
            info_log.warn(format_args!(
                "the logs are flushed in spite of avoid_flush_during_recovery: their contents \
                 cannot be read back from the device"
            ));
        }
        Ok(keeps_logs)
    }

    /// Begins a new log with number `number`. If `owns_old_logs` is false, older logs are never
    /// removed.
    fn begin_logs(
        &self,
        numbers: &FileNumbers,
        number: u64,
        owns_old_logs: bool,
    ) -> Result<LogSet> {
        let families = self.families();
        let mut options = wal_options(&self.home, &self.options, &self.io_modes, families);
        if !owns_old_logs {
            options.first_removable = number;
        }
        let predecessor = self.logs.last().map(|log| log.as_predecessor);
        let storage = Arc::clone(&self.storage);
        LogSet::begin(storage, options, numbers, number, self.old_logs(), predecessor)
    }

    /// Returns the logs that were replayed, oldest first.
    fn old_logs(&self) -> Vec<LiveLog> {
        let old_logs = self.logs.iter().map(|log| LiveLog {
            number: log.as_predecessor.log_number,
            bytes: log.as_predecessor.size,
            is_padded: false,
        });
        old_logs.collect()
    }

    /// Creates the components in the order of their dependencies.
    fn into_recovered(mut self, begun: Begun) -> Result<(Recovered, Directories)> {
        let last_sequence = if begun.is_new {
            self.last_sequence.max(first_sequence(families_to_be(&self.options)))
        } else {
            self.last_sequence
        };
        let shared = self.take_read_state(last_sequence);
        let Self { home: directory, storage, options, factory, directories, .. } = self;
        // `locks` is destructured first, so that it is dropped last if this function fails.
        let Begun { locks, guard, identity, numbers, info_log, files, versions, .. } = begun;
        let Begun { logs, is_new, keeps_logs, .. } = begun;
        let threads = threads(&options)?;
        let workers = threads.as_deref().map(Threads::workers);
        let options_files = OptionsFiles::new(
            Arc::clone(&storage),
            directory.clone(),
            numbers.clone(),
            Arc::clone(versions.obsolete()),
            directories.home_files().options().collect(),
        );
        let clock = Arc::clone(options.clock());
        let stall = StallController::new(Arc::clone(&factory.pressure));
        let retry_interval_us = (!options.inline_background())
            .then(|| options.database().bgerror_resume_retry_interval);
        let context = Arc::new(Context {
            shared: Arc::new(shared),
            storage,
            guard,
            lock_check_due_ns: AtomicU64::new(0),
            files,
            directory,
            clock,
            info_log,
            identity,
            numbers,
            options: CurrentOptions::new(options, &factory.garbage.bin()),
            open_files: Arc::clone(&factory.open_files),
            generations: Arc::clone(&factory.generations),
            readers: factory,
            errors: ErrorState::default(),
            background: Background::new(Arc::clone(stall.pressure()), retry_interval_us),
            stall,
        });
        let (logs, write_times) = (Arc::new(Mutex::new(logs)), Arc::<WriteTimes>::default());
        let compactions = Arc::new(CompactionScheduler::new(
            Arc::clone(&context),
            Arc::clone(&versions),
            workers.map(|it| Arc::downgrade(&it.compaction_writers)).unwrap_or_default(),
            workers.map(|it| Arc::downgrade(&it.input_readers)).unwrap_or_default(),
        ));
        let flushes = Arc::new(FlushScheduler::new(
            Arc::clone(&context),
            Arc::clone(&versions),
            Arc::clone(&logs),
            Arc::clone(&write_times),
            Arc::clone(&compactions),
            workers.map(|it| Arc::downgrade(&it.flush_writers)).unwrap_or_default(),
        ));
        let writes = Arc::new(WritePath::new(
            Arc::clone(&context),
            Arc::clone(&flushes),
            logs,
            write_times,
            keeps_logs,
        ));
        let recovered = Recovered {
            context,
            versions,
            compactions,
            flushes,
            writes,
            options_files,
            threads: threads.clone(),
            locks,
            left_out: self.left_out,
            warnings: self.warnings,
            is_new,
        };
        Ok((recovered, directories))
    }
}

/// Returns the threads that do the background work; `None` if callers do it.
fn threads(options: &OpenOptions) -> Result<Option<Arc<Threads>>> {
    if options.inline_background() {
        return Ok(None);
    }
    let needs = Needs::of(options.database());
    options.env().enter(needs).map(Some).map_err(Error::no_thread)
}

/// Returns the options of the column families that opening a new database creates.
fn families_to_be(options: &OpenOptions) -> impl Iterator<Item = &ColumnFamilyOptions> {
    options.column_families().chain(["default"]).map(|name| options.column_family(name))
}

/// Returns the allocator of file numbers. It begins above the numbers of all existing files.
fn file_numbers(manifest: &DatabaseState, directories: &Directories) -> Result<FileNumbers> {
    let highest = directories.all().map(|(_, files)| files.highest_number()).max().unwrap_or(0);
    let next = manifest.next_file_number.max(highest.saturating_add(1));
    if next > FILE_NUMBER_MAX {
        let message = format!("the next file number is {next}, which is implausibly high");
        return Err(Error::corruption(&manifest.path, message));
    }
    Ok(FileNumbers::starting_at(next))
}

/// Returns the identity of the database, with a new session ID for this open call. Writes the
/// IDENTITY file if options require it and the file is missing or has another database ID.
fn identity(
    storage: &dyn Storage,
    directory: &Path,
    options: &OpenOptions,
    in_manifest: Option<String>,
) -> Result<DatabaseIdentity> {
    let in_file = read_identity(storage, directory)?;
    let database_id = in_manifest.or_else(|| in_file.clone()).unwrap_or_else(new_identity);
    if options.database().write_identity_file && in_file.as_ref() != Some(&database_id) {
        write_identity(storage, directory, &database_id)?;
    }
    let host_id = host_id(options.database());
    let session_id = encode_session_id(fastrand::u64(..), fastrand::u64(..));
    Ok(DatabaseIdentity { database_id, session_id, host_id })
}
