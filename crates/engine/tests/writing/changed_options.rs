//! Changing options while the database is open.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tailwater::options::ColumnFamilyOptions;
use tailwater::{Db, ErrorKind, OpenOptions, ReadOptions, StallState, WriteOptions};
use tailwater_io::Clock;
use tailwater_io::clock::ManualClock;
use tailwater_io::sim::{Fault, FaultPlan, FaultRule, SimStorage};

use crate::support::{
    default_family, failure, get, level_0, log, names, options, property, put, simulated,
};

const DB: &str = "/db";

fn open(disk: &SimStorage, text: &str) -> Db {
    Db::open(DB, &simulated(disk, text)).expect("a database")
}

fn set(db: &Db, changes: &[(&str, &str)]) {
    db.set_options_cf(&default_family(db), changes).expect("changed options");
}

/// Returns the names of the OPTIONS files, sorted.
fn options_files(disk: &SimStorage) -> Vec<String> {
    let mut files = names(disk, DB.as_ref());
    files.retain(|name| name.starts_with("OPTIONS-"));
    files.sort();
    files
}

#[test]
fn a_change_is_reported_written_and_kept() {
    let disk = SimStorage::new(1);
    let db = open(&disk, "");
    let before = options_files(&disk);
    set(&db, &[("write_buffer_size", "1m"), ("table_factory.block_size", "8k")]);
    db.set_database_options(&[("bytes_per_sync", "64k")]).expect("a change");
    let after = options_files(&disk);
    assert_eq!(after.len(), 2, "the newest and the one before it: {after:?}");
    assert!(after.iter().all(|file| !before.contains(file)), "{before:?} {after:?}");
    let log = log(&disk, DB);
    for line in [
        "option write_buffer_size of 'default' was 67108864 and is 1048576 from now on",
        "option block_size of its tables was 4096 and is 8192 from now on",
        "option bytes_per_sync was 0 and is 65536 from now on",
    ] {
        assert!(log.contains(line), "{line} is not in {log}");
    }
    assert_eq!(default_family(&db).options().write_buffer_size, 1 << 20);
    assert_eq!(db.database_options().bytes_per_sync, 64 << 10);
    // Simulates a power cut while the database is open. The changed options must be in the OPTIONS
    // file.
    let image = disk.crash_image(1);
    let loaded = OpenOptions::load_from(Arc::new(image), DB).expect("options");
    assert_eq!(loaded.column_family("default").write_buffer_size, 1 << 20);
    assert_eq!(loaded.column_family("default").table_factory.block_size, 8192);
    assert_eq!(loaded.database().bytes_per_sync, 64 << 10);
}

/// Opens the database with the options of its OPTIONS file.
fn reopen(disk: &SimStorage) -> Db {
    let mut options = OpenOptions::load_from(Arc::new(disk.clone()), DB).expect("options");
    options.set_clock(disk.clock()).set_inline_background(true);
    Db::open(DB, &options).expect("a database")
}

/// Regression test: a value that was derived from another option was recorded as if it had been
/// set. When the other option was changed, the value stayed as it was, and every opening warned
/// about an option that nobody had set.
#[test]
fn derived_values_follow_the_options_that_they_depend_on() {
    let disk = SimStorage::new(1);
    open(&disk, "rate_limiter_bytes_per_sec=2m").close().expect("closed");
    for round in 1..=2_u64 {
        // The options are changed after the database was opened with the recorded options, of which
        // the rate is not one.
        let db = reopen(&disk);
        let rates = |db: &Db| {
            let options = db.database_options();
            (options.bytes_per_sync, options.delayed_write_rate)
        };
        assert_eq!(rates(&db), (0, 16 << 20));
        let rate = format!("{round}m");
        db.set_database_options(&[("rate_limiter_bytes_per_sec", &rate)]).expect("a change");
        assert_eq!(rates(&db), (1 << 20, round << 20));
        db.set_database_options(&[("rate_limiter_bytes_per_sec", "0")]).expect("a change");
        assert_eq!(rates(&db), (0, 16 << 20));
        set(&db, &[("write_buffer_size", &format!("{round}m"))]);
        set(&db, &[("target_file_size_base", &format!("{round}m"))]);
        let check = |db: &Db| {
            let options = default_family(db).options();
            assert_eq!(options.arena_block_size, round << 17);
            assert_eq!(options.max_compaction_bytes, 25 * (round << 20));
            assert_eq!(db.warnings(), [""; 0]);
            assert_eq!(db.options_without_effect(), []);
        };
        check(&db);
        db.close().expect("closed");
        let db = reopen(&disk);
        check(&db);
        db.close().expect("closed");
    }
    let db = reopen(&disk);
    // A value that differs from the derived one was set, and stays.
    set(&db, &[("max_compaction_bytes", "12345678")]);
    set(&db, &[("target_file_size_base", "3m")]);
    assert_eq!(default_family(&db).options().max_compaction_bytes, 12_345_678);
    db.close().expect("closed");
    assert_eq!(default_family(&reopen(&disk)).options().max_compaction_bytes, 12_345_678);
}

