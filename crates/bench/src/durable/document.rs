//! The report for a reader, made from the JSON.

use serde_json::Value;
use tailwater_latency::Failure;
use tailwater_latency::experiment::{Figure, Table};
use tailwater_latency::numbers::{micros, rate};
use tailwater_latency::report::{
    Body, Compared, Curve, Document, Dot, Dots, Hue, Part, ROCKSDB_14116, facts,
};

use super::report::FIGURES;

/// The figures next to the published table.
const BESIDE_ROCKSDB: [Figure; 2] = [
    Figure::new("writes/s>", "/median/per_second", rate),
    Figure::new("mean us>", "/median/mean_us", micros),
];
const COMPARED: [Figure; 4] = [
    Figure::new("writes/s", "/median/per_second", rate),
    Figure::new("p50 us", "/median/p50_us", micros),
    Figure::new("p99 us", "/median/p99_us", micros),
    Figure::new("p99.9 us", "/median/p999_us", micros),
];

/// A measurement of the report.
struct Found<'r> {
    part: &'r str,
    writers: u64,
    label: &'r str,
    hue: Hue,
    json: &'r Value,
}

impl Found<'_> {
    /// Returns the part of the benchmark and the number of writers.
    fn task(&self) -> String {
        format!(
            "{}, {} writer{}",
            self.part,
            self.writers,
            if self.writers == 1 { "" } else { "s" }
        )
    }

    fn rates(&self) -> Option<[f64; 3]> {
        let of = |figures: &Value| figures["per_second"].as_f64();
        let runs: Vec<f64> = self.json["runs"].as_array()?.iter().filter_map(of).collect();
        let smallest = runs.iter().copied().reduce(f64::min)?;
        Some([smallest, of(&self.json["median"])?, runs.iter().copied().reduce(f64::max)?])
    }

    fn curve(&self) -> Option<Curve> {
        let points = self.json["median"]["percentiles_us"].as_array()?;
        let points_us: Vec<f64> = points.iter().filter_map(Value::as_f64).collect();
        let label = self.label.to_owned();
        (points_us.len() > 1).then_some(Curve { label, stroke: self.hue.solid(), points_us })
    }
}

/// Describes the report of an experiment, given its JSON.
pub(super) fn document(report: &Value) -> Result<Document, Failure> {
    let rows = rows(report);
    if rows.is_empty() {
        return Err("not a report of `durable`".into());
    }
    let mut parts = vec![Part::new("", HOW, Body::Dots(dots(&rows)))];
    parts.extend(curves(&rows));
    parts.push(table(&rows, report["compared_with"].as_str()));
    parts.extend(published(&rows));
    parts.extend(facts::parts(report));
    let compared = rows
        .iter()
        .map(|row| Compared::of(&format!("{}: {}", row.task(), row.label), row.json, &COMPARED));
    Ok(Document {
        title: "Durable puts, and the device's own durable writes".to_owned(),
        headline: headline(&rows, report["compared_with"].as_str()),
        compared: compared.collect(),
        parts,
    })
}

const HOW: &str = "Writes per second: raw durable writes of 4 KiB to the device, and puts of 16 and \
                   128 bytes. A dot is the median of the runs, its line their spread.";

fn rows(report: &Value) -> Vec<Found<'_>> {
    let mut labels: Vec<&str> = Vec::new();
    let mut rows = Vec::new();
    for json in report["measurements"].as_array().into_iter().flatten() {
        let text = |name: &str| json[name].as_str();
        let (Some(part), Some(label), Some(writers)) =
            (text("part"), text("label"), json["writers"].as_u64())
        else {
            continue;
        };
        let hue = labels.iter().position(|known| *known == label).unwrap_or_else(|| {
            labels.push(label);
            labels.len() - 1
        });
        rows.push(Found { part, writers, label, hue: Hue(hue), json });
    }
    rows
}

