//! Requested flushes. The caller that requests a flush waits for it.

use crate::column_family::{ColumnFamily, FlushReason, SealedMemTable};
use crate::error::{Error, ErrorKind, Result};
use crate::write::WritePath;
use crate::write::queue::Leadership;

/// A requested flush.
pub(crate) struct Awaited {
    /// The memtables that the flush must write to tables, by column family.
    sealed: Vec<(ColumnFamily, Vec<SealedMemTable>)>,
    /// Number of flush attempts that had begun before the request. The failure of any later attempt
    /// is an outcome of the request.
    attempts: u64,
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
        let attempts = self.context.background.flush_retries().attempts();
        let is_any_sealed = self.seal(leadership, families, FlushReason::Other)?;
        // A family may have memtables that were sealed earlier but were too few for a flush of
        // their own. This requests a flush of these memtables, too.
        for family in families {
            self.flushes.request(family);
        }
        let sealed: Vec<_> =
            families.iter().map(|&family| (family.clone(), family.sealed())).collect();
        // Sealing may also have sealed memtables of other families. They are flushed as well, but
        // the caller does not wait for them.
        if is_any_sealed || sealed.iter().any(|(_, memtables)| !memtables.is_empty()) {
            self.flushes.flush_now();
        }
        Ok(Awaited { sealed, attempts })
    }

    /// Waits until the memtables of the request are in tables.
    pub(crate) fn wait_for_flush(&self, awaited: &Awaited) -> Result<()> {
        if self.context.options.is_inline() {
            let lost = || Error::internal("a flush ended without a result");
            return self.outcome(awaited).unwrap_or_else(|| Err(lost()));
        }
        self.context.background.wait_for(|| self.outcome(awaited))
    }

    /// Returns the outcome of a requested flush; `None` if it is not known yet.
    fn outcome(&self, awaited: &Awaited) -> Option<Result<()>> {
        let is_awaited = |(family, memtables): &&(ColumnFamily, Vec<SealedMemTable>)| {
            !family.is_dropped() && family.has_any_sealed(memtables)
        };
        let mut pending = awaited.sealed.iter().filter(is_awaited).peekable();
        if pending.peek().is_none() {
            // The tables of the flush may have reached the limit of space. As in RocksDB, the
            // caller then gets the error although the flush was installed.
            let failure = self.context.errors.failure();
            let full = failure.filter(|error| error.kind() == ErrorKind::SpaceLimit);
            return Some(full.map_or(Ok(()), Err));
        }
        let retries = self.context.background.flush_retries();
        let shortage =
            || pending.find_map(|(family, _)| retries.error_since(family.id(), awaited.attempts));
        self.context.errors.failure().or_else(shortage).map(Err)
    }
}
