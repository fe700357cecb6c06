//! The last step: opens a database for writing.
//!
//! # Order
//!
//! 1. The LOCK is taken before anything is read, including the OPTIONS file if its options are
//!    requested, so that nobody else writes meanwhile.
//! 2. A database is created in a directory without one, if requested, and if it has no database
//!    that lost its CURRENT.
//! 3. The MANIFEST is read, every file that it names is located, and the logs are replayed into
//!    memtables. Until every file was found, only the LOCK and the LOG are written.
//! 4. Outside directories are claimed. A new MANIFEST is written from what was read; the logs'
//!    contents are still only in the logs. Damaged logs are kept in the folder `lost`, because
//!    their unreadable parts are in no table.
//! 5. A new log is begun, and the memtables are flushed. One group of edits adds the tables of all
//!    column families and states that no older log is needed: a crash keeps all of it or nothing.
//!    With `avoid_flush_during_recovery` the old logs are synced instead and kept, if all of them
//!    are intact.
//! 6. Files that nothing refers to are removed.
//! 7. Requested column families that are missing are created, and the OPTIONS are written.
//!
//! A crash before the end of step 5 is safe: all old logs exist, and replay starts again.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use tailwater_format::file_name::FileKind;
use tailwater_format::table::unique_id::encode_session_id;
use tailwater_format::version_edit::{NewFile, VersionEdit};
use tailwater_io::stream::Workers;
use tailwater_io::{FileLock, Purpose, Storage};

use super::log_files::{are_on_device, log_options, set_aside, sync_logs};
use super::new_database::{create_database, new_identity, read_identity, write_identity};
use super::{FilesFound, LogsReplayed, ManifestRead, OpenOptions, Unrecovered, warnings};
use tailwater_io::sync::Mutex;

use crate::background::Background;
use crate::compaction::{CompactCursors, CompactionState};
use crate::db::errors::ErrorState;
use crate::db::{
    Closing, ColumnFamily, DatabaseIdentity, DatabaseOptions, FamilySet, SealedMemTable, Shared,
    WriteTimes, Writer, Writing, first_sequence,
};
use crate::directory::{
    Directories, FILE_NUMBER_MAX, Files, GuardedStorage, Home, Locks, Needed, create_directory,
};
use crate::epoch::EpochCell;
use crate::inspect::table::TableFile;
use crate::io_modes::OF_TABLES;
use crate::options::{ColumnFamilyOptions, DbOptions, check_column_family, check_database};
use crate::stats::{Activity, InfoLog, Work};
use crate::table::table_buffers;
use crate::version::manifest::{self, Manifest};
use crate::version::{FamilyVersion, FileNumbers, ManifestLimits, VersionSetBeginning, Versions};
use crate::wal::replay::LeftOut;
use crate::wal::{LiveLog, LogSet};
use crate::write::StallController;
use crate::write::queue::Queue;
use crate::{Error, ErrorKind, Result};

/// A database opened for writing.
pub(crate) struct Opened {
    pub(crate) writing: Writing,
    pub(crate) left_out: Vec<LeftOut>,
    pub(crate) warnings: Vec<String>,
    /// Whether the database was created.
    pub(crate) is_new: bool,
}

