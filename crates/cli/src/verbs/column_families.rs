//! `column-families`, `create-column-family`, `drop-column-family`.

use serde_json::json;
use tailwater::inspect::manifest;

use crate::arguments::{CreateColumnFamilyArguments, DropColumnFamilyArguments, Place};
use crate::files::storage;
use crate::outcome::{Outcome, Result};
use crate::output::{Output, say};
use crate::settings::check_options;
use crate::text::escape;
use crate::writing::{Absent, WritableDatabase};

/// Prints the names of the column families.
pub(crate) fn list(place: &Place, output: &mut Output) -> Result<Outcome> {
    check_options(&place.directory, &place.common)?;
    let state = manifest::current_state(&*storage(), &place.directory)?;
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

pub(crate) fn create(
    arguments: &CreateColumnFamilyArguments,
    output: &mut Output,
) -> Result<Outcome> {
    let CreateColumnFamilyArguments { place, name, creation } = arguments;
    let database = WritableDatabase::open(place, creation.into(), Some(name))?;
    let id = database.create_column_family(name)?.id();
    let outcome = database.close()?;
    output.report(&json!({ "verb": "create-column-family", "column_family": name, "id": id }))?;
    Ok(outcome)
}

pub(crate) fn remove(
    arguments: &DropColumnFamilyArguments,
    output: &mut Output,
) -> Result<Outcome> {
    let DropColumnFamilyArguments { place, name } = arguments;
    let database = WritableDatabase::open(place, Absent::Refuse, None)?;
    let family = database.column_family(name)?;
    let id = family.id();
    database.db.drop_cf(&family)?;
    drop(family);
    let outcome = database.close()?;
    output.report(&json!({ "verb": "drop-column-family", "column_family": name, "id": id }))?;
    Ok(outcome)
}
