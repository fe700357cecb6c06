//! Commands that create and delete partitions, and that delete segments of a partition.

use iggy_binary_protocol::requests::partitions::{
    CreatePartitionsRequest, DeletePartitionsRequest,
};
use iggy_binary_protocol::requests::segments::DeleteSegmentsRequest;
use iggy_binary_protocol::{MAX_PARTITIONS_PER_REQUEST, WireDecode};
use tailwater_log::{ErrorKind, TopicId};
use tracing::{info, warn};

use super::options::Settings;
use super::{Outcome, Request, resolve, topics};
use crate::state::State;
use crate::status::Status;
use crate::users::Action;

/// Adds partitions to a topic.
pub(super) fn create_partitions(state: &State, request: &Request<'_>) -> Outcome {
    let create = CreatePartitionsRequest::decode_from(request.body)?;
    let _changing = state.changing.lock();
    let id = resolve::topic(state, &create.stream_id, &create.topic_id)?;
    state.users.authorize(request.user, Action::CreatePartitions(id))?;
    let count = create.partitions_count;
    let there = state.log.catalog().topic(id).map_or(0, |topic| topic.partitions.len());
    let limit = state.config.limits.partitions_max;
    if !(1..=MAX_PARTITIONS_PER_REQUEST).contains(&count) || there + count as usize > limit {
        return Err(Status::TOO_MANY_PARTITIONS);
    }
    state.log.create_partitions(id, count).map_err(|error| topics::status(&error))?;
    changed(state, id);
    info!(stream = id.stream, topic = id.topic, count, user = request.user, "partitions created");
    Ok(Vec::new())
}

/// Deletes partitions of a topic, those with the highest ids first.
pub(super) fn delete_partitions(state: &State, request: &Request<'_>) -> Outcome {
    let delete = DeletePartitionsRequest::decode_from(request.body)?;
    let _changing = state.changing.lock();
    let id = resolve::topic(state, &delete.stream_id, &delete.topic_id)?;
    state.users.authorize(request.user, Action::DeletePartitions(id))?;
    let count = delete.partitions_count;
    let there = state.log.catalog().topic(id).map_or(0, |topic| topic.partitions.len());
    if !(1..=MAX_PARTITIONS_PER_REQUEST).contains(&count) {
        return Err(Status::TOO_MANY_PARTITIONS);
    }
    if count as usize > there {
        return Err(Status::INVALID_PARTITIONS_COUNT);
    }
    state.log.delete_partitions(id, count).map_err(|error| topics::status(&error))?;
    changed(state, id);
    state.forget_deleted();
    info!(stream = id.stream, topic = id.topic, count, user = request.user, "partitions deleted");
    Ok(Vec::new())
}

/// Completes a change of a topic's partitions: updates the topic's groups, and the options that
/// depend on the number of partitions. The caller holds the lock on metadata changes.
///
/// If the options cannot be updated, the error is only logged. If it were returned, the client
/// would repeat the change of the partitions, which has already been made. The next change of the
/// topic updates the options.
fn changed(state: &State, id: TopicId) {
    let catalog = state.log.catalog();
    let Some(info) = catalog.topic(id) else { return };
    state.groups.partitions_changed(&state.log, id);
    let settings = Settings::of(&info.options, &state.config.topics);
    let options = settings.to_log(&state.config, info.partitions.len());
    if options.partition_bytes_max != info.options.partition_bytes_max
        && let Err(error) = state.log.update_topic(id, &info.name, &options)
    {
        let (stream, topic) = (id.stream, id.topic);
        warn!(stream, topic, %error, "cannot adapt the bytes per partition to the partitions");
    }
}

/// Deletes the oldest segments of a partition, as many as requested. A segment is kept if a
/// consumer or group with a stored offset has not yet read all of its messages.
pub(super) fn delete_segments(state: &State, request: &Request<'_>) -> Outcome {
    let delete = DeleteSegmentsRequest::decode_from(request.body)?;
    let topic = resolve::topic(state, &delete.stream_id, &delete.topic_id)?;
    state.users.authorize(request.user, Action::DeleteSegments(topic))?;
    let id = topic.partition(delete.partition_id);
    let partition = state.log.partition(id).map_err(|_| Status::PARTITION_NOT_FOUND)?;
    let offsets = state.log.offsets(id).map_err(|_| Status::PARTITION_NOT_FOUND)?;
    // A stored offset is the offset of the last processed message. The next offset to read is one
    // higher.
    let read = offsets.iter().map(|(_, offset)| offset.saturating_add(1)).min();
    let count = delete.segments_count as usize;
    let deleted = partition.delete_segments(count, read.unwrap_or(u64::MAX)).wait();
    deleted.map_err(|error| match error.kind() {
        ErrorKind::Closed | ErrorKind::NotFound => Status::PARTITION_NOT_FOUND,
        _ => super::storage_status(&error),
    })?;
    info!(partition = %id, count, user = request.user, "segments deleted");
    Ok(Vec::new())
}
