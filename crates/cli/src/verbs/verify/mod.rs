//! `verify`: reports damage and inconsistencies of a database.

mod attempts;

use serde_json::{Value, json};
use tailwater::verify::Report;
use tailwater::{ErrorKind, OpenOptions};

use crate::arguments::Place;
use crate::files::storage;
use crate::outcome::{Failure, Outcome, Result};
use crate::output::{Output, complain};
use crate::settings::Settings;
use crate::text::counted;

pub(crate) fn run(place: &Place, output: &mut Output) -> Result<Outcome> {
    storage().list(&place.directory)?;
    let (options, mut outcome) = options(place)?;
    let (report, found) = attempts::settled(&place.directory, &options);
    outcome = outcome.and(found);
    if output.is_json() {
        output.json_document(&document(&report, outcome))?;
    } else {
        print(&report, outcome, output)?;
    }
    Ok(outcome)
}

/// Returns the options for opening the database, and the outcome of reading them. An unreadable
/// OPTIONS file is reported, but does not prevent the other checks.
fn options(Place { directory, common }: &Place) -> Result<(OpenOptions, Outcome)> {
    match Settings::load(directory, common) {
        Ok(settings) => Ok((settings.effective, Outcome::Well)),
        Err(Failure::Engine(error)) => {
            complain(&error);
            let outcome = match error.kind() {
                ErrorKind::NotSupported => Outcome::Unsupported,
                _ => Outcome::Damage,
            };
            Ok((Settings::defaults(common)?.effective, outcome))
        }
        Err(failure) => Err(failure),
    }
}

fn print(report: &Report, outcome: Outcome, output: &mut Output) -> Result<()> {
    for finding in &report.findings {
        let at = finding.offset.map_or_else(String::new, |offset| format!(" at offset {offset}"));
        let (what, path) = (finding.severity.name(), finding.path.display());
        output.line(format_args!("{what:11}  {path}{at}: {}", finding.message))?;
    }
    let Report { tables, entries, blob_files, blobs, logs, batches, bytes, .. } = report;
    output.line(format_args!(
        "read: {} with {}, {} with {}, {} with {}; {bytes} bytes",
        counted(*tables, "table", "tables"),
        counted(*entries, "entry", "entries"),
        counted(*blob_files, "blob file", "blob files"),
        counted(*blobs, "blob", "blobs"),
        counted(*logs, "log", "logs"),
        counted(*batches, "batch", "batches"),
    ))?;
    output.line(match outcome {
        Outcome::Well => "all is well",
        Outcome::TornTail => "all is well except for a torn tail",
        Outcome::Unsupported => "NOT VERIFIED: some of it is not supported",
        Outcome::BeingWritten => "NOT VERIFIED: another process is writing it",
        Outcome::Damage => "DAMAGED",
    })
}

fn document(report: &Report, outcome: Outcome) -> Value {
    let findings: Vec<Value> = report
        .findings
        .iter()
        .map(|finding| {
            json!({
                "severity": finding.severity.name(),
                "file": finding.path.display().to_string(),
                "offset": finding.offset,
                "message": finding.message,
            })
        })
        .collect();
    json!({
        "verdict": match outcome {
            Outcome::Well => "well",
            Outcome::TornTail => "torn_tail",
            Outcome::Unsupported => "unsupported",
            Outcome::BeingWritten => "being_written",
            Outcome::Damage => "damage",
        },
        "findings": findings,
        "tables": report.tables,
        "entries": report.entries,
        "blob_files": report.blob_files,
        "blobs": report.blobs,
        "logs": report.logs,
        "batches": report.batches,
        "bytes": report.bytes,
    })
}
