//! An open log, and the operations on its streams, topics and partitions.

mod closing;
mod open;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use tailwater_io::kernel::{Memory, System};
use tailwater_io::thread::{Thread, spawn};
use tailwater_io::{FileLock, Storage};

use closing::Abandoned;
pub use open::{Modes, OpenReport};
use open::{incarnation_of, new_id, open_env, open_partitions};

use crate::catalog::{Catalog, CatalogSnapshot, PartitionId, StreamInfo, TopicId, TopicInfo};
use crate::env::Env;
use crate::offsets::{Consumer, Offsets};
use crate::options::{Durability, LogOptions, TopicOptions};
use crate::partition::Partition;
use crate::scheduler::Scheduled;
use crate::sync::{Guard, Mutex};
use crate::tail::sizing::Tuner;
use crate::ticket::Ticket;
use crate::{Error, Result, identity, layout};

/// An open message log.
///
/// Only one process can have a log open at a time. All methods are safe to call from any thread.
/// Dropping the log closes it, as [`Self::close`] describes.
pub struct Log {
    env: Arc<Env>,
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
    lock: Mutex<Option<Box<dyn FileLock>>>,
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
        let lock = storage.lock(&directory.join(layout::LOCK)).map_err(|error| {
            let what = format_args!("cannot lock the log in {}", directory.display());
            Error::from(error).while_doing(what)
        })?;
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
        let env = Arc::new(open_env(options, directory, id, &mut report)?);
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
        env.opening.record(&**storage, &env.directory)?;
        let mut log = Self {
            env,
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

    /// Creates a stream and returns its id. If `id` is `None`, the lowest free id is used. The
    /// stream is durable on return, as are all changes of streams, topics and partitions.
    ///
    /// # Errors
    /// `AlreadyExists`, if the name or the id is in use; `InvalidArgument`, if the name is invalid;
    /// I/O errors.
    pub fn create_stream(&self, id: Option<u32>, name: &str) -> Result<u32> {
        self.catalog.create_stream(id, name, self.env.clock.wall_us())
    }

    /// Renames a stream.
    ///
    /// # Errors
    /// Not found; already exists; I/O errors.
    pub fn rename_stream(&self, stream: u32, name: &str) -> Result<()> {
        self.catalog.rename_stream(stream, name)
    }

    /// Deletes a stream with all its topics.
    ///
    /// # Errors
    /// Not found; I/O errors.
    pub fn delete_stream(&self, stream: u32) -> Result<()> {
        let _changing = self.lock_changes()?;
        let first = TopicId { stream, topic: 0 }.partition(0);
        let last = TopicId { stream, topic: u32::MAX }.partition(u32::MAX);
        let partitions = self.partitions_between(first, last)?;
        let deleted = self.catalog.delete_stream(stream);
        self.finish_deletion(deleted.map(|_| ()), partitions)
    }

    /// Creates a topic with `partitions` partitions, which are numbered from 0.
    ///
    /// # Errors
    /// Not found, if the stream does not exist; already exists, if the id or the name belongs to
    /// another topic of the stream; invalid argument, naming the option; I/O errors. After an
    /// error, neither the topic nor any of its partitions exists.
    pub fn create_topic(
        &self,
        stream: u32,
        id: Option<u32>,
        name: &str,
        options: &TopicOptions,
        partitions: u32,
    ) -> Result<TopicId> {
        let _changing = self.lock_changes()?;
        let id = self.catalog.check_topic(stream, id, name, options)?;
        let ids: Vec<u32> = (0..partitions).collect();
        let created = self.create_directories(id, &ids)?;
        let now_us = self.env.clock.wall_us();
        self.catalog.create_topic(id, name, options, &created, now_us)?;
        self.add_partitions(id, options, created);
        Ok(id)
    }

    /// Changes a topic's name and options. For existing partitions, a change of the durability or
    /// of the handling of partial blocks takes effect only when the log is opened again. There is
    /// one exception: if the new durability is `disk`, all later writes of the partitions are
    /// durable.
    ///
    /// # Errors
    /// Not found; already exists; invalid argument; I/O errors.
    pub fn update_topic(&self, id: TopicId, name: &str, options: &TopicOptions) -> Result<()> {
        let _changing = self.lock_changes()?;
        let partitions = self.partitions_of(id)?;
        if options.durability == Durability::Disk {
            // When the log is opened again, recovery relies on the durability stated in the
            // catalog. So the existing files must have that durability before the catalog states
            // it.
            let tickets: Vec<_> = partitions.iter().map(|partition| partition.harden()).collect();
            tickets.into_iter().try_for_each(|ticket| self.wait(ticket))?;
        }
        self.catalog.update_topic(id, name, options)?;
        for partition in partitions {
            partition.set_options(options);
        }
        Ok(())
    }

    /// Deletes a topic with all its partitions.
    ///
    /// # Errors
    /// Not found; I/O errors.
    pub fn delete_topic(&self, id: TopicId) -> Result<()> {
        let _changing = self.lock_changes()?;
        let partitions = self.partitions_of(id)?;
        let deleted = self.catalog.delete_topic(id);
        self.finish_deletion(deleted.map(|_| ()), partitions)
    }

    /// Adds `count` partitions to a topic and returns their ids.
    ///
    /// # Errors
    /// Not found; I/O errors. After an error, none of the new partitions exists.
    pub fn create_partitions(&self, id: TopicId, count: u32) -> Result<Vec<u32>> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let _changing = self.lock_changes()?;
        let new = self.catalog.next_partitions(id, count)?;
        let options = self.topic(id)?.options;
        let created = self.create_directories(id, &new)?;
        self.catalog.create_partitions(id, &created, self.env.clock.wall_us())?;
        self.add_partitions(id, &options, created);
        Ok(new)
    }

