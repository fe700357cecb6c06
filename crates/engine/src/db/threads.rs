//! Starts and ends the background threads.

use std::sync::Arc;

use tailwater_io::sync;
use tailwater_io::thread::{self, Thread};

use crate::background::{Cleaning, FailedPart, Task, WorkingThread};
use crate::compaction::CLEANING;
use crate::db::Database;
use crate::epoch::{self, heavy};
use crate::error::{Error, Result};

/// The threads of a database. Dropping this joins the threads, so they must have been signalled to
/// end before. If one of the threads itself drops this, that thread is not joined.
#[derive(Debug, Default)]
pub(super) struct Threads {
    /// Joined when this is dropped.
    others: Vec<Thread>,
    compacting: Vec<Thread>,
}

impl Threads {
    /// Starts a flushing thread, a cleaning thread, and several compacting threads.
    ///
    /// # Errors
    /// Errors from starting a thread, with the thread's name. The threads that were started before
    /// it have then ended.
    pub(super) fn start(database: &Arc<Database>) -> Result<Self> {
        let mut threads = Self::default();
        if let Err(error) = threads.start_all(database) {
            database.context.background.close();
            drop(threads);
            return Err(error);
        }
        Ok(threads)
    }

    fn start_all(&mut self, database: &Arc<Database>) -> Result<()> {
        self.others.push(spawn("tailwater-flush", database, |database| database.run_flushes())?);
        self.others.push(spawn("tailwater-clean", database, |database| database.run_cleaning())?);
        self.grow(database)
    }

    /// Starts compacting threads up to the maximum number of concurrent compactions. If there are
    /// more threads than that, some rest.
    ///
    /// # Errors
    /// Errors from starting a thread. The database continues with the threads that run.
    pub(super) fn grow(&mut self, database: &Arc<Database>) -> Result<()> {
        let wanted = database.context.options.now().compactions_max();
        database.context.background.set_compactions_max(wanted);
        for number in self.compacting.len()..wanted {
            let name = format!("tailwater-comp{number}");
            let thread = spawn(&name, database, move |database| {
                database.compactions.run_compactions(number)
            })?;
            self.compacting.push(thread);
        }
        Ok(())
    }
}

fn spawn(
    name: &str,
    database: &Arc<Database>,
    work: impl FnOnce(&Database) + Send + 'static,
) -> Result<Thread> {
    let working = Arc::clone(database);
    let body = move || {
        let _own = WorkingThread::begin(working.context.shared.opening);
        work(&working);
    };
    thread::spawn(name, body).map_err(Error::no_thread)
}

impl Database {
    /// Runs the flushing thread's loop until the database is closed.
    fn run_flushes(&self) {
        // Writers wait for flushes when memtables are full.
        sync::serve_users();
        loop {
            let task = self.context.background.next_flush();
            if task == Task::End {
                return;
            }
            if task == Task::Flush {
                self.flushes.flush_round();
            }
            let upkeep = || {
                match task {
                    Task::Flush => self.compactions.compact_soon(),
                    Task::Idle | Task::End => self.compactions.check_due_after_release(),
                }
                self.dump_statistics_if_due();
                self.writes.sample_write_times_if_due();
            };
            // A failure is latched and reported to refused callers.
            let _ = self.context.round(FailedPart::Upkeep, "the upkeep of statistics", upkeep);
        }
    }

    /// Runs the cleaning thread's loop until the database is closed.
    fn run_cleaning(&self) {
        let _collector = heavy::Collector::begin();
        loop {
            match self.context.background.next_cleaning() {
                // A failure is latched and reported to refused callers.
                Cleaning::Remove => {
                    drop(self.context.round(FailedPart::Upkeep, CLEANING, || self.clean()));
                }
                // No caller is left to report to; the LOG has the result.
                Cleaning::Close => drop(self.close(&self.abandoned)),
                Cleaning::End => return,
            }
        }
    }

    /// Removes the tables that no reader uses, with a pause after each.
    fn clean(&self) {
        // Done here and not in the flushing thread: the resuming thread becomes the leader of the
        // write queue, and the current leader may be waiting for a flush.
        self.resume_after_shortage();
        epoch::collect();
        heavy::collect();
        let rest = |pause| self.context.background.sleep(pause);
        self.versions.obsolete().remove_unread(&*self.context.clock, rest);
    }
}
