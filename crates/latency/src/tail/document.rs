//! The report of the experiment for a reader, made from its JSON.

use serde_json::Value;
use tailwater::SlowReadCause;

use super::configuration::Configuration;
use super::engine::EngineName;
use super::plan::{Kind, Parameters, ROCKSDB_14743_COMMIT_HOT_KEYS, Row};
use super::table::{cell, figures};
use super::tables::{BATCHES, CACHES, SLOW_READS};
use super::units::Bytes;
use crate::experiment::course::course;
use crate::experiment::timeline::Timeline;
use crate::experiment::{Figure, KERNEL, Table};
use crate::failure::Failure;
use crate::numbers::{latency, micros, rate};
use crate::report::{
    Body, CASSANDRA_21134, Compared, Curve, Document, Effect, Hue, Part, ROCKSDB_14743_COMMIT,
    ROCKSDB_14743_LARGE, ROCKSDB_14743_SMALL, Shares, SharesOfRows, facts,
};

/// Baselines are shown as curves only if there are at most this many rows.
const BASELINE_CURVES_MAX: usize = 4;
/// A hot set below this share of the memory limit is compared with the published experiment with a
/// small hot set.
const SMALL_HOT_SET: f64 = 0.1;

/// The figures by which two reports are compared.
const COMPARED: [Figure; 6] = [
    Figure::new("reads/s", "/reads_per_second", rate),
    Figure::new("reads kept", "/reads_kept", percent),
    Figure::new("p50 us", "/p50_us", micros),
    Figure::new("p99 us", "/p99_us", micros),
    Figure::new("p99.9 us", "/p999_us", micros),
    Figure::new("p99.99 us", "/p9999_us", micros),
];

/// The figures next to a published table: of the experiment with a writer, and with one compaction.
const BESIDE_ROCKSDB: [Figure; 5] = [
    Figure::new("reads/s>", "/reads_per_second", rate),
    Figure::new("p50 us>", "/p50_us", micros),
    Figure::new("p99 us>", "/p99_us", micros),
    Figure::new("p99.9 us>", "/p999_us", micros),
    Figure::new("p99.99 us>", "/p9999_us", micros),
];
const BESIDE_CASSANDRA: [Figure; 12] = [
    Figure::new("p50 ms>", "/p50_us", millis),
    Figure::new("p90 ms>", "/p90_us", millis),
    Figure::new("p99 ms>", "/p99_us", millis),
    Figure::new("p99.9 ms>", "/p999_us", millis),
    Figure::new("mean ms>", "/mean_us", millis),
    Figure::new("stddev ms>", "/stddev_us", millis),
    Figure::new("dirtied pages/s>", "/kernel/dirtied_pages_per_second", rate),
    Figure::new("memory us/s>", "/kernel/memory_stall_us_per_second", rate),
    Figure::new("cache hits>", "/caches/cache_hit_ratio", percent),
    Figure::new("w_await ms>", "/kernel/w_await_ms", |ms| format!("{ms:.2}")),
    Figure::new("queue depth>", "/kernel/queue_depth", |depth| format!("{depth:.2}")),
    Figure::new("compacted MiB/s>", "/kernel/compaction_mb_per_second", |mb| {
        format!("{:.0}", mb * 1e6 / f64::from(1 << 20))
    }),
];

const EFFECT: [Figure; 2] = [
    Figure::new("reads kept>", "/reads_kept", percent),
    Figure::new("p99.9 rises to>", "/p999_rise", |factor| format!("{factor:.1}x")),
];

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

fn millis(us: f64) -> String {
    format!("{:.3}", us / 1000.0)
}

/// A row of the report.
struct Found<'r> {
    row: Row,
    label: String,
    hue: Hue,
    json: &'r Value,
}

