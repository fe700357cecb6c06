//! Very many databases that are opened and closed while others are loaded.
//!
//! This file has only one test, since it counts the threads, descriptors and memory of the process.
//! `TAILWATER_ROUNDS` multiplies the number of databases that are open at a time.

#![expect(clippy::disallowed_methods, reason = "reads the state of the process in /proc")]

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tailwater::{Db, OpenOptions};
use tailwater_io::Storage as _;
use tailwater_io::posix::PosixStorage;
use tailwater_testkit::filesystem::say;
use tailwater_testkit::seed::rounds;

const AT_A_TIME: usize = 10;
const TURNS: usize = 10;
/// Number of databases that are loaded meanwhile.
const LOADED: usize = 2;
/// Number of descriptors that the loaded databases may have opened meanwhile: they keep their
/// tables open.
const FILES_OF_LOADED: usize = 200;
/// Memory that the process may use in addition after more than one turn, in bytes: the loaded
/// databases fill their memtables and caches.
const MEMORY_OF_LOADED: usize = 64 << 20;

fn options(text: &str) -> OpenOptions {
    let mut options = OpenOptions::default();
    options.set_from_string("create_if_missing=true").expect("options");
    options.set_from_string(text).expect("options");
    options
}

fn count(directory: &str) -> usize {
    PosixStorage::new().list(Path::new(directory)).expect("a directory").len()
}

fn threads() -> usize {
    count("/proc/self/task")
}

/// Returns the resident memory of the process, in bytes.
fn memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("the process's status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") << 10
}

/// Ends the loads when it is dropped, also by a failed assertion.
struct Stop<'s>(&'s AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

fn load(db: &Db, stop: &AtomicBool) {
    for number in 0_u64.. {
        if stop.load(Relaxed) {
            return;
        }
        let key = (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % 50_000).to_be_bytes();
        db.put(key, [b'v'; 100]).expect("a put");
        db.get(key).expect("a get").expect("the value");
    }
}

fn use_briefly(db: &Db, number: usize) {
    for key in 0..20 {
        db.put(format!("{key}"), format!("{number}")).expect("a put");
    }
    if number.is_multiple_of(2) {
        db.flush_all().expect("a flush");
    }
    let value = db.get("7").expect("a get");
    assert_eq!(value.as_deref(), Some(number.to_string().as_bytes()));
}

#[test]
fn threads_descriptors_and_memory_return_to_where_they_were() {
    let at_a_time = AT_A_TIME * rounds().max(1);
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: String| directory.path().join(name);
    let loaded: Vec<_> = (0..LOADED)
        .map(|number| {
            let small = options("write_buffer_size=1M;max_bytes_for_level_base=4M");
            Db::open(path(format!("loaded{number}")), &small).expect("a database")
        })
        .collect();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        for db in &loaded {
            scope.spawn(|| load(db, &stop));
        }
        let (threads_before, files_before) = (threads(), count("/proc/self/fd"));
        let mut memory_after_one = 0;
        for turn in 0..TURNS {
            let databases: Vec<_> = (0..at_a_time)
                .map(|number| {
                    Db::open(path(format!("{number}")), &options("")).expect("a database")
                })
                .collect();
            databases.iter().enumerate().for_each(|(number, db)| use_briefly(db, number));
            let (threads, files) = (threads(), count("/proc/self/fd"));
            databases.iter().for_each(|db| db.close().expect("closing"));
            drop(databases);
            if turn == 0 {
                say(&format!(
                    "{} more databases: {} more threads, {} more descriptors",
                    at_a_time,
                    threads - threads_before,
                    files - files_before,
                ));
                memory_after_one = memory();
            }
        }
        let deadline = Instant::now() + Duration::from_secs(60);
        // A thread that has nothing to do ends after ten seconds.
        while threads() > threads_before && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(100));
        }
        assert!(threads() <= threads_before, "{} threads, {threads_before} before", threads());
        let files = count("/proc/self/fd");
        assert!(files <= files_before + FILES_OF_LOADED, "{files} files, {files_before} before");
        let memory = memory();
        say(&format!("{} MiB, and {} MiB after one turn", memory >> 20, memory_after_one >> 20));
        assert!(memory <= memory_after_one + MEMORY_OF_LOADED, "{memory}, {memory_after_one}");
    });
}
