//! A summary of the results in two sentences: the effect of direct I/O, and whether the compared
//! configurations did the same work.

use super::configuration::Configuration;
use super::report::{ConfigurationReport, Report};
use crate::experiment::aggregate::middle;

/// Maximum length of a line, in characters.
const WIDTH: usize = 100;

/// Describes how reads differ between `direct_compaction_read_write` and `buffered`, and whether
/// these two configurations did the same work. The description is of the first engine that has
/// results for both configurations; `None` if no engine has.
pub(super) fn sentences(report: &Report) -> Option<String> {
    let direct = report.configurations.iter().find(|found| {
        found.row.configuration == Configuration::DirectCompactionReadWrite
            && report.buffered(found.row).is_some()
    })?;
    let buffered = report.buffered(direct.row)?;
    Some(wrapped(&format!("{} {}", effect(direct, buffered), work(direct, buffered))))
}

fn p999(report: &ConfigurationReport) -> Vec<f64> {
    report.runs.iter().map(|run| run.figures.latencies.p999_us / 1000.0).collect()
}

fn effect(direct: &ConfigurationReport, buffered: &ConfigurationReport) -> String {
    let (ours, theirs) = (p999(direct), p999(buffered));
    let [now, before] = [&ours, &theirs].map(|runs| middle(runs).unwrap_or(0.0));
    let below = |these: &[f64], those: &[f64]| these.iter().all(|a| those.iter().all(|b| a < b));
    let change = if now < before {
        format!("{:.1} times lower", before / now)
    } else {
        format!("{:.1} times higher", now / before)
    };
    let reads = 100.0 * (direct.median.reads_per_second / buffered.median.reads_per_second - 1.0);
    let reads =
        format!("{:.0} % {} reads", reads.abs(), if reads < 0.0 { "fewer" } else { "more" });
    let figures = format!(
        "one read in a thousand took longer than {now:.2} ms, compared with {before:.2} ms with \
         everything buffered: {change}, with {reads}"
    );
    if below(&ours, &theirs) {
        format!("With compactions that bypass the page cache, {figures}; this held in every run.")
    } else if below(&theirs, &ours) {
        format!(
            "Direct I/O was slower here: with compactions that bypass the page cache, {figures}, \
             in every run."
        )
    } else {
        format!(
            "No effect was larger than the spread between runs: with compactions that bypass the \
             page cache, {figures}, but not in every run."
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
    if direct.unequal_work.is_empty() {
        format!("Both did the same work: {amounts}.")
    } else if written >= written_before && compacted >= compacted_before {
        format!("The direct configuration did more work, which does not favour it: {amounts}.")
    } else {
        format!("They did not do the same work, so the comparison is limited: {amounts}.")
    }
}

/// Wraps a text into lines of at most [`WIDTH`] characters.
pub(super) fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.len() + 1 + word.len() <= WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::super::figures::Figures;
    use super::super::plan::Row;
    use super::super::results::Run;
    use super::super::{EngineName, report::Report};
    use super::*;
    use crate::experiment::timeline::Timeline;
    use crate::latencies::Latencies;

    fn row(configuration: Configuration, p999_us: &[f64], written: f64) -> ConfigurationReport {
        let figures = |p999_us: f64| Figures {
            latencies: Latencies { p999_us, ..Latencies::default() },
            write_mb_per_second: written,
            reads_per_second: 1e6 / p999_us,
            ..Figures::default()
        };
        let runs = p999_us.iter().map(|&p999_us| Run {
            run: 1,
            figures: figures(p999_us),
            timeline: Timeline::default(),
        });
        let engine = EngineName::Tailwater;
        let row = Row { engine, configuration, compaction_bytes_per_second: None };
        ConfigurationReport::new(row, runs.collect()).unwrap()
    }

    fn summary(direct: &[f64], buffered: &[f64], written: f64) -> String {
        let mut direct = row(Configuration::DirectCompactionReadWrite, direct, written);
        if written != 20.0 {
            direct.unequal_work = vec!["write_mb_per_second"];
        }
        let buffered = row(Configuration::Buffered, buffered, 20.0);
        sentences(&Report::of_rows(vec![buffered, direct])).unwrap().replace('\n', " ")
    }

    #[test]
    fn an_effect_in_every_run_is_stated() {
        let text = summary(&[500.0, 600.0], &[1000.0, 1200.0], 20.0);
        assert!(text.contains("2.0 times lower") && text.contains("every run"), "{text}");
        assert!(text.contains("the same work"), "{text}");
    }

    #[test]
    fn an_effect_within_the_variation_is_no_effect() {
        let text = summary(&[500.0, 1100.0], &[1000.0, 1200.0], 20.0);
        assert!(text.starts_with("No effect"), "{text}");
    }

    #[test]
    fn a_slowdown_and_unequal_work_are_stated() {
        let text = summary(&[2000.0, 2200.0], &[1000.0, 1200.0], 10.0);
        assert!(text.contains("slower here") && text.contains("1.9 times higher"), "{text}");
        assert!(text.contains("limited"), "{text}");
        assert!(summary(&[500.0], &[1000.0], 30.0).contains("more work"));
    }

    #[test]
    fn the_summary_needs_both_rows() {
        let buffered = row(Configuration::Buffered, &[1.0], 1.0);
        assert_eq!(sentences(&Report::of_rows(vec![buffered])), None);
    }
}
