//! `compact`: merges tables down to the last level.

use serde_json::{Value, json};
use tailwater::{BottommostRewrite, ColumnFamily, CompactRangeOptions};

use super::key_bytes;
use crate::arguments::CompactArguments;
use crate::database::{manifest_state, storage};
use crate::outcome::{Outcome, Result};
use crate::output::{Output, complain};
use crate::text::counted;
use crate::writing::{Absent, WritableDatabase};

/// The tables of a column family.
#[derive(Debug, Clone, Copy)]
struct Tables {
    count: usize,
    bytes: u64,
}

/// What became of a column family.
struct Compacted {
    name: String,
    before: Tables,
    after: Tables,
}

/// The keys that are compacted, both ends included.
struct Range {
    from: Option<Vec<u8>>,
    to: Option<Vec<u8>>,
}

pub(crate) fn run(arguments: &CompactArguments, output: &mut Output) -> Result<Outcome> {
    let key = |key: &String| key_bytes(key, &arguments.keys, &arguments.common);
    let range = Range {
        from: arguments.from.as_ref().map(key).transpose()?,
        to: arguments.to.as_ref().map(key).transpose()?,
    };
    let (directory, given) = (&arguments.directory, arguments.common.given());
    let database = WritableDatabase::open(directory, given, Absent::Refuse)?;
    let families = match &arguments.column_family {
        Some(name) => vec![database.column_family(name)?],
        None => database.db.column_families(),
    };
    let mut outcome = Outcome::Well;
    let mut documents = Vec::new();
    for family in &families {
        match compact(&database, family, &range) {
            Ok(compacted) if output.is_json() => documents.push(compacted.document()),
            Ok(compacted) => compacted.print(output)?,
            // The others may be whole.
            Err(error) => {
                complain(&format_args!(
                    "column family '{}' is not compacted, and holds what it held: {error}",
                    family.name()
                ));
                outcome = Outcome::Damage;
            }
        }
    }
    if output.is_json() {
        let shown = |key: &Option<Vec<u8>>| key.as_ref().map(|key| output.bytes(key));
        output.json_document(&json!({
            "verb": "compact",
            "from": shown(&range.from),
            "to": shown(&range.to),
            "column_families": documents,
        }))?;
    }
    Ok(outcome.and(database.close()?))
}

fn compact(
    database: &WritableDatabase,
    family: &ColumnFamily,
    range: &Range,
) -> tailwater::Result<Compacted> {
    // Only tables are counted: what is in memory is to be among them.
    database.db.flush(family)?;
    let before = tables(database, family)?;
    // What comes to the last level on the way is not rewritten there once more.
    let options =
        CompactRangeOptions { bottommost_level_compaction: BottommostRewrite::ForceOptimized };
    database.db.compact_range(family, range.from.as_deref(), range.to.as_deref(), &options)?;
    let after = tables(database, family)?;
    Ok(Compacted { name: family.name().to_owned(), before, after })
}

/// The tables that the MANIFEST has of a column family.
fn tables(database: &WritableDatabase, family: &ColumnFamily) -> tailwater::Result<Tables> {
    let (storage, directory) = (storage(), database.db.directory());
    let state = manifest_state(&*storage, directory)?;
    let known = state.column_families.iter().find(|known| known.id == family.id());
    Ok(known.map_or(Tables { count: 0, bytes: 0 }, |known| Tables {
        count: known.table_count(),
        bytes: known.table_bytes(),
    }))
}

impl Compacted {
    fn print(&self, output: &mut Output) -> Result<()> {
        let shown = |Tables { count, bytes }: Tables| {
            format!("{} of {bytes} bytes", counted(count as u64, "table", "tables"))
        };
        let (before, after) = (shown(self.before), shown(self.after));
        output.line(format_args!("{}: {before} became {after}", self.name))
    }

    fn document(&self) -> Value {
        json!({
            "column_family": self.name,
            "tables_before": self.before.count,
            "bytes_before": self.before.bytes,
            "tables_after": self.after.count,
            "bytes_after": self.after.bytes,
        })
    }
}
