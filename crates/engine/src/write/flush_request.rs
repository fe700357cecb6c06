//! Requested flushes. The caller that requests a flush waits for it.

use crate::column_family::{ColumnFamily, SealedMemTable};
use crate::error::{Error, Result};
use crate::write::WritePath;
use crate::write::memtables::Flush;
use crate::write::queue::Leadership;

/// A requested flush.
pub(crate) struct Awaited {
    /// The memtables that the flush must write to tables, by column family.
    sealed: Vec<(ColumnFamily, Vec<SealedMemTable>)>,
    /// Number of flush rounds that had ended before the request. Any round that ends after them may
    /// complete the request.
    rounds: u64,
}

impl WritePath {
    /// Flushes the memtables of column families, and waits until all earlier writes are in tables.
    pub(crate) fn flush(&self, families: &[&ColumnFamily]) -> Result<()> {
        let leadership = self.queue.lead()?;
        self.context.errors.check()?;
        let awaited = self.seal_for_flush(&leadership, families)?;
        drop(leadership);
        self.wait_for_flush(&awaited)
    }

    /// Seals the memtables of column families and requests a flush. Returns the request, for
    /// [`Self::wait_for_flush`].
    pub(crate) fn seal_for_flush(
        &self,
        leadership: &Leadership<'_>,
        families: &[&ColumnFamily],
    ) -> Result<Awaited> {
        let rounds = self.context.background.rounds();
        let is_any_sealed = self.seal_only(leadership, families, Flush::InAnyCase)?;
        // A family may have memtables that were sealed earlier but were too few for a flush of
        // their own. This requests a flush of these memtables, too.
        families.iter().for_each(|family| family.request_flush(!family.sealed().is_empty()));
        let sealed: Vec<_> =
            families.iter().map(|&family| (family.clone(), family.sealed())).collect();
        // Sealing may also have sealed memtables of other families. They are flushed as well, but
        // the caller does not wait for them.
        if is_any_sealed || sealed.iter().any(|(_, memtables)| !memtables.is_empty()) {
            self.flushes.flush_now();
        }
        Ok(Awaited { sealed, rounds })
    }

    /// Waits until the memtables of the request are in tables.
    pub(crate) fn wait_for_flush(&self, awaited: &Awaited) -> Result<()> {
        let outcome = || {
            let is_done = awaited.sealed.iter().all(|(family, memtables)| {
                family.is_dropped() || !family.has_any_sealed(memtables)
            });
            let failure = || self.context.errors.latched().map(|(_, error)| Err(error));
            if is_done { Some(Ok(())) } else { failure() }
        };
        if self.context.options.is_inline() {
            let undone = || self.context.background.last_failure().unwrap_or_else(Error::closed);
            return outcome().unwrap_or_else(|| Err(undone()));
        }
        self.context.background.wait_for(awaited.rounds, outcome)
    }
}
