//! Output shared by several verbs: tables and blob files as recorded in the MANIFEST, levels,
//! column families.

use serde_json::{Map, Value, json};
use tailwater::inspect::manifest::{BlobFileState, FamilyState, ManifestState};
use tailwater_format::file_name::FileKind;
use tailwater_format::key::ParsedKey;
use tailwater_format::version_edit::NewFile;

use crate::outcome::Result;
use crate::output::Output;
use crate::text::{counted, hex};

/// Returns the user key of an internal key, in readable form.
pub(super) fn user_key(output: &Output, internal_key: &[u8]) -> String {
    output.key(tailwater_format::key::user_key(internal_key))
}

/// Returns the parts of an internal key as JSON.
pub(super) fn internal_key_json(output: &Output, internal_key: &[u8]) -> Value {
    match ParsedKey::parse(internal_key) {
        Ok(key) => json!({
            "key": output.bytes(key.user_key),
            "sequence": key.sequence,
            "type": format!("{:?}", key.value_type),
        }),
        Err(_) => json!({ "internal_key": hex(internal_key) }),
    }
}

/// Returns the sum of sizes from a MANIFEST. The sum saturates, because a damaged MANIFEST may
/// contain arbitrary numbers.
fn sum(sizes: impl Iterator<Item = u64>) -> u64 {
    sizes.fold(0, u64::saturating_add)
}

/// Returns a line that describes a table (an SST file).
pub(super) fn table_line(output: &Output, file: &NewFile) -> String {
    let mut line = format!(
        "{}  {:>12} bytes  {} .. {}  sequence {} .. {}",
        FileKind::Table(file.number),
        file.size,
        user_key(output, &file.smallest),
        user_key(output, &file.largest),
        file.smallest_sequence,
        file.largest_sequence
    );
    if file.path_id != 0 {
        line.push_str(&format!("  path {}", file.path_id));
    }
    if let Some(number) = file.oldest_blob_file_number {
        line.push_str(&format!("  blobs from {}", FileKind::Blob(number)));
    }
    line
}

/// Returns a table as JSON.
pub(super) fn table_json(output: &Output, file: &NewFile) -> Value {
    let checksum = file
        .checksum
        .as_ref()
        .map(|checksum| json!({ "function": checksum.function, "value": hex(&checksum.value) }));
    let [first, second] = file.unique_id;
    json!({
        "file": FileKind::Table(file.number).to_string(),
        "number": file.number,
        "level": file.level,
        "path_id": file.path_id,
        "bytes": file.size,
        "smallest": internal_key_json(output, &file.smallest),
        "largest": internal_key_json(output, &file.largest),
        "smallest_sequence": file.smallest_sequence,
        "largest_sequence": file.largest_sequence,
        "epoch_number": file.epoch_number,
        "oldest_ancestor_time_s": file.oldest_ancestor_time_s,
        "creation_time_s": file.creation_time_s,
        "tail_bytes": file.tail_size,
        "unique_id": format!("{first:016x}{second:016x}"),
        "temperature": file.temperature.0,
        "marked_for_compaction": file.marked_for_compaction,
        "oldest_blob_file": file.oldest_blob_file_number,
        "compensated_range_deletion_bytes": file.compensated_range_deletion_size,
        "checksum": checksum,
    })
}

/// Returns a blob file on one line.
pub(super) fn blob_file_line(file: &BlobFileState) -> String {
    let added = &file.added;
    let mut line = format!(
        "{} {:>12} bytes  {}",
        FileKind::Blob(added.number),
        added.blob_bytes,
        counted(added.blob_count, "blob", "blobs")
    );
    if file.garbage_count > 0 {
        let (count, bytes) = (file.garbage_count, file.garbage_bytes);
        line.push_str(&format!("  garbage: {} in {bytes} bytes", counted(count, "blob", "blobs")));
    }
    line
}

/// Prints a column family: its tables by level and its blob files.
pub(super) fn family(output: &mut Output, family: &FamilyState) -> Result<()> {
    output.line(format_args!("column family {} '{}'", family.id, family.name))?;
    output.field(2, "comparator", &family.comparator)?;
    output.field(2, "log number", family.log_number)?;
    for (level, files) in family.levels.iter().enumerate() {
        if files.is_empty() {
            continue;
        }
        let bytes = sum(files.iter().map(|file| file.size));
        let count = counted(files.len() as u64, "table", "tables");
        output.field(2, &format!("level {level}"), format_args!("{count}, {bytes} bytes"))?;
        for file in files {
            output.line(format_args!("    {}", table_line(output, file)))?;
        }
    }
    if !family.blob_files.is_empty() {
        let bytes = sum(family.blob_files.iter().map(|file| file.added.blob_bytes));
        let count = counted(family.blob_files.len() as u64, "file", "files");
        output.field(2, "blob files", format_args!("{count}, {bytes} bytes"))?;
    }
    for file in &family.blob_files {
        output.line(format_args!("    {}", blob_file_line(file)))?;
    }
    Ok(())
}

/// Returns a column family as JSON.
fn family_json(output: &Output, family: &FamilyState) -> Value {
    let levels: Vec<Value> = family
        .levels
        .iter()
        .enumerate()
        .filter(|(_, files)| !files.is_empty())
        .map(|(level, files)| {
            let bytes = sum(files.iter().map(|file| file.size));
            let tables: Vec<Value> = files.iter().map(|file| table_json(output, file)).collect();
            json!({ "level": level, "bytes": bytes, "tables": tables })
        })
        .collect();
    let blob_files: Vec<Value> = family
        .blob_files
        .iter()
        .map(|file| {
            json!({
                "file": FileKind::Blob(file.added.number).to_string(),
                "number": file.added.number,
                "blobs": file.added.blob_count,
                "blob_bytes": file.added.blob_bytes,
                "garbage_blobs": file.garbage_count,
                "garbage_bytes": file.garbage_bytes,
            })
        })
        .collect();
    json!({
        "id": family.id,
        "name": family.name,
        "comparator": family.comparator,
        "log_number": family.log_number,
        "levels": levels,
        "blob_files": blob_files,
    })
}

/// Returns the counters of a database and its column families as JSON.
pub(super) fn state_json(output: &Output, state: &ManifestState) -> Map<String, Value> {
    let families: Vec<Value> =
        state.column_families.iter().map(|family| family_json(output, family)).collect();
    let logs: Map<String, Value> = state
        .synced_logs
        .iter()
        .map(|(number, bytes)| (FileKind::Wal(*number).to_string(), json!(bytes)))
        .collect();
    let torn =
        state.torn.as_ref().map(|(offset, reason)| json!({ "offset": offset, "reason": reason }));
    let mut object = Map::new();
    object.insert("manifest".to_owned(), json!(FileKind::Manifest(state.number).to_string()));
    object.insert("database_id".to_owned(), json!(state.database_id));
    object.insert("next_file_number".to_owned(), json!(state.next_file_number));
    object.insert("last_sequence".to_owned(), json!(state.last_sequence));
    object.insert("max_column_family".to_owned(), json!(state.max_column_family));
    object.insert("min_log_number_to_keep".to_owned(), json!(state.min_log_number_to_keep));
    object.insert("synced_logs".to_owned(), Value::Object(logs));
    object.insert("torn".to_owned(), json!(torn));
    object.insert("unfinished_edits".to_owned(), json!(state.unfinished_edits));
    object.insert("column_families".to_owned(), json!(families));
    object
}
