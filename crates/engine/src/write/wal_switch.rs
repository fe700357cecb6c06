//! Switching of logs, and the limits on their lengths.

use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

use crate::column_family::{ColumnFamily, FamilySet, FlushReason};
use crate::error::Result;
use crate::wal::{KeptLogs, LogSet};
use crate::write::queue::Leadership;
use crate::write::{WritePath, wal_options};

impl WritePath {
    /// Locks the logs.
    pub(crate) fn logs(&self) -> MutexGuard<'_, LogSet> {
        self.logs.lock()
    }

    /// If all logs together exceed their size limit, flushes the memtables that have entries in the
    /// oldest log. Otherwise begins a new log if the current log is due to be switched
    /// ([`LogSet::is_due`]).
    pub(super) fn bound_logs(&self, leadership: &Leadership<'_>) -> Result<()> {
        let (is_due, are_padded, total, oldest) = {
            let logs = self.logs.lock();
            (logs.is_due(), logs.are_padded(), logs.total_bytes(), logs.oldest_number())
        };
        let families = self.context.shared.family_set();
        let bound = self.log_bound.load(Ordering::Relaxed);
        // A database with a single family needs no limit on the total length of its logs: each log
        // is released when its memtable is flushed. But padded logs need the limit, because a
        // padded log may be many times as long as its contents.
        if (are_padded || families.iter().nth(1).is_some())
            && total > bound
            && self.flushed_for_log.load(Ordering::Relaxed) < oldest
        {
            let holds_oldest = |family: &ColumnFamily| {
                let active = family.active();
                !active.is_empty() && active.earliest_log_number() <= oldest
            };
            let due: Vec<&ColumnFamily> = families.iter().filter(|it| holds_oldest(it)).collect();
            let is_any_sealed = self.seal(leadership, &due, FlushReason::Other)?;
            if request_flushes_of_log(&families, oldest) || is_any_sealed {
                self.flushes.flush_soon();
            }
            self.flushed_for_log.store(oldest, Ordering::Relaxed);
            return Ok(());
        }
        if is_due { self.switch_log(leadership).map(drop) } else { Ok(()) }
    }

    /// Recomputes the maximum total length of the logs after the column families have changed.
    pub(crate) fn update_log_bound(&self) {
        let bound = self.total_log_bound(&self.context.shared.family_set());
        self.log_bound.store(bound, Ordering::Relaxed);
    }

    fn total_log_bound(&self, families: &FamilySet) -> u64 {
        if self.context.options.now().max_total_wal_size > 0 {
            return self.context.options.now().max_total_wal_size;
        }
        let buffers = families.iter().map(|family| {
            let options = family.options();
            let count = options.max_write_buffer_number.max(1).cast_unsigned();
            options.write_buffer_size.saturating_mul(count.into())
        });
        buffers.fold(0, u64::saturating_add).saturating_mul(4)
    }

    /// Begins a new log, unless the current log is empty. Returns the number of the log that is
    /// then current.
    pub(super) fn switch_log(&self, leadership: &Leadership<'_>) -> Result<u64> {
        self.quiesce(leadership)?;
        let mut logs = self.logs.lock();
        if !logs.current_is_empty() {
            let switched = logs.switch(&self.context.numbers);
            if let Err(error) = switched {
                let is_as_before = error.is_out_of_descriptors() && !logs.has_failed();
                drop(logs);
                if !is_as_before {
                    self.context.latch_log(&error);
                }
                return Err(error);
            }
        }
        let number = logs.current_number();
        drop(logs);
        let sequence = self.context.published();
        for family in self.context.shared.family_set().iter() {
            let active = family.active();
            if active.is_empty() {
                active.begin_at(number, sequence);
            }
        }
        Ok(number)
    }

    /// Applies the current options to the logs, including the limits that are derived from memtable
    /// sizes.
    pub(crate) fn update_logs(&self) {
        let families = self.context.shared.family_set();
        let options = wal_options(
            &self.context.directory,
            &self.context.options.open(),
            &self.context.shared.io_modes,
            families.iter(),
        );
        self.logs.lock().set_options(options);
        self.update_log_bound();
        // The current log, or all logs together, may exceed the new limits. So the next leader
        // checks the limits.
        self.has_full_logs.store(true, Ordering::Relaxed);
    }

    /// Writes the buffered part of the log to its file, and with `sync` syncs all logs.
    pub(crate) fn flush_wal(&self, sync: bool) -> Result<()> {
        self.context.errors.check()?;
        let mut logs = self.logs.lock();
        let flushed = if sync { self.sync_logs(&mut logs) } else { logs.write_out() };
        drop(logs);
        flushed.inspect_err(|error| self.context.latch_log(error))
    }

    /// Keeps the logs that have all data that is not in tables, so that they can be copied. Returns
    /// `None` if there are no such logs, or if they have `too_many` bytes or more together.
    pub(crate) fn keep_logs(
        &self,
        _leadership: &Leadership<'_>,
        too_many: u64,
    ) -> Result<Option<KeptLogs>> {
        let mut logs = self.logs.lock();
        if self.has_unlogged() || logs.total_bytes() >= too_many {
            return Ok(None);
        }
        let written = logs.write_out();
        written.inspect_err(|error| self.context.latch_log(error))?;
        logs.keep_live()
    }
}

/// Requests flushes of the column families with sealed memtables that have entries in log `number`
/// or in an earlier log. Such memtables may be fewer than `min_write_buffer_number_to_merge`, and
/// would otherwise stay. Returns whether there are any.
fn request_flushes_of_log(families: &FamilySet, number: u64) -> bool {
    let mut is_any_due = false;
    for family in families.iter() {
        let sealed = family.sealed();
        if sealed.iter().any(|sealed| sealed.memtable.earliest_log_number() <= number) {
            family.request_flush(true);
            is_any_due = true;
        }
    }
    is_any_due
}
