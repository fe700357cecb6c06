//! Gets and iterators answer as a model of the database does, whatever the options and the moves.
//!
//! The model of a golden database is its dump. Random keys, bounds, prefixes and moves are asked of
//! both, under caches from none to plenty. A failure names the seed; `TAILWATER_SEED` repeats it and
//! `TAILWATER_ROUNDS` makes the runs longer.

#[path = "model/cursor.rs"]
mod cursor;
#[path = "model/walk.rs"]
mod walk;

use std::ops::Deref;

use fastrand::Rng;
use tailwater::{ColumnFamily, Db, OpenOptions, PrefixExtractor, ReadOptions};
use tailwater_testkit::model::Family;
use tailwater_testkit::{golden, seed};

/// What databases are opened with: everything cached, nearly nothing, nothing; index and filter
/// blocks in the cache; and hardly any table open.
const OPTIONS: [&str; 6] = [
    "",
    "block_based_table_factory={block_cache=20000}",
    "block_based_table_factory={no_block_cache=true}",
    "block_based_table_factory={cache_index_and_filter_blocks=true}",
    "block_based_table_factory={cache_index_and_filter_blocks=true;block_cache=12000}",
    "block_based_table_factory={block_cache=100000};max_open_files=1",
];

/// How often each family is asked for single keys, under each of [`OPTIONS`].
const GETS: usize = 4000;
/// How often each family is asked for several keys at once.
const MULTI_GETS: usize = 40;
/// How many iterators go over each family.
const WALKS: usize = 200;

/// One column family with what is known of it.
struct Subject<'a> {
    db: &'a Db,
    family: &'a ColumnFamily,
    model: Family,
    extractor: Option<PrefixExtractor>,
    /// Names the database, its options and the seed.
    context: String,
}

fn check_database(name: &str) {
    let copy = golden::unpack(name);
    let dump = golden::dump(name);
    let mut seed = seed::rng();
    for text in OPTIONS {
        let mut options = OpenOptions::load(copy.path()).expect("an OPTIONS file");
        options.set_options(text).expect("options");
        let db = Db::open_read_only(copy.path(), &options).expect("the database");
        for family in db.column_families() {
            let subject = Subject {
                db: &db,
                family,
                model: Family::new(family.name(), family.comparator().clone(), &dump),
                // The only family of the golden databases with an extractor.
                extractor: (family.name() == "prefix").then_some(PrefixExtractor::Fixed(12)),
                context: format!("{name}/{} '{text}', seed {}", family.name(), seed.value()),
            };
            for _ in 0..seed::rounds() {
                subject.check_gets(&mut seed.rng);
                subject.check_multi_gets(&mut seed.rng);
                for _ in 0..WALKS {
                    walk::check(&subject, &mut seed.rng);
                }
            }
        }
    }
}

impl Subject<'_> {
    /// A key that is there, lies near one that is, or is anything.
    fn random_key(&self, rng: &mut Rng) -> Vec<u8> {
        let mut key = match self.model.entries.len() {
            0 => Vec::new(),
            count => self.model.entries[rng.usize(..count)].0.clone(),
        };
        match rng.u8(..8) {
            0 => key.truncate(rng.usize(..=key.len())),
            1 => key.push(rng.u8(..)),
            2 => key = (0..rng.usize(..20)).map(|_| rng.u8(..)).collect(),
            3 if !key.is_empty() => {
                let at = rng.usize(..key.len());
                key[at] = key[at].wrapping_add(1);
            }
            _ => {}
        }
        key
    }

    fn random_read_options(rng: &mut Rng) -> ReadOptions {
        ReadOptions {
            verify_checksums: rng.bool(),
            fill_cache: rng.bool(),
            ..ReadOptions::default()
        }
    }

    fn check_gets(&self, rng: &mut Rng) {
        let mut buffer = Vec::new();
        for _ in 0..GETS {
            let key = self.random_key(rng);
            let expected = self.model.get(&key);
            let mut options = Self::random_read_options(rng);
            if rng.bool() {
                options.snapshot = Some(self.db.snapshot());
            }
            let copied = self.db.get(self.family, &key, &options);
            let pinned = self.db.get_pinned(self.family, &key, &options);
            let reused = self.db.get_into(self.family, &key, &options, &mut buffer);
            let reused = reused.map(|found| found.then_some(buffer.as_slice()));
            let context = || format!("{}: get of '{}'", self.context, key.escape_ascii());
            let copied = copied.unwrap_or_else(|error| panic!("{}: {error}", context()));
            let pinned = pinned.unwrap_or_else(|error| panic!("{}: {error}", context()));
            let reused = reused.unwrap_or_else(|error| panic!("{}: {error}", context()));
            assert_eq!(copied.as_deref(), expected, "{}", context());
            assert_eq!(pinned.as_deref(), expected, "{}, pinned", context());
            assert_eq!(reused, expected, "{}, into a buffer", context());
        }
    }

    fn check_multi_gets(&self, rng: &mut Rng) {
        for _ in 0..MULTI_GETS {
            let keys: Vec<Vec<u8>> = (0..rng.usize(..60)).map(|_| self.random_key(rng)).collect();
            let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            let options = Self::random_read_options(rng);
            let values = self.db.multi_get(self.family, &keys, &options);
            assert_eq!(values.len(), keys.len(), "{}", self.context);
            for (key, value) in keys.iter().zip(&values) {
                let context = || format!("{}: multi_get of '{}'", self.context, key.escape_ascii());
                let value = value.as_ref().unwrap_or_else(|error| panic!("{}: {error}", context()));
                let value = value.as_ref().map(Deref::deref);
                assert_eq!(value, self.model.get(key), "{}", context());
            }
        }
    }
}

macro_rules! golden_databases {
    ($($test:ident => $name:literal),* $(,)?) => {
        $(
            #[test]
            fn $test() {
                check_database($name);
            }
        )*

        #[test]
        fn every_golden_database_is_checked() {
            assert_eq!(golden::names(), [$($name),*]);
        }
    };
}

golden_databases! {
    basic => "basic",
    blobs => "blobs",
    fifo => "fifo",
    formats => "formats",
    packages => "packages",
    records => "records",
    universal => "universal",
    wal => "wal",
    wal_recycled => "wal-recycled",
    wal_zstd => "wal-zstd",
}