/// Regression test: a value that another option put out of range was replaced for good. It stayed
/// replaced when the other option allowed it again.
#[test]
fn values_out_of_range_are_replaced_only_as_long_as_they_are() {
    let disk = SimStorage::new(1);
    open(&disk, "recycle_log_file_num=3").close().expect("closed");
    let strict = "wal_recovery_mode=kAbsoluteConsistency;recycle_log_file_num=3";
    let triggers = |db: &Db| {
        let options = default_family(db).options();
        [options.level0_slowdown_writes_trigger, options.level0_stop_writes_trigger]
    };
    let db = open(&disk, strict);
    assert_eq!(db.database_options().recycle_log_file_num, 0);
    set(&db, &[("level0_file_num_compaction_trigger", "50")]);
    assert_eq!(triggers(&db), [50, 50]);
    db.close().expect("closed");
    let db = reopen(&disk);
    assert_eq!(triggers(&db), [50, 50]);
    set(&db, &[("level0_file_num_compaction_trigger", "4")]);
    assert_eq!(triggers(&db), [20, 36]);
    db.close().expect("closed");
    let mut options = OpenOptions::load_from(Arc::new(disk.clone()), DB).expect("options");
    options.set_clock(disk.clock()).set_inline_background(true);
    options.set_from_string("wal_recovery_mode=kPointInTimeRecovery").expect("options");
    let db = Db::open(DB, &options).expect("a database");
    assert_eq!(triggers(&db), [20, 36]);
    assert_eq!(db.database_options().recycle_log_file_num, 3);
}

#[test]
fn nothing_is_changed_by_changes_that_are_refused() {
    let disk = SimStorage::new(1);
    let db = open(&disk, "");
    let family = default_family(&db);
    let (options, database) = (family.options(), db.database_options());
    let files = options_files(&disk);
    let refused = |changes: &[(&str, &str)]| {
        let (kind, text) = failure(db.set_options_cf(&family, changes));
        assert_eq!(kind, ErrorKind::InvalidArgument);
        text
    };
    for (name, value, part) in [
        ("num_levels", "3", "option num_levels cannot be changed while the database is open"),
        ("write_bufer_size", "3", "is it write_buffer_size?"),
        ("max_open_files", "3", "option max_open_files is the database's"),
        ("ttl", "soon", "'soon' is not a whole number"),
        ("table_factory", "{block_align=true}", "it needs a block_size that is a power of two"),
        ("memtable_protection_bytes_per_key", "3", "it must be 0, 1, 2, 4 or 8"),
    ] {
        let text = refused(&[("write_buffer_size", "1m"), (name, value)]);
        assert!(text.contains(part), "{name}: {text}");
    }
    let (_, text) =
        failure(db.set_database_options(&[("bytes_per_sync", "1"), ("use_fsync", "1")]));
    assert!(text.contains("option use_fsync cannot be changed"), "{text}");
    let other = SimStorage::new(2);
    let foreign = open(&other, "");
    let (_, text) = failure(foreign.set_options_cf(&family, &[("ttl", "1")]));
    assert!(text.contains("does not belong to this opening of the database"), "{text}");
    assert_eq!((options, files), (family.options(), options_files(&disk)));
    assert_eq!(database, db.database_options());
    db.close().expect("closed");
    let (_, text) = failure(db.set_options_cf(&family, &[("ttl", "1")]));
    assert!(text.contains("the database was closed"), "{text}");
}

