//! `manifest`: prints a MANIFEST record by record, and the resulting state.

use serde_json::{Map, Value, json};
use tailwater::inspect::manifest::{
    self, Irregularity, IrregularityKind, ManifestItem, ManifestReader, Placement,
};
use tailwater_format::file_name::FileKind;
use tailwater_format::version_edit::{CompactCursor, VersionEdit};
use tailwater_io::Storage;

use super::describe;
use crate::arguments::ManifestArguments;
use crate::files::storage;
use crate::outcome::{Failure, Outcome, Result};
use crate::output::Output;
use crate::settings::check_options;
use crate::text::hex;

pub(crate) fn run(arguments: &ManifestArguments, output: &mut Output) -> Result<Outcome> {
    let (storage, directory) = (storage(), &arguments.place.directory);
    check_options(directory, &arguments.place.common)?;
    let number = match &arguments.file {
        Some(name) => number_of(name)?,
        None => manifest::current(&*storage, directory)?,
    };
    let path = directory.join(FileKind::Manifest(number).to_string());
    let mut reader = ManifestReader::open(&*storage, &path)?;
    if !output.is_json() {
        output.line(format_args!("{}  {} bytes", path.display(), reader.length()))?;
    }
    let mut outcome = Outcome::Well;
    while let Some(item) = reader.next_item()? {
        outcome = outcome.and(match item {
            ManifestItem::Edit { number, placement, edit } => {
                record(output, number, placement, edit.as_deref())?
            }
            ManifestItem::Irregularity(irregularity) => irregular(output, &irregularity)?,
            // An item that this program does not know. Damage would be an irregularity.
            _ => Outcome::Well,
        });
    }
    Ok(outcome.and(state(&*storage, arguments, number, output)?))
}

/// Returns the number of a MANIFEST, given either its number or its file name.
fn number_of(name: &str) -> Result<u64> {
    let parsed = match FileKind::parse(name) {
        Some(FileKind::Manifest(number)) => Some(number),
        _ => name.parse().ok(),
    };
    parsed.ok_or_else(|| {
        Failure::Usage(format!(
            "'{name}' is not a MANIFEST: use a name (MANIFEST-000005) or a number"
        ))
    })
}

/// Prints a record and its edit. Returns damage if the edit does not decode.
fn record(
    output: &mut Output,
    number: u64,
    placement: Placement,
    edit: std::result::Result<&VersionEdit, &tailwater_format::Error>,
) -> Result<Outcome> {
    let (offset, length) = (placement.offset, placement.length);
    let outcome = if edit.is_ok() { Outcome::Well } else { Outcome::Damage };
    if output.is_json() {
        let document = match edit {
            Ok(edit) => json!({
                "kind": "edit", "record": number, "offset": offset, "length": length,
                "edit": edit_json(output, edit),
            }),
            Err(error) => json!({
                "kind": "undecodable", "record": number, "offset": offset, "length": length,
                "reason": error.to_string(),
            }),
        };
        output.json_line(&document)?;
        return Ok(outcome);
    }
    output.line(format_args!("\nrecord {number} at {offset}, {length} bytes"))?;
    match edit {
        Ok(edit) if *edit == VersionEdit::default() => output.line("  changes nothing")?,
        Ok(edit) => {
            print_numbers(output, edit)?;
            print_files(output, edit)?;
        }
        Err(error) => output.field(2, "DAMAGED", error)?,
    }
    Ok(outcome)
}

