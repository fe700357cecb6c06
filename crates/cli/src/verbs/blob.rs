//! `blob`: prints the structure of blob files.

use std::path::Path;

use serde_json::json;
use tailwater::inspect::blob::{BlobFileReader, BlobItem, BlobRecord};
use tailwater_format::file_name::FileKind;
use tailwater_io::Storage;

use crate::arguments::BlobArguments;
use crate::files::files_at;
use crate::live::print_files;
use crate::outcome::{Outcome, Result};
use crate::output::Output;
use crate::settings::check_options;

/// A summary of a blob file.
#[derive(Default)]
struct Summary {
    records: u64,
    damaged: u64,
    key_bytes: u64,
    stored_bytes: u64,
    value_bytes: u64,
}

pub(crate) fn run(arguments: &BlobArguments, output: &mut Output) -> Result<Outcome> {
    let number_of = |kind| match kind {
        FileKind::Blob(number) => Some(number),
        _ => None,
    };
    let paths = files_at(&arguments.path, arguments.number, "blob file", number_of)?;
    check_options(&arguments.path, &arguments.common)?;
    let are_listed = paths != [arguments.path.as_path()];
    print_files(&paths, are_listed, true, output, file)
}

fn file(storage: &dyn Storage, path: &Path, output: &mut Output) -> Result<Outcome> {
    let mut reader = BlobFileReader::open(storage, path)?;
    let name = path.display().to_string();
    let mut outcome = header(&name, &reader, output)?;
    let mut summary = Summary::default();
    while let Some(item) = reader.next_item()? {
        match item {
            BlobItem::Record(blob) => record(&name, &blob, &mut summary, output)?,
            BlobItem::Damage { offset, length, error } => {
                summary.damaged += 1;
                if output.is_json() {
                    output.json_line(&json!({
                        "kind": "damage", "file": name, "offset": offset, "length": length,
                        "reason": error.message(),
                    }))?;
                } else {
                    let message = error.message();
                    output.line(format_args!("{offset:>12}{length:>10}  DAMAGED: {message}"))?;
                }
            }
            // An item that this program does not know, and that is not damage.
            _ => {}
        }
    }
    if summary.damaged > 0 {
        outcome = Outcome::Damage;
    }
    Ok(outcome.and(footer(&name, &reader, &summary, output)?))
}

fn header(name: &str, reader: &BlobFileReader, output: &mut Output) -> Result<Outcome> {
    let (header, length) = (reader.header(), reader.length());
    if output.is_json() {
        output.json_line(&json!({
            "kind": "header", "file": name, "bytes": length,
            "column_family": header.as_ref().ok().map(|header| header.column_family_id),
            "compression": header.as_ref().ok().map(|header| header.compression.option_name()),
            "expires": header.as_ref().ok().map(|header| header.has_expiration),
            "problem": header.as_ref().err().map(|error| error.message()),
        }))?;
    } else {
        output.line(format_args!("{name}  {length} bytes"))?;
        match header {
            Ok(header) => {
                let (family, compression) = (header.column_family_id, header.compression);
                let compression = compression.option_name();
                let expires = if header.has_expiration { ", values expire" } else { "" };
                output
                    .line(format_args!("header: column family {family}, {compression}{expires}"))?;
            }
            Err(error) => output.line(format_args!("header DAMAGED: {}", error.message()))?,
        }
        output.line(format_args!(
            "{:>12}{:>10}{:>10}{:>10}  checksums  key",
            "offset", "bytes", "stored", "value"
        ))?;
    }
    Ok(if header.is_ok() { Outcome::Well } else { Outcome::Damage })
}

fn record(name: &str, blob: &BlobRecord, summary: &mut Summary, output: &mut Output) -> Result<()> {
    summary.records += 1;
    summary.key_bytes += blob.key.len() as u64;
    summary.stored_bytes += blob.stored_length;
    match &blob.value_length {
        Ok(length) => summary.value_bytes += length.unwrap_or(0),
        Err(_) => summary.damaged += 1,
    }
    let (offset, length, stored) = (blob.offset, blob.length, blob.stored_length);
    let value_length = blob.value_length.as_ref().ok().copied().flatten();
    if output.is_json() {
        return output.json_line(&json!({
            "kind": "record", "file": name, "offset": offset, "length": length,
            "value_offset": blob.value_offset, "key": output.bytes(&blob.key),
            "stored_bytes": stored, "value_bytes": value_length,
            "expiration": blob.expiration,
            "problem": blob.value_length.as_ref().err().map(|error| error.message()),
        }));
    }
    let key = output.key(&blob.key);
    let value = value_length.map_or("?".to_owned(), |length| length.to_string());
    let (verdict, problem) = match &blob.value_length {
        Ok(_) => ("hold", String::new()),
        Err(error) => ("DAMAGED", format!("  {}", error.message())),
    };
    output.line(format_args!(
        "{offset:>12}{length:>10}{stored:>10}{value:>10}  {verdict:9}  {key}{problem}"
    ))
}

fn footer(
    name: &str,
    reader: &BlobFileReader,
    summary: &Summary,
    output: &mut Output,
) -> Result<Outcome> {
    let footer = reader.footer();
    let wrong_count = footer.as_ref().is_ok_and(|footer| footer.blob_count != summary.records);
    if output.is_json() {
        output.json_line(&json!({
            "kind": "footer", "file": name,
            "blobs": footer.as_ref().ok().map(|footer| footer.blob_count),
            "problem": footer.as_ref().err().map(|error| error.message()),
            "records": summary.records, "damaged": summary.damaged,
            "key_bytes": summary.key_bytes, "stored_bytes": summary.stored_bytes,
            "value_bytes": summary.value_bytes,
        }))?;
    } else {
        match footer {
            Ok(footer) => output.line(format_args!("footer: {} blobs", footer.blob_count))?,
            Err(error) => {
                output.line(format_args!(
                    "no footer, the file was not closed: {}",
                    error.message()
                ))?;
            }
        }
        let Summary { records, damaged, key_bytes, stored_bytes, value_bytes } = summary;
        output.line(format_args!(
            "{records} records, {damaged} damaged; {key_bytes} bytes of keys, {stored_bytes} bytes \
             stored for {value_bytes} bytes of values"
        ))?;
    }
    Ok(if footer.is_err() || wrong_count { Outcome::Damage } else { Outcome::Well })
}
