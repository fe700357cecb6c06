//! Runs a history under random options, and compares the database with a model.

use std::any::Any;
use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};

use fastrand::Rng;
use tailwater::verify::{self, Severity};
use tailwater::{
    ColumnFamily, CompactRangeOptions, CompactionPause, Db, ErrorKind, IngestOptions, OpenOptions,
    ReadOptions, Snapshot, SstFileWriter, WriteBatch, WriteOptions,
};
use tailwater_io::sim::SimStorage;
use tailwater_testkit::dump::Entry;

use crate::change::{Change, Table};
use crate::held::HeldIterator;
use crate::history::{FAMILIES, History, Step, Write};
use crate::setup::{OptionChange, Setup};
use crate::subject::Effort;
use crate::{check, ingestion, subject};

/// Directory of the database.
const DIRECTORY: &str = "/database";
/// Each time a state of the database is read completely, the test also makes this many random reads
/// of each kind from each column family.
const EFFORT: Effort = Effort { gets: 5, multi_gets: 1, walks: 1, between: disturb };

/// What one or more runs did.
#[derive(Debug, Default, Clone)]
pub(crate) struct Tally {
    pub(crate) runs: u64,
    steps: u64,
    openings: u64,
    compactions: u64,
    pub(crate) ingestions: u64,
    /// Number of files that were ingested into level 1 or deeper.
    pub(crate) deep_files: u64,
    changes: u64,
    /// Number of reads that failed at a strict limit of a cache, and then succeeded with a higher
    /// one.
    pub(crate) refused: u64,
    /// Number of times that the test read all data of the latest state or of a snapshot.
    pub(crate) views: u64,
    /// Like `views`, but counts only reads while there were tables in level 1 or deeper.
    pub(crate) deep_views: u64,
}

impl Tally {
    /// Adds the counts of another tally.
    pub(crate) fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        self.steps += other.steps;
        self.openings += other.openings;
        self.compactions += other.compactions;
        self.ingestions += other.ingestions;
        self.deep_files += other.deep_files;
        self.changes += other.changes;
        self.refused += other.refused;
        self.views += other.views;
        self.deep_views += other.deep_views;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  {:>8} runs, of {} steps", self.runs, self.steps)?;
        writeln!(f, "  {:>8} openings, each under options of its own", self.openings)?;
        writeln!(f, "  {:>8} manual compactions of ranges", self.compactions)?;
        let (ingestions, deep) = (self.ingestions, self.deep_files);
        writeln!(f, "  {ingestions:>8} ingestions, of which {deep} files below level 0")?;
        writeln!(f, "  {:>8} changes of options", self.changes)?;
        writeln!(f, "  {:>8} reads beyond a strict limit", self.refused)?;
        writeln!(f, "  {:>8} views asked, {} over deeper levels", self.views, self.deep_views)
    }
}

/// An open snapshot, and the contents that it must show.
struct HeldSnapshot {
    snapshot: Snapshot,
    dump: Vec<Entry>,
}

/// An open database.
struct Open {
    db: Db,
    families: Vec<ColumnFamily>,
    options: OpenOptions,
}

/// The state of a history that is being run.
pub(crate) struct Run<'a> {
    history: &'a History,
    storage: SimStorage,
    rng: Rng,
    /// Of the steps that may be skipped, the percentage that is executed.
    upkeep: u8,
    setup: Setup,
    open: Option<Open>,
    tables: Vec<Table>,
    snapshots: Vec<HeldSnapshot>,
    iterators: Vec<HeldIterator>,
    pause: Option<CompactionPause>,
    /// Whether the run changes an option before each move of an open iterator. Each change of an
    /// option creates a new version of the database.
    bumps_versions: bool,
    tally: Tally,
}

impl<'a> Run<'a> {
    /// Runs a history. All random choices follow from `seed`. Returns what the run did, or a
    /// description of the failure.
    pub(crate) fn play(history: &'a History, seed: u64) -> Result<Tally, String> {
        let mut rng = Rng::with_seed(seed);
        let mut run = Self {
            history,
            storage: SimStorage::new(rng.u64(..)),
            upkeep: *rng.choice(&[0, 50, 100, 100]).expect("there are some"),
            setup: Setup::random(&mut rng, history, None),
            rng,
            open: None,
            tables: vec![Table::new(); FAMILIES.len()],
            snapshots: Vec::new(),
            iterators: Vec::new(),
            pause: None,
            bumps_versions: false,
            tally: Tally { runs: 1, ..Tally::default() },
        };
        run.setup.set_up_disk(&run.storage);
        run.bumps_versions = run.rng.u8(..3) == 0;
        let mut number = 0;
        let played = panic::catch_unwind(AssertUnwindSafe(|| {
            run.open();
            for (own, step) in &history.steps {
                run.rng = Rng::with_seed(seed.wrapping_add(*own));
                run.step(step);
                number += 1;
            }
            run.finish();
        }));
        match played {
            Ok(()) => Ok(run.tally),
            Err(cause) => Err(format!(
                "step {number}, {:?}, {}% of upkeep: {}\n  {}",
                history.steps.get(number).map(|(_, step)| step),
                run.upkeep,
                message(cause.as_ref()),
                run.setup.text(),
            )),
        }
    }

