//! `properties`: prints an overview of a database, or one of RocksDB's properties.

use serde_json::{Value, json};
use tailwater::inspect::manifest::{self, ManifestState};
use tailwater::{LEVEL_PROPERTY_NAMES, PROPERTY_NAMES};
use tailwater_format::file_name::FileKind;

use super::describe;
use crate::arguments::PropertiesArguments;
use crate::database::Database;
use crate::files::storage;
use crate::outcome::{Failure, Outcome, Result};
use crate::output::Output;

pub(crate) fn run(arguments: &PropertiesArguments, output: &mut Output) -> Result<Outcome> {
    let database = Database::open(&arguments.place)?;
    if let Some(name) = &arguments.name {
        property(&database, arguments, name, output)?;
        return Ok(database.outcome);
    }
    let state = manifest::current_state(&*storage(), &arguments.place.directory)?;
    if output.is_json() {
        let value = overview_json(&database, &state, output)?;
        output.json_document(&value)?;
    } else {
        overview(&database, &state, output)?;
    }
    Ok(database.outcome)
}

fn property(
    database: &Database,
    arguments: &PropertiesArguments,
    name: &str,
    output: &mut Output,
) -> Result<()> {
    let family = database.column_family(&arguments.column_family)?;
    let value = database.db.property_value_cf(&family, name)?.ok_or_else(|| {
        Failure::NotFound(format!(
            "property '{name}' is unknown or unavailable for a database opened read-only; \
             available:\n  {}\n  {}",
            PROPERTY_NAMES.join("\n  "),
            LEVEL_PROPERTY_NAMES.map(|name| format!("{name}N")).join("\n  ")
        ))
    })?;
    if output.is_json() {
        return output.json_document(&json!({
            "column_family": family.name(),
            "name": name,
            "value": value,
        }));
    }
    output.line(value.trim_end_matches('\n'))
}

/// Returns the approximate number of keys of a column family. Returns `None` if another process has
/// created the column family since the database was opened.
fn estimated_keys(database: &Database, name: &str) -> Result<Option<String>> {
    match database.db.cf_handle(name) {
        Ok(family) => Ok(database.db.property_value_cf(&family, "rocksdb.estimate-num-keys")?),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn overview(database: &Database, state: &ManifestState, output: &mut Output) -> Result<()> {
    output.field(0, "database id", state.database_id.as_deref().unwrap_or("none"))?;
    output.field(0, "sequence number", database.db.latest_sequence_number())?;
    output.field(0, "sequence number in tables", state.last_sequence)?;
    output.field(0, "MANIFEST", FileKind::Manifest(state.number))?;
    output.field(0, "next file number", state.next_file_number)?;
    output.field(0, "column families", state.column_families.len())?;
    for family in &state.column_families {
        output.line("")?;
        describe::family(output, family)?;
        let sum = format!("{} tables, {} bytes", family.table_count(), family.table_bytes());
        output.field(2, "in tables", sum)?;
        if let Some(keys) = estimated_keys(database, &family.name)? {
            output.field(2, "keys, estimated", keys)?;
        }
    }
    Ok(())
}

fn overview_json(database: &Database, state: &ManifestState, output: &Output) -> Result<Value> {
    let mut object = describe::state_json(output, state);
    object.insert("latest_sequence".to_owned(), json!(database.db.latest_sequence_number()));
    if let Some(Value::Array(families)) = object.get_mut("column_families") {
        for (family, state) in families.iter_mut().zip(&state.column_families) {
            let keys = estimated_keys(database, &state.name)?;
            let keys: Option<u64> = keys.and_then(|keys| keys.parse().ok());
            family["estimated_keys"] = json!(keys);
            family["table_count"] = json!(state.table_count());
            family["table_bytes"] = json!(state.table_bytes());
        }
    }
    Ok(Value::Object(object))
}
