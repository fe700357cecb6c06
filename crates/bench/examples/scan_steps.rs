//! Steps repeatedly over a snapshot, so that a profiler can count the instructions per step.
//!
//! ```sh
//! cargo build --release -p tailwater-bench --example scan_steps
//! STEPS=target/release/examples/scan_steps
//! for scans in 5 15; do for refresh in false true; do
//!     valgrind --tool=callgrind --callgrind-out-file=/dev/null $STEPS $refresh $scans
//! done; done
//! ```
//!
//! The arguments are the value of `auto_refresh_iterator_with_snapshot` and the number of scans of
//! the database's 100,000 entries. Two runs with different numbers of scans fill the database at
//! the same cost, so the difference of their instruction counts is the cost of the additional
//! scans. Nothing runs in the background, and no new version of the column family is installed.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use tailwater::{Db, OpenOptions, ReadOptions, WriteOptions};
use tailwater_io::sim::SimStorage;

/// Number of entries in the database.
const ENTRIES: u64 = 100_000;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [refresh, scans] = arguments.as_slice() else {
        return Err("usage: scan_steps (true | false) SCANS".into());
    };
    let (refresh, scans): (bool, u64) = (refresh.parse()?, scans.parse()?);
    let mut options = OpenOptions::with_storage(Arc::new(SimStorage::new(1)));
    options.set_from_string("create_if_missing=true;compression=kNoCompression;block_based_table_factory={block_cache=1G}")?;
    let db = Db::open(Path::new("/db"), &options)?;
    let family = db.cf_handle("default")?;
    for number in 0..ENTRIES {
        let key = format!("{number:032}");
        db.put_cf_opt(&family, key.as_bytes(), [7; 512], &WriteOptions::default())?;
    }
    db.flush_cf(&family)?;
    let read = ReadOptions::new()
        .with_snapshot(db.snapshot())
        .with_auto_refresh_iterator_with_snapshot(refresh);
    let mut steps = 0_u64;
    for _ in 0..scans {
        let mut iterator = db.raw_iterator_cf_opt(&family, &read)?;
        iterator.seek_to_first()?;
        while iterator.valid() {
            steps += 1;
            iterator.next()?;
        }
    }
    println!("{steps} steps");
    Ok(())
}
