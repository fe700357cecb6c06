//! `delete`: removes a key.

use serde_json::json;

use super::key_bytes;
use crate::arguments::DeleteArguments;
use crate::outcome::{Outcome, Result};
use crate::output::Output;
use crate::writing::{Absent, change_and_close};

pub(crate) fn run(arguments: &DeleteArguments, output: &mut Output) -> Result<Outcome> {
    let DeleteArguments { directory, key, change } = arguments;
    let key = key_bytes(key, &change.keys, &change.common)?;
    let outcome = change_and_close(directory, change, Absent::Refuse, |db, family, options| {
        db.delete_cf_opt(family, &key, options)
    })?;
    if output.is_json() {
        output.json_document(&json!({
            "verb": "delete",
            "column_family": change.column_family,
            "key": output.bytes(&key),
        }))?;
    }
    Ok(outcome)
}
