//! `checkpoint`: creates a copy of the current state of the database.

use serde_json::json;

use crate::arguments::CheckpointArguments;
use crate::outcome::{Outcome, Result};
use crate::output::Output;
use crate::writing::{Absent, WritableDatabase};

pub(crate) fn run(arguments: &CheckpointArguments, output: &mut Output) -> Result<Outcome> {
    let CheckpointArguments { place, target } = arguments;
    let database = WritableDatabase::open(place, Absent::Refuse, None)?;
    database.db.checkpoint(target)?;
    let outcome = database.close()?;
    output.report(&json!({ "verb": "checkpoint", "directory": target.display().to_string() }))?;
    Ok(outcome)
}
