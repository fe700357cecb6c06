//! Random options that affect how a database survives a crash.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fastrand::Rng;
use tailwater::options::DbPath;
use tailwater::{OpenOptions, SstFileManager};
use tailwater_format::record_log::RecoveryMode;
use tailwater_io::sim::SimStorage;

use crate::io_modes::{Disk, IoModes};
use crate::workload::Limits;

/// Possible paths of a database: one whose parent directory exists, one whose parent directory does
/// not exist, and a relative path with one component.
const DIRECTORIES: [&str; 3] = ["/database", "/above/below/database", "database"];
/// A possible directory for the database's logs, outside its home.
const LOGS: &str = "/logs";
/// A possible directory for the database's tables, outside its home.
const TABLES: &str = "/tables";

/// Values of `compaction_pri`, which determines the order in which compactions choose the tables of
/// a level.
const PRIORITIES: [&str; 5] = [
    "kByCompensatedSize",
    "kOldestLargestSeqFirst",
    "kOldestSmallestSeqFirst",
    "kMinOverlappingRatio",
    "kRoundRobin",
];
/// The options of every database. Random options are appended to them. Without those, nothing is
/// compacted, and writes do not wait for compactions.
const COMMON: &str = "create_if_missing=true;write_buffer_size=65536;arena_block_size=8192;\
    level0_file_num_compaction_trigger=1000000;level0_slowdown_writes_trigger=1000000;\
    level0_stop_writes_trigger=1000000;merge_operator=StringAppendOperator;\
    max_bgerror_resume_count=2;bgerror_resume_retry_interval=100;\
    block_based_table_factory={no_block_cache=true}";

/// The recovery modes, each with its name in option strings.
pub(crate) const MODES: [(RecoveryMode, &str); 4] = [
    (RecoveryMode::PointInTime, "kPointInTimeRecovery"),
    (RecoveryMode::TolerateCorruptedTailRecords, "kTolerateCorruptedTailRecords"),
    (RecoveryMode::AbsoluteConsistency, "kAbsoluteConsistency"),
    (RecoveryMode::SkipAnyCorruptedRecords, "kSkipAnyCorruptedRecords"),
];

/// The options of a database, and the disk that it is on.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    directory: PathBuf,
    text: String,
    /// Whether the database reuses the files of old logs (`recycle_log_file_num`).
    pub(crate) recycles: bool,
    pub(crate) manual_wal_flush: bool,
    pub(crate) atomic_flush: bool,
    pub(crate) avoid_flush_during_shutdown: bool,
    /// Whether each log begins with a record about the log before it (`track_and_verify_wals`).
    pub(crate) tracks_logs: bool,
    /// Whether the filesystem supports no hard links, so that checkpoints copy tables.
    pub(crate) without_links: bool,
    tables_elsewhere: bool,
    /// Whether obsolete files become trash, which is removed in small chunks.
    removes_slowly: bool,
    synced: u8,
    io_modes: IoModes,
    disk: Disk,
}

impl Setup {
    /// Returns random options.
    pub(crate) fn random(rng: &mut Rng) -> Self {
        let recycles = rng.u8(..3) == 0;
        let mode = match rng.u8(..4) {
            // The modes at indexes 1 and 2 of `MODES` are strict and do not accept recycled logs.
            0 | 1 if !recycles => MODES[rng.usize(1..3)],
            2 => MODES[3],
            _ => MODES[0],
        };
        let disk = Disk::random(rng, &["/", "/above", "/database", TABLES]);
        let mut setup = Self {
            directory: PathBuf::from(DIRECTORIES[rng.usize(..DIRECTORIES.len())]),
            text: COMMON.to_owned(),
            recycles,
            manual_wal_flush: rng.u8(..5) == 0,
            atomic_flush: rng.u8(..5) == 0,
            avoid_flush_during_shutdown: rng.u8(..3) == 0,
            tracks_logs: rng.u8(..4) == 0,
            without_links: rng.u8(..4) == 0,
            tables_elsewhere: rng.u8(..4) == 0,
            removes_slowly: rng.u8(..4) == 0,
            synced: *rng.choice(&[5, 15, 40]).expect("there are some"),
            io_modes: IoModes::random(rng, disk),
            disk,
        };
        setup.add("wal_recovery_mode", mode.1);
        if recycles {
            setup.add("recycle_log_file_num", rng.u8(1..3));
        }
        setup.add("manual_wal_flush", setup.manual_wal_flush);
        setup.add("atomic_flush", setup.atomic_flush);
        setup.add("avoid_flush_during_shutdown", setup.avoid_flush_during_shutdown);
        setup.add("track_and_verify_wals", setup.tracks_logs);
        setup.add("avoid_flush_during_recovery", rng.bool());
        setup.add("allow_fallocate", rng.bool());
        setup.add("use_fsync", rng.u8(..4) == 0);
        if rng.u8(..3) == 0 {
            setup.add("wal_compression", "kZSTD");
        }
        if rng.u8(..3) == 0 {
            setup.add("wal_dir", LOGS);
        }
        if rng.bool() {
            setup.add("max_manifest_file_size", rng.u16(100..2000));
        }
        if rng.u8(..4) == 0 {
            setup.add("preserve_internal_time_seconds", rng.u8(1..=100));
        }
        if rng.u8(..3) == 0 {
            setup.add("max_total_wal_size", rng.u16(4000..60000));
        }
        if rng.bool() {
            setup.add("level0_file_num_compaction_trigger", rng.u8(1..4));
            setup.add("target_file_size_base", rng.u16(500..5000));
            setup.add("max_bytes_for_level_base", rng.u16(1000..20_000));
            setup.add("level_compaction_dynamic_level_bytes", rng.bool());
            setup.add("compaction_pri", rng.choice(PRIORITIES).expect("there are some"));
        }
        if rng.u8(..3) == 0 {
            setup.add("db_write_buffer_size", rng.u32(20_000..200_000));
        }
        setup.add("max_background_flushes", rng.u8(1..=4));
        for name in ["bytes_per_sync", "wal_bytes_per_sync"] {
            if rng.u8(..3) == 0 {
                setup.add(name, rng.u16(1..8192));
            }
        }
        setup
    }

