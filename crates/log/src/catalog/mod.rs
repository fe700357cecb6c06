//! The catalog: which streams, topics and partitions there are, and in which incarnation.
//!
//! It is a journal of changes, each durable before it counts. One lock orders all of them, and
//! holds while the journal is synced: changes are rare. Reads take the lock only to copy.
//!
//! An incarnation's number is taken from a counter that the journal keeps, and never used again.

mod state;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tailwater_io::Storage;

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
}

#[derive(Debug)]
struct Inner {
    journal: Journal,
    state: State,
}

/// Reads the catalog of a log that is not opened: its streams by their ids.
///
/// # Errors
/// Corruption; those of the system.
pub(crate) fn read(storage: &dyn Storage, directory: &Path) -> Result<BTreeMap<u32, StreamInfo>> {
    match journal::read(storage, directory, NAME)? {
        Some((_, contents)) => Ok(State::replay(contents.records(), directory)?.streams),
        None => Ok(BTreeMap::new()),
    }
}

impl Catalog {
    /// Opens the catalog of a directory, or begins it.
    ///
    /// # Errors
    /// Corruption; those of the system.
    pub(crate) fn open(storage: &Arc<dyn Storage>, directory: &Path) -> Result<Self> {
        let (journal, contents) =
            Journal::open(storage, directory, NAME, || State::default().to_snapshot())?;
        let state = match contents {
            Some(contents) => State::replay(contents.records(), journal.path())?,
            None => State::default(),
        };
        Ok(Self { inner: Mutex::new(Inner { journal, state }) })
    }

