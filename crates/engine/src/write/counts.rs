//! Statistics of writes.

use tailwater_format::batch::{HEADER_LENGTH, WriteBatch};

use crate::error::Result;
use crate::stats::{Histogram, Ticker};
use crate::wal::LogSet;
use crate::write::WritePath;
use crate::write::queue::{Durability, Group};

impl WritePath {
    /// Counts a written group of `operations` operations.
    pub(super) fn count_group(
        &self,
        batch: &WriteBatch,
        group: &Group,
        operations: u64,
        durability: Durability,
    ) {
        // The members' headers are subtracted, because RocksDB logs a group as one batch with one
        // header.
        let sizes = group.iter().map(|member| member.batch().size_in_bytes() - HEADER_LENGTH);
        let bytes = (batch.size_in_bytes() + sizes.sum::<usize>()) as u64;
        let others = group.iter().count() as u64;
        let logged = if durability == Durability::Unlogged { 0 } else { others + 1 };
        let logged_bytes = if logged > 0 { bytes } else { 0 };
        let activity = &self.context.shared.activity;
        activity.keys_written.add(operations);
        activity.bytes_written.add(bytes);
        activity.writes_by_self.add(1);
        if others > 0 {
            activity.writes_by_other.add(others);
        }
        if logged > 0 {
            activity.writes_with_wal.add(logged);
            activity.wal_bytes.add(logged_bytes);
        }
        if let Some(statistics) = &self.context.shared.statistics {
            let recorder = statistics.recorder();
            recorder.add(Ticker::KeysWritten, operations);
            recorder.add(Ticker::BytesWritten, bytes);
            recorder.add(Ticker::WriteBySelf, 1);
            recorder.add(Ticker::WriteByOther, others);
            recorder.add(Ticker::WriteWithWal, logged);
            recorder.add(Ticker::WalBytes, logged_bytes);
            recorder.record(Histogram::BytesPerWrite, bytes);
        }
    }

    /// Syncs the logs.
    pub(crate) fn sync_logs(&self, logs: &mut LogSet) -> Result<()> {
        self.count_sync(|| logs.sync())
    }

    /// Runs `sync`, which syncs logs, and counts the sync.
    pub(super) fn count_sync(&self, sync: impl FnOnce() -> Result<()>) -> Result<()> {
        let statistics = self.context.shared.statistics.as_deref();
        let started = statistics.map(|statistics| (statistics, statistics.start()));
        sync()?;
        self.context.shared.activity.wal_syncs.add(1);
        if let Some((statistics, started)) = started {
            statistics.record_since(Histogram::WalFileSync, started);
            statistics.add(Ticker::WalSynced, 1);
        }
        Ok(())
    }

    /// Runs `wait`, which waits for a stall to end, and adds the time to the statistics.
    #[cold]
    pub(crate) fn count_stall(&self, wait: impl FnOnce() -> Result<()>) -> Result<()> {
        let before_ns = self.context.clock.monotonic_ns();
        let waited = wait();
        let micros = self.context.clock.monotonic_ns().saturating_sub(before_ns) / 1000;
        self.context.shared.activity.stall_micros.add(micros);
        if let Some(statistics) = &self.context.shared.statistics {
            statistics.add(Ticker::StallMicros, micros);
            statistics.record(Histogram::WriteStall, micros);
        }
        waited
    }
}
