//! `stats`: prints the levels and the memory of column families, and the I/O that this run itself
//! made.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tailwater::{ColumnFamily, LiveFile};

use crate::arguments::StatsArguments;
use crate::database::Database;
use crate::outcome::{Outcome, Result};
use crate::output::Output;

/// The numeric properties to print: the field's name in JSON, and the property's name.
const NUMBERS: [(&str, &str); 6] = [
    ("estimated_keys", "rocksdb.estimate-num-keys"),
    ("live_data_bytes", "rocksdb.estimate-live-data-size"),
    ("memtable_bytes", "rocksdb.size-all-mem-tables"),
    ("open_table_bytes", "rocksdb.estimate-table-readers-mem"),
    ("pending_compaction_bytes", "rocksdb.estimate-pending-compaction-bytes"),
    ("block_cache_bytes", "rocksdb.block-cache-usage"),
];

pub(crate) fn run(arguments: &StatsArguments, output: &mut Output) -> Result<Outcome> {
    let database = Database::open(&arguments.place)?;
    let families = match &arguments.column_family {
        Some(name) => vec![database.column_family(name)?],
        None => database.db.column_families(),
    };
    if output.is_json() {
        let files = database.db.live_files_with_counts()?;
        let families = families.iter().map(|family| family_json(&database, family, &files));
        let families = families.collect::<Result<Vec<Value>>>()?;
        output.json_document(&json!({ "column_families": families }))?;
        return Ok(database.outcome);
    }
    for family in &families {
        // Reading this property opens the tables, so that the memory printed below includes them.
        property(&database, family, "rocksdb.estimate-num-keys")?;
        let text = property(&database, family, "rocksdb.cfstats")?;
        output.line(text.trim_matches('\n'))?;
        output.line("\n** Memory [bytes] **")?;
        output.line(property(&database, family, "tailwater.memory")?.trim_end())?;
        output.line("")?;
    }
    if let Some(family) = families.first() {
        output.line("** Input and output, by purpose **")?;
        output.line(property(&database, family, "tailwater.io-stats")?.trim_end())?;
    }
    Ok(database.outcome)
}

fn property(database: &Database, family: &ColumnFamily, name: &str) -> Result<String> {
    Ok(database.db.property_value_cf(family, name)?.unwrap_or_default())
}

/// The totals of one level's tables.
#[derive(Default)]
struct Level {
    tables: u64,
    bytes: u64,
    entries: u64,
    deletions: u64,
}

fn family_json(database: &Database, family: &ColumnFamily, files: &[LiveFile]) -> Result<Value> {
    let mut levels: BTreeMap<usize, Level> = BTreeMap::new();
    for file in files.iter().filter(|file| file.column_family == family.name()) {
        let level = levels.entry(file.level).or_default();
        level.tables += 1;
        level.bytes += file.size;
        level.entries += file.entries.unwrap_or(0);
        level.deletions += file.deletions.unwrap_or(0);
    }
    let levels: Vec<Value> = levels
        .into_iter()
        .map(|(number, Level { tables, bytes, entries, deletions })| {
            json!({
                "level": number,
                "tables": tables,
                "bytes": bytes,
                "entries": entries,
                "deletions": deletions,
            })
        })
        .collect();
    let mut object = json!({ "column_family": family.name(), "levels": levels });
    for (field, name) in NUMBERS {
        let number: Option<u64> = property(database, family, name)?.parse().ok();
        object[field] = json!(number);
    }
    Ok(object)
}
