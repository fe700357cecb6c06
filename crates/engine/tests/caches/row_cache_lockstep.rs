//! Two databases get the same random operations; one has a row cache. All their reads must agree.

use std::path::PathBuf;
use std::sync::Arc;

use tailwater::{BlockCache, Db, OpenOptions, ReadOptions, Snapshot, SstFileWriter, Statistics};
use tailwater_io::sim::SimStorage;
use tailwater_testkit::seed;

use crate::support::{KIB, options};

const DB: &str = "/db";
const KEYS: usize = 40;
const STEPS: usize = 600;

/// How the database with rows caches them.
#[derive(Debug, Clone, Copy)]
enum Rows {
    /// All fit.
    All,
    /// Few fit, so that rows are evicted all the time.
    Few,
    /// Few fit, and the limit is strict.
    Strict,
    /// In the block cache, together with the blocks.
    WithBlocks,
}

/// A pair of databases, the second of which has a row cache.
struct Pair {
    options: [OpenOptions; 2],
    statistics: Arc<Statistics>,
    databases: Vec<Db>,
    snapshots: Vec<[Snapshot; 2]>,
    files: usize,
}

impl Pair {
    /// Creates the databases. Before the second gets its row cache, both get range tombstones, some
    /// in tables and some in the log.
    fn new(random: &mut fastrand::Rng, rows: Rows) -> Self {
        let disks = [SimStorage::new(1), SimStorage::new(2)];
        let text = format!(
            "merge_operator=stringappend;disable_auto_compactions={};\
             block_based_table_factory={{block_size={};filter_policy={};no_block_cache={}}}",
            random.bool(),
            [64, 4096][random.usize(..2)],
            ["bloomfilter:10", "nullptr"][random.usize(..2)],
            random.bool() && !matches!(rows, Rows::WithBlocks),
        );
        let mut options = [0, 1].map(|at| options(&disks[at], None, &text));
        let databases = open(&options);
        for _ in 0..30 {
            let (from, to) = (random.usize(..KEYS), random.usize(..=KEYS));
            let text = format!("{}", random.u32(..));
            for db in &databases {
                db.put(key(from), &text).expect("a put");
                db.delete_range(key(from.min(to)), key(to)).expect("a range deletion");
            }
            if random.u8(..) < 40 {
                databases.iter().for_each(|db| db.flush().expect("a flush"));
            }
        }
        drop(databases);
        let statistics = Arc::new(Statistics::new());
        let cache = Arc::new(BlockCache::new(match rows {
            Rows::All | Rows::WithBlocks => 1 << 20,
            Rows::Few | Rows::Strict => 10 * KIB,
        }));
        cache.set_strict_capacity_limit(matches!(rows, Rows::Strict));
        if matches!(rows, Rows::WithBlocks) {
            options[1].set_block_cache(Arc::clone(&cache));
        }
        options[1].set_row_cache(cache).set_statistics(Arc::clone(&statistics));
        let databases = open(&options);
        Self { options, statistics, databases, snapshots: Vec::new(), files: 0 }
    }

    fn each(&self, mut act: impl FnMut(&Db)) {
        self.databases.iter().for_each(&mut act);
    }

    /// Ingests a file of random records, perhaps with a range tombstone.
    fn ingest(&mut self, random: &mut fastrand::Rng) {
        self.files += 1;
        let path = PathBuf::from(format!("/{}.sst", self.files));
        let first = random.usize(..KEYS);
        let mut records = Vec::new();
        for number in (first..KEYS).step_by(random.usize(1..6)) {
            records.push((number, random.u8(..3), random.u32(..).to_string()));
        }
        let range = (random.bool() || records.is_empty()).then(|| (random.usize(..KEYS), KEYS));
        for (options, db) in self.options.iter().zip(&self.databases) {
            let mut writer = SstFileWriter::new(options, "default").expect("a writer");
            writer.open(&path).expect("a file");
            for (number, kind, text) in &records {
                let written = match kind {
                    0 => writer.put(key(*number), text),
                    1 => writer.merge(key(*number), text),
                    _ => writer.delete(key(*number)),
                };
                written.expect("a record");
            }
            if let Some((from, to)) = range {
                writer.delete_range(key(from), key(to)).expect("a range tombstone");
            }
            writer.finish().expect("a table");
            db.ingest_external_file(&[&path]).expect("an ingestion");
        }
    }

