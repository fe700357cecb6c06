//! Checks whether configurations did the same work.
//!
//! A slow configuration stalls its writer and compacts less, and therefore disturbs its reads less:
//! its tail latency looks better than it is.

use super::figures::Figures;

/// Tolerated relative difference in work.
const TOLERANCE: f64 = 0.03;

/// A figure of the work that runs during the reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// Bytes written by the writer.
    Written,
    /// Fraction of the time in which the writer was stalled.
    Stalled,
    /// Bytes read and written by compactions.
    Compacted,
}

impl Work {
    const ALL: [Self; 3] = [Self::Written, Self::Stalled, Self::Compacted];

    /// Returns the figure's field in the report.
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
        // Fractions differ by percentage points, not relative to each other.
        let whole = if self == Self::Stalled { 1.0 } else { theirs };
        (ours - theirs).abs() > TOLERANCE * whole
    }
}

/// Returns the figures in which a row's work differs from that of the reference row.
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