#[test]
fn options_of_the_database_and_of_a_family_must_agree() {
    let disk = SimStorage::new(1);
    let db = open(&disk, "compaction_style=kCompactionStyleFIFO;ttl=60");
    let (_, text) = failure(db.set_database_options(&[("max_open_files", "100")]));
    assert!(text.contains("column family 'default': option compaction_style"), "{text}");
    set(&db, &[("ttl", "0")]);
    db.set_database_options(&[("max_open_files", "100")]).expect("a change");
    assert!(db.set_options_cf(&default_family(&db), &[("ttl", "60")]).is_err());
}

#[test]
fn nothing_is_changed_where_the_options_file_cannot_be_written() {
    for call in 0..8 {
        let disk = SimStorage::new(1);
        let db = open(&disk, "");
        let rule = FaultRule::new(Fault::InputOutput).at(call);
        disk.set_faults(FaultPlan::none().with(rule));
        let changed = db.set_options_cf(&default_family(&db), &[("write_buffer_size", "1m")]);
        disk.set_faults(FaultPlan::none());
        let size = default_family(&db).options().write_buffer_size;
        assert_eq!(size == 1 << 20, changed.is_ok(), "call {call}");
        assert!(db.background_error().is_none());
        put(&db, "a", "1").expect("writes go on");
        let loaded = OpenOptions::load_from(Arc::new(disk), DB);
        let loaded = loaded.expect("options").column_family("default").write_buffer_size;
        assert_eq!(loaded, size, "call {call}");
    }
}

#[test]
fn memtables_and_stalls_apply_new_options_at_once() {
    let disk = SimStorage::new(1);
    let db = open(&disk, "disable_auto_compactions=true;level0_slowdown_writes_trigger=50");
    for key in 0..200 {
        put(&db, &format!("{key:04}"), &"v".repeat(1000)).expect("a put");
    }
    assert_eq!(level_0(&db), 0);
    set(&db, &[("write_buffer_size", "64k")]);
    put(&db, "x", "1").expect("a put");
    assert_eq!(level_0(&db), 1, "the memtable is larger than is now allowed");
    for round in 0..4 {
        put(&db, "a", &round.to_string()).expect("a put");
        db.flush_all().expect("a flush");
    }
    assert_eq!((level_0(&db), db.stall_state()), (5, StallState::Normal));
    let pause = db.pause_compactions().expect("a pause");
    let triggers = [
        ("level0_slowdown_writes_trigger", "3"),
        ("level0_file_num_compaction_trigger", "2"),
        ("disable_auto_compactions", "false"),
    ];
    set(&db, &triggers);
    assert!(matches!(db.stall_state(), StallState::Delayed { .. }), "{:?}", db.stall_state());
    db.set_database_options(&[("delayed_write_rate", "12345")]).expect("a change");
    assert_eq!(property(&db, "rocksdb.actual-delayed-write-rate"), "12345");
    drop(pause);
    assert_eq!((level_0(&db), db.stall_state()), (0, StallState::Normal));
}

#[test]
fn changed_options_trigger_due_compactions() {
    let disk = SimStorage::new(1);
    let db = open(&disk, "level0_file_num_compaction_trigger=10");
    for round in 0..3 {
        put(&db, "a", &round.to_string()).expect("a put");
        db.flush_all().expect("a flush");
    }
    assert_eq!(level_0(&db), 3);
    set(&db, &[("level0_file_num_compaction_trigger", "2")]);
    assert_eq!(level_0(&db), 0);
}

#[test]
fn new_tables_use_the_new_options() {
    let disk = SimStorage::new(1);
    let db = open(&disk, "compression=kNoCompression;prefix_extractor=fixed:5");
    set(&db, &[("table_factory", "{filter_policy=bloomfilter:10;whole_key_filtering=false}")]);
    let family = default_family(&db);
    for key in ["abcxx", "abcyy", "abdzz"] {
        put(&db, key, "1").expect("a put");
    }
    db.flush_all().expect("a flush");
    let seek = |db: &Db, target: &str| {
        let mut iterator =
            db.raw_iterator_cf_opt(&family, &ReadOptions::default()).expect("an iterator");
        iterator.seek(target.as_bytes()).expect("a seek");
        iterator.valid().then(|| String::from_utf8_lossy(iterator.key()).into_owned())
    };
    assert_eq!(seek(&db, "abcxx").as_deref(), Some("abcxx"));
    // The filter of the existing table contains prefixes of five bytes. A seek that uses prefixes
    // of three bytes must not use it.
    set(&db, &[("prefix_extractor", "fixed:3")]);
    assert_eq!(seek(&db, "abcxz").as_deref(), Some("abcyy"));
    put(&db, "abdaa", "1").expect("a put");
    db.flush_all().expect("a flush");
    assert_eq!(seek(&db, "abda").as_deref(), Some("abdaa"));
    assert_eq!(get(&db, "abcyy").as_deref(), Some("1"));
    let properties = property(&db, "rocksdb.aggregated-table-properties");
    assert!(properties.contains("filter block size"), "{properties}");
}

