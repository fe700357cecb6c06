//! One key that several threads get repeatedly.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tailwater_latency::entries::{Values, key};

use crate::store::{Failure, Store};

/// Number of entries in the database.
const ENTRIES: u64 = 100_000;
/// Number of the key that all threads get.
const HOT: u64 = ENTRIES / 2;
/// Number of gets between two checks of the clock.
const GETS_BETWEEN_CHECKS: u64 = 1000;

/// Gets the key [`HOT`] repeatedly in `threads` threads for the duration `time`; returns gets per
/// second of all threads together. If the store does not have this key yet, first puts all
/// [`ENTRIES`] entries.
pub(crate) fn get(store: &impl Store, threads: usize, time: Duration) -> Result<f64, Failure> {
    let hot = key(HOT);
    if store.get(&hot)?.is_none() {
        let values = Values::new(100, 1);
        store.put_all((0..ENTRIES).map(|number| (key(number), values.get(number))))?;
        store.compact()?;
        store.settle()?;
    }
    let stop = AtomicBool::new(false);
    let work = || -> Result<f64, Failure> {
        let (start, mut gets) = (Instant::now(), 0);
        while !stop.load(Ordering::Relaxed) {
            for _ in 0..GETS_BETWEEN_CHECKS {
                std::hint::black_box(store.get(&hot)?);
            }
            gets += GETS_BETWEEN_CHECKS;
            if start.elapsed() >= time {
                stop.store(true, Ordering::Relaxed);
            }
        }
        Ok(gets as f64 / start.elapsed().as_secs_f64())
    };
    thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let mut total = 0.0;
        for handle in handles {
            total += handle.join().map_err(|_| "a reader panicked")??;
        }
        Ok(total)
    })
}
