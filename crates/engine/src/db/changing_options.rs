//! Changing options while the database is open.
//!
//! 1. The new options are computed and checked; an invalid one ends the change here.
//! 2. An OPTIONS file with the new options replaces the previous one. If that fails, nothing is
//!    changed. After a crash from here on, the database reopens with the new options.
//! 3. The options take effect in column families and the database, and what is derived from them is
//!    recomputed. This cannot fail.
//!
//! Changes are serialized. Writes and reads continue meanwhile: they find the options with their
//! other data, see [`crate::column_family::FamilySettings`] and [`crate::open_options::DatabaseOptions`]. A running
//! flush or compaction keeps the options that it began with.
//!
//! The options are in three places because they are read in three ways: writes read the database's
//! fixed options without counting a reference (`DatabaseOptions`), readers find a column family's
//! options with its super version (`FamilySettings`), and the writer's `OpenOptions` have all of
//! them with the user's objects, from which column families are created and OPTIONS files written.

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};

use crate::column_family::ColumnFamily;
use crate::db::Writer;
use crate::options::{
    ColumnFamilyOptions, DbOptions, OptionTable, change_column_family, change_database,
    check_column_family,
};
use crate::recovery::{log_options, manifest_limits, warnings};
use crate::table::table_buffers;
use crate::{Error, Result};

impl Writer {
    /// Locks the options and the set of column families against changes.
    pub(crate) fn changing_options(&self) -> MutexGuard<'_, ()> {
        self.changing_options.lock()
    }

    /// Changes options of a column family.
    pub(crate) fn set_family_options(
        &self,
        family: &ColumnFamily,
        changes: &[(&str, &str)],
    ) -> Result<()> {
        let _changing = self.changing_options();
        self.check_open()?;
        let known = self.shared.family_set();
        if known.by_id(family.id()).is_none_or(|known| !known.is_same(family)) {
            let message = format!("there is no column family '{}' here", family.name());
            return Err(Error::invalid_argument(message));
        }
        let before = family.options();
        let after = change_column_family(&before, &self.database.now(), changes)?;
        let mut all = self.all_options();
        for (name, options) in &mut all.column_families {
            if name == family.name() {
                options.clone_from(&after);
            }
        }
        self.write_options_file(&all)?;
        self.log_changes(&format!("of '{}' ", family.name()), &*before, &after);
        self.log_changes("of its tables ", &before.table_factory, &after.table_factory);
        let unmet = || warnings::of_families(&self.options(), [family].into_iter());
        let known = unmet();
        self.change_family(family, after);
        self.warn_of(unmet(), &known);
        Ok(())
    }

    /// Step 3 for a column family.
    fn change_family(&self, family: &ColumnFamily, options: ColumnFamilyOptions) {
        self.options().set_column_family(family.name(), options.clone());
        let readers = {
            let all = self.options();
            Arc::new(self.readers.changed(&family.readers(), &all, family.name()))
        };
        {
            // A compaction is picked with one consistent set of options.
            let _versions = self.versions();
            family.change(options, readers);
        }
        self.has_full_memtable.store(true, Ordering::Relaxed);
        self.update_write_times();
        self.update_logs();
        self.flush_and_compact_what_is_due();
    }

    /// Changes options of the database.
    pub(crate) fn set_database_options(&self, changes: &[(&str, &str)]) -> Result<()> {
        let _changing = self.changing_options();
        self.check_open()?;
        let before = self.database.now();
        let after = change_database(&before, &self.directory, changes)?;
        for family in self.shared.family_set().iter() {
            check_column_family(&family.options(), &after).map_err(|error| {
                let name = family.name();
                Error::invalid_argument(format!("column family '{name}': {error}"))
            })?;
        }
        let rate = after.rate_limiter_bytes_per_sec;
        if rate != before.rate_limiter_bytes_per_sec && self.options().has_own_rate_limiter() {
            let message = "option rate_limiter_bytes_per_sec: the database keeps to a rate limiter \
                           that it was given, which says its rate itself";
            return Err(Error::invalid_argument(message));
        }
        let mut all = self.all_options();
        all.database.clone_from(&after);
        self.write_options_file(&all)?;
        self.log_changes("", &*before, &after);
        self.warn_of(warnings::of_database(&after), &warnings::of_database(&before));
        self.change_database(&before, after);
        Ok(())
    }

    /// Step 3 for the database.
    fn change_database(&self, before: &DbOptions, after: DbOptions) {
        self.options().set_database(after.clone());
        self.database.change(after.clone());
        if after.max_open_files != before.max_open_files {
            self.readers.bound_open_files(after.max_open_files, &self.shared.family_set());
        }
        if after.rate_limiter_bytes_per_sec != before.rate_limiter_bytes_per_sec {
            self.change_rate(after.rate_limiter_bytes_per_sec);
        }
        *self.buffers.lock() = table_buffers(&after, 1);
        self.versions().set_limits(manifest_limits(&after));
        self.background.set_compactions_max(after.compactions_max());
        self.update_logs();
        self.flush_and_compact_what_is_due();
    }

    /// Running work keeps its rate limiter. If there was one and still is, its rate changes at
    /// once.
    fn change_rate(&self, bytes_per_second: u64) {
        match self.rate_limiter.load_arc() {
            Some(limiter) if bytes_per_second > 0 => {
                limiter.set_bytes_per_second(bytes_per_second);
            }
            _ => self.rate_limiter.store(self.options().rate_limiter()),
        }
    }

    /// Applies the options to the logs, including those derived from memtable sizes.
    fn update_logs(&self) {
        let families = self.shared.family_set();
        let options =
            log_options(&self.directory, &self.options(), &self.shared.io_modes, families.iter());
        self.logs().set_options(options);
        self.update_log_bound();
        // A log, or all together, may now exceed their limits.
        self.has_full_logs.store(true, Ordering::Relaxed);
    }

    fn flush_and_compact_what_is_due(&self) {
        self.update_stall_of_all();
        self.background.wake();
        self.compact_soon();
    }

    /// Logs the warnings that were not `known` before.
    fn warn_of(&self, unmet: Vec<String>, known: &[String]) {
        for warning in unmet.iter().filter(|warning| !known.contains(warning)) {
            self.info_log.warn(format_args!("{warning}"));
        }
    }

    fn log_changes<T: OptionTable>(&self, whose: &str, before: &T, after: &T) {
        for (name, before, after) in before.differences(after) {
            self.info_log
                .info(format_args!("option {name} {whose}was {before} and is {after} from now on"));
        }
    }

    fn check_open(&self) -> Result<()> {
        if self.background.is_closing() {
            return Err(Error::closed());
        }
        Ok(())
    }
}
