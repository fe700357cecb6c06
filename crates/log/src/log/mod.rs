//! An open log.
//!
//! Its operations on streams and topics are in [`topics`], those on the stored offsets of consumers
//! in [`consumers`].

mod closing;
mod consumers;
mod open;
mod topics;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use tailwater_io::kernel::{Memory, System};
use tailwater_io::thread::{Thread, spawn};
use tailwater_io::{FileLock, Storage};

use closing::Abandoned;
pub use open::{Modes, OpenReport};
use open::{incarnation_of, new_id, open_env, open_partitions, record_opening};

use crate::catalog::{Catalog, CatalogSnapshot, PartitionId, StreamInfo};
use crate::env::Env;
use crate::guard::{GuardedStorage, LockGuard};
use crate::last_opening::LastOpening;
use crate::offsets::Offsets;
use crate::options::LogOptions;
use crate::partition::Partition;
use crate::scheduler::Scheduled;
use crate::sync::Mutex;
use crate::tail::sizing::Tuner;
use crate::ticket::Ticket;
use crate::{Error, Result, identity, layout};

/// An open message log.
///
/// Only one process can have a log open at a time. All methods are safe to call from any thread.
/// Dropping the log closes it, as [`Self::close`] describes.
pub struct Log {
    env: Arc<Env>,
    /// The record of this opening.
    opening: LastOpening,
    catalog: Arc<Catalog>,
    offsets: Arc<Offsets>,
    /// All partitions; `None` once the log is being closed.
    partitions: Mutex<Option<BTreeMap<PartitionId, Arc<Partition>>>>,
    /// The log's background threads. They are joined when the log is closed.
    threads: Mutex<Vec<Thread>>,
    /// Whether the log has background threads. If it has none, callers do their work.
    has_threads: bool,
    /// Where the last handle of the log leaves it to a thread of the log, which closes the log.
    abandoned: Arc<Abandoned>,
    /// Resizes the cache of recent data while the log is open, if its size is automatic.
    tuner: Arc<Tuner>,
    report: OpenReport,
    /// The outcome of closing the log; `None` until it is closed. This lock is held while closing
    /// is in progress.
    closed: Mutex<Option<Result<()>>>,
    /// Held while topics or partitions are created, changed or deleted. A creation holds it from
    /// the choice of an id until the object with that id exists in memory. So an id is reused only
    /// after the deleted object with that id is completely gone.
    changing: Mutex<()>,
    /// The lock on the log's directory; `None` after the log was closed.
    lock: Mutex<Option<Arc<dyn FileLock>>>,
}

