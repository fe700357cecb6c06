//! Measures random puts without a log, that is, mostly inserts into a memtable.
//!
//! ```sh
//! cargo run --release -p tailwater-bench --example random_puts -- DIR 330000 20
//! ```
//!
//! Each round creates a database in the empty directory DIR, puts this number of entries (16-byte
//! keys, 100-byte values), and removes it. Prints the nanoseconds per put of each round: the
//! lowest, and the median. 330,000 entries fit the memtable of 64 MiB, so nothing is flushed
//! meanwhile.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use tailwater::{Db, OpenOptions, WriteOptions};
use tailwater_latency::entries::{Values, key};

/// The options of the database.
const OPTIONS: &str =
    "create_if_missing=true;write_buffer_size=64M;avoid_flush_during_shutdown=true";

/// Length of values, in bytes.
const VALUE_BYTES: usize = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, entries, rounds] = arguments.as_slice() else {
        return Err("usage: random_puts DIR ENTRIES ROUNDS".into());
    };
    let (entries, rounds): (u64, u64) = (entries.parse()?, rounds.parse()?);
    let mut ns_per_put = Vec::new();
    for round in 0..rounds {
        ns_per_put.push(fill(Path::new(directory), entries, round)?);
    }
    ns_per_put.sort_unstable();
    let lowest = ns_per_put.first().ok_or("no rounds")?;
    println!("{lowest} ns/put at least, {} in the median", ns_per_put[ns_per_put.len() / 2]);
    Ok(())
}

/// Fills a new database with random puts. Returns the time that a put took, in nanoseconds.
fn fill(directory: &Path, entries: u64, seed: u64) -> Result<u64, Box<dyn Error>> {
    let mut options = OpenOptions::default();
    options.set_from_string(OPTIONS)?;
    let db = Db::open(directory, &options)?;
    let family = db.cf_handle("default")?;
    let unlogged = WriteOptions::new().with_disable_wal(true);
    let values = Values::new(VALUE_BYTES, seed);
    let mut rng = fastrand::Rng::with_seed(seed);
    let begun = Instant::now();
    for number in 0..entries {
        let key = key(rng.u64(..entries));
        db.put_cf_opt(&family, key, values.get(number), &unlogged)?;
    }
    let took = begun.elapsed();
    db.close()?;
    Db::destroy(directory, &options)?;
    Ok(took.as_nanos() as u64 / entries)
}
