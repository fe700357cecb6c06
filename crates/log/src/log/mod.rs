//! An open log: its streams, topics and partitions.

mod open;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use tailwater_io::kernel::{Memory, System};
use tailwater_io::thread::{Thread, spawn};
use tailwater_io::{FileLock, Storage};

pub use open::{Modes, OpenReport};
use open::{incarnation_of, new_id, open_env, open_partitions};

use crate::catalog::{Catalog, CatalogSnapshot, PartitionId, StreamInfo, TopicId, TopicInfo};
use crate::env::Env;
use crate::offsets::{Consumer, Offsets};
use crate::options::{Durability, LogOptions, TopicOptions};
use crate::panics;
use crate::partition::Partition;
use crate::scheduler::Scheduled;
use crate::sync::Mutex;
use crate::tail::sizing::Tuner;
use crate::ticket::Ticket;
use crate::{Error, Result, identity, layout};

/// An open message log.
///
/// One process at a time can open a log. All methods are safe to call from any thread. Dropping the
/// log closes it.
pub struct Log {
    env: Arc<Env>,
    catalog: Arc<Catalog>,
    offsets: Arc<Offsets>,
    partitions: Mutex<BTreeMap<PartitionId, Arc<Partition>>>,
    /// Background threads, joined when the log is closed.
    threads: Mutex<Vec<Thread>>,
    /// Sizes the cache of recent data, if its size is automatic.
    tuner: Arc<Tuner>,
    report: OpenReport,
    /// The outcome of closing. Locked while the log is being closed.
    closed: Mutex<Option<Result<()>>>,
    /// Held while topics or partitions are created, changed or deleted, from the choice of an id
    /// until the partitions with that id exist. An id is thus reused only when nothing is left of
    /// the deleted object that had the id before.
    changing: Mutex<()>,
    /// The lock on the log's directory, held until the log is closed.
    lock: Mutex<Option<Box<dyn FileLock>>>,
}

