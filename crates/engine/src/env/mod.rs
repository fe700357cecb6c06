//! The environment that databases are opened with: their background threads, their budget of file
//! descriptors and their clock.
//!
//! What belongs to threads or to the machine is not part of it, but of the process: the slots and
//! the clock of readers' epochs, since a thread may read databases of several environments; the
//! writers that are held up, since all writers share the processors; and the caches that close
//! files when any call finds no descriptor, since the system's limit is the process's.

mod pool;
#[cfg(test)]
mod tests;
mod threads;

use std::fmt;
use std::io;
use std::mem;
use std::sync::{Arc, LazyLock, Weak};

use tailwater_io::clock::SystemClock;
use tailwater_io::sync::Mutex;
use tailwater_io::{Clock, DescriptorBudget};

pub(crate) use pool::Job;
use pool::Settings;
pub(crate) use threads::{Needs, Threads};

/// The environment that databases are opened with
/// ([`OpenOptions::set_env`](crate::OpenOptions::set_env)): the threads that flush and compact, the
/// budget of file descriptors, and the clock.
///
/// By default, all databases of the process share [`Env::of_process`]. As in RocksDB, opening a
/// database raises the numbers of threads to what its `max_background_jobs` allows, and never
/// lowers them: the databases together use no more threads than the one that may use most. The
/// threads run while a database of the environment is open.
///
/// A clone is another handle to the same threads. Safe to use from any thread.
///
/// ```
/// # fn main() -> tailwater::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// # let directory = directory.path();
/// use tailwater::env::{Env, Priority};
/// use tailwater::{Db, OpenOptions};
///
/// // These two databases share four threads for compactions, and no others.
/// let env = Env::new();
/// env.set_background_threads(4, Priority::Low);
/// env.lower_thread_pool_io_priority(Priority::Low);
/// let mut options = OpenOptions::default();
/// options.create_if_missing(true).set_env(env.clone());
/// let first = Db::open(directory.join("first"), &options)?;
/// let second = Db::open(directory.join("second"), &options)?;
/// assert_eq!(env.background_threads(Priority::Low), 4);
/// # drop((first, second));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Env {
    shared: Arc<Shared>,
    descriptors: DescriptorBudget,
    clock: Arc<dyn Clock>,
}

#[derive(Default)]
struct Shared {
    /// The settings of the pools, in the order of [`Priority`].
    settings: Mutex<[Settings; Priority::COUNT]>,
    /// The threads, if a database is open. Locked before `settings`.
    threads: Mutex<Weak<Threads>>,
}

/// The pools of background threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// Compactions into the last level, which can wait longest, if this pool has any threads.
    Bottom,
    /// Compactions; flushes, if the pool of high priority has no threads.
    Low,
    /// Flushes, for which writes may wait.
    High,
    /// Jobs of the program ([`Env::schedule`]).
    User,
}

impl Priority {
    const COUNT: usize = 4;
    const ALL: [Self; Self::COUNT] = [Self::Bottom, Self::Low, Self::High, Self::User];

    /// Returns the function that names a thread, given the number of those started before it.
    fn thread_name(self) -> fn(usize) -> String {
        match self {
            Self::Bottom => |number| format!("tailwater-bot{number}"),
            Self::Low => |number| format!("tailwater-comp{number}"),
            // Linux keeps at most 15 bytes of a thread's name.
            Self::High => |number| match number {
                0 => "tailwater-flush".to_owned(),
                _ => format!("tailwater-fl{number}"),
            },
            Self::User => |number| format!("tailwater-user{number}"),
        }
    }
}

impl Env {
    /// Returns the environment that databases use by default. It is shared by the whole process.
    pub fn of_process() -> Self {
        static PROCESS: LazyLock<Env> = LazyLock::new(Env::new);
        PROCESS.clone()
    }

    /// Creates an environment with its own threads, the process's budget of file descriptors, and
    /// the system's clock.
    pub fn new() -> Self {
        Self {
            shared: Arc::default(),
            descriptors: DescriptorBudget::of_process(),
            clock: Arc::new(SystemClock),
        }
    }

    /// Returns an environment with the same threads and another budget of file descriptors.
    #[must_use]
    pub fn with_descriptor_budget(&self, descriptors: DescriptorBudget) -> Self {
        Self { descriptors, ..self.clone() }
    }

    /// Returns an environment with the same threads and another clock.
    #[must_use]
    pub fn with_clock(&self, clock: Arc<dyn Clock>) -> Self {
        Self { clock, ..self.clone() }
    }

    /// Returns the budget of file descriptors.
    pub fn descriptor_budget(&self) -> &DescriptorBudget {
        &self.descriptors
    }

