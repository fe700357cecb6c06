//! The catalog of a log: its streams, topics and partitions, and the current incarnation of each
//! partition. It also stores records of the application.
//!
//! The catalog is stored as a journal of changes. A change takes effect only when it is durable.
//! One lock serializes all changes. It is held while the journal is synced, which is acceptable
//! because changes are rare.
//!
//! The numbers of incarnations come from a counter in the journal. A number that has been used is
//! never reused.

mod snapshot;
mod state;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tailwater_io::Storage;

pub use snapshot::CatalogSnapshot;
use state::{Change, State};
pub use state::{PartitionId, PartitionInfo, StreamInfo, TopicId, TopicInfo};

use crate::journal::{self, Journal};
use crate::options::TopicOptions;
use crate::sync::Mutex;
use crate::{Error, ErrorKind, Result};

/// Name of the catalog's journal. The names of the journal's files begin with it.
const NAME: &str = "catalog";

/// The streams, topics and partitions of an open log. Safe to use from any thread.
#[derive(Debug)]
pub(crate) struct Catalog {
    inner: Mutex<Inner>,
    /// A copy of `inner.state` for readers, which must not wait while a change is synced. It is an
    /// `ArcSwap` and not a `Published` (the type used elsewhere), because a `Published` value may
    /// be missing.
    published: ArcSwap<CatalogSnapshot>,
}

#[derive(Debug)]
struct Inner {
    journal: Journal,
    state: State,
    /// Whether the journal may contain a change that failed, and that is therefore not in `state`.
    is_unsettled: bool,
    is_closed: bool,
}

/// Reads the catalog of a log that need not be open, and returns its streams by id.
///
/// # Errors
/// Corruption; I/O errors.
pub(crate) fn read(storage: &dyn Storage, directory: &Path) -> Result<BTreeMap<u32, StreamInfo>> {
    match journal::read(storage, directory, NAME)? {
        Some(contents) => Ok(State::replay(contents.records(), &contents.path)?.streams),
        None => Ok(BTreeMap::new()),
    }
}

impl Catalog {
    /// Opens the catalog in a log's directory. If the directory has no catalog, an empty one is
    /// created.
    ///
    /// # Errors
    /// Corruption; I/O errors.
    pub(crate) fn open(storage: &Arc<dyn Storage>, directory: &Path) -> Result<Self> {
        let (journal, contents) =
            Journal::open(storage, directory, NAME, || State::default().to_snapshot())?;
        let state = match contents {
            Some(contents) => State::replay(contents.records(), journal.path())?,
            None => State::default(),
        };
        let published = ArcSwap::from_pointee(CatalogSnapshot::new(&state));
        let inner = Inner { journal, state, is_unsettled: false, is_closed: false };
        Ok(Self { inner: Mutex::new(inner), published })
    }

    /// Makes all later changes fail, because another process may soon own the directory.
    pub(crate) fn close(&self) {
        self.inner.lock().is_closed = true;
    }

    /// Returns whether the journal may contain a change that failed. Such a change would take
    /// effect when the log is reopened.
    pub(crate) fn is_unsettled(&self) -> bool {
        self.inner.lock().is_unsettled
    }

    /// Returns the current catalog. Does not wait for a change that is being synced.
    pub(crate) fn snapshot(&self) -> Arc<CatalogSnapshot> {
        self.published.load_full()
    }

    /// Returns all streams by id. Waits for a change that is being synced.
    pub(crate) fn streams(&self) -> BTreeMap<u32, StreamInfo> {
        self.inner.lock().state.streams.clone()
    }

