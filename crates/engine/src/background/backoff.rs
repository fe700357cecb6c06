//! How long work rests that found no space, before it is tried again.

use std::time::Duration;

/// The first pause is this part of the interval, and the longest so many times as long as it.
const RANGE: u32 = 8;
/// No pause is shorter, however short the interval.
const SHORTEST: Duration = Duration::from_millis(1);

/// Pauses that grow, each twice as long as the one before.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Backoff {
    interval: Duration,
    next: Duration,
}

impl Backoff {
    /// Pauses from an eighth of `interval_us` to eight times as long, in microseconds.
    pub(crate) fn new(interval_us: u64) -> Self {
        let interval = Duration::from_micros(interval_us);
        Self { interval, next: interval / RANGE }
    }

    /// Takes the next pause.
    pub(crate) fn next_pause(&mut self) -> Duration {
        let longest = self.interval.saturating_mul(RANGE);
        let pause = self.next;
        self.next = pause.saturating_mul(2).min(longest);
        pause.max(SHORTEST)
    }

    /// Begins with the shortest pause again.
    pub(crate) fn restart(&mut self) {
        *self = Self { interval: self.interval, next: self.interval / RANGE };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_begin_anew() {
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
