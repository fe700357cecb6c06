//! The limit of the memory of memtables: flushes as it comes near, and stalls while it is reached.
//!
//! The rules are those of RocksDB (`DBImpl::HandleWriteBufferManagerFlush` and
//! `DBImpl::WriteBufferManagerStallWrites` in `db/db_impl/db_impl_write.cc`), with two additions.
//!
//! - In RocksDB, a stall can last forever: a stalled writer flushes nothing, and neither does a
//!   database that nobody writes to. Here, as long as a stall lasts, the stalled leader and the
//!   cleaning thread of every other database flush what could end the stall. That may be a small
//!   memtable, if most of the memory is pinned: by iterators over flushed memtables, or by
//!   memtables that nobody flushes any more, of a closed database or a dropped column family. Once
//!   nothing is left to flush, waiting is pointless, and waiting writes are refused after a while.
//! - In RocksDB, the memory of a database that nobody writes to makes all others flush tiny
//!   memtables. Here, its cleaning thread flushes it.

use std::time::{Duration, Instant};

use super::path::PATIENCE;
use crate::column_family::{ColumnFamily, FlushReason};
use crate::error::{Error, ErrorKind, Result};
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
        if manager.should_flush() {
            self.flush_oldest(leadership, manager)?;
        } else {
            manager.recheck_limits();
        }
        Ok(())
    }

    /// Flushes the oldest memtable, or all of them if flushes are atomic. Returns whether there was
    /// one with entries.
    fn flush_oldest(
        &self,
        leadership: &Leadership<'_>,
        manager: &WriteBufferManager,
    ) -> Result<bool> {
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
        let reason = FlushReason::WriteBufferManager;
        let is_any_sealed = !due.is_empty() && self.seal(leadership, &due, reason)?;
        if is_any_sealed {
            self.context.info_log.info(format_args!(
                "a flush begins because memtables use {} of {} bytes",
                manager.memory_usage(),
                manager.buffer_size(),
            ));
            self.flushes.flush_soon();
        }
        Ok(is_any_sealed)
    }

    /// Waits while the memory has reached the limit, if the manager stalls writes.
    ///
    /// # Errors
    /// Busy, if the caller would have to wait and `no_slowdown` is set, or if no flush can end the
    /// stall and nothing else has ended it within [`PATIENCE`]; then the writes that wait for their
    /// turn are refused, too. The error of a flush that fails; closed.
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
        let mut stalled = manager.stall();
        let mut idle_since = None;
        while manager.should_stall() {
            self.check_waiting_for_memory()?;
            let has_changed = stalled.wait(LOOK_AGAIN);
            if !has_changed {
                // Readers may have left memtables that were flushed.
                self.context.shared.garbage.collect();
                self.context.shared.garbage.collect_heavy();
            }
            if !manager.should_stall() {
                break;
            }
            let is_flushing = self.relieve_memory(leadership, manager)? || manager.is_flushing();
            if has_changed || is_flushing {
                idle_since = None;
            } else if idle_since.get_or_insert_with(Instant::now).elapsed() >= PATIENCE {
                self.context.info_log.warn(format_args!(
                    "{refusal}; nothing is left to flush, so waiting writes are refused"
                ));
                leadership.refuse_writes(&refusal);
                return Err(refusal);
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

    /// Flushes if other databases need the memory: their writers stall, or the memory of all
    /// memtables that accept writes comes near the limit. If another thread writes to this
    /// database, leaves that to it.
    pub(crate) fn relieve_others(&self) -> Result<()> {
        let Some(manager) = self.write_buffer_manager() else { return Ok(()) };
        let is_stalled = manager.has_stalled_writers() && manager.should_stall();
        if !is_stalled && !manager.should_flush() {
            return Ok(());
        }
        let Some(leadership) = self.queue.try_lead() else { return Ok(()) };
        self.quiesce(&leadership)?;
        self.context.errors.check()?;
        if self.context.background.flush_retries().any_error().is_some() {
            return Ok(());
        }
        if is_stalled {
            self.relieve_memory(&leadership, manager)?;
        } else if self.flushes.running() == 0 {
            self.flush_for_memory(&leadership, manager)?;
        }
        Ok(())
    }

    /// Flushes what could end a stall: sealed memtables, even if they are fewer than
    /// `min_write_buffer_number_to_merge`, or else the oldest memtable, even if it is small. Begins
    /// one flush at a time. Returns whether a flush is due or running in this database.
    fn relieve_memory(
        &self,
        leadership: &Leadership<'_>,
        manager: &WriteBufferManager,
    ) -> Result<bool> {
        let families = self.context.shared.family_set();
        if families.iter().filter(|family| self.flushes.request(family)).count() > 0 {
            self.flushes.flush_soon();
            return Ok(true);
        }
        Ok(self.flushes.running() > 0 || self.flush_oldest(leadership, manager)?)
    }
}
