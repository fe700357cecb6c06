//! The number of bytes that delayed writes may write without waiting.
//!
//! Bytes are granted for a whole interval at a time. As long as granted bytes are left, writes do
//! not wait. The first write that exceeds them sleeps for at least an interval. Without this, each
//! small write would have to sleep for a few microseconds, and such a sleep takes far longer than
//! requested.
//!
//! Source: `WriteController::GetDelay` in `db/write_controller.cc`.

/// Length of the interval for which bytes are granted in advance, and minimum time that a write
/// waits, in microseconds.
const INTERVAL_US: u64 = 1000;
/// After a pause in writes, bytes are also granted for the time of the pause. At most this number
/// of microseconds of the pause is counted.
const SAVED_US: u64 = 1_000_000;

/// The bytes that may be written without waiting.
#[derive(Debug, Clone, Default)]
pub(super) struct Allowance {
    bytes: u64,
    /// The end of the time for which bytes have been granted so far, in microseconds on the clock
    /// of `now_us`; `None` before the first grant.
    granted_until_us: Option<u64>,
}

impl Allowance {
    /// Takes `bytes` from the allowance at the time `now_us`, in microseconds since any fixed time.
    /// `bytes_per_second` is the rate at which bytes are granted. Returns how long the caller must
    /// wait before it writes the bytes, in microseconds.
    pub(super) fn take(&mut self, bytes: u64, now_us: u64, bytes_per_second: u64) -> u64 {
        let rate = bytes_per_second.max(1);
        if self.spend(bytes) {
            return 0;
        }
        let granted_until = self.granted_until_us.unwrap_or(now_us);
        if granted_until <= now_us {
            let elapsed = (now_us - granted_until).min(SAVED_US) + INTERVAL_US;
            let granted = u128::from(elapsed) * u128::from(rate) / 1_000_000;
            self.bytes = self.bytes.saturating_add(u64::try_from(granted).unwrap_or(u64::MAX));
            self.granted_until_us = Some(now_us.saturating_add(INTERVAL_US));
            if self.spend(bytes) {
                return 0;
            }
        }
        let missing = bytes - std::mem::take(&mut self.bytes);
        let needed_us = missing.saturating_mul(1_000_000) / rate;
        let until = self.granted_until_us.unwrap_or(now_us).saturating_add(needed_us);
        self.granted_until_us = Some(until);
        until.saturating_sub(now_us).max(INTERVAL_US)
    }

    /// Adds `bytes` to the allowance again. They were taken from it, but are not written.
    pub(super) fn give_back(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    fn spend(&mut self, bytes: u64) -> bool {
        let left = self.bytes.checked_sub(bytes);
        self.bytes = left.unwrap_or(self.bytes);
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the throughput, in bytes per second, of a simulation in which each write has `bytes`
    /// bytes and takes one microsecond in addition to its wait.
    fn written(bytes: u64, rate: u64) -> f64 {
        let (begin_us, mut allowance, mut written) = (7_000_000, Allowance::default(), 0);
        let mut now_us = begin_us;
        while now_us < begin_us + 10_000_000 {
            now_us += allowance.take(bytes, now_us, rate) + 1;
            written += bytes;
        }
        written as f64 * 1e6 / (now_us - begin_us) as f64
    }

    #[test]
    fn writes_of_any_size_reach_the_rate() {
        for bytes in [20, 116, 1000, 4000, 100_000, 3_000_000] {
            for rate in [1_000_000, 16 << 20] {
                let share = written(bytes, rate) / rate as f64;
                assert!((0.95..1.05).contains(&share), "{bytes} at {rate}: {share}");
            }
        }
    }

    #[test]
    fn writers_below_the_rate_do_not_wait() {
        let mut allowance = Allowance::default();
        for second in 0..100 {
            assert_eq!(allowance.take(900, second * 1_000_000, 1_000_000), 0);
        }
    }

    #[test]
    fn unused_allowance_expires() {
        let mut allowance = Allowance::default();
        allowance.take(1, 0, 1_000_000);
        assert!(allowance.take(2_000_000, 3_600_000_000, 1_000_000) > 900_000);
    }
}
