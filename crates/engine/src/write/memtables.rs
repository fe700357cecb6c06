//! Sealing of memtables.

use crate::column_family::ColumnFamily;
use crate::compaction::update_stalls;
use crate::error::Result;
use crate::write::WritePath;
use crate::write::queue::Leadership;

/// The condition under which a column family's sealed memtables are flushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flush {
    /// The memtables are flushed once the family has `min_write_buffer_number_to_merge` sealed
    /// ones.
    WhenEnough,
    /// The memtables are flushed immediately, even if there are fewer than
    /// `min_write_buffer_number_to_merge`.
    InAnyCase,
}

impl WritePath {
    /// Seals the memtables of the column families that `is_due` selects, or of all families if
    /// flushes are atomic.
    pub(super) fn seal_where(
        &self,
        leadership: &Leadership<'_>,
        is_due: impl Fn(&ColumnFamily) -> bool,
        flush: Flush,
    ) -> Result<()> {
        let families = self.context.shared.family_set();
        let due: Vec<&ColumnFamily> = families.iter().filter(|family| is_due(family)).collect();
        self.seal(leadership, &due, flush)
    }

    /// Seals the non-empty memtables of column families, and requests their flush without waiting
    /// for it. No other thread writes during this call.
    pub(super) fn seal(
        &self,
        leadership: &Leadership<'_>,
        families: &[&ColumnFamily],
        flush: Flush,
    ) -> Result<()> {
        if self.seal_only(leadership, families, flush)? {
            self.flushes.flush_soon();
        }
        Ok(())
    }

    /// Like `seal`, but leaves the flush of the sealed memtables to the caller. Returns whether any
    /// memtable was sealed.
    pub(super) fn seal_only(
        &self,
        leadership: &Leadership<'_>,
        families: &[&ColumnFamily],
        flush: Flush,
    ) -> Result<bool> {
        self.quiesce(leadership)?;
        let all = self.context.shared.family_set();
        let holds_something = |family: &&ColumnFamily| !family.active().is_empty();
        let due: Vec<&ColumnFamily> =
            if self.context.options.fixed().atomic_flush && !families.is_empty() {
                all.iter().filter(holds_something).collect()
            } else {
                families.iter().copied().filter(holds_something).collect()
            };
        if due.is_empty() {
            return Ok(false);
        }
        let next_log = self.switch_log(leadership)?;
        self.sample_write_times_if_due();
        let sealing = self.flushes.sealing();
        for family in &due {
            family.seal(next_log, self.context.published());
            if flush == Flush::InAnyCase {
                // The flush is requested after the memtable is sealed. A flush that is running
                // clears the request when it takes sealed memtables, and could otherwise do so
                // without this memtable.
                family.request_flush(true);
            }
        }
        drop(sealing);
        update_stalls(&self.context, &due);
        Ok(true)
    }
}
