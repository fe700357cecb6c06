//! The background jobs of a database: flushes, compactions, cleaning and upkeep.

use std::sync::{Arc, Weak};

use tailwater_io::sync;

use crate::background::{FailedPart, JobKind, Work, WorkingThread};
use crate::context::Context;
use crate::db::Database;
use crate::env::{Needs, Threads};
use crate::error::{Error, Result};
use crate::wal::{LogDurability, PreallocationListener};

/// The database. Dropping it closes the database.
#[derive(Debug)]
pub(super) struct Writing {
    pub(super) database: Arc<Database>,
}

impl Writing {
    /// Begins the background work in these threads; `None` if callers do it inline.
    pub(super) fn start(database: Arc<Database>, threads: Option<Arc<Threads>>) -> Result<Self> {
        let writing = Self { database };
        if let Some(threads) = threads {
            writing.start_jobs(threads);
            writing.start_preallocating()?;
        }
        Ok(writing)
    }

    fn start_jobs(&self, threads: Arc<Threads>) {
        let Context { background, options, shared, .. } = &*self.database.context;
        let work: Weak<Database> = Arc::downgrade(&self.database);
        let options = options.now();
        let limits = (options.flushing_threads_max(), options.compactions_max());
        let collector = shared.garbage.begin_collecting();
        background.start(threads, work, shared.opening, collector, limits);
    }

    /// Starts the thread that preallocates logs, if the logs use preallocated files.
    fn start_preallocating(&self) -> Result<()> {
        let info_log = Arc::clone(&self.database.context.info_log);
        let chosen = move |durability: &LogDurability| {
            info_log.info(format_args!("direct logs: {durability}"));
        };
        let context = Arc::downgrade(&self.database.context);
        let panicked = move |error: Error| {
            if let Some(context) = context.upgrade() {
                context.latch(FailedPart::Upkeep, &error);
            }
        };
        let listener =
            PreallocationListener { chosen: Box::new(chosen), panicked: Box::new(panicked) };
        self.database.writes.logs().start_preallocating(listener)
    }

    /// Changes options of the database, and starts more background threads if the options request
    /// them.
    pub(super) fn set_database_options(&self, changes: &[(&str, &str)]) -> Result<()> {
        let context = &self.database.context;
        let before = Needs::of(&context.options.now());
        self.database.set_database_options(changes)?;
        let after = Needs::of(&context.options.now());
        if context.background.threads().is_some()
            && let Err(error) = context.options.open().env().grow(before, after)
        {
            context.info_log.warn(format_args!(
                "not all background threads started: {}",
                Error::no_thread(error)
            ));
        }
        Ok(())
    }
}

impl Work for Database {
    fn run(&self, kind: JobKind) {
        let _own = WorkingThread::begin(self.context.shared.opening);
        match kind {
            JobKind::Flush => self.flush(),
            JobKind::Compaction => self.compactions.run_one(),
            JobKind::Cleaning => self.context.cleaning_round(|| self.clean()),
            JobKind::Upkeep => self.do_upkeep(),
        }
    }
}

impl Database {
    /// Flushes due memtables, until nothing is due or another database waits for the thread.
    fn flush(&self) {
        // Writers wait for flushes when memtables are full.
        sync::serve_users();
        self.flushes.flush_round(|| !self.context.background.others_wait_to_flush());
        self.compactions.compact_soon();
    }

    /// Does what is due once a second.
    fn do_upkeep(&self) {
        let upkeep = || {
            // If a lock was lost, the failure is latched.
            let _ = self.context.check_locks();
            self.compactions.wake_if_due();
            self.dump_statistics_if_due();
            self.writes.sample_write_times_if_due();
            self.context.background.clean_soon();
        };
        // If the work panicked, `round` has latched the error, and later writes are refused with
        // it. So the result can be ignored here.
        let _ = self.context.round(FailedPart::Upkeep, "the upkeep of statistics", upkeep);
    }

    /// Flushes memtables if the writers of other databases wait for their memory.
    fn relieve_others(&self) {
        // If this fails, the failure is latched, or a later call tries again.
        let _ = self.writes.relieve_others();
    }

    /// Resumes writes after a shortage, if possible. Then removes the logs that no follower needs
    /// any more, frees retired memory, writes an outdated OPTIONS file, and removes the obsolete
    /// files that nobody uses, with a pause after each.
    fn clean(&self) {
        // Not done by a flush: resuming waits until the leader of the write queue gives up the
        // lead, and the leader may be waiting for a flush.
        self.resume_after_shortage();
        self.relieve_others();
        self.flushes.release_followed_logs();
        let garbage = &self.context.shared.garbage;
        garbage.collect();
        garbage.collect_heavy();
        self.update_options_file_at_rest();
        let rest = |pause| {
            self.context.background.sleep(pause);
            // The rest of the work does not wait until all obsolete files are removed: there may be
            // very many.
            garbage.collect_heavy();
            self.relieve_others();
            self.update_options_file_at_rest();
        };
        self.versions.obsolete().remove_unread(&*self.context.clock, rest);
    }
}