impl Found<'_> {
    fn figure(&self, place: &str) -> Option<f64> {
        self.json["median"].pointer(place).and_then(Value::as_f64)
    }

    /// Returns what was measured without other work: the baseline, or the reads before the
    /// compaction.
    fn alone(&self) -> Option<&Value> {
        let median = &self.json["median"];
        ["baseline", "before_compaction"]
            .into_iter()
            .map(|phase| &median[phase])
            .find(|it| it.is_object())
    }

    fn effect(&self) -> Option<Effect> {
        let alone = self.alone()?;
        let of =
            |figure: &str| Some((alone[figure].as_f64()?, self.json["median"][figure].as_f64()?));
        let (without, with) = of("reads_per_second")?;
        let described = format!("{} of {} reads/s", rate(with), rate(without));
        let hue = Hue(usize::from(self.row.engine != EngineName::Tailwater));
        Some(Effect {
            label: self.label.clone(),
            hue,
            kept: (self.figure("/reads_kept")?, described),
            tail_us: of("p999_us")?,
        })
    }

    fn curves(&self) -> [Option<Curve>; 2] {
        let points = |of: &Value| {
            let points = of["percentiles_us"].as_array()?.iter().filter_map(Value::as_f64);
            let points: Vec<f64> = points.collect();
            (points.len() > 1).then_some(points)
        };
        let is_ours = self.row.engine == EngineName::Tailwater;
        let stroke = if is_ours { self.hue.solid() } else { self.hue.dashed() };
        let curve = |label, stroke, points_us| Curve { label, stroke, points_us };
        let with = points(&self.json["median"]);
        let without = self.alone().and_then(points);
        [
            with.map(|points| curve(self.label.clone(), stroke, points)),
            without.map(|points| {
                curve(format!("{} without writes", self.label), self.hue.dotted(), points)
            }),
        ]
    }

    /// Returns the course of the run with the middle p99.9.
    fn course(&self) -> Option<Part> {
        let runs = self.json["runs"].as_array()?;
        let mut runs: Vec<_> =
            runs.iter().filter_map(|run| Some((run["p999_us"].as_f64()?, run))).collect();
        runs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (_, run) = runs.get(runs.len().checked_sub(1)? / 2)?;
        let timeline: Timeline = serde_json::from_value(run["timeline"].clone()).ok()?;
        let heading = format!("Over time: {}", self.label);
        let text = format!("Run {}, the one with the middle p99.9.", run["run"]);
        let mut part = Part::new(heading, text, Body::Course(course(&timeline)?));
        part.is_folded = self.row.configuration != Configuration::Recommended;
        Some(part)
    }
}

/// Describes the report of an experiment, given its JSON.
pub(super) fn document(report: &Value) -> Result<Document, Failure> {
    let wrong = |error| format!("not a report of `tailwater tail`: {error}");
    let parameters: Parameters =
        serde_json::from_value(report["parameters"].clone()).map_err(wrong)?;
    let rows = rows(report).map_err(wrong)?;
    let mut parts = Vec::new();
    let effects: Vec<Effect> = rows.iter().filter_map(Found::effect).collect();
    if !effects.is_empty() {
        parts.push(Part::new("", how(&parameters), Body::Effects(effects)));
    }
    let curves: Vec<[Option<Curve>; 2]> = rows.iter().map(Found::curves).collect();
    let kinds = if rows.len() <= BASELINE_CURVES_MAX { 2 } else { 1 };
    let curves: Vec<Curve> =
        curves.into_iter().flat_map(|curves| curves.into_iter().take(kinds)).flatten().collect();
    if !curves.is_empty() {
        let text = "The latency that a share of the reads did not exceed; medians of the runs.";
        parts.push(Part::new("Percentiles", text, Body::Curves(curves)));
    }
    let mut courses: Vec<Part> = rows.iter().filter_map(Found::course).collect();
    courses.sort_by_key(|part| part.is_folded);
    if let Some(first) = courses.first_mut() {
        first.is_folded = false;
        first.text += " Latencies in each second; below them, how many compactions and flushes ran, \
                       and which share of the time writes were stalled.";
    }
    parts.extend(courses);
    parts.extend(slow_reads(&rows, &parameters));
    parts.push(tables(&rows, parameters.kind));
    parts.extend(published(&rows, &parameters));
    parts.extend(facts::parts(report));
    let compared = rows.iter().map(|row| Compared::of(&row.label, &row.json["median"], &COMPARED));
    Ok(Document {
        title: "Reads while the engine writes and compacts".to_owned(),
        headline: headline(&rows, parameters.kind),
        compared: compared.collect(),
        parts,
    })
}

/// Returns the headline of a report, given its JSON.
pub(super) fn headline_of(report: &Value, kind: Kind) -> Result<String, Failure> {
    Ok(headline(&rows(report)?, kind))
}

