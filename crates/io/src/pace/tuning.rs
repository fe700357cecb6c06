//! Adjusts the rate of a limiter to the demand.
//!
//! The demand is measured in *drains*: the refill periods in which a request had to wait because
//! the bytes of the period were used up.

/// Number of refill periods after which the rate is adjusted.
const REFILLS_PER_TUNE: u64 = 100;
/// Percentage of drained periods below which the rate is lowered.
const LOW_WATERMARK: u64 = 50;
/// Percentage of drained periods above which the rate is raised.
const HIGH_WATERMARK: u64 = 90;
/// By how many per cent the rate is lowered or raised.
const ADJUSTMENT: u128 = 5;
/// The lowest rate is the highest one divided by this.
const RANGE: u64 = 20;

/// The state of the adjustment.
#[derive(Debug)]
pub(super) struct Tuning {
    /// The highest rate, in bytes per second.
    most: u64,
    /// Number of drains since the last adjustment.
    drains: u64,
    /// When the rate was last adjusted, or first could have been; `None` before.
    tuned_ns: Option<u64>,
}

impl Tuning {
    /// Creates the state for rates up to `most`.
    pub(super) fn new(most: u64) -> Self {
        Self { most, drains: 0, tuned_ns: None }
    }

    /// Notes that the bytes of a refill period are used up.
    pub(super) fn count_drain(&mut self) {
        self.drains += 1;
    }

    /// Returns the new rate if the last adjustment was long enough ago, and `rate`, the current
    /// one, otherwise. The first call begins the time to the first adjustment.
    pub(super) fn tune(&mut self, now_ns: u64, period_ns: u64, rate: u64) -> u64 {
        let since_ns = now_ns.saturating_sub(*self.tuned_ns.get_or_insert(now_ns));
        if since_ns < period_ns.saturating_mul(REFILLS_PER_TUNE) {
            return rate;
        }
        self.tuned_ns = Some(now_ns);
        let periods = since_ns.div_ceil(period_ns).max(1);
        let drained = std::mem::take(&mut self.drains).saturating_mul(100) / periods;
        let least = self.most / RANGE;
        match drained {
            0 => least,
            1..LOW_WATERMARK => scaled(rate, 100, 100 + ADJUSTMENT).max(least),
            LOW_WATERMARK..=HIGH_WATERMARK => rate,
            _ => scaled(rate, 100 + ADJUSTMENT, 100).min(self.most),
        }
    }
}

/// Returns `rate * factor / divisor`.
fn scaled(rate: u64, factor: u128, divisor: u128) -> u64 {
    u64::try_from(u128::from(rate) * factor / divisor).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD_NS: u64 = 100_000_000;

    fn begun(most: u64, now_ns: u64) -> Tuning {
        let mut tuning = Tuning::new(most);
        assert_eq!(tuning.tune(now_ns, PERIOD_NS, 10_000), 10_000, "the first call");
        tuning
    }

    /// Adjusts a rate of 10,000 bytes per second, of at most 20,000, after `periods` periods in
    /// which there were `drains` drains.
    fn tuned(periods: u64, drains: u64) -> u64 {
        let mut tuning = begun(20_000, 7);
        (0..drains).for_each(|_| tuning.count_drain());
        tuning.tune(7 + periods * PERIOD_NS, PERIOD_NS, 10_000)
    }

    #[test]
    fn the_rate_follows_the_share_of_drained_periods() {
        assert_eq!(tuned(99, 99), 10_000, "it is too early");
        assert_eq!(tuned(100, 0), 1000, "the lowest");
        assert_eq!(tuned(100, 49), 9523);
        assert_eq!([50, 90].map(|drains| tuned(100, drains)), [10_000; 2]);
        assert_eq!(tuned(100, 91), 10_500);
        assert_eq!(tuned(1000, 499), 9523, "the share is of the time that has passed");
    }

    #[test]
    fn the_rate_stays_in_its_range() {
        let mut tuning = begun(20_000, 0);
        let (mut rate, mut now_ns) = (10_000, 0);
        let mut after = |drains: u64, tunings: usize| {
            for _ in 0..tunings {
                (0..drains).for_each(|_| tuning.count_drain());
                now_ns += 100 * PERIOD_NS;
                rate = tuning.tune(now_ns, PERIOD_NS, rate);
            }
            rate
        };
        assert_eq!(after(100, 50), 20_000);
        assert_eq!(after(1, 100), 1000);
        let mut huge = begun(u64::MAX, 0);
        (0..100).for_each(|_| huge.count_drain());
        assert_eq!(huge.tune(100 * PERIOD_NS, PERIOD_NS, u64::MAX), u64::MAX);
    }
}
