//! Sealing of memtables.

use crate::column_family::{ColumnFamily, FlushReason};
use crate::compaction::update_stalls;
use crate::error::Result;
use crate::write::WritePath;
use crate::write::queue::Leadership;

impl WritePath {
    /// Seals the full memtables, or those of all families if any is full and flushes are atomic.
    /// Requests their flush without waiting for it. No other thread writes during this call.
    pub(super) fn seal_full(&self, leadership: &Leadership<'_>) -> Result<()> {
        let families = self.context.shared.family_set();
        let mut due: Vec<(&ColumnFamily, FlushReason)> =
            families.iter().filter_map(|family| Some((family, family.full_reason()?))).collect();
        if self.context.options.fixed().atomic_flush && !due.is_empty() {
            let range_deletions = FlushReason::RangeDeletions;
            let reason = match due.iter().any(|(_, reason)| *reason == range_deletions) {
                true => range_deletions,
                false => FlushReason::WriteBufferFull,
            };
            due = families.iter().map(|family| (family, reason)).collect();
        }
        if self.seal_each(leadership, due)? {
            self.flushes.flush_soon();
        }
        Ok(())
    }

    /// Seals the non-empty memtables of column families, or of all families if flushes are atomic
    /// and `families` is not empty. Leaves the flush of the sealed memtables to the caller. Returns
    /// whether any memtable was sealed. No other thread writes during this call.
    pub(super) fn seal(
        &self,
        leadership: &Leadership<'_>,
        families: &[&ColumnFamily],
        reason: FlushReason,
    ) -> Result<bool> {
        if self.context.options.fixed().atomic_flush && !families.is_empty() {
            let all = self.context.shared.family_set();
            self.seal_each(leadership, all.iter().map(|family| (family, reason)).collect())
        } else {
            let each = families.iter().map(|family| (*family, reason));
            self.seal_each(leadership, each.collect())
        }
    }

    fn seal_each(
        &self,
        leadership: &Leadership<'_>,
        mut due: Vec<(&ColumnFamily, FlushReason)>,
    ) -> Result<bool> {
        self.quiesce(leadership)?;
        due.retain(|(family, _)| !family.active().is_empty());
        let Some(&(_, first_reason)) = due.first() else {
            return Ok(false);
        };
        if self.context.options.fixed().atomic_flush
            && let Some(statistics) = self.context.shared.statistics.as_deref()
        {
            statistics.add(first_reason.atomic_request_ticker(), 1);
        }
        let next_log = self.switch_log(leadership)?;
        self.sample_write_times_if_due();
        let sealing = self.flushes.sealing();
        for (family, reason) in &due {
            family.seal(next_log, self.context.published(), *reason);
            if reason.is_urgent() {
                // The flush is requested after the memtable is sealed. A flush that is running
                // clears the request when it takes sealed memtables, and could otherwise do so
                // without this memtable.
                family.request_flush(true);
            }
        }
        drop(sealing);
        let sealed: Vec<&ColumnFamily> = due.into_iter().map(|(family, _)| family).collect();
        update_stalls(&self.context, &sealed);
        Ok(true)
    }
}
