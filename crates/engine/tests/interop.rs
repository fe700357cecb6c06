//! Tests that Tailwater and RocksDB read the same contents from databases that RocksDB writes
//! during the test. The databases have options that no golden database has.
//!
//! The real RocksDB writes each database and reports its contents. Tailwater must find the same
//! contents when it iterates forward and backward, gets every key, and makes random iterator moves.
//! Its verification must find no damage. A failure prints the seed. `TAILWATER_SEED` repeats the
//! run with that seed, and `TAILWATER_ROUNDS` multiplies the number of runs, with different random
//! choices.

#[path = "common/check.rs"]
mod check;
#[path = "interop/live.rs"]
mod live;
#[path = "interop/logs.rs"]
mod logs;
#[path = "common/pairwise.rs"]
mod pairwise;
#[path = "common/random.rs"]
mod random;
#[path = "interop/records.rs"]
mod records;
#[path = "interop/refused.rs"]
mod refused;
#[path = "common/subject.rs"]
mod subject;
#[path = "interop/tables.rs"]
mod tables;
#[path = "interop/trees.rs"]
mod trees;
#[path = "interop/workload.rs"]
mod workload;

use std::path::Path;

use fastrand::Rng;
use subject::Effort;
use tailwater::verify::{self, Severity};
use tailwater::{Db, OpenOptions};
use tailwater_testkit::oracle::{Oracle, Script};
use tailwater_testkit::{directory, seed};
use tempfile::TempDir;

/// Number of random reads of each kind from each column family.
const EFFORT: Effort = Effort { gets: 300, multi_gets: 5, walks: 12, between: |_, _, _| {} };

/// The real RocksDB, a directory for the databases of a test, and a random number generator.
struct Laboratory {
    oracle: Oracle,
    directory: TempDir,
    rng: Rng,
    /// The name of the test and the seed, for messages.
    context: String,
    databases: usize,
}

/// Calls `test` `TAILWATER_ROUNDS` times. Does nothing if the oracle (the real RocksDB) is not
/// available.
fn in_laboratory(part: &str, mut test: impl FnMut(&mut Laboratory)) {
    let Some(oracle) = Oracle::start(part) else { return };
    let seed = seed::rng();
    let context = format!("{part}, seed {}", seed.value());
    let directory = tempfile::tempdir().expect("a directory");

    let mut laboratory = Laboratory { oracle, directory, rng: seed.rng, context, databases: 0 };
    for _ in 0..seed::rounds() {
        test(&mut laboratory);
    }
}

impl Laboratory {
    /// Returns an unused path for the next database.
    fn next_directory(&mut self) -> std::path::PathBuf {
        self.databases += 1;
        self.directory.path().join(self.databases.to_string())
    }

    /// Lets RocksDB run `script`, and compares the contents that RocksDB and Tailwater find in the
    /// database at `path`. `adjust` sets options for Tailwater that the OPTIONS file does not
    /// contain. Checks that Tailwater changes no file. Returns the number of tables.
    fn compare(
        &mut self,
        path: &Path,
        script: Script,
        what: &str,
        adjust: impl FnOnce(&mut OpenOptions),
    ) -> usize {
        let context = format!("{}, {what}", self.context);
        let dump = self.oracle.dump(script).unwrap_or_else(|error| panic!("{context}: {error}"));
        let before = directory::snapshot(path);
        let mut options =
            OpenOptions::load(path).unwrap_or_else(|error| panic!("{context}: {error}"));
        adjust(&mut options);
        let db =
            Db::open_read_only(path, &options).unwrap_or_else(|error| panic!("{context}: {error}"));
        check::holds(&db, &dump, &context);
        subject::ask(&db, &dump, EFFORT, &mut self.rng, &context);
        let report = verify::verify(path, &options);
        let bad = report.findings.iter().filter(|finding| finding.severity != Severity::Note);
        let bad: Vec<_> = bad.collect();
        assert!(bad.is_empty(), "{context}: {bad:#?}");
        directory::assert_unchanged(path, &before);
        before.keys().filter(|path| path.extension().is_some_and(|it| it == "sst")).count()
    }
}
