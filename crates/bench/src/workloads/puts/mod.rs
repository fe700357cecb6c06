//! Concurrent writers, each of which starts a write as soon as its previous write has ended.

pub(crate) mod figures;
pub(crate) mod length;

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use fastrand::Rng;

use tailwater_latency::entries::{Values, key};

pub(crate) use self::figures::Figures;
use self::figures::Latencies;
pub(crate) use self::length::Length;
use crate::store::{Failure, Store};

/// Length of values, in bytes.
pub(crate) const VALUE_BYTES: usize = 128;

/// The order of the keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Each writer puts the keys with the numbers 0, 1, 2 and so on. All writers put the same keys.
    Ascending,
    /// Each writer puts keys with uniformly random numbers.
    ByChance,
}

/// Parameters of concurrent puts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Putting {
    /// Number of concurrent writers.
    pub(crate) writers: usize,
    /// When the measurement ends: after a duration, or after a number of writes.
    pub(crate) length: Length,
    /// Order of the keys.
    pub(crate) order: Order,
    /// Whether each put is durable when it returns.
    pub(crate) is_synced: bool,
}

/// Puts values of 128 bytes with keys of 16 bytes.
pub(crate) fn put(store: &dyn Store, putting: &Putting) -> Result<Figures, Failure> {
    let values = &Values::new(VALUE_BYTES, 1);
    let Putting { writers, length, order, is_synced } = *putting;
    measure(writers, length, |writer| {
        let mut rng = Rng::with_seed(writer as u64);
        move |number| {
            let key = match order {
                Order::Ascending => key(number),
                Order::ByChance => key(rng.u64(..)),
            };
            if is_synced {
                store.put_synced(&key, values.get(number))
            } else {
                store.put(&key, values.get(number))
            }
        }
    })
}

/// Runs writers, and measures each write. `writer(n)` returns the function that writer `n` calls
/// for each write, with the write's number, from 0.
///
/// # Errors
/// The first failure of a writer. The other writers stop after their current write.
pub(crate) fn measure<W>(
    writers: usize,
    length: Length,
    writer: impl Fn(usize) -> W + Sync,
) -> Result<Figures, Failure>
where
    W: FnMut(u64) -> Result<(), Failure>,
{
    let (begin, has_failed) = (Barrier::new(writers), AtomicBool::new(false));
    let work = |number: usize, mut latencies: Latencies| -> Result<_, Failure> {
        let mut write = writer(number);
        begin.wait();
        let began = Instant::now();
        let mut before = began;
        for count in 0..length.writes_of(number, writers) {
            write(count).inspect_err(|_| has_failed.store(true, Ordering::Relaxed))?;
            let now = Instant::now();
            latencies.record(now - before);
            before = now;
            if length.is_over_after(now - began) || has_failed.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok((latencies, began, before))
    };
    let latencies = (0..writers).map(|_| Latencies::new()).collect::<Result<Vec<_>, _>>()?;
    let work = &work;
    let written = thread::scope(|scope| {
        let spawn = |(number, latencies)| scope.spawn(move || work(number, latencies));
        let handles: Vec<_> = latencies.into_iter().enumerate().map(spawn).collect();
        let joined = handles.into_iter().map(|handle| handle.join());
        joined
            .map(|written| written.map_err(|_| Failure::from("a writer panicked"))?)
            .collect::<Result<Vec<_>, Failure>>()
    })?;
    let mut all = Latencies::new()?;
    for (latencies, ..) in &written {
        all.add(latencies)?;
    }
    let began = written.iter().map(|(_, began, _)| *began).min();
    let ended = written.iter().map(|(.., ended)| *ended).max();
    let (began, ended) = began.zip(ended).ok_or("no writer ran")?;
    Ok(Figures::of(&all, ended - began))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::time::Duration;

    use super::*;

    #[test]
    fn all_writes_are_made_and_counted() {
        let sum = AtomicU64::new(0);
        let figures = measure(4, Length::Writes(10), |writer| {
            let sum = &sum;
            move |number| {
                sum.fetch_add(1000 * writer as u64 + number, Ordering::Relaxed);
                Ok(())
            }
        });
        assert_eq!(figures.unwrap().writes, 10.0);
        // The four writers share the ten writes: two of them write three times, and two write
        // twice. Each writer numbers its own writes from 0.
        assert_eq!(sum.into_inner(), 3 * 1000 + 2 * 2000 + 2 * 3000 + 2 * 3 + 2);
    }

    #[test]
    fn one_failure_ends_all_writers() {
        let forever = Length::Time(Duration::from_secs(1 << 40));
        let failed = measure(3, forever, |writer| {
            move |number| match (writer, number) {
                (1, 5) => Err("the fifth".into()),
                _ => Ok(()),
            }
        });
        assert_eq!(failed.unwrap_err().to_string(), "the fifth");
    }
}
