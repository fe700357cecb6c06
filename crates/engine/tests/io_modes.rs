//! Tests which files are open for direct I/O while a database works, according to the flags in
//! `/proc/self/fdinfo`.
#![cfg(not(loom))]
#![expect(clippy::disallowed_methods, reason = "the kernel's reports are not a database's files")]

#[expect(dead_code, reason = "the tests do not call the example's `main`")]
#[path = "../examples/direct_io.rs"]
mod direct_io_example;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tailwater::{
    ColumnFamily, CompactRangeOptions, CompactionFilter, CustomCompactionFilter, Db, ErrorKind,
    FilterContext, FilterDecision, FilteredValue, OpenOptions, ReadOptions, WriteOptions,
};
use tailwater_io::Purpose;
use tailwater_testkit::filesystem::{Mounted, say};
use tailwater_testkit::golden;
use tempfile::TempDir;

/// The flag of an open file in Linux that requests direct I/O.
#[cfg(any(target_arch = "aarch64", target_arch = "arm"))]
const O_DIRECT: u32 = 0o200_000;
#[cfg(not(any(target_arch = "aarch64", target_arch = "arm")))]
const O_DIRECT: u32 = 0o40_000;

/// The tables and blob files in a directory that this process has open. The value for each file
/// name is the number of its descriptors for direct I/O and the number of its other descriptors.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct OpenFiles(BTreeMap<String, (usize, usize)>);

impl OpenFiles {
    fn of(directory: &Path) -> Self {
        let mut files = Self::default();
        for entry in fs::read_dir("/proc/self/fd").expect("descriptors").flatten() {
            // The descriptor may have been closed since the directory was listed.
            let Ok(path) = fs::read_link(entry.path()) else { continue };
            let Some(name) = path.strip_prefix(directory).ok().and_then(Path::to_str) else {
                continue;
            };
            let info = Path::new("/proc/self/fdinfo").join(entry.file_name());
            let Ok(info) = fs::read_to_string(info) else { continue };
            // The descriptor may have been closed, and another test may have got the same number.
            if fs::read_link(entry.path()).ok().as_ref() != Some(&path) {
                continue;
            }
            let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
            let flags = u32::from_str_radix(flags.expect("flags").trim(), 8).expect("a number");
            let counts = files.0.entry(name.trim_end_matches(" (deleted)").to_owned()).or_default();
            if flags & O_DIRECT == 0 {
                counts.1 += 1;
            } else {
                counts.0 += 1;
            }
        }
        files.0.retain(|name, _| name.ends_with(".sst") || name.ends_with(".blob"));
        files
    }

    /// Returns the names of the files with this extension that are open for direct I/O.
    fn direct(&self, extension: &str) -> BTreeSet<&str> {
        let direct = self.0.iter().filter(|(_, counts)| counts.0 > 0);
        direct.map(|(name, _)| name.as_str()).filter(|name| name.ends_with(extension)).collect()
    }

    fn buffered(&self, extension: &str) -> BTreeSet<&str> {
        let buffered = self.0.iter().filter(|(_, counts)| counts.1 > 0);
        buffered.map(|(name, _)| name.as_str()).filter(|name| name.ends_with(extension)).collect()
    }
}

/// A compaction filter that records the open files during compactions.
struct Watch {
    directory: PathBuf,
    calls: AtomicU64,
    /// The files that were open during compactions, by the input level of the compaction. Every
    /// 61st call of the filter adds a record.
    seen: Mutex<BTreeMap<usize, Vec<OpenFiles>>>,
}

impl Watch {
    fn new(directory: &Path) -> Arc<Self> {
        let directory = directory.to_owned();
        Arc::new(Self { directory, calls: AtomicU64::new(0), seen: Mutex::default() })
    }

    fn take(&self) -> BTreeMap<usize, Vec<OpenFiles>> {
        std::mem::take(&mut self.seen.lock().expect("no panic while it is held"))
    }
}

impl CustomCompactionFilter for Watch {
    fn name(&self) -> &str {
        "Watch"
    }

