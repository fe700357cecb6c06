//! `merge`: adds a merge operand to a key.

use serde_json::json;

use super::{key_bytes, value_bytes};
use crate::arguments::MergeArguments;
use crate::outcome::{Outcome, Result};
use crate::output::Output;
use crate::writing::change_and_close;

pub(crate) fn run(arguments: &MergeArguments, output: &mut Output) -> Result<Outcome> {
    let MergeArguments { directory, key, operand, creation, change } = arguments;
    let key = key_bytes(key, &change.keys, &change.common)?;
    let operand = value_bytes(operand, &change.common)?;
    let outcome = change_and_close(directory, change, creation.into(), |db, family, options| {
        db.merge_cf_opt(family, &key, &operand, options)
    })?;
    if output.is_json() {
        output.json_document(&json!({
            "verb": "merge",
            "column_family": change.column_family,
            "key": output.bytes(&key),
            "value": output.bytes(&operand),
        }))?;
    }
    Ok(outcome)
}
