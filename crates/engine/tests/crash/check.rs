//! Opens the state that a crash left, and compares it with the history of the run.

use std::path::Path;

use fastrand::Rng;
use tailwater::verify::{self, Severity};
use tailwater::{Db, Error, OpenOptions, WriteOptions};
use tailwater_format::file_name::FileKind;
use tailwater_format::record_log::RecoveryMode;
use tailwater_io::Storage;
use tailwater_io::sim::SimStorage;

use crate::Checked;
use crate::history::Claims;
use crate::model::{DEFAULT, State, difference};
use crate::run::contents;
use crate::setup::Setup;
use crate::workload::marker;

/// The number by which the model identifies the extra write that a check makes to show that a
/// recovered database accepts writes.
const AFTERWARDS: u64 = 9_999_999;

/// The state of a disk after a crash, and what it must contain.
pub(crate) struct Wreck<'a> {
    pub(crate) setup: &'a Setup,
    pub(crate) image: SimStorage,
    pub(crate) claims: &'a Claims<'a>,
    /// Whether the crash may have cut off a log inside a record.
    pub(crate) torn: bool,
    pub(crate) mode: RecoveryMode,
}

impl Wreck<'_> {
    /// Opens the disk image read-only and for writing. Checks that both openings show the same
    /// contents, and that `self.claims` allows these contents after the crash. Then makes another
    /// write, crashes or closes the database, and checks the contents again. Returns whether
    /// `self.mode` accepted the image. If it did not, the default recovery mode was used.
    pub(crate) fn check(&self, rng: &mut Rng) -> Checked<bool> {
        self.check_options_file()?;
        self.check_checkpoints(rng)?;
        let read_only = self.read_only()?;
        let (db, mode) = self.open()?;
        let state = contents(&db, None).map_err(|error| format!("cannot read: {error}"))?;
        if let Some(difference) = read_only.as_ref().and_then(|it| difference(it, &state)) {
            return Err(format!("reading only and writing differ: {difference}"));
        }
        let judged = self.claims.judge(&state, mode);
        judged.map_err(|error| format!("{error}; left out was {:?}", db.left_out()))?;
        self.write_on(db, mode, &state, rng)?;
        Ok(mode == self.mode)
    }

    fn directory(&self) -> &Path {
        self.setup.directory()
    }

    fn options(&self, mode: RecoveryMode) -> OpenOptions {
        self.setup.options_after(&self.image, mode, !self.claims.exists)
    }

    /// Checks that the database directory has an OPTIONS file and that it can be loaded. Checks
    /// nothing if the database need not exist.
    fn check_options_file(&self) -> Checked<()> {
        if !self.claims.exists {
            return Ok(());
        }
        let storage = std::sync::Arc::new(self.image.clone());
        let entries = self.image.list(self.directory()).map_err(|error| error.to_string())?;
        let is_options = |name: &str| matches!(FileKind::parse(name), Some(FileKind::Options(_)));
        if !entries.iter().any(|entry| is_options(&entry.name)) {
            return Err("there is no OPTIONS file".to_owned());
        }
        match OpenOptions::load_from(storage, self.directory()) {
            Ok(_) => Ok(()),
            Err(error) => Err(format!("the OPTIONS cannot be read: {error}")),
        }
    }

    /// Checks that each checkpoint that must exist does, and that a random quarter of the existing
    /// checkpoints have exactly their recorded contents.
    fn check_checkpoints(&self, rng: &mut Rng) -> Checked<()> {
        for (directory, expected, must) in &self.claims.checkpoints {
            let is_there = self.image.metadata(directory).is_ok();
            if !is_there && *must {
                return Err(format!("the checkpoint {} is lost", directory.display()));
            }
            if !is_there || rng.u8(..4) > 0 {
                continue;
            }
            let options = self.setup.options_of_checkpoint(&self.image);
            let broken = |error: Error| format!("the checkpoint {}: {error}", directory.display());
            let db = Db::open_read_only(directory, &options).map_err(broken)?;
            let found = contents(&db, None).map_err(broken)?;
            if let Some(difference) = difference(expected, &found) {
                return Err(format!("the checkpoint {}: {difference}", directory.display()));
            }
            verify(directory, &options)?;
        }
        Ok(())
    }

    /// Returns the contents that a read-only opening shows, or `None` if the opening fails with an
    /// error that this image allows.
    fn read_only(&self) -> Checked<Option<State>> {
        match Db::open_read_only(self.directory(), &self.options(self.mode)) {
            Ok(db) => contents(&db, None).map(Some).map_err(|error| format!("read only: {error}")),
            Err(error) if error.is_not_found() && !self.claims.exists => Ok(None),
            Err(error) if self.may_refuse(&error) => Ok(None),
            Err(error) => Err(format!("cannot be opened for reading: {error}")),
        }
    }

    /// Opens the database for writing in `self.mode`. If opening fails with an error that this mode
    /// permits, opens the database in the default mode. Returns the mode in which the database was
    /// opened.
    fn open(&self) -> Checked<(Db, RecoveryMode)> {
        match Db::open(self.directory(), &self.options(self.mode)) {
            Ok(db) => Ok((db, self.mode)),
            Err(error) if self.may_refuse(&error) => {
                let mode = RecoveryMode::PointInTime;
                let opened = Db::open(self.directory(), &self.options(mode));
                opened.map(|db| (db, mode)).map_err(|error| {
                    format!("cannot be opened after another mode refused it: {error}")
                })
            }
            Err(error) => Err(format!("cannot be opened: {error}")),
        }
    }

    /// Whether the definition of `self.mode` permits it to refuse a log with this error.
    fn may_refuse(&self, error: &Error) -> bool {
        let is_log =
            error.path().is_some_and(|path| path.extension().is_some_and(|it| it == "log"));
        let may = match self.mode {
            RecoveryMode::PointInTime | RecoveryMode::SkipAnyCorruptedRecords => false,
            RecoveryMode::TolerateCorruptedTailRecords => self.torn,
            // The end of a recycled log file still holds records of its earlier use, which the
            // strict mode treats as damage.
            RecoveryMode::AbsoluteConsistency => self.torn || self.setup.recycles,
        };
        may && is_log && error.is_corruption()
    }

    /// Checks that the database accepts a synced write. Then closes, drops or crashes the database
    /// and opens it again: it must hold `state` and that write.
    fn write_on(&self, db: Db, mode: RecoveryMode, state: &State, rng: &mut Rng) -> Checked<()> {
        let failed = |doing: &str, error: Error| format!("after recovery {doing} failed: {error}");
        let key = marker(AFTERWARDS);
        let family = db.cf_handle(DEFAULT).map_err(|error| failed("a look", error))?;
        let options = WriteOptions::new().with_sync(true);
        db.put_cf_opt(&family, &key, b"afterwards", &options)
            .map_err(|error| failed("a put", error))?;
        drop(family);
        let seed = rng.u64(..);
        let image = match rng.u8(..4) {
            0 => {
                db.close().map_err(|error| failed("closing", error))?;
                drop(db);
                self.image.clone()
            }
            1 => {
                drop(db);
                self.image.process_crash_image(seed)
            }
            2 => self.image.process_crash_image(seed),
            _ => self.image.crash_image(seed),
        };
        let mut expected = state.clone();
        expected.entry(DEFAULT.to_owned()).or_default().insert(key, b"afterwards".to_vec());
        let again = Wreck { image, setup: self.setup, torn: false, mode, claims: self.claims };
        let (db, _) = again.open().map_err(|error| format!("the second time: {error}"))?;
        let found = contents(&db, None).map_err(|error| failed("reading", error))?;
        if let Some(difference) = difference(&expected, &found) {
            return Err(format!("opened a second time: {difference}"));
        }
        db.close().map_err(|error| failed("closing", error))?;
        drop(db);
        verify(self.directory(), &again.options(mode))
    }
}

/// Checks that `verify` reports no damage in the database.
pub(crate) fn verify(directory: &Path, options: &OpenOptions) -> Checked<()> {
    let report = verify::verify(directory, options);
    match report.findings.iter().find(|finding| finding.severity == Severity::Damage) {
        Some(damage) => Err(format!("verification finds damage: {damage:?}")),
        None => Ok(()),
    }
}