    fn opened(&self) -> &Open {
        self.open.as_ref().expect("an open database")
    }

    fn open(&mut self) {
        let _room = self.setup.room();
        let options = self.setup.options(&self.storage);
        let db = must(Db::open(Path::new(DIRECTORY), &options), "opening");
        let family = |name: &&str| must(db.cf_handle(name), "looking for a column family");
        let families = FAMILIES.iter().map(family).collect();
        self.open = Some(Open { db, families, options });
        self.pause = None;
        self.tally.openings += 1;
    }

    fn close(&mut self) {
        self.snapshots.clear();
        self.iterators.clear();
        let Some(Open { db, .. }) = self.open.take() else { return };
        if self.rng.bool() {
            must(db.close(), "closing");
        }
    }

    fn finish(&mut self) {
        self.close();
        let _room = self.setup.room();
        let options = self.setup.options(&self.storage);
        let report = verify::verify(Path::new(DIRECTORY), &options);
        let damage = report.findings.iter().find(|it| it.severity == Severity::Damage);
        assert!(damage.is_none(), "verification finds {damage:?}");
    }

    fn step(&mut self, step: &Step) {
        self.tally.steps += 1;
        if step.is_upkeep() && self.rng.u8(..100) >= self.upkeep {
            return;
        }
        let db = self.opened().db.clone();
        // These steps must succeed whatever the limit of the cache, or lift it themselves.
        let is_limited = matches!(
            step,
            Step::Write(_) | Step::Flush(_) | Step::FlushAll | Step::Compact { .. } | Step::Ask
        );
        let room = (!is_limited).then(|| self.setup.room());
        match step {
            Step::Write(writes) => self.write(writes),
            Step::Ingest { family, files } => self.ingest(*family, files),
            Step::TakeSnapshot => {
                let held = HeldSnapshot { snapshot: db.snapshot(), dump: self.dump() };
                self.snapshots.push(held);
            }
            Step::ReleaseSnapshot(at) => release(&mut self.snapshots, *at),
            Step::HoldIterator(family) => self.hold_iterator(*family),
            Step::ReleaseIterator(at) => release(&mut self.iterators, *at),
            Step::Flush(family) => must(db.flush_cf(&self.opened().families[*family]), "flushing"),
            Step::FlushAll => must(db.flush_all(), "flushing all"),
            Step::FlushLog { sync } => must(db.flush_wal(*sync), "flushing the log"),
            Step::Compact { .. } => self.compact(step),
            Step::ChangeOptions(family) => self.change_options(*family),
            Step::Pause if self.pause.is_none() => {
                self.pause = Some(must(db.pause_compactions(), "pausing"));
            }
            Step::Continue => self.pause = None,
            Step::Pause => {}
            Step::PassTime { seconds } => self.storage.clock().advance(seconds * 1_000_000_000),
            Step::Reopen => {
                drop(db);
                self.close();
                let setup = Setup::random(&mut self.rng, self.history, Some(&self.setup));
                self.setup = setup;
                self.open();
            }
            Step::Ask => self.ask(),
        }
        drop(room);
        let _room = self.setup.room();
        self.move_iterators();
    }

    /// Writes the changes, either as one batch or one by one.
    fn write(&mut self, writes: &[Write]) {
        let options = WriteOptions::new().with_sync(self.rng.u8(..10) == 0);
        let skips_log = self.setup.may_skip_log() && self.rng.u8(..10) == 0;
        let options =
            if skips_log { options.with_sync(false).with_disable_wal(true) } else { options };
        let Open { db, families, .. } = self.open.as_ref().expect("an open database");
        if self.rng.bool() {
            let mut batch = WriteBatch::new();
            for Write { family, change } in writes {
                change.add_to(&mut batch, families[*family].id());
            }
            must(db.write_opt(&mut batch, &options), "writing a batch");
        } else {
            for Write { family, change } in writes {
                must(change.write(db, &families[*family], &options), "writing");
            }
        }
        for Write { family, change } in writes {
            change.apply(&mut self.tables[*family], &self.history.orders[*family]);
        }
    }

