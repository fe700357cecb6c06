//! A logical backup: a full scan of a snapshot while keys are overwritten. Measures the memory and
//! disk space that the backup's iterator pins in addition to the live contents of the database.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use fastrand::Rng;
use serde::Serialize;
use serde_json::json;
use tailwater_latency::entries::{Values, key};
use tailwater_latency::experiment::{Finished, Table};
use tailwater_latency::parsing::above_zero;
use tailwater_latency::say;

use crate::snapshot_scans::{ScanEngine, ScanSubject};
use crate::store::Failure;
use crate::subjects::Subjects;

/// Length of values, in bytes.
const VALUE_BYTES: usize = 1000;
/// Options of the databases.
const OPTIONS: &str = "create_if_missing=true;max_background_jobs=2;write_buffer_size=67108864;\
    compression=kNoCompression;block_based_table_factory={block_cache=67108864}";
/// Number of entries that are read or overwritten between two checks of the clock.
const KEYS_BETWEEN_CHECKS: u64 = 256;
/// Interval between two samples of the memory and disk space in use.
const SAMPLE: Duration = Duration::from_millis(200);

/// The command's arguments.
#[derive(Debug, Args)]
pub(crate) struct BackupArguments {
    /// Size of the database, in GB.
    #[arg(long, default_value_t = 5.0, value_parser = above_zero)]
    gigabytes: f64,
    /// Rate of overwrites during the backup, in MB/s of keys and values.
    #[arg(long, default_value_t = 40.0, value_parser = above_zero)]
    overwrites: f64,
    /// Rate at which the backup consumes entries, in MB/s of keys and values.
    #[arg(long, default_value_t = 50.0, value_parser = above_zero)]
    backup: f64,
    #[command(flatten)]
    subjects: Subjects,
}

/// Memory and disk space that is in use but not part of the current version, in bytes. The iterator
/// of the backup pins it.
#[derive(Debug, Clone, Copy, Default, Serialize)]
struct Kept {
    memtables: u64,
    files: u64,
}

/// The result of one backup.
#[derive(Debug, Serialize)]
struct Outcome {
    seconds: f64,
    most: Kept,
    last: Kept,
}

impl BackupArguments {
    /// Runs one backup for each engine and each kind of iterator.
    pub(crate) fn run(&self, known: &[ScanEngine]) -> Result<Finished, Failure> {
        let entries = (self.gigabytes * 1e9) as u64 / (key(0).len() + VALUE_BYTES) as u64;
        let mut table = Table::new(
            "engine<|iterator<|seconds>|memtables, max>|files, max>|memtables, end>|files, end>",
        );
        let mut result = Vec::new();
        for engine in known.iter().filter(|engine| self.subjects.wants(engine.name)) {
            let name = engine.name;
            let directory = self.subjects.new_directory()?;
            let subject = (engine.open)(directory.path(), &self.subjects.options_over(OPTIONS))?;
            say!("{name}: writing {entries} entries");
            let values = Values::random(VALUE_BYTES, 1);
            for number in 0..entries {
                subject.put(&key(number), values.get(number))?;
            }
            subject.settle()?;
            for (refreshes, kind) in [(false, "plain"), (true, "refreshing")] {
                say!("{name}: a backup with a {kind} iterator");
                let outcome = self.back_up(&*subject, entries, refreshes)?;
                let Outcome { seconds, most, last } = outcome;
                let kept = [most.memtables, most.files, last.memtables, last.files];
                let kept = kept.map(|bytes| format!("{:.0}", bytes as f64 / 1e6));
                let row = [name.to_owned(), kind.to_owned(), format!("{seconds:.0}")];
                table.row(row.into_iter().chain(kept));
                result.push(json!({"engine": name, "iterator": kind, "outcome": outcome}));
                subject.settle()?;
            }
        }
        let text = format!(
            "A backup of {} GB at {} MB/s during {} MB/s of overwrites; kept beyond the current \
             version, in MB:\n\n{}",
            self.gigabytes,
            self.backup,
            self.overwrites,
            table.markdown()
        );
        Finished::new(text, &result)
    }

    fn back_up(
        &self,
        subject: &dyn ScanSubject,
        entries: u64,
        refreshes: bool,
    ) -> Result<Outcome, Failure> {
        let is_done = AtomicBool::new(false);
        thread::scope(|scope| {
            let writer = scope.spawn(|| self.overwrite(subject, entries, &is_done));
            let watcher = scope.spawn(|| watch(subject, &is_done));
            let begun = Instant::now();
            let (mut count, mut bytes) = (0, 0);
            let walked = subject.walk(refreshes, &mut |key, value| {
                bytes += (key.len() + value.len()) as u64;
                count += 1;
                if count % KEYS_BETWEEN_CHECKS == 0 {
                    pace(begun, bytes, self.backup);
                }
            });
            let seconds = begun.elapsed().as_secs_f64();
            is_done.store(true, Ordering::Relaxed);
            let written = writer.join().map_err(|_| "the writer panicked")?;
            let kept = watcher.join().map_err(|_| "the watcher panicked")?;
            walked?;
            written?;
            if count != entries {
                return Err(format!("the backup has {count} entries, not {entries}").into());
            }
            let (most, last) = kept?;
            Ok(Outcome { seconds, most, last })
        })
    }

    fn overwrite(
        &self,
        subject: &dyn ScanSubject,
        entries: u64,
        is_done: &AtomicBool,
    ) -> Result<(), Failure> {
        let (mut rng, values) = (Rng::with_seed(2), Values::random(VALUE_BYTES, 2));
        let (begun, mut bytes) = (Instant::now(), 0);
        while !is_done.load(Ordering::Relaxed) {
            for _ in 0..KEYS_BETWEEN_CHECKS {
                let number = rng.u64(..entries);
                let (key, value) = (key(number), values.get(number));
                subject.put(&key, value)?;
                bytes += (key.len() + value.len()) as u64;
            }
            pace(begun, bytes, self.overwrites);
        }
        Ok(())
    }
}

/// Sleeps so that work that began at `begun` and has processed `bytes` is not faster than the given
/// rate.
fn pace(begun: Instant, bytes: u64, megabytes_per_second: f64) {
    let due = Duration::from_secs_f64(bytes as f64 / (megabytes_per_second * 1e6));
    thread::sleep(due.saturating_sub(begun.elapsed()));
}

/// Samples the memory and the disk space that the backup's iterator pins, until the backup is done.
/// Returns the maximum and the last value of each.
fn watch(subject: &dyn ScanSubject, is_done: &AtomicBool) -> Result<(Kept, Kept), Failure> {
    let (mut most, mut last) = (Kept::default(), Kept::default());
    while !is_done.load(Ordering::Relaxed) {
        let number = |name: &str| subject.number(name);
        let all = number("rocksdb.size-all-mem-tables")?;
        let tables = number("rocksdb.total-sst-files-size")?;
        last = Kept {
            memtables: all.saturating_sub(number("rocksdb.cur-size-all-mem-tables")?),
            files: tables.saturating_sub(number("rocksdb.live-sst-files-size")?),
        };
        most.memtables = most.memtables.max(last.memtables);
        most.files = most.files.max(last.files);
        thread::sleep(SAMPLE);
    }
    Ok((most, last))
}
