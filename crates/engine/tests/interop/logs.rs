//! Write-ahead logs: compressed, recycled, elsewhere; read in every state a session leaves them in.

use std::path::Path;

use crate::workload::{self, Plan};
use crate::{Laboratory, in_laboratory, pairwise};
use tailwater_testkit::oracle::Script;

/// Options of a database that say how its logs look.
const FACTORS: [&[&str]; 6] = [
    &["", "wal_compression=kZSTD"],
    &["", "recycle_log_file_num=2"],
    &["", "manual_wal_flush=true"],
    &["", "track_and_verify_wals_in_manifest=true", "track_and_verify_wals=true"],
    &["", "two_write_queues=true", "allow_concurrent_memtable_write=false"],
    &["avoid_flush_during_shutdown=true", "avoid_flush_during_recovery=true"],
];

/// How many times a database is opened and written to.
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
fn writes_past_the_log_and_into_it() {
    in_laboratory("writes past the log and into it", |laboratory| {
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