#[test]
fn changed_bounds_apply_to_open_tables_and_logs() {
    let disk = SimStorage::new(1);
    let db = open(&disk, "disable_auto_compactions=true;write_buffer_size=64k");
    for round in 0..40 {
        put(&db, &format!("{round:03}"), "v").expect("a put");
        db.flush_all().expect("a flush");
    }
    let memory = || default_family(&db).table_readers_memory();
    let all = memory();
    db.set_database_options(&[("max_open_files", "20")]).expect("a change");
    let half = memory();
    assert!(half < all * 3 / 4, "{half} of {all}");
    for round in 0..40 {
        assert_eq!(get(&db, &format!("{round:03}")).as_deref(), Some("v"));
    }
    assert!(memory() < all * 3 / 4);
    db.set_database_options(&[("max_open_files", "-1")]).expect("a change");
    for round in 0..40 {
        assert_eq!(get(&db, &format!("{round:03}")).as_deref(), Some("v"));
    }
    assert_eq!(memory(), all);
}

#[test]
fn a_changed_max_total_wal_size_applies_at_once() {
    let disk = SimStorage::new(1);
    let db = open(&disk, "");
    let other = db.create_cf("other", &ColumnFamilyOptions::default()).expect("a column family");
    put(&db, "a", "1").expect("a put");
    let fill = |db: &Db| {
        for key in 0..100u32 {
            let value = [7; 1000];
            db.put_cf_opt(&other, key.to_be_bytes(), value, &WriteOptions::default())
                .expect("a put");
        }
    };
    fill(&db);
    assert_eq!(level_0(&db), 0);
    db.set_database_options(&[("max_total_wal_size", "10k")]).expect("a change");
    fill(&db);
    assert_eq!(level_0(&db), 1, "what the oldest log held is in a table");
}

/// A clock whose waits all return at once.
#[derive(Debug)]
struct Hurrying(Arc<ManualClock>);

impl Clock for Hurrying {
    fn monotonic_ns(&self) -> u64 {
        self.0.monotonic_ns()
    }

    fn wall_us(&self) -> u64 {
        self.0.wall_us()
    }

    fn sleep_until(&self, deadline_ns: u64) {
        self.0.advance(deadline_ns.saturating_sub(self.monotonic_ns()));
    }
}

#[test]
fn a_rate_limiter_can_be_added_and_removed_at_runtime() {
    let disk = SimStorage::new(1);
    let clock = Arc::new(Hurrying(disk.clock()));
    let mut options = simulated(&disk, "");
    options.set_clock(Arc::clone(&clock) as Arc<dyn Clock>);
    let db = Db::open(DB, &options).expect("a new database");
    let flush_ns = |db: &Db| {
        put(db, "a", &"v".repeat(100_000)).expect("a put");
        let begun = clock.monotonic_ns();
        db.flush_all().expect("a flush");
        clock.monotonic_ns() - begun
    };
    set(&db, &[("compression", "kNoCompression")]);
    assert_eq!(flush_ns(&db), 0);
    db.set_database_options(&[("rate_limiter_bytes_per_sec", "10k")]).expect("a change");
    let slow = flush_ns(&db);
    assert!(slow > 5_000_000_000, "{slow}");
    db.set_database_options(&[("rate_limiter_bytes_per_sec", "100k")]).expect("a change");
    let faster = flush_ns(&db);
    assert!(faster > 500_000_000 && faster < slow / 2, "{faster}");
    db.set_database_options(&[("rate_limiter_bytes_per_sec", "0")]).expect("a change");
    assert_eq!(flush_ns(&db), 0);
}