    fn filter(
        &self,
        context: &FilterContext,
        _key: &[u8],
        _value: FilteredValue<'_>,
    ) -> FilterDecision {
        if self.calls.fetch_add(1, Ordering::Relaxed).is_multiple_of(61) {
            let files = OpenFiles::of(&self.directory);
            self.seen
                .lock()
                .expect("no panic while it is held")
                .entry(context.level)
                .or_default()
                .push(files);
        }
        FilterDecision::Keep
    }
}

/// Options for many small tables in several levels.
const SHAPE: &str = "create_if_missing=true;compaction_filter=Watch;write_buffer_size=64k;\
                     target_file_size_base=32k;max_bytes_for_level_base=128k;\
                     max_bytes_for_level_multiplier=4;compression=kNoCompression;\
                     level_compaction_dynamic_level_bytes=false;max_background_jobs=4;\
                     max_subcompactions=3";

struct Scene {
    directory: TempDir,
    watch: Arc<Watch>,
}

impl Scene {
    fn new() -> Self {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let watch = Watch::new(&directory.path().canonicalize().expect("a path"));
        Self { directory, watch }
    }

    fn options(&self, text: &str) -> OpenOptions {
        let mut options = OpenOptions::default();
        options.set_from_string(SHAPE).expect("options");
        options.set_from_string(text).expect("options");
        options.add_compaction_filter(CompactionFilter::Custom(self.watch.clone()));
        options
    }

    fn open(&self, text: &str) -> Db {
        Db::open(self.directory.path(), &self.options(text)).expect("a database")
    }

    fn files(&self) -> OpenFiles {
        OpenFiles::of(&self.watch.directory)
    }

    /// Returns which files are open while no compaction runs.
    fn files_at_rest(&self, db: &Db) -> OpenFiles {
        let pause = db.pause_compactions().expect("a pause");
        let files = self.files();
        drop(pause);
        files
    }
}

fn family(db: &Db) -> ColumnFamily {
    db.cf_handle("default").expect("the default column family")
}

fn put(db: &Db, keys: std::ops::Range<u64>, round: u64) {
    for key in keys {
        // Consecutive keys are spread over the whole key space, so that tables overlap.
        let key = format!("{:08}", key.wrapping_mul(7919) % 10_000);
        let value = format!("{round:08}").repeat(12);
        let options = WriteOptions::default();
        db.put_cf_opt(&family(db), key.as_bytes(), value.as_bytes(), &options).expect("a put");
    }
}