    fn reopen(&mut self) {
        self.snapshots.clear();
        self.databases.clear();
        self.databases = open(&self.options);
    }

    /// Reads some keys in both databases, each in several ways, twice.
    fn compare(&self, random: &mut fastrand::Rng, context: &str) {
        let snapshots = match random.bool() && !self.snapshots.is_empty() {
            true => self.snapshots[random.usize(..self.snapshots.len())].clone().map(Some),
            false => [None, None],
        };
        let options = snapshots.map(|snapshot| ReadOptions::new().with_snapshot(snapshot));
        let keys: Vec<_> = (0..random.usize(1..8)).map(|_| key(random.usize(..KEYS))).collect();
        for round in 0..2 {
            let [expected, found] = [0, 1].map(|at| {
                let (db, options) = (&self.databases[at], &options[at]);
                if random.bool() {
                    let values = db.multi_get_opt(&keys, options).into_iter();
                    values.map(|value| value.expect("a read").map(Vec::from)).collect()
                } else {
                    let get = |key| db.get_opt(key, options).expect("a read");
                    keys.iter().map(get).collect::<Vec<_>>()
                }
            });
            assert_eq!(expected, found, "{context}, keys {keys:?}, round {round}");
            let pinned = self.databases[1].get_pinned_opt(&keys[0], &options[1]).expect("a read");
            assert_eq!(pinned.as_deref(), expected[0].as_deref(), "{context}, key {}", keys[0]);
        }
    }

    fn step(&mut self, random: &mut fastrand::Rng) {
        let (number, text) = (random.usize(..KEYS), random.u32(..).to_string());
        match random.u8(..100) {
            0..25 => self.each(|db| db.put(key(number), &text).expect("a put")),
            25..45 => self.each(|db| db.merge(key(number), &text).expect("a merge")),
            45..55 => self.each(|db| db.delete(key(number)).expect("a deletion")),
            55..70 => self.each(|db| db.flush().expect("a flush")),
            70..75 => {
                let (from, to) = (key(number), key(random.usize(number..=KEYS)));
                let compact =
                    |db: &Db| db.compact_range(Some(from.as_bytes()), Some(to.as_bytes()));
                self.each(|db| compact(db).expect("a compaction"));
            }
            75..82 => self.ingest(random),
            82..92 => {
                let both = [0, 1].map(|at| self.databases[at].snapshot());
                self.snapshots.push(both);
            }
            92..98 if !self.snapshots.is_empty() => {
                self.snapshots.swap_remove(random.usize(..self.snapshots.len()));
            }
            98 => self.reopen(),
            _ => {}
        }
    }
}

fn open(options: &[OpenOptions; 2]) -> Vec<Db> {
    options.iter().map(|options| Db::open(DB, options).expect("a database")).collect()
}

fn key(number: usize) -> String {
    format!("{number:03}")
}

#[test]
fn reads_with_and_without_a_row_cache_agree() {
    let seed = seed::rng();
    println!("repeat with TAILWATER_SEED={}", seed.value());
    let mut random = seed.rng;
    for round in 0..4 * seed::rounds() {
        let rows = [Rows::All, Rows::Few, Rows::Strict, Rows::WithBlocks][round % 4];
        let mut pair = Pair::new(&mut random, rows);
        for step in 0..STEPS {
            pair.step(&mut random);
            pair.compare(&mut random, &format!("{rows:?}, round {round}, step {step}"));
        }
        let hits = pair.statistics.ticker("rocksdb.row.cache.hit");
        assert!(hits.is_some_and(|hits| hits > 200), "{rows:?}: {hits:?} hits");
    }
}