/// Opens the database in `directory` for writing.
///
/// # Errors
/// As [`crate::Db::open`].
pub(crate) fn open(directory: &Path, options: &OpenOptions) -> Result<Opened> {
    let mut options = checked(directory, options)?;
    let storage = Arc::clone(options.storage());
    if options.database().create_if_missing {
        create_directory(&*storage, directory)?;
    }
    let home = Home::at(&*storage, directory)
        .map_err(|error| if error.is_not_found() { not_created(directory) } else { error })?;
    options.resolve_paths(&home)?;
    let guard = Arc::new(GuardedStorage::new(storage, &home.path, home.identity));
    let storage: Arc<dyn Storage> = Arc::clone(&guard) as _;
    options.set_storage(Arc::clone(&storage));
    let (lock, is_new) = lock_and_create(&*storage, &home, &options)?;
    let locks = Locks::of_home(lock, Some(guard));
    if !is_new && options.loads_when_opened() {
        options = checked(directory, &options.loaded_when_opened(&home.path)?)?;
        options.resolve_paths(&home)?;
    }
    // Listed once: there may be very many tables.
    let home_files = Files::list_with_lengths(&*storage, &home.path)?;
    let (clock, elsewhere) = (options.clock(), options.info_log_directory());
    let database = options.database();
    let info_log = InfoLog::begin(&storage, clock, &home.path, &home_files, elsewhere, database)?;
    let info_log = Arc::new(info_log);
    let refused = |error: &Error| {
        info_log.error(format_args!("the database cannot be opened: {error}"));
    };
    let unrecovered = Unrecovered::for_writing(home, home_files, options);
    let mut found =
        unrecovered.read_manifest().and_then(ManifestRead::find_files).inspect_err(refused)?;
    found.prepare_directories(&info_log).inspect_err(refused)?;
    let replayed = found.replay_logs().inspect_err(refused)?;
    let (left_out, mut warnings) = (replayed.left_out.clone(), replayed.warnings.clone());
    for left_out in &left_out {
        info_log.warn(format_args!(
            "left out of {} from offset {}: {} bytes: {}",
            left_out.path.display(),
            left_out.offset,
            left_out.bytes,
            left_out.reason
        ));
    }
    warnings.iter().for_each(|warning| info_log.warn(format_args!("{warning}")));
    let writer = replayed.into_writer(locks, info_log, is_new)?;
    writer.create_missing_families()?;
    writer.update_log_bound();
    if is_new {
        writer.spread_write_times();
    }
    writer.update_write_times();
    writer.write_options_file(&writer.all_options())?;
    writer.write_own_options()?;
    writer.update_stall_of_all();
    let writing = Writing::start(Arc::new(writer))?;
    writing.writer.info_log.info(format_args!(
        "the database was opened at sequence number {}",
        writing.writer.published()
    ));
    warnings.extend(writing.writer.warn_of_options());
    writing.writer.compact_soon();
    Ok(Opened { writing, left_out, warnings, is_new })
}

/// Returns the sanitized options, if they do not contradict each other.
fn checked(directory: &Path, options: &OpenOptions) -> Result<OpenOptions> {
    let options = options.sanitized(directory, false);
    check_database(options.database())?;
    let named = options.column_families().map(str::to_owned).collect::<Vec<_>>();
    for name in named.iter().map(String::as_str).chain(["default"]) {
        check_column_family(options.column_family(name), options.database())
            .map_err(|error| Error::invalid_argument(format!("column family '{name}': {error}")))?;
    }
    Ok(options)
}

impl FilesFound {
    /// Creates missing directories, since the options may name new ones, and probes the I/O modes
    /// in each. Modes other than those requested become warnings; all modes are logged.
    fn prepare_directories(&mut self, info_log: &InfoLog) -> Result<()> {
        let Self { unrecovered, warnings, .. } = self;
        let Unrecovered { home, storage, options, io_modes, .. } = unrecovered;
        self.directories.create(&**storage)?;
        let home = &home.path;
        for tables in options.all_table_directories(home) {
            warnings.extend(io_modes.try_in(&**storage, &tables, &OF_TABLES)?);
        }
        let logs = options.wal_directory(home);
        warnings.extend(io_modes.try_in(&**storage, &logs, &[Purpose::Wal])?);
        for line in io_modes.text().lines() {
            info_log.info(format_args!("I/O mode of {line}"));
        }
        warnings.extend(warnings::of_direct_reads(options.database()));
        Ok(())
    }
}

/// Returns the options of the column families that an opening creates in a new database.
fn families_to_be(options: &OpenOptions) -> impl Iterator<Item = &ColumnFamilyOptions> {
    options.column_families().chain(["default"]).map(|name| options.column_family(name))
}

