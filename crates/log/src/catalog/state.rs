//! The state of the catalog, its changes, and their encoding in the journal.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::options::TopicOptions;
use crate::{Error, Result};

/// Identifies a topic in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicId {
    /// Id of the stream that contains the topic.
    pub stream: u32,
    /// Id of the topic within its stream.
    pub topic: u32,
}

/// Identifies a partition in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId {
    /// Id of the stream that contains the topic.
    pub stream: u32,
    /// Id of the topic within the stream.
    pub topic: u32,
    /// Id of the partition within the topic.
    pub partition: u32,
}

impl PartitionId {
    /// Returns the id of the partition's topic.
    pub fn topic(self) -> TopicId {
        TopicId { stream: self.stream, topic: self.topic }
    }
}

impl TopicId {
    /// Returns the id of the partition with the number `partition` of this topic.
    pub fn partition(self, partition: u32) -> PartitionId {
        PartitionId { stream: self.stream, topic: self.topic, partition }
    }
}

impl std::fmt::Display for PartitionId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "stream {} topic {} partition {}", self.stream, self.topic, self.partition)
    }
}

/// A stream, as recorded in the catalog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StreamInfo {
    /// The stream's name, unique in the log.
    pub name: String,
    /// Creation time, in microseconds since 1970.
    pub created_us: u64,
    /// The stream's topics, by their ids.
    pub topics: BTreeMap<u32, TopicInfo>,
}

/// A topic, as recorded in the catalog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TopicInfo {
    /// The topic's name, unique in its stream.
    pub name: String,
    /// Creation time, in microseconds since 1970.
    pub created_us: u64,
    /// The topic's options.
    pub options: TopicOptions,
    /// The topic's partitions, by their ids.
    pub partitions: BTreeMap<u32, PartitionInfo>,
}

/// A partition, as recorded in the catalog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PartitionInfo {
    /// Number of the partition's current incarnation. A purge replaces it by a new number.
    pub incarnation: u64,
    /// Creation time, in microseconds since 1970.
    pub created_us: u64,
}

/// A change of the catalog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub(super) enum Change {
    CreateStream { stream: u32, name: String, created_us: u64 },
    RenameStream { stream: u32, name: String },
    DeleteStream { stream: u32 },
    CreateTopic { stream: u32, topic: u32, name: String, options: TopicOptions, created_us: u64 },
    UpdateTopic { stream: u32, topic: u32, name: String, options: TopicOptions },
    DeleteTopic { stream: u32, topic: u32 },
    CreatePartition { stream: u32, topic: u32, partition: u32, incarnation: u64, created_us: u64 },
    DeletePartition { stream: u32, topic: u32, partition: u32 },
    Purge { stream: u32, topic: u32, partition: u32, incarnation: u64 },
    SetRecord { key: String, value: Option<String> },
}

/// Encodes a state or a list of changes.
///
/// # Errors
/// Invalid argument, if it cannot be encoded.
pub(super) fn encode(value: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|error| Error::invalid(error.to_string()))
}

/// The complete state of a catalog.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct State {
    pub(super) streams: BTreeMap<u32, StreamInfo>,
    pub(super) next_incarnation: u64,
    /// Records that the program using the log stores in the catalog, by key.
    #[serde(default)]
    pub(super) records: BTreeMap<String, String>,
}

impl State {
    /// Encodes the state as a snapshot, the first record of a journal's file.
    ///
    /// # Errors
    /// Invalid argument, if the state cannot be encoded.
    pub(super) fn to_snapshot(&self) -> Result<Vec<u8>> {
        encode(self)
    }

