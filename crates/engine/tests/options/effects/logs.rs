//! Effects of the options of the write-ahead logs.

use std::path::Path;
use std::sync::atomic::Ordering;

use tailwater::{ColumnFamily, Db, OpenOptions, WriteOptions};
use tailwater_io::sim::SimStorage;
use tailwater_io::{Create, IoMode, Operation, Purpose, Storage};

use super::support::{DB, Scene, names_in, open, options, read, try_open};
use super::watched::watched;

fn synced_put(scene: &Scene, key: &str, value: &str) {
    let synced = WriteOptions::new().with_sync(true);
    let (key, value) = (key.as_bytes(), value.as_bytes());
    scene.db.put_cf_opt(&scene.family(), key, value, &synced).expect("a put");
}

/// Returns the contents of the newest log.
fn newest_log(scene: &Scene) -> Vec<u8> {
    let name = scene.names(".log").into_iter().max().expect("a log");
    read(&scene.disk, &Path::new(DB).join(name))
}

fn put(db: &Db, family: &ColumnFamily, key: &[u8]) {
    db.put_cf_opt(family, key, b"1", &WriteOptions::default()).expect("a put");
}

effects! {
    logs_have_their_directory shows "wal_dir" {
        let scene = open("wal_dir=/logs");
        synced_put(&scene, "a", "1");
        assert_eq!(scene.names(".log").len(), 0);
        assert_eq!(names_in(&scene.disk, "/logs", ".log").len(), 1);
    }

    logs_are_compressed shows "wal_compression" {
        let length = |text: &str| {
            let scene = open(text);
            synced_put(&scene, "a", &"v".repeat(10_000));
            newest_log(&scene).iter().filter(|byte| **byte == b'v').count()
        };
        assert!(length("") >= 10_000);
        assert!(length("wal_compression=kZSTD") < 1000);
    }

    logs_bypass_the_page_cache shows "wal_io_mode", "use_direct_io_for_wal" {
        for (text, mode) in [
            ("", IoMode::Buffered),
            ("wal_io_mode=direct", IoMode::Direct),
            ("wal_io_mode=auto", IoMode::Buffered),
            ("use_direct_io_for_wal=true", IoMode::Direct),
            ("use_direct_io_for_wal=true;wal_io_mode=buffered", IoMode::Buffered),
        ] {
            let scene = open(text);
            synced_put(&scene, "a", "1");
            let openings = scene.disk.openings().into_iter();
            let mut logs = openings.filter(|it| it.path.extension().is_some_and(|it| it == "log"));
            assert_eq!(logs.next_back().map(|it| it.mode), Some(mode), "{text}");
        }
    }

    direct_logs_are_preallocated shows "wal_preallocation_block_size" {
        for (space, length) in [(0, 4096), (10_000, 12_288), (1 << 20, 1 << 20)] {
            let text = format!("wal_io_mode=direct;wal_preallocation_block_size={space}");
            let scene = open(&text);
            synced_put(&scene, "a", "1");
            assert_eq!(newest_log(&scene).len(), length, "{text}");
        }
    }

    log_records_are_buffered shows "manual_wal_flush" {
        for (text, holds) in [("", false), ("manual_wal_flush=true", true)] {
            let scene = open(text);
            let before = scene.calls(Operation::Write, Purpose::Wal);
            scene.put("a", "1");
            let written = scene.calls(Operation::Write, Purpose::Wal) > before;
            assert_eq!(written, !holds, "{text}");
        }
    }

    logs_are_recycled shows "recycle_log_file_num" {
        for (text, recycles) in [("", false), ("recycle_log_file_num=2", true)] {
            let scene = open(text);
            for key in 0..5 {
                scene.put(&key.to_string(), "1");
                scene.flush();
            }
            let calls = scene.disk.calls();
            let renamed = calls.iter().any(|call| {
                let is_log = call.path.extension().is_some_and(|end| end == "log");
                call.operation == Operation::Rename && is_log
            });
            assert_eq!(renamed, recycles, "{text}");
        }
    }

    tracked_logs_must_exist shows "track_and_verify_wals" {
        for (text, is_refused) in [("", false), ("track_and_verify_wals=true;", true)] {
            let scene = open(text);
            scene.put("a", "1");
            let disk = scene.disk.clone();
            drop(scene);
            for log in names_in(&disk, DB, ".log") {
                disk.remove(&Path::new(DB).join(log)).expect("removed");
            }
            // If a log that the MANIFEST lists is missing, all recovery modes except this one
            // refuse to open the database, whether `track_and_verify_wals` is set or not.
            let text = format!("{text}wal_recovery_mode=kSkipAnyCorruptedRecords");
            let for_reading = Db::open_read_only(DB, &options(&disk, &text));
            assert_eq!(for_reading.is_err(), is_refused, "{text}");
            assert_eq!(try_open(&disk, &text).is_err(), is_refused, "{text}");
        }
    }

    damage_is_treated_by_the_recovery_mode shows "wal_recovery_mode" {
        let opens = |mode: &str| {
            let scene = open("");
            synced_put(&scene, "a", "1");
            synced_put(&scene, "b", "2");
            let disk = scene.disk.clone();
            drop(scene);
            let name = names_in(&disk, DB, ".log").into_iter().max().expect("a log");
            let path = Path::new(DB).join(name);
            let mut bytes = read(&disk, &path);
            let at = bytes.len() - 1;
            bytes[at] ^= 1;
            let created = disk.create(&path, Create::Existing, IoMode::Buffered, Purpose::Wal);
            let mut file = created.expect("a file");
            file.write_all_at(&bytes, 0, Purpose::Wal).expect("a write");
            drop(file);
            try_open(&disk, &format!("wal_recovery_mode={mode}")).is_ok()
        };
        assert!(opens("kPointInTimeRecovery"));
        assert!(!opens("kAbsoluteConsistency"));
    }

    syncs_include_metadata shows "use_fsync" {
        for (text, is_full) in [("", false), ("use_fsync=true", true)] {
            let (storage, full_syncs) = watched(&SimStorage::new(1));
            let mut options = OpenOptions::with_storage(storage);
            options.set_from_string("create_if_missing=true").expect("options");
            options.set_from_string(text).expect("options");
            let db = Db::open(DB, &options).expect("a new database");
            let family = db.cf_handle("default").expect("a column family");
            let synced = WriteOptions::new().with_sync(true);
            let before = full_syncs.load(Ordering::Relaxed);
            db.put_cf_opt(&family, b"a", b"1", &synced).expect("a put");
            assert_eq!(full_syncs.load(Ordering::Relaxed) > before, is_full, "{text}");
        }
    }

    writeback_of_logs_is_started shows "wal_bytes_per_sync" {
        let begun = |text: &str| {
            let scene = open(text);
            scene.fill(0, 100, 1000);
            scene.calls(Operation::StartWriteback, Purpose::Wal)
        };
        assert_eq!(begun(""), 0);
        assert!(begun("wal_bytes_per_sync=16k") > 3);
    }

    all_logs_are_bounded shows "max_total_wal_size" {
        for (text, tables) in [("", 0), ("max_total_wal_size=20k", 1)] {
            let scene = open(text);
            let options = scene.family().options();
            let other = scene.db.create_cf("other", &options).expect("a family");
            put(&scene.db, &other, b"a");
            scene.fill(0, 100, 1000);
            let of_other = scene.db.live_files().into_iter();
            let of_other = of_other.filter(|file| file.column_family == "other").count();
            assert_eq!(of_other, tables, "{text}");
        }
    }
}
