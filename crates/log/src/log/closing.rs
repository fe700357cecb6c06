//! Closing a log.
//!
//! 1. Every partition is closed: its batches are persisted, and later appends are refused. Then the
//!    stored offsets of consumers are synced.
//! 2. The background threads end.
//! 3. What is left in shared memory is recorded. If it is nothing, the shared memory is removed.
//! 4. The lock on the log's directory is released.
//!
//! A crash at any step has the same effect as a crash before closing: acknowledged appends survive
//! as the durability of their topics states.
//!
//! A function that a thread of the log calls, such as one registered with [`Ticket::on_complete`],
//! cannot close the log, because closing waits for that thread. It may drop the last handle; the
//! thread that writes consumers' offsets then closes the log.

use std::collections::BTreeMap;
use std::mem::take;
use std::sync::Arc;

use tailwater_io::FileLock;
use tailwater_io::thread::Thread;

use super::{Log, run_pending};
use crate::catalog::{Catalog, PartitionId};
use crate::env::Env;
use crate::last_opening::LastOpening;
use crate::offsets::Offsets;
use crate::panics;
use crate::partition::Partition;
use crate::sync::Mutex;
use crate::tail::MemoryKind;
use crate::tail::sizing::Tuner;
use crate::ticket::Ticket;
use crate::{Error, ErrorKind, Result};

/// The parts of an open log that closing it needs.
pub(super) struct Closing {
    env: Arc<Env>,
    opening: LastOpening,
    catalog: Arc<Catalog>,
    offsets: Arc<Offsets>,
    tuner: Arc<Tuner>,
    partitions: BTreeMap<PartitionId, Arc<Partition>>,
    threads: Vec<Thread>,
    lock: Option<Arc<dyn FileLock>>,
}

/// A log that a thread of the log must close, because one of its threads dropped the last handle.
pub(super) type Abandoned = Mutex<Option<Closing>>;

impl Log {
    /// Persists everything, closes the log and removes its shared memory. If the log is already
    /// being closed or closed, waits and returns the outcome of the first call. Dropping the log
    /// also closes it, but cannot report an error.
    ///
    /// If a function in one of the log's threads, such as one registered with
    /// [`Ticket::on_complete`], drops the last handle of the log, the log is closed soon after the
    /// function returned. Until then, opening the log again returns a busy error.
    ///
    /// # Errors
    /// The first error of a partition or of the consumers' offsets. If the log uses shared memory,
    /// the unpersisted batches then remain in it, and the error states their number. Invalid
    /// argument, if a function that the log calls, such as one registered with
    /// [`Ticket::on_complete`], calls this, because closing would wait for the function.
    pub fn close(&self) -> Result<()> {
        self.check_may_wait()?;
        let close = || {
            // Wait for calls that are creating or changing topics or partitions. Calls that come
            // later wait for this lock, and then fail because the catalog is closed.
            let _changing = self.changing.lock();
            self.begin_closing().run()
        };
        self.closed.lock().get_or_insert_with(close).clone()
    }