#[test]
fn options_without_effect_are_reported() {
    let disk = SimStorage::new(1);
    let text = "use_adaptive_mutex=true;memtable_huge_page_size=4096;\
                block_based_table_factory={metadata_block_size=8192}";
    drop(open(&disk, text));
    let reported = log(&disk, DB);
    for line in [
        "option use_adaptive_mutex=true has no effect: writers have their own way of waiting",
        "option memtable_huge_page_size=4096 of 'default' has no effect: memtables use",
        "option metadata_block_size=8192 of the tables of 'default' has no effect: filters",
    ] {
        assert!(reported.contains(line), "{line} is not in {reported}");
    }
    assert_eq!(reported.matches(" has no effect: ").count(), 3, "{reported}");
}

#[test]
fn a_running_compaction_keeps_its_initial_options() {
    let directory = tempfile::tempdir().expect("a directory");
    let text = "compression=kNoCompression;disable_auto_compactions=true";
    let mut options = options(text);
    let filter = Arc::new(Halting::default());
    options.add_compaction_filter(tailwater::CompactionFilter::Custom(filter.clone()));
    options.set_from_string("compaction_filter=halting").expect("options");
    let db = Db::open(directory.path(), &options).expect("a new database");
    for _ in 0..2 {
        for key in 0..2000 {
            put(&db, &format!("{key:04}"), &"v".repeat(100)).expect("a put");
        }
        db.flush_all().expect("a flush");
    }
    std::thread::scope(|scope| {
        let compacting = scope.spawn(|| {
            let all = tailwater::CompactRangeOptions::default();
            db.compact_range_cf_opt(&default_family(&db), None, None, &all).expect("a compaction");
        });
        filter.began.wait();
        // Changes options for writing tables while the compaction runs. The outputs of this
        // compaction must still be written with the old options.
        set(&db, &[("compression", "kZSTD"), ("table_factory", "{format_version=5}")]);
        filter.goes_on.wait();
        compacting.join().expect("the thread");
    });
    let path = db.live_files().into_iter().next().expect("a table").path;
    let table = tailwater::inspect::table::TableFile::open(&**db.storage(), &path);
    assert_eq!(table.expect("a table").footer().format_version, 7);
    let size = db.live_files()[0].size;
    assert!(size > 200_000, "{size} bytes, so it is not compressed");
}

/// A compaction filter that waits for the test at the first record of a compaction.
struct Halting {
    began: std::sync::Barrier,
    goes_on: std::sync::Barrier,
    has_halted: AtomicBool,
}

impl Default for Halting {
    fn default() -> Self {
        let barrier = || std::sync::Barrier::new(2);
        Self { began: barrier(), goes_on: barrier(), has_halted: AtomicBool::new(false) }
    }
}

impl tailwater::CustomCompactionFilter for Halting {
    fn name(&self) -> &str {
        "halting"
    }

    fn filter(
        &self,
        _: &tailwater::FilterContext,
        _: &[u8],
        _: tailwater::FilteredValue<'_>,
    ) -> tailwater::FilterDecision {
        if !self.has_halted.swap(true, Ordering::Relaxed) {
            self.began.wait();
            self.goes_on.wait();
        }
        tailwater::FilterDecision::Keep
    }
}

#[test]
fn options_can_change_during_reads_writes_and_compactions() {
    let directory = tempfile::tempdir().expect("a directory");
    let text = "write_buffer_size=64k;level0_file_num_compaction_trigger=2;max_background_jobs=2";
    let db = Db::open(directory.path(), &options(text)).expect("a new database");
    let (done, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let key = |number: u64| format!("{:06}", number * 7919 % 20_000);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..20_000 {
                put(&db, &key(number), &format!("{number}-{}", "v".repeat(80))).expect("a put");
                written.store(number + 1, Ordering::Release);
            }
            done.store(true, Ordering::Release);
        });
        scope.spawn(|| {
            let mut looked = 0;
            while !done.load(Ordering::Acquire) {
                let so_far = written.load(Ordering::Acquire);
                if so_far > 0 {
                    looked = (looked + 4099) % so_far;
                    let value = get(&db, &key(looked)).expect("what was written");
                    assert!(value.starts_with(&format!("{looked}-")), "{value}");
                }
            }
        });
        for of_database in [false, true] {
            let (db, done) = (&db, &done);
            scope.spawn(move || {
                for round in 0.. {
                    if done.load(Ordering::Acquire) {
                        break;
                    }
                    change_something(db, of_database, round);
                }
            });
        }
    });
    for number in 0..20_000 {
        assert!(get(&db, &key(number)).expect("a value").starts_with(&format!("{number}-")));
    }
    db.close().expect("closed");
    let found = crate::support::findings(directory.path(), &OpenOptions::default());
    assert!(found.is_empty(), "{found:?}");
}