    /// Creates the directories of new partitions and makes them durable. Returns each partition's
    /// id with its incarnation.
    ///
    /// A crash after this, before the catalog names the partitions, is safe: opening the log
    /// removes directories that the catalog does not name.
    fn create_directories(&self, id: TopicId, partitions: &[u32]) -> Result<Vec<(u32, u64)>> {
        let first = self.catalog.reserve_incarnations(partitions.len() as u64);
        let created: Vec<(u32, u64)> = partitions.iter().copied().zip(first..).collect();
        for (partition, incarnation) in &created {
            let partition = id.partition(*partition);
            let directory =
                layout::incarnation_directory(&self.env.directory, partition, *incarnation);
            self.env.segment_files.storage.create_directory(&directory)?;
        }
        if created.is_empty() {
            return Ok(created);
        }
        // Creating the first directory may also have created its parents, so sync all of them.
        let parent = layout::partitions_directory(&self.env.directory, id.stream, id.topic);
        let mut above = Some(parent.as_path());
        while let Some(directory) = above.filter(|above| above.starts_with(&self.env.directory)) {
            self.env.segment_files.storage.sync_directory(directory)?;
            above = directory.parent();
        }
        Ok(created)
    }

    /// Opens partitions that were just added to the catalog, so that they accept appends.
    fn add_partitions(&self, id: TopicId, options: &TopicOptions, created: Vec<(u32, u64)>) {
        let mut partitions = self.partitions.lock();
        let Some(partitions) = &mut *partitions else { return };
        for (partition, incarnation) in created {
            let id = id.partition(partition);
            let options = options.clone();
            let partition = Partition::create(&self.env, &self.catalog, id, incarnation, options);
            partitions.insert(id, partition);
        }
    }

    /// Deletes the `count` partitions of a topic that have the highest ids.
    ///
    /// # Errors
    /// Not found, if the topic has fewer than `count` partitions; I/O errors.
    pub fn delete_partitions(&self, id: TopicId, count: u32) -> Result<()> {
        let _changing = self.lock_changes()?;
        let mut partitions = self.partitions_of(id)?;
        let stay = partitions.len().saturating_sub(count as usize);
        let deleted = self.catalog.delete_partitions(id, count);
        self.finish_deletion(deleted.map(|_| ()), partitions.split_off(stay))
    }

    /// Removes all messages of a topic. In each partition, the next message has offset 0.
    ///
    /// # Errors
    /// Not found; closed; I/O errors. After an error, some of the topic's partitions may already be
    /// empty.
    pub fn purge_topic(&self, id: TopicId) -> Result<()> {
        self.check_may_wait()?;
        self.topic(id)?;
        let tickets: Vec<_> = self
            .partitions_of(id)?
            .into_iter()
            .map(|partition| (partition.purge(), partition))
            .collect();
        for (ticket, partition) in tickets {
            self.wait(ticket)?;
            self.offsets.forget(partition.id(), partition.incarnation());
        }
        Ok(())
    }

    /// Takes the lock that is held while streams, topics or partitions change.
    ///
    /// # Errors
    /// The errors of [`Self::check_may_wait`].
    fn lock_changes(&self) -> Result<Guard<'_, ()>> {
        self.check_may_wait()?;
        Ok(self.changing.lock())
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

    /// Finishes a deletion. `deleted` is the outcome of the deletion's change to the catalog. If
    /// the change succeeded, closes the partitions and removes their files.
    ///
    /// If the change failed, the catalog's journal may contain it nevertheless. The deletion may
    /// then take effect when the log is next opened, and would remove messages appended until then.
    /// Therefore the partitions refuse further appends.
    fn finish_deletion(&self, deleted: Result<()>, partitions: Vec<Arc<Partition>>) -> Result<()> {
        if let Err(error) = &deleted {
            if self.catalog.is_unsettled() {
                // The appends that fail here call functions of the user, which must not close the
                // log: closing would wait for this deletion.
                let _working = self.env.workers.begin();
                partitions.iter().for_each(|partition| partition.fail(error));
            }
            return deleted;
        }
        for partition in partitions {
            if let Some(partitions) = &mut *self.partitions.lock() {
                partitions.remove(&partition.id());
            }
            self.offsets.forget(partition.id(), u64::MAX);
            // Ignore the outcome: files that cannot be removed now are removed when the log is next
            // opened.
            partition.delete().on_complete(|_| ());
        }
        Ok(())
    }

