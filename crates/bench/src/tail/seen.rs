//! What was seen, in two sentences that come from the figures.

use super::configuration::Configuration;
use super::fold::middle;
use super::plan::Row;
use super::report::{ConfigurationReport, Report};

/// What `direct_compaction_read_write` did to the reads, held against `buffered`, for the first
/// engine that has both; and whether the two did equal work.
pub(super) fn sentences(report: &Report) -> Option<String> {
    let direct = report.configurations.iter().find(|found| {
        found.row.configuration == Configuration::DirectCompactionReadWrite
            && report.buffered(found.row).is_some()
    })?;
    let buffered = report.buffered(direct.row)?;
    Some(format!("{}\n{}", effect(direct, buffered), work(direct, buffered)))
}

fn p999(report: &ConfigurationReport) -> Vec<f64> {
    report.runs.iter().map(|run| run.figures.latencies.p999_us / 1000.0).collect()
}

fn effect(direct: &ConfigurationReport, buffered: &ConfigurationReport) -> String {
    let Row { engine, .. } = direct.row;
    let (ours, theirs) = (p999(direct), p999(buffered));
    let [now, before] = [&ours, &theirs].map(|runs| middle(runs).unwrap_or(0.0));
    let below = |these: &[f64], those: &[f64]| these.iter().all(|a| those.iter().all(|b| a < b));
    let change = match now < before {
        true => format!("{:.1} times lower", before / now),
        false => format!("{:.1} times higher", now / before),
    };
    let reads = 100.0 * (direct.median.reads_per_second / buffered.median.reads_per_second - 1.0);
    let figures = format!(
        "one read of {}'s in a thousand took longer than {now:.2} ms, and than {before:.2} ms with \
         everything buffered: {change}, with {reads:+.0} % reads",
        engine.name()
    );
    if below(&ours, &theirs) {
        format!("With compactions past the page cache {figures}, and so it was in every run.")
    } else if below(&theirs, &ours) {
        format!("Here it did harm: with compactions past the page cache {figures}, in every run.")
    } else {
        format!(
            "No effect was seen that stands out from the spread between runs: with compactions \
             past the page cache {figures}, but not in every run."
        )
    }
}

fn work(direct: &ConfigurationReport, buffered: &ConfigurationReport) -> String {
    let figures = |report: &ConfigurationReport| {
        let compacted = report.median.kernel.compaction_mb_per_second.unwrap_or(0.0);
        (report.median.write_mb_per_second, compacted)
    };
    let ((written, compacted), (written_before, compacted_before)) =
        (figures(direct), figures(buffered));
    let amounts = format!(
        "{written:.1} and {written_before:.1} MB/s were written, and {compacted:.0} and \
         {compacted_before:.0} MB/s compacted"
    );
    match direct.unequal_work.is_empty() {
        true => format!("Both did the same work meanwhile: {amounts}."),
        false => format!("They did not do the same work, so compare with care: {amounts}."),
    }
}
