//! Overlapping range deletions, and reads while they are in the memtable.
//!
//! Each deletion extends a little beyond both ends of the previous one, so that in the end all
//! deletions cover the keys in the middle. The deletions stay in the memtable while keys are read.
//! An engine that splits the deletions into disjoint fragments, and stores with each fragment all
//! deletions that cover it, needs time and memory quadratic in the number of deletions.

use std::time::{Duration, Instant};

use fastrand::Rng;
use tailwater_latency::entries::{Values, key};

use crate::store::{Direction, Failure, Store};

/// Name of the property that is the total size of all tables, in bytes.
const TABLE_BYTES: &str = "rocksdb.total-sst-files-size";
/// Length of values, in bytes.
const VALUE_BYTES: usize = 100;
/// No deleted range covers the outermost keys at either end of the key space. Their number at each
/// end is KEYS_BESIDE times the number of deletions.
const KEYS_BESIDE: u64 = 5;
/// Number of keys by which each deleted range extends beyond the previous range, at each end.
const KEYS_FURTHER: u64 = 20;

/// The size of the workload.
#[derive(Debug, Clone, Copy)]
pub struct Deleting {
    /// Number of ranges to delete.
    pub deletions: u64,
    /// Number of gets after all deletions; ignored if deletions and gets alternate.
    pub reads: u64,
    /// Whether deletions and gets alternate: exactly one get follows each deletion.
    pub by_turns: bool,
}

/// The results of the workload.
#[derive(Debug, Clone, Copy)]
pub struct Figures {
    /// Deletions per second. If deletions and gets alternate, the time of the gets is included.
    pub deletions: f64,
    /// Gets per second while all deletions are in the memtable; 0 if gets and deletions alternate.
    pub gets: f64,
    /// Duration of a scan over the remaining keys, in seconds.
    pub scan_s: f64,
    /// Duration of the flush, in seconds.
    pub flush_s: f64,
    /// Length of the tables that the flush wrote, in bytes.
    pub flushed_bytes: f64,
}

/// Puts keys, deletes ranges of them, and reads.
pub(crate) fn delete(store: &impl Store, work: &Deleting) -> Result<Figures, Failure> {
    let keys = work.deletions * 2 * (KEYS_FURTHER + KEYS_BESIDE);
    let values = Values::new(VALUE_BYTES, 1);
    store.put_all((0..keys).map(|number| (key(number), values.get(number))))?;
    store.settle()?;
    let bytes_before = table_bytes(store)?;
    let mut rng = Rng::with_seed(1);
    let mut get = || store.get(&key(rng.u64(..keys))).map(std::hint::black_box);
    let deleting = timed(|| {
        for reach in (1..=work.deletions).map(|number| number * KEYS_FURTHER) {
            store.delete_range(&key(keys / 2 - reach), &key(keys / 2 + reach))?;
            if work.by_turns {
                get()?;
            }
        }
        Ok(())
    })?;
    let reads = if work.by_turns { 0 } else { work.reads };
    let getting = timed(|| (0..reads).try_for_each(|_| get().map(drop)))?;
    let mut remaining = 0;
    let scanning = timed(|| {
        remaining = store.scan(None, Direction::Forward, u64::MAX)?.entries;
        Ok(())
    })?;
    let expected = work.deletions * 2 * KEYS_BESIDE;
    if remaining != expected {
        return Err(format!("{remaining} keys remain, not {expected}").into());
    }
    let flushing = timed(|| store.settle())?;
    Ok(Figures {
        deletions: work.deletions as f64 / deleting.as_secs_f64(),
        gets: if reads == 0 { 0.0 } else { reads as f64 / getting.as_secs_f64() },
        scan_s: scanning.as_secs_f64(),
        flush_s: flushing.as_secs_f64(),
        flushed_bytes: table_bytes(store)? - bytes_before,
    })
}

fn timed(work: impl FnOnce() -> Result<(), Failure>) -> Result<Duration, Failure> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed())
}

fn table_bytes(store: &impl Store) -> Result<f64, Failure> {
    let bytes = store.property(TABLE_BYTES)?.ok_or_else(|| format!("no {TABLE_BYTES}"))?;
    Ok(bytes.parse()?)
}
