//! The durable part of groups: records in the log's catalog.
//!
//! | key | value |
//! |---|---|
//! | `stream/S/topic/T/group/ID` | `{"name":"..."}` |
//! | `stream/S/topic/T/next_group` | the lowest id that was never used in the topic |
//!
//! The log removes both kinds of records together with their topic or stream.

use serde::{Deserialize, Serialize};
use tailwater_log::{Error, ErrorKind, TopicId};

/// A decoded record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Record {
    /// A group.
    Group {
        /// Id of the group's topic.
        topic: TopicId,
        /// Id of the group within the topic.
        id: u32,
        /// Name of the group, unique in the topic.
        name: String,
    },
    /// The lowest id that no group of a topic has ever had.
    Next {
        /// Id of the topic.
        topic: TopicId,
        /// The lowest id that no group of the topic has ever had.
        id: u32,
    },
}

/// The log stores a record, which has a key and a value, for each group. This is the value.
#[derive(Serialize, Deserialize)]
struct Value {
    name: String,
}

/// Returns the common prefix of the keys of all groups of a topic.
pub(super) fn prefix(topic: TopicId) -> String {
    format!("stream/{}/topic/{}/group/", topic.stream, topic.topic)
}

/// Returns the key of a group's record.
pub(super) fn key(topic: TopicId, id: u32) -> String {
    format!("{}{id}", prefix(topic))
}

/// Returns the key of the record with the id for the topic's next group.
pub(super) fn next_key(topic: TopicId) -> String {
    format!("stream/{}/topic/{}/next_group", topic.stream, topic.topic)
}

/// Returns the value of a group's record.
///
/// # Errors
/// An internal error, if the value cannot be encoded.
pub(super) fn value(name: &str) -> Result<String, Error> {
    let value = serde_json::to_string(&Value { name: name.to_owned() });
    value.map_err(|error| Error::new(ErrorKind::Internal, format!("group '{name}': {error}")))
}

/// Decodes a record whose key begins with `stream/`. Returns `None` for a record of another kind.
///
/// # Errors
/// Corruption; the error names the key.
pub(super) fn decode(key: &str, value: &str) -> Result<Option<Record>, Error> {
    let corrupt = |what: &dyn std::fmt::Display| {
        Error::new(ErrorKind::Corruption, format!("corrupt record {key}: {what}: '{value}'"))
    };
    let parts: Vec<&str> = key.split('/').collect();
    let (stream, topic, id) = match parts[..] {
        ["stream", stream, "topic", topic, "group", id] => (stream, topic, Some(id)),
        ["stream", stream, "topic", topic, "next_group"] => (stream, topic, None),
        _ => return Ok(None),
    };
    let number = |text: &str| text.parse::<u32>().map_err(|error| corrupt(&error));
    let topic = TopicId { stream: number(stream)?, topic: number(topic)? };
    Ok(Some(match id {
        Some(id) => {
            let value: Value = serde_json::from_str(value).map_err(|error| corrupt(&error))?;
            Record::Group { topic, id: number(id)?, name: value.name }
        }
        None => Record::Next { topic, id: number(value)? },
    }))
}