impl Log {
    /// Opens the log in a directory. The directory and the log are created if they do not exist,
    /// unless [`LogOptions::create_if_missing`] is false.
    ///
    /// # Errors
    /// Busy, if the log is open elsewhere; not found, if there is no log and none may be created;
    /// invalid argument, if the directory has no log but contains other files; corruption, in the
    /// catalog or in the consumers' offsets; not supported, if the filesystem does not support a
    /// required I/O mode; I/O errors.
    ///
    /// Damage in a partition is not an error. [`Self::open_report`] reports it, and the partition
    /// refuses appends.
    pub fn open(directory: impl AsRef<Path>, options: &LogOptions) -> Result<Self> {
        let directory = directory.as_ref();
        let storage = &options.storage;
        if !options.create_if_missing {
            identity::read_existing(&**storage, directory)?;
        }
        create_directory(&**storage, directory)?;
        // Several paths may lead to the directory. Use the canonical path from here on.
        let directory = storage.canonical_path(directory)?;
        let lock_path = directory.join(layout::LOCK);
        let lock = storage.lock(&lock_path).map_err(|error| {
            let what = format_args!("cannot lock the log in {}", directory.display());
            Error::from(error).while_doing(what)
        })?;
        let lock: Arc<dyn FileLock> = Arc::from(lock);
        let guard = LockGuard::new(&lock, lock_path);
        let storage = &(GuardedStorage::new(Arc::clone(storage), &guard) as Arc<dyn Storage>);
        let id = match identity::read(&**storage, &directory)? {
            Some(id) => id,
            None if options.create_if_missing => {
                let id = new_id(&*options.clock, storage.identity(&directory)?);
                identity::create(&**storage, &directory, id)?
            }
            // The log was removed after the check above.
            None => return Err(identity::missing(&directory)),
        };
        let mut report = OpenReport::default();
        let (env, opening) = open_env(options, storage, guard, directory, id, &mut report)?;
        let env = Arc::new(env);
        let catalog = Arc::new(Catalog::open(storage, &env.directory)?);
        let streams = catalog.streams();
        layout::remove_left_over(&**storage, &env.directory, |id, incarnation| {
            incarnation_of(&streams, id) == Some(incarnation)
        })?;
        let partitions = open_partitions(&env, &catalog, &streams, &mut report)?;
        let offsets = Offsets::open(storage, &env.directory, |id, incarnation| {
            let partition = partitions.get(&id)?;
            let stats = partition.stats();
            // As long as a partition is damaged, its end is unknown. Keep all stored offsets until
            // it is restored.
            let end = if partition.failure().is_some() { u64::MAX } else { stats.end_offset };
            (stats.incarnation == incarnation).then_some(end)
        })?;
        // Record this opening last. If it is interrupted before that, the next opening must still
        // compare the machine's boot with the boot at the previous complete opening.
        let opening = record_opening(&env, opening, &mut report)?;
        let mut log = Self {
            env,
            opening,
            catalog,
            offsets: Arc::new(offsets),
            partitions: Mutex::new(Some(partitions)),
            threads: Mutex::new(Vec::new()),
            has_threads: false,
            abandoned: Arc::default(),
            tuner: Arc::default(),
            report,
            closed: Mutex::default(),
            changing: Mutex::new(()),
            lock: Mutex::new(Some(lock)),
        };
        log.start_threads(options)?;
        // Waking a partition schedules its retention. Otherwise retention would not run on time in
        // a partition without appends.
        log.partitions().iter().for_each(|partition| partition.wake());
        Ok(log)
    }

    fn start_threads(&mut self, options: &LogOptions) -> Result<()> {
        let persisters = options.persisters;
        for number in 0..persisters {
            let env = Arc::clone(&self.env);
            self.start_thread(&format!("log-persist{number}"), move || {
                env.scheduler.work(&*env.clock);
            })?;
        }
        if persisters > 0 {
            let (offsets, abandoned) = (Arc::clone(&self.offsets), Arc::clone(&self.abandoned));
            self.start_thread("log-offsets", move || {
                offsets.work();
                let closing = abandoned.lock().take();
                // No caller is left to whom the outcome could be reported.
                let _ = closing.map(|closing| closing.run());
            })?;
        }
        if persisters > 0 && options.tail_bytes_max == 0 {
            let (tuner, tails) = (Arc::clone(&self.tuner), Arc::clone(&self.env.memory));
            let memory = Memory::of_this_process(System::default());
            self.start_thread("log-memory", move || tuner.work(&tails, &memory))?;
        }
        Ok(())
    }

    fn start_thread(&mut self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
        let env = Arc::clone(&self.env);
        let body = move || {
            let _working = env.workers.begin();
            work();
        };
        let thread = spawn(name, body).map_err(Error::no_thread)?;
        self.threads.lock().push(thread);
        self.has_threads = true;
        Ok(())
    }

    /// Returns what was found when the log was opened.
    pub fn open_report(&self) -> &OpenReport {
        &self.report
    }

    /// Returns the I/O modes that are in effect.
    pub fn modes(&self) -> &Modes {
        &self.report.modes
    }

    /// Returns the canonical path of the log's directory.
    pub fn directory(&self) -> &Path {
        &self.env.directory
    }

    /// Checks that the LOCK in the log's directory was neither removed nor replaced while the log
    /// was open. If it was, another process may have opened the log, and this one changes nothing
    /// any more.
    ///
    /// # Errors
    /// I/O, naming the LOCK; the same error after the log was closed.
    pub fn check_lock(&self) -> Result<()> {
        Ok(self.env.lock.check()?)
    }

