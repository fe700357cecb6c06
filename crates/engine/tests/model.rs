//! Gets and iterators agree with a model of the database, whatever the options and the moves.
//!
//! The model of a golden database is its dump. Random keys, bounds, prefixes and moves are applied
//! to both, with caches from none to plenty. A failure names the seed; `TAILWATER_SEED` repeats it
//! and `TAILWATER_ROUNDS` makes the runs longer.

#[path = "common/subject.rs"]
mod subject;

use subject::Effort;
use tailwater::{Db, OpenOptions};
use tailwater_testkit::{golden, seed};

/// The options with which databases are opened: with everything cached, nearly nothing, nothing;
/// with index and filter blocks in the cache; and with hardly any table open.
const OPTIONS: [&str; 6] = [
    "",
    "block_based_table_factory={block_cache=20000}",
    "block_based_table_factory={no_block_cache=true}",
    "block_based_table_factory={cache_index_and_filter_blocks=true}",
    "block_based_table_factory={cache_index_and_filter_blocks=true;block_cache=12000}",
    "block_based_table_factory={block_cache=100000};max_open_files=1",
];

/// Number of reads of each family, under each of [`OPTIONS`].
const EFFORT: Effort = Effort { gets: 4000, multi_gets: 40, walks: 200, between: |_, _, _| {} };

fn check_database(name: &str) {
    let copy = golden::unpack(name);
    let dump = golden::dump(name);
    let mut seed = seed::rng();
    for text in OPTIONS {
        let mut options = OpenOptions::load(copy.path()).expect("an OPTIONS file");
        options.set_options(text).expect("options");
        let db = Db::open_read_only(copy.path(), &options).expect("the database");
        let context = format!("{name} '{text}', seed {}", seed.value());
        for _ in 0..seed::rounds() {
            subject::ask(&db, &dump, EFFORT, &mut seed.rng, &context);
        }
    }
}

tailwater_testkit::golden_tests!(check_database);
