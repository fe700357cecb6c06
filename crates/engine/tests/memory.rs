//! Tests that reading a whole database takes no more memory than the block cache and a fixed
//! amount.
//!
//! The real RocksDB writes a database. One process then reads all of it, as a dump does, and
//! another process verifies it. The test prints the peak resident memory of each process and
//! compares it with the bound. `TAILWATER_MEMORY_MIB` sets the size of the database.

use std::path::{Path, PathBuf};
use std::process::Command;

use tailwater::verify::{self, Severity};
use tailwater::{Db, OpenOptions, ReadOptions};
use tailwater_testkit::oracle::{Oracle, Script};

/// Size of the database unless `TAILWATER_MEMORY_MIB` is set, in MiB.
const DEFAULT_MIB: u64 = 200;
/// Length of a value, in bytes. Long values mean that few entries have to be written.
const VALUE_LENGTH: u64 = 2000;
/// Capacity of the block cache, in MiB.
const CACHE_MIB: u64 = 32;
/// Maximum resident memory of a process beyond the capacity of the block cache, in MiB.
const SHARE_MIB: u64 = 128;

/// Environment variables that tell a child process what to do and the path of the database.
const WORK: &str = "TAILWATER_MEMORY_WORK";
const DATABASE: &str = "TAILWATER_MEMORY_DATABASE";

/// What a child process does.
#[derive(Debug, Clone, Copy)]
enum Work {
    Dump,
    Verify,
}

#[test]
fn reading_everything_takes_little_memory() {
    if let Some(work) = std::env::var_os(WORK) {
        let database = PathBuf::from(std::env::var_os(DATABASE).expect("a database"));
        let work = if work == "dump" { Work::Dump } else { Work::Verify };
        return work.run(&database);
    }
    let Some(mut oracle) = Oracle::start("the memory of dump and verify") else { return };
    let mib = std::env::var("TAILWATER_MEMORY_MIB");
    let mib = mib.map_or(DEFAULT_MIB, |mib| mib.parse().expect("a number of MiB"));
    let directory = tempfile::tempdir().expect("a directory");
    let entries = mib * 1024 * 1024 / VALUE_LENGTH;
    let options = "compression=kNoCompression;\
        block_based_table_factory={filter_policy=bloomfilter:10}";
    let mut script = Script::open(directory.path(), "", &[("default", options)]);
    script.line(&[&"log", &"off"]);
    script.line(&[&"fill", &"default", &entries, &1_000_000_000_000_u64, &VALUE_LENGTH, &1]);
    script.flush("default");
    script.line(&[&"close"]);
    oracle.run(&script).expect("a database");
    drop(oracle);
    for work in ["dump", "verify"] {
        let peak_mib = peak_of(work, directory.path());
        println!("{work} of {mib} MiB: {peak_mib} MiB at most, {CACHE_MIB} of them may be cache");
        assert!(peak_mib <= CACHE_MIB + SHARE_MIB, "{work} took {peak_mib} MiB");
    }
}

/// Runs this test in a child process that does `work`. Returns its peak resident memory, in MiB.
fn peak_of(work: &str, database: &Path) -> u64 {
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "reading_everything_takes_little_memory", "--nocapture"])
        .env(WORK, work)
        .env(DATABASE, database)
        .output()
        .expect("a process");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{work}: {text}{}", String::from_utf8_lossy(&output.stderr));
    let peak = text.lines().find_map(|line| line.strip_prefix("peak KiB: "));
    let peak: u64 = peak.expect("a peak").trim().parse().expect("a number");
    peak / 1024
}

impl Work {
    fn run(self, database: &Path) {
        let mut options = OpenOptions::load(database).expect("an OPTIONS file");
        let cache = format!("block_based_table_factory={{block_cache={}}}", CACHE_MIB << 20);
        options.set_from_string(&cache).expect("a cache");
        match self {
            Self::Dump => dump(database, &options),
            Self::Verify => {
                let report = verify::verify(database, &options);
                assert!(report.worst() <= Some(Severity::Note), "{:?}", report.findings);
            }
        }
        println!("\npeak KiB: {}", peak_resident_kib());
    }
}

/// Reads every entry as a dump does: in total order, with readahead, and without filling the block
/// cache.
fn dump(database: &Path, options: &OpenOptions) {
    let db = Db::open_read_only(database, options).expect("the database");
    let read_options = ReadOptions::new()
        .with_fill_cache(false)
        .with_total_order_seek(true)
        .with_readahead_size(512 << 10);
    let mut bytes = 0;
    for family in &db.column_families() {
        let mut iterator = db.raw_iterator_cf_opt(family, &read_options).expect("an iterator");
        iterator.seek_to_first().expect("a seek");
        while let Some((key, value)) = iterator.item() {
            bytes += key.len() + value.len();
            iterator.next().expect("a step");
        }
    }
    assert!(bytes > 0, "nothing was read");
}

/// Returns the peak resident memory of this process, in KiB.
#[expect(clippy::disallowed_methods, reason = "asks the system about this process")]
fn peak_resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("this process's status");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    peak.trim().trim_end_matches(" kB").parse().expect("a number")
}
