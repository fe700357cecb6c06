//! Closing a database that was open for writing.
//!
//! 1. Nobody writes any more: writers that wait out a stall give up, closing leads the write queue,
//!    and later writes are refused.
//! 2. What no log holds is flushed, unless `avoid_flush_during_shutdown` says otherwise.
//! 3. The threads in the background end; a compaction gives up, and so does an ingestion that still
//!    brings files. What threads of users have begun on files, ingestions and checkpoints, is
//!    waited for: whoever opens the database next gives the same numbers to files of his own.
//! 4. The log is written out and cut to its length. Who follows the logs does so no longer.
//! 5. The locks are given up.
//!
//! A crash at any of these is as one before: what was acknowledged as synced is on the device.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tailwater_io::sync::Mutex;

use crate::Result;
use crate::background::Threads;
use crate::db::Writer;
use crate::epoch;

/// The side that writes, and the threads that work for it. Dropping it closes the database.
#[derive(Debug)]
pub(crate) struct Writing {
    pub(crate) writer: Arc<Writer>,
    threads: Mutex<Option<Threads>>,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl Writing {
    /// Starts the threads that work in the background, unless that is done by those who ask for it.
    pub(crate) fn start(writer: Arc<Writer>) -> Result<Self> {
        let inline = writer.options().inline_background();
        let threads = if inline { None } else { Some(Threads::start(&writer)?) };
        Ok(Self { writer, threads: Mutex::new(threads) })
    }

    /// Changes options of the database, and has as many threads work in the background as these
    /// ask for.
    pub(crate) fn set_database_options(&self, changes: &[(&str, &str)]) -> Result<()> {
        self.writer.set_database_options(changes)?;
        let mut threads = self.threads.lock();
        if let Some(threads) = &mut *threads
            && let Err(error) = threads.grow(&self.writer)
        {
            self.writer.info_log.warn(format_args!("fewer compactions run than could: {error}"));
        }
        Ok(())
    }

    /// Closes the database. A second call does nothing.
    pub(crate) fn close(&self) -> Result<()> {
        let writer = &*self.writer;
        let Some(locks) = writer.locks.lock().take() else {
            return Ok(());
        };
        writer.errors.begin_closing();
        writer.stall.wake();
        let flushed = writer.end_writes();
        let _waiting = writer.stall.urgency().wait();
        writer.background.close();
        // Options that are being changed are changed, and no others will be.
        drop(writer.changing_options());
        drop(self.threads.lock().take());
        writer.background.wait_for_all_work();
        let closed = writer.close_logs();
        while epoch::collect() > 0 {}
        writer.remove_obsolete_tables();
        let result = flushed.and(closed);
        match &result {
            Ok(()) => writer.info_log.info(format_args!("the database was closed")),
            Err(error) => writer.info_log.error(format_args!("closing failed: {error}")),
        }
        drop(locks);
        result
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        // Who wants to know closes it himself; the LOG has it.
        let _ = self.close();
    }
}

impl Writer {
    /// Steps 1 and 2. What stood in the way of writing before is no failure of closing.
    fn end_writes(&self) -> Result<()> {
        let leadership = self.queue.lead()?;
        let was_latched = self.errors.latched();
        let unlogged = self.has_unlogged.load(Ordering::Relaxed);
        let flushes = unlogged && !self.database.now().avoid_flush_during_shutdown;
        let mut flushed = Ok(());
        if flushes && was_latched.is_none() {
            let families = self.shared.family_set();
            let all: Vec<_> = families.iter().collect();
            flushed = self
                .seal_for_flush(&leadership, &all)
                .and_then(|sealed| self.wait_for_flush(&sealed));
        }
        self.errors.close();
        match was_latched {
            Some((_, error)) => Err(error.while_doing("the database was closed after an error")),
            None => flushed,
        }
    }

    /// Step 4.
    fn close_logs(&self) -> Result<()> {
        let mut logs = self.logs();
        logs.end_following();
        let unneeded = logs.take_unneeded();
        if logs.has_failed() {
            return Ok(());
        }
        for path in unneeded {
            // What stays is removed by the next open.
            let _ = self.storage.remove(&path);
        }
        logs.close()
    }
}
