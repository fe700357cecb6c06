//! The tables below the main table of a report: caches and the distribution of latencies, kernel
//! statistics, the causes of slow reads, the effect of one compaction on later reads, and the means
//! of the runs (`--mean`).

use serde_json::Value;

use super::report::{ConfigurationReport, Report};
use crate::experiment::{Figure, KERNEL, Table};
use crate::failure::Failure;
use crate::numbers::{micros, rate};

const BEFORE_AND_AFTER: [Figure; 6] = [
    Figure::new("before/s>11", "/before_compaction/fetched_pages_per_second", tenths),
    Figure::new("p99 us>9", "/before_compaction/p99_us", micros),
    Figure::new("p99.9 us>9", "/before_compaction/p999_us", micros),
    Figure::new("after/s>11", "/after_compaction/fetched_pages_per_second", tenths),
    Figure::new("p99 us>9", "/after_compaction/p99_us", micros),
    Figure::new("p99.9 us>9", "/after_compaction/p999_us", micros),
];

/// More figures of the distribution of latencies, and what kept reads from the device.
pub(super) const CACHES: [Figure; 7] = [
    Figure::new("p90 us>9", "/p90_us", micros),
    Figure::new("mean us>9", "/mean_us", micros),
    Figure::new("stddev us>10", "/stddev_us", micros),
    Figure::new("cache hits>11", "/caches/cache_hit_ratio", percent),
    Figure::new("block cache>12", "/caches/block_cache_hit_ratio", percent),
    Figure::new("page cache>11", "/caches/page_cache_hit_ratio", percent),
    Figure::new("depth>6", "/kernel/queue_depth", |depth| format!("{depth:.2}")),
];

/// Slow reads and the shares of their causes.
pub(super) const SLOW_READS: [Figure; 11] = [
    Figure::new("slow/s>8", "/slow_reads/slow_reads_per_second", rate),
    Figure::new("mean us>8", "/slow_reads/slow_reads_mean_us", micros),
    Figure::new("processor>9", "/slow_reads/time_shares/processor", percent),
    Figure::new("device>7", "/slow_reads/time_shares/device", percent),
    Figure::new("lock>7", "/slow_reads/time_shares/lock", percent),
    Figure::new("unpacking>9", "/slow_reads/time_shares/unpacking", percent),
    Figure::new("work>7", "/slow_reads/time_shares/work", percent),
    Figure::new("unexplained>11", "/slow_reads/time_shares/unexplained", percent),
    Figure::new("blocks>6", "/slow_reads/blocks", hundredths),
    Figure::new("new>6", "/slow_reads/blocks_of_new_tables", hundredths),
    Figure::new("others>6", "/slow_reads/blocks_read_by_others", hundredths),
];

/// The figures of the clients that get batches.
pub(super) const BATCHES: [Figure; 7] = [
    Figure::new("keys/s>11", "/batches/batch_keys_per_second", rate),
    Figure::new("p50 us>9", "/batches/p50_us", micros),
    Figure::new("p99 us>9", "/batches/p99_us", micros),
    Figure::new("p99.9 us>9", "/batches/p999_us", micros),
    Figure::new("p99.99 us>9", "/batches/p9999_us", micros),
    Figure::new("reads p99.9 us>15", "/p999_us", micros),
    Figure::new("compact>7", "/kernel/compaction_mb_per_second", |rate| format!("{rate:.0}")),
];

const MEANS: [Figure; 5] = [
    Figure::new("reads/s>17", "/reads_per_second", rate),
    Figure::new("p50 us>17", "/p50_us", micros),
    Figure::new("p99 us>17", "/p99_us", micros),
    Figure::new("p99.9 us>17", "/p999_us", micros),
    Figure::new("p99.99 us>17", "/p9999_us", micros),
];

fn tenths(figure: f64) -> String {
    format!("{figure:.1}")
}

fn hundredths(figure: f64) -> String {
    format!("{figure:.2}")
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

fn table<'r>(
    figures: &[Figure],
    rows: impl Iterator<Item = &'r ConfigurationReport>,
    cell: impl Fn(&ConfigurationReport, &Figure) -> Result<String, Failure>,
) -> Result<Table, Failure> {
    let mut table = Table::new(&format!("engine<9|configuration<33{}", Figure::columns(figures)));
    for row in rows {
        let cells =
            figures.iter().map(|figure| cell(row, figure)).collect::<Result<Vec<_>, _>>()?;
        table.row([row.row.engine.name().to_owned(), row.row.label()].into_iter().chain(cells));
    }
    Ok(table)
}

