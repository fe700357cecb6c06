//! Resolves the identifiers in requests: an object is identified by its id or its name.

use iggy_binary_protocol::WireIdentifier;
use tailwater_log::{CatalogSnapshot, Consumer, PartitionId, TopicId};
use xxhash_rust::xxh32::xxh32;

use crate::state::State;
use crate::status::Status;

/// Returns a stream's id.
///
/// # Errors
/// Not found. The status is the same for an unknown id and for an unknown name.
pub(crate) fn stream(state: &State, stream: &WireIdentifier) -> Result<u32, Status> {
    stream_in(&state.log.catalog(), stream)
}

/// Returns a topic's id.
///
/// # Errors
/// Stream or topic not found.
pub(crate) fn topic(
    state: &State,
    stream: &WireIdentifier,
    topic: &WireIdentifier,
) -> Result<TopicId, Status> {
    topic_in(&state.log.catalog(), stream, topic)
}

/// Returns a partition's id.
///
/// # Errors
/// Stream, topic or partition not found.
pub(crate) fn partition(
    state: &State,
    stream: &WireIdentifier,
    topic: &WireIdentifier,
    partition: u32,
) -> Result<PartitionId, Status> {
    let catalog = state.log.catalog();
    let id = topic_in(&catalog, stream, topic)?;
    let info = catalog.topic(id).ok_or(Status::TOPIC_ID_NOT_FOUND)?;
    if !info.partitions.contains_key(&partition) {
        return Err(Status::PARTITION_NOT_FOUND);
    }
    Ok(id.partition(partition))
}

/// Returns a stream's id, like [`stream`], but from the given catalog.
pub(crate) fn stream_in(catalog: &CatalogSnapshot, stream: &WireIdentifier) -> Result<u32, Status> {
    match stream {
        WireIdentifier::Numeric(id) if catalog.streams().contains_key(id) => Ok(*id),
        WireIdentifier::Numeric(_) => Err(Status::STREAM_ID_NOT_FOUND),
        WireIdentifier::String(name) => {
            catalog.stream_id(name.as_str()).ok_or(Status::STREAM_ID_NOT_FOUND)
        }
    }
}

/// Returns a topic's id, like [`topic`], but from the given catalog.
pub(crate) fn topic_in(
    catalog: &CatalogSnapshot,
    stream: &WireIdentifier,
    topic: &WireIdentifier,
) -> Result<TopicId, Status> {
    let stream = stream_in(catalog, stream)?;
    let topic = match topic {
        WireIdentifier::Numeric(id) => Some(*id),
        WireIdentifier::String(name) => catalog.topic_id(stream, name.as_str()),
    };
    let id = topic.map(|topic| TopicId { stream, topic });
    id.filter(|id| catalog.topic(*id).is_some()).ok_or(Status::TOPIC_ID_NOT_FOUND)
}

/// Returns the id under which a consumer's offsets are stored: the number that the request
/// contains, or a hash of the name that it contains.
pub(crate) fn consumer(consumer: &WireIdentifier) -> Consumer {
    Consumer::Single(match consumer {
        WireIdentifier::Numeric(id) => *id,
        WireIdentifier::String(name) => xxh32(name.as_str().as_bytes(), 0),
    })
}