impl Log {
    /// Opens the log in a directory, which is created if it does not exist.
    ///
    /// # Errors
    /// Busy, if the log is open elsewhere; invalid argument, if the directory contains other files;
    /// corruption, in the catalog or the offsets; not supported, for an I/O mode that the
    /// filesystem does not support; I/O errors. Damage in a partition is not an error:
    /// [`Self::open_report`] reports it, and the partition refuses appends.
    pub fn open(directory: impl AsRef<Path>, options: &LogOptions) -> Result<Self> {
        let directory = directory.as_ref();
        let storage = &options.storage;
        create_directory(&**storage, directory)?;
        // A directory may have several paths; the canonical one is used throughout.
        let directory = storage.canonical_path(directory)?;
        let lock = storage.lock(&directory.join(layout::LOCK)).map_err(|error| {
            let what = format_args!("cannot lock the log in {}", directory.display());
            Error::from(error).while_doing(what)
        })?;
        let id = match identity::read(&**storage, &directory)? {
            Some(id) => id,
            None => {
                let id = new_id(&*options.clock, storage.identity(&directory)?);
                identity::create(&**storage, &directory, id)?
            }
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
            // The end of a damaged partition is unknown until it is restored.
            let end = if partition.failure().is_some() { u64::MAX } else { stats.end_offset };
            (stats.incarnation == incarnation).then_some(end)
        })?;
        // Recorded last: if this opening is interrupted, the next opening must still compare its
        // boot with the boot of the earlier opening.
        env.opening.record(&**storage, &env.directory)?;
        let log = Self {
            env,
            catalog,
            offsets: Arc::new(offsets),
            partitions: Mutex::new(partitions),
            threads: Mutex::new(Vec::new()),
            tuner: Arc::default(),
            report,
            closed: Mutex::default(),
            changing: Mutex::new(()),
            lock: Mutex::new(Some(lock)),
        };
        log.start_threads(options)?;
        // Waking each partition schedules its retention, which must run on time even if nothing is
        // appended.
        log.partitions().iter().for_each(|partition| partition.wake());
        Ok(log)
    }

    fn start_threads(&self, options: &LogOptions) -> Result<()> {
        let persisters = options.persisters;
        let mut threads = self.threads.lock();
        for number in 0..persisters {
            let env = Arc::clone(&self.env);
            let name = format!("log-persist{number}");
            let work = move || env.scheduler.work(&*env.clock);
            threads.push(spawn(&name, work).map_err(Error::no_thread)?);
        }
        if persisters > 0 {
            let offsets = Arc::clone(&self.offsets);
            threads.push(spawn("log-offsets", move || offsets.work()).map_err(Error::no_thread)?);
        }
        if persisters > 0 && options.tail_bytes_max == 0 {
            let (tuner, tails) = (Arc::clone(&self.tuner), Arc::clone(&self.env.memory));
            let memory = Memory::of_this_process(System::default());
            let work = move || tuner.work(&tails, &memory);
            threads.push(spawn("log-memory", work).map_err(Error::no_thread)?);
        }
        Ok(())
    }

    /// Returns the findings of opening the log.
    pub fn open_report(&self) -> &OpenReport {
        &self.report
    }

    /// Returns the effective I/O mode of each purpose.
    pub fn modes(&self) -> &Modes {
        &self.report.modes
    }

    /// Returns the log's directory.
    pub fn directory(&self) -> &Path {
        &self.env.directory
    }

    /// Returns the storage, whose statistics count reads and writes by purpose.
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.env.segment_files.storage
    }

    /// Returns the memory in use by all tails, and the hard limit on that memory, in bytes.
    pub fn tail_memory(&self) -> (usize, usize) {
        (self.env.memory.used(), self.env.memory.limit())
    }

    /// Does, in the calling thread, the work that is pending for the log's threads.
    pub fn run_pending(&self) {
        self.env.scheduler.run_pending(&*self.env.clock);
        while self.offsets.write_pending() {}
    }

    /// Returns all streams, by their ids.
    pub fn streams(&self) -> BTreeMap<u32, StreamInfo> {
        self.catalog.streams()
    }

    /// Returns the current catalog, without waiting for a change in progress.
    pub fn catalog(&self) -> Arc<CatalogSnapshot> {
        self.catalog.snapshot()
    }

    /// Returns the application's records whose keys begin with `prefix`, by their keys.
    ///
    /// Records are small values that an application keeps in the log's catalog, so that one journal
    /// orders the application's changes and the log's changes. Records whose keys begin with
    /// `stream/S/` are removed together with stream `S`; records whose keys begin with
    /// `stream/S/topic/T/` are removed together with topic `T` as well.
    pub fn records(&self, prefix: &str) -> BTreeMap<String, String> {
        self.catalog.records(prefix)
    }

    /// Sets the records that have a value in `changes`, and removes those whose value is `None`, in
    /// one atomic change. The change is durable when this returns.
    ///
    /// # Errors
    /// I/O errors.
    pub fn set_records(&self, changes: &[(String, Option<String>)]) -> Result<()> {
        self.catalog.set_records(changes)
    }

    /// Creates a stream, with the lowest free id if none is given. The stream is durable when this
    /// returns. This holds for all changes of the catalog.
    ///
    /// # Errors
    /// Already exists, for name or id; invalid argument, for the name; I/O errors.
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
        let _changing = self.changing.lock();
        let first = TopicId { stream, topic: 0 }.partition(0);
        let last = TopicId { stream, topic: u32::MAX }.partition(u32::MAX);
        let partitions = self.partitions_between(first, last);
        let deleted = self.catalog.delete_stream(stream);
        self.finish_deletion(deleted.map(|_| ()), partitions)
    }

    /// Creates a topic with `partitions` partitions, whose ids count from 0.
    ///
    /// # Errors
    /// Not found, for the stream; already exists; invalid argument, naming the option; I/O errors.
    /// On an error neither the topic nor any of its partitions exists.
    pub fn create_topic(
        &self,
        stream: u32,
        id: Option<u32>,
        name: &str,
        options: &TopicOptions,
        partitions: u32,
    ) -> Result<TopicId> {
        let _changing = self.changing.lock();
        let id = self.catalog.check_topic(stream, id, name, options)?;
        let ids: Vec<u32> = (0..partitions).collect();
        let created = self.create_directories(id, &ids)?;
        let now_us = self.env.clock.wall_us();
        self.catalog.create_topic(id, name, options, &created, now_us)?;
        self.add_partitions(id, options, created);
        Ok(id)
    }

    /// Changes a topic's name and options. The durability and the handling of partial blocks take
    /// effect for existing partitions only when the log is opened again, with one exception: if the
    /// new durability is `disk`, the partitions' writes are durable from now on.
    ///
    /// # Errors
    /// Not found; already exists; invalid argument; I/O errors.
    pub fn update_topic(&self, id: TopicId, name: &str, options: &TopicOptions) -> Result<()> {
        let _changing = self.changing.lock();
        let partitions = self.partitions_of(id);
        if options.durability == Durability::Disk {
            // When the log is opened again, recovery assumes the durability in the catalog. The
            // existing files must have that durability before the catalog states it.
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
        let _changing = self.changing.lock();
        let deleted = self.catalog.delete_topic(id);
        self.finish_deletion(deleted.map(|_| ()), self.partitions_of(id))
    }

    /// Adds partitions to a topic. Returns their ids.
    ///
    /// # Errors
    /// Not found; I/O errors. On an error none of the new partitions exists.
    pub fn create_partitions(&self, id: TopicId, count: u32) -> Result<Vec<u32>> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let _changing = self.changing.lock();
        let new = self.catalog.next_partitions(id, count)?;
        let options = self.topic(id)?.options;
        let created = self.create_directories(id, &new)?;
        self.catalog.create_partitions(id, &created, self.env.clock.wall_us())?;
        self.add_partitions(id, &options, created);
        Ok(new)
    }

    /// Creates the directories of new partitions, durably. Returns the partitions with their
    /// incarnations.
    ///
    /// A crash afterwards is safe: opening the log removes directories that the catalog does not
    /// name.
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
        // The first partition's call also creates the parent directories.
        let parent = layout::partitions_directory(&self.env.directory, id.stream, id.topic);
        let mut above = Some(parent.as_path());
        while let Some(directory) = above.filter(|above| above.starts_with(&self.env.directory)) {
            self.env.segment_files.storage.sync_directory(directory)?;
            above = directory.parent();
        }
        Ok(created)
    }

    /// Opens new partitions, which are already in the catalog, for appends.
    fn add_partitions(&self, id: TopicId, options: &TopicOptions, created: Vec<(u32, u64)>) {
        let mut partitions = self.partitions.lock();
        for (partition, incarnation) in created {
            let id = id.partition(partition);
            let options = options.clone();
            let partition = Partition::create(&self.env, &self.catalog, id, incarnation, options);
            partitions.insert(id, partition);
        }
    }

    /// Deletes the `count` partitions with the highest ids.
    ///
    /// # Errors
    /// Not found, if the topic has fewer than `count` partitions; I/O errors.
    pub fn delete_partitions(&self, id: TopicId, count: u32) -> Result<()> {
        let _changing = self.changing.lock();
        let mut partitions = self.partitions_of(id);
        let stay = partitions.len().saturating_sub(count as usize);
        let deleted = self.catalog.delete_partitions(id, count);
        self.finish_deletion(deleted.map(|_| ()), partitions.split_off(stay))
    }

    /// Removes all messages of a topic. The next message of each partition has offset 0.
    ///
    /// # Errors
    /// Not found; I/O errors. On an error some of the topic's partitions may already be purged.
    pub fn purge_topic(&self, id: TopicId) -> Result<()> {
        self.topic(id)?;
        let tickets: Vec<_> = self
            .partitions_of(id)
            .into_iter()
            .map(|partition| (partition.purge(), partition))
            .collect();
        for (ticket, partition) in tickets {
            self.wait(ticket)?;
            self.offsets.forget(partition.id(), partition.stats().incarnation);
        }
        Ok(())
    }

    /// Waits for a ticket. If the log has no persisters, the calling thread first does their work.
    fn wait(&self, ticket: Ticket) -> Result<()> {
        if self.threads.lock().is_empty() {
            self.run_pending();
        }
        ticket.wait()
    }

    /// Closes partitions and removes their files, if `deleted` states that the catalog no longer
    /// contains them. If the deletion failed and the catalog is unsettled, the partitions refuse
    /// further appends: the deletion may take effect when the log is next opened, and would then
    /// remove the new batches.
    fn finish_deletion(&self, deleted: Result<()>, partitions: Vec<Arc<Partition>>) -> Result<()> {
        if let Err(error) = &deleted {
            if self.catalog.is_unsettled() {
                partitions.iter().for_each(|partition| partition.fail(error));
            }
            return deleted;
        }
        for partition in partitions {
            self.partitions.lock().remove(&partition.id());
            self.offsets.forget(partition.id(), u64::MAX);
            // Files that cannot be removed now are removed when the log is next opened.
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

    fn partitions_of(&self, id: TopicId) -> Vec<Arc<Partition>> {
        self.partitions_between(id.partition(0), id.partition(u32::MAX))
    }

    fn partitions_between(&self, first: PartitionId, last: PartitionId) -> Vec<Arc<Partition>> {
        let partitions = self.partitions.lock();
        partitions.range(first..=last).map(|(_, partition)| Arc::clone(partition)).collect()
    }

    /// Returns all partitions.
    pub fn partitions(&self) -> Vec<Arc<Partition>> {
        self.partitions.lock().values().cloned().collect()
    }

    /// Returns a partition.
    ///
    /// # Errors
    /// Not found.
    pub fn partition(&self, id: PartitionId) -> Result<Arc<Partition>> {
        let found = self.partitions.lock().get(&id).cloned();
        found.ok_or_else(|| Error::not_found(format!("no {id}")))
    }

    /// Stores a consumer's offset: the offset of the last message that the consumer has processed.
    /// The stored offset is visible immediately. The ticket completes when it survives the death of
    /// the process or, with `is_durable`, a power cut.
    ///
    /// # Errors
    /// Not found; invalid argument, for an offset beyond the partition's last message.
    pub fn store_offset(
        &self,
        id: PartitionId,
        consumer: Consumer,
        offset: u64,
        is_durable: bool,
    ) -> Result<Ticket> {
        let partition = self.partition(id)?;
        let end = || {
            let stats = partition.stats();
            (stats.incarnation, stats.end_offset)
        };
        self.offsets.store(id, consumer, offset, is_durable, end)
    }

    /// Returns a consumer's offset; `None` if the consumer has stored none.
    ///
    /// # Errors
    /// Not found.
    pub fn offset(&self, id: PartitionId, consumer: Consumer) -> Result<Option<u64>> {
        let incarnation = self.partition(id)?.stats().incarnation;
        Ok(self.offsets.get(id, incarnation, consumer))
    }

    /// Returns the offsets of all consumers of a partition.
    ///
    /// # Errors
    /// Not found.
    pub fn offsets(&self, id: PartitionId) -> Result<Vec<(Consumer, u64)>> {
        let incarnation = self.partition(id)?.stats().incarnation;
        Ok(self.offsets.all(id, incarnation))
    }

    /// Deletes a consumer's offset.
    ///
    /// # Errors
    /// Not found, including for a consumer that has stored no offset.
    pub fn delete_offset(
        &self,
        id: PartitionId,
        consumer: Consumer,
        is_durable: bool,
    ) -> Result<Ticket> {
        let incarnation = self.partition(id)?.stats().incarnation;
        let deleted = self.offsets.delete(id, incarnation, consumer, is_durable);
        deleted
            .ok_or_else(|| Error::not_found(format!("{consumer:?} has stored no offset in {id}")))
    }

    /// Removes the messages of a partition at and after an offset. A consumer's offset beyond the
    /// partition's new last message becomes the offset of that message.
    ///
    /// # Errors
    /// Not found; the errors of [`Partition::truncate`].
    pub fn truncate(&self, id: PartitionId, offset: u64) -> Result<()> {
        let partition = self.partition(id)?;
        self.wait(partition.truncate_and_clamp(offset, Some(Arc::clone(&self.offsets))))
    }

    /// Persists everything, closes the log and removes its shared memory.
    ///
    /// # Errors
    /// The first error from a partition. Shared memory then keeps the unpersisted batches. If
    /// `close` is called again, the call waits for the first one and returns the same result.
    pub fn close(&self) -> Result<()> {
        // A panic also counts as an outcome: a second attempt to close would remove shared memory
        // that is still needed.
        let close = || panics::catch("closing the log", || self.close_once());
        self.closed.lock().get_or_insert_with(close).clone()
    }

    fn close_once(&self) -> Result<()> {
        // Waits for calls in progress that create or change topics or partitions. Later calls wait
        // for this lock, and then fail because the catalog is closed.
        let _changing = self.changing.lock();
        let partitions = std::mem::take(&mut *self.partitions.lock());
        let tickets: Vec<Ticket> = partitions.values().map(|partition| partition.close()).collect();
        let mut outcome = Ok(());
        for ticket in tickets {
            outcome = outcome.and(self.wait(ticket));
        }
        let synced = self.offsets.sync();
        self.env.scheduler.close();
        self.offsets.close();
        self.tuner.end();
        drop(std::mem::take(&mut *self.threads.lock()));
        // If anything is unpersisted, the process that opens the log next needs the contents of
        // shared memory.
        let outcome = outcome.and(synced);
        let outcome = self.env.memory.close(outcome.is_ok()).and(outcome);
        drop(partitions);
        self.catalog.close();
        // From here on, a process that opens the log finds it in its final state.
        *self.lock.lock() = None;
        outcome
    }
}

/// Creates a directory and its parents, durably.
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

impl Drop for Log {
    fn drop(&mut self) {
        // A caller that needs the outcome calls `close`.
        let _ = self.close();
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let partitions = self.partitions.lock().len();
        write!(f, "Log({}, {partitions} partitions)", self.env.directory.display())
    }
}