fn settle(db: &Db) {
    db.flush_cf(&family(db)).expect("a flush");
    while db.needs_compaction_cf(&family(db)).expect("its column family")
        || db.running_compactions() > 0
    {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

fn scan(db: &Db) -> usize {
    let mut iterator =
        db.raw_iterator_cf_opt(&family(db), &ReadOptions::default()).expect("an iterator");
    iterator.seek_to_first().expect("a seek");
    let mut count = 0;
    while iterator.valid() {
        count += 1;
        iterator.next().expect("a step");
    }
    count
}

/// Runs automatic compactions from level 0 to 1 and from 1 to 2, and a manual compaction. There are
/// many tables in a level. Some compactions run concurrently, and some are split into
/// subcompactions. Meanwhile a snapshot and an iterator are open, and the iterator still needs
/// obsolete tables.
fn compactions_of_every_kind(db: &Db) {
    put(db, 0..10_000, 1);
    settle(db);
    let snapshot = db.snapshot();
    let mut iterator =
        db.raw_iterator_cf_opt(&family(db), &ReadOptions::default()).expect("an iterator");
    iterator.seek_to_first().expect("a seek");
    put(db, 0..10_000, 2);
    settle(db);
    db.compact_range_cf_opt(&family(db), None, None, &CompactRangeOptions::default())
        .expect("a compaction");
    let at_snapshot = ReadOptions::new().with_snapshot(snapshot);
    for key in (0..10_000).step_by(97) {
        let key = format!("{key:08}");
        let value = db.get_cf_opt(&family(db), key.as_bytes(), &at_snapshot).expect("a get");
        assert_eq!(value.as_deref(), Some("00000001".repeat(12).as_bytes()), "{key}");
    }
    let mut seen = 0;
    while iterator.valid() {
        assert_eq!(iterator.value(), "00000001".repeat(12).as_bytes());
        seen += 1;
        iterator.next().expect("a step");
    }
    assert_eq!((seen, scan(db)), (10_000, 10_000));
}

#[test]
fn compactions_read_inputs_as_configured_and_users_stay_buffered() {
    for (text, is_direct) in [("", false), ("use_direct_io_for_compaction_reads=true", true)] {
        let scene = Scene::new();
        let db = scene.open(text);
        compactions_of_every_kind(&db);
        let by_level = scene.watch.take();
        for level in [0, 1] {
            let seen =
                by_level.get(&level).unwrap_or_else(|| panic!("level {level}: {by_level:?}"));
            for files in seen {
                assert_eq!(!files.direct(".sst").is_empty(), is_direct, "{text}: {files:?}");
                // User reads have readers of their own. These are buffered and stay open during the
                // whole compaction.
                assert!(!files.buffered(".sst").is_empty(), "{text}: {files:?}");
            }
        }
        // The compactions have closed the files that they opened. The readers for user reads are
        // still open, and are buffered.
        let files = scene.files_at_rest(&db);
        assert!(files.direct("").is_empty() && !files.buffered(".sst").is_empty(), "{files:?}");
    }
}

#[test]
fn compactions_share_open_tables_with_users_if_their_modes_agree() {
    for (text, is_direct) in [("", false), ("use_direct_reads=true", true)] {
        let scene = Scene::new();
        let db = scene.open(text);
        put(&db, 0..10_000, 1);
        settle(&db);
        // All tables were already open for user reads in the same mode, so the compactions opened
        // none.
        let reads = db.storage().statistics().snapshot(Purpose::CompactionRead);
        assert!(reads.reads.count > 0, "{text}");
        assert_eq!(reads.opens, 0, "{text}");
        assert_eq!(scan(&db), 10_000);
        assert_eq!(!scene.files().direct(".sst").is_empty(), is_direct, "{text}");
    }
}

#[test]
fn changing_options_at_runtime_keeps_users_tables_open_in_their_mode() {
    let scene = Scene::new();
    let db = scene.open("use_direct_io_for_compaction_reads=true");
    put(&db, 0..5_000, 1);
    settle(&db);
    db.set_database_options(&[("compaction_readahead_size", "65536")]).expect("a change");
    db.set_options_cf(&family(&db), &[("block_based_table_factory", "{block_size=8k;}")])
        .expect("a change");
    scene.watch.take();
    put(&db, 0..5_000, 2);
    settle(&db);
    assert_eq!(scan(&db), 5_000);
    let files = scene.files_at_rest(&db);
    assert!(files.direct("").is_empty(), "{files:?}");
    let seen: Vec<OpenFiles> = scene.watch.take().into_values().flatten().collect();
    assert!(!seen.is_empty() && seen.iter().all(|files| !files.direct(".sst").is_empty()));
    for name in ["use_direct_io_for_compaction_reads", "compaction_read_io_mode"] {
        let error = db.set_database_options(&[(name, "true")]).expect_err("it is fixed");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{name}: {error}");
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn level_0_is_compacted_in_parts_if_its_tables_exceed_the_open_file_budget() {
    // Compactions may use only a part of this limit on open files. The limit is high enough for
    // other tests that run at the same time.
    let before = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(400), ..before }).expect("a limit");
    let scene = Scene::new();
    let text = "use_direct_io_for_compaction_reads=true;max_open_files=-1;\
                disable_auto_compactions=true;max_subcompactions=1";
    let db = scene.open(text);
    for round in 1..=40 {
        put(&db, 0..200, round);
        db.flush_cf(&family(&db)).expect("a flush");
    }
    db.compact_range_cf_opt(&family(&db), None, None, &CompactRangeOptions::default())
        .expect("a compaction");
    assert!(db.live_files().iter().all(|file| file.level > 0));
    assert_eq!(scan(&db), 200);
    let seen: Vec<OpenFiles> = scene.watch.take().into_values().flatten().collect();
    let most = seen.iter().map(|files| files.direct(".sst").len()).max();
    assert!(most.is_some_and(|most| (2..=25).contains(&most)), "{most:?}");
    setrlimit(Resource::Nofile, before).expect("the limit before");
}

#[test]
fn blob_reads_use_the_io_mode_of_the_reader() {
    let cases = [
        ("", false, false),
        ("use_direct_io_for_compaction_reads=true", true, false),
        ("compaction_blob_read_io_mode=direct", true, false),
        ("use_direct_reads=true", true, true),
        ("user_blob_read_io_mode=direct;compaction_blob_read_io_mode=buffered", false, true),
    ];
    for (text, by_compaction, by_users) in cases {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        golden::unpack_into("blobs", directory.path());
        let watch = Watch::new(&directory.path().canonicalize().expect("a path"));
        let mut options = OpenOptions::load(directory.path()).expect("options");
        options
            .set_from_string(&format!("enable_blob_files=false;compaction_filter=Watch;{text}"))
            .expect("options");
        options.add_compaction_filter(CompactionFilter::Custom(watch.clone()));
        let db = Db::open(directory.path(), &options).expect("a database");
        let compaction = CompactRangeOptions::new()
            .with_bottommost_level_compaction(tailwater::BottommostRewrite::Force);
        db.compact_range_cf_opt(&family(&db), None, None, &compaction).expect("a compaction");
        let seen: Vec<OpenFiles> = watch.take().into_values().flatten().collect();
        let opened = |files: &OpenFiles| !files.direct(".blob").is_empty();
        assert_eq!(seen.iter().any(opened), by_compaction, "{text}: {seen:?}");
        assert!(scan(&db) > 0);
        let files = OpenFiles::of(&watch.directory);
        assert_eq!(!files.direct(".blob").is_empty(), by_users, "{text}: {files:?}");
        assert_eq!(!files.buffered(".blob").is_empty(), !by_users, "{text}: {files:?}");
    }
}

/// Options that request direct I/O for every purpose.
const ALL_DIRECT: &str = "user_read_io_mode=direct;user_blob_read_io_mode=direct;\
    compaction_read_io_mode=direct;compaction_write_io_mode=direct;flush_write_io_mode=direct;\
    verification_io_mode=direct;ingestion_io_mode=direct;checkpoint_io_mode=direct;\
    paranoid_file_checks=true";

/// Creates a database in a directory with these options, writes to it, compacts it and makes a
/// checkpoint. Reopens both with the options recorded in their files. Returns the property
/// `tailwater.io-modes` of the reopened database.
fn live_in(directory: &Path, text: &str) -> String {
    let directory = directory.join("database");
    let watch = Watch::new(&directory);
    let mut options = OpenOptions::default();
    options.set_from_string(SHAPE).expect("options");
    options.set_from_string(text).expect("options");
    options.add_compaction_filter(CompactionFilter::Custom(watch.clone()));
    let db = Db::open(&directory, &options).unwrap_or_else(|error| panic!("{text}: {error}"));
    compactions_of_every_kind(&db);
    let checkpoint = directory.with_extension("checkpoint");
    db.checkpoint(&checkpoint).expect("a checkpoint");
    drop(db);
    for place in [&checkpoint, &directory] {
        let mut options = OpenOptions::load(place).expect("options");
        options.add_compaction_filter(CompactionFilter::Custom(watch.clone()));
        let db = Db::open(place, &options).expect("the database again");
        assert_eq!(scan(&db), 10_000);
        if place == &directory {
            let modes =
                db.property_value_cf(&family(&db), "tailwater.io-modes").expect("a property");
            return modes.expect("modes");
        }
    }
    unreachable!("the directory itself is among the places")
}

/// Returns the effective I/O mode for a purpose, from the text of the property
/// `tailwater.io-modes`.
fn effective<'a>(modes: &'a str, purpose: &str) -> &'a str {
    let line = modes.lines().find_map(|line| line.strip_prefix(&format!("{purpose}: ")));
    line.and_then(|line| line.split_once("effective ")).expect("a line for each purpose").1
}

