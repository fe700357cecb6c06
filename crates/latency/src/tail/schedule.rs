//! The due times of operations.

use std::time::Duration;

use tailwater_io::Clock;

/// The due times of reads at a fixed rate, independent of earlier reads: a slow read delays the
/// next ones, and their wait counts as latency (no coordinated omission).
#[derive(Debug)]
pub(super) struct Arrivals {
    start_ns: u64,
    interval_ns: f64,
    offset_ns: f64,
    count: u64,
}

impl Arrivals {
    /// Creates the schedule of one of `readers` readers, which together make `per_second` reads per
    /// second. The reads of different readers are due in turn.
    pub(super) fn new(start_ns: u64, per_second: f64, reader: usize, readers: usize) -> Self {
        let interval_ns = 1e9 / per_second * readers as f64;
        let offset_ns = interval_ns * reader as f64 / readers as f64;
        Self { start_ns, interval_ns, offset_ns, count: 0 }
    }

    /// Returns the time at which the next read is due, on the same clock as `start_ns`.
    pub(super) fn next_ns(&mut self) -> u64 {
        let due = self.offset_ns + self.count as f64 * self.interval_ns;
        self.count += 1;
        self.start_ns + due as u64
    }
}

/// Limits a writer to a rate in bytes per second. The writer writes in small bursts and sleeps
/// between them.
///
/// After a stall the writer catches up with at most the bytes of a tenth of a second, so that it
/// does not flood the engine.
#[derive(Debug)]
pub(super) struct Pace<'c> {
    clock: &'c dyn Clock,
    bytes_per_second: f64,
    /// Time at which, according to the rate, all bytes written so far are due.
    paid_ns: u64,
}

impl<'c> Pace<'c> {
    /// Maximum time by which a write may be early. The writer sleeps only when it is ahead of the
    /// rate by more, because waking up for each write would cost more than the write itself.
    const AHEAD: Duration = Duration::from_millis(10);
    /// Maximum time by which a writer that was stalled may be late and still catch up.
    const BEHIND: Duration = Duration::from_millis(100);

    /// Creates a pace that begins now.
    pub(super) fn new(clock: &'c dyn Clock, bytes_per_second: u64) -> Self {
        Self { clock, bytes_per_second: bytes_per_second as f64, paid_ns: clock.monotonic_ns() }
    }

    /// Waits until the next write may start, at most until `end_ns`, and accounts for its `bytes`.
    pub(super) fn wait(&mut self, bytes: usize, end_ns: u64) {
        let now = self.clock.monotonic_ns();
        let behind = Self::BEHIND.as_nanos() as u64;
        self.paid_ns = self.paid_ns.max(now.saturating_sub(behind));
        if self.paid_ns > now + Self::AHEAD.as_nanos() as u64 {
            self.clock.sleep_until(self.paid_ns.min(end_ns));
        }
        self.paid_ns += (bytes as f64 * 1e9 / self.bytes_per_second) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::super::workload::tests::SteppingClock;
    use super::*;

    #[test]
    fn reads_of_several_readers_are_due_in_turn() {
        let mut readers = [0, 1].map(|reader| Arrivals::new(1000, 1e6, reader, 2));
        let due: Vec<u64> = (0..3).flat_map(|_| [0, 1]).map(|r| readers[r].next_ns()).collect();
        assert_eq!(due, [1000, 2000, 3000, 4000, 5000, 6000]);
    }

    #[test]
    fn bytes_are_paced_at_the_rate() {
        let clock = SteppingClock::default();
        let mut pace = Pace::new(&clock, 1_000_000);
        for _ in 0..1000 {
            pace.wait(1000, u64::MAX);
        }
        let seconds = clock.monotonic_ns() as f64 / 1e9;
        assert!((0.98..=1.0).contains(&seconds), "{seconds}");
    }

    #[test]
    fn writes_missed_during_a_stall_are_not_made_up_for() {
        let clock = SteppingClock::default();
        let mut pace = Pace::new(&clock, 1_000_000);
        clock.sleep_until(10_000_000_000);
        let mut at_once = 0;
        while clock.monotonic_ns() == 10_000_000_000 {
            pace.wait(1000, u64::MAX);
            at_once += 1;
        }
        // The burst consists of 100 ms of catching up, 10 ms of lead, and the write that exceeded
        // the limit.
        assert!((110..=113).contains(&at_once), "{at_once}");
    }
}
