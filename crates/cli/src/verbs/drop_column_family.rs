//! `drop-column-family`: removes a column family.

use serde_json::json;

use crate::arguments::DropColumnFamilyArguments;
use crate::outcome::{Outcome, Result};
use crate::output::Output;
use crate::writing::{Absent, WritableDatabase};

pub(crate) fn run(arguments: &DropColumnFamilyArguments, output: &mut Output) -> Result<Outcome> {
    let DropColumnFamilyArguments { directory, name, common } = arguments;
    let database = WritableDatabase::open(directory, common.overrides(), Absent::Refuse)?;
    let family = database.column_family(name)?;
    let id = family.id();
    database.db.drop_cf(&family)?;
    drop(family);
    let outcome = database.close()?;
    if output.is_json() {
        output.json_document(&json!({
            "verb": "drop-column-family",
            "column_family": name,
            "id": id,
        }))?;
    }
    Ok(outcome)
}
