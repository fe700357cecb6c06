//! Tests the effects of options that concern a whole database: its opening, its closing, its files
//! and its background work.

use std::time::{Duration, Instant};

use tailwater::{Db, WriteOptions};
use tailwater_io::descriptors::Exhausted;
use tailwater_io::sim::{Fault, FaultPlan, FaultRule, SimStorage};
use tailwater_io::{Operation, Purpose};

use super::support::{DB, Scene, log, names_in, open, options, try_open};

effects! {
    create_options_apply_to_a_missing_or_existing_database shows
        "create_if_missing", "error_if_exists" {
        let disk = SimStorage::new(1);
        assert!(try_open(&disk, "create_if_missing=false").is_err());
        drop(try_open(&disk, "error_if_exists=true").expect("a new database"));
        drop(try_open(&disk, "create_if_missing=false").expect("the database"));
        assert!(try_open(&disk, "error_if_exists=true").is_err());
    }

    missing_families_are_created shows "create_missing_column_families" {
        let disk = SimStorage::new(1);
        let mut options = options(&disk, "");
        options.set_column_family("other", options.column_family("other").clone());
        assert!(Db::open(DB, &options).is_err());
        options.set_from_string("create_missing_column_families=true").expect("options");
        let db = Db::open(DB, &options).expect("a database");
        db.cf_handle("other").expect("a column family");
    }

    the_identity_is_written shows "write_identity_file", "write_dbid_to_manifest" {
        assert_eq!(open("").names("IDENTITY").len(), 1);
        assert_eq!(open("write_identity_file=false").names("IDENTITY").len(), 0);
        let reported = |text: &str| {
            let scene = open(text);
            let number = tailwater::inspect::manifest::current(&scene.disk, DB);
            let number = number.expect("a MANIFEST");
            let state = tailwater::inspect::manifest::state(&scene.disk, DB, number);
            state.expect("a MANIFEST").database_id.is_some()
        };
        assert!(reported(""));
        assert!(!reported("write_dbid_to_manifest=false"));
    }

    the_machine_is_named shows "db_host_id" {
        let scene = open("db_host_id=somewhere");
        scene.put("a", "1");
        scene.flush();
        assert_eq!(scene.properties().db_host_id, b"somewhere");
    }

    closing_flushes shows "avoid_flush_during_shutdown" {
        for (text, found) in [("", true), ("avoid_flush_during_shutdown=true", false)] {
            let scene = open(text);
            let unlogged = WriteOptions::new().with_disable_wal(true);
            scene.db.put_cf_opt(&scene.family(), b"a", b"1", &unlogged).expect("a put");
            scene.db.close().expect("closed");
            assert_eq!(scene.reopen("").get("a").is_some(), found, "{text}");
        }
    }

    recovery_flushes shows "avoid_flush_during_recovery" {
        for (text, tables) in [("", 1), ("avoid_flush_during_recovery=true", 0)] {
            let scene = open("");
            scene.put("a", "1");
            let scene = scene.reopen(text);
            assert_eq!((scene.level_0(), scene.get("a").is_some()), (tables, true), "{text}");
        }
    }

    recovery_flushes_at_the_limit shows "enforce_write_buffer_manager_during_recovery" {
        let limited = "avoid_flush_during_recovery=true;db_write_buffer_size=65536";
        let common = "arena_block_size=4096;disable_auto_compactions=true";
        for (text, flushes) in
            [("", true), ("enforce_write_buffer_manager_during_recovery=false", false)]
        {
            let scene = open(common);
            scene.fill(0, 200, 1000);
            let scene = scene.reopen(&format!("{common};{limited};{text}"));
            assert_eq!(scene.level_0() > 2, flushes, "{text}: {} tables", scene.level_0());
            assert!(scene.get("000199").is_some());
        }
    }

    all_families_are_flushed shows "atomic_flush" {
        for (text, tables) in [("", 1), ("atomic_flush=true", 2)] {
            let scene = open(text);
            let options = scene.family().options();
            let other = scene.db.create_cf("other", &options).expect("a family");
            scene.put("a", "1");
            scene.db.put_cf_opt(&other, b"a", b"1", &WriteOptions::default()).expect("a put");
            scene.flush();
            assert_eq!(scene.db.live_files().len(), tables, "{text}");
        }
    }

    large_manifests_are_rewritten shows "max_manifest_file_size", "max_manifest_space_amp_pct" {
        let manifests = |text: &str| {
            let scene = open(text);
            for key in 0..10 {
                scene.put(&key.to_string(), "1");
                scene.flush();
            }
            scene.calls(Operation::Create, Purpose::Manifest)
        };
        let few = manifests("disable_auto_compactions=true");
        let often = "disable_auto_compactions=true;max_manifest_file_size=1";
        let many = manifests(&format!("{often};max_manifest_space_amp_pct=0"));
        assert!(many > few + 5, "{many} and {few}");
        let bounded_by_contents = manifests(&format!("{often};max_manifest_space_amp_pct=1000"));
        assert!(bounded_by_contents < many, "{bounded_by_contents} and {many}");
    }

    info_logs_are_written_and_kept shows
        "max_log_file_size", "keep_log_file_num", "info_log_level", "db_log_dir",
        "log_file_time_to_roll"
    {
        let rounds = |text: &str| {
            let scene = open(text);
            for key in 0..10 {
                scene.put(&key.to_string(), "1");
                scene.flush();
                scene.disk.clock().advance(1_000_000_000);
            }
            scene
        };
        assert_eq!(rounds("").names("LOG").len(), 1);
        assert!(rounds("max_log_file_size=100").names("LOG").len() > 5);
        assert_eq!(rounds("max_log_file_size=100;keep_log_file_num=3").names("LOG").len(), 3);
        assert_eq!(rounds("log_file_time_to_roll=4").names("LOG").len(), 3);
        assert!(rounds("").log().contains(" INFO "));
        assert!(!rounds("info_log_level=WARN_LEVEL").log().contains(" INFO "));
        let elsewhere = rounds("db_log_dir=/logs");
        assert_eq!(elsewhere.names("LOG").len(), 0);
        assert_eq!(names_in(&elsewhere.disk, "/logs", "LOG").len(), 1);
    }

    space_is_reserved shows "allow_fallocate" {
        for (text, reserves) in [("", true), ("allow_fallocate=false", false)] {
            let scene = open(text);
            scene.put("a", "1");
            scene.flush();
            let reserved = |purpose| scene.calls(Operation::Allocate, purpose) > 0;
            let found = (reserved(Purpose::Wal), reserved(Purpose::FlushWrite));
            assert_eq!(found, (reserves, reserves), "{text}");
        }
    }

    tables_are_written_in_pieces shows "writable_file_max_buffer_size", "bytes_per_sync" {
        let calls = |text: &str, operation| {
            let scene = open(text);
            scene.fill(0, 300, 1000);
            scene.flush();
            scene.calls(operation, Purpose::FlushWrite)
        };
        assert!(calls("", Operation::Write) < 4);
        assert!(calls("writable_file_max_buffer_size=16k", Operation::Write) > 15);
        // Regression test: the buffer was allocated at its maximum size at once, and the process
        // aborted if it had too little memory.
        assert!(calls("writable_file_max_buffer_size=1t", Operation::Write) < 4);
        let pieces = "writable_file_max_buffer_size=16k";
        let begun = calls(pieces, Operation::StartWriteback);
        let often = calls(&format!("{pieces};bytes_per_sync=32k"), Operation::StartWriteback);
        assert!(often > begun + 5, "{often}, {begun}");
    }

    flushes_bypass_the_page_cache shows "use_direct_io_for_flush_and_compaction" {
        for (text, is_direct) in [("", false), ("use_direct_io_for_flush_and_compaction=1", true)] {
            let scene = open(text);
            scene.disk.refuse_direct(DB.as_ref());
            scene.put("a", "1");
            assert_eq!(scene.db.flush_cf(&scene.family()).is_err(), is_direct, "{text}");
        }
    }

    memory_of_all_families_is_bounded shows "db_write_buffer_size" {
        for (text, is_bounded) in [("", false), ("db_write_buffer_size=256k", true)] {
            let scene = open(text);
            scene.fill(0, 600, 1000);
            assert_eq!(scene.level_0() > 0, is_bounded, "{text}");
        }
    }

    background_jobs_run_in_threads shows
        "max_background_jobs", "max_background_compactions", "max_background_flushes" {
        // The number in each name is the index of a thread that compacts or flushes. No other test
        // in this process starts enough such threads to reach these indexes, and each database has
        // an environment of its own.
        for (text, name) in [
            ("max_background_jobs=40", "tailwater-comp29"),
            ("max_background_jobs=48", "tailwater-fl11"),
            ("max_background_flushes=17", "tailwater-fl16"),
            ("max_background_jobs=2;max_background_compactions=24", "tailwater-comp23"),
        ] {
            let disk = SimStorage::new(1);
            let mut options = options(&disk, text);
            options.set_inline_background(false);
            assert!(!has_thread(name));
            let db = Db::open(DB, &options).expect("a new database");
            until(|| has_thread(name));
            drop(db);
        }
    }

    compactions_read_ahead shows "compaction_readahead_size" {
        let reads = |text: &str| {
            let scene = open(&format!("{text};disable_auto_compactions=true"));
            for _ in 0..2 {
                scene.fill(0, 300, 1000);
                scene.flush();
            }
            scene.compact();
            scene.calls(Operation::Read, Purpose::CompactionRead)
        };
        let (few, many) = (reads(""), reads("compaction_readahead_size=8k"));
        assert!(many > few * 3, "{few} and {many}");
    }

    writers_form_groups shows "max_write_batch_group_size_bytes" {
        let written_by_others = |text: &str, is_enough: &dyn Fn(u64) -> bool| {
            let scene = open(text);
            let begun = Instant::now();
            let mut others = 0;
            while others == 0 && !is_enough(others) && begun.elapsed() < Duration::from_secs(60) {
                write_from_many_threads(&scene);
                others = scene.ticker("rocksdb.write.other");
            }
            others
        };
        assert!(written_by_others("", &|others| others > 0) > 0);
        assert_eq!(written_by_others("max_write_batch_group_size_bytes=1", &|_| true), 0);
    }

    flushes_without_space_are_retried shows "bgerror_resume_retry_interval" {
        let disk = SimStorage::new(1);
        let mut options = options(&disk, "bgerror_resume_retry_interval=100");
        options.set_inline_background(false);
        let db = Db::open(DB, &options).expect("a new database");
        let family = db.cf_handle("default").expect("a column family");
        db.put_cf_opt(&family, b"a", b"1", &WriteOptions::default()).expect("a put");
        let no_space = FaultRule::new(Fault::NoSpace).purpose(Purpose::FlushWrite).from(0);
        disk.set_faults(FaultPlan::none().with(no_space));
        assert!(db.flush_cf(&family).is_err());
        // With the default interval, thirty retries would take minutes.
        until(|| log(&disk).matches("a flush found no space").count() > 30);
    }

    resuming_automatically_ends shows "max_bgerror_resume_count" {
        let disk = SimStorage::new(1);
        let mut options = options(&disk, "max_bgerror_resume_count=2");
        options.set_inline_background(false);
        let db = Db::open(DB, &options).expect("a new database");
        let family = db.cf_handle("default").expect("a column family");
        // The directory of a new log cannot be synced for lack of descriptors, which is a failure
        // that refuses writes. Resuming fails, too, since it creates a log.
        db.put_cf_opt(&family, b"a", b"0", &WriteOptions::new()).expect("a put");
        db.flush_cf(&family).expect("a flush");
        let fails = |operation| {
            FaultRule::new(Fault::NoDescriptor(Exhausted::Process)).operation(operation).from(0)
        };
        let faults = [Operation::SyncDirectory, Operation::Create].map(fails);
        disk.set_faults(faults.into_iter().fold(FaultPlan::none(), FaultPlan::with));
        let synced = WriteOptions::new().with_sync(true);
        assert!(db.put_cf_opt(&family, b"a", b"1", &synced).is_err());
        until(|| log(&disk).contains("attempt 2 of 2 to resume failed"));
        assert!(db.background_error().is_some());
        disk.set_faults(FaultPlan::none());
        db.resume().expect("descriptors are available");
    }

    compactions_are_checked_periodically shows "max_compaction_trigger_wakeup_seconds" {
        let disk = SimStorage::new(1);
        let mut options = options(&disk, "max_compaction_trigger_wakeup_seconds=100");
        options.set_inline_background(false);
        let db = Db::open(DB, &options).expect("a new database");
        // A thread may look for a compaction only after the clock was advanced, and then there is
        // no check. So the clock is advanced several times, but not by 12 hours, the default.
        let is_checked = || {
            disk.clock().advance(100_000_000_000);
            (0..60).any(|_| {
                std::thread::sleep(Duration::from_millis(50));
                log(&disk).contains("looking for due compactions")
            })
        };
        assert!((0..20).any(|_| is_checked()));
        db.close().expect("closed");
    }
}

/// Starts eight concurrent threads, each of which puts 200 keys.
fn write_from_many_threads(scene: &Scene) {
    std::thread::scope(|scope| {
        for thread in 0..8 {
            scope.spawn(move || {
                for key in 0..200 {
                    scene.put(&format!("{thread}-{key}"), "1");
                }
            });
        }
    });
}

/// Whether this process has a thread with this name.
fn has_thread(name: &str) -> bool {
    #[expect(clippy::disallowed_methods, reason = "threads are files of the system's here")]
    let threads = std::fs::read_dir("/proc/self/task").expect("threads");
    threads.flatten().any(|thread| {
        #[expect(clippy::disallowed_methods, reason = "names of threads are files, too")]
        let own = std::fs::read_to_string(thread.path().join("comm"));
        // Linux keeps at most 15 bytes of a thread's name.
        own.is_ok_and(|own| own.trim() == &name[..name.len().min(15)])
    })
}

/// Waits until `is_so` returns true. Fails after 60 seconds.
fn until(is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing happened");
        std::thread::sleep(Duration::from_millis(5));
    }
}
