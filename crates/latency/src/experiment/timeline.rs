//! The course of a run, second by second: latencies, what the engine does, and the kernel's
//! figures.
//!
//! Threads that measure latencies must not be disturbed, so another thread collects once a second.
//! A [`Recorder`] belongs to a measuring thread and has two histograms. Once a second, with the
//! record after the second has ended, it hands the full one over to the [`Collector`], which
//! returns it empty. Recording itself costs no more than with a single histogram.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use tailwater_io::Clock;
use tailwater_io::kernel;

use crate::failure::Failure;
use crate::latencies::histogram;

/// Interval between two collections, in nanoseconds.
const SECOND_NS: u64 = 1_000_000_000;
/// Time from the end of a second to its collection, in which recorders hand over.
const SLACK: Duration = Duration::from_millis(20);
/// A last period of at least this many seconds counts like a full one.
const SHORTEST_S: f64 = 0.5;
/// The kernel's figures that are kept for each second.
const KERNEL: [&str; 7] = [
    "cached_pages",
    "dirty_pages",
    "device_read_bytes_per_second",
    "device_write_bytes_per_second",
    "utilisation",
    "running_us_per_second",
    "run_delay_us_per_second",
];

/// The course of a run. All times are in seconds since its start.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Timeline {
    /// For each kind of operation, such as `reads`, its latencies in each second.
    pub(crate) latencies: BTreeMap<String, Vec<Second>>,
    /// What the engine did in each second, by name, each with the end of the second, `at_s`.
    pub(crate) engine: Vec<Moment>,
    /// The kernel's figures in each second, by name, each with the end of the second, `at_s`.
    pub(crate) kernel: Vec<Moment>,
    /// The flushes and compactions that ended during the run.
    pub(crate) events: Vec<Event>,
}

/// Figures by their names.
pub(crate) type Moment = BTreeMap<String, f64>;

/// The latencies of a second. A percentile is `None` if there were no operations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Second {
    /// End of the second.
    pub(crate) at_s: f64,
    pub(crate) per_second: f64,
    pub(crate) p50_us: Option<f64>,
    pub(crate) p99_us: Option<f64>,
    pub(crate) p999_us: Option<f64>,
    pub(crate) max_us: Option<f64>,
}

/// A flush or a compaction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Event {
    /// `flush` or `compaction`.
    pub(crate) kind: String,
    pub(crate) begin_s: f64,
    pub(crate) end_s: f64,
    /// The level into which tables were written.
    pub(crate) level: u64,
    /// Total size of the written tables; `None` if the engine does not report it.
    pub(crate) bytes: Option<u64>,
}

impl Timeline {
    /// Sets the kernel's figures, which a sampler measured in consecutive seconds.
    pub(crate) fn add_kernel(&mut self, seconds: &[kernel::Figures]) {
        let mut at_s = 0.0;
        for figures in seconds {
            at_s += figures.seconds;
            let kept = figures.named().into_iter().filter(|(name, _)| KERNEL.contains(name));
            let kept = kept.filter_map(|(name, figure)| Some((name.to_owned(), figure?)));
            self.kernel.push(kept.chain([("at_s".to_owned(), at_s)]).collect());
        }
    }
}

impl Second {
    fn of(at_s: f64, seconds: f64, latencies: &Histogram<u64>) -> Self {
        let us = |ns: u64| (!latencies.is_empty()).then_some(ns as f64 / 1000.0);
        let at = |quantile| us(latencies.value_at_quantile(quantile));
        Self {
            at_s,
            per_second: latencies.len() as f64 / seconds,
            p50_us: at(0.5),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: us(latencies.max()),
        }
    }
}

/// Records latencies in one thread. Times are on any clock in nanoseconds, the same for all
/// recorders of a collector.
pub(crate) struct Recorder {
    latencies: Histogram<u64>,
    hand_over_at_ns: u64,
    full: Sender<Histogram<u64>>,
    empty: Receiver<Histogram<u64>>,
}

impl Recorder {
    /// Records the latency of an operation that ended at the time `now_ns`.
    #[inline]
    pub(crate) fn record(&mut self, now_ns: u64, latency_ns: u64) {
        self.record_n(now_ns, latency_ns, 1);
    }

    /// Records that `count` operations with this latency ended at the time `now_ns`.
    #[inline]
    pub(crate) fn record_n(&mut self, now_ns: u64, latency_ns: u64, count: u64) {
        if now_ns >= self.hand_over_at_ns {
            self.hand_over(now_ns);
        }
        self.latencies.saturating_record_n(latency_ns, count);
    }

