//! Random options that affect how a database survives a crash.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fastrand::Rng;
use tailwater::OpenOptions;
use tailwater::options::{DbOptions, DbPath};
use tailwater_format::log::RecoveryMode;
use tailwater_io::sim::SimStorage;

use crate::io_modes::{Disk, IoModes};
use crate::workload::Limits;

/// Possible locations of a database: with a parent that is there, that is not, and that is not
/// named.
const DIRECTORIES: [&str; 3] = ["/database", "/above/below/database", "database"];
/// Possible directories of its logs outside the home.
const LOGS: &str = "/logs";
/// Possible directories of its tables outside the home.
const TABLES: &str = "/tables";

/// The order in which compactions choose tables of a level.
const PRIORITIES: [&str; 5] = [
    "kByCompensatedSize",
    "kOldestLargestSeqFirst",
    "kOldestSmallestSeqFirst",
    "kMinOverlappingRatio",
    "kRoundRobin",
];
/// The common options. By default nothing compacts, and writes do not wait for
/// it.
const COMMON: &str = "create_if_missing=true;write_buffer_size=65536;arena_block_size=8192;\
    level0_file_num_compaction_trigger=1000000;level0_slowdown_writes_trigger=1000000;\
    level0_stop_writes_trigger=1000000;merge_operator=StringAppendOperator;\
    max_bgerror_resume_count=2;bgerror_resume_retry_interval=100;\
    block_based_table_factory={no_block_cache=true}";

/// The names of the recovery modes in option strings.
pub(crate) const MODES: [(RecoveryMode, &str); 4] = [
    (RecoveryMode::PointInTime, "kPointInTimeRecovery"),
    (RecoveryMode::TolerateCorruptedTailRecords, "kTolerateCorruptedTailRecords"),
    (RecoveryMode::AbsoluteConsistency, "kAbsoluteConsistency"),
    (RecoveryMode::SkipAnyCorruptedRecords, "kSkipAnyCorruptedRecords"),
];

/// The options of a database.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    directory: PathBuf,
    text: String,
    /// Logs are written over older ones.
    pub(crate) recycles: bool,
    pub(crate) manual_wal_flush: bool,
    pub(crate) atomic_flush: bool,
    pub(crate) avoid_flush_during_shutdown: bool,
    /// Logs say what the one before them was.
    pub(crate) tracks_logs: bool,
    /// The filesystem makes no second names, so that checkpoints copy.
    pub(crate) without_links: bool,
    tables_elsewhere: bool,
    synced: u8,
    io_modes: IoModes,
    disk: Disk,
}

impl Setup {
    /// Any options.
    pub(crate) fn random(rng: &mut Rng) -> Self {
        let recycles = rng.u8(..3) == 0;
        let mode = match rng.u8(..4) {
            // The strict modes take no recycled logs.
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
        for name in ["bytes_per_sync", "wal_bytes_per_sync"] {
            if rng.u8(..3) == 0 {
                setup.add(name, rng.u16(1..8192));
            }
        }
        setup
    }

    /// The same for runs with faults. After a failed sync the system takes for written what is not
    /// on the device, so that a log which was read back must not stay the only copy.
    pub(crate) fn for_faults(mut self) -> Self {
        self.add("avoid_flush_during_recovery", false);
        self
    }

    fn add(&mut self, name: &str, value: impl std::fmt::Display) {
        self.text += &format!(";{name}={value}");
    }

    /// The differences between two setups, for a message.
    pub(crate) fn text(&self) -> String {
        let options = self.text.strip_prefix(COMMON).unwrap_or(&self.text);
        let tables = if self.tables_elsewhere { ", tables elsewhere" } else { "" };
        let links = if self.without_links { ", no links" } else { "" };
        let Self { directory, io_modes, disk, .. } = self;
        let modes = format!(";{io_modes} on {disk:?}");
        format!("of {}{options}{modes}{tables}{links}", directory.display())
    }

    /// An empty disk for it, whose chance follows from `seed`.
    pub(crate) fn new_disk(&self, seed: u64) -> SimStorage {
        let storage = SimStorage::new(seed);
        self.disk.set_up(&storage);
        storage
    }

    /// The options with which it is opened while nothing has gone wrong.
    pub(crate) fn options(&self, storage: &SimStorage) -> OpenOptions {
        let mut options = OpenOptions::new(Arc::new(storage.clone()));
        let text = format!("{};{}", self.text, self.io_modes);
        options.set_options(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        if self.tables_elsewhere {
            let path = DbPath { path: PathBuf::from(TABLES), target_size: 1 << 40 };
            options.set_database(DbOptions { db_paths: vec![path], ..options.database().clone() });
        }
        options.set_inline_background(true);
        options.set_clock(storage.clock());
        options
    }

    /// The options with which it is opened after a crash.
    pub(crate) fn options_after(
        &self,
        storage: &SimStorage,
        mode: RecoveryMode,
        create: bool,
    ) -> OpenOptions {
        let mut options = self.options(storage);
        let name = MODES.iter().find(|(known, _)| *known == mode).expect("all are there").1;
        let text = format!("wal_recovery_mode={name};create_if_missing={create}");
        options.set_options(&text).expect("options");
        options
    }

    /// The options with which a checkpoint of it is opened.
    pub(crate) fn options_of_checkpoint(&self, storage: &SimStorage) -> OpenOptions {
        let mut options = self.options(storage);
        options.set_options("wal_dir=;create_if_missing=false").expect("options");
        let database = options.database().clone();
        options.set_database(DbOptions { db_paths: Vec::new(), ..database });
        options
    }

    /// A recovery mode to open it with after a crash.
    pub(crate) fn random_mode(&self, rng: &mut Rng) -> RecoveryMode {
        // The default, which must always open, is half of all.
        if rng.bool() { RecoveryMode::PointInTime } else { MODES[rng.usize(..4)].0 }
    }

    /// The work that suits it.
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            // They leave holes in the sequence numbers, and so recycled logs refuse them.
            unlogged: !self.recycles,
            single_flushes: !self.atomic_flush,
            synced: self.synced,
            reopening: true,
        }
    }

    /// The database's directory.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }
}