fn print_numbers(output: &mut Output, edit: &VersionEdit) -> Result<()> {
    let number = |number: Option<u64>| number.map(|number| number.to_string());
    let fields = [
        ("database id", edit.database_id.clone()),
        ("column family", (edit.column_family != 0).then(|| edit.column_family.to_string())),
        ("adds the column family", edit.column_family_add.clone()),
        ("drops the column family", edit.column_family_drop.then(String::new)),
        ("comparator", edit.comparator.clone()),
        ("log number", number(edit.log_number)),
        ("previous log number", number(edit.previous_log_number)),
        ("next file number", number(edit.next_file_number)),
        ("last sequence number", number(edit.last_sequence)),
        ("minimum log number to keep", number(edit.min_log_number_to_keep)),
        ("highest column family", number(edit.max_column_family.map(u64::from))),
        ("edits left in its group", number(edit.atomic_group_remaining.map(u64::from))),
        ("lowest timestamp of history", edit.full_history_timestamp_low.as_deref().map(hex)),
        (
            "timestamps stored",
            edit.persist_user_defined_timestamps.map(|stored| stored.to_string()),
        ),
        ("logs deleted below", number(edit.wal_deletion)),
        ("last compacted MANIFEST", number(edit.last_compacted_manifest_length)),
    ];
    for (name, value) in fields {
        if let Some(value) = value {
            output.field(2, name, value)?;
        }
    }
    Ok(())
}

fn print_files(output: &mut Output, edit: &VersionEdit) -> Result<()> {
    for log in &edit.wal_additions {
        let name = FileKind::Wal(log.log_number);
        let size =
            log.synced_size.map_or("begun".to_owned(), |size| format!("{size} bytes synced"));
        output.field(2, "log", format_args!("{name}  {size}"))?;
    }
    for cursor in &edit.compact_cursors {
        let key = describe::user_key(output, &cursor.key);
        output.field(2, "next compaction", format_args!("level {} at {key}", cursor.level))?;
    }
    for deleted in &edit.deleted_files {
        let name = FileKind::Table(deleted.number);
        output.field(2, "deleted table", format_args!("level {}  {name}", deleted.level))?;
    }
    for file in &edit.new_files {
        let line = describe::table_line(output, file);
        output.field(2, "new table", format_args!("level {}  {line}", file.level))?;
    }
    for added in &edit.blob_file_additions {
        let (name, bytes) = (FileKind::Blob(added.number), added.blob_bytes);
        let line = format!("{name}  {bytes} bytes  {} blobs", added.blob_count);
        output.field(2, "new blob file", line)?;
    }
    for garbage in &edit.blob_file_garbage {
        let (name, bytes) = (FileKind::Blob(garbage.number), garbage.blob_bytes);
        let line = format!("{name}  {bytes} bytes  {} blobs", garbage.blob_count);
        output.field(2, "blob garbage", line)?;
    }
    if let Some(progress) = &edit.subcompaction_progress {
        let key = describe::user_key(output, &progress.next_key);
        let line = format!("{} records read, next {key}", progress.input_records);
        output.field(2, "subcompaction", line)?;
    }
    Ok(())
}

fn blob_file_json(number: u64, blobs: u64, bytes: u64) -> Value {
    json!({ "number": number, "blobs": blobs, "blob_bytes": bytes })
}

