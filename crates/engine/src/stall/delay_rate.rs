//! The rate of delayed writes.
//!
//! The rate begins at option `delayed_write_rate` and never exceeds it. It is adjusted whenever the
//! memtables or tables of a column family change:
//! - lowered if the compaction backlog has grown or stayed the same, and more so near the limit at
//!   which writes are stopped;
//! - raised if the backlog has shrunk, and more so when the delay ends.
//!
//! All column families share one rate, and all adjust it.
//!
//! Source: `SetupDelay` and `RecalculateWriteStallConditions` in `db/column_family.cc`.

/// Minimum to which an adjustment lowers the rate, in bytes per second. A rate that the user sets
/// lower is kept.
const RATE_MIN: u64 = 16 << 10;
/// Factor by which the rate is multiplied if the compaction backlog has grown or stayed the same.
const MORE_TO_DO: f64 = 0.8;
/// Factor by which the rate is multiplied if the compaction backlog has shrunk.
const LESS_TO_DO: f64 = 1.0 / MORE_TO_DO;
/// Factor by which the rate is multiplied near the limit at which writes are stopped.
const NEAR_STOP: f64 = 0.6;
/// Factor by which the rate is multiplied when a column family requires no delay any more.
const GOES_ON: f64 = 1.4;

/// How much a column family requires writes to be slowed down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Demand {
    #[default]
    Nothing,
    Delay,
    Stop,
}

/// The new state of a column family whose memtables or tables have changed, with some figures from
/// before the change.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FamilyChange {
    /// The stall that the column family requires now: none, a delay or a stop.
    pub(crate) demand: Demand,
    /// Whether the number that causes the delay (of memtables, tables in level 0, or bytes to
    /// compact) is close to the limit at which writes are stopped.
    pub(crate) is_near_stop: bool,
    /// Number of bytes that wait to be compacted in this column family, after the change of its
    /// memtables or tables.
    pub(crate) pending_bytes: u64,
    /// The same number before this change.
    pub(crate) pending_bytes_before: u64,
    /// Whether the column family's options enable automatic compactions.
    pub(crate) compacts: bool,
    /// Whether at least one column family, possibly this one, required a delay before this one's
    /// memtables or tables changed.
    pub(crate) was_delayed: bool,
    /// Whether at least one column family, possibly this one, required a stop before this one's
    /// memtables or tables changed.
    pub(crate) was_stopped: bool,
}

/// Returns the next delay rate, in bytes per second. `rate` is the current rate, and `change` the
/// state of a column family that has changed. The result is at least 1 and at most `rate_max`.
pub(crate) fn next_rate(rate: u64, rate_max: u64, change: &FamilyChange) -> u64 {
    let times = |factor: f64| (rate as f64 * factor) as u64;
    let next = match change.demand {
        Demand::Stop => rate,
        Demand::Nothing if change.was_delayed => times(GOES_ON),
        Demand::Nothing => rate,
        Demand::Delay if !change.compacts => rate_max,
        Demand::Delay if !change.was_delayed || rate_max <= RATE_MIN => rate,
        Demand::Delay if change.was_stopped || change.is_near_stop => {
            times(NEAR_STOP).max(RATE_MIN)
        }
        Demand::Delay if change.pending_bytes_before > change.pending_bytes => times(LESS_TO_DO),
        Demand::Delay if change.pending_bytes_before > 0 => times(MORE_TO_DO).max(RATE_MIN),
        Demand::Delay => rate,
    };
    next.clamp(1, rate_max.max(1))
}

#[cfg(test)]
mod tests {
    use super::{Demand, FamilyChange, next_rate};

    /// Returns a change of a column family that required slower writes before the change and still
    /// requires them. The arguments are the column family's compaction backlogs before and after
    /// the change, in bytes.
    fn delayed(pending_bytes_before: u64, pending_bytes: u64) -> FamilyChange {
        FamilyChange {
            demand: Demand::Delay,
            is_near_stop: false,
            pending_bytes,
            pending_bytes_before,
            compacts: true,
            was_delayed: true,
            was_stopped: false,
        }
    }

    #[test]
    fn the_rate_follows_the_compaction_backlog() {
        const MAX: u64 = 10_000_000;
        let near_stop = |change| FamilyChange { is_near_stop: true, ..change };
        let after_stop = |change| FamilyChange { was_stopped: true, ..change };
        let first = |change| FamilyChange { was_delayed: false, ..change };
        let by_hand = |change| FamilyChange { compacts: false, ..change };
        let demands = |demand, change| FamilyChange { demand, ..change };
        let cases = [
            ("more", 1_000_000, delayed(5, 6), 800_000),
            ("the same", 1_000_000, delayed(5, 5), 800_000),
            ("less", 1_000_000, delayed(6, 5), 1_250_000),
            ("less, at the bound", 9_000_000, delayed(6, 5), MAX),
            ("nothing known before", 1_000_000, delayed(0, 5), 1_000_000),
            ("near the stop", 1_000_000, near_stop(delayed(6, 5)), 600_000),
            ("after a stop", 1_000_000, after_stop(delayed(6, 5)), 600_000),
            ("very slow already", 17_000, delayed(5, 6), 16_384),
            ("very slow, near the stop", 17_000, near_stop(delayed(5, 6)), 16_384),
            ("first delay", 1_000_000, first(near_stop(delayed(5, 6))), 1_000_000),
            ("compacted manually", 1_000_000, by_hand(delayed(5, 6)), MAX),
            ("stopped", 1_000_000, demands(Demand::Stop, delayed(5, 6)), 1_000_000),
            ("goes on", 1_000_000, demands(Demand::Nothing, delayed(5, 6)), 1_400_000),
            ("goes on, at the bound", 9_000_000, demands(Demand::Nothing, delayed(5, 6)), MAX),
            (
                "never was delayed",
                1_000_000,
                first(demands(Demand::Nothing, delayed(5, 6))),
                1_000_000,
            ),
        ];
        for (what, rate, change, expected) in cases {
            assert_eq!(next_rate(rate, MAX, &change), expected, "{what}");
        }
    }

    #[test]
    fn a_rate_set_below_the_minimum_is_kept() {
        assert_eq!(next_rate(10_000, 10_000, &delayed(5, 6)), 10_000);
        assert_eq!(next_rate(10_000, 16_384, &delayed(5, 6)), 10_000);
        assert_eq!(next_rate(0, 0, &delayed(5, 6)), 1, "the rate is never 0");
    }
}
