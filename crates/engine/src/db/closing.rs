//! Closing a database that was open for writing.
//!
//! 1. Writes end: writers that wait for the end of a stall give up, the closing thread becomes the
//!    leader of the write queue, and later writes are refused.
//! 2. Data that is in memtables but not in the log is flushed, unless `avoid_flush_during_shutdown`
//!    is set. The closing thread flushes by itself, and writes if no thread is free to: the
//!    environment's threads may be occupied by the work of other databases.
//! 3. Background work ends. Compactions are aborted, and so are ingestions that are still copying
//!    files. Closing waits for ingestions and checkpoints in user threads, because the next opening
//!    will assign the same file numbers. It does not wait for the work of other databases.
//! 4. The OPTIONS file is written if it is outdated.
//! 5. Buffered records of the log are written, and its preallocated file is truncated to its
//!    contents. The closing thread ends the iterators that follow the logs.
//! 6. The database's garbage is dropped, except what a reader may still see. Obsolete files that
//!    nobody uses are removed. Only if the garbage keeps such files does closing wait for readers,
//!    for at most [`LAST_WAIT`]: readers of other databases, too, but none of them waits for a
//!    device while it is pinned.
//! 7. The locks are released.
//!
//! A crash at any step has the same effect as a crash before closing: acknowledged synced writes
//! are on the device.
//!
//! Each step takes the value that the step before it returns, so the steps cannot be exchanged.
//!
//! [`Db::cancel_background_work`] does the flush of step 2 and step 3, but lets writes continue. It
//! changes nothing else on disk: closing and crashes afterwards have the same effect as without it.
//!
//! A user callback cannot close the database, since closing waits for callbacks. A callback may
//! drop the last handle; a thread of the environment then closes the database.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::background::{Ended, WorkingThread, is_working_for};
use crate::db::background_jobs::Writing;
use crate::db::{Access, Database, Db};
use crate::error::{Error, Result};
use crate::panics;
use crate::stall::Waiting;
use crate::write::queue::Leadership;

impl Db {
    /// Closes a database that is open for writing: unlogged writes are flushed, unless
    /// `avoid_flush_during_shutdown` is set, and the lock is released. Reads still work; writes are
    /// refused. Dropping the last handle also closes the database, but cannot report an error. A
    /// second call, also a concurrent one, waits for the first and returns its outcome.
    ///
    /// If a user callback in one of the database's threads, such as a compaction filter, drops the
    /// last handle, the database is closed soon after the callback returns. Until then, opening the
    /// database again returns a busy error.
    ///
    /// # Errors
    /// The error after which writes were refused; errors from the last flush and write, and from
    /// writing the OPTIONS file, if it is outdated; invalid
    /// argument, if a callback of the database calls this, because closing would wait for the
    /// callback.
    pub fn close(&self) -> Result<()> {
        match &self.inner.access {
            Access::Writing(writing) => writing.close(),
            Access::Reading(_) => Ok(()),
        }
    }

    /// Ends the background work for good, and waits until none runs. Unlogged writes are flushed
    /// first, unless `avoid_flush_during_shutdown` is set. The database stays open and locked:
    /// reads and writes continue, but flushes and compactions return a closed error, and so do
    /// writes that are slowed down or stopped because memtables are full or compactions are behind.
    ///
    /// # Errors
    /// Read-only, for a handle that was opened for reading; errors from the flush; invalid
    /// argument, if a callback of the database calls this.
    pub fn cancel_background_work(&self) -> Result<()> {
        let database = self.database()?;
        refuse_callback(database)?;
        database.cancel_background_work()
    }
}

/// Refuses a call from a thread that works for the database, for which the call would wait.
fn refuse_callback(database: &Database) -> Result<()> {
    if is_working_for(database.context.shared.opening) {
        let message = "a callback cannot close the database: closing waits for callbacks";
        return Err(Error::invalid_argument(message));
    }
    Ok(())
}

/// Maximum time for which closing waits until readers have released obsolete files.
const LAST_WAIT: Duration = Duration::from_millis(100);
/// Interval between two checks of whether readers have released obsolete files.
const CHECK_INTERVAL: Duration = Duration::from_millis(1);

impl Writing {
    /// Closes the database. Every later or concurrent call waits for the first one, and returns its
    /// outcome.
    ///
    /// # Errors
    /// Invalid argument, if the calling thread is working for the database; errors from closing.
    pub(super) fn close(&self) -> Result<()> {
        refuse_callback(&self.database)?;
        self.database.close()
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        // The error is in the LOG; callers that need it call `close`.
        let database = Arc::clone(&self.database);
        let close = move || drop(database.close());
        let context = &self.database.context;
        if !is_working_for(context.shared.opening) {
            return close();
        }
        // Without threads, the database is closed already, or its work is done by callers.
        if let Some(close) = context.background.run_elsewhere(close) {
            close();
        }
    }
}

/// The state after steps 1 and 2: writes are refused.
struct WritesEnded {
    flushed: Result<()>,
}

/// The state after step 4: the OPTIONS file is current, or an error says why it is not.
struct OptionsWritten(Result<()>);

/// The state after step 5: the logs are closed, or failed.
struct LogsClosed(Result<()>);

/// The state after step 6: nothing uses the database's files any more. The outcome of closing.
struct FilesClosed(Result<()>);

