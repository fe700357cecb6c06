//! A process that is killed while it appends, purges and removes segments: nothing is lost that was
//! acknowledged, and nothing that was purged is there again.

use std::time::Duration;

use tailwater_log::Durability;

use crate::process::{self, Promised, TOPICS};

/// Kills of one log. Its topics grow, so a new one begins now and then.
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
            process::append_until(&directory, has_shared, &mut promised, Some(time))
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
fn what_was_acknowledged_survives_the_process_in_shared_memory() {
    kill_repeatedly(2 * tailwater_testkit::seed::rounds(), true);
}

#[test]
fn what_was_acknowledged_survives_the_process_without_shared_memory() {
    kill_repeatedly(tailwater_testkit::seed::rounds(), false);
}
