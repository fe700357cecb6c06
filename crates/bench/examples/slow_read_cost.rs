//! Measures what a threshold for slow reads costs reads of a hot set in memory.
//!
//! ```sh
//! cargo run --release -p tailwater-bench --example slow_read_cost -- DIR
//! cargo run --release -p tailwater-bench --example slow_read_cost -- DIR \
//!     'block_based_table_factory={block_cache=1M;filter_policy=bloomfilter:10:false}'
//! ```
//!
//! One thread gets random keys of 50 MiB of values of 4 KiB, by default all in the block cache, in
//! rounds of 50,000 gets: alternately without a threshold and with one of 200 us. Then it does the
//! same with rounds of 50,000 steps of iterators. Prints the median rates, the median of the ratios
//! of neighbouring rounds, and the quartiles of the latter. The second argument changes options.
//! The database in DIR is removed afterwards.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use tailwater::{Db, OpenOptions, ReadOptions};

/// Number of entries.
const ENTRIES: u64 = 12_800;

/// Number of gets or steps of a round.
const READS: u32 = 50_000;

/// Number of pairs of rounds.
const PAIRS: usize = 200;

const OPTIONS: &str = "create_if_missing=true;error_if_exists=true;compression=kNoCompression;\
     block_based_table_factory={block_cache=256M;filter_policy=bloomfilter:10:false}";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (directory, changes) = match arguments.as_slice() {
        [directory] => (Path::new(directory), ""),
        [directory, changes] => (Path::new(directory), changes.as_str()),
        _ => return Err("usage: slow_read_cost DIR [OPTIONS]".into()),
    };
    let mut options = OpenOptions::default();
    options.set_from_string(OPTIONS)?;
    options.set_from_string(changes)?;
    let db = Db::open(directory, &options)?;
    for entry in 0..ENTRIES {
        db.put(key(entry), [7; 4096])?;
    }
    db.flush()?;

    let mut random = fastrand::Rng::with_seed(1);
    let mut value = Vec::new();
    compare(&db, "gets", || match db.get_into(key(random.u64(..ENTRIES)), &mut value) {
        Ok(true) => Ok(()),
        found => Err(format!("a get returned {found:?}").into()),
    })?;
    compare_steps(&db)?;
    db.close()?;
    Ok(Db::destroy(directory, &options)?)
}

/// Compares steps of an iterator, which begins again at the end.
fn compare_steps(db: &Db) -> Result<(), Box<dyn Error>> {
    let mut iterator = db.raw_iterator_opt(&ReadOptions::default())?;
    compare(db, "steps", || {
        match iterator.valid() {
            true => iterator.next()?,
            false => iterator.seek_to_first()?,
        }
        Ok(())
    })
}

/// Makes rounds of reads without a threshold and with one, in turn, and prints their rates.
fn compare(
    db: &Db,
    reads: &str,
    mut read: impl FnMut() -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let mut round = || -> Result<f64, Box<dyn Error>> {
        let begun = Instant::now();
        (0..READS).try_for_each(|_| read())?;
        Ok(f64::from(READS) / begun.elapsed().as_secs_f64())
    };
    let mut rates = [Vec::new(), Vec::new()];
    let mut ratios = Vec::new();
    round()?;
    for _ in 0..PAIRS {
        for (rates, threshold) in rates.iter_mut().zip(["0", "200"]) {
            db.set_database_options(&[("slow_read_threshold_us", threshold)])?;
            rates.push(round()?);
        }
        ratios.extend(rates[1].last().zip(rates[0].last()).map(|(with, without)| with / without));
    }
    for (rates, what) in rates.iter_mut().zip(["without a threshold", "with one of 200 us "]) {
        println!("{what} {:9.0} {reads}/s", quartile(rates, 2));
    }
    let [low, middle, high] = [1, 2, 3].map(|number| quartile(&mut ratios, number));
    println!("ratio {middle:.3}, quartiles {low:.3} and {high:.3}");
    Ok(())
}

fn key(entry: u64) -> [u8; 8] {
    entry.to_be_bytes()
}

/// Returns a quartile of values: the median is the second.
fn quartile(values: &mut [f64], number: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    values[(values.len() - 1) * number / 4]
}
