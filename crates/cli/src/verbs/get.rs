//! `get`: the value of one key.

use serde_json::json;

use super::key_bytes;
use crate::arguments::GetArguments;
use crate::database::Database;
use crate::outcome::{Outcome, Result};
use crate::output::{Output, say};

pub(crate) fn run(arguments: &GetArguments, output: &mut Output) -> Result<Outcome> {
    let key = key_bytes(&arguments.key, &arguments.keys, &arguments.place.common)?;
    let database = Database::open(&arguments.place)?;
    let family = database.column_family(&arguments.column_family)?;
    let value = database.db.get_pinned_cf_opt(&family, &key, &tailwater::ReadOptions::default())?;
    if output.is_json() {
        output.json_document(&json!({
            "column_family": family.name(),
            "key": output.bytes(&key),
            "found": value.is_some(),
            "value": value.as_ref().map(|value| output.bytes(value)),
        }))?;
    } else if let Some(value) = &value {
        output.line(output.bytes(value))?;
    } else {
        let (key, family) = (output.key(&key), family.name());
        say(format_args!("tailwater: no key {key} in column family '{family}'"));
    }
    let found = if value.is_some() { Outcome::Well } else { Outcome::Damage };
    Ok(database.outcome.and(found))
}
