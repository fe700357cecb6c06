//! `flush`: writes to tables all entries that so far are only in memtables and logs.

use serde_json::json;

use crate::arguments::FlushArguments;
use crate::outcome::{Outcome, Result};
use crate::output::Output;
use crate::writing::{Absent, WritableDatabase};

pub(crate) fn run(arguments: &FlushArguments, output: &mut Output) -> Result<Outcome> {
    let FlushArguments { place, column_family } = arguments;
    let database = WritableDatabase::open(place, Absent::Refuse, column_family.as_deref())?;
    match column_family {
        Some(name) => database.db.flush_cf(&database.column_family(name)?)?,
        None => database.db.flush_all()?,
    }
    let outcome = database.close()?;
    output.report(&json!({ "verb": "flush", "column_family": column_family }))?;
    Ok(outcome)
}
