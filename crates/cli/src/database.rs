//! A database opened read-only, with the options of the command line.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater::{ColumnFamily, Db, ReadOptions, SkippedDamage, SkippedKeys};
use tailwater_format::file_name::FileKind;
use tailwater_io::Storage;
use tailwater_io::posix::PosixStorage;

use crate::arguments::Overrides;
use crate::outcome::{Failure, Outcome, Result};
use crate::output::{Output, complain, say};
use crate::settings::Settings;

/// Number of bytes that a scan reads ahead in a table.
const READ_AHEAD_BYTES: usize = 512 << 10;

/// The option with which all tables and blob files are opened together with the database. Another
/// process that writes the database may remove them at any time.
const OPEN_ALL_FILES: &str = "max_open_files=-1";

/// A database that is open for reading.
pub(crate) struct Database {
    pub(crate) db: Db,
    /// The outcome of opening the database: recovery may have left out damaged or incomplete data.
    pub(crate) outcome: Outcome,
}

impl Database {
    /// Opens a database, and reports on standard error what recovery left out.
    pub(crate) fn open(directory: &Path, options: Overrides<'_>) -> Result<Self> {
        let mut settings = Settings::defaults(&storage(), options)?.effective;
        let given = options.options.unwrap_or_default();
        settings.set_load_when_opened(&format!("{OPEN_ALL_FILES};{given}"));
        let db = Db::open_read_only(directory, &settings)?;
        let outcome = report_opening(&db);
        Ok(Self { db, outcome })
    }

    /// Returns the column family with this name.
    pub(crate) fn column_family(&self, name: &str) -> Result<ColumnFamily> {
        column_family(&self.db, name)
    }
}

/// Returns the column family with this name.
pub(crate) fn column_family(db: &Db, name: &str) -> Result<ColumnFamily> {
    db.cf_handle(name).map_err(|error| {
        let families = db.column_families();
        let names: Vec<&str> = families.iter().map(ColumnFamily::name).collect();
        let message = error.message();
        Failure::NotFound(format!("{message}; there are: {}", names.join(", ")))
    })
}

/// Returns an error for an invalid `--options`, in a verb that makes no other use of options.
/// `path` is the directory of a database or a file in it.
pub(crate) fn check_options(
    storage: &Arc<dyn Storage>,
    path: &Path,
    given: Overrides<'_>,
) -> Result<()> {
    if given.options.is_none() {
        return Ok(());
    }
    let is_directory = storage.metadata(path)?.is_directory;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = if is_directory { path } else { parent.unwrap_or(Path::new(".")) };
    Settings::load(storage, directory, given)?;
    Ok(())
}

/// Returns the file system.
pub(crate) fn storage() -> Arc<dyn Storage> {
    Arc::new(PosixStorage::new())
}

/// Returns the options for reading all entries once: from a snapshot, in key order, without
/// inserting blocks into the block cache, and without pinning files that become obsolete.
pub(crate) fn read_once(db: &Db) -> ReadOptions {
    ReadOptions::new()
        .with_snapshot(db.snapshot())
        .with_auto_refresh_iterator_with_snapshot(true)
        .with_total_order_seek(true)
        .with_fill_cache(false)
        .with_readahead_size(READ_AHEAD_BYTES)
}

/// Reports on standard error the damage that was skipped in a column family. Returns whether there
/// was any.
pub(crate) fn report_skipped(
    family: &ColumnFamily,
    skipped: &SkippedDamage,
    output: &Output,
) -> Outcome {
    let mut outcome = Outcome::Well;
    for part in skipped.take() {
        let bound = |key: &Option<Vec<u8>>, edge: &str| match key {
            Some(key) => output.key(key),
            None => format!("its {edge}"),
        };
        let keys = match &part.keys {
            SkippedKeys::One(key) => format!("the key {}", output.key(key)),
            SkippedKeys::Range { from, to } => format!(
                "a part of a table; keys from {} to {} may be missing, outdated or deleted",
                bound(from, "first"),
                bound(to, "last"),
            ),
        };
        let error = &part.error;
        complain(&format!("skipped in column family '{}': {keys}: {error}", family.name()));
        outcome = Outcome::Damage;
    }
    outcome
}

/// Returns the files of one kind in a directory, with their numbers and paths, in the order of
/// their numbers. `number_of` returns the number of a file of that kind, and `None` for any other
/// file.
pub(crate) fn numbered_files(
    storage: &dyn Storage,
    directory: &Path,
    number_of: fn(FileKind) -> Option<u64>,
) -> Result<Vec<(u64, PathBuf)>> {
    let entries = storage.list(directory)?;
    let mut files: Vec<(u64, PathBuf)> = entries
        .iter()
        .filter_map(|entry| {
            let number = number_of(FileKind::parse(&entry.name)?)?;
            Some((number, directory.join(&entry.name)))
        })
        .collect();
    files.sort_unstable();
    Ok(files)
}

/// Returns the path itself if it is a file. If it is a directory, returns its files of one kind:
/// the file with the given number, or all of them. `what` names the kind in messages; `number_of`
/// returns the number of a file of that kind, and `None` for any other file.
pub(crate) fn files_at(
    storage: &dyn Storage,
    path: &Path,
    number: Option<u64>,
    what: &str,
    number_of: fn(FileKind) -> Option<u64>,
) -> Result<Vec<PathBuf>> {
    if !storage.metadata(path)?.is_directory {
        return match number {
            None => Ok(vec![path.to_owned()]),
            Some(_) => Err(Failure::Usage(format!(
                "{} is a file: a number requires a directory",
                path.display()
            ))),
        };
    }
    let files = numbered_files(storage, path, number_of)?;
    let wanted =
        files.into_iter().filter(|(found, _)| number.is_none_or(|wanted| wanted == *found));
    let wanted: Vec<PathBuf> = wanted.map(|(_, path)| path).collect();
    if !wanted.is_empty() {
        return Ok(wanted);
    }
    let which = number.map_or_else(String::new, |number| format!(" with number {number}"));
    Err(Failure::NotFound(format!("no {what}{which} in {}", path.display())))
}

/// Reports on standard error the warnings of a database, and the data that recovery left out.
/// Returns the worst outcome of recovery.
pub(crate) fn report_opening(db: &Db) -> Outcome {
    for warning in db.warnings() {
        say(format_args!("tailwater: warning: {warning}"));
    }
    let mut outcome = Outcome::Well;
    for left_out in db.left_out() {
        let (what, verdict) = if left_out.torn_tail {
            (Outcome::TornTail, " (torn tail)")
        } else {
            (Outcome::Damage, "")
        };
        say(format_args!(
            "tailwater: {} at offset {}: {}; {} bytes left out{verdict}",
            left_out.path.display(),
            left_out.offset,
            left_out.reason,
            left_out.bytes,
        ));
        outcome = outcome.and(what);
    }
    outcome
}