    /// Rebuilds the state from the records of a journal, of which the first is a snapshot.
    ///
    /// # Errors
    /// Corruption, if a record cannot be decoded although its checksum is valid.
    pub(super) fn replay<'a>(
        mut records: impl Iterator<Item = &'a [u8]>,
        path: &Path,
    ) -> Result<Self> {
        let damaged = |error: serde_json::Error| {
            Error::corruption(path, 0, format!("an invalid record of the catalog: {error}"))
        };
        let snapshot = records.next().unwrap_or_default();
        let mut state: Self = serde_json::from_slice(snapshot).map_err(damaged)?;
        for record in records {
            let changes: Vec<Change> = serde_json::from_slice(record).map_err(damaged)?;
            changes.iter().for_each(|change| state.apply(change));
        }
        Ok(state)
    }

    pub(super) fn stream(&self, stream: u32) -> Result<&StreamInfo> {
        self.streams.get(&stream).ok_or_else(|| Error::not_found(format!("no stream {stream}")))
    }

    pub(super) fn topic(&self, id: TopicId) -> Result<&TopicInfo> {
        let TopicId { stream, topic } = id;
        let found = self.stream(stream)?.topics.get(&topic);
        found.ok_or_else(|| Error::not_found(format!("no topic {topic} in stream {stream}")))
    }

    pub(super) fn partition(&self, id: PartitionId) -> Result<&PartitionInfo> {
        let found = self.topic(id.topic())?.partitions.get(&id.partition);
        found.ok_or_else(|| Error::not_found(format!("no {id}")))
    }

    /// Applies one change. A change to an object that does not exist has no effect.
    pub(super) fn apply(&mut self, change: &Change) {
        match change {
            Change::CreateStream { stream, name, created_us } => {
                let topics = BTreeMap::new();
                let info = StreamInfo { name: name.clone(), created_us: *created_us, topics };
                self.streams.insert(*stream, info);
            }
            Change::RenameStream { stream, name } => {
                if let Some(stream) = self.streams.get_mut(stream) {
                    stream.name.clone_from(name);
                }
            }
            Change::DeleteStream { stream } => {
                self.streams.remove(stream);
                self.remove_records(&format!("stream/{stream}/"));
            }
            Change::CreateTopic { stream, topic, name, options, created_us } => {
                if let Some(stream) = self.streams.get_mut(stream) {
                    let info = TopicInfo {
                        name: name.clone(),
                        created_us: *created_us,
                        options: options.clone(),
                        partitions: BTreeMap::new(),
                    };
                    stream.topics.insert(*topic, info);
                }
            }
            Change::UpdateTopic { stream, topic, name, options } => {
                if let Some(topic) = self.topic_mut(*stream, *topic) {
                    topic.name.clone_from(name);
                    topic.options = options.clone();
                }
            }
            Change::DeleteTopic { stream, topic } => {
                if let Some(info) = self.streams.get_mut(stream) {
                    info.topics.remove(topic);
                }
                self.remove_records(&format!("stream/{stream}/topic/{topic}/"));
            }
            Change::CreatePartition { stream, topic, partition, incarnation, created_us } => {
                self.next_incarnation = self.next_incarnation.max(incarnation + 1);
                if let Some(topic) = self.topic_mut(*stream, *topic) {
                    let info = PartitionInfo { incarnation: *incarnation, created_us: *created_us };
                    topic.partitions.insert(*partition, info);
                }
            }
            Change::DeletePartition { stream, topic, partition } => {
                if let Some(topic) = self.topic_mut(*stream, *topic) {
                    topic.partitions.remove(partition);
                }
            }
            Change::Purge { stream, topic, partition, incarnation } => {
                self.next_incarnation = self.next_incarnation.max(incarnation + 1);
                let topic = self.topic_mut(*stream, *topic);
                if let Some(info) = topic.and_then(|topic| topic.partitions.get_mut(partition)) {
                    info.incarnation = *incarnation;
                }
            }
            Change::SetRecord { key, value: Some(value) } => {
                self.records.insert(key.clone(), value.clone());
            }
            Change::SetRecord { key, value: None } => {
                self.records.remove(key);
            }
        }
    }

    fn remove_records(&mut self, prefix: &str) {
        self.records.retain(|key, _| !key.starts_with(prefix));
    }

    fn topic_mut(&mut self, stream: u32, topic: u32) -> Option<&mut TopicInfo> {
        self.streams.get_mut(&stream)?.topics.get_mut(&topic)
    }
}
