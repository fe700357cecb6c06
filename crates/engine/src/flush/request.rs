//! Flushes that somebody asks and waits for.

use crate::db::{ColumnFamily, Flush, SealedMemTable, Writer};
use crate::write::queue::Leadership;
use crate::{Error, Result};

impl Writer {
    /// Flushes the memtables of column families, and waits until everything is in tables that was
    /// written to them before.
    pub(crate) fn flush(&self, families: &[&ColumnFamily]) -> Result<()> {
        let leadership = self.queue.lead()?;
        self.errors.check()?;
        let sealed = self.seal_for_flush(&leadership, families)?;
        drop(leadership);
        self.wait_for_flush(&sealed)
    }

    /// Seals what column families hold and has it flushed. Answers what is to be waited for.
    pub(crate) fn seal_for_flush(
        &self,
        leadership: &Leadership<'_>,
        families: &[&ColumnFamily],
    ) -> Result<Vec<(ColumnFamily, Vec<SealedMemTable>)>> {
        self.seal(leadership, families, Flush::InAnyCase)?;
        // Some may have been sealed before, and not have been enough for a table.
        families.iter().for_each(|family| family.request_flush(!family.sealed().is_empty()));
        let sealed: Vec<_> =
            families.iter().map(|&family| (family.clone(), family.sealed())).collect();
        if sealed.iter().any(|(_, memtables)| !memtables.is_empty()) {
            self.flush_soon();
        }
        Ok(sealed)
    }

    /// Waits until memtables are in tables.
    pub(crate) fn wait_for_flush(
        &self,
        sealed: &[(ColumnFamily, Vec<SealedMemTable>)],
    ) -> Result<()> {
        let outcome = || {
            let is_done = sealed.iter().all(|(family, memtables)| {
                family.is_dropped() || !family.has_any_sealed(memtables)
            });
            let failure = || self.errors.latched().map(|(_, error)| Err(error));
            if is_done { Some(Ok(())) } else { failure() }
        };
        if self.options().inline_background() {
            let undone = || Error::invalid_argument("a flush was asked for and not carried out");
            return outcome().unwrap_or_else(|| Err(undone()));
        }
        self.background.wait_for(outcome)
    }

    /// Hands what the log holds in memory to the system, and with `sync` puts all logs on the
    /// device.
    pub(crate) fn flush_wal(&self, sync: bool) -> Result<()> {
        self.errors.check()?;
        let mut logs = self.logs();
        let flushed = if sync { self.sync_logs(&mut logs) } else { logs.write_out() };
        drop(logs);
        flushed.inspect_err(|error| self.latch_log(error))
    }
}
