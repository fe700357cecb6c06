//! The table that shows how one compaction affects later reads. It compares the reads before the
//! compaction with the reads after it, both measured without concurrent work.

use std::fmt;

use super::figures::Phase;
use super::report::{ConfigurationReport, Report};
use crate::numbers::micros;

/// Formats, for each row of a report, the medians of the reads before and after the compaction.
/// Formats nothing if no row of the report has a compaction.
pub(super) struct BeforeAfterTable<'r>(pub(super) &'r Report);

impl fmt::Display for BeforeAfterTable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let around = |report: &ConfigurationReport| {
            report.median.before_compaction.zip(report.median.after_compaction)
        };
        if !self.0.configurations.iter().any(|report| around(report).is_some()) {
            return Ok(());
        }
        write!(f, "\n{:9} {:33}", "engine", "configuration")?;
        for when in ["before", "after"] {
            write!(f, " {when:>9}/s {:>9} {:>9}", "p99 us", "p99.9 us")?;
        }
        writeln!(f)?;
        for report in &self.0.configurations {
            let Some((before, after)) = around(report) else { continue };
            write!(f, "{:9} {:33}", report.row.engine.name(), report.row.label())?;
            for Phase { latencies, fetched_pages_per_second, .. } in [before, after] {
                let fetched = fetched_pages_per_second.map(|pages| format!("{pages:.1}"));
                let fetched = fetched.as_deref().unwrap_or("-");
                let (p99, p999) = (micros(latencies.p99_us), micros(latencies.p999_us));
                write!(f, " {fetched:>11} {p99:>9} {p999:>9}")?;
            }
            writeln!(f)?;
        }
        writeln!(
            f,
            "\nReads alone, in the ten seconds before the compaction began and after its outputs \
             were installed:\npages fetched from the disk per second, and latencies."
        )
    }
}