/// The state after step 3: no thread works for the database.
struct WorkEnded<'d> {
    flushed: Result<()>,
    ended: Ended,
    #[expect(dead_code, reason = "compactions hurry until the database is closed")]
    pressure: Waiting<'d>,
}

impl Database {
    /// Closes the database. A second call returns the outcome of the first.
    pub(super) fn close(&self) -> Result<()> {
        let threads = self.context.background.threads();
        let closed = self.closed.lock().get_or_insert_with(|| self.close_once()).clone();
        // If this is the last database of its environment, its threads are joined here, and not
        // while the lock is held: a job of the program may be waiting for it.
        drop(threads);
        closed
    }

    fn cancel_background_work(&self) -> Result<()> {
        if self.context.background.is_closing() {
            self.context.background.close().wait();
            return Ok(());
        }
        let flushed =
            panics::catch("ending background work", || match self.writes.has_unlogged() {
                true => self.flush_unlogged(&self.writes.lead()?),
                false => Ok(()),
            });
        self.context.errors.begin_closing();
        self.writes.wake_waiting();
        self.context.background.close().wait();
        flushed
    }

    fn close_once(&self) -> Result<()> {
        // A callback that closing calls in this thread must not wait for closing to end.
        let _own = WorkingThread::begin(self.context.shared.opening);
        let locks = self.locks.lock().take();
        let FilesClosed(closed) = self.close_files(self.end_work(self.end_writes()));
        match &closed {
            Ok(()) => self.context.info_log.info(format_args!("the database was closed")),
            Err(error) => self.context.info_log.error(format_args!("closing failed: {error}")),
        }
        drop(locks);
        closed
    }

    fn end_writes(&self) -> WritesEnded {
        self.context.errors.begin_closing();
        self.writes.wake_waiting();
        // Catches a panic, so that the next steps run in any case: background work ends and the
        // locks are released.
        let flushed = panics::catch("closing", || self.flush_last());
        self.context.errors.close();
        WritesEnded { flushed }
    }

    fn end_work(&self, writes: WritesEnded) -> WorkEnded<'_> {
        let pressure = self.context.stall.pressure().wait();
        let ending = self.context.background.close();
        // Waits until a running call that changes options has ended. No other such call can begin.
        drop(self.changing_options());
        WorkEnded { flushed: writes.flushed, ended: ending.wait(), pressure }
    }

    /// Does steps 4 to 6.
    fn close_files(&self, work: WorkEnded<'_>) -> FilesClosed {
        self.flushes.discard_jobs(&work.ended);
        let closed = panics::catch("closing", || {
            let written = OptionsWritten(self.write_last_options_file());
            let closed = self.close_logs(&work.ended, written);
            self.remove_last_obsolete_files(closed)
        });
        self.versions.obsolete().close();
        self.context.files.close();
        FilesClosed(work.flushed.and(closed))
    }

    /// Ends writes as their last leader, and flushes unlogged data. If an error is latched, returns
    /// it and does not flush.
    fn flush_last(&self) -> Result<()> {
        let leadership = self.writes.lead()?;
        let flushed = self.flush_unlogged(&leadership);
        self.context.errors.close();
        flushed
    }

    /// Flushes unlogged data, unless `avoid_flush_during_shutdown` is set. If an error is latched,
    /// returns it and does not flush.
    fn flush_unlogged(&self, leadership: &Leadership<'_>) -> Result<()> {
        if let Some((_, error)) = self.context.errors.latched() {
            return Err(error.while_doing("the database was closed after an error"));
        }
        let avoids = self.context.options.now().avoid_flush_during_shutdown;
        if avoids || !self.writes.has_unlogged() {
            return Ok(());
        }
        let families = self.context.shared.family_set();
        let all: Vec<_> = families.iter().collect();
        self.writes.seal_for_flush(leadership, &all).and_then(|awaited| {
            // Not left to the environment's threads, which work of other databases may occupy.
            self.flushes.flush_round(|| true);
            self.writes.wait_for_flush(&awaited)
        })
    }

    /// Does step 6: drops the database's garbage, and removes the obsolete files that nobody uses.
    /// The next open removes the remaining ones.
    ///
    /// A version in the garbage keeps its files as long as a reader may see it, even a reader of
    /// another database. A reader usually takes microseconds, unless it loses its processor
    /// meanwhile. So if files are kept in this way, this waits a little for readers.
    fn remove_last_obsolete_files(&self, LogsClosed(outcome): LogsClosed) -> Result<()> {
        let (garbage, obsolete) = (&self.context.shared.garbage, self.versions.obsolete());
        let began = Instant::now();
        loop {
            garbage.collect();
            obsolete.remove_unread_at_once();
            let may_go = garbage.waiting() > 0 && obsolete.count() > 0;
            if !may_go || began.elapsed() > LAST_WAIT {
                break;
            }
            thread::sleep(CHECK_INTERVAL);
        }
        garbage.close();
        obsolete.remove_unread_at_once();
        outcome
    }

    /// Does step 5: ends the iterators that follow the logs, writes buffered records, and truncates
    /// the preallocated file. Also removes unneeded logs.
    fn close_logs(&self, _ended: &Ended, OptionsWritten(written): OptionsWritten) -> LogsClosed {
        let mut logs = self.writes.logs();
        logs.end_following();
        let unneeded = logs.take_unneeded();
        if logs.has_failed() {
            return LogsClosed(written);
        }
        for path in unneeded {
            self.versions.obsolete().remove(path);
        }
        LogsClosed(logs.close().and(written))
    }
}