/// Takes the lock and, if there is no database and that is requested, creates one. Returns whether
/// it did.
fn lock_and_create(
    storage: &dyn Storage,
    home: &Home,
    options: &OpenOptions,
) -> Result<(Box<dyn FileLock>, bool)> {
    let database = options.database();
    if !has_current(storage, home)? && !database.create_if_missing {
        return Err(not_created(&home.path));
    }
    let lock = storage.lock(&home.path.join(FileKind::Lock.to_string())).map_err(|error| {
        Error::from(error).while_doing("the database is open for writing elsewhere, or cannot be")
    })?;
    // It may have been created before the lock was taken.
    let is_there = has_current(storage, home)?;
    if is_there && database.error_if_exists {
        let message = "there is a database here, and error_if_exists is true";
        return Err(Error::invalid_argument(message).in_file(&home.path));
    }
    if !is_there {
        let id = new_identity();
        let is_durable = database.write_identity_file || database.write_dbid_to_manifest;
        let durable_id = if is_durable { id.as_str() } else { "" };
        // An earlier database may have left claims.
        let directories = Directories::find(storage, home.clone(), options, durable_id)?;
        directories.check_for_new(storage)?;
        create_database(storage, &home.path, options, id)?;
    }
    Ok((lock, !is_there))
}

