//! Bursts of writes to the column families of one database.
//!
//! The default family has large memtables, the others small ones. Once per period, a thread writes
//! a burst that fills a memtable of the default family, and other threads write a burst of two
//! memtables to each of the small families, all at full speed. A small family whose memtables are
//! both full stops its writer until one is flushed; if flushes wait for a flush of the default
//! family, the writer waits that long, too. Compactions are disabled: only flushes matter.

use std::path::Path;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use tailwater_latency::entries::{Values, key};
use tailwater_latency::experiment::{Figure, Finished, Table, in_turn};
use tailwater_latency::latencies::{Latencies, histogram};
use tailwater_latency::numbers::rate;
use tailwater_latency::parsing::at_least_one;

use crate::store::Failure;
use crate::subjects::Subjects;
use crate::workloads::overwriting::STALL;

/// Options of the database and of its default family.
const OPTIONS: &str = "create_if_missing=true;max_background_jobs=4;max_open_files=-1;\
    disable_auto_compactions=true;level0_slowdown_writes_trigger=100000;\
    level0_stop_writes_trigger=100000;max_write_buffer_number=2;compression=kLZ4Compression;\
    write_buffer_size=134217728";
/// Memtable size of the small families, in bytes.
const SMALL: u64 = 1 << 20;
/// Memtable size of the default family, in bytes.
const LARGE: u64 = 128 << 20;
/// Length of values, in bytes; keys have 16 bytes.
const VALUE_BYTES: usize = 1000;
/// Number of threads that write to the small families.
const WRITERS: u32 = 4;

/// An open database. Family 0 is the default family.
pub trait FamilySubject: Sync {
    /// Sets a key's value, which is logged but not synced.
    ///
    /// # Errors
    /// Those of the engine.
    fn put(&self, family: usize, key: &[u8], value: &[u8]) -> Result<(), Failure>;
}

/// The database of an engine, or the reason why it was not opened.
pub type Opened = Result<Box<dyn FamilySubject>, Failure>;

/// An engine with column families.
#[derive(Debug, Clone, Copy)]
pub struct FamilyEngine {
    /// The engine's name in reports and as an argument.
    pub name: &'static str,
    /// Creates a database with this number of families beside the default one. The first option
    /// string is that of the database and of the default family, the second that of the others.
    pub open: fn(&Path, usize, &str, &str) -> Opened,
}

/// The command's arguments.
#[derive(Debug, Args)]
pub(crate) struct FamilyBurstArguments {
    /// Number of column families, the default one included.
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u32).range(2..=1000))]
    families: u32,
    /// Comma-separated values of `max_background_flushes`. Each has its own rows.
    #[arg(long, value_delimiter = ',', default_value = "1,4")]
    flushes: Vec<u32>,
    /// Number of periods of each run. A period is as long as --period, or longer if its bursts are.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    periods: u32,
    /// Length of a period, in milliseconds.
    #[arg(long, default_value_t = 2000)]
    period: u64,
    /// Number of runs.
    #[arg(long, default_value_t = 3, value_parser = at_least_one)]
    runs: usize,
    #[command(flatten)]
    subjects: Subjects,
}

/// What is measured together: an engine with a number of flushes at a time.
#[derive(Debug, Serialize)]
struct Row {
    engine: &'static str,
    flushes: u32,
    #[serde(skip)]
    open: fn(&Path, usize, &str, &str) -> Opened,
}

/// The figures of the small families.
#[derive(Debug, Serialize, Deserialize)]
struct Figures {
    puts_per_second: f64,
    latencies: Latencies,
    /// Number of puts that took longer than [`STALL`].
    stalls: f64,
    /// The time of these puts, summed over the writers, in seconds.
    stalled_s: f64,
}

const COLUMNS: [Figure; 6] = [
    Figure::new("puts/s>", "/puts_per_second", rate),
    Figure::new("p99.9 us>", "/latencies/p999_us", rate),
    Figure::new("p99.99 us>", "/latencies/p9999_us", rate),
    Figure::new("max ms>", "/latencies/max_us", |us| format!("{:.0}", us / 1e3)),
    Figure::new("puts over 10 ms>", "/stalls", |count| format!("{count:.0}")),
    Figure::new("waiting in them, s>", "/stalled_s", |seconds| format!("{seconds:.2}")),
];

/// The puts of the small families.
struct Puts {
    latencies: Histogram<u64>,
    stalls: u64,
    stalled: Duration,
}

impl Puts {
    fn new() -> Result<Self, Failure> {
        Ok(Self { latencies: histogram()?, stalls: 0, stalled: Duration::ZERO })
    }