/// Returns the fields that are set in an edit as JSON.
fn edit_json(output: &Output, edit: &VersionEdit) -> Value {
    let list = |values: Vec<Value>| if values.is_empty() { Value::Null } else { json!(values) };
    let cursor = |cursor: &CompactCursor| {
        json!({
            "level": cursor.level,
            "key": describe::internal_key_json(output, &cursor.key),
        })
    };
    let mut fields = json!({
        "database_id": edit.database_id,
        "column_family": edit.column_family,
        "column_family_add": edit.column_family_add,
        "column_family_drop": edit.column_family_drop.then_some(true),
        "comparator": edit.comparator,
        "log_number": edit.log_number,
        "previous_log_number": edit.previous_log_number,
        "next_file_number": edit.next_file_number,
        "last_sequence": edit.last_sequence,
        "min_log_number_to_keep": edit.min_log_number_to_keep,
        "max_column_family": edit.max_column_family,
        "atomic_group_remaining": edit.atomic_group_remaining,
        "full_history_timestamp_low": edit.full_history_timestamp_low.as_deref().map(hex),
        "persist_user_defined_timestamps": edit.persist_user_defined_timestamps,
        "wal_additions": list(edit.wal_additions.iter().map(|log| {
            json!({ "log_number": log.log_number, "synced_bytes": log.synced_size })
        }).collect()),
        "wal_deletion": edit.wal_deletion,
        "last_compacted_manifest_bytes": edit.last_compacted_manifest_length,
        "compact_cursors": list(edit.compact_cursors.iter().map(cursor).collect()),
        "deleted_files": list(edit.deleted_files.iter().map(|file| {
            json!({ "level": file.level, "number": file.number })
        }).collect()),
        "new_files": list(
            edit.new_files.iter().map(|file| describe::table_json(output, file)).collect()
        ),
        "blob_file_additions": list(edit.blob_file_additions.iter().map(|file| {
            blob_file_json(file.number, file.blob_count, file.blob_bytes)
        }).collect()),
        "blob_file_garbage": list(edit.blob_file_garbage.iter().map(|file| {
            blob_file_json(file.number, file.blob_count, file.blob_bytes)
        }).collect()),
        "subcompaction_progress": edit.subcompaction_progress.as_ref().map(|progress| {
            json!({
                "input_records": progress.input_records,
                "next_key": describe::internal_key_json(output, &progress.next_key),
            })
        }),
    });
    if let Value::Object(fields) = &mut fields {
        fields.retain(|_, value| !value.is_null());
    }
    fields
}

/// Prints a range of bytes that is not a record. Returns a torn tail as the outcome if the MANIFEST
/// ends inside a record. Otherwise, returns damage if the range may have held data of this MANIFEST
/// that can no longer be read.
fn irregular(output: &mut Output, irregularity: &Irregularity) -> Result<Outcome> {
    let Irregularity { kind, offset, length, reason, .. } = irregularity;
    if output.is_json() {
        output.json_line(&json!({
            "kind": kind.name(), "offset": offset, "length": length, "reason": reason,
        }))?;
    } else {
        output.line(format_args!("\n{} at {offset}, {length} bytes: {reason}", kind.name()))?;
    }
    Ok(match kind {
        IrregularityKind::Torn => Outcome::TornTail,
        _ if irregularity.loses_data => Outcome::Damage,
        _ => Outcome::Well,
    })
}

/// Prints the state that results from all edits. If the edits are inconsistent, prints the reason
/// instead.
fn state(
    storage: &dyn Storage,
    arguments: &ManifestArguments,
    number: u64,
    output: &mut Output,
) -> Result<Outcome> {
    let state = match manifest::state(storage, &arguments.place.directory, number) {
        Ok(state) => state,
        Err(error) => {
            if output.is_json() {
                output.json_line(&json!({ "kind": "state", "problem": error.to_string() }))?;
            } else {
                output
                    .line(format_args!("\na database in this state cannot be opened: {error}"))?;
            }
            return Ok(Outcome::Damage);
        }
    };
    if output.is_json() {
        let mut object = Map::new();
        object.insert("kind".to_owned(), json!("state"));
        object.extend(describe::state_json(output, &state));
        output.json_line(&Value::Object(object))?;
    } else {
        output.line(format_args!("\nstate after {} records", state.records))?;
        output.field(2, "database id", state.database_id.as_deref().unwrap_or("none"))?;
        output.field(2, "next file number", state.next_file_number)?;
        output.field(2, "last sequence number", state.last_sequence)?;
        output.field(2, "highest column family", state.max_column_family)?;
        output.field(2, "minimum log number to keep", state.min_log_number_to_keep)?;
        if state.unfinished_edits > 0 {
            output.field(2, "edits without effect", state.unfinished_edits)?;
        }
        for family in &state.column_families {
            output.line("")?;
            describe::family(output, family)?;
        }
    }
    Ok(if state.unfinished_edits > 0 { Outcome::TornTail } else { Outcome::Well })
}
