//! `column-families`: the names of the column families.

use serde_json::json;
use tailwater::inspect::manifest;

use crate::arguments::ColumnFamiliesArguments;
use crate::database::{check_options, storage};
use crate::outcome::{Outcome, Result};
use crate::output::{Output, say};
use crate::text::escape;

pub(crate) fn run(arguments: &ColumnFamiliesArguments, output: &mut Output) -> Result<Outcome> {
    let (storage, directory) = (storage(), &arguments.directory);
    check_options(&storage, directory, arguments.common.overrides())?;
    let state = manifest::current_state(&*storage, directory)?;
    for family in &state.column_families {
        if output.is_json() {
            output.json_line(&json!({
                "id": family.id,
                "name": family.name,
                "comparator": family.comparator,
            }))?;
        } else {
            output.line(escape(family.name.as_bytes()))?;
        }
    }
    let Some((offset, reason)) = &state.torn else { return Ok(Outcome::Well) };
    let path = state.path.display();
    say(format_args!("tailwater: {path} at offset {offset}: {reason} (torn tail)"));
    Ok(Outcome::TornTail)
}
