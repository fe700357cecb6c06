//! The threads of an environment. They run as long as a database of the environment is open.

use std::io;
use std::sync::Arc;

use tailwater_io::stream::Workers;
use tailwater_io::sync::Mutex;

use super::Priority;
use super::pool::{Job, Pool, Settings};
use crate::options::DbOptions;

/// Number of threads for upkeep that are kept: one that runs a short job, and one that waits until
/// the next one is due.
const UPKEEP_KEPT: usize = 2;

/// The threads of an environment. Dropping them joins them.
#[derive(Debug)]
pub(crate) struct Threads {
    /// The pools of [`Priority`], in the order of its variants.
    pools: [Pool; Priority::COUNT],
    /// Runs short periodic jobs, and jobs that may wait for others: removing files, resuming
    /// writes. It gets as many threads as it has such jobs, so none of them delays another.
    upkeep: Pool,
    workers: AheadWorkers,
    /// Held while a job moves from one pool to another, and while jobs are cancelled, so that a job
    /// is always in a pool when it is cancelled. Locked before the states of the pools.
    moving: Mutex<()>,
    /// The process that has the threads. A child that was forked has only a copy of this value.
    process: u32,
}

/// Thread pools that read ahead or write for flushes and compactions.
#[derive(Debug, Clone)]
pub(crate) struct AheadWorkers {
    /// Write the full buffers of flushes.
    pub(crate) flush_writers: Arc<Workers>,
    /// Write the full buffers of compactions and ingestions.
    pub(crate) compaction_writers: Arc<Workers>,
    /// Read the inputs of compactions ahead if the system has no asynchronous I/O.
    pub(crate) input_readers: Arc<Workers>,
}

/// Maximum numbers of the jobs of a database that run at the same time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Needs {
    pub(crate) flushes: usize,
    pub(crate) compactions: usize,
    pub(crate) jobs: usize,
}

impl Needs {
    /// Returns what a database with these options needs.
    pub(crate) fn of(options: &DbOptions) -> Self {
        Self {
            flushes: options.flushes_max(),
            compactions: options.compactions_max(),
            jobs: options.jobs_max(),
        }
    }

    /// Returns these needs, raised so that all threads of the pools can write tables at the same
    /// time.
    pub(super) fn with_threads(self, settings: &[Settings; Priority::COUNT]) -> Self {
        let threads = |priority: Priority| settings[priority as usize].threads;
        let compacting = threads(Priority::Low).saturating_add(threads(Priority::Bottom));
        let flushing = match threads(Priority::High) {
            0 => threads(Priority::Low),
            flushing => flushing,
        };
        Self { flushes: self.flushes.max(flushing), jobs: self.jobs.max(compacting), ..self }
    }

    /// Returns those that are higher than before, and 0 for the others.
    pub(super) fn beyond(self, before: Self) -> Self {
        let beyond = |now, before| if now > before { now } else { 0 };
        Self {
            flushes: beyond(self.flushes, before.flushes),
            compactions: beyond(self.compactions, before.compactions),
            jobs: beyond(self.jobs, before.jobs),
        }
    }
}

impl AheadWorkers {
    fn start(needs: Needs) -> io::Result<Self> {
        let start = |name, count| Workers::new(name, count).map(Arc::new);
        Ok(Self {
            flush_writers: start("tailwater-write", needs.flushes)?,
            compaction_writers: start("tailwater-compw", needs.jobs)?,
            input_readers: start("tailwater-compr", needs.jobs)?,
        })
    }

    fn grow(&self, needs: Needs) -> io::Result<()> {
        self.flush_writers.grow(needs.flushes)?;
        self.compaction_writers.grow(needs.jobs)?;
        self.input_readers.grow(needs.jobs)
    }
}

impl Threads {
    /// Starts the threads for one database with these needs.
    ///
    /// # Errors
    /// Errors from starting a thread. Those started before it have ended.
    pub(super) fn start(settings: [Settings; Priority::COUNT], needs: Needs) -> io::Result<Self> {
        let workers = AheadWorkers::start(needs)?;
        let pool = |priority: Priority| {
            Pool::new(priority.thread_name(), usize::MAX, settings[priority as usize])
        };
        let unbounded = Settings { threads: usize::MAX, ..Settings::default() };
        let upkeep = Pool::new(|_| "tailwater-clean".to_owned(), UPKEEP_KEPT, unbounded);
        let process = std::process::id();
        let threads = Self {
            pools: Priority::ALL.map(pool),
            upkeep,
            workers,
            moving: Mutex::default(),
            process,
        };
        threads.start_pools()?;
        Ok(threads)
    }

    /// Starts the threads that are missing for a database with these needs.
    ///
    /// # Errors
    /// Errors from starting a thread. Those that run continue.
    pub(super) fn grow(&self, needs: Needs) -> io::Result<()> {
        let started = self.start_pools();
        self.workers.grow(needs).and(started)
    }

    fn start_pools(&self) -> io::Result<()> {
        // Flushes first: without them, writes would stop.
        self.pool(Priority::High).start()?;
        self.upkeep.start()?;
        self.pools.iter().try_for_each(Pool::start)
    }

    /// Returns the pool of a priority.
    pub(crate) fn pool(&self, priority: Priority) -> &Pool {
        &self.pools[priority as usize]
    }

    /// Whether these are threads of the calling process, and not of one that has forked it.
    pub(super) fn are_own(&self) -> bool {
        self.process == std::process::id()
    }

    /// Schedules a job of a database in a pool or, if that has no thread, in the pool of low
    /// priority. If that has none either, the job waits until one of them does.
    pub(crate) fn schedule(&self, priority: Priority, job: Job) {
        let _moving = self.moving.lock();
        self.schedule_while_moving(priority, job);
    }

    fn schedule_while_moving(&self, priority: Priority, job: Job) {
        let pool = self.pool(priority);
        if let Err(job) = pool.schedule(job)
            && let Err(job) = self.pool(Priority::Low).schedule(job)
        {
            pool.queue(job);
        }
    }

    /// Moves jobs of databases that wait in pools without threads, if there is another pool for
    /// them now.
    pub(super) fn move_stranded(&self) {
        let _moving = self.moving.lock();
        for priority in [Priority::High, Priority::Bottom] {
            for job in self.pool(priority).take_stranded() {
                self.schedule_while_moving(priority, job);
            }
        }
    }

    /// Whether jobs wait for a thread that flushes.
    pub(crate) fn flushes_wait(&self) -> bool {
        let high = self.pool(Priority::High);
        if high.threads_max() > 0 { high.is_busy() } else { self.pool(Priority::Low).is_busy() }
    }

    /// Starts threads that the system refused before, or that a thread with a lowered priority has
    /// left to others, if jobs wait for them.
    pub(crate) fn start_missing(&self) {
        self.pools.iter().chain([&self.upkeep]).for_each(Pool::start_missing);
    }

    /// Returns the pool for upkeep.
    pub(crate) fn upkeep(&self) -> &Pool {
        &self.upkeep
    }

    /// Returns the threads that read ahead or write for flushes and compactions.
    pub(crate) fn workers(&self) -> &AheadWorkers {
        &self.workers
    }

    /// Drops the jobs of an owner that no thread has begun.
    pub(crate) fn cancel(&self, owner: u64) {
        let moving = self.moving.lock();
        let pools = self.pools.iter().chain([&self.upkeep]);
        let cancelled: Vec<Job> = pools.flat_map(|pool| pool.take_jobs(owner)).collect();
        drop(moving);
        // Dropped without a lock, because the end of a job may schedule another one.
        drop(cancelled);
    }
}
