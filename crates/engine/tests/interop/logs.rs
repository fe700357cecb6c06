//! Write-ahead logs that are compressed, recycled, or in a directory of their own. RocksDB closes a
//! database, and Tailwater reads the logs that RocksDB left.

use std::path::{Path, PathBuf};

use crate::workload::{self, Plan};
use crate::{Laboratory, in_laboratory, pairwise};
use tailwater::{Db, OpenOptions};
use tailwater_testkit::directory;
use tailwater_testkit::oracle::Script;

/// Options that affect the format and the files of the logs. Each inner list has alternatives, of
/// which a database gets one.
const FACTORS: [&[&str]; 6] = [
    &["", "wal_compression=kZSTD"],
    &["", "recycle_log_file_num=2"],
    &["", "manual_wal_flush=true"],
    &["", "track_and_verify_wals_in_manifest=true", "track_and_verify_wals=true"],
    &["", "two_write_queues=true", "allow_concurrent_memtable_write=false"],
    &["avoid_flush_during_shutdown=true", "avoid_flush_during_recovery=true"],
];

/// Number of times that RocksDB opens a database and writes to it.
const SESSIONS: usize = 3;

fn session(laboratory: &mut Laboratory, path: &Path, options: &str) -> Script {
    let families = [("default", "write_buffer_size=65536"), ("other", "")];
    let plans = [
        Plan { flushes: 1, longest: 40_000, ..Plan::new(families[0]) },
        Plan { flushes: 0, compactions: 0, ranges: 5, ..Plan::new(families[1]) },
    ];
    let mut script = Script::open(path, options, &families);
    workload::write(&mut script, &mut laboratory.rng, &plans, 500);
    script
}

#[test]
fn logs_of_every_kind() {
    in_laboratory("logs of every kind", |laboratory| {
        let sizes = FACTORS.map(<[_]>::len);
        for choice in pairwise::combinations(&sizes, &mut laboratory.rng) {
            let options: Vec<&str> = FACTORS
                .iter()
                .zip(&choice)
                .map(|(values, &at)| values[at])
                .filter(|value| !value.is_empty())
                .collect();
            let options = options.join(";");
            let path = laboratory.next_directory();
            for number in 0..SESSIONS {
                let script = session(laboratory, &path, &options);
                laboratory.compare(&path, script, &format!("{options}, session {number}"), |_| {});
            }
        }
    });
}

#[test]
fn logs_in_a_directory_of_their_own() {
    in_laboratory("logs in a directory of their own", |laboratory| {
        let path = laboratory.next_directory();
        let logs = laboratory.next_directory();
        let options = format!("wal_dir={};avoid_flush_during_shutdown=true", logs.display());
        for number in 0..SESSIONS {
            let script = session(laboratory, &path, &options);
            laboratory.compare(&path, script, &format!("session {number}"), |_| {});
        }
    });
}

#[test]
fn logged_and_unlogged_writes_alternate() {
    in_laboratory("logged and unlogged writes alternate", |laboratory| {
        let path = laboratory.next_directory();
        let families = [("default", ""), ("other", "")];
        let plans = families.map(|family| Plan { ranges: 5, ..Plan::new(family) });
        let mut script = Script::open(&path, "atomic_flush=true", &families);
        for logged in ["off", "on", "off", "on"] {
            script.line(&[&"log", &logged]);
            workload::write(&mut script, &mut laboratory.rng, &plans, 300);
        }
        laboratory.compare(&path, script, "atomic flush", |_| {});
    });
}

/// Tests that Tailwater detects that a log is missing. It knows about the log from the MANIFEST, in
/// which RocksDB records each log after it has synced and closed it.
#[test]
#[expect(clippy::disallowed_methods, reason = "damages a database from outside")]
fn a_missing_log_tracked_by_rocksdb_is_detected() {
    in_laboratory("a lost log that RocksDB tracked", |laboratory| {
        let path = laboratory.next_directory();
        let options = "track_and_verify_wals_in_manifest=true;avoid_flush_during_shutdown=true";
        let mut script = Script::open(&path, options, &[("default", ""), ("other", "")]);
        script.put("other", b"only in the first log", b"1");
        script.put("default", b"k", b"1");
        // The flush closes the first log. That log is still needed, since it has an unflushed write
        // to the column family `other`.
        script.flush("default");
        script.put("default", b"l", b"1");
        script.line(&[&"close"]);
        laboratory.oracle.run(&script).expect("a database");
        let names = directory::snapshot(&path).into_keys();
        let is_log = |name: &PathBuf| name.extension().is_some_and(|ending| ending == "log");
        let logs: Vec<PathBuf> = names.filter(is_log).collect();
        assert_eq!(logs.len(), 2, "{logs:?}");
        let aside = laboratory.next_directory();
        let log = path.join(&logs[0]);
        std::fs::rename(&log, &aside).expect("a log with another name");
        let open = || Db::open(&path, &OpenOptions::load(&path).expect("options")).map(drop);
        for error in [
            open().expect_err("a log is missing"),
            Db::open_read_only(&path, &OpenOptions::default()).map(drop).expect_err("the same"),
        ] {
            assert!(error.to_string().contains(&*logs[0].to_string_lossy()), "{error}");
        }
        std::fs::rename(&aside, &log).expect("the log with its name");
        open().expect("a whole database");
    });
}