fn rows(report: &Value) -> Result<Vec<Found<'_>>, serde_json::Error> {
    let mut rows = Vec::new();
    for json in report["configurations"].as_array().into_iter().flatten() {
        rows.push((serde_json::from_value::<Row>(json.clone())?, json));
    }
    let has_one_engine = rows.iter().all(|(row, _)| row.engine == rows[0].0.engine);
    let mut names: Vec<String> = Vec::new();
    let found = rows.iter().map(|&(row, json)| {
        let name = row.label();
        let hue = names.iter().position(|known| *known == name).unwrap_or(names.len());
        if hue == names.len() {
            names.push(name.clone());
        }
        let label = if has_one_engine { name } else { format!("{} {name}", row.engine.name()) };
        Found { row, label, hue: Hue(hue), json }
    });
    Ok(found.collect())
}

/// Returns the experiment in a sentence.
fn how(parameters: &Parameters) -> String {
    let Parameters { load, limit_bytes, .. } = parameters;
    let limit = limit_bytes.map_or("without a memory limit".to_owned(), |limit| {
        format!("in {} of memory, page cache included", Bytes(limit))
    });
    let work = match (parameters.kind, parameters.write_bytes_per_second) {
        (Kind::Merging, _) => "while one compaction merges the whole database".to_owned(),
        (_, Some(rate)) => format!("while {:.0} MB/s are written", rate as f64 / 1e6),
        (_, None) => "while it is written".to_owned(),
    };
    let values = match load.compression_ratio {
        ratio if ratio < 1.0 => format!(", whose values compress to {ratio} of their size,"),
        _ => String::new(),
    };
    let start = if parameters.is_warm { "" } else { " Runs with writes begin with empty caches." };
    format!(
        "{} of a database of {}{values} are read by {} reader{} {limit}, {work}. Each row is \
         compared with the same configuration without writes.{start}",
        Bytes(parameters.hot_bytes()),
        Bytes(parameters.database_bytes()),
        load.readers,
        if load.readers == 1 { "" } else { "s" },
    )
}

