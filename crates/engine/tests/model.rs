//! Tests that gets and iterators agree with a model of the database, whatever the database's
//! options and the moves of the iterators.
//!
//! The model of a golden database, which RocksDB wrote, is RocksDB's dump of its contents. The test
//! makes the same random gets, seeks and moves on the database and on the model, with caches of
//! different capacities. A failure prints the seed. `TAILWATER_SEED` repeats the run with that
//! seed, and `TAILWATER_ROUNDS` multiplies the number of reads.

#[path = "common/subject.rs"]
mod subject;

use subject::Effort;
use tailwater::{Db, OpenOptions};
use tailwater_testkit::{golden, seed};

/// The options with which each database is opened, in turn. The block cache holds everything,
/// nearly nothing, or nothing; or index and filter blocks are in the cache; or hardly any table
/// stays open.
const OPTIONS: [&str; 6] = [
    "",
    "block_based_table_factory={block_cache=20000}",
    "block_based_table_factory={no_block_cache=true}",
    "block_based_table_factory={cache_index_and_filter_blocks=true}",
    "block_based_table_factory={cache_index_and_filter_blocks=true;block_cache=12000}",
    "block_based_table_factory={block_cache=100000};max_open_files=1",
];

/// Number of random reads of each kind from each column family, with each of [`OPTIONS`].
const EFFORT: Effort = Effort { gets: 4000, multi_gets: 40, walks: 200, between: |_, _, _| {} };

fn check_database(name: &str) {
    let copy = golden::unpack(name);
    let dump = golden::dump(name);
    let mut seed = seed::rng();
    for text in OPTIONS {
        let mut options = OpenOptions::load(copy.path()).expect("an OPTIONS file");
        options.set_from_string(text).expect("options");
        let db = Db::open_read_only(copy.path(), &options).expect("the database");
        let context = format!("{name} '{text}', seed {}", seed.value());
        for _ in 0..seed::rounds() {
            subject::ask(&db, &dump, EFFORT, &mut seed.rng, &context);
        }
    }
}

tailwater_testkit::golden_tests!(check_database);
