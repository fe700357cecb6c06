//! Flushes that somebody asks and waits for.

use crate::column_family::{ColumnFamily, SealedMemTable};
use crate::error::{Error, Result};
use crate::write::WritePath;
use crate::write::memtables::Flush;
use crate::write::queue::Leadership;

/// A flush that was asked for.
pub(crate) struct Awaited {
    /// What is to be in tables.
    sealed: Vec<(ColumnFamily, Vec<SealedMemTable>)>,
    /// How many rounds had ended before it was asked for: each one since may be the answer.
    rounds: u64,
}

impl WritePath {
    /// Flushes the memtables of column families, and waits until everything is in tables that was
    /// written to them before.
    pub(crate) fn flush(&self, families: &[&ColumnFamily]) -> Result<()> {
        let leadership = self.queue.lead()?;
        self.context.errors.check()?;
        let awaited = self.seal_for_flush(&leadership, families)?;
        drop(leadership);
        self.wait_for_flush(&awaited)
    }

    /// Seals what column families hold and has it flushed. Answers what is to be waited for.
    pub(crate) fn seal_for_flush(
        &self,
        leadership: &Leadership<'_>,
        families: &[&ColumnFamily],
    ) -> Result<Awaited> {
        let rounds = self.context.background.rounds();
        let is_any_sealed = self.seal_only(leadership, families, Flush::InAnyCase)?;
        // Some may have been sealed before, and not have been enough for a table.
        families.iter().for_each(|family| family.request_flush(!family.sealed().is_empty()));
        let sealed: Vec<_> =
            families.iter().map(|&family| (family.clone(), family.sealed())).collect();
        // Those of others may be sealed with them, which nobody waits for here.
        if is_any_sealed || sealed.iter().any(|(_, memtables)| !memtables.is_empty()) {
            self.flushes.flush_now();
        }
        Ok(Awaited { sealed, rounds })
    }

    /// Waits until memtables are in tables.
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
