//! `load`: loads a file of Debian packages or of keys and values.
//!
//! The file is read line by line and written in batches. A package and its dependencies are in the
//! same batch. A batch is written when it has the requested number of packages or lines, or when it
//! is large; with `--ack`, the total number of loaded packages or lines is then appended to a file
//! of acknowledgements. Memory use is bounded by one batch and the longest line or stanza.
//!
//! If the program is killed at any time, the database contains only whole batches: all acknowledged
//! batches, and at most one batch that was not yet acknowledged. Loading ends at malformed input,
//! after everything before the malformed input has been loaded.

mod input;
mod line;
mod loader;
mod package;

use std::io::BufRead;

use serde_json::json;
use tailwater_io::clock::{Clock, SystemClock};

use crate::arguments::{LoadArguments, LoadFormat};
use crate::outcome::{Failure, Outcome, Result};
use crate::output::Output;
use crate::text::{counted, unescape, unhex};
use crate::writing::{WritableDatabase, check_presence};

use input::Lines;
use line::{Decode, Entry};
use loader::{Acknowledgements, Loaded, Loader};
use package::Stanza;

/// Name of the column family that maps each package to the packages that depend on it.
const DEPENDS: &str = "depends";

pub(crate) fn run(arguments: &LoadArguments, output: &mut Output) -> Result<Outcome> {
    let LoadArguments { place, file, format, column_family, ack, creation, .. } = arguments;
    if *format == LoadFormat::Packages && column_family == DEPENDS {
        return Err(Failure::Usage(format!(
            "--column-family: '{DEPENDS}' is reserved for the packages' dependencies"
        )));
    }
    let mut lines = input::open(file)?;
    // Checked before the file of acknowledgements is created, so that a mistyped directory leaves
    // nothing behind.
    check_presence(&place.directory, creation.into())?;
    let acknowledgements = ack.clone().map(Acknowledgements::open).transpose()?;
    let database = WritableDatabase::open(place, creation.into(), None)?;
    let mut loader = Loader::new(&database, acknowledgements, arguments);
    let start_ns = SystemClock.monotonic_ns();
    let read = match format {
        LoadFormat::Packages => load_packages(&mut lines, column_family, &mut loader),
        LoadFormat::Tsv => load_lines(&mut lines, unescape, column_family, &mut loader),
        LoadFormat::Hex => load_lines(&mut lines, unhex, column_family, &mut loader),
    };
    let (written, loaded) = loader.finish(read);
    let closed = database.close();
    let elapsed_us = SystemClock.since_ns(start_ns) / 1000;
    let outcome = written.and(closed).map_err(|failure| {
        let were = if loaded.items == 1 { "was" } else { "were" };
        Failure::Input(format!("{failure}; {} {were} loaded", counted_items(*format, loaded.items)))
    })?;
    report(*format, &loaded, lines.bytes(), elapsed_us, output)?;
    Ok(outcome)
}

/// Loads the packages of an index, and their dependencies.
fn load_packages(
    lines: &mut Lines<impl BufRead>,
    column_family: &str,
    loader: &mut Loader<'_>,
) -> Result<()> {
    let (packages, depends) = (loader.family(column_family)?, loader.family(DEPENDS)?);
    let mut stanza = Stanza::default();
    while stanza.read(lines)? {
        let package = stanza
            .package()
            .map_err(|problem| lines.malformed(stanza.line() + problem.line, &problem.reason))?;
        loader.put(packages, &package.key(), stanza.text())?;
        for dependency in package.dependencies() {
            loader.put(depends, &package.dependency_key(dependency), package.version)?;
        }
        loader.item_done()?;
    }
    Ok(())
}

/// Loads lines of keys and values, decoding the fields with `decode`.
fn load_lines(
    lines: &mut Lines<impl BufRead>,
    decode: Decode,
    column_family: &str,
    loader: &mut Loader<'_>,
) -> Result<()> {
    let mut line = Vec::new();
    while lines.read(&mut line)? {
        let entry = Entry::parse(&line, decode)
            .map_err(|reason| lines.malformed(lines.number(), &reason))?;
        let family = loader.family(entry.family.as_deref().unwrap_or(column_family))?;
        loader.put(family, &entry.key, &entry.value)?;
        loader.item_done()?;
    }
    Ok(())
}

/// Reports the number of packages or lines loaded, and the rate.
fn report(
    format: LoadFormat,
    loaded: &Loaded,
    input_bytes: u64,
    elapsed_us: u64,
    output: &mut Output,
) -> Result<()> {
    let Loaded { items, entries, batches } = *loaded;
    if output.is_json() {
        return output.json_document(&json!({
            "verb": "load",
            "format": format_name(format),
            "loaded": items,
            "entries": entries,
            "batches": batches,
            "input_bytes": input_bytes,
            "elapsed_us": elapsed_us,
        }));
    }
    // The clock may not advance while a short file is loaded, so the elapsed time counts as at
    // least one microsecond.
    let elapsed_s = elapsed_us.max(1) as f64 / 1e6;
    output.line(format_args!(
        "loaded {} ({} in {}) in {elapsed_s:.3} s: {:.0} {}/s, {:.1} MB/s",
        counted_items(format, items),
        counted(entries, "entry", "entries"),
        counted(batches, "batch", "batches"),
        items as f64 / elapsed_s,
        item_names(format).1,
        input_bytes as f64 / 1e6 / elapsed_s,
    ))
}

fn format_name(format: LoadFormat) -> &'static str {
    match format {
        LoadFormat::Packages => "packages",
        LoadFormat::Tsv => "tsv",
        LoadFormat::Hex => "hex",
    }
}

/// Returns the noun for the counted items, in the singular and the plural.
fn item_names(format: LoadFormat) -> (&'static str, &'static str) {
    match format {
        LoadFormat::Packages => ("package", "packages"),
        LoadFormat::Tsv | LoadFormat::Hex => ("line", "lines"),
    }
}

fn counted_items(format: LoadFormat, count: u64) -> String {
    let (one, many) = item_names(format);
    counted(count, one, many)
}
