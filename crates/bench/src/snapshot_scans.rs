//! Scans of one snapshot, with and without iterators that refresh themselves.
//!
//! An iterator that refreshes itself moves to the current version of the column family while it
//! keeps the snapshot's view, so that it does not pin old files. RocksDB introduced such iterators
//! in pull request 13354. This module repeats the experiment of that pull request with the same
//! parameters. Entries with keys of 32 bytes and values of 512 bytes are written into one memtable,
//! which recovery flushes when the database is opened again. Each operation then creates an
//! iterator with the same snapshot, seeks a random key and steps over many entries. At a fixed
//! interval, by default once a second, a new version of the column family is installed, so that
//! refreshing iterators have a version to move to. Both kinds of iterators run at the same time,
//! each on its own database, so that load of other processes affects both; or, with less memory, in
//! turn on one database. A scan of everything brings it into the block cache beforehand.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use fastrand::Rng;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tailwater_latency::engine::Engine;
use tailwater_latency::entries::{self, Values};
use tailwater_latency::experiment::{Finished, Measured, Table, variation};
use tailwater_latency::files::Temporary;
use tailwater_latency::numbers::rate;
use tailwater_latency::parsing::at_least_one;
use tailwater_latency::say;

use crate::store::{Failure, Scanned};
use crate::subjects::Subjects;

/// Length of keys, in bytes.
const KEY_BYTES: usize = 32;
/// Length of values, in bytes.
const VALUE_BYTES: usize = 512;
/// Options for writing the entries, and for scanning them.
const OPTIONS: &str = "max_write_buffer_number=2;compression=kNoCompression";
/// Size of the memtable and of the block cache, in bytes per entry. Both are large enough for all
/// entries.
const MEMORY_PER_ENTRY: u64 = 1000;
/// Minimum size of the block cache, in bytes.
const BLOCK_CACHE_MIN: u64 = 4 << 30;
/// Number of snapshots taken to measure the cost of one snapshot.
const SNAPSHOTS: u32 = 1_000_000;

/// A key.
pub type Key = [u8; KEY_BYTES];

/// The command's arguments.
#[derive(Debug, Args)]
pub struct SnapshotScanArguments {
    /// Number of entries in the databases.
    #[arg(long, default_value_t = 1_000_000)]
    entries: u64,
    /// Comma-separated numbers of entries that a scan visits after its seek. Each number has its
    /// own row.
    #[arg(long, value_delimiter = ',', default_value = "100,20000,400000")]
    seek_nexts: Vec<u64>,
    /// Total number of entries that the scans of one run visit.
    #[arg(long, default_value_t = 200_000_000)]
    steps: u64,
    /// Scan with both kinds of iterators in turn, on one database.
    #[arg(long)]
    in_turn: bool,
    /// Scan with the read option async_io.
    #[arg(long)]
    async_io: bool,
    /// Number of runs for each number of entries in --seek-nexts.
    #[arg(long, default_value_t = 3, value_parser = at_least_one)]
    rounds: usize,
    /// Interval between installations of a new version, in milliseconds.
    #[arg(long, default_value_t = 1000)]
    version_ms: u64,
    #[command(flatten)]
    subjects: Subjects,
}

/// The scans that one kind of iterator performs in one run.
#[derive(Debug, Clone, Copy)]
pub struct Scans {
    /// Number of scans.
    pub count: u64,
    /// Maximum number of entries that each scan visits after its seek.
    pub steps: u64,
    /// Whether the iterators refresh themselves.
    pub refreshes: bool,
    /// Whether the iterators read with `async_io`.
    pub async_io: bool,
    entries: u64,
}

impl Scans {
    /// Returns the start key of each scan, after which there are as many entries as it has steps.
    pub fn keys(&self) -> impl Iterator<Item = Key> {
        let starts = self.entries.saturating_sub(self.steps).max(1);
        let mut rng = Rng::with_seed(self.steps);
        (0..self.count).map(move |_| key(rng.u64(..starts)))
    }
}

/// An engine that can scan a snapshot. It opens a database, or creates it.
pub type ScanEngine = Engine<dyn ScanSubject>;

/// An open database of a [`ScanEngine`]. All methods return the errors of the engine.
pub trait ScanSubject: Sync {
    /// Puts an entry.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Failure>;