    /// Creates one file for each list of changes, and ingests all files together.
    fn ingest(&mut self, family: usize, files: &[Vec<Change>]) {
        let Open { db, families, options } = self.open.as_ref().expect("an open database");
        let mut writer = must(SstFileWriter::new(options, FAMILIES[family]), "making files");
        if self.rng.bool() {
            writer = writer.for_column_family(&families[family]);
        }
        let name = |at: usize| format!("/outside{}-{at}.sst", self.tally.ingestions);
        let paths: Vec<PathBuf> = (0..files.len()).map(|at| PathBuf::from(name(at))).collect();
        for (path, changes) in paths.iter().zip(files) {
            must(ingestion::write(&mut writer, path, changes), "making a file");
        }
        let requested = IngestOptions::new()
            .with_move_files(self.rng.bool())
            .with_verify_checksums_before_ingest(self.rng.u8(..4) == 0);
        let requested_paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
        let ingested =
            db.ingest_external_file_cf_opts(&families[family], &requested_paths, &requested);
        let ingested = must(ingested, "ingesting");
        self.tally.ingestions += 1;
        self.tally.deep_files += ingested.iter().filter(|file| file.level > 0).count() as u64;
        for changes in files {
            for change in changes {
                change.apply(&mut self.tables[family], &self.history.orders[family]);
            }
        }
    }

    fn compact(&mut self, step: &Step) {
        let Step::Compact { family, begin, end, rewrite } = step else { return };
        let Open { db, families, .. } = self.opened();
        let options = CompactRangeOptions::new().with_bottommost_level_compaction(*rewrite);
        let family = &families[*family];
        match db.compact_range_cf_opt(family, begin.as_deref(), end.as_deref(), &options) {
            Ok(()) => self.tally.compactions += 1,
            Err(error) if error.kind() == ErrorKind::Busy && self.pause.is_some() => {}
            Err(error) => panic!("compacting: {error}"),
        }
    }

    fn change_options(&mut self, family: usize) {
        let change = OptionChange::random(&mut self.rng);
        let Open { db, families, .. } = self.opened();
        let changed = match &change {
            OptionChange::OfDatabase(changes) => db.set_database_options(changes),
            OptionChange::OfFamily(changes) => db.set_options_cf(&families[family], changes),
        };
        match changed {
            Ok(()) => self.tally.changes += 1,
            // The change may contradict other options. Such a change is refused, even if opening a
            // database would correct the contradiction silently.
            Err(error) if error.kind() == ErrorKind::InvalidArgument => {}
            Err(error) => panic!("{change:?}: {error}"),
        }
    }

    fn hold_iterator(&mut self, family: usize) {
        let Open { db, families, .. } = self.open.as_ref().expect("an open database");
        let held = HeldIterator::new(
            db,
            (family, &families[family]),
            (&self.history.orders[family], &self.tables[family]),
            &mut self.rng,
        );
        self.iterators.push(held);
    }

    /// Refreshes some of the open iterators, and moves all of them. If `bumps_versions`, creates a
    /// new version before each move.
    fn move_iterators(&mut self) {
        let Open { db, families, .. } = self.open.as_ref().expect("an open database");
        for held in &mut self.iterators {
            let family = held.family;
            if self.rng.u8(..20) == 0 {
                held.refresh(None, &self.tables[family]);
            } else if self.rng.u8(..20) == 0 {
                held.refresh(Some(&db.snapshot()), &self.tables[family]);
            } else if self.rng.u8(..20) == 0
                && let Some(older) = self.rng.choice(&self.snapshots)
            {
                let entries = older.dump.iter().filter(|entry| entry.family == FAMILIES[family]);
                let entries = entries.map(|entry| (entry.key.clone(), entry.value.clone()));
                held.refresh(Some(&older.snapshot), &entries.collect());
            }
            held.walk(&mut self.rng, |rng| {
                if self.bumps_versions {
                    let skip = rng.u64(4..8).to_string();
                    let change = [("max_sequential_skip_in_iterations", &skip[..])];
                    must(db.set_options_cf(&families[family], &change), "changing an option");
                }
                disturb(db, &families[family], rng);
            });
        }
    }