    /// Returns the application's records whose keys begin with `prefix`.
    pub(crate) fn records(&self, prefix: &str) -> BTreeMap<String, String> {
        let inner = self.inner.lock();
        let from = inner.state.records.range(prefix.to_owned()..);
        let with_prefix = from.take_while(|(key, _)| key.starts_with(prefix));
        with_prefix.map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// Changes records of the application: for each key, sets the value, or removes the record if
    /// the value is `None`. All changes are made atomically.
    ///
    /// # Errors
    /// Errors from the journal; then none of the changes is made.
    pub(crate) fn set_records(&self, changes: &[(String, Option<String>)]) -> Result<()> {
        let change = |(key, value): &(String, Option<String>)| Change::SetRecord {
            key: key.clone(),
            value: value.clone(),
        };
        self.apply(&mut self.inner.lock(), changes.iter().map(change).collect())
    }

    /// Creates a stream and returns its id. If `id` is `None`, the lowest free id is used.
    ///
    /// # Errors
    /// Already exists; errors from the journal.
    pub(crate) fn create_stream(
        &self,
        id: Option<u32>,
        name: &str,
        created_us: u64,
    ) -> Result<u32> {
        check_name("stream", name)?;
        let mut inner = self.inner.lock();
        let streams = &inner.state.streams;
        if let Some((id, _)) = streams.iter().find(|(_, stream)| stream.name == name) {
            return Err(exists(format!("the stream name '{name}' is taken by stream {id}")));
        }
        let id = id.unwrap_or_else(|| lowest_free(streams));
        if streams.contains_key(&id) {
            return Err(exists(format!("stream {id} already exists")));
        }
        let name = name.to_owned();
        self.apply(&mut inner, vec![Change::CreateStream { stream: id, name, created_us }])?;
        Ok(id)
    }

    /// Renames a stream.
    ///
    /// # Errors
    /// Not found; already exists; errors from the journal.
    pub(crate) fn rename_stream(&self, stream: u32, name: &str) -> Result<()> {
        check_name("stream", name)?;
        let mut inner = self.inner.lock();
        inner.state.stream(stream)?;
        let taken = |(id, other): (&u32, &StreamInfo)| *id != stream && other.name == name;
        if inner.state.streams.iter().any(taken) {
            return Err(exists(format!("the stream name '{name}' is taken")));
        }
        self.apply(&mut inner, vec![Change::RenameStream { stream, name: name.to_owned() }])
    }

    /// Deletes a stream with all its topics.
    ///
    /// # Errors
    /// Not found; errors from the journal.
    pub(crate) fn delete_stream(&self, stream: u32) -> Result<()> {
        let mut inner = self.inner.lock();
        inner.state.stream(stream)?;
        self.apply(&mut inner, vec![Change::DeleteStream { stream }])
    }

    /// Returns the id for a new topic: `id` if given, or else the lowest free id in the stream.
    /// Checks that the topic can be created, but does not create it.
    ///
    /// # Errors
    /// Not found, if the stream does not exist; already exists; invalid argument, for the name or
    /// the options.
    pub(crate) fn check_topic(
        &self,
        stream: u32,
        id: Option<u32>,
        name: &str,
        options: &TopicOptions,
    ) -> Result<TopicId> {
        check_name("topic", name)?;
        options.check()?;
        let inner = self.inner.lock();
        inner.check_open()?;
        let topics = &inner.state.stream(stream)?.topics;
        let topic = id.unwrap_or_else(|| lowest_free(topics));
        let id = TopicId { stream, topic };
        check_new(topics, id, name)?;
        Ok(id)
    }

    /// Creates a topic with partitions, each given as its id and its incarnation. The directories
    /// of the partitions must already exist and be durable.
    ///
    /// # Errors
    /// Not found, if the stream was deleted; already exists; errors from the journal.
    pub(crate) fn create_topic(
        &self,
        id: TopicId,
        name: &str,
        options: &TopicOptions,
        partitions: &[(u32, u64)],
        created_us: u64,
    ) -> Result<()> {
        let TopicId { stream, topic } = id;
        let mut inner = self.inner.lock();
        check_new(&inner.state.stream(stream)?.topics, id, name)?;
        let (name, options) = (name.to_owned(), options.clone());
        let mut changes = vec![Change::CreateTopic { stream, topic, name, options, created_us }];
        changes.extend(create_partitions(id, partitions, created_us));
        self.apply(&mut inner, changes)
    }

    /// Changes a topic's name and options.
    ///
    /// # Errors
    /// Not found; already exists, if another topic of the stream has the name; invalid argument,
    /// for the name or the options; errors from the journal.
    pub(crate) fn update_topic(
        &self,
        id: TopicId,
        name: &str,
        options: &TopicOptions,
    ) -> Result<()> {
        check_name("topic", name)?;
        options.check()?;
        let TopicId { stream, topic } = id;
        let mut inner = self.inner.lock();
        inner.state.topic(id)?;
        let topics = &inner.state.stream(stream)?.topics;
        if topics.iter().any(|(other, info)| *other != topic && info.name == name) {
            return Err(exists(format!("the topic name '{name}' is taken in stream {stream}")));
        }
        let (name, options) = (name.to_owned(), options.clone());
        self.apply(&mut inner, vec![Change::UpdateTopic { stream, topic, name, options }])
    }

    /// Deletes a topic with all its partitions.
    ///
    /// # Errors
    /// Not found; errors from the journal.
    pub(crate) fn delete_topic(&self, id: TopicId) -> Result<()> {
        let mut inner = self.inner.lock();
        inner.state.topic(id)?;
        let TopicId { stream, topic } = id;
        self.apply(&mut inner, vec![Change::DeleteTopic { stream, topic }])
    }

    /// Reserves an incarnation number for a partition that is about to be created or purged, and
    /// returns it. The reservation exists only in memory. After a
    /// restart, a number that did not get into the journal may be reserved again. That is safe,
    /// because opening the log has removed the directory with that number.
    pub(crate) fn reserve_incarnation(&self) -> u64 {
        let mut inner = self.inner.lock();
        let number = inner.state.next_incarnation;
        inner.state.next_incarnation += 1;
        number
    }

    /// Returns the ids that the next `count` new partitions of a topic will have.
    ///
    /// # Errors
    /// Not found; closed.
    pub(crate) fn next_partitions(&self, id: TopicId, count: u32) -> Result<Vec<u32>> {
        let inner = self.inner.lock();
        inner.check_open()?;
        let partitions = &inner.state.topic(id)?.partitions;
        let first = partitions.last_key_value().map_or(0, |(last, _)| last + 1);
        Ok((first..first.saturating_add(count)).collect())
    }

    /// Adds partitions to a topic, each given as its id and its incarnation. Their directories must
    /// already exist and be durable.
    ///
    /// # Errors
    /// Not found, if the topic was deleted; already exists, if another caller has created one of
    /// them; errors from the journal.
    pub(crate) fn create_partitions(
        &self,
        id: TopicId,
        partitions: &[(u32, u64)],
        created_us: u64,
    ) -> Result<()> {
        let mut inner = self.inner.lock();
        let there = &inner.state.topic(id)?.partitions;
        if let Some((partition, _)) = partitions.iter().find(|(id, _)| there.contains_key(id)) {
            let message = format!("partition {partition} of topic {} already exists", id.topic);
            return Err(exists(message));
        }
        self.apply(&mut inner, create_partitions(id, partitions, created_us).collect())
    }

    /// Replaces a partition's incarnation `from` by `incarnation`, which empties the partition. The
    /// directory of the new incarnation must already exist and be durable.
    ///
    /// # Errors
    /// Not found, if the partition was deleted. If a partition with the same id was created since,
    /// its incarnation is not `from`, and the error is the same. Errors from the journal.
    pub(crate) fn purge(&self, id: PartitionId, from: u64, incarnation: u64) -> Result<()> {
        let mut inner = self.inner.lock();
        if inner.state.partition(id)?.incarnation != from {
            return Err(Error::not_found(format!("{id} was deleted")));
        }
        let PartitionId { stream, topic, partition } = id;
        self.apply(&mut inner, vec![Change::Purge { stream, topic, partition, incarnation }])
    }

    /// Deletes the `count` partitions of a topic that have the highest ids.
    ///
    /// # Errors
    /// Not found, if the topic has fewer than `count` partitions; errors from the journal.
    pub(crate) fn delete_partitions(&self, id: TopicId, count: u32) -> Result<()> {
        let TopicId { stream, topic } = id;
        let mut inner = self.inner.lock();
        let there = &inner.state.topic(id)?.partitions;
        let last: Vec<u32> = there.keys().rev().take(count as usize).copied().collect();
        if last.len() < count as usize {
            let message = format!("topic {topic} has {} partitions, not {count}", last.len());
            return Err(Error::not_found(message));
        }
        let change = |&partition: &u32| Change::DeletePartition { stream, topic, partition };
        self.apply(&mut inner, last.iter().map(change).collect())
    }

    /// Makes changes durable as one record, and then publishes all of them at once.
    ///
    /// If appending or syncing the record fails, the journal's file may contain it nevertheless.
    /// Therefore the journal is immediately rewritten without it. If the rewrite fails too, the
    /// catalog is unsettled (see [`Catalog::is_unsettled`]) until a later change succeeds.
    fn apply(&self, inner: &mut Inner, changes: Vec<Change>) -> Result<()> {
        inner.check_open()?;
        let mut next = inner.state.clone();
        changes.iter().for_each(|change| next.apply(change));
        // All changes are in one record, so that a crash leaves either all of them or none.
        let record = state::encode(&changes)?;
        let attempts = inner.journal.attempts();
        let appended = inner.journal.append(&record, true, || next.to_snapshot());
        if appended.is_err() && inner.journal.attempts() == attempts {
            // Nothing was written, for example because no descriptor was left.
            return appended;
        }
        if appended.is_err() {
            let before = inner.state.to_snapshot();
            let rewritten = before.and_then(|before| inner.journal.rewrite(&before));
            inner.is_unsettled = rewritten.is_err();
            return appended;
        }
        inner.is_unsettled = false;
        self.published.store(Arc::new(CatalogSnapshot::new(&next)));
        inner.state = next;
        Ok(())
    }
}

impl Inner {
    fn check_open(&self) -> Result<()> {
        if self.is_closed { Err(Error::closed("the log")) } else { Ok(()) }
    }
}

/// Returns the changes that create these partitions. Each partition is given as its id and its
/// incarnation.
fn create_partitions(
    id: TopicId,
    partitions: &[(u32, u64)],
    created_us: u64,
) -> impl Iterator<Item = Change> {
    let TopicId { stream, topic } = id;
    partitions.iter().map(move |&(partition, incarnation)| Change::CreatePartition {
        stream,
        topic,
        partition,
        incarnation,
        created_us,
    })
}

/// Checks that neither the id nor the name of a new topic is taken.
fn check_new(topics: &BTreeMap<u32, TopicInfo>, id: TopicId, name: &str) -> Result<()> {
    let TopicId { stream, topic } = id;
    if let Some((id, _)) = topics.iter().find(|(_, topic)| topic.name == name) {
        return Err(exists(format!(
            "the topic name '{name}' is taken in stream {stream}, by topic {id}"
        )));
    }
    if topics.contains_key(&topic) {
        return Err(exists(format!("topic {topic} of stream {stream} already exists")));
    }
    Ok(())
}

fn exists(message: String) -> Error {
    Error::new(ErrorKind::AlreadyExists, message)
}

fn check_name(what: &str, name: &str) -> Result<()> {
    match name.len() {
        1..=255 => Ok(()),
        length => Err(Error::invalid(format!("a {what}'s name has 1 to 255 bytes, not {length}"))),
    }
}

fn lowest_free<T>(taken: &BTreeMap<u32, T>) -> u32 {
    (0..)
        .zip(taken.keys())
        .find(|(free, taken)| free != *taken)
        .map_or(taken.len() as u32, |(free, _)| free)
}
