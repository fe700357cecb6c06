//! Changes options while the database is open.
//!
//! 1. The new options are computed and checked. If an option is invalid, the change ends here.
//! 2. An OPTIONS file with the new options replaces the previous file; before that, the file
//!    `TAILWATER-OPTIONS`, if its options change. If either fails, nothing is changed, and the
//!    latter file is written back. After a crash from here on, the database reopens with the new
//!    options.
//! 3. The options take effect in column families and the database, and everything that is derived
//!    from these options is recomputed. This step cannot fail.
//!
//! Changes are serialized. Writes and reads continue during a change, and read the options from the
//! same structures as their other data, see [`crate::column_family::FamilySettings`] and
//! [`crate::open_options::CurrentOptions`]. A running flush or compaction keeps the options with
//! which it began.

use std::slice;
use std::sync::{Arc, MutexGuard};

use crate::column_family::ColumnFamily;
use crate::compaction::update_all_stalls;
use crate::db::{Access, Database, Db};
use crate::error::{Error, Result};
use crate::open_options::{OpenOptions, OptionWithoutEffect, database_options_without_effect};
use crate::options::{
    ColumnFamilyOptions, DbOptions, OptionTable, SetOptions, change_column_family, change_database,
    check_column_family,
};
use crate::recovery::warnings;
use crate::version::ManifestLimits;

impl Db {
    /// Changes options of a column family, each given as a name and a value, while the database is
    /// open: all of them or none. A part of an option is named with a dot, or set in braces:
    /// `("compression_opts", "{level=3}")`.
    ///
    /// The resulting options are sanitized and checked as by [`Db::open`]. When this returns, they
    /// are in a new OPTIONS file on the device, and have taken effect for memtables, stall
    /// conditions, compactions that are picked from now on, and new tables. A running flush or
    /// compaction keeps the options with which it began, and an open table keeps its read options.
    /// `docs/options.md` lists the options that can be changed.
    ///
    /// # Errors
    /// Invalid argument, which names the option, if the option does not exist, belongs to the
    /// database or cannot be changed while the database is open, or if the value is refused; errors
    /// from writing the OPTIONS file. On an error nothing is changed.
    pub fn set_options_cf(&self, family: &ColumnFamily, changes: &[(&str, &str)]) -> Result<()> {
        self.check_writable(family)?;
        self.database()?.set_family_options(family, changes)
    }

    /// Changes options of the database, each given as a name and a value, while the database is
    /// open: all of them or none.
    ///
    /// Takes effect like the changes of [`Db::set_options_cf`].
    ///
    /// # Errors
    /// Invalid argument, which names the option, if the option does not exist, belongs to column
    /// families or cannot be changed while the database is open, or if the value is refused; errors
    /// from writing the OPTIONS file. On an error nothing is changed.
    pub fn set_database_options(&self, changes: &[(&str, &str)]) -> Result<()> {
        self.write_side()?.set_database_options(changes)
    }

    /// Returns the current options of the database, as they were sanitized when it was opened.
    pub fn database_options(&self) -> Arc<DbOptions> {
        match &self.inner.access {
            Access::Writing(writing) => writing.database.context.options.now(),
            Access::Reading(options) => Arc::clone(options),
        }
    }
}