/// Changes some options of the database or of a column family. Six consecutive rounds make
/// different changes.
fn change_something(db: &Db, of_database: bool, round: usize) {
    let changes: &[(&str, &str)] = match (of_database, round % 6) {
        (false, 0) => &[("write_buffer_size", "100k"), ("compression", "kZSTD")],
        (false, 1) => &[("table_factory", "{filter_policy=bloomfilter:10;block_size=1k}")],
        (false, 2) => &[("level0_slowdown_writes_trigger", "30"), ("target_file_size_base", "64k")],
        (false, 3) => &[(
            "table_factory",
            "{cache_index_and_filter_blocks=0;no_block_cache=1;format_version=5}",
        )],
        (false, 4) => {
            &[("table_factory", "{no_block_cache=false;cache_index_and_filter_blocks=1}")]
        }
        (false, _) => &[("write_buffer_size", "64k"), ("compression", "kLZ4Compression")],
        (true, 0) => &[("max_background_jobs", "4"), ("max_open_files", "20")],
        (true, 1) => &[("max_subcompactions", "3"), ("writable_file_max_buffer_size", "64k")],
        (true, 2) => &[("max_open_files", "-1"), ("bytes_per_sync", "64k")],
        (true, 3) => &[("max_background_jobs", "1"), ("compaction_readahead_size", "8k")],
        (true, 4) => &[("rate_limiter_bytes_per_sec", "1g"), ("max_total_wal_size", "1m")],
        (true, _) => {
            &[("rate_limiter_bytes_per_sec", "0"), ("writable_file_max_buffer_size", "1m")]
        }
    };
    if of_database {
        db.set_database_options(changes).expect("a change");
    } else {
        db.set_options_cf(&default_family(db), changes).expect("a change");
    }
}

/// Regression test: `open` loaded the options before it took the database's lock. Between these two
/// steps, another opening could take the lock and change options. The options that had been loaded
/// then undid these changes.
#[test]
fn options_changed_before_the_lock_is_taken_are_kept() {
    let disk = SimStorage::new(1);
    open(&disk, "").close().expect("closed");
    let mut late = simulated(&disk, "ttl=60");
    late.set_load_when_opened("max_background_jobs=7");
    let db = open(&disk, "");
    set(&db, &[("write_buffer_size", "1m")]);
    let with_operator = simulated(&disk, "merge_operator=uint64add");
    let with_operator = with_operator.column_family("counters").clone();
    db.create_cf("counters", &with_operator).expect("a column family");
    let dropped = db.create_cf("gone", &with_operator).expect("a column family");
    db.drop_cf(&dropped).expect("dropped");
    db.close().expect("closed");
    for _ in 0..2 {
        let db = Db::open(DB, &late).expect("a database");
        assert!(!db.is_new());
        let options = default_family(&db).options();
        assert_eq!(options.write_buffer_size, 1 << 20);
        assert_ne!(options.ttl, 60, "that is for a database that is made");
        assert_eq!(db.database_options().max_background_jobs, 7);
        let counters = db.cf_handle("counters").expect("a column family");
        let one = 1_u64.to_le_bytes();
        db.merge_cf_opt(&counters, b"k", one, &WriteOptions::default()).expect("a merge");
        let value = db.get_cf_opt(&counters, b"k", &ReadOptions::default()).expect("a read");
        assert!(value.is_some());
        db.close().expect("closed");
        let db = Db::open_read_only(DB, &late).expect("a database");
        assert_eq!(default_family(&db).options().write_buffer_size, 1 << 20);
        assert_eq!(db.database_options().max_background_jobs, 7);
        let counters = db.cf_handle("counters").expect("a column family");
        assert!(db.get_cf_opt(&counters, b"k", &ReadOptions::default()).expect("a read").is_some());
    }
    let other = SimStorage::new(2);
    let mut new = simulated(&other, "ttl=60");
    new.set_load_when_opened("");
    let db = Db::open(DB, &new).expect("a database");
    assert!(db.is_new());
    assert_eq!(default_family(&db).options().ttl, 60);
}
