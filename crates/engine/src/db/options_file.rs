//! Writes the OPTIONS file of an open database.
//!
//! A change of options writes the file before the change takes effect. After column families were
//! created or dropped, the file is outdated, and the cleaning job writes it. Until then, the
//! MANIFEST records the options of the new column families (see `creating_families.rs`), and the
//! file may name column families that were dropped, whose options are ignored when they are loaded.
//! The file is up to date when the database has been closed.
//!
//! After writing an outdated file, the thread waits several times as long as that took before it
//! writes the next one, so that the creation of many column families, one by one, is not slowed
//! down by files that are outdated immediately.

use std::sync::MutexGuard;
use std::time::Duration;

use crate::column_family::ColumnFamily;
use crate::db::Database;
use crate::error::Result;
use crate::options::{ColumnFamilyOptions, Options, SetOptions};

/// Length of the pause after an outdated file was written, as a multiple of the time that this
/// took.
const REST: u32 = 4;
/// Maximum length of the pause after an outdated file was written.
const LONGEST_REST: Duration = Duration::from_secs(1);

impl Database {
    /// Returns the options of the database and its column families, as the OPTIONS file records
    /// them.
    pub(super) fn all_options(&self) -> Options {
        let families = self.context.shared.family_set();
        let open = self.context.options.open();
        let as_set = open.as_set();
        let recorded = |family: &ColumnFamily| {
            let (name, effective) = (family.name(), ColumnFamilyOptions::clone(&family.options()));
            let set = as_set.column_family(name).clone();
            (name.to_owned(), SetOptions { set, effective }.recorded())
        };
        let (set, effective) = (as_set.database().clone(), open.database().clone());
        Options {
            database: SetOptions { set, effective }.recorded(),
            column_families: families.iter().map(recorded).collect(),
        }
    }

    /// Writes an OPTIONS file with these options, which include those of all column families. The
    /// lock on changes of options must be held.
    pub(super) fn write_options_file(&self, options: &Options) -> Result<()> {
        self.write_numbered_options_file(self.options_files.take_number()?, options)?;
        self.options_files.set_outdated(false);
        Ok(())
    }

    fn write_numbered_options_file(&self, number: u64, options: &Options) -> Result<()> {
        self.options_files.write(number, options)?;
        self.versions.lock().options_written(number);
        Ok(())
    }

    /// Has the OPTIONS file written if it is outdated: by the cleaning job, or by this thread if
    /// there is none. The lock on changes of options must not be held.
    pub(super) fn update_options_file_soon(&self) {
        if self.context.options.is_inline() {
            self.update_options_file();
        } else {
            self.context.background.clean_soon();
        }
    }

    /// Writes an OPTIONS file if the current one is outdated and options are not being changed. A
    /// failure is only logged. Returns whether a file was written.
    fn update_options_file(&self) -> bool {
        if !self.options_files.is_outdated() {
            return false;
        }
        // This must not wait: a thread that changes options may itself wait until the cleaning
        // thread resumes writes.
        let Some(changing) = self.changing_options.try_lock() else { return false };
        let written = self.write_current_options(changing);
        if let Err(error) = &written
            && self.options_files.is_first_failure()
        {
            self.context.info_log.warn(format_args!("the OPTIONS file was not written: {error}"));
        }
        written.is_ok()
    }

    /// Like [`Database::update_options_file`], with a pause after a file was written. For the
    /// cleaning job.
    pub(super) fn update_options_file_at_rest(&self) {
        let start_ns = self.context.clock.monotonic_ns();
        if self.update_options_file() {
            let took = Duration::from_nanos(self.context.clock.since_ns(start_ns));
            self.context.background.sleep((took * REST).min(LONGEST_REST));
        }
    }

    /// Writes an OPTIONS file if the current one is outdated, when the database is being closed.
    pub(super) fn write_last_options_file(&self) -> Result<()> {
        let changing = self.changing_options();
        if self.options_files.is_outdated() { self.write_current_options(changing) } else { Ok(()) }
    }

    /// Writes an OPTIONS file with the current options. `changing` is the lock on changes of
    /// options.
    fn write_current_options(&self, changing: MutexGuard<'_, ()>) -> Result<()> {
        let number = self.options_files.take_number()?;
        let options = self.all_options();
        self.options_files.set_outdated(false);
        drop(changing);
        let written = self.write_numbered_options_file(number, &options);
        written.inspect_err(|_| self.options_files.set_outdated(true))
    }
}
