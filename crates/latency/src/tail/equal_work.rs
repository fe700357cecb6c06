//! Checks whether two configurations did the same amount of work during the reads.
//!
//! A slow configuration stalls its writer and therefore compacts less. That disturbs its reads
//! less, so its tail latency looks better than it is.

use serde_json::Value;

/// Difference in work that still counts as equal, as a fraction.
const TOLERANCE: f64 = 0.03;

/// The measures of the writing and compacting that ran concurrently with the reads: the places of
/// their figures, and whether the figure is a share of the time. Shares are compared in percentage
/// points. The other figures are compared as a fraction of the reference row's figure.
const WORK: [(&str, bool); 3] = [
    ("/write_mb_per_second", false),
    ("/stall_share", true),
    ("/kernel/compaction_mb_per_second", false),
];

/// Compares the concurrent work during the runs of two rows of the report. Returns the names of the
/// figures in which the rows differ.
pub(super) fn differences(figures: &Value, reference: &Value) -> Vec<&'static str> {
    let differs = |&(place, is_share): &(&str, bool)| {
        let figure = |of: &Value| of.pointer(place).and_then(Value::as_f64);
        let (Some(ours), Some(theirs)) = (figure(figures), figure(reference)) else { return false };
        (ours - theirs).abs() > TOLERANCE * if is_share { 1.0 } else { theirs }
    };
    let differing = WORK.into_iter().filter(differs);
    differing.filter_map(|(place, _)| place.rsplit('/').next()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::figures::{Figures, Kernel};
    use super::*;

    fn figures(written: f64, stalled: f64, compacted: Option<f64>) -> Value {
        let kernel = Kernel { compaction_mb_per_second: compacted, ..Kernel::default() };
        let figures = Figures {
            write_mb_per_second: written,
            stall_share: stalled,
            kernel,
            ..Figures::default()
        };
        serde_json::to_value(figures).unwrap()
    }

    #[test]
    fn more_than_three_percent_is_a_difference() {
        let reference = figures(100.0, 0.0, Some(500.0));
        assert_eq!(differences(&reference, &reference), [""; 0]);
        assert_eq!(differences(&figures(97.5, 0.02, Some(514.0)), &reference), [""; 0]);
        assert_eq!(differences(&figures(96.0, 0.0, None), &reference), ["write_mb_per_second"]);
        assert_eq!(
            differences(&figures(100.0, 0.04, Some(516.0)), &reference),
            ["stall_share", "compaction_mb_per_second"]
        );
    }
}