    /// Takes a snapshot and performs all `scans` of it, each with a new iterator.
    fn scan(&self, scans: &Scans) -> Result<Scanned, Failure>;

    /// Takes a snapshot and calls `visit` with the key and value of each of its entries.
    /// `refreshes` says whether the iterator refreshes itself.
    fn walk(&self, refreshes: bool, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Failure>;

    /// Returns the value of a numeric property, given RocksDB's name for it. An engine that does
    /// not know the name returns an error.
    fn number(&self, property: &str) -> Result<u64, Failure>;

    /// Waits until no background work is left.
    fn settle(&self) -> Result<(), Failure>;

    /// Takes a snapshot and releases it.
    fn take_snapshot(&self) -> Result<(), Failure>;

    /// Installs a new version of the column family, with the same contents.
    fn renew_version(&self) -> Result<(), Failure>;

    /// Returns the numbers of block cache hits and misses since the database was opened.
    fn block_cache_lookups(&self) -> Result<[u64; 2], Failure>;
}

/// A row of the table.
#[derive(Debug, Serialize)]
struct Row {
    engine: &'static str,
    steps: u64,
    iterators: &'static str,
}

/// The results of one kind of iterator in one run.
#[derive(Debug, Serialize, Deserialize)]
struct Run {
    scans_per_second: f64,
    megabytes_per_second: f64,
    /// Fraction of the block lookups that were hits in the block cache, 0 to 1.
    hits: f64,
}

impl SnapshotScanArguments {
    /// Runs the command; its table is in Markdown.
    pub(crate) fn run(&self, known: &[ScanEngine]) -> Result<Finished, Failure> {
        let mut table =
            Table::new("engine<|steps of a scan>|iterators<|scans/s>|CV>|MB/s>|block cache hits>");
        let (mut snapshots, mut measured) = (String::new(), Vec::new());
        for engine in known.iter().filter(|engine| self.subjects.wants(engine.name)) {
            let name = engine.name;
            let databases = if self.in_turn { 1 } else { 2 };
            let directories: Vec<_> =
                (0..databases).map(|_| self.fill(engine)).collect::<Result<_, _>>()?;
            let options = self.subjects.options_over(&self.scanning());
            // `fill` left the entries in the log, so opening the database flushes them to tables.
            let open = |directory: &Temporary| (engine.open)(directory.path(), &options);
            let subjects: Vec<_> = directories.iter().map(open).collect::<Result<_, _>>()?;
            let entries = self.entries;
            let all =
                Scans { count: 1, steps: entries, refreshes: false, async_io: false, entries };
            for subject in &subjects {
                subject.scan(&all)?;
            }
            for &steps in &self.seek_nexts {
                let mut runs = [Vec::new(), Vec::new()];
                for round in 0..self.rounds {
                    say!("{name}: {steps} steps, run {}", round + 1);
                    for (runs, run) in runs.iter_mut().zip(self.run_both(&subjects, steps)?) {
                        runs.push(run);
                    }
                }
                for (runs, iterators) in runs.into_iter().zip(["plain", "refreshing"]) {
                    let of_runs: Vec<_> = runs.iter().map(|run| run.scans_per_second).collect();
                    let row = Measured::new(Row { engine: name, steps, iterators }, runs)?;
                    let Run { scans_per_second, megabytes_per_second, hits } = row.median;
                    table.row([
                        name.to_owned(),
                        steps.to_string(),
                        iterators.to_owned(),
                        rate(scans_per_second),
                        variation(&of_runs)
                            .map_or_else(|| "-".to_owned(), |cv| format!("{:.1} %", cv * 100.0)),
                        format!("{megabytes_per_second:.0}"),
                        format!("{:.2} %", hits * 100.0),
                    ]);
                    measured.push(row);
                }
            }
            let begun = Instant::now();
            for _ in 0..SNAPSHOTS {
                subjects[0].take_snapshot()?;
            }
            let took_ns = begun.elapsed().as_nanos() as f64 / f64::from(SNAPSHOTS);
            snapshots += &format!("- {name}: {took_ns:.0} ns\n");
        }
        let text = format!(
            "{} entries of {KEY_BYTES} and {VALUE_BYTES} bytes; {} stepped over in each run; \
             medians of {} runs, in which both kinds scan {}{}:\n\n{}\nDuration of taking and \
             releasing a snapshot:\n\n{snapshots}",
            self.entries,
            self.steps,
            self.rounds,
            if self.in_turn { "in turn on one database" } else { "at the same time" },
            if self.async_io { ", with async_io" } else { "" },
            table.markdown()
        );
        Finished::new(text, &json!({"measured": measured, "snapshots": snapshots}))
    }

