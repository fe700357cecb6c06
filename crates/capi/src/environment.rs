//! The environment variable `TAILWATER_OPTIONS`: an option string for all databases that a program
//! opens through the C interface. It overrides the program's options.

use std::env;

use tailwater::OpenOptions;
use tailwater::options::{self, ColumnFamilyOptions, DbOptions, OptionTable};

use crate::boundary::{Failure, Outcome};

/// The name of the variable.
const VARIABLE: &str = "TAILWATER_OPTIONS";

/// Returns the option string, if there is one.
fn option_string() -> Outcome<Option<String>> {
    match env::var(VARIABLE) {
        Ok(text) if !text.trim().is_empty() => Ok(Some(text)),
        Ok(_) | Err(env::VarError::NotPresent) => Ok(None),
        Err(error) => Err(Failure::invalid(format!("{VARIABLE}: {error}"))),
    }
}

fn named(error: impl std::fmt::Display) -> Failure {
    Failure::invalid(format!("{VARIABLE}: {error}"))
}

/// Applies the option string to the options of an open call. Returns a line for the LOG for each
/// option that it changed.
pub(crate) fn apply(open: &mut OpenOptions) -> Outcome<Vec<String>> {
    let Some(text) = option_string()? else { return Ok(Vec::new()) };
    let before = open.clone();
    open.set_from_string(&text).map_err(named)?;
    let mut lines = Vec::new();
    add_lines(&mut lines, "", before.database(), open.database());
    let (own, changed) = (&before.database().tailwater, &open.database().tailwater);
    add_lines(&mut lines, "", own, changed);
    for name in open.column_families() {
        let family = format!(" of '{name}'");
        let (before, changed) = (before.column_family(name), open.column_family(name));
        add_lines(&mut lines, &family, before, changed);
        add_lines(&mut lines, &family, &before.table_factory, &changed.table_factory);
    }
    Ok(lines)
}

fn add_lines<T: OptionTable>(lines: &mut Vec<String>, of: &str, before: &T, changed: &T) {
    for (name, old, new) in before.differences(changed) {
        lines.push(format!("{VARIABLE} changed {name}{of} from '{old}' to '{new}'"));
    }
}

/// Applies the option string to the options of a column family that is created in an open
/// database.
pub(crate) fn apply_to_family(family: &mut ColumnFamilyOptions) -> Outcome<()> {
    let Some(text) = option_string()? else { return Ok(()) };
    options::set_from_string(&mut DbOptions::default(), family, &text).map_err(named)
}
