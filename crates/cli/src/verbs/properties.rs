//! `properties`: prints an overview of a database, or one of RocksDB's properties.

use serde_json::{Value, json};
use tailwater::inspect::manifest::{self, ManifestState};
use tailwater::options::{CompactionStyle, OptionValue};
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

/// The properties that describe the process that has the database open: its background work, its
/// memory, its handles and counters since the opening. Those of this program say nothing about it.
const OF_A_PROCESS: [&str; 38] = [
    "rocksdb.cf-write-stall-stats",
    "rocksdb.dbstats",
    "rocksdb.db-write-stall-stats",
    "rocksdb.options-statistics",
    "rocksdb.num-immutable-mem-table",
    "rocksdb.num-immutable-mem-table-flushed",
    "rocksdb.mem-table-flush-pending",
    "rocksdb.compaction-pending",
    "rocksdb.background-errors",
    "rocksdb.is-write-stopped",
    "rocksdb.actual-delayed-write-rate",
    "rocksdb.num-snapshots",
    "rocksdb.oldest-snapshot-sequence",
    "rocksdb.oldest-snapshot-time",
    "rocksdb.size-all-mem-tables",
    "rocksdb.num-entries-imm-mem-tables",
    "rocksdb.num-deletes-imm-mem-tables",
    "rocksdb.is-file-deletions-enabled",
    "rocksdb.num-live-versions",
    "rocksdb.current-super-version-number",
    "rocksdb.min-log-number-to-keep",
    "rocksdb.obsolete-sst-files-size",
    "rocksdb.num-running-compactions",
    "rocksdb.num-running-flushes",
    "rocksdb.block-cache-usage",
    "rocksdb.block-cache-pinned-usage",
    "tailwater.io-stats",
    "tailwater.memory",
    "tailwater.process-memory",
    "tailwater.process-memory-sum",
    "tailwater.process-memory-prometheus",
    "tailwater.block-cache-size",
    "tailwater.num-iterators",
    "tailwater.iterator-read-ahead-memory",
    "tailwater.num-pinned-mem-tables",
    "tailwater.pinned-mem-tables-size",
    "tailwater.num-obsolete-files",
    "tailwater.contract-violations",
];

/// Returns the names of the properties that the verb prints.
fn names() -> impl Iterator<Item = String> {
    let fixed = PROPERTY_NAMES.into_iter().filter(|name| !OF_A_PROCESS.contains(name));
    fixed.map(str::to_owned).chain(LEVEL_PROPERTY_NAMES.map(|name| format!("{name}N")))
}

fn property(
    database: &Database,
    arguments: &PropertiesArguments,
    name: &str,
    output: &mut Output,
) -> Result<()> {
    if OF_A_PROCESS.contains(&name) {
        return Err(Failure::Refused(format!(
            "property '{name}' is a figure of the process that has the database open: read it \
             there, with Db::property_value_cf; this command has a handle of its own, which only \
             reads"
        )));
    }
    let family = database.column_family(&arguments.column_family)?;
    let value = database.db.property_value_cf(&family, name)?.ok_or_else(|| {
        let names = names().collect::<Vec<_>>().join("\n  ");
        Failure::NotFound(format!("property '{name}' is unknown; available:\n  {names}"))
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

/// What the overview takes from the open database.
struct Opened {
    compaction_style: CompactionStyle,
    /// The approximate number of keys.
    estimated_keys: Option<String>,
}

/// Returns what the overview says about an open column family; `None` if another process has
/// created the column family since the database was opened.
fn opened(database: &Database, name: &str) -> Result<Option<Opened>> {
    match database.db.cf_handle(name) {
        Ok(family) => Ok(Some(Opened {
            compaction_style: family.options().compaction_style,
            estimated_keys: database.db.property_value_cf(&family, "rocksdb.estimate-num-keys")?,
        })),
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
        let Some(opened) = opened(database, &family.name)? else { continue };
        if let Some(keys) = opened.estimated_keys {
            output.field(2, "keys, estimated", keys)?;
        }
        if matches!(opened.compaction_style, CompactionStyle::Universal | CompactionStyle::Fifo) {
            let style = opened.compaction_style.print();
            output.field(2, "compaction style", format!("{style}, compacted only on request"))?;
        }
    }
    Ok(())
}

fn overview_json(database: &Database, state: &ManifestState, output: &Output) -> Result<Value> {
    let mut object = describe::state_json(output, state);
    object.insert("latest_sequence".to_owned(), json!(database.db.latest_sequence_number()));
    if let Some(Value::Array(families)) = object.get_mut("column_families") {
        for (family, state) in families.iter_mut().zip(&state.column_families) {
            let opened = opened(database, &state.name)?;
            let keys = opened.as_ref().and_then(|opened| opened.estimated_keys.as_deref());
            family["estimated_keys"] = json!(keys.and_then(|keys| keys.parse::<u64>().ok()));
            let style = opened.as_ref().map(|opened| opened.compaction_style.print());
            family["compaction_style"] = json!(style);
            family["table_count"] = json!(state.table_count());
            family["table_bytes"] = json!(state.table_bytes());
        }
    }
    Ok(Value::Object(object))
}