fn has_current(storage: &dyn Storage, home: &Home) -> Result<bool> {
    match manifest::current(storage, &home.path) {
        Ok(_) => Ok(true),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
}

fn not_created(directory: &Path) -> Error {
    let message = "there is no database here, and create_if_missing is false";
    Error::new(ErrorKind::NotFound, message).in_file(directory)
}

impl LogsReplayed {
    /// Checks that the blob files that logs refer to are in the MANIFEST: others would be removed
    /// as left over.
    fn check_blob_files(&self) -> Result<()> {
        for &(id, number) in &self.blob_files {
            let Some(family) = self.families.iter().find(|family| family.id() == id) else {
                continue;
            };
            if !family.super_version().version().blob_files().contains_key(&number) {
                let message = format!(
                    "the logs refer to blob file {number} of column family '{}', which the \
                     MANIFEST does not have: what enable_blob_direct_write put there, and no flush \
                     made the database's, is not recovered",
                    family.name()
                );
                return Err(Error::not_supported(message));
            }
        }
        Ok(())
    }

    /// Steps 4 to 6.
    fn into_writer(self, mut locks: Locks, info_log: Arc<InfoLog>, is_new: bool) -> Result<Writer> {
        self.check_blob_files()?;
        let Self { home: directory, storage, options, factory, families, manifest, .. } = self;
        let directories = self.directories;
        let numbers = file_numbers(&manifest, &directories)?;
        let identity = identity(&*storage, &directory, &options, manifest.database_id.clone())?;
        let database = options.database().clone();
        let log_directory = options.wal_directory(&directory);
        // Files in a directory that is claimed only now stay there until the next opening.
        let owns_old_logs = directories.is_own(&*storage, &log_directory)?;
        let needed = Needed { oldest_log: self.oldest_needed_log, ..needed_files(&families) };
        factory.report_open_files_to(&info_log, needed.tables.len());
        directories.lock_outside(&*storage, &mut locks)?;
        directories.claim(&*storage, identity.durable_id(&database), &needed)?;
        let beginning = VersionSetBeginning {
            numbers: numbers.clone(),
            database_id: database.write_dbid_to_manifest.then(|| identity.database_id.clone()),
            max_column_family: manifest.max_column_family,
            last_sequence: self.last_sequence.max(manifest.last_sequence),
            min_log_number: manifest.min_log_number_to_keep,
            families: family_versions(&families, &self.log_numbers, self.cursors),
            limits: manifest_limits(&database),
        };
        let versions = Versions::new(Arc::clone(&storage), directory.clone(), beginning);
        versions.start_over()?;
        let damaged: Vec<u64> = self
            .logs
            .iter()
            .filter(|log| log.damaged)
            .map(|log| log.as_predecessor.log_number)
            .collect();
        // After a log without a clean end, a later one counts only if it continues with the very
        // next number, which cannot be checked if nothing came before.
        let are_whole = self.logs.iter().all(|log| log.whole);
        let may_keep_logs =
            database.avoid_flush_during_recovery && are_whole && damaged.is_empty() && !is_new;
        let mut log_options =
            log_options(&directory, &options, factory.io_modes(), families.iter());
        let older: Vec<LiveLog> = self
            .logs
            .iter()
            .map(|log| LiveLog {
                number: log.as_predecessor.log_number,
                bytes: log.as_predecessor.size,
                is_padded: false,
            })
            .collect();
        set_aside(&storage, &directory, &log_options.directory, &damaged, &info_log)?;
        if may_keep_logs {
            sync_logs(&*storage, &log_options.directory, &older)?;
        }
        let keeps_logs = may_keep_logs && are_on_device(&*storage, &log_options.directory, &older)?;
        if may_keep_logs && !keeps_logs {
            info_log.warn(format_args!(
                "the contents of the logs are flushed despite avoid_flush_during_recovery: it cannot \
                 be read back from the device"
            ));
        }
        let last_sequence = match is_new {
            true => self.last_sequence.max(first_sequence(families_to_be(&options))),
            false => self.last_sequence,
        };
        let number = numbers.take();
        if !owns_old_logs {
            log_options.first_removable = number;
        }
        let predecessor = self.logs.last().map(|log| log.as_predecessor);
        let begun =
            LogSet::begin(Arc::clone(&storage), log_options, &numbers, number, older, predecessor);
        let logs = begun?;
        let inline = options.inline_background();
        let jobs = database.jobs_max();
        let workers = |name, count| match inline {
            true => Ok(None),
            false => Workers::new(name, count)
                .map(|workers| Some(Arc::new(workers)))
                .map_err(Error::no_thread),
        };
        // There is one flush at a time.
        let flush_writers = workers("tailwater-write", 1)?;
        let compaction_writers = workers("tailwater-compw", jobs)?;
        let input_readers = workers("tailwater-compr", jobs)?;
        let stall = StallController::new(Arc::clone(factory.pressure()));
        let writer = Writer {
            shared: Arc::new(Shared::new(
                factory.opening(),
                FamilySet::new(families),
                last_sequence,
                Activity::new(Arc::clone(options.clock())),
                options.statistics().cloned(),
                Arc::clone(factory.io_modes()),
            )),
            storage,
            directory,
            readers: factory,
            queue: Queue::default(),
            errors: ErrorState::default(),
            numbers,
            info_log,
            background: Background::new(Arc::clone(stall.pressure())),
            stall,
            identity,
            clock: Arc::clone(options.clock()),
            write_times: WriteTimes::default(),
            rate_limiter: EpochCell::new(options.rate_limiter()),
            buffers: Mutex::new(table_buffers(&database, 1)),
            flush_writers,
            compaction_writers,
            input_readers,
            has_full_memtable: AtomicBool::new(keeps_logs),
            has_full_logs: AtomicBool::new(false),
            log_bound: AtomicU64::new(0),
            numbered: AtomicU64::new(0),
            has_unlogged: AtomicBool::new(false),
            flushing_logs_through: AtomicU64::new(0),
            logs: Mutex::new(logs),
            versions,
            oldest_looked_at: AtomicU64::new(0),
            next_compacted: AtomicUsize::new(0),
            flushing: Mutex::new(()),
            sealing: Mutex::new(()),
            obsolete: Mutex::default(),
            unsynced_files: Mutex::default(),
            abandoned: Mutex::default(),
            options_files: Mutex::new(directories.home_files().options().collect()),
            locks: Mutex::new(Some(locks)),
            changing_options: Mutex::default(),
            database: DatabaseOptions::new(database),
            options: Mutex::new(options),
            closing: Closing,
        };
        writer.record_logs()?;
        if keeps_logs {
            let oldest = self.logs.first().map(|log| log.as_predecessor.log_number);
            writer.keep_recovered(oldest.unwrap_or(number))?;
        } else {
            writer.flush_recovered(number)?;
        }
        writer.clear(&directories)?;
        Ok(writer)
    }
}

impl Writer {
    /// Keeps what the logs held in memtables and logs.
    fn keep_recovered(&self, oldest_log: u64) -> Result<()> {
        // The edit records which logs exist.
        self.apply_recovered(vec![VersionEdit::default()])?;
        for family in self.shared.family_set().iter() {
            family.active().set_earliest_log_number(oldest_log);
        }
        Ok(())
    }

    /// Step 5.
    fn flush_recovered(&self, number: u64) -> Result<()> {
        let families = self.shared.family_set();
        let mut edits = Vec::new();
        let mut tables = 0;
        for family in families.iter() {
            let memtable = family.active();
            let sealed = [SealedMemTable { memtable, next_log_number: number }];
            let table = self.write_table(family, &sealed, Work::User)?.map(|table| table.file);
            tables += usize::from(table.is_some());
            edits.push(self.recovered_edit(family, table, number));
        }
        self.apply_recovered(edits)?;
        for family in families.iter() {
            let version = self
                .versions()
                .families()
                .get(&family.id())
                .map(|known| Arc::clone(&known.version));
            family.begin_anew(version, number);
        }
        if tables > 0 {
            self.info_log.info(format_args!("the logs were flushed to {tables} tables"));
        }
        self.release_logs();
        Ok(())
    }

    fn apply_recovered(&self, edits: Vec<VersionEdit>) -> Result<()> {
        let installation = self.versions.begin_installation();
        drop(installation.write(edits, &[], self.published(), |_| ())?.install());
        Ok(())
    }

    fn recovered_edit(
        &self,
        family: &ColumnFamily,
        table: Option<NewFile>,
        number: u64,
    ) -> VersionEdit {
        let epoch_number = self.versions().take_epochs(family.id(), 1).unwrap_or(1);
        VersionEdit {
            column_family: family.id(),
            log_number: Some(number),
            min_log_number_to_keep: Some(number),
            new_files: table.into_iter().map(|table| NewFile { epoch_number, ..table }).collect(),
            ..VersionEdit::default()
        }
    }

    /// Removes files that nothing refers to.
    fn clear(&self, directories: &Directories) -> Result<()> {
        let families = self.shared.family_set();
        let needed = Needed {
            oldest_log: self.logs().oldest_number(),
            manifest: self.versions.manifest_number(),
            ..needed_files(families.iter())
        };
        for path in directories.left_over(&needed) {
            if self.is_table_of_another(&path) {
                let path = path.display();
                self.info_log.warn(format_args!("{path} stays: another database has made it"));
                continue;
            }
            match self.storage.remove(&path) {
                Ok(()) => self.info_log.info(format_args!("removed {}: left over", path.display())),
                Err(error) => {
                    self.info_log.warn(format_args!("an unneeded file was not removed: {error}"));
                }
            }
        }
        directories.give_up_unused(&*self.storage, &needed)
    }

    /// Whether a file outside the home is a table made by another database: one of RocksDB's, which
    /// knows no claims and may be writing there.
    fn is_table_of_another(&self, path: &Path) -> bool {
        let name = path.file_name().and_then(|name| FileKind::parse(&name.to_string_lossy()));
        let is_table = matches!(name, Some(FileKind::Table(_) | FileKind::LevelDbTable(_)));
        if !is_table || path.parent() == Some(&self.directory) {
            return false;
        }
        let Ok(table) = TableFile::open(&*self.storage, path) else { return false };
        table.properties().as_ref().is_ok_and(|properties| {
            !properties.db_id.is_empty() && properties.db_id != self.identity.database_id.as_bytes()
        })
    }

    /// Logs the options that have no effect and other unmet requests, and returns these warnings.
    fn warn_of_options(&self) -> Vec<String> {
        let mut unmet = warnings::of_database(&self.database.now());
        let families = self.shared.family_set();
        unmet.extend(warnings::of_families(&self.options(), families.iter()));
        for warning in &unmet {
            self.info_log.warn(format_args!("{warning}"));
        }
        unmet
    }

    /// Step 7.
    fn create_missing_families(&self) -> Result<()> {
        let options = self.options().clone();
        for name in options.column_families() {
            if self.shared.family_set().by_name(name).is_some() {
                continue;
            }
            if !self.database.fixed().create_missing_column_families {
                let message = format!(
                    "there is no column family '{name}', and create_missing_column_families is \
                     false"
                );
                return Err(Error::invalid_argument(message).in_file(&self.directory));
            }
            self.create_family(name, options.column_family(name))?;
        }
        Ok(())
    }
}

/// Returns the tables and blob files of column families.
fn needed_files<'a>(families: impl IntoIterator<Item = &'a ColumnFamily>) -> Needed {
    let mut needed = Needed::default();
    for family in families {
        let source = family.super_version();
        let version = source.version();
        needed.tables.extend(version.files().map(|(_, file)| file.number()));
        needed.blob_files.extend(version.blob_files().keys());
    }
    needed
}