const PURPOSES: [&str; 9] = [
    "user_read",
    "user_blob_read",
    "compaction_read",
    "compaction_blob_read",
    "compaction_write",
    "flush_write",
    "verification",
    "ingestion",
    "checkpoint",
];

#[test]
fn filesystems_with_direct_io_take_every_mode() {
    for (kind, bytes) in [("ext4", 256 << 20), ("xfs", 512 << 20)] {
        let Some(disk) = Mounted::new(kind, bytes, &format!("I/O modes on {kind}")) else {
            continue;
        };
        let modes = live_in(&disk.path(), ALL_DIRECT);
        for purpose in PURPOSES {
            assert_eq!(effective(&modes, purpose), "direct", "{kind}: {purpose}");
        }
        fs::remove_dir_all(disk.path().join("database")).expect("the database");
        fs::remove_dir_all(disk.path().join("database.checkpoint")).expect("the checkpoint");
        let modes = live_in(&disk.path(), &ALL_DIRECT.replace("direct", "fadvise"));
        assert_eq!(effective(&modes, "compaction_write"), "fadvise", "{kind}");
    }
}

#[test]
fn btrfs_reports_the_effective_mode_of_direct_writes() {
    let Some(disk) = Mounted::new("btrfs", 512 << 20, "I/O modes on btrfs") else { return };
    let modes = live_in(&disk.path(), ALL_DIRECT);
    assert_eq!(effective(&modes, "compaction_read"), "direct");
    // On btrfs, Linux 6.14 and later perform direct writes through the page cache if the file has
    // checksums.
    let writes = effective(&modes, "compaction_write");
    assert!(["direct", "buffered"].contains(&writes), "{modes}");
}

