//! `set-options`: changes options in the OPTIONS file.

use std::error::Error as _;
use std::path::Path;

use serde_json::json;
use tailwater::options::{self, DbOptions, OptionTable, TailwaterOptions};
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
    let refused = |error| refused(error, &place.directory, column_family, assignments);
    let is_of_database = |name: &str| DbOptions::knows(name) || TailwaterOptions::knows(name);
    let (of_database, of_family): (Vec<_>, Vec<_>) =
        changes.into_iter().partition(|(name, _)| is_of_database(name));
    let database = WritableDatabase::open(place, Absent::Refuse, Some(column_family))?;
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

/// Converts an error of the engine. If the error is about an option, the result is a usage error.
/// If the option can be set only when the database is opened, the message has the command for that.
fn refused(error: Error, directory: &Path, column_family: &str, assignments: &[String]) -> Failure {
    if error.kind() != ErrorKind::InvalidArgument {
        return error.into();
    }
    let mut message = error.message().to_owned();
    let cause = error.source().and_then(|cause| cause.downcast_ref::<options::Error>());
    let is_of = |cause: &options::Error, assignment: &str| {
        let name = assignment.split_once('=').map_or(assignment, |(name, _)| name);
        cause.option.starts_with(name)
    };
    if let Some(cause) = cause.filter(|cause| cause.problem == options::Problem::Fixed)
        && let Some(assignment) = assignments.iter().find(|assignment| is_of(cause, assignment))
    {
        let directory = directory.display();
        let family = match DbOptions::knows(&cause.option) || TailwaterOptions::knows(&cause.option)
        {
            true => String::new(),
            false => format!(" --column-family '{column_family}'"),
        };
        message.push_str(&format!(
            ", as by `tailwater db flush {directory}{family} --options '{assignment}'`, which also \
             records it"
        ));
    }
    Failure::Usage(message)
}