/// Returns the source of file numbers, which starts above the number of every existing file.
fn file_numbers(manifest: &Manifest, directories: &Directories) -> Result<FileNumbers> {
    let highest = directories.all().map(|(_, files)| files.highest_number()).max().unwrap_or(0);
    let next = manifest.next_file_number.max(highest.saturating_add(1));
    if next > FILE_NUMBER_MAX {
        let message = format!("the next file number is {next}, which no database reaches");
        return Err(Error::corruption(&manifest.path, message));
    }
    Ok(FileNumbers::starting_at(next))
}

/// Returns the identity of the database and of this opening.
fn identity(
    storage: &dyn Storage,
    directory: &Path,
    options: &OpenOptions,
    in_manifest: Option<String>,
) -> Result<DatabaseIdentity> {
    let in_file = read_identity(storage, directory)?;
    let database_id = in_manifest.or_else(|| in_file.clone()).unwrap_or_else(super::new_identity);
    if options.database().write_identity_file && in_file.as_ref() != Some(&database_id) {
        write_identity(storage, directory, &database_id)?;
    }
    let host_id = host_id(options.database());
    let session_id = encode_session_id(fastrand::u64(..), fastrand::u64(..));
    Ok(DatabaseIdentity { database_id, session_id, host_id })
}

/// Returns the host ID that tables record.
pub(crate) fn host_id(options: &DbOptions) -> String {
    match options.db_host_id.as_str() {
        "__hostname__" => tailwater_io::host_name(),
        own => own.to_owned(),
    }
}

fn family_versions(
    families: &[ColumnFamily],
    log_numbers: &[u64],
    cursors: Vec<CompactCursors>,
) -> BTreeMap<u32, FamilyVersion> {
    let parts = families.iter().zip(log_numbers).zip(cursors);
    let versions = parts.map(|((family, &log_number), cursors)| {
        let version = FamilyVersion {
            name: family.name().to_owned(),
            comparator: family.comparator().clone(),
            log_number,
            level_count: family.options().num_levels as usize,
            version: Arc::clone(family.super_version().version()),
            compactions: CompactionState::new(cursors),
            next_epoch: FamilyVersion::epoch_after(family.super_version().version()),
        };
        (family.id(), version)
    });
    versions.collect()
}

/// Returns the size limits of a MANIFEST.
pub(crate) fn manifest_limits(options: &DbOptions) -> ManifestLimits {
    ManifestLimits {
        max_bytes: options.max_manifest_file_size,
        max_growth_percent: u64::try_from(options.max_manifest_space_amp_pct).unwrap_or(0),
    }
}
