//! `delete-range`: removes all keys of a range.

use serde_json::json;

use super::key_bytes;
use crate::arguments::DeleteRangeArguments;
use crate::outcome::{Outcome, Result};
use crate::output::Output;
use crate::writing::{Absent, change_and_close};

pub(crate) fn run(arguments: &DeleteRangeArguments, output: &mut Output) -> Result<Outcome> {
    let DeleteRangeArguments { directory, from, to, change } = arguments;
    let key = |key: &str| key_bytes(key, &change.keys, &change.common);
    let (from, to) = (key(from)?, key(to)?);
    let outcome = change_and_close(directory, change, Absent::Refuse, |db, family, options| {
        db.delete_range_cf_opt(family, &from, &to, options)
    })?;
    if output.is_json() {
        output.json_document(&json!({
            "verb": "delete-range",
            "column_family": change.column_family,
            "from": output.bytes(&from),
            "to": output.bytes(&to),
        }))?;
    }
    Ok(outcome)
}
