//! The report of the experiment for a reader, made from its JSON.

use serde_json::Value;

use crate::experiment::course::course;
use crate::experiment::timeline::Timeline;
use crate::experiment::{Figure, KERNEL, Table};
use crate::failure::Failure;
use crate::numbers::latency;
use crate::report::{Body, Compared, Curve, Document, Dot, Dots, Hue, IGGY_3068, Part, facts};

/// The sides, as in the JSON.
const SIDES: [&str; 2] = ["producers", "consumers"];

/// The figures of the producers, or of the consumers. The unit of all latencies is at the end of
/// the line.
pub(super) const SIDE: [Figure; 8] = [
    Figure::new("MB/s>6", "/bytes_per_second", |rate| format!("{:.1}", rate / 1e6)),
    Figure::new("p50>8", "/p50_us", millis),
    Figure::new("p90>8", "/p90_us", millis),
    Figure::new("p99>8", "/p99_us", millis),
    Figure::new("p99.9>8", "/p999_us", millis),
    Figure::new("p99.99>8", "/p9999_us", millis),
    Figure::new("max>8", "/max_us", millis),
    Figure::new("  stddev  (ms)>8", "/stddev_us", millis),
];

/// The figures of which the headline shows the first that all rows have, and their names.
const TAILS: [(&str, &str); 3] = [("p999_us", "p99.9"), ("p99_us", "p99"), ("max_us", "maximum")];
const COMPARED: [Figure; 6] = [
    Figure::new("producers p50 ms", "/producers/p50_us", millis),
    Figure::new("producers p99 ms", "/producers/p99_us", millis),
    Figure::new("producers p99.9 ms", "/producers/p999_us", millis),
    Figure::new("consumers p50 ms", "/consumers/p50_us", millis),
    Figure::new("consumers p99 ms", "/consumers/p99_us", millis),
    Figure::new("consumers p99.9 ms", "/consumers/p999_us", millis),
];

/// A row of the report.
struct Found<'r> {
    label: String,
    hue: Hue,
    json: &'r Value,
}

impl Found<'_> {
    /// Returns a latency of one side: the smallest of a run, the median, and the largest.
    fn spread(&self, side: &str, figure: &str) -> Option<[f64; 3]> {
        let of = |figures: &Value| figures[side][figure].as_f64();
        let runs: Vec<f64> = self.json["runs"].as_array()?.iter().filter_map(of).collect();
        let smallest = runs.iter().copied().reduce(f64::min)?;
        Some([smallest, of(&self.json["median"])?, runs.iter().copied().reduce(f64::max)?])
    }

    fn curve(&self, side: &str) -> Option<Curve> {
        let points = self.json["median"][side]["percentiles_us"].as_array()?;
        let points_us: Vec<f64> = points.iter().filter_map(Value::as_f64).collect();
        let label = self.label.clone();
        (points_us.len() > 1).then_some(Curve { label, stroke: self.hue.solid(), points_us })
    }

    /// Returns the course of the first run.
    fn course(&self) -> Option<Part> {
        let timeline = self.json.pointer("/runs/0/timeline")?.clone();
        let timeline: Timeline = serde_json::from_value(timeline).ok()?;
        let heading = format!("Over time: {}", self.label);
        let mut part = Part::new(heading, "Run 1.", Body::Course(course(&timeline)?));
        part.is_folded = true;
        Some(part)
    }
}

/// Describes the report of an experiment, given its JSON.
pub(super) fn document(report: &Value) -> Result<Document, Failure> {
    let rows = rows(report);
    if rows.is_empty() {
        return Err("not a report of `tailwater log bench`".into());
    }
    let mut parts = vec![Part::new("", how(&report["parameters"]), Body::Dots(dots(&rows)))];
    for side in SIDES {
        let curves: Vec<_> = rows.iter().filter_map(|row| row.curve(side)).collect();
        if !curves.is_empty() {
            let text = "The latency that a share of the messages did not exceed; medians of the \
                        runs. A curve ends where fewer than ten batches are above it.";
            parts.push(Part::new(format!("Percentiles of {side}"), text, Body::Curves(curves)));
        }
    }
    let mut courses: Vec<Part> = rows.iter().filter_map(Found::course).collect();
    if let Some(first) = courses.first_mut() {
        first.is_folded = false;
    }
    parts.extend(courses);
    parts.push(tables(&rows));
    let text = "Machines and rates differ, so compare the rows of a table with each other.";
    let published = IGGY_3068.iter().zip(SIDES).flat_map(|(published, side)| {
        [published.table(), (format!("This machine: {side}"), of_side(&rows, side))]
    });
    let heading = "The published experiment and this machine";
    parts.push(Part::new(heading, text, Body::Tables(published.collect())));
    parts.extend(facts::parts(report));
    let compared = rows.iter().map(|row| Compared::of(&row.label, &row.json["median"], &COMPARED));
    Ok(Document {
        title: "Latency of a message log, by how it persists".to_owned(),
        headline: headline(&rows),
        compared: compared.collect(),
        parts,
    })
}

