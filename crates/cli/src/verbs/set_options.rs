//! `set-options`: changes options in the OPTIONS file.

use serde_json::json;
use tailwater::options::{DbOptions, OptionTable};
use tailwater::{Error, ErrorKind};

use crate::arguments::SetOptionsArguments;
use crate::outcome::{Failure, Outcome, Result};
use crate::output::Output;
use crate::writing::{Absent, WritableDatabase};

pub(crate) fn run(arguments: &SetOptionsArguments, output: &mut Output) -> Result<Outcome> {
    let SetOptionsArguments { place, assignments, column_family } = arguments;
    let mut changes = Vec::new();
    for assignment in assignments {
        let change = assignment.split_once('=').ok_or_else(|| {
            Failure::Usage(format!("'{assignment}' is not of the form NAME=VALUE"))
        })?;
        changes.push(change);
    }
    let (of_database, of_family): (Vec<_>, Vec<_>) =
        changes.into_iter().partition(|(name, _)| DbOptions::knows(name));
    let database = WritableDatabase::open(place, Absent::Refuse)?;
    let family = database.column_family(column_family)?;
    if !of_family.is_empty() {
        database.db.set_options_cf(&family, &of_family).map_err(refused)?;
    }
    if !of_database.is_empty() {
        database.db.set_database_options(&of_database).map_err(refused)?;
    }
    let outcome = database.close()?;
    let names: Vec<&str> = of_database.iter().chain(&of_family).map(|(name, _)| *name).collect();
    output.report(&json!({
        "verb": "set-options",
        "column_family": column_family,
        "changed": names,
    }))?;
    Ok(outcome)
}

/// Converts an error of the engine. If the error says that an option cannot be changed, the result
/// is a usage error.
fn refused(error: Error) -> Failure {
    match error.kind() {
        ErrorKind::InvalidArgument => Failure::Usage(error.message().to_owned()),
        _ => error.into(),
    }
}
