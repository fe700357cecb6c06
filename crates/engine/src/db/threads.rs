//! Starts and ends the background threads.

use std::sync::Arc;

use tailwater_io::sync::{self, Mutex};
use tailwater_io::thread::{self, Thread, Weight};

use crate::background::{Cleaning, FailedPart, Task, WorkingThread};
use crate::db::Database;
use crate::epoch::{self, heavy};
use crate::error::{Error, Result};
use crate::wal::{LogDurability, PreallocationListener};

/// The database, and its background threads. Dropping it closes the database.
#[derive(Debug)]
pub(super) struct Writing {
    pub(super) database: Arc<Database>,
    pub(super) threads: Mutex<Option<Threads>>,
}

impl Writing {
    /// Starts the background threads, unless callers do the background work inline.
    pub(super) fn start(database: Arc<Database>) -> Result<Self> {
        let inline = database.context.options.is_inline();
        let threads = if inline { None } else { Some(Threads::start(&database)?) };
        let writing = Self { database, threads: Mutex::new(threads) };
        if !inline {
            writing.start_preallocating()?;
        }
        Ok(writing)
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
        self.database.set_database_options(changes)?;
        let mut threads = self.threads.lock();
        if let Some(threads) = &mut *threads
            && let Err(error) = threads.grow(&self.database)
        {
            self.database
                .context
                .info_log
                .warn(format_args!("not all background threads started: {error}"));
        }
        Ok(())
    }
}

/// The background threads of a database. Dropping this joins them, so they must have been signalled
/// to end before. If one of these threads itself drops this, it does not join itself.
#[derive(Debug, Default)]
pub(super) struct Threads {
    /// The cleaning thread, which removes obsolete files.
    cleaning: Option<Thread>,
    flushing: Vec<Thread>,
    compacting: Vec<Thread>,
}

impl Threads {
    /// Starts flushing threads, a cleaning thread, and compacting threads.
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
        let clean = |database: &Database| database.run_cleaning();
        self.cleaning = Some(spawn("tailwater-clean", database, clean)?);
        self.grow(database)
    }

    /// Starts more threads, until there is one for each flush and compaction that may run
    /// concurrently. If these numbers were lowered, the surplus threads stay idle.
    ///
    /// # Errors
    /// Errors from starting a thread. The database continues with the threads that run.
    pub(super) fn grow(&mut self, database: &Arc<Database>) -> Result<()> {
        let options = database.context.options.now();
        let (flushes, compactions) = (options.flushes_max(), options.compactions_max());
        database.context.background.set_limits(flushes, compactions);
        for number in self.flushing.len()..flushes {
            let name = match number {
                0 => "tailwater-flush".to_owned(),
                // Linux keeps at most 15 bytes of a thread's name.
                _ => format!("tailwater-fl{number}"),
            };
            let thread = spawn(&name, database, move |database| database.run_flushes(number))?;
            self.flushing.push(thread);
        }
        for number in self.compacting.len()..compactions {
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
    thread::spawn_with(Weight::Background, name, body).map_err(Error::no_thread)
}

impl Database {
    /// Runs the loop of flushing thread `number`, counted from 0, until the database is closed. The
    /// first one also does upkeep.
    fn run_flushes(&self, number: usize) {
        // Registers this thread as one for which users wait: writers wait for flushes when
        // memtables are full.
        sync::serve_users();
        loop {
            let task = self.context.background.next_flush(number);
            if task == Task::End {
                return;
            }
            if task == Task::Flush {
                self.flushes.flush_round();
            }
            let upkeep = || {
                if task == Task::Flush {
                    self.compactions.compact_soon();
                }
                if number > 0 {
                    return;
                }
                // If a lock was lost, the failure is latched.
                let _ = self.context.check_locks();
                self.compactions.wake_if_due();
                self.dump_statistics_if_due();
                self.writes.sample_write_times_if_due();
            };
            // If the work panicked, `round` has latched the error, and later writes are refused
            // with it. So the result can be ignored here.
            let _ = self.context.round(FailedPart::Upkeep, "the upkeep of statistics", upkeep);
        }
    }

    /// Runs the cleaning thread's loop until the database is closed.
    fn run_cleaning(&self) {
        let _collector = heavy::Collector::begin();
        loop {
            match self.context.background.next_cleaning() {
                Cleaning::Remove => self.context.cleaning_round(|| self.clean()),
                // No caller is left to report to; the LOG has the result.
                Cleaning::Close => drop(self.close(&self.abandoned)),
                Cleaning::End => return,
            }
        }
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
        // Writes are resumed by the cleaning thread, not by the flushing thread. Resuming waits
        // until the leader of the write queue gives up the lead, and the leader may be waiting for
        // a flush.
        self.resume_after_shortage();
        self.relieve_others();
        self.flushes.release_followed_logs();
        epoch::collect();
        heavy::collect();
        self.update_options_file_at_rest();
        let rest = |pause| {
            self.context.background.sleep(pause);
            self.relieve_others();
            // There may be very many obsolete files.
            self.update_options_file_at_rest();
        };
        self.versions.obsolete().remove_unread(&*self.context.clock, rest);
    }
}