    /// Returns the storage of the log. Its statistics count the log's reads and writes by purpose.
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.env.segment_files.storage
    }

    /// Returns the memory that the tails of all partitions use, and the hard limit on it, both in
    /// bytes. A tail holds recent batches in memory.
    pub fn tail_memory(&self) -> (usize, usize) {
        (self.env.memory.used(), self.env.memory.limit())
    }

    /// Does the due work of the log's background threads in the calling thread. If the log has no
    /// persisters (threads that write batches to segments), the caller must call this method
    /// regularly.
    pub fn run_pending(&self) {
        run_pending(&self.env, &self.offsets);
    }

    /// Returns all streams by id.
    pub fn streams(&self) -> BTreeMap<u32, StreamInfo> {
        self.catalog.streams()
    }

    /// Returns the current catalog. Does not wait for a change that is being synced.
    pub fn catalog(&self) -> Arc<CatalogSnapshot> {
        self.catalog.snapshot()
    }

    /// Returns the application's records whose keys begin with `prefix`.
    ///
    /// Records are small values that an application keeps in the log's catalog. The catalog's
    /// journal orders changes of records relative to changes of streams and topics. Records whose
    /// keys begin with `stream/S/` are removed together with stream `S`. Records whose keys begin
    /// with `stream/S/topic/T/` are also removed together with topic `T` of that stream.
    pub fn records(&self, prefix: &str) -> BTreeMap<String, String> {
        self.catalog.records(prefix)
    }

    /// Changes records of the application: for each key, sets the value, or removes the record if
    /// the value is `None`. All changes are made atomically, and are durable on return.
    ///
    /// # Errors
    /// I/O errors.
    pub fn set_records(&self, changes: &[(String, Option<String>)]) -> Result<()> {
        self.catalog.set_records(changes)
    }

    /// Refuses a call that may wait for the log's work, if this thread does that work.
    ///
    /// # Errors
    /// Invalid argument.
    fn check_may_wait(&self) -> Result<()> {
        if self.env.workers.include_this_thread() {
            let message = "a callback cannot close or change the log: it would wait for callbacks";
            return Err(Error::invalid(message));
        }
        Ok(())
    }

    /// Waits for a ticket. If the log has no persister threads, the calling thread first does their
    /// work.
    fn wait(&self, ticket: Ticket) -> Result<()> {
        if !self.has_threads {
            self.run_pending();
        }
        ticket.wait()
    }

    /// Returns all partitions of all topics; none if the log was closed.
    pub fn partitions(&self) -> Vec<Arc<Partition>> {
        self.partitions.lock().iter().flat_map(BTreeMap::values).cloned().collect()
    }

    /// Returns the partition with this id.
    ///
    /// # Errors
    /// Not found; closed.
    pub fn partition(&self, id: PartitionId) -> Result<Arc<Partition>> {
        let found = self.partitions.lock().as_ref().ok_or_else(closed)?.get(&id).cloned();
        found.ok_or_else(|| Error::not_found(format!("no {id}")))
    }

    /// Removes the messages of a partition at and after `offset`. Stored offsets of consumers that
    /// are then beyond the last message are lowered to the offset of the last message.
    ///
    /// # Errors
    /// Not found; closed; the errors of [`Partition::truncate`].
    pub fn truncate(&self, id: PartitionId, offset: u64) -> Result<()> {
        self.check_may_wait()?;
        let partition = self.partition(id)?;
        self.wait(partition.truncate_and_clamp(offset, Some(Arc::clone(&self.offsets))))
    }
}

/// Returns the error for a call after the log was closed.
fn closed() -> Error {
    Error::closed("the log")
}

/// Does the due work of a log's background threads in the calling thread.
fn run_pending(env: &Env, offsets: &Offsets) {
    let _working = env.workers.begin();
    env.scheduler.run_pending(&*env.clock);
    while offsets.write_pending() {}
}

/// Creates a directory and its missing parents, and makes all of them durable.
fn create_directory(storage: &dyn Storage, directory: &Path) -> Result<()> {
    let is_missing = |path: &&Path| storage.identity(path).is_err_and(|error| error.is_not_found());
    let missing: Vec<&Path> = directory
        .ancestors()
        .filter(|path| !path.as_os_str().is_empty())
        .take_while(is_missing)
        .collect();
    storage.create_directory(directory)?;
    for path in missing.into_iter().rev().chain([directory]) {
        if let Some(parent) = storage.canonical_path(path)?.parent() {
            storage.sync_directory(parent)?;
        }
    }
    Ok(())
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let partitions = self.partitions.lock().as_ref().map_or(0, BTreeMap::len);
        write!(f, "Log({}, {partitions} partitions)", self.env.directory.display())
    }
}
