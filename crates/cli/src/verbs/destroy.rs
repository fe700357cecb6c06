//! `destroy`: removes a database with all its files.

use serde_json::json;
use tailwater::{Db, OpenOptions};
use tailwater_format::file_name::FileKind;

use crate::arguments::{DestroyArguments, Place};
use crate::files::storage;
use crate::outcome::{Failure, Outcome, Result};
use crate::output::{Output, complain};
use crate::settings::Settings;
use crate::writing::{not_there, opening};

pub(crate) fn run(arguments: &DestroyArguments, output: &mut Output) -> Result<Outcome> {
    let DestroyArguments { place, yes } = arguments;
    let directory = &place.directory;
    let has_some = match storage().list(directory) {
        Ok(entries) => entries.iter().any(|entry| says_database(&entry.name)),
        Err(error) if error.is_not_found() => false,
        Err(error) => return Err(error.into()),
    };
    if !has_some {
        return Err(not_there(directory));
    }
    let options = options(place)?;
    if !yes {
        return Err(Failure::Usage(format!(
            "this removes the database in {} permanently: confirm with --yes",
            directory.display()
        )));
    }
    Db::destroy(directory, &options).map_err(|error| opening(directory, error))?;
    output.report(&json!({ "verb": "destroy", "directory": directory.display().to_string() }))?;
    Ok(Outcome::Well)
}

/// Returns whether a file with this name shows that the directory contains a database, or the
/// remains of a database whose destruction was interrupted. A destruction removes CURRENT first, so
/// the other files count, too.
fn says_database(name: &str) -> bool {
    use FileKind::{Current, Identity, Manifest, Options};
    matches!(FileKind::parse(name), Some(Current | Identity | Manifest(_) | Options(_)))
}

/// Returns the options that name the database's directories. Neither CURRENT nor the MANIFEST is
/// needed for this.
///
/// # Errors
/// Refused, if the OPTIONS file cannot be read and no options are given: the destruction would
/// leave behind the directories that the OPTIONS file names.
fn options(Place { directory, common }: &Place) -> Result<OpenOptions> {
    let mut options = Settings::defaults(common)?.effective;
    match (Settings::load(directory, common), &common.options) {
        // The OPTIONS file is read again under the database's lock, because another process may
        // still change it before the lock is taken.
        (Ok(_), over) => {
            options.set_load_when_opened(over.as_deref().unwrap_or_default());
        }
        (Err(Failure::Engine(error)), Some(_)) => {
            complain(&format_args!("{error}; using the options of --options instead"))
        }
        (Err(Failure::Engine(error)), None) => {
            return Err(Failure::Refused(format!(
                "{error}; without it the database's directories are unknown: --options \
                 takes its place ('wal_dir=DIR', or '' if the database has no other directory)"
            )));
        }
        (Err(failure), _) => return Err(failure),
    }
    Ok(options)
}
