//! A process is killed while its threads write. Every batch that it reported as acknowledged must
//! be in the database afterwards.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use tailwater::{ColumnFamily, Db, OpenOptions, WriteOptions};
use tailwater_testkit::seed;

use crate::ledger::Ledger;
use crate::scene::{Place, check_at_rest, families, with_families};

/// Environment variable with the directory to which a process writes until it is killed.
const DIRECTORY: &str = "TAILWATER_CONCURRENCY_DIRECTORY";
/// Prefix of a line that reports an acknowledged batch of a writer.
const ACKNOWLEDGED: &str = "acknowledged ";
const SLOTS: [usize; 4] = [2, 70, 1, 5];

/// Writes until the process is killed, and prints the acknowledged batches.
fn write_on(directory: &Path) {
    let options = with_families(OpenOptions::default(), "");
    let db = Db::open(directory, &options).expect("the database");
    let ledger = Ledger::new(&SLOTS, 100);
    let ids: Vec<u32> = families(&db).iter().map(ColumnFamily::id).collect();
    thread::scope(|scope| {
        for writer in 0..ledger.writers() {
            let (db, ledger, ids) = (&db, &ledger, &ids);
            scope.spawn(move || {
                loop {
                    let (number, mut batch) = ledger.begin(writer, ids);
                    let sync = number.is_multiple_of(20);
                    let options = WriteOptions::new().with_sync(sync);
                    db.write_opt(&mut batch, &options).expect("a write");
                    ledger.acknowledge(writer, number);
                    let mut out = std::io::stdout().lock();
                    // The process that reads these lines may end before this one.
                    let _ = writeln!(out, "{ACKNOWLEDGED}{writer} {number}");
                }
            });
        }
    });
}

#[test]
fn acknowledged_writes_of_a_killed_process_are_found() {
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        return write_on(&PathBuf::from(directory));
    }
    let mut seed = seed::rng();
    println!("seed {}", seed.value());
    for _ in 0..3 * seed::rounds() {
        let place = Place::Files(tempfile::tempdir().expect("a directory"));
        let ledger = acknowledged_before_the_end(&place.directory(), seed.rng.usize(1..1500));
        check_at_rest(&place.open(""), &ledger).expect("what was acknowledged");
    }
}

/// Starts a writing process, and kills it after it has reported this many acknowledged batches.
/// Returns a ledger with the reported batches.
fn acknowledged_before_the_end(directory: &Path, batches: usize) -> Ledger {
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "process::acknowledged_writes_of_a_killed_process_are_found"])
        .args(["--nocapture", "--test-threads=1"])
        .env(DIRECTORY, directory)
        .stdout(Stdio::piped())
        .spawn()
        .expect("a process");
    let mut out = BufReader::new(child.stdout.take().expect("its output"));
    let ledger = Ledger::new(&SLOTS, 100);
    (0..ledger.writers()).for_each(|writer| ledger.recall(writer, 0));
    let (mut count, mut line) = (0, String::new());
    while out.read_line(&mut line).expect("a line") > 0 {
        // The last line may be incomplete.
        let whole = line.strip_prefix(ACKNOWLEDGED).and_then(|line| line.strip_suffix('\n'));
        if let Some((writer, number)) = whole.and_then(|numbers| numbers.split_once(' ')) {
            let number = number.parse().expect("a number");
            ledger.recall(writer.parse().expect("a writer"), number);
            count += 1;
        }
        if count == batches {
            child.kill().expect("a process to kill");
        }
        line.clear();
    }
    child.wait().expect("its end");
    assert!(count >= batches, "it ended on its own");
    ledger
}