fn headline(rows: &[Found<'_>], kind: Kind) -> String {
    let measured = || rows.iter().filter(|row| row.effect().is_some());
    let of = |configuration| measured().find(|row| row.row.configuration == configuration);
    let featured = of(Configuration::Recommended)
        .or_else(|| of(Configuration::DirectCompactionReadWrite))
        .or_else(|| measured().next());
    let Some(featured) = featured else {
        return "No row has reads with and without other work to compare.".to_owned();
    };
    let of_other_engine = || {
        let is_same = |row: &&Found<'_>| row.row.configuration == featured.row.configuration;
        measured().filter(is_same).find(|row| row.row.engine != featured.row.engine)
    };
    let buffered = || of(Configuration::Buffered).filter(|row| row.row != featured.row);
    let compared = [Some(featured), of_other_engine().or_else(buffered)];
    let sentences: Vec<String> =
        compared.into_iter().flatten().filter_map(|row| sentence(row, kind)).collect();
    let work = match kind {
        Kind::Overwriting => "While it writes and compacts",
        Kind::Merging => "While one compaction merges the whole database",
    };
    format!("{work}, {}.", sentences.join("; "))
}

fn sentence(row: &Found<'_>, kind: Kind) -> Option<String> {
    let Effect { label, kept: (share, reads), tail_us: (without, with), .. } = row.effect()?;
    let verb = if with >= without { "rises" } else { "falls" };
    let tail = format!("p99.9 {verb} from {} to {}", latency(without), latency(with));
    Some(match kind {
        Kind::Overwriting => {
            format!("{label} keeps {} of its reads ({reads}), and its {tail}", percent(share))
        }
        Kind::Merging => format!("the {tail} with {label}"),
    })
}

fn tables(rows: &[Found<'_>], kind: Kind) -> Part {
    let columns = Figure::columns(figures(kind).map(|(figure, _)| figure));
    let (effect, kernel) = (Figure::columns(&EFFECT), Figure::columns(&KERNEL));
    let mut table = Table::new(&format!("engine<|configuration<{effect}{columns}"));
    let mut causes = Table::new(&format!("engine<|configuration<{kernel}"));
    for Found { row, json, .. } in rows {
        let name = || [row.engine.name().to_owned(), row.label()].into_iter();
        let effect = EFFECT.iter().map(|figure| figure.cell(&json["median"]));
        let cells = figures(kind).map(|figure| cell(json, figure));
        table.row(name().chain(effect).chain(cells));
        let cells = KERNEL.iter().map(|figure| figure.cell(&json["median"]["kernel"]));
        causes.row(name().chain(cells));
    }
    let text = "Medians of the runs. 1.00x: as the engine's row buffered. !: the row wrote or \
                compacted more than 3 % more or less than buffered; *: than the first engine in \
                the same configuration. queue: share of the time that readers waited for a \
                processor.";
    let caption = "The kernel's figures: pages dirtied, refaulted and missed, time that tasks \
                   waited for memory and for the disk, active pages; the device";
    let mut tables = vec![(String::new(), table), (caption.to_owned(), causes)];
    let caption = "Latencies, hit ratios of the caches, and requests in flight at the device";
    tables.insert(1, (caption.to_owned(), medians(rows, &CACHES)));
    if rows.iter().any(|found| found.json["median"]["batches"].is_object()) {
        let caption = "Batches of other clients, beside the reads";
        tables.push((caption.to_owned(), medians(rows, &BATCHES)));
    }
    Part::new("All rows", text, Body::Tables(tables))
}

/// Returns a table of the medians of these figures.
fn medians(rows: &[Found<'_>], figures: &[Figure]) -> Table {
    let columns = Figure::columns(figures);
    let mut table = Table::new(&format!("engine<|configuration<{columns}"));
    for Found { row, json, .. } in rows {
        let name = [row.engine.name().to_owned(), row.label()].into_iter();
        table.row(name.chain(figures.iter().map(|figure| figure.cell(&json["median"]))));
    }
    table
}

/// Returns the causes of slow reads, as bars and as a table, if slow reads were attributed.
fn slow_reads(rows: &[Found<'_>], parameters: &Parameters) -> Vec<Part> {
    let Some(threshold_us) = parameters.slow_read_threshold_us else { return Vec::new() };
    let shares = |row: &Found<'_>| {
        let shares = SlowReadCause::ALL.map(|cause| {
            let place = format!("/slow_reads/time_shares/{}", cause.name());
            row.figure(&place).unwrap_or(0.0)
        });
        let per_second = row.figure("/slow_reads/slow_reads_per_second")?;
        let described = format!("{} slow reads/s", rate(per_second));
        Some(Shares { label: row.label.clone(), shares: shares.into(), described })
    };
    let bars = SharesOfRows {
        names: SlowReadCause::ALL.map(SlowReadCause::name).into(),
        rows: rows.iter().filter_map(shares).collect(),
    };
    let text = format!(
        "What the time of reads of at least {threshold_us} us was spent on: waiting for a \
         processor, reading files, waiting for locks, decompressing and checking blocks, other \
         computing, and no known cause. RocksDB reports some of the causes only."
    );
    let bars = Part::new("Causes of slow reads", text, Body::Shares(bars));
    let text = "Medians of the runs. slow/s: slow reads per second. Per slow read: blocks read from \
                files, those of tables of the last ten seconds, and those that another thread was \
                reading, too.";
    let table = Body::Tables(vec![(String::new(), medians(rows, &SLOW_READS))]);
    vec![bars, Part::new("", text, table)]
}

/// Returns the published table of this experiment and this machine's.
fn published(rows: &[Found<'_>], parameters: &Parameters) -> Option<Part> {
    let share = parameters.hot_bytes() as f64 / parameters.limit_bytes? as f64;
    let (published, columns): (_, &[Figure]) = match parameters.kind {
        Kind::Merging => (&CASSANDRA_21134, &BESIDE_CASSANDRA),
        Kind::Overwriting if parameters.load.hot_keys <= ROCKSDB_14743_COMMIT_HOT_KEYS => {
            (&ROCKSDB_14743_COMMIT, &BESIDE_ROCKSDB)
        }
        Kind::Overwriting if share < SMALL_HOT_SET => (&ROCKSDB_14743_SMALL, &BESIDE_ROCKSDB),
        Kind::Overwriting => (&ROCKSDB_14743_LARGE, &BESIDE_ROCKSDB),
    };
    let mut table = Table::new(&format!("configuration<{}", Figure::columns(columns)));
    for row in rows {
        let cells = columns.iter().map(|figure| figure.cell(&row.json["median"]));
        table.row([row.label.clone()].into_iter().chain(cells));
    }
    let text = "Machines, sizes and rates differ, so compare the rows of a table with each other.";
    let tables = vec![published.table(), ("This machine".to_owned(), table)];
    Some(Part::new("The published experiment and this machine", text, Body::Tables(tables)))
}
