//! Reports that people look at: one self-contained HTML file, made from the JSON of a finished
//! experiment alone, so that it can be made again from an old file.
//!
//! An experiment describes its report as a [`Document`]: a headline, and parts with plots and
//! tables. This module writes it (`html`) and draws the plots (`plot`), each at a narrow and a wide
//! width, of which the page shows the one that fits. Nothing in a report refers to another file.
//! Colours follow the reader's light or dark theme (`theme`).

pub(crate) mod compare;
pub mod facts;
mod files;
mod html;
mod plot;
mod published;
mod theme;

use std::path::{Path, PathBuf};

use serde_json::Value;

pub use self::files::ReportFiles;
pub(crate) use self::published::{
    CASSANDRA_21134, IGGY_3068, ROCKSDB_14743_COMMIT, ROCKSDB_14743_LARGE, ROCKSDB_14743_SMALL,
};
pub use self::published::{Published, ROCKSDB_14116};
pub use self::theme::{Hue, Stroke};
use crate::experiment::table::Table;
use crate::failure::Failure;
use crate::files::write_text;

/// Describes the report of an experiment, given its JSON.
pub type Describe = fn(&Value) -> Result<Document, Failure>;

/// The content of a report.
#[derive(Debug, Clone)]
pub struct Document {
    /// What was measured, in a few words.
    pub title: String,
    /// The result in a sentence.
    pub headline: String,
    /// The parts, in the order in which they are shown. The plot of the first one is also the
    /// picture of the report.
    pub parts: Vec<Part>,
    /// The figures by which two reports are compared.
    pub compared: Vec<Compared>,
}

/// A part of a report.
#[derive(Debug, Clone)]
pub struct Part {
    /// The heading.
    pub heading: String,
    /// An explanation, which may be empty.
    pub text: String,
    /// What is shown.
    pub body: Body,
    /// Whether the part is folded at first.
    pub is_folded: bool,
}

impl Part {
    /// Creates a part that is not folded.
    pub fn new(heading: impl Into<String>, text: impl Into<String>, body: Body) -> Self {
        Self { heading: heading.into(), text: text.into(), body, is_folded: false }
    }
}

/// What a part shows.
#[derive(Debug, Clone)]
pub enum Body {
    /// What other work costs the reads of each row.
    Effects(Vec<Effect>),
    /// A value of each row, with its spread.
    Dots(Dots),
    /// What a whole consists of in each row.
    Shares(SharesOfRows),
    /// Percentile curves.
    Curves(Vec<Curve>),
    /// The course of a run.
    Course(Course),
    /// Tables, side by side if there is room, each with a caption that may be empty.
    Tables(Vec<(String, Table)>),
    /// Names and values.
    Facts(Vec<(String, String)>),
    /// Lines to type.
    Commands(Vec<String>),
}

/// What other work costs the reads of a row.
#[derive(Debug, Clone)]
pub struct Effect {
    /// The row.
    pub label: String,
    /// Its colour.
    pub hue: Hue,
    /// Reads per second as a share of those without other work, and its description.
    pub kept: (f64, String),
    /// A high percentile of the latency without and with other work, in microseconds.
    pub tail_us: (f64, f64),
}

/// A value of each row on a common axis.
#[derive(Debug, Clone)]
pub struct Dots {
    /// What the values are.
    pub axis: String,
    /// Formats a value.
    pub format: fn(f64) -> String,
    /// A value that is marked, such as 1 for ratios.
    pub reference: Option<f64>,
    /// The rows.
    pub rows: Vec<Dot>,
}

/// The value of a row.
#[derive(Debug, Clone)]
pub struct Dot {
    /// The row.
    pub label: String,
    /// Its colour.
    pub hue: Hue,
    /// The smallest value of a run, the median, and the largest.
    pub values: [f64; 3],
}

/// What a whole consists of, for each row.
#[derive(Debug, Clone)]
pub struct SharesOfRows {
    /// The names of the shares.
    pub names: Vec<&'static str>,
    /// The rows.
    pub rows: Vec<Shares>,
}

/// The shares of a row.
#[derive(Debug, Clone)]
pub struct Shares {
    /// The row.
    pub label: String,
    /// The shares, whose sum is at most 1, in the order of their names.
    pub shares: Vec<f64>,
    /// What the whole is.
    pub described: String,
}

/// The percentile curve of a row, see [`crate::latencies::percentile_curve`].
#[derive(Debug, Clone)]
pub struct Curve {
    /// The row.
    pub label: String,
    /// Colour and kind of the line.
    pub stroke: Stroke,
    /// The points, in microseconds.
    pub points_us: Vec<f64>,
}

/// The course of a run: panels with a common time axis.
#[derive(Debug, Clone, Default)]
pub struct Course {
    /// Length of the run, in seconds.
    pub seconds: f64,
    /// Below the first panel: what happened when.
    pub lanes: Vec<Lane>,
    /// The panels.
    pub panels: Vec<Panel>,
}

/// The number of things that happened at a time, such as running compactions.
#[derive(Debug, Clone)]
pub struct Lane {
    /// What happened.
    pub name: &'static str,
    /// Colour of the lane.
    pub hue: Hue,
    /// Times in seconds, each with the number from this time on.
    pub steps: Vec<(f64, f64)>,
}

/// A panel with lines over time.
#[derive(Debug, Clone)]
pub struct Panel {
    /// Formats a value, with its unit.
    pub format: fn(f64) -> String,
    /// Whether the axis of values is logarithmic.
    pub is_logarithmic: bool,
    /// The lines.
    pub lines: Vec<Line>,
}

/// A line over time.
#[derive(Debug, Clone)]
pub struct Line {
    /// What the line shows.
    pub name: String,
    /// Colour of the line.
    pub hue: Hue,
    /// Times in seconds, and values.
    pub points: Vec<(f64, f64)>,
}

/// The figures of a row by which two reports are compared.
#[derive(Debug, Clone)]
pub struct Compared {
    /// The row.
    pub label: String,
    /// The name of a figure, its value, and the formatted value.
    pub figures: Vec<(&'static str, f64, String)>,
}

/// Writes a report, and its picture, next to the file with its JSON. Returns the path of the
/// report.
///
/// # Errors
/// Errors from drawing the plots, which do not happen in practice, and from writing the files.
pub(crate) fn write(document: &Document, json: &Path) -> Result<PathBuf, Failure> {
    let path = json.with_extension("html");
    write_text(&path, &html::page(document)?)?;
    if let Some(picture) = plot::picture(document)? {
        write_text(&json.with_extension("svg"), &picture)?;
    }
    Ok(path)
}