impl Database {
    /// Takes the lock that is held while options or the set of column families change.
    pub(super) fn changing_options(&self) -> MutexGuard<'_, ()> {
        self.changing_options.lock()
    }

    /// Changes options of a column family.
    pub(super) fn set_family_options(
        &self,
        family: &ColumnFamily,
        changes: &[(&str, &str)],
    ) -> Result<()> {
        let _changing = self.changing_options();
        self.check_open()?;
        let known = self.context.shared.family_set();
        if known.by_id(family.id()).is_none_or(|known| !known.is_same(family)) {
            let message = format!("there is no column family '{}' here", family.name());
            return Err(Error::invalid_argument(message));
        }
        let before = family.options();
        let set = self.context.options.open().as_set().column_family(family.name()).clone();
        let after = change_column_family(&set, &self.context.options.now(), changes)?;
        self.context.options.open().check_objects(family.name(), &after.effective)?;
        let mut all = self.all_options();
        for (name, options) in &mut all.column_families {
            if name == family.name() {
                *options = after.recorded();
            }
        }
        self.write_options_file(&all)?;
        self.log_changes(&format!("of '{}' ", family.name()), &*before, &after.effective);
        let (table, table_after) = (&before.table_factory, &after.effective.table_factory);
        self.log_changes("of its tables ", table, table_after);
        let unmet = || unmet_settings(&self.context.options.open(), slice::from_ref(family));
        let known = unmet();
        self.change_family(family, after);
        self.warn_of(unmet(), &known);
        Ok(())
    }

    /// Makes the new options of a column family take effect. This is step 3 in the module's
    /// description.
    fn change_family(&self, family: &ColumnFamily, changed: SetOptions<ColumnFamilyOptions>) {
        self.context.options.open().change_column_family(family.name(), &changed);
        let readers = {
            let all = self.context.options.open();
            Arc::new(self.context.readers.changed(&family.readers(), &all, family.name()))
        };
        {
            // No compaction is picked while this lock is held. So each compaction is picked with
            // either all old or all new options.
            let _versions = self.versions.lock();
            family.change(changed.effective, readers);
        }
        self.writes.recheck_memtables();
        self.writes.update_write_times();
        self.writes.update_logs();
        self.flush_and_compact_what_is_due();
    }

    /// Changes options of the database.
    pub(super) fn set_database_options(&self, changes: &[(&str, &str)]) -> Result<()> {
        let _changing = self.changing_options();
        self.check_open()?;
        let before = self.context.options.now();
        let set = self.context.options.open().as_set().database().clone();
        let changed = change_database(&set, &self.context.directory, changes)?;
        let after = &changed.effective;
        for family in self.context.shared.family_set().iter() {
            check_column_family(&family.options(), after).map_err(|error| {
                let name = family.name();
                Error::invalid_argument(format!("column family '{name}': {error}"))
            })?;
        }
        let rate = after.rate_limiter_bytes_per_sec;
        if rate != before.rate_limiter_bytes_per_sec
            && self.context.options.open().has_own_rate_limiter()
        {
            let message = "option rate_limiter_bytes_per_sec: the database uses a rate limiter \
                           that it was given; set the rate there";
            return Err(Error::invalid_argument(message));
        }
        let recorded = self.all_options().database.tailwater;
        let mut all = self.all_options();
        all.database = changed.recorded();
        let own = &all.database.tailwater;
        if recorded != *own {
            // A crash after this is safe: these options have no effect on what is stored.
            self.options_files.write_own(own)
        } else {
            Ok(())
        }
        .and_then(|()| self.write_options_file(&all))
        .inspect_err(|_| {
            // If this fails, too, the next opening that loads the options finds the refused ones.
            let _ = self.options_files.write_own(&recorded);
        })?;
        self.log_changes("", &*before, after);
        self.log_changes("", &before.tailwater, &after.tailwater);
        let without_effect =
            |options: &DbOptions| sentences(&database_options_without_effect(options));
        self.warn_of(without_effect(after), &without_effect(&before));
        self.change_database(&before, &changed);
        Ok(())
    }

    /// Makes the new options of the database take effect. This is step 3 in the module's
    /// description.
    fn change_database(&self, before: &DbOptions, changed: &SetOptions<DbOptions>) {
        self.context.options.change_database(changed);
        let after = &changed.effective;
        if after.max_open_files != before.max_open_files {
            let families = self.context.shared.family_set();
            self.context.open_files.set_max(after.max_open_files, &families);
        }
        self.flushes.change_buffers(after);
        self.versions.lock().set_limits(ManifestLimits::of(after));
        let own = &after.tailwater;
        self.context.shared.slow_reads.change(own.slow_read_threshold_us, own.slow_read_keys);
        let (flushes, compactions) = (after.flushing_threads_max(), after.compactions_max());
        self.context.background.set_limits(flushes, compactions);
        self.writes.update_logs();
        self.flush_and_compact_what_is_due();
    }

    fn flush_and_compact_what_is_due(&self) {
        update_all_stalls(&self.context);
        self.context.background.wake();
        self.compactions.compact_soon();
    }

    /// Logs the warnings in `unmet`, except those in `known`, which were logged before this change
    /// of options.
    fn warn_of(&self, unmet: Vec<String>, known: &[String]) {
        for warning in unmet.iter().filter(|warning| !known.contains(warning)) {
            self.context.info_log.warn(format_args!("{warning}"));
        }
    }

    fn log_changes<T: OptionTable>(&self, whose: &str, before: &T, after: &T) {
        for (name, before, after) in before.differences(after) {
            self.context
                .info_log
                .info(format_args!("option {name} {whose}was {before} and is {after} from now on"));
        }
    }

    fn check_open(&self) -> Result<()> {
        if self.context.background.is_closing() {
            return Err(Error::closed());
        }
        Ok(())
    }
}

/// Returns warnings about settings of column families that are not put into effect, including
/// options without effect.
pub(super) fn unmet_settings(options: &OpenOptions, families: &[ColumnFamily]) -> Vec<String> {
    let mut unmet = warnings::of_families(options, families.iter());
    let names = families.iter().map(ColumnFamily::name);
    unmet.extend(sentences(&options.of_families_without_effect(names)));
    unmet
}

fn sentences(options: &[OptionWithoutEffect]) -> Vec<String> {
    options.iter().map(OptionWithoutEffect::to_string).collect()
}
