//! Pauses between attempts of work that failed for lack of disk space or file descriptors.

use std::time::Duration;

/// A backoff has an interval. Its longest pause is the interval times this factor, and its first
/// pause is the interval divided by this factor.
const RANGE: u32 = 8;
/// Shortest pause, even if the interval of the backoff is shorter.
const SHORTEST: Duration = Duration::from_millis(1);

/// A sequence of pauses. Each is twice as long as the previous one, up to a maximum.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Backoff {
    interval: Duration,
    next: Duration,
}

impl Backoff {
    /// Creates pauses for an interval in microseconds. The first pause is an eighth of the
    /// interval; each further pause is twice as long as the one before, up to eight times the
    /// interval.
    pub(crate) fn new(interval_us: u64) -> Self {
        let interval = Duration::from_micros(interval_us);
        Self { interval, next: interval / RANGE }
    }

    /// Returns the next pause.
    pub(crate) fn next_pause(&mut self) -> Duration {
        let longest = self.interval.saturating_mul(RANGE);
        let pause = self.next;
        self.next = pause.saturating_mul(2).min(longest);
        pause.max(SHORTEST)
    }

    /// Starts again with the first, shortest pause.
    pub(crate) fn restart(&mut self) {
        *self = Self { interval: self.interval, next: self.interval / RANGE };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_maximum_and_restart() {
        let mut backoff = Backoff::new(8_000_000);
        let mut seconds = || backoff.next_pause().as_secs();
        let taken: Vec<u64> = (0..9).map(|_| seconds()).collect();
        assert_eq!(taken, [1, 2, 4, 8, 16, 32, 64, 64, 64]);
        backoff.restart();
        assert_eq!([0, 1].map(|_| backoff.next_pause().as_secs()), [1, 2]);
        let mut none = Backoff::new(0);
        assert_eq!([0, 1].map(|_| none.next_pause()), [SHORTEST; 2]);
        let mut longest = Backoff::new(u64::MAX);
        assert!((0..100).map(|_| longest.next_pause()).is_sorted(), "none overflows");
    }
}