#[test]
fn tmpfs_falls_back_to_buffered_io_and_reports_it() {
    let Ok(directory) = tempfile::tempdir_in("/dev/shm") else {
        return say("LEFT OUT: I/O modes on tmpfs: there is no /dev/shm");
    };
    for text in [ALL_DIRECT.to_owned(), ALL_DIRECT.replace("=direct", "=auto")] {
        let modes = live_in(directory.path(), &text);
        for purpose in PURPOSES {
            assert_eq!(effective(&modes, purpose), "buffered", "{purpose}");
        }
        let log = fs::read_to_string(directory.path().join("database/LOG")).expect("a LOG");
        assert!(log.contains("tmpfs"), "{log}");
        fs::remove_dir_all(directory.path().join("database")).expect("the database");
        fs::remove_dir_all(directory.path().join("database.checkpoint")).expect("the checkpoint");
    }
}

/// Regression test: the example reported direct compactions on a filesystem that ignores direct
/// I/O, because it found the word in the mode that was asked for.
#[test]
fn the_example_notices_that_direct_io_is_ignored() {
    let Ok(directory) = tempfile::tempdir_in("/dev/shm") else {
        return say("LEFT OUT: the example on tmpfs: there is no /dev/shm");
    };
    assert!(!direct_io_example::compacts_with_direct_io(directory.path()).expect("it runs"));
}

#[test]
fn the_tailwater_options_file_is_loaded_and_errors_name_its_line() {
    let scene = Scene::new();
    drop(scene.open("compaction_read_io_mode=direct;flush_write_io_mode=fadvise"));
    let path = scene.directory.path().join("TAILWATER-OPTIONS");
    let text = fs::read_to_string(&path).expect("the file");
    assert!(text.contains("compaction_read_io_mode=direct\n"), "{text}");
    let loaded = OpenOptions::load(scene.directory.path()).expect("options");
    assert_eq!(loaded.database().tailwater.to_text().as_deref(), Some(text.as_str()));
    // RocksDB does not know the I/O mode options, so its OPTIONS file must not contain them.
    let mut others = 0;
    for entry in fs::read_dir(scene.directory.path()).expect("a directory").flatten() {
        if entry.file_name().to_string_lossy().starts_with("OPTIONS-") {
            let text = fs::read_to_string(entry.path()).expect("a file");
            assert!(!text.contains("_io_mode"), "{text}");
            others += 1;
        }
    }
    assert!(others > 0, "there is no OPTIONS file");
    fs::write(&path, "compaction_read_io_mode=direct\nwal_io_modus=direct\n").expect("a file");
    let error = OpenOptions::load(scene.directory.path()).expect_err("an unknown name").to_string();
    for part in ["TAILWATER-OPTIONS", "line 2", "wal_io_modus", "wal_io_mode"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    // Opening a database without any of Tailwater's own options removes the file TAILWATER-OPTIONS.
    drop(scene.open(""));
    assert!(!path.exists());
}
