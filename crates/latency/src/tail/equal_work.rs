//! Checks whether two configurations did the same amount of work during the reads.
//!
//! A slow configuration stalls its writer and therefore compacts less. That disturbs its reads
//! less, so its tail latency looks better than it is.

use super::figures::Figures;

/// Difference in work that still counts as equal, as a fraction.
const TOLERANCE: f64 = 0.03;

/// A measure of the writing and compacting that ran concurrently with the measured reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// Rate of the writer, in megabytes per second.
    Written,
    /// Stalled time of the writer, as a fraction of the measured time.
    Stalled,
    /// Bytes that compactions read plus bytes that they write, in megabytes per second.
    Compacted,
}

impl Work {
    const ALL: [Self; 3] = [Self::Written, Self::Stalled, Self::Compacted];

    /// Returns the name of the figure in the report.
    pub(super) fn field(self) -> &'static str {
        match self {
            Self::Written => "write_mb_per_second",
            Self::Stalled => "stall_share",
            Self::Compacted => "compaction_mb_per_second",
        }
    }

    fn differs(self, figures: &Figures, reference: &Figures) -> bool {
        let [ours, theirs] = [figures, reference].map(|figures| match self {
            Self::Written => Some(figures.write_mb_per_second),
            Self::Stalled => Some(figures.stall_share),
            Self::Compacted => figures.kernel.compaction_mb_per_second,
        });
        let (Some(ours), Some(theirs)) = (ours, theirs) else { return false };
        // The stalled fractions are compared in percentage points. The other figures are compared
        // as a fraction of the reference row's figure.
        let whole = if self == Self::Stalled { 1.0 } else { theirs };
        (ours - theirs).abs() > TOLERANCE * whole
    }
}

/// Compares the concurrent work during the runs of two rows of the report. Returns the measures of
/// work in which the rows differ.
pub(super) fn differences(figures: &Figures, reference: &Figures) -> Vec<Work> {
    Work::ALL.into_iter().filter(|work| work.differs(figures, reference)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::figures::Kernel;
    use super::*;

    fn figures(written: f64, stalled: f64, compacted: Option<f64>) -> Figures {
        let kernel = Kernel { compaction_mb_per_second: compacted, ..Kernel::default() };
        Figures { write_mb_per_second: written, stall_share: stalled, kernel, ..Figures::default() }
    }

    #[test]
    fn more_than_three_percent_is_a_difference() {
        let reference = figures(100.0, 0.0, Some(500.0));
        assert_eq!(differences(&reference, &reference), []);
        assert_eq!(differences(&figures(97.5, 0.02, Some(514.0)), &reference), []);
        assert_eq!(differences(&figures(96.0, 0.0, None), &reference), [Work::Written]);
        assert_eq!(
            differences(&figures(100.0, 0.04, Some(516.0)), &reference),
            [Work::Stalled, Work::Compacted]
        );
    }
}