    /// Returns the clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Sets the number of threads of a pool; a program can raise and lower it at any time. Threads
    /// beyond a lowered number end after the job that they run. Without any threads of high or
    /// bottom priority, those of low priority do their jobs, also those that wait already. Opening
    /// a database raises the numbers again to what its options allow.
    ///
    /// Without any threads of low priority, nothing is compacted, and without any of low and high
    /// priority, nothing is flushed, so that writes stop once the memtables are full.
    pub fn set_background_threads(&self, count: usize, priority: Priority) {
        self.change(priority, |settings| settings.threads = count);
    }

    /// Raises the number of threads of a pool to `count`, unless it is higher.
    pub fn increase_background_threads(&self, count: usize, priority: Priority) {
        self.change(priority, |settings| settings.threads = settings.threads.max(count));
    }

    /// Returns the number of threads of a pool: the number that may run, whether they do or not.
    pub fn background_threads(&self, priority: Priority) -> usize {
        self.shared.settings.lock()[priority as usize].threads
    }

    /// Gives the threads of a pool the lowest weight of their scheduling policy (a nice value of
    /// 19), permanently. A thread with other work may delay them while they hold a lock that users
    /// wait for. To give way to users' reads, no call is needed: see `low_priority_compactions`.
    pub fn lower_thread_pool_cpu_priority(&self, priority: Priority) {
        self.change(priority, |settings| settings.lowered.cpu = true);
    }

    /// Makes the requests of a pool's threads those of the idle I/O class, permanently. Only some
    /// I/O schedulers of Linux respect this, such as BFQ.
    pub fn lower_thread_pool_io_priority(&self, priority: Priority) {
        self.change(priority, |settings| settings.lowered.io = true);
    }

    /// Runs a job of the program in a thread of a pool, after the jobs that were scheduled before.
    /// If no database of this environment is open, or the pool has no threads, the job is dropped
    /// without being run, and false is returned. It is also dropped if the last database is closed
    /// before the job has begun; closing it waits for jobs that have.
    pub fn schedule(&self, priority: Priority, job: impl FnOnce() + Send + 'static) -> bool {
        let Some(threads) = Self::own(&self.shared.threads.lock()) else { return false };
        threads.pool(priority).schedule(Job::new(PROGRAM, job)).is_ok()
    }

    /// Returns the threads for a database with these needs, after starting what is missing. They
    /// run until the last database has dropped them.
    ///
    /// # Errors
    /// Errors from starting a thread.
    pub(crate) fn enter(&self, needs: Needs) -> io::Result<Arc<Threads>> {
        self.allow(needs);
        self.start(needs)
    }

    /// Raises the numbers of threads that a change of a database's options raises, and starts what
    /// is missing.
    ///
    /// # Errors
    /// Errors from starting a thread. Those that run continue.
    pub(crate) fn grow(&self, before: Needs, after: Needs) -> io::Result<()> {
        self.allow(after.beyond(before));
        self.start(after).map(drop)
    }

    fn start(&self, needs: Needs) -> io::Result<Arc<Threads>> {
        let mut threads = self.shared.threads.lock();
        let settings = *self.shared.settings.lock();
        let needs = needs.with_threads(&settings);
        if let Some(running) = Self::own(&threads) {
            // Unlocked first, because threads must not be joined while this is locked: a job of the
            // program may be waiting for the lock.
            drop(threads);
            running.grow(needs)?;
            return Ok(running);
        }
        let started = Arc::new(Threads::start(settings, needs)?);
        *threads = Arc::downgrade(&started);
        Ok(started)
    }

    /// Returns the threads, if they run in this process.
    fn own(threads: &Weak<Threads>) -> Option<Arc<Threads>> {
        let threads = threads.upgrade()?;
        if threads.are_own() {
            return Some(threads);
        }
        // A process was forked while a database was open. The threads do not exist here, so they
        // cannot be joined.
        mem::forget(threads);
        None
    }

    /// Raises the numbers of threads to the needs of a database.
    pub(crate) fn allow(&self, needs: Needs) {
        self.increase_background_threads(needs.flushes, Priority::High);
        self.increase_background_threads(needs.compactions, Priority::Low);
    }

    fn change(&self, priority: Priority, change: impl FnOnce(&mut Settings)) {
        change(&mut self.shared.settings.lock()[priority as usize]);
        let threads = Self::own(&self.shared.threads.lock());
        if let Some(threads) = threads {
            // Locked meanwhile, so that the last settings stay in force.
            let settings = self.shared.settings.lock();
            threads.pool(priority).set(settings[priority as usize]);
            let needs = Needs::default().with_threads(&settings);
            drop(settings);
            threads.move_stranded();
            // A thread that the system refuses is started later, if a job lacks one.
            let _ = threads.grow(needs);
        }
    }
}

/// The owner of the program's jobs; those of databases are never 0.
const PROGRAM: u64 = 0;

impl Default for Env {
    /// Returns the environment of the process.
    fn default() -> Self {
        Self::of_process()
    }
}

impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let threads = Priority::ALL.map(|priority| self.background_threads(priority));
        f.debug_struct("Env").field("threads", &threads).finish_non_exhaustive()
    }
}
