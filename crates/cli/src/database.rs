//! A database opened read-only, with the options of the command line.

use tailwater::{ColumnFamily, Db, ReadOptions, SkippedKeys, SkippedPart};

use crate::arguments::Place;
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
    pub(crate) fn open(place: &Place) -> Result<Self> {
        let mut settings = Settings::defaults(&place.common)?.effective;
        let given = place.common.options.as_deref().unwrap_or_default();
        settings.set_load_when_opened(&format!("{OPEN_ALL_FILES};{given}"));
        let db = Db::open_read_only(&place.directory, &settings)?;
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
    skipped: impl IntoIterator<Item = SkippedPart>,
    output: &Output,
) -> Outcome {
    let mut outcome = Outcome::Well;
    for part in skipped {
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
