//! `ingest`: adds tables that were created outside the database.

use std::path::Path;

use serde_json::{Value, json};
use tailwater::{IngestOptions, IngestedFile};
use tailwater_format::file_name::FileKind;

use crate::arguments::IngestArguments;
use crate::outcome::{Outcome, Result};
use crate::output::Output;
use crate::text::counted;
use crate::writing::WritableDatabase;

pub(crate) fn run(arguments: &IngestArguments, output: &mut Output) -> Result<Outcome> {
    let IngestArguments { place, files, column_family, moves, creation } = arguments;
    let database = WritableDatabase::open(place, creation.into(), Some(column_family))?;
    let family = database.column_family(column_family)?;
    let options =
        IngestOptions::new().with_move_files(*moves).with_verify_checksums_before_ingest(true);
    let paths: Vec<&Path> = files.iter().map(|path| path.as_path()).collect();
    let ingested = database.db.ingest_external_file_cf_opts(&family, &paths, &options)?;
    let outcome = database.close()?;
    if output.is_json() {
        let files: Vec<Value> = ingested.iter().map(document).collect();
        output.json_document(&json!({
            "verb": "ingest",
            "column_family": column_family,
            "files": files,
        }))?;
    } else {
        ingested.iter().try_for_each(|file| print(file, output))?;
    }
    Ok(outcome)
}

fn print(file: &IngestedFile, output: &mut Output) -> Result<()> {
    let entries = counted(file.entries, "entry", "entries");
    let hides = match file.sequence {
        0 => String::new(),
        sequence => format!(", at sequence number {sequence}"),
    };
    let IngestedFile { path, level, size, .. } = file;
    let (path, table) = (path.display(), table_name(file));
    output.line(format_args!(
        "{path}: {entries} of {size} bytes went to level {level} as {table}{hides}"
    ))
}

fn document(file: &IngestedFile) -> Value {
    json!({
        "file": file.path.display().to_string(),
        "table": table_name(file),
        "level": file.level,
        "entries": file.entries,
        "range_deletions": file.range_deletions,
        "bytes": file.size,
        "sequence": file.sequence,
        "copied": file.is_copy,
    })
}

fn table_name(file: &IngestedFile) -> String {
    FileKind::Table(file.number).to_string()
}