    /// Returns the contents that the model expects.
    fn dump(&self) -> Vec<Entry> {
        let mut dump = Vec::new();
        for ((name, table), order) in FAMILIES.iter().zip(&self.tables).zip(&self.history.orders) {
            let start = dump.len();
            dump.extend(table.iter().map(|(key, value)| Entry {
                family: (*name).to_owned(),
                key: key.clone(),
                value: value.clone(),
            }));
            dump[start..].sort_by(|a: &Entry, b| order.compare(&a.key, &b.key));
        }
        dump
    }

    /// Seeks and gets all keys. Reads that exceed a strict limit of the cache must fail with the
    /// error for that, and succeed when the limit is higher.
    fn ask_within_limit(&mut self) {
        let Open { db, families, .. } = self.open.as_ref().expect("an open database");
        let (setup, refused) = (&self.setup, &mut self.tally.refused);
        let options = ReadOptions::new().with_total_order_seek(true);
        for (family, table) in families.iter().zip(&self.tables) {
            let mut iterator = retried(setup, refused, || db.raw_iterator_cf_opt(family, &options));
            for (key, value) in table {
                retried(setup, refused, || iterator.seek(key));
                let expected = Some((key.as_slice(), value.as_slice()));
                assert_eq!(iterator.item(), expected, "a seek within a limit");
                let found = retried(setup, refused, || db.get_cf_opt(family, key, &options));
                assert_eq!(found.as_ref(), Some(value), "a get within a limit");
            }
        }
    }

    fn ask(&mut self) {
        if self.setup.limits_reads() {
            self.ask_within_limit();
        }
        let _room = self.setup.room();
        let present = self.dump();
        let Open { db, families, .. } = self.open.as_ref().expect("an open database");
        let is_deep = families.iter().any(|family| has_deeper_levels(db, family));
        check::holds(db, &present, "the present");
        subject::ask(db, &present, EFFORT, &mut self.rng, "the present");
        for (at, HeldSnapshot { snapshot, dump }) in self.snapshots.iter().enumerate() {
            let context = format!("snapshot {at} of sequence {}", snapshot.sequence_number());
            let snapshot = Some(snapshot);
            check::holds_at(db, snapshot, dump, &context);
            subject::ask_at(db, snapshot, dump, EFFORT, &mut self.rng, &context);
        }
        for held in &mut self.iterators {
            held.check_all();
        }
        let views = 1 + self.snapshots.len() as u64;
        self.tally.views += views;
        self.tally.deep_views += if is_deep { views } else { 0 };
    }
}

/// Returns the result of a read. If it exceeds a strict limit of the cache, reads again with a
/// higher one.
fn retried<R>(
    setup: &Setup,
    refused: &mut u64,
    mut read: impl FnMut() -> tailwater::Result<R>,
) -> R {
    match read() {
        Err(error) if error.kind() == ErrorKind::MemoryLimit => {
            *refused += 1;
            let _room = setup.room();
            must(read(), "reading with a higher limit")
        }
        result => must(result, "reading within a limit"),
    }
}

/// Sometimes flushes or compacts the column family, so that the tables under open iterators become
/// obsolete.
fn disturb(db: &Db, family: &ColumnFamily, rng: &mut Rng) {
    match rng.u8(..60) {
        0 => must(db.flush_cf(family), "flushing"),
        1 => {
            let everything = CompactRangeOptions::default();
            match db.compact_range_cf_opt(family, None, None, &everything) {
                Err(error) if error.kind() == ErrorKind::Busy => {}
                compacted => must(compacted, "compacting"),
            }
        }
        _ => {}
    }
}

fn has_deeper_levels(db: &Db, family: &ColumnFamily) -> bool {
    (1..family.options().num_levels).any(|level| {
        let name = format!("rocksdb.num-files-at-level{level}");
        must(db.property_value_cf(family, &name), "a property").is_some_and(|count| count != "0")
    })
}

/// Releases one of the open objects. Its index is `at` modulo their number. Does nothing if there
/// is none.
fn release<T>(held: &mut Vec<T>, at: usize) {
    if let Some(at) = at.checked_rem(held.len()) {
        held.remove(at);
    }
}

pub(crate) fn must<T>(result: tailwater::Result<T>, what: &str) -> T {
    result.unwrap_or_else(|error| panic!("{what}: {error}"))
}

/// Returns the message of a panic.
fn message(cause: &(dyn Any + Send)) -> String {
    tailwater_io::thread::panic_message(cause).unwrap_or("no words").to_owned()
}