/// Formats the median of each kernel statistic over the runs of each row.
pub(super) fn kernel(report: &Report) -> Result<String, Failure> {
    let table = table(&KERNEL, report.configurations.iter(), |row, figure| {
        Ok(figure.cell(&serde_json::to_value(&row.median.kernel)?))
    })?;
    Ok(format!(
        "{table}\nPages dirtied, refaulted and missed; time that tasks waited for memory and for \
         the disk; active pages;\nlatency of reads and writes at the disk, requests in flight, and \
         utilisation. '-': not reported by this system.\n"
    ))
}

/// Formats the hit ratios of the caches, and what the first table does not show of the latencies.
pub(super) fn caches(report: &Report) -> Result<String, Failure> {
    let table = table(&CACHES, report.configurations.iter(), |row, figure| {
        Ok(figure.cell(&serde_json::to_value(&row.median)?))
    })?;
    Ok(format!(
        "\n{table}\ncache hits: pages of the readers' blocks that were in the block cache or the \
         page cache. block cache: lookups of data\nblocks. page cache: pages of buffered reads for \
         users. depth: requests in flight at the device.\n"
    ))
}

/// Formats the slow reads of each row, and their causes. Returns an empty text if slow reads were
/// not attributed.
pub(super) fn slow_reads(report: &Report) -> Result<String, Failure> {
    let Some(threshold_us) = report.parameters.slow_read_threshold_us else {
        return Ok(String::new());
    };
    let table = table(&SLOW_READS, report.configurations.iter(), |row, figure| {
        Ok(figure.cell(&serde_json::to_value(&row.median)?))
    })?;
    Ok(format!(
        "\n{table}\nReads of at least {threshold_us} us: how many, their mean duration, and the share \
         of their time that was spent waiting for\na processor, reading files, waiting for locks, decompressing \
         and checking blocks, computing, and for no known cause.\nPer slow read: blocks read from \
         files; of these, those of tables of the last ten seconds, and those that another\nthread \
         read at the same time. '-': unknown.\n"
    ))
}

/// Formats the medians of the reads before and after the compaction, both measured without
/// concurrent work. Returns an empty text if no row of the report has a compaction.
pub(super) fn before_and_after(report: &Report) -> Result<String, Failure> {
    let compacts = |row: &&ConfigurationReport| {
        row.median.before_compaction.is_some() && row.median.after_compaction.is_some()
    };
    if !report.configurations.iter().any(|row| compacts(&row)) {
        return Ok(String::new());
    }
    let rows = report.configurations.iter().filter(compacts);
    let table = table(&BEFORE_AND_AFTER, rows, |row, figure| {
        Ok(figure.cell(&serde_json::to_value(&row.median)?))
    })?;
    Ok(format!(
        "\n{table}\nReads alone, in the ten seconds before the compaction began and after its outputs \
         were installed:\npages fetched from the disk per second, and latencies.\n"
    ))
}

/// Formats the medians of the clients that got batches, and beside them the tail of the reads and
/// the rate of compactions. Returns an empty text if there were no such clients.
pub(super) fn batches(report: &Report) -> Result<String, Failure> {
    let Some(load) = report.parameters.batch_load else { return Ok(String::new()) };
    let table = table(&BATCHES, report.configurations.iter(), |row, figure| {
        Ok(figure.cell(&serde_json::to_value(&row.median)?))
    })?;
    Ok(format!(
        "\n{table}\nBeside the reads, {}:\nrate and latency of a batch; the reads' p99.9 and MB/s \
         compacted as in the first table.\n",
        load.describe()
    ))
}

/// Formats the means of the runs, each with its coefficient of variation.
pub(super) fn means(report: &Report) -> Result<String, Failure> {
    let table = table(&MEANS, report.configurations.iter(), |row, figure| {
        let variation = row.variation.pointer(figure.place).and_then(Value::as_f64);
        let variation = variation.map(|share| format!(" ({:.1} %)", 100.0 * share));
        Ok(figure.cell(&row.mean) + &variation.unwrap_or_default())
    })?;
    Ok(format!(
        "\n{table}\nMeans of the runs. In parentheses the coefficient of variation: the standard \
         deviation divided by\nthe mean.\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_less_than_140_columns() {
        for figures in [&KERNEL[..], &CACHES, &SLOW_READS, &BEFORE_AND_AFTER, &BATCHES, &MEANS] {
            let table = table(figures, [].into_iter(), |_, _| Ok(String::new())).unwrap();
            assert!(table.to_string().trim_end().len() < 140, "{table}");
        }
    }
}
