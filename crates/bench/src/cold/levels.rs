//! A database with a table in each of six levels, all with the same range of keys.
//!
//! An engine ingests a table into the lowest level in which, and above which, no table overlaps it.
//! So the first of six tables that overlap is ingested into the last level, and each other table
//! into the level above.

use std::path::Path;

use tailwater::{OpenOptions, SstFileWriter};
use tailwater_latency::entries::{Values, key};

use crate::store::{Failure, Store};

/// Number of levels with a table, from level 1 on.
pub(super) const LEVELS: u64 = 6;
/// Name of the table to ingest, in the database's directory.
const TABLE: &str = "ingested";

/// Ingests six tables into a new database. Consecutive keys are in different tables.
pub(super) fn fill(
    store: &dyn Store,
    directory: &Path,
    options: &str,
    keys: u64,
    values: &Values,
) -> Result<(), Failure> {
    let mut open = OpenOptions::default();
    open.set_from_string(options)?;
    let path = directory.join(TABLE);
    for table in 0..LEVELS {
        let mut writer = SstFileWriter::new(&open, "default")?;
        writer.open(&path)?;
        for number in (table..keys).step_by(LEVELS as usize) {
            writer.put(key(number), values.get(number))?;
        }
        writer.finish()?;
        store.ingest(&path)?;
    }
    for level in 1..=LEVELS {
        let files = store.property(&format!("rocksdb.num-files-at-level{level}"))?;
        if files.as_deref() != Some("1") {
            return Err(format!("level {level} has {} tables", files.unwrap_or_default()).into());
        }
    }
    Ok(())
}
