//! `put`: sets the value of a key.

use serde_json::json;

use super::{key_bytes, value_bytes};
use crate::arguments::PutArguments;
use crate::outcome::{Outcome, Result};
use crate::output::Output;
use crate::writing::change_and_close;

pub(crate) fn run(arguments: &PutArguments, output: &mut Output) -> Result<Outcome> {
    let PutArguments { directory, key, value, creation, change } = arguments;
    let key = key_bytes(key, &change.keys, &change.common)?;
    let value = value_bytes(value, &change.common)?;
    let outcome = change_and_close(directory, change, creation.into(), |db, family, options| {
        db.put_cf_opt(family, &key, &value, options)
    })?;
    if output.is_json() {
        output.json_document(&json!({
            "verb": "put",
            "column_family": change.column_family,
            "key": output.bytes(&key),
            "value": output.bytes(&value),
        }))?;
    }
    Ok(outcome)
}