    fn record(&mut self, took: Duration) {
        self.latencies.saturating_record(took.as_nanos() as u64);
        if took > STALL {
            self.stalls += 1;
            self.stalled += took;
        }
    }

    fn add(&mut self, other: &Self) -> Result<(), Failure> {
        self.latencies.add(&other.latencies)?;
        self.stalls += other.stalls;
        self.stalled += other.stalled;
        Ok(())
    }
}

impl FamilyBurstArguments {
    /// Runs the command; its table is in Markdown.
    pub(crate) fn run(&self, known: &[FamilyEngine]) -> Result<Finished, Failure> {
        let wanted = known.iter().filter(|engine| self.subjects.wants(engine.name));
        let rows = wanted.flat_map(|engine| {
            let &FamilyEngine { name, open } = engine;
            self.flushes.iter().map(move |&flushes| Row { engine: name, flushes, open })
        });
        let measured = in_turn(rows.collect(), self.runs, |_, row| {
            self.measure(row).map_err(|error| format!("{}: {error}", row.engine).into())
        })?;
        let columns = Figure::columns(&COLUMNS);
        let mut table = Table::new(&format!("engine<|flushes at a time>{columns}"));
        for one in &measured {
            let figures = serde_json::to_value(&one.median)?;
            let cells = [one.row.engine.to_owned(), one.row.flushes.to_string()];
            table.row(cells.into_iter().chain(COLUMNS.iter().map(|column| column.cell(&figures))));
        }
        let text = format!(
            "Bursts to {} column families, {} periods; puts to the small families; medians of {} \
             runs:\n\n{}",
            self.families,
            self.periods,
            self.runs,
            table.markdown()
        );
        Finished::new(text, &measured)
    }

    fn measure(&self, row: &Row) -> Result<Figures, Failure> {
        let directory = self.subjects.new_directory()?;
        let own = format!("{OPTIONS};max_background_flushes={}", row.flushes);
        let options = self.subjects.options_over(&own);
        let of_small = self.subjects.options_over(&format!("{own};write_buffer_size={SMALL}"));
        let small = self.families - 1;
        let subject = (row.open)(directory.path(), small as usize, &options, &of_small)?;
        let (subject, values) = (&*subject, &Values::new(VALUE_BYTES, 1));
        let puts = Mutex::new(Puts::new()?);
        let begun = Instant::now();
        thread::scope(|scope| -> Result<(), Failure> {
            let large = scope.spawn(|| {
                self.in_periods(|period| {
                    burst(subject, 0, period, LARGE, values, &mut Puts::new()?)
                })
            });
            let write = |writer: u32| {
                let mut own = Puts::new()?;
                self.in_periods(|period| {
                    let mut families = (1..=small).filter(|family| family % WRITERS == writer);
                    families.try_for_each(|family| {
                        burst(subject, family as usize, period, 2 * SMALL, values, &mut own)
                    })
                })?;
                puts.lock().map_err(|_| "a writer panicked")?.add(&own)
            };
            let writers: Vec<_> =
                (0..WRITERS).map(|writer| scope.spawn(move || write(writer))).collect();
            writers.into_iter().chain([large]).try_for_each(|thread| {
                thread.join().unwrap_or_else(|_| Err("a writer panicked".into()))
            })
        })?;
        let seconds = begun.elapsed().as_secs_f64();
        let puts = puts.into_inner().map_err(|_| "a writer panicked")?;
        Ok(Figures {
            puts_per_second: puts.latencies.len() as f64 / seconds,
            latencies: Latencies::of(&puts.latencies),
            stalls: puts.stalls as f64,
            stalled_s: puts.stalled.as_secs_f64(),
        })
    }

    /// Calls `write` once per period, with the period's number.
    fn in_periods(&self, mut write: impl FnMut(u32) -> Result<(), Failure>) -> Result<(), Failure> {
        let begun = Instant::now();
        for period in 0..self.periods {
            let start = Duration::from_millis(self.period) * period;
            thread::sleep(start.saturating_sub(begun.elapsed()));
            write(period)?;
        }
        Ok(())
    }
}

/// Puts entries of `bytes` bytes, which no earlier burst has put.
fn burst(
    subject: &dyn FamilySubject,
    family: usize,
    period: u32,
    bytes: u64,
    values: &Values,
    puts: &mut Puts,
) -> Result<(), Failure> {
    let count = bytes / VALUE_BYTES as u64;
    let first = u64::from(period) * count;
    for number in first..first + count {
        let before = Instant::now();
        subject.put(family, &key(number), values.get(number))?;
        puts.record(before.elapsed());
    }
    Ok(())
}
