//! Reads that took at least a threshold (`--slow-reads`), and where their time went.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Totals of an engine's slow reads.
#[derive(Debug, Clone, Default)]
pub struct SlowReads {
    /// Number of slow reads.
    pub count: u64,
    /// Their time, in microseconds.
    pub time_us: u64,
    /// What that time went to, in microseconds, by the names of the engine's causes
    /// ([`tailwater::SlowReadCause::name`]). Causes that an engine cannot tell are left out.
    pub causes_us: BTreeMap<&'static str, u64>,
    /// Blocks that they read from files.
    pub blocks: u64,
    /// Those of tables that are only seconds old; `None` if the engine cannot tell.
    pub blocks_of_new_tables: Option<u64>,
    /// Those that another thread read at the same time; `None` if the engine cannot tell.
    pub blocks_read_by_others: Option<u64>,
    /// Page faults without a read from the device; `None` if the engine cannot tell.
    pub minor_faults: Option<u64>,
    /// Page faults with one; `None` if the engine cannot tell.
    pub major_faults: Option<u64>,
}

impl SlowReads {
    /// Returns what was added after `earlier`.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        let cause = |(&name, us): (&&'static str, &u64)| {
            (name, us.saturating_sub(earlier.causes_us.get(name).copied().unwrap_or(0)))
        };
        let optional = |now: Option<u64>, before: Option<u64>| {
            now.map(|now| now.saturating_sub(before.unwrap_or(0)))
        };
        Self {
            count: self.count.saturating_sub(earlier.count),
            time_us: self.time_us.saturating_sub(earlier.time_us),
            causes_us: self.causes_us.iter().map(cause).collect(),
            blocks: self.blocks.saturating_sub(earlier.blocks),
            blocks_of_new_tables: optional(self.blocks_of_new_tables, earlier.blocks_of_new_tables),
            blocks_read_by_others: optional(
                self.blocks_read_by_others,
                earlier.blocks_read_by_others,
            ),
            minor_faults: optional(self.minor_faults, earlier.minor_faults),
            major_faults: optional(self.major_faults, earlier.major_faults),
        }
    }
}

/// The figures of slow reads in the report. Those of a mean slow read are `None` without one.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct SlowReadFigures {
    slow_reads_per_second: f64,
    slow_reads_mean_us: Option<f64>,
    /// The share of each cause in the time of all slow reads, by the cause's name.
    time_shares: BTreeMap<String, Option<f64>>,
    /// Numbers of blocks that a slow read read from files.
    blocks: Option<f64>,
    blocks_of_new_tables: Option<f64>,
    blocks_read_by_others: Option<f64>,
    /// Numbers of page faults of a slow read.
    minor_faults: Option<f64>,
    major_faults: Option<f64>,
}

impl SlowReadFigures {
    /// Computes the figures of the slow reads in a period of `seconds`.
    pub(super) fn of(reads: &SlowReads, seconds: f64) -> Self {
        let ratio = |of: u64, to: u64| (to > 0).then(|| of as f64 / to as f64);
        let per_read = |of: u64| ratio(of, reads.count);
        let share = |(name, us): (&&str, &u64)| ((*name).to_owned(), ratio(*us, reads.time_us));
        Self {
            slow_reads_per_second: reads.count as f64 / seconds,
            slow_reads_mean_us: per_read(reads.time_us),
            time_shares: reads.causes_us.iter().map(share).collect(),
            blocks: per_read(reads.blocks),
            blocks_of_new_tables: reads.blocks_of_new_tables.and_then(per_read),
            blocks_read_by_others: reads.blocks_read_by_others.and_then(per_read),
            minor_faults: reads.minor_faults.and_then(per_read),
            major_faults: reads.major_faults.and_then(per_read),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reads(count: u64, time_us: u64, device_us: u64, blocks: u64) -> SlowReads {
        SlowReads {
            count,
            time_us,
            causes_us: [("device", device_us)].into(),
            blocks,
            blocks_of_new_tables: Some(blocks / 2),
            blocks_read_by_others: None,
            minor_faults: Some(blocks * 3),
            major_faults: None,
        }
    }

    #[test]
    fn only_what_happened_in_the_period_counts() {
        let period = reads(30, 9000, 6000, 70).since(&reads(10, 1000, 2000, 10));
        let figures = serde_json::to_value(SlowReadFigures::of(&period, 2.0)).unwrap();
        let expected = json!({
            "slow_reads_per_second": 10.0,
            "slow_reads_mean_us": 400.0,
            "time_shares": {"device": 0.5},
            "blocks": 3.0,
            "blocks_of_new_tables": 1.5,
            "blocks_read_by_others": null,
            "minor_faults": 9.0,
            "major_faults": null,
        });
        assert_eq!(figures, expected);
    }

    #[test]
    fn without_slow_reads_there_are_no_shares() {
        let figures = SlowReadFigures::of(&reads(0, 0, 0, 0), 1.0);
        assert_eq!((figures.slow_reads_mean_us, figures.time_shares["device"]), (None, None));
        assert_eq!(figures.slow_reads_per_second, 0.0);
    }
}
