//! An immutable copy of the catalog for readers.

use std::collections::{BTreeMap, HashMap};

use super::state::State;
use super::{StreamInfo, TopicId};

/// The catalog at a point in time, with indexes from names to ids. It never changes.
#[derive(Debug, Default)]
pub struct CatalogSnapshot {
    streams: BTreeMap<u32, StreamInfo>,
    stream_ids: HashMap<String, u32>,
    /// The ids of topics by name, for each stream id.
    topic_ids: HashMap<u32, HashMap<String, u32>>,
}

impl CatalogSnapshot {
    pub(super) fn new(state: &State) -> Self {
        let streams = state.streams.clone();
        let stream_ids = streams.iter().map(|(id, stream)| (stream.name.clone(), *id)).collect();
        let topic_ids = streams.iter().map(|(id, stream)| {
            (*id, stream.topics.iter().map(|(id, topic)| (topic.name.clone(), *id)).collect())
        });
        let topic_ids = topic_ids.collect();
        Self { streams, stream_ids, topic_ids }
    }

    /// Returns the streams by id.
    pub fn streams(&self) -> &BTreeMap<u32, StreamInfo> {
        &self.streams
    }

    /// Returns the topic with this id; `None` if it does not exist.
    pub fn topic(&self, id: TopicId) -> Option<&super::TopicInfo> {
        self.streams.get(&id.stream)?.topics.get(&id.topic)
    }

    /// Returns the id of the stream with this name; `None` if there is none.
    pub fn stream_id(&self, name: &str) -> Option<u32> {
        self.stream_ids.get(name).copied()
    }

    /// Returns the id of the topic with this name in a stream; `None` if there is none.
    pub fn topic_id(&self, stream: u32, name: &str) -> Option<u32> {
        self.topic_ids.get(&stream)?.get(name).copied()
    }
}
