//! `destroy`: removes a database with all its files.

use serde_json::json;
use tailwater::Db;

use crate::arguments::DestroyArguments;
use crate::database::storage;
use crate::outcome::{Failure, Outcome, Result};
use crate::output::Output;
use crate::writing::{existing_options, is_there, not_there, opening};

pub(crate) fn run(arguments: &DestroyArguments, output: &mut Output) -> Result<Outcome> {
    let DestroyArguments { directory, yes, common } = arguments;
    let storage = storage();
    if !is_there(&*storage, directory)? {
        return Err(not_there(directory));
    }
    let options = existing_options(&storage, directory, common.given())?;
    if !yes {
        return Err(Failure::Usage(format!(
            "this removes the database in {} for good: --yes says that it is meant",
            directory.display()
        )));
    }
    Db::destroy(directory, &options).map_err(|error| opening(directory, error))?;
    if output.is_json() {
        output.json_document(&json!({
            "verb": "destroy",
            "directory": directory.display().to_string(),
        }))?;
    }
    Ok(Outcome::Well)
}
