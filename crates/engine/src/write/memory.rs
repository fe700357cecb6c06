//! The limit of the memory of memtables: flushes as it comes near, and stalls while it is reached.
//!
//! The rules are those of RocksDB (`DBImpl::HandleWriteBufferManagerFlush` and
//! `DBImpl::WriteBufferManagerStallWrites` in `db/db_impl/db_impl_write.cc`), with one addition. In
//! RocksDB, a stall can last forever: a stalled writer flushes nothing, and neither does a database
//! that nobody writes to. Here, as long as a stall lasts, the stalled leader and the cleaning
//! thread of every other database flush what could end the stall.

use std::time::{Duration, Instant};

use super::path::PATIENCE;
use crate::column_family::ColumnFamily;
use crate::error::{Error, ErrorKind, Result};
use crate::write::memtables::Flush;
use crate::write::queue::Leadership;
use crate::write::{WriteOptions, WritePath};
use crate::write_buffer_manager::WriteBufferManager;

/// Maximum time that a stalled write sleeps before it checks the limit again.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

impl WritePath {
    fn write_buffer_manager(&self) -> Option<&WriteBufferManager> {
        self.context.readers.write_buffer_manager.as_deref()
    }

    /// Returns the write buffer manager, if a limit of it may be reached.
    #[inline]
    pub(super) fn manager_near_limit(&self) -> Option<&WriteBufferManager> {
        self.write_buffer_manager().filter(|manager| manager.is_near_limit())
    }

    /// Flushes a memtable if the memory comes near the limit: the oldest one, or all of them if
    /// flushes are atomic.
    pub(super) fn flush_for_memory(
        &self,
        leadership: &Leadership<'_>,
        manager: &WriteBufferManager,
    ) -> Result<()> {
        if !manager.should_flush() {
            manager.recheck_limits();
            return Ok(());
        }
        let families = self.context.shared.family_set();
        let due: Vec<&ColumnFamily> = if self.context.options.fixed().atomic_flush {
            families.iter().collect()
        } else {
            // A flush that is requested or in progress frees memory of its family already.
            let may_flush = |family: &&ColumnFamily| {
                !family.active().is_empty() && !self.flushes.is_pending_or_running(family)
            };
            let oldest = families.iter().filter(may_flush);
            oldest.min_by_key(|family| family.active().creation_sequence()).into_iter().collect()
        };
        if !due.is_empty() && self.seal_only(leadership, &due, Flush::InAnyCase)? {
            self.context.info_log.info(format_args!(
                "a flush begins because memtables use {} of {} bytes",
                manager.memory_usage(),
                manager.buffer_size(),
            ));
            self.flushes.flush_soon();
        }
        Ok(())
    }

    /// Waits while the memory has reached the limit, if the manager stalls writes.
    ///
    /// # Errors
    /// Busy, if the caller would have to wait and `no_slowdown` is set, or if nothing can end the
    /// stall; the error of a flush that fails; closed.
    pub(super) fn wait_for_memory(
        &self,
        leadership: &Leadership<'_>,
        manager: &WriteBufferManager,
        options: &WriteOptions,
    ) -> Result<()> {
        if !manager.should_stall() {
            return Ok(());
        }
        self.context.shared.activity.write_buffer_manager_stops.add(1);
        let message = format!(
            "writes are stalled: memtables use {} bytes, and the limit of the write buffer manager \
             is {}",
            manager.memory_usage(),
            manager.buffer_size()
        );
        let refusal = Error::new(ErrorKind::Busy, message);
        if options.no_slowdown {
            return Err(refusal);
        }
        let _refusing = leadership.refuse_impatient(refusal.clone());
        let began = Instant::now();
        let mut stalled = manager.stall();
        while manager.should_stall() {
            self.check_waiting_for_memory()?;
            if self.context.options.is_inline() && began.elapsed() >= PATIENCE {
                // Only another database could end the stall, and it does not.
                return Err(refusal);
            }
            let has_changed = stalled.wait(LOOK_AGAIN);
            if !has_changed {
                // Readers may have left memtables that were flushed.
                self.context.shared.garbage.collect();
                self.context.shared.garbage.collect_heavy();
            }
            if manager.should_stall() {
                self.relieve_memory(leadership, manager)?;
            }
        }
        Ok(())
    }

    /// Returns an error if waiting for memory is pointless.
    fn check_waiting_for_memory(&self) -> Result<()> {
        self.context.errors.check_waiting()?;
        match self.context.background.flush_retries().any_error() {
            Some(error) => Err(error.while_doing("writes are stopped until a flush succeeds")),
            None => Ok(()),
        }
    }

    /// If writers of other databases stall, flushes what could end the stall. If another thread
    /// writes to this database, leaves that to it.
    pub(crate) fn relieve_others(&self) -> Result<()> {
        let is_stalled =
            |manager: &&WriteBufferManager| manager.has_stalled_writers() && manager.should_stall();
        let Some(manager) = self.write_buffer_manager().filter(is_stalled) else { return Ok(()) };
        let Some(leadership) = self.queue.try_lead() else { return Ok(()) };
        self.quiesce(&leadership)?;
        if self.context.background.flush_retries().any_error().is_some() {
            return Ok(());
        }
        self.relieve_memory(&leadership, manager)
    }

    /// Flushes what could end a stall, unless a flush is running, which may end it: sealed
    /// memtables that are fewer than `min_write_buffer_number_to_merge`, and the next memtable.
    fn relieve_memory(
        &self,
        leadership: &Leadership<'_>,
        manager: &WriteBufferManager,
    ) -> Result<()> {
        if self.flushes.running() > 0 {
            return Ok(());
        }
        let families = self.context.shared.family_set();
        if families.iter().filter(|family| self.flushes.request(family)).count() > 0 {
            self.flushes.flush_soon();
        }
        self.flush_for_memory(leadership, manager)
    }
}