    /// Hands over the latencies of the past second, unless the collector still has the other
    /// histogram.
    #[cold]
    fn hand_over(&mut self, now_ns: u64) {
        while self.hand_over_at_ns <= now_ns {
            self.hand_over_at_ns += SECOND_NS;
        }
        if let Ok(empty) = self.empty.try_recv() {
            // The send fails only if the collector failed, which ends the run.
            let _ = self.full.send(std::mem::replace(&mut self.latencies, empty));
        }
    }

    /// Hands over what is left, when the thread has ended.
    pub(crate) fn finish(self) {
        let _ = self.full.send(self.latencies);
    }
}

/// The collector's ends of the two channels between it and a recorder.
struct Link {
    full: Receiver<Histogram<u64>>,
    empty: Sender<Histogram<u64>>,
}

/// Collects the latencies of several recorders.
pub(crate) struct Collector {
    links: Vec<Link>,
    total: Histogram<u64>,
    second: Histogram<u64>,
    collected_s: f64,
}

impl Collector {
    /// Creates this many recorders, and their collector, for a run that starts at `start_ns`.
    pub(crate) fn new(recorders: usize, start_ns: u64) -> Result<(Vec<Recorder>, Self), Failure> {
        let hand_over_at_ns = start_ns + SECOND_NS;
        let (mut links, mut ends) = (Vec::new(), Vec::new());
        for _ in 0..recorders {
            let (full, collected) = channel();
            let (returned, empty) = channel();
            let _ = returned.send(histogram()?);
            ends.push(Recorder { latencies: histogram()?, hand_over_at_ns, full, empty });
            links.push(Link { full: collected, empty: returned });
        }
        let (total, second) = (histogram()?, histogram()?);
        Ok((ends, Self { links, total, second, collected_s: 0.0 }))
    }

    /// Collects what was handed over since the last call; `at_s` is the time since the start.
    pub(crate) fn collect(&mut self, at_s: f64) -> Result<Second, Failure> {
        self.second.reset();
        for Link { full, empty } in &self.links {
            for mut latencies in full.try_iter() {
                self.second.add(&latencies)?;
                latencies.reset();
                // The send fails if the recorder has finished and needs no histogram.
                let _ = empty.send(latencies);
            }
        }
        self.total.add(&self.second)?;
        let seconds = at_s - self.collected_s;
        self.collected_s = at_s;
        Ok(Second::of(at_s, seconds, &self.second))
    }

    /// Returns all latencies collected so far.
    pub(crate) fn total(&self) -> &Histogram<u64> {
        &self.total
    }

    /// Collects what is left after all recorders have finished, and returns all latencies.
    pub(crate) fn finish(mut self) -> Result<Histogram<u64>, Failure> {
        self.collect(self.collected_s)?;
        Ok(self.total)
    }
}

/// Calls `collect` after each second, with the time since the start in seconds, until the sender of
/// `end` is dropped. Then calls it for the rest, if that is long enough to be compared with a
/// second.
pub(crate) fn every_second(
    clock: &dyn Clock,
    start_ns: u64,
    end: &Receiver<()>,
    mut collect: impl FnMut(f64) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut last_s = 0.0;
    for second in 1.. {
        let due = Duration::from_nanos(SECOND_NS * second) + SLACK;
        let wait = due.saturating_sub(Duration::from_nanos(clock.since_ns(start_ns)));
        let is_over = end.recv_timeout(wait) != Err(RecvTimeoutError::Timeout);
        let at_s = clock.since_ns(start_ns) as f64 / 1e9;
        if !is_over || at_s - last_s >= SHORTEST_S {
            collect(at_s)?;
        }
        if is_over {
            break;
        }
        last_s = at_s;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_second_has_its_latencies_and_the_total_has_all() {
        let (mut recorders, mut collector) = Collector::new(2, 0).unwrap();
        for recorder in &mut recorders {
            recorder.record(SECOND_NS / 2, 1_000);
            recorder.record(SECOND_NS + 1, 2_000);
        }
        let first = collector.collect(1.0).unwrap();
        assert_eq!((first.per_second, first.max_us), (2.0, Some(1.0)));
        recorders.into_iter().for_each(Recorder::finish);
        let second = collector.collect(1.5).unwrap();
        assert_eq!((second.per_second, second.p50_us), (4.0, Some(2.0)));
        assert_eq!(collector.collect(2.0).unwrap().p50_us, None);
        assert_eq!(collector.finish().unwrap().len(), 4);
    }

    /// A collector that is late must not lose what is recorded meanwhile.
    #[test]
    fn nothing_is_lost_while_the_collector_is_late() {
        let (mut recorders, collector) = Collector::new(1, 0).unwrap();
        for second in 0..5 {
            recorders[0].record(second * SECOND_NS, 1_000);
        }
        recorders.into_iter().for_each(Recorder::finish);
        assert_eq!(collector.finish().unwrap().len(), 5);
    }
}
