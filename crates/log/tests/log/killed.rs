//! A process is killed while it appends, purges and removes segments. No acknowledged message may
//! be lost, and no purged message may reappear.

use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;
use std::time::Duration;

use tailwater_log::Durability;
use tailwater_testkit::filesystem::say;

use crate::process::{self, Promised, TOPICS};

/// Number of times that the process of one log is killed, before the test continues with a new log.
/// A new log is needed because the topics grow each time.
const LIVES: usize = 6;

fn kill_repeatedly(logs: usize, has_shared: bool) {
    let mut seed = tailwater_testkit::seed::rng();
    eprintln!("TAILWATER_SEED={}", seed.value());
    for _ in 0..logs {
        let scratch = tempfile::tempdir().expect("a directory");
        let directory = scratch.path().join("log");
        let mut promised = [Promised::default(); TOPICS.len()];
        for life in 0..LIVES {
            let time = Duration::from_millis(seed.rng.u64(1..150));
            process::append_until(&directory, has_shared, false, &mut promised, Some(time))
                .unwrap_or_else(|error| panic!("life {life}: {error}"));
            let found = process::find(&directory, has_shared)
                .unwrap_or_else(|error| panic!("life {life}: {error}"));
            let survives = |durability| durability != Durability::Memory;
            process::check(&found, &promised, survives)
                .unwrap_or_else(|error| panic!("life {life}: {error}"));
        }
    }
}

#[test]
fn acknowledged_messages_survive_the_process_in_shared_memory() {
    kill_repeatedly(2 * tailwater_testkit::seed::rounds(), true);
}

#[test]
fn acknowledged_messages_survive_the_process_without_shared_memory() {
    kill_repeatedly(tailwater_testkit::seed::rounds(), false);
}

/// A dead process has left acknowledged batches in shared memory. A log whose options use no shared
/// memory must refuse to open. Otherwise these batches would be missing, and a later process that
/// uses the shared memory again would take them for new batches.
#[test]
fn a_log_does_not_open_without_the_shared_memory_of_a_dead_process() {
    let scratch = tempfile::tempdir().expect("a directory");
    let directory = scratch.path().join("log");
    let mut promised = [Promised::default(); TOPICS.len()];
    let time = Duration::from_millis(100);
    process::append_until(&directory, true, false, &mut promised, Some(time))
        .expect("appends until the kill");
    if !process::has_shared_memory() {
        return say("LEFT OUT: memory of a dead process: there is no shared memory in /dev/shm");
    }
    let error = process::find(&directory, false).expect_err("the log refuses to open");
    assert!(error.contains("left acknowledged batches in /dev/shm/"), "{error}");
    if !refuses_foreign_memory(&directory, &error) {
        say("LEFT OUT: memory of another user, which only root can make");
    }
    // The shared memory belongs to the original directory, so a copy of the directory can be opened
    // without it.
    let copy = scratch.path().join("copy");
    let copied = std::process::Command::new("cp").arg("-r").args([&directory, &copy]).status();
    assert!(copied.expect("cp").success());
    process::find(&copy, false).expect("a copy opens");
    let found = process::find(&directory, true).expect("the log opens");
    process::check(&found, &promised, |durability| durability != Durability::Memory)
        .expect("everything acknowledged");
}

/// Temporarily changes the owner of a log's shared memory, and checks that the log does not open
/// while another user owns the memory. Finds the memory's path in the text `error`. Returns false
/// if this process may not change the owner.
fn refuses_foreign_memory(directory: &Path, error: &str) -> bool {
    let left = error.split_once("batches in ").and_then(|(_, rest)| rest.split_once(": "));
    let left = Path::new(left.expect("the error names a directory").0);
    let own = left.metadata().expect("metadata").uid();
    if chown(left, Some(own + 1), None).is_err() {
        return false;
    }
    let refused = process::find(directory, false);
    chown(left, Some(own), None).expect("a change of the owner");
    let error = refused.expect_err("the log refuses to open");
    assert!(error.contains(&left.display().to_string()), "{error}");
    true
}
