//! `compact`: merges tables down to the last level.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tailwater::{BottommostRewrite, ColumnFamily, CompactRangeOptions};

use super::key_bytes;
use crate::arguments::CompactArguments;
use crate::outcome::{Outcome, Result};
use crate::output::{Output, complain};
use crate::text::counted;
use crate::writing::{Absent, WritableDatabase};

/// The tables of a column family. The key is a table's level and file number, the value its length
/// in bytes.
type Tables = BTreeMap<(usize, u64), u64>;

/// The result of compacting a column family.
struct Compacted<'a> {
    name: &'a str,
    before: Tables,
    after: Tables,
    /// The error, if the compaction failed. It may have replaced some tables before.
    failure: Option<tailwater::Error>,
}

/// The range of keys to compact, inclusive.
struct Range {
    from: Option<Vec<u8>>,
    to: Option<Vec<u8>>,
}

pub(crate) fn run(arguments: &CompactArguments, output: &mut Output) -> Result<Outcome> {
    let key = |key: &String| key_bytes(key, &arguments.keys, &arguments.place.common);
    let range = Range {
        from: arguments.from.as_ref().map(key).transpose()?,
        to: arguments.to.as_ref().map(key).transpose()?,
    };
    let database = WritableDatabase::open(
        &arguments.place,
        Absent::Refuse,
        arguments.column_family.as_deref(),
    )?;
    let families = match &arguments.column_family {
        Some(name) => vec![database.column_family(name)?],
        None => database.db.column_families(),
    };
    let mut outcome = Outcome::Well;
    let mut documents = Vec::new();
    for family in &families {
        let compacted = compact(&database, family, &range);
        if let Some(error) = &compacted.failure {
            // The remaining column families are still compacted, because they may be intact.
            let state = if compacted.before == compacted.after {
                "not compacted and is unchanged"
            } else {
                "compacted in part"
            };
            complain(&format_args!("column family '{}' was {state}: {error}", compacted.name));
            outcome = Outcome::Damage;
        } else if output.is_json() {
            documents.push(compacted.document());
        } else {
            compacted.print(output)?;
        }
    }
    let shown = |key: &Option<Vec<u8>>| key.as_ref().map(|key| output.bytes(key));
    output.report(&json!({
        "verb": "compact",
        "from": shown(&range.from),
        "to": shown(&range.to),
        "column_families": documents,
    }))?;
    Ok(outcome.and(database.close()?))
}

fn compact<'a>(
    database: &WritableDatabase,
    family: &'a ColumnFamily,
    range: &Range,
) -> Compacted<'a> {
    let mut before = tables(database, family);
    // `ForceOptimized` rewrites the tables of the last level, too, except those that this
    // compaction itself wrote.
    let options = CompactRangeOptions::new()
        .with_bottommost_level_compaction(BottommostRewrite::ForceOptimized);
    // Memtables are flushed first, so that `before` includes their contents as tables.
    let flushed = database.db.flush_cf(family);
    if flushed.is_ok() {
        before = tables(database, family);
    }
    let compacted = flushed.and_then(|()| {
        database.db.compact_range_cf_opt(
            family,
            range.from.as_deref(),
            range.to.as_deref(),
            &options,
        )
    });
    let after = tables(database, family);
    Compacted { name: family.name(), before, after, failure: compacted.err() }
}

/// Returns the current tables of a column family, without reading any file.
fn tables(database: &WritableDatabase, family: &ColumnFamily) -> Tables {
    let files = database.db.live_files().into_iter();
    let own = files.filter(|file| file.column_family == family.name());
    own.map(|file| ((file.level, file.number), file.size)).collect()
}

impl Compacted<'_> {
    fn print(&self, output: &mut Output) -> Result<()> {
        let shown = |tables: &Tables| {
            let count = counted(tables.len() as u64, "table", "tables");
            format!("{count} of {} bytes", bytes(tables))
        };
        let (before, after) = (shown(&self.before), shown(&self.after));
        output.line(format_args!("{}: {before} became {after}", self.name))
    }

    fn document(&self) -> Value {
        json!({
            "column_family": self.name,
            "tables_before": self.before.len(),
            "bytes_before": bytes(&self.before),
            "tables_after": self.after.len(),
            "bytes_after": bytes(&self.after),
        })
    }
}

fn bytes(tables: &Tables) -> u64 {
    tables.values().sum()
}
