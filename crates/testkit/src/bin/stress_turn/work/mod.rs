//! Work on a database that changes its files, but not the value of any key.
//!
//! Several threads work concurrently. All of them write and read. The first thread also flushes,
//! compacts, changes options, creates checkpoints and column families, and ingests tables. Because
//! no value changes, each read has exactly one correct result.

mod reading;
mod upkeep;
mod writing;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use fastrand::Rng;
use tailwater::{Db, OpenOptions, ReadOptions, WriteOptions};

use crate::arguments::Arguments;
use crate::contents::Contents;
use crate::expected::Keys;
use crate::extra::{EXTRA_FAMILY, EXTRA_KEYS};
use crate::text;

/// The data that the threads of one round share while they read and write the open database.
pub(crate) struct Work<'a> {
    db: &'a Db,
    options: &'a OpenOptions,
    arguments: &'a Arguments,
    keys: &'a Keys,
    reference: &'a Contents,
    /// Whether writes may skip the log. They must not skip it if logs are recycled. Recovery of a
    /// recycled log requires consecutive sequence numbers, and a write that skips the log leaves a
    /// gap between the sequence numbers of two logged records.
    may_skip_log: bool,
    has_failed: AtomicBool,
    counts: Counts,
}

/// For each kind of operation, the number of completed operations or of the keys that they changed.
#[derive(Debug, Default)]
struct Counts {
    rewritten: AtomicU64,
    extra: AtomicU64,
    range_tombstones: AtomicU64,
    ingested: AtomicU64,
    flushes: AtomicU64,
    compactions: AtomicU64,
    checkpoints: AtomicU64,
    families: AtomicU64,
    changes: AtomicU64,
    read: AtomicU64,
    /// Raw iterators that refresh themselves when there is a newer super version.
    refreshing: AtomicU64,
    /// Those of them that have refreshed themselves.
    refreshed: AtomicU64,
    /// Ranges that refresh themselves, and were paused until there was a newer super version.
    due_ranges: AtomicU64,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [
            (&self.rewritten, "keys rewritten"),
            (&self.extra, "extra keys"),
            (&self.range_tombstones, "range tombstones"),
            (&self.ingested, "keys ingested"),
            (&self.flushes, "flushes"),
            (&self.compactions, "compactions"),
            (&self.checkpoints, "checkpoints"),
            (&self.families, "column families created"),
            (&self.changes, "options changed"),
            (&self.read, "keys read"),
            (&self.refreshing, "refreshing iterators"),
            (&self.refreshed, "iterators refreshed"),
            (&self.due_ranges, "ranges due for a refresh"),
        ];
        let counted = all.map(|(count, what)| (count.load(Ordering::Relaxed), what));
        let shown = counted.iter().filter(|(count, _)| *count > 0);
        let shown: Vec<_> = shown.map(|(count, what)| format!("{count} {what}")).collect();
        f.write_str(&shown.join(", "))
    }
}

fn count(counter: &AtomicU64, by: usize) {
    counter.fetch_add(by as u64, Ordering::Relaxed);
}

impl<'a> Work<'a> {
    /// Prepares a round of operations on an open database.
    pub(crate) fn new(
        db: &'a Db,
        options: &'a OpenOptions,
        arguments: &'a Arguments,
        keys: &'a Keys,
        reference: &'a Contents,
    ) -> Self {
        let may_skip_log = options.database().recycle_log_file_num == 0;
        let has_failed = AtomicBool::new(false);
        let counts = Counts::default();
        Self { db, options, arguments, keys, reference, may_skip_log, has_failed, counts }
    }

    /// Executes operations until the deadline. Returns as text how many operations of each kind
    /// were completed.
    pub(crate) fn run(self, deadline: Instant, rng: &mut Rng) -> Result<String, String> {
        let threads = self.arguments.threads.max(1);
        let seeds: Vec<u64> = (0..threads).map(|_| rng.u64(..)).collect();
        let this = &self;
        let mut ended = Vec::new();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..)
                .zip(seeds)
                .map(|(thread, seed)| {
                    scope.spawn(move || this.thread(thread, Rng::with_seed(seed), deadline))
                })
                .collect();
            ended.extend(threads.into_iter().map(|thread| thread.join()));
        });
        for result in ended {
            result.map_err(|_| "a thread panicked".to_owned())??;
        }
        Ok(self.counts.to_string())
    }

    fn thread(&self, thread: u8, mut rng: Rng, deadline: Instant) -> Result<(), String> {
        while Instant::now() < deadline && !self.has_failed.load(Ordering::Relaxed) {
            let done = match rng.u8(..10) {
                0 if thread == 0 => self.upkeep(&mut rng),
                0..5 if !self.arguments.keeps_sequence => self.write(thread, &mut rng),
                _ => self.read(&mut rng),
            };
            if done.is_err() {
                self.has_failed.store(true, Ordering::Relaxed);
                return done;
            }
        }
        Ok(())
    }

    fn write_options(&self, rng: &mut Rng) -> WriteOptions {
        let disable_wal = self.may_skip_log && rng.u8(..10) == 0;
        let sync = !disable_wal && rng.u8(..50) == 0;
        WriteOptions::new().with_sync(sync).with_disable_wal(disable_wal)
    }
}

/// Deletes all extra keys, which do not belong to `db_stress`, and drops the extra column family. A
/// killed run may have left both.
pub(crate) fn remove_extras(db: &Db) -> Result<(), String> {
    let options = ReadOptions::new().with_total_order_seek(true);
    for family in db.column_families() {
        if family.name() == EXTRA_FAMILY {
            db.drop_cf(&family).map_err(text("dropping the extra column family"))?;
            continue;
        }
        let doing = text("deleting extra keys");
        let mut iterator = db.raw_iterator_cf_opt(&family, &options).map_err(&doing)?;
        iterator.seek(EXTRA_KEYS).map_err(&doing)?;
        while iterator.valid() {
            db.delete_cf_opt(&family, iterator.key(), &WriteOptions::default()).map_err(&doing)?;
            iterator.next().map_err(&doing)?;
        }
    }
    Ok(())
}