    fn scanning(&self) -> String {
        let cache = (self.entries * MEMORY_PER_ENTRY).max(BLOCK_CACHE_MIN);
        format!(
            "{OPTIONS};use_direct_reads=true;block_based_table_factory={{block_cache={cache};\
             cache_index_and_filter_blocks=true}}"
        )
    }

    /// Creates a database with all entries and closes it. The entries are in the log and not yet in
    /// tables.
    fn fill(&self, engine: &ScanEngine) -> Result<Temporary, Failure> {
        let directory = self.subjects.new_directory()?;
        let values = Values::random(VALUE_BYTES, 1);
        say!("{}: writing {} entries", engine.name, self.entries);
        let memtable = self.entries * MEMORY_PER_ENTRY;
        let options = format!("create_if_missing=true;write_buffer_size={memtable};{OPTIONS}");
        let subject = (engine.open)(directory.path(), &options)?;
        for number in 0..self.entries {
            subject.put(&key(number), values.get(number))?;
        }
        Ok(directory)
    }

    /// Scans with plain iterators and with those that refresh themselves: at the same time, each on
    /// one of two databases, or in turn on the only one.
    fn run_both(&self, subjects: &[Box<dyn ScanSubject>], nexts: u64) -> Result<Vec<Run>, Failure> {
        let plain_and_refreshing = subjects.iter().cycle().map(|it| &**it).zip([false, true]);
        let both: Vec<_> = plain_and_refreshing.collect();
        let at_once = subjects.len();
        let runs = both.chunks(at_once).map(|some| self.run_at_once(some, nexts));
        Ok(runs.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }

    /// Scans databases at the same time. Each comes with whether its iterators refresh themselves.
    fn run_at_once(
        &self,
        subjects: &[(&dyn ScanSubject, bool)],
        steps: u64,
    ) -> Result<Vec<Run>, Failure> {
        let scanning = AtomicUsize::new(subjects.len());
        let scan = |(subject, refreshes): (&dyn ScanSubject, bool)| {
            let count = (self.steps / steps.max(1)).max(1);
            let Self { async_io, entries, .. } = *self;
            let run = measure(subject, &Scans { count, steps, refreshes, async_io, entries });
            scanning.fetch_sub(1, Ordering::Relaxed);
            run
        };
        thread::scope(|scope| {
            let scan = &scan;
            let scans: Vec<_> =
                subjects.iter().map(|&subject| scope.spawn(move || scan(subject))).collect();
            let mut renewed = Ok(());
            let mut next = Instant::now();
            while scanning.load(Ordering::Relaxed) > 0 && renewed.is_ok() {
                if next.elapsed() >= Duration::from_millis(self.version_ms) {
                    next = Instant::now();
                    renewed = subjects.iter().try_for_each(|(subject, _)| subject.renew_version());
                }
                thread::sleep(Duration::from_millis(1));
            }
            renewed?;
            let runs = scans.into_iter().map(|scan| scan.join().map_err(|_| "a scan panicked")?);
            runs.collect()
        })
    }
}

fn measure(subject: &dyn ScanSubject, scans: &Scans) -> Result<Run, Failure> {
    let before = subject.block_cache_lookups()?;
    let begun = Instant::now();
    let scanned = subject.scan(scans)?;
    let took_s = begun.elapsed().as_secs_f64();
    let after = subject.block_cache_lookups()?;
    let [hits, misses] = [0, 1].map(|at| (after[at] - before[at]) as f64);
    Ok(Run {
        scans_per_second: scans.count as f64 / took_s,
        megabytes_per_second: scanned.bytes as f64 / took_s / 1e6,
        hits: hits / (hits + misses).max(1.0),
    })
}

fn key(number: u64) -> Key {
    let mut key = [b'0'; KEY_BYTES];
    key[..entries::KEY_BYTES].copy_from_slice(&entries::key(number));
    key
}