    fn begin_closing(&self) -> Closing {
        Closing {
            env: Arc::clone(&self.env),
            opening: self.opening.clone(),
            catalog: Arc::clone(&self.catalog),
            offsets: Arc::clone(&self.offsets),
            tuner: Arc::clone(&self.tuner),
            partitions: self.partitions.lock().take().unwrap_or_default(),
            threads: take(&mut *self.threads.lock()),
            lock: self.lock.lock().take(),
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let is_closed = self.closed.lock().is_some();
        if !is_closed && self.has_threads && self.env.workers.include_this_thread() {
            *self.abandoned.lock() = Some(self.begin_closing());
            self.offsets.abandon();
            return;
        }
        // Ignore the outcome: a caller that needs it calls `close` before.
        let _ = self.close();
    }
}

impl Closing {
    /// Closes the log: does the steps in the description of this module.
    ///
    /// # Errors
    /// The errors of [`Log::close`].
    pub(super) fn run(mut self) -> Result<()> {
        // A function that closing calls in this thread must not wait for closing to end.
        let _working = self.env.workers.begin();
        // Catch a panic, so that the steps below run in any case: the threads end and the lock is
        // released.
        let persisted = panics::catch("closing the log", || self.persist_all());
        self.env.scheduler.close();
        self.offsets.close();
        self.tuner.end();
        // If this is one of the threads, it is not joined. It ends after this function returned.
        drop(take(&mut self.threads));
        // Without threads, a caller may have queued an offset after the sync.
        while self.offsets.write_pending() {}
        // After an error, unpersisted batches may exist only in shared memory. Keep it for the
        // process that opens the log next.
        let freed = panics::catch("closing the log", || self.free_memory(persisted.is_ok()));
        drop(self.partitions);
        self.catalog.close();
        // From here on another process may open the log. Everything it reads is final.
        drop(self.lock);
        freed.and(persisted)
    }

    /// Closes all partitions and syncs the consumers' offsets, which is step 1 of the module's
    /// description.
    fn persist_all(&self) -> Result<()> {
        // Consumers need no files any more; the partitions may need their descriptors.
        self.env.segment_files.open.cursors.forget_all();
        let tickets: Vec<Ticket> = self.partitions.values().map(|it| it.close()).collect();
        let mut outcome = Ok(());
        if self.threads.is_empty() {
            // Deleted partitions may also have work to do.
            run_pending(&self.env, &self.offsets);
        }
        for ticket in tickets {
            if self.threads.is_empty() {
                run_pending(&self.env, &self.offsets);
            }
            outcome = outcome.and(ticket.wait());
        }
        outcome.map_err(|error| self.with_unpersisted(error)).and(self.offsets.sync())
    }

    /// Records what is left in shared memory, and removes the shared memory if nothing is left.
    /// This order ensures that a crash in between does not look like a loss of the memory.
    fn free_memory(&self, is_persisted: bool) -> Result<()> {
        let (left, _) = if is_persisted { (0, 0) } else { self.unpersisted(MemoryKind::Shared) };
        let closed = self.opening.closed(left);
        let recorded = closed.record(&*self.env.segment_files.storage, &self.env.directory);
        if let (Ok(()), Some(shared)) = (&recorded, self.env.memory.shared()) {
            closed.remove_other_marks(&**shared)?;
        }
        self.env.memory.close(is_persisted && recorded.is_ok())?;
        match recorded {
            // On a full disk, the shared memory stays for the next opening.
            Err(error) if error.kind() == ErrorKind::NoSpace => Ok(()),
            recorded => recorded,
        }
    }

    /// Returns the number of acknowledged messages that are only in memory of this kind, and the
    /// number of their partitions.
    fn unpersisted(&self, kind: MemoryKind) -> (u64, usize) {
        let counts = self.partitions.values().map(|it| it.acknowledged_in_memory(kind));
        let counts: Vec<u64> = counts.filter(|count| *count > 0).collect();
        (counts.iter().sum::<u64>(), counts.len())
    }

    /// Adds to the error of a partition what happens to the acknowledged messages that are not
    /// persisted.
    fn with_unpersisted(&self, error: Error) -> Error {
        let mut error = error;
        if let (lost @ 1.., partitions) = self.unpersisted(MemoryKind::Private) {
            error = error.while_doing(format_args!(
                "{lost} messages of {partitions} partitions with durability 'memory' are lost"
            ));
        }
        if let (kept @ 1.., partitions) = self.unpersisted(MemoryKind::Shared) {
            let shared = self.env.memory.shared().and_then(|shared| shared.directory());
            let place = shared.map_or(String::new(), |path| format!(" {}", path.display()));
            error = error.while_doing(format_args!(
                "{kept} messages of {partitions} partitions are not in segments: they stay in the \
                 shared memory{place}, from which the next opening recovers them"
            ));
        }
        error
    }
}