fn dots(rows: &[Found<'_>]) -> Dots {
    let dots = rows.iter().filter_map(|row| {
        let label = format!("{}: {}", row.task(), row.label);
        Some(Dot { label, hue: row.hue, values: row.rates()? })
    });
    Dots {
        axis: "writes per second".to_owned(),
        format: rate,
        reference: None,
        rows: dots.collect(),
    }
}

/// Describes the row of Tailwater that is closest to the device, with the fewest writers.
fn headline(rows: &[Found<'_>], compared_with: Option<&str>) -> String {
    let to_raw = |row: &Found<'_>| row.json["to_raw"].as_f64();
    let is_ours = |row: &&Found<'_>| row.part == "synced" && row.label.starts_with("tailwater");
    let fewest = rows.iter().filter(is_ours).map(|row| row.writers).min();
    let of_fewest = rows.iter().filter(is_ours).filter(|row| Some(row.writers) == fewest);
    let rate_of = |row: &Found<'_>| row.rates().map_or(0.0, |[_, median, _]| median);
    let Some(best) = of_fewest.max_by(|a, b| rate_of(a).total_cmp(&rate_of(b))) else {
        return "No synced puts of Tailwater were measured.".to_owned();
    };
    let raw = to_raw(best).map(|ratio| format!(", {ratio:.2} of the device's own durable writes"));
    let compared = best.json["to_compared"].as_f64().zip(compared_with);
    let compared = compared
        .filter(|(_, with)| *with != best.label)
        .map(|(ratio, with)| format!(" and {ratio:.2} times the rate of {with}"));
    format!(
        "With {}, {} makes {} durable puts per second{}{}.",
        if best.writers == 1 {
            "one writer".to_owned()
        } else {
            format!("{} writers", best.writers)
        },
        best.label,
        rate(rate_of(best)),
        raw.unwrap_or_default(),
        compared.unwrap_or_default(),
    )
}

/// Returns the percentile curves of each task. All but the first are folded.
fn curves(rows: &[Found<'_>]) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for row in rows {
        let heading = format!("Percentiles: {}", row.task());
        let Some(curve) = row.curve() else { continue };
        match parts.last_mut() {
            Some(Part { heading: last, body: Body::Curves(curves), .. }) if *last == heading => {
                curves.push(curve);
            }
            _ => {
                let mut part = Part::new(heading, "", Body::Curves(vec![curve]));
                part.is_folded = !parts.is_empty();
                parts.push(part);
            }
        }
    }
    parts
}

fn table(rows: &[Found<'_>], compared_with: Option<&str>) -> Part {
    let compared = Figure::new("", "/to_compared", |ratio| format!("{ratio:.2}"));
    let heading = compared_with.map_or(String::new(), |with| format!("|to {with}>"));
    let columns = Figure::columns(&FIGURES) + &heading;
    let mut table = Table::new(&format!("part<|writers>|row<{columns}"));
    for Found { part, writers, label, json, .. } in rows {
        let cells = FIGURES.iter().map(|figure| figure.cell(json));
        let cells = cells.chain(compared_with.map(|_| compared.cell(json)));
        let first = [(*part).to_owned(), writers.to_string(), (*label).to_owned()];
        table.row(first.into_iter().chain(cells));
    }
    let text = "Medians; ratios are medians of those within a run.";
    Part::new("All rows", text, Body::Tables(vec![(String::new(), table)]))
}

/// Returns the published table and this machine's, if `fillseq` was measured.
fn published(rows: &[Found<'_>]) -> Option<Part> {
    let mut table = Table::new(&format!("row<{}", Figure::columns(&BESIDE_ROCKSDB)));
    let mut rows = rows.iter().filter(|row| row.part == "fillseq").peekable();
    rows.peek()?;
    for row in rows {
        let cells = BESIDE_ROCKSDB.iter().map(|figure| figure.cell(row.json));
        table.row([row.label.to_owned()].into_iter().chain(cells));
    }
    let tables = vec![ROCKSDB_14116.table(), ("This machine: fillseq".to_owned(), table)];
    let text =
        "A disk and a solid-state device differ: compare the rows of a table with each other.";
    Some(Part::new("The published experiment and this machine", text, Body::Tables(tables)))
}