    /// Adapts the setup to runs with faults: recovery must flush all logs. After a failed sync, the
    /// page cache may mark data as clean although the device does not have the data. So a log that
    /// recovery read must not remain the only copy of its writes.
    pub(crate) fn for_faults(mut self) -> Self {
        self.add("avoid_flush_during_recovery", false);
        self
    }

    fn add(&mut self, name: &str, value: impl std::fmt::Display) {
        self.text += &format!(";{name}={value}");
    }

    /// Returns the directory, disk and options as text for a message, without the options in
    /// [`COMMON`].
    pub(crate) fn text(&self) -> String {
        let options = self.text.strip_prefix(COMMON).unwrap_or(&self.text);
        let tables = if self.tables_elsewhere { ", tables elsewhere" } else { "" };
        let links = if self.without_links { ", no links" } else { "" };
        let trash = if self.removes_slowly { ", slow removals" } else { "" };
        let Self { directory, io_modes, disk, .. } = self;
        let modes = format!(";{io_modes} on {disk:?}");
        format!("of {}{options}{modes}{tables}{links}{trash}", directory.display())
    }

    /// Returns an empty disk for the database. The disk's random choices are derived from `seed`.
    pub(crate) fn new_disk(&self, seed: u64) -> SimStorage {
        let storage = SimStorage::new(seed);
        self.disk.set_up(&storage);
        storage
    }

    /// Returns the options with which the database is opened during the run.
    pub(crate) fn options(&self, storage: &SimStorage) -> OpenOptions {
        let mut options = OpenOptions::with_storage(Arc::new(storage.clone()));
        let text = format!("{};{}", self.text, self.io_modes);
        options.set_from_string(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        if self.tables_elsewhere {
            let path = DbPath { path: PathBuf::from(TABLES), target_size: 1 << 40 };
            options.database_mut().db_paths = vec![path];
        }
        if self.removes_slowly {
            let manager = SstFileManager::new().with_bytes_max_delete_chunk(4000);
            manager.set_delete_rate_bytes_per_second(1 << 30);
            manager.set_max_trash_db_ratio(10.0);
            options.set_sst_file_manager(Arc::new(manager));
        }
        options.set_inline_background(true);
        options.set_clock(storage.clock());
        options
    }

    /// Returns the options with which the database is opened after a crash, with this recovery
    /// mode.
    pub(crate) fn options_after(
        &self,
        storage: &SimStorage,
        mode: RecoveryMode,
        create: bool,
    ) -> OpenOptions {
        let mut options = self.options(storage);
        let name = MODES.iter().find(|(known, _)| *known == mode).expect("all are there").1;
        let text = format!("wal_recovery_mode={name};create_if_missing={create}");
        options.set_from_string(&text).expect("options");
        options
    }

    /// Returns the options with which a checkpoint of the database is opened.
    pub(crate) fn options_of_checkpoint(&self, storage: &SimStorage) -> OpenOptions {
        let mut options = self.options(storage);
        options.set_from_string("wal_dir=;create_if_missing=false").expect("options");
        options.database_mut().db_paths.clear();
        options
    }

    /// Returns a random recovery mode with which to open the database after a crash.
    pub(crate) fn random_mode(&self, rng: &mut Rng) -> RecoveryMode {
        // At least half of the cases use the default mode, in which a database must always open.
        if rng.bool() { RecoveryMode::PointInTime } else { MODES[rng.usize(..4)].0 }
    }

    /// Returns which operations the random work may include with these options.
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            // Unlogged writes use sequence numbers that the logs then lack. Recovery of recycled
            // logs accepts no such gap.
            unlogged: !self.recycles,
            single_flushes: !self.atomic_flush,
            synced: self.synced,
            reopening: true,
        }
    }

    /// Returns the database's directory.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }
}
