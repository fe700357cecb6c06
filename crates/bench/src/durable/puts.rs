//! Writers that write for as long as was said, each the next when the last has ended.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use fastrand::Rng;

use super::figures::{Figures, Latencies};
use super::length::Length;
use crate::entries::{Values, key};
use crate::store::{Failure, Store};

/// How long values are, in bytes.
pub(super) const VALUE_BYTES: usize = 128;

/// Which keys are put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Those of the numbers from 0 on, by each writer.
    Ascending,
    /// Those of any numbers.
    ByChance,
}

/// How an engine puts.
#[derive(Debug, Clone, Copy)]
pub struct Putting {
    /// How many writers put at once.
    pub writers: usize,
    /// For how long.
    pub length: Length,
    /// Which keys.
    pub order: Order,
    /// Whether each put is on the device when it returns.
    pub is_synced: bool,
}

/// Puts values of 128 bytes under keys of 16.
pub(crate) fn put(store: &impl Store, putting: &Putting) -> Result<Figures, Failure> {
    let values = &Values::new(VALUE_BYTES, 1);
    let Putting { writers, length, order, is_synced } = *putting;
    measure(writers, length, |writer| {
        let mut rng = Rng::with_seed(writer as u64);
        move |number| {
            let key = match order {
                Order::Ascending => key(number),
                Order::ByChance => key(rng.u64(..)),
            };
            match is_synced {
                true => store.put_synced(&key, values.get(number)),
                false => store.put(&key, values.get(number)),
            }
        }
    })
}

/// Lets writers write, and measures each write. `writer` makes what the writer of a number does
/// with its writes, which are numbered from 0.
///
/// # Errors
/// The first writer's that failed; the others end with the write that they are at.
pub(super) fn measure<W>(
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
    let (began, ended) = began.zip(ended).ok_or("there was no writer")?;
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
        // Two writers write three times and two twice, each from 0 on.
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
