//! The catalog of a log: its streams, topics and partitions, and the incarnation of each partition.
//!
//! It is a journal of changes. A change is durable before it takes effect. One lock orders all
//! changes and is held while the journal is synced, since changes are rare.
//!
//! Incarnations are numbered from a counter in the journal; a used number is never reused.

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
use crate::sync::{Guard, Mutex};
use crate::{Error, ErrorKind, Result};

/// Name of the catalog's journal.
const NAME: &str = "catalog";

/// The streams, topics and partitions of an open log.
#[derive(Debug)]
pub(crate) struct Catalog {
    inner: Mutex<Inner>,
    /// A copy of `inner.state`, for readers that must not wait for a change in progress. Not a
    /// `Published` value, because a `Published` value may be missing.
    published: ArcSwap<CatalogSnapshot>,
}

#[derive(Debug)]
struct Inner {
    journal: Journal,
    state: State,
    /// Whether the journal may contain a change that is not in `state`.
    is_unsettled: bool,
    is_closed: bool,
}

/// Reads the streams of a log from its catalog, without opening the log. Returns them by their ids.
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
    /// Opens the catalog in a directory, which is created if it does not exist.
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

    /// Rejects all changes from now on: another process may soon own the directory.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
    }

    /// Returns whether the journal may contain a failed change, which would be applied after
    /// reopening.
    pub(crate) fn is_unsettled(&self) -> bool {
        self.lock().is_unsettled
    }

    /// Returns the current catalog, without waiting for a change in progress.
    pub(crate) fn snapshot(&self) -> Arc<CatalogSnapshot> {
        self.published.load_full()
    }

    fn lock(&self) -> Guard<'_, Inner> {
        self.inner.lock()
    }

    /// Returns all streams, by their ids.
    pub(crate) fn streams(&self) -> BTreeMap<u32, StreamInfo> {
        self.lock().state.streams.clone()
    }

    /// Returns the records whose keys begin with `prefix`, by their keys.
    pub(crate) fn records(&self, prefix: &str) -> BTreeMap<String, String> {
        let inner = self.lock();
        let from = inner.state.records.range(prefix.to_owned()..);
        let with_prefix = from.take_while(|(key, _)| key.starts_with(prefix));
        with_prefix.map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// Sets the records that have a value in `changes`, and removes those whose value is `None`.
    ///
    /// # Errors
    /// Errors from the journal; no change is then made.
    pub(crate) fn set_records(&self, changes: &[(String, Option<String>)]) -> Result<()> {
        let change = |(key, value): &(String, Option<String>)| Change::SetRecord {
            key: key.clone(),
            value: value.clone(),
        };
        self.apply(&mut self.lock(), changes.iter().map(change).collect())
    }

    /// Creates a stream, with the lowest free id if none is given.
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
        let mut inner = self.lock();
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
        let mut inner = self.lock();
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
    pub(crate) fn delete_stream(&self, stream: u32) -> Result<StreamInfo> {
        let mut inner = self.lock();
        let deleted = inner.state.stream(stream)?.clone();
        self.apply(&mut inner, vec![Change::DeleteStream { stream }])?;
        Ok(deleted)
    }

    /// Returns the id of a new topic: the requested one, or the lowest free one in its stream.
    ///
    /// # Errors
    /// Not found, for the stream; already exists; invalid argument, for its name or options.
    pub(crate) fn check_topic(
        &self,
        stream: u32,
        id: Option<u32>,
        name: &str,
        options: &TopicOptions,
    ) -> Result<TopicId> {
        check_name("topic", name)?;
        options.check()?;
        let inner = self.lock();
        inner.check_open()?;
        let topics = &inner.state.stream(stream)?.topics;
        let topic = id.unwrap_or_else(|| lowest_free(topics));
        let id = TopicId { stream, topic };
        check_new(topics, id, name)?;
        Ok(id)
    }

    /// Creates a topic, with partitions whose directories already exist and are durable.
    ///
    /// # Errors
    /// Not found, if the stream has been deleted; already exists; errors from the journal.
    pub(crate) fn create_topic(
        &self,
        id: TopicId,
        name: &str,
        options: &TopicOptions,
        partitions: &[(u32, u64)],
        created_us: u64,
    ) -> Result<()> {
        let TopicId { stream, topic } = id;
        let mut inner = self.lock();
        check_new(&inner.state.stream(stream)?.topics, id, name)?;
        let (name, options) = (name.to_owned(), options.clone());
        let mut changes = vec![Change::CreateTopic { stream, topic, name, options, created_us }];
        changes.extend(create_partitions(id, partitions, created_us));
        self.apply(&mut inner, changes)
    }

    /// Changes a topic's name and options.
    ///
    /// # Errors
    /// The errors of [`Self::create_topic`].
    pub(crate) fn update_topic(
        &self,
        id: TopicId,
        name: &str,
        options: &TopicOptions,
    ) -> Result<()> {
        check_name("topic", name)?;
        options.check()?;
        let TopicId { stream, topic } = id;
        let mut inner = self.lock();
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
    pub(crate) fn delete_topic(&self, id: TopicId) -> Result<TopicInfo> {
        let mut inner = self.lock();
        let deleted = inner.state.topic(id)?.clone();
        let TopicId { stream, topic } = id;
        self.apply(&mut inner, vec![Change::DeleteTopic { stream, topic }])?;
        Ok(deleted)
    }

    /// Reserves incarnations for partitions that are about to be created or purged, and returns the
    /// first number. The reservation exists only in memory. After a restart, a number that is not
    /// in the journal may be reserved again: opening the log has removed the directory with that
    /// number.
    pub(crate) fn reserve_incarnations(&self, count: u64) -> u64 {
        let mut inner = self.lock();
        let first = inner.state.next_incarnation;
        inner.state.next_incarnation += count;
        first
    }

    /// Returns the ids of the next `count` partitions of a topic.
    ///
    /// # Errors
    /// Not found; closed.
    pub(crate) fn next_partitions(&self, id: TopicId, count: u32) -> Result<Vec<u32>> {
        let inner = self.lock();
        inner.check_open()?;
        let partitions = &inner.state.topic(id)?.partitions;
        let first = partitions.last_key_value().map_or(0, |(last, _)| last + 1);
        Ok((first..first.saturating_add(count)).collect())
    }

    /// Records new partitions, whose directories already exist and are durable.
    ///
    /// # Errors
    /// Not found, if the topic has been deleted; already exists, if another caller created them;
    /// errors from the journal.
    pub(crate) fn create_partitions(
        &self,
        id: TopicId,
        partitions: &[(u32, u64)],
        created_us: u64,
    ) -> Result<()> {
        let mut inner = self.lock();
        let there = &inner.state.topic(id)?.partitions;
        if let Some((partition, _)) = partitions.iter().find(|(id, _)| there.contains_key(id)) {
            let message = format!("partition {partition} of topic {} already exists", id.topic);
            return Err(exists(message));
        }
        self.apply(&mut inner, create_partitions(id, partitions, created_us).collect())
    }

    /// Records that `incarnation` replaces incarnation `from` of a partition. The directory of
    /// `incarnation` already exists and is durable.
    ///
    /// # Errors
    /// Not found, if the partition was deleted, even if a new partition with the same id was
    /// created since; errors from the journal.
    pub(crate) fn purge(&self, id: PartitionId, from: u64, incarnation: u64) -> Result<()> {
        let mut inner = self.lock();
        if inner.state.partition(id)?.incarnation != from {
            return Err(Error::not_found(format!("{id} was deleted")));
        }
        let PartitionId { stream, topic, partition } = id;
        self.apply(&mut inner, vec![Change::Purge { stream, topic, partition, incarnation }])
    }

    /// Deletes the `count` partitions of a topic with the highest ids. Returns their ids.
    ///
    /// # Errors
    /// Not found, if the topic has fewer than `count` partitions; errors from the journal.
    pub(crate) fn delete_partitions(&self, id: TopicId, count: u32) -> Result<Vec<u32>> {
        let TopicId { stream, topic } = id;
        let mut inner = self.lock();
        let there = &inner.state.topic(id)?.partitions;
        let last: Vec<u32> = there.keys().rev().take(count as usize).copied().collect();
        if last.len() < count as usize {
            let message = format!("topic {topic} has {} partitions, not {count}", last.len());
            return Err(Error::not_found(message));
        }
        let change = |&partition: &u32| Change::DeletePartition { stream, topic, partition };
        self.apply(&mut inner, last.iter().map(change).collect())?;
        Ok(last)
    }
}

impl Catalog {
    /// Makes changes durable as one record, then publishes them together.
    ///
    /// If the sync of the record fails, the journal's file may nevertheless contain it. The journal
    /// is therefore immediately rewritten without that record. If the rewrite fails too, the
    /// catalog is unsettled (see [`Catalog::is_unsettled`]) until a later change succeeds.
    fn apply(&self, inner: &mut Inner, changes: Vec<Change>) -> Result<()> {
        inner.check_open()?;
        let mut next = inner.state.clone();
        changes.iter().for_each(|change| next.apply(change));
        // All changes are in one record, so that after a crash either all of them or none are
        // found.
        let record = Change::encode(&changes)?;
        let appended = inner.journal.append(&record, true, || next.to_snapshot());
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

/// Returns the changes that create partitions.
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

/// Rejects a topic whose id or name is taken.
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