    fn lock(&self) -> Guard<'_, Inner> {
        self.inner.lock()
    }

    /// Returns all streams, by their ids.
    pub(crate) fn streams(&self) -> BTreeMap<u32, StreamInfo> {
        self.lock().state.streams.clone()
    }

    /// Creates a stream; without an id it gets the lowest that is free.
    ///
    /// # Errors
    /// Already exists; those of the journal.
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
            return Err(exists(format!("stream {id} is called '{name}' already")));
        }
        let id = id.unwrap_or_else(|| lowest_free(streams));
        if streams.contains_key(&id) {
            return Err(exists(format!("stream {id} is there already")));
        }
        let name = name.to_owned();
        inner.apply(vec![Change::CreateStream { stream: id, name, created_us }])?;
        Ok(id)
    }

    /// Gives a stream another name.
    ///
    /// # Errors
    /// Not found; already exists; those of the journal.
    pub(crate) fn rename_stream(&self, stream: u32, name: &str) -> Result<()> {
        check_name("stream", name)?;
        let mut inner = self.lock();
        inner.state.stream(stream)?;
        let taken = |(id, other): (&u32, &StreamInfo)| *id != stream && other.name == name;
        if inner.state.streams.iter().any(taken) {
            return Err(exists(format!("a stream is called '{name}' already")));
        }
        inner.apply(vec![Change::RenameStream { stream, name: name.to_owned() }])
    }

    /// Deletes a stream with all its topics.
    ///
    /// # Errors
    /// Not found; those of the journal.
    pub(crate) fn delete_stream(&self, stream: u32) -> Result<StreamInfo> {
        let mut inner = self.lock();
        let deleted = inner.state.stream(stream)?.clone();
        inner.apply(vec![Change::DeleteStream { stream }])?;
        Ok(deleted)
    }

    /// Creates a topic; without an id it gets the lowest that is free in its stream.
    ///
    /// # Errors
    /// Not found, for the stream; already exists; invalid argument, for its options; those of the
    /// journal.
    pub(crate) fn create_topic(
        &self,
        stream: u32,
        id: Option<u32>,
        name: &str,
        options: &TopicOptions,
        created_us: u64,
    ) -> Result<TopicId> {
        check_name("topic", name)?;
        options.check()?;
        let mut inner = self.lock();
        let topics = &inner.state.stream(stream)?.topics;
        if let Some((id, _)) = topics.iter().find(|(_, topic)| topic.name == name) {
            return Err(exists(format!(
                "topic {id} of stream {stream} is called '{name}' already"
            )));
        }
        let topic = id.unwrap_or_else(|| lowest_free(topics));
        if topics.contains_key(&topic) {
            return Err(exists(format!("topic {topic} of stream {stream} is there already")));
        }
        let (name, options) = (name.to_owned(), options.clone());
        inner.apply(vec![Change::CreateTopic { stream, topic, name, options, created_us }])?;
        Ok(TopicId { stream, topic })
    }

    /// Changes a topic's name and options.
    ///
    /// # Errors
    /// As [`Self::create_topic`].
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
            return Err(exists(format!("a topic of stream {stream} is called '{name}' already")));
        }
        let (name, options) = (name.to_owned(), options.clone());
        inner.apply(vec![Change::UpdateTopic { stream, topic, name, options }])
    }

    /// Deletes a topic with all its partitions.
    ///
    /// # Errors
    /// Not found; those of the journal.
    pub(crate) fn delete_topic(&self, id: TopicId) -> Result<TopicInfo> {
        let mut inner = self.lock();
        let deleted = inner.state.topic(id)?.clone();
        let TopicId { stream, topic } = id;
        inner.apply(vec![Change::DeleteTopic { stream, topic }])?;
        Ok(deleted)
    }

    /// Reserves incarnations for partitions that are about to be created or purged. Only in memory:
    /// a number that no change names was never used.
    pub(crate) fn reserve_incarnations(&self, count: u64) -> u64 {
        let mut inner = self.lock();
        let first = inner.state.next_incarnation;
        inner.state.next_incarnation += count;
        first
    }

    /// Returns the ids that `count` more partitions of a topic get.
    ///
    /// # Errors
    /// Not found.
    pub(crate) fn next_partitions(&self, id: TopicId, count: u32) -> Result<Vec<u32>> {
        let inner = self.lock();
        let partitions = &inner.state.topic(id)?.partitions;
        let first = partitions.last_key_value().map_or(0, |(last, _)| last + 1);
        Ok((first..first.saturating_add(count)).collect())
    }

    /// Notes partitions whose directories are there and durable.
    ///
    /// # Errors
    /// Not found, where the topic was deleted meanwhile; already exists, where somebody else
    /// created them; those of the journal.
    pub(crate) fn create_partitions(
        &self,
        id: TopicId,
        partitions: &[(u32, u64)],
        created_us: u64,
    ) -> Result<()> {
        let TopicId { stream, topic } = id;
        let mut inner = self.lock();
        let there = &inner.state.topic(id)?.partitions;
        if let Some((partition, _)) = partitions.iter().find(|(id, _)| there.contains_key(id)) {
            let message = format!("partition {partition} of topic {topic} is there already");
            return Err(exists(message));
        }
        let change = |&(partition, incarnation): &(u32, u64)| Change::CreatePartition {
            stream,
            topic,
            partition,
            incarnation,
            created_us,
        };
        inner.apply(partitions.iter().map(change).collect())
    }

    /// Notes that a partition goes on in another incarnation, whose directory is there and durable.
    ///
    /// # Errors
    /// Not found, where the partition was deleted meanwhile; those of the journal.
    pub(crate) fn purge(&self, id: PartitionId, incarnation: u64) -> Result<()> {
        let mut inner = self.lock();
        inner.state.partition(id)?;
        let PartitionId { stream, topic, partition } = id;
        inner.apply(vec![Change::Purge { stream, topic, partition, incarnation }])
    }

    /// Deletes partitions of a topic, those of the highest ids.
    ///
    /// # Errors
    /// Not found, where there are not so many; those of the journal.
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
        inner.apply(last.iter().map(change).collect())?;
        Ok(last)
    }
}

impl Inner {
    /// Makes changes durable, and then has them count. All or none of them do.
    fn apply(&mut self, changes: Vec<Change>) -> Result<()> {
        let mut next = self.state.clone();
        changes.iter().for_each(|change| next.apply(change));
        // One record, so that a crash leaves all changes or none.
        let record = Change::encode(&changes)?;
        self.journal.append(&[record], true, || next.to_snapshot())?;
        self.state = next;
        Ok(())
    }
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
