//! `create-column-family`: creates a column family.

use serde_json::json;

use crate::arguments::CreateColumnFamilyArguments;
use crate::outcome::{Outcome, Result};
use crate::output::Output;
use crate::writing::WritableDatabase;

pub(crate) fn run(arguments: &CreateColumnFamilyArguments, output: &mut Output) -> Result<Outcome> {
    let CreateColumnFamilyArguments { directory, name, creation, common } = arguments;
    let database = WritableDatabase::open(directory, common.overrides(), creation.into())?;
    let id = database.create_column_family(name)?.id();
    let outcome = database.close()?;
    if output.is_json() {
        output.json_document(&json!({
            "verb": "create-column-family",
            "column_family": name,
            "id": id,
        }))?;
    }
    Ok(outcome)
}
