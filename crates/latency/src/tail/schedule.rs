//! When reads and writes are due: the schedule of reads at a fixed rate, and the pace of a writer.

use std::time::Duration;

use tailwater_io::Clock;

/// The due times of one reader's reads at a fixed rate. A due time does not depend on earlier
/// reads. If a slow read delays the next ones, their latency includes the delay, which avoids
/// coordinated omission.
#[derive(Debug)]
pub(super) struct Arrivals {
    start_ns: u64,
    interval_ns: f64,
    offset_ns: f64,
    count: u64,
}

impl Arrivals {
    /// Creates the schedule of reader number `reader` of `readers`. All readers together make
    /// `per_second` reads per second. Their due times are staggered evenly.
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
/// If the writer falls behind, because the engine stalled it, it may catch up only the last 100 ms
/// of missed writes. Catching up more would flood the engine.
#[derive(Debug)]
pub(super) struct Pace<'c> {
    clock: &'c dyn Clock,
    bytes_per_second: f64,
    /// Time at which the bytes written so far are due according to the rate, in nanoseconds. It is
    /// later than the current time if the writer is ahead of the rate.
    paid_ns: u64,
}

impl<'c> Pace<'c> {
    /// How far a writer may be ahead of the rate before it sleeps. Sleeping before each write would
    /// cost more than the write itself.
    const AHEAD: Duration = Duration::from_millis(10);
    /// The longest delay that a writer makes up for when it is behind its rate. The rest of a
    /// longer delay is ignored.
    const BEHIND: Duration = Duration::from_millis(100);

    /// Creates a rate limiter for a writer. The limiter starts at the current time.
    pub(super) fn new(clock: &'c dyn Clock, bytes_per_second: u64) -> Self {
        Self { clock, bytes_per_second: bytes_per_second as f64, paid_ns: clock.monotonic_ns() }
    }

    /// Waits until a write of `bytes` may start according to the rate, but not beyond `end_ns`.
    /// Then counts the bytes as written.
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
        // The rate is one write per millisecond. After the stall, the writer makes up for 100 ms
        // (`BEHIND`) and may get 10 ms ahead of its rate (`AHEAD`). So about 110 writes start
        // immediately, plus the write with which the writer exceeds the 10 ms.
        assert!((110..=113).contains(&at_once), "{at_once}");
    }
}