    fn topic(&self, id: TopicId) -> Result<TopicInfo> {
        let streams = self.catalog.streams();
        let topic = streams.get(&id.stream).and_then(|stream| stream.topics.get(&id.topic));
        topic.cloned().ok_or_else(|| {
            Error::not_found(format!("no topic {} in stream {}", id.topic, id.stream))
        })
    }

    /// Returns the partitions of a topic.
    ///
    /// # Errors
    /// Closed.
    fn partitions_of(&self, id: TopicId) -> Result<Vec<Arc<Partition>>> {
        self.partitions_between(id.partition(0), id.partition(u32::MAX))
    }

    fn partitions_between(
        &self,
        first: PartitionId,
        last: PartitionId,
    ) -> Result<Vec<Arc<Partition>>> {
        let partitions = self.partitions.lock();
        let partitions = partitions.as_ref().ok_or_else(closed)?;
        Ok(partitions.range(first..=last).map(|(_, partition)| Arc::clone(partition)).collect())
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

    /// Stores a consumer's offset, which is the offset of the last message that the consumer has
    /// processed. The stored offset is visible immediately. The ticket completes when the stored
    /// offset survives a crash of the process or, with the topic's option
    /// [`are_offsets_durable`](TopicOptions::are_offsets_durable), a power cut.
    ///
    /// # Errors
    /// Not found; closed; invalid argument, if the offset is above that of the partition's last
    /// message.
    pub fn store_offset(&self, id: PartitionId, consumer: Consumer, offset: u64) -> Result<Ticket> {
        self.store_offset_if(id, consumer, offset, None)
    }

    /// Like [`Self::store_offset`], for the offset of a message that a poll returned from this
    /// incarnation of the partition ([`Polled::incarnation`](crate::Polled::incarnation)). If the
    /// partition was purged since, the offset means another message: nothing is stored, and the
    /// ticket is complete.
    ///
    /// # Errors
    /// The errors of [`Self::store_offset`].
    pub fn store_polled_offset(
        &self,
        id: PartitionId,
        incarnation: u64,
        consumer: Consumer,
        offset: u64,
    ) -> Result<Ticket> {
        self.store_offset_if(id, consumer, offset, Some(incarnation))
    }

    fn store_offset_if(
        &self,
        id: PartitionId,
        consumer: Consumer,
        offset: u64,
        incarnation: Option<u64>,
    ) -> Result<Ticket> {
        let partition = self.partition(id)?;
        let is_durable = self.are_offsets_durable(id.topic());
        self.offsets.store(id, consumer, offset, is_durable, incarnation, || partition.end())
    }

    /// Returns whether changes of stored offsets must survive a power cut.
    fn are_offsets_durable(&self, id: TopicId) -> bool {
        let catalog = self.catalog.snapshot();
        catalog.topic(id).is_some_and(|topic| topic.options.are_offsets_durable)
    }

    /// Returns a consumer's stored offset; `None` if there is none.
    ///
    /// # Errors
    /// Not found, if the partition does not exist; closed.
    pub fn offset(&self, id: PartitionId, consumer: Consumer) -> Result<Option<u64>> {
        let incarnation = self.partition(id)?.incarnation();
        Ok(self.offsets.get(id, incarnation, consumer))
    }

    /// Returns the stored offsets of all consumers of a partition.
    ///
    /// # Errors
    /// Not found, if the partition does not exist; closed.
    pub fn offsets(&self, id: PartitionId) -> Result<Vec<(Consumer, u64)>> {
        let incarnation = self.partition(id)?.incarnation();
        Ok(self.offsets.all(id, incarnation))
    }

    /// Deletes a consumer's stored offset. The ticket completes when the deletion is as durable as
    /// an offset of [`Self::store_offset`].
    ///
    /// # Errors
    /// Not found, if the partition or the stored offset does not exist; closed.
    pub fn delete_offset(&self, id: PartitionId, consumer: Consumer) -> Result<Ticket> {
        let incarnation = self.partition(id)?.incarnation();
        let is_durable = self.are_offsets_durable(id.topic());
        let deleted = self.offsets.delete(id, incarnation, consumer, is_durable);
        deleted
            .ok_or_else(|| Error::not_found(format!("{consumer:?} has stored no offset in {id}")))
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