fn rows(report: &Value) -> Vec<Found<'_>> {
    let rows = report["configurations"].as_array().into_iter().flatten();
    let rows: Vec<_> = rows.filter(|row| row["mode"].is_string()).collect();
    let thresholds = |row: &Value| {
        [&row["messages_required_to_save"], &row["size_of_messages_required_to_save"]]
            .map(Value::as_u64)
    };
    let differ = rows.iter().any(|row| thresholds(row) != thresholds(rows[0]));
    let found = rows.iter().enumerate().map(|(number, json)| {
        let mut label = json["mode"].as_str().unwrap_or_default().to_owned();
        if differ {
            let [messages, bytes] = thresholds(json).map(Option::unwrap_or_default);
            label += &format!(" {messages}/{}K", bytes >> 10);
        }
        Found { label, hue: Hue(number), json }
    });
    found.collect()
}

/// Returns the experiment in a sentence.
fn how(parameters: &Value) -> String {
    let number = |name: &str| parameters[name].as_f64().unwrap_or(0.0);
    format!(
        "{:.0} MB/s are sent in batches of {} messages of {} bytes to {} partitions, and polled. \
         Latency is measured from the scheduled send time: a producer's to its acknowledgement, a \
         consumer's to the poll that contains the message. A dot is the median of the runs, its \
         line their spread.",
        number("rate_bytes_per_second") / 1e6,
        number("batch"),
        number("message_size"),
        number("partitions"),
    )
}

/// Returns the figure that shows the tail of these rows, and its name: the highest percentile for
/// which the runs were long enough.
fn tail(rows: &[Found<'_>]) -> (&'static str, &'static str) {
    let has = |row: &Found<'_>, figure| SIDES.iter().all(|side| row.spread(side, figure).is_some());
    let found = TAILS.into_iter().find(|(figure, _)| rows.iter().all(|row| has(row, figure)));
    found.unwrap_or(TAILS[TAILS.len() - 1])
}

fn dots(rows: &[Found<'_>]) -> Dots {
    let (figure, name) = tail(rows);
    let dots = SIDES.into_iter().flat_map(|side| {
        rows.iter().filter_map(move |row| {
            let values = row.spread(side, figure)?;
            Some(Dot { label: format!("{side}, {}", row.label), hue: row.hue, values })
        })
    });
    Dots { axis: name.to_owned(), format: latency, reference: None, rows: dots.collect() }
}

/// Compares the row with the shortest tail of the consumers with the first other row.
fn headline(rows: &[Found<'_>]) -> String {
    let (figure, name) = tail(rows);
    let of = |row: &Found<'_>, side| {
        row.spread(side, figure).map_or(f64::INFINITY, |[_, median, _]| median)
    };
    let sentence = |row: &Found<'_>| {
        let [produced, consumed] = SIDES.map(|side| latency(of(row, side)));
        format!("{produced} for producers and {consumed} for consumers with {}", row.label)
    };
    let best = rows.iter().min_by(|a, b| of(a, SIDES[1]).total_cmp(&of(b, SIDES[1])));
    let other = rows.iter().find(|row| best.is_none_or(|best| best.label != row.label));
    let sentences: Vec<_> = best.into_iter().chain(other).map(sentence).collect();
    format!("The {name} is {}.", sentences.join(", and "))
}

fn of_side(rows: &[Found<'_>], side: &str) -> Table {
    let mut table = Table::new(&format!("mode<{}", Figure::columns(&SIDE)));
    for Found { label, json, .. } in rows {
        let cells = SIDE.iter().map(|figure| figure.cell(&json["median"][side]));
        table.row([label.clone()].into_iter().chain(cells));
    }
    table
}

fn tables(rows: &[Found<'_>]) -> Part {
    let mut kernel = Table::new(&format!("mode<{}", Figure::columns(&KERNEL)));
    for Found { label, json, .. } in rows {
        let cells = KERNEL.iter().map(|figure| figure.cell(&json["median"]["kernel"]));
        kernel.row([label.clone()].into_iter().chain(cells));
    }
    let mut tables: Vec<_> = SIDES.map(|side| (side.to_owned(), of_side(rows, side))).into();
    tables.push(("the kernel's figures".to_owned(), kernel));
    let text = "Medians of the runs; latencies in milliseconds. '-': fewer than ten batches above.";
    Part::new("All rows", text, Body::Tables(tables))
}

/// Formats microseconds as milliseconds, with three significant digits.
fn millis(micros: f64) -> String {
    match micros / 1000.0 {
        millis if millis >= 100.0 => format!("{millis:.0}"),
        millis if millis >= 10.0 => format!("{millis:.1}"),
        millis if millis >= 1.0 => format!("{millis:.2}"),
        millis => format!("{millis:.3}"),
    }
}
