//! Commands that read and change topics.

use iggy_binary_protocol::requests::topics::{
    CreateTopicRequest, DeleteTopicRequest, GetTopicRequest, GetTopicsRequest, PurgeTopicRequest,
    UpdateTopicRequest,
};
use iggy_binary_protocol::responses::streams::get_stream::TopicHeader;
use iggy_binary_protocol::responses::topics::{
    GetTopicResponse, GetTopicsResponse, PartitionResponse,
};
use iggy_binary_protocol::{MAX_PARTITIONS_PER_REQUEST, WireDecode, WireEncode, WireName};
use tailwater_log::{Error, ErrorKind, PartitionId, PartitionStats, TopicId, TopicInfo};
use tracing::info;

use super::options::Settings;
use super::{Outcome, Request, count, resolve};
use crate::state::State;
use crate::status::Status;
use crate::users::Action;

/// Returns a topic with its partitions; an empty body if the topic does not exist.
pub(super) fn get_topic(state: &State, request: &Request<'_>) -> Outcome {
    let get = GetTopicRequest::decode_from(request.body)?;
    let Ok(id) = resolve::topic(state, &get.stream_id, &get.topic_id) else {
        return Ok(Vec::new());
    };
    state.users.authorize(request.user, Action::GetTopic(id))?;
    details(state, id)
}

/// Returns the topics of a stream; an empty list if the stream does not exist, as in Iggy.
pub(super) fn get_topics(state: &State, request: &Request<'_>) -> Outcome {
    let get = GetTopicsRequest::decode_from(request.body)?;
    let catalog = state.log.catalog();
    let Ok(stream) = resolve::stream_in(&catalog, &get.stream_id) else {
        return Ok(GetTopicsResponse { topics: Vec::new() }.to_bytes().to_vec());
    };
    state.users.authorize(request.user, Action::GetTopics(stream))?;
    let info = catalog.streams().get(&stream).ok_or(Status::STREAM_ID_NOT_FOUND)?;
    let headers = info
        .topics
        .iter()
        .map(|(topic, info)| header(state, TopicId { stream, topic: *topic }, info));
    let response = GetTopicsResponse { topics: headers.collect::<Result<_, _>>()? };
    Ok(response.to_bytes().to_vec())
}

/// Encodes a topic with its partitions; an empty body if the topic does not exist.
fn details(state: &State, id: TopicId) -> Outcome {
    let catalog = state.log.catalog();
    let Some(info) = catalog.topic(id) else { return Ok(Vec::new()) };
    let partitions = info.partitions.iter().map(|(partition, info)| {
        let stats = stats(state, id.partition(*partition));
        PartitionResponse {
            id: *partition,
            created_at: info.created_us,
            segments_count: stats.map_or(1, |it| count(it.segments.max(1))),
            current_offset: stats.map_or(0, |stats| stats.end_offset.saturating_sub(1)),
            size_bytes: stats.map_or(0, |stats| size(&stats)),
            messages_count: stats.map_or(0, |stats| messages(&stats)),
        }
    });
    let partitions = partitions.collect();
    let response = GetTopicResponse { topic: header(state, id, info)?, partitions };
    Ok(response.to_bytes().to_vec())
}

fn stats(state: &State, id: PartitionId) -> Option<PartitionStats> {
    // A partition that is being deleted may still be in the catalog, but is no longer open.
    state.log.partition(id).ok().map(|partition| partition.stats())
}

/// Returns the size of a partition in bytes, including unpersisted batches.
pub(super) fn size(stats: &PartitionStats) -> u64 {
    stats.bytes + stats.unpersisted_bytes
}

/// Returns the number of messages of a partition.
pub(super) fn messages(stats: &PartitionStats) -> u64 {
    stats.end_offset.saturating_sub(stats.start_offset)
}

/// Returns the total size of a topic in bytes, and the number of its messages.
pub(super) fn totals(state: &State, id: TopicId, info: &TopicInfo) -> (u64, u64) {
    let stats =
        info.partitions.keys().filter_map(|partition| stats(state, id.partition(*partition)));
    stats.fold((0, 0), |(bytes, count), stats| (bytes + size(&stats), count + messages(&stats)))
}

/// Returns a topic's description, the part that all replies about topics contain.
pub(super) fn header(state: &State, id: TopicId, info: &TopicInfo) -> Result<TopicHeader, Status> {
    let settings = Settings::of(&info.options, &state.config.topics);
    let (size_bytes, messages_count) = totals(state, id, info);
    Ok(TopicHeader {
        id: id.topic,
        created_at: info.created_us,
        partitions_count: count(info.partitions.len()),
        message_expiry: settings.message_expiry_us,
        compression_algorithm: settings.compression,
        max_topic_size: settings.topic_bytes_max,
        size_bytes,
        messages_count,
        name: WireName::new(info.name.as_str())?,
        options: settings.to_wire(true),
        derived_options: settings.to_wire(false),
    })
}

/// Creates a topic, and returns it.
pub(super) fn create_topic(state: &State, request: &Request<'_>) -> Outcome {
    let create = CreateTopicRequest::decode_from(request.body)?;
    let _changing = state.changing.lock();
    let stream = resolve::stream(state, &create.stream_id)?;
    state.users.authorize(request.user, Action::CreateTopic(stream))?;
    let defaults = &state.config.topics;
    let settings = Settings::create(&create.options, defaults)?;
    let partitions = create.partitions_count;
    let limits = &state.config.limits;
    if partitions > MAX_PARTITIONS_PER_REQUEST || partitions as usize > limits.partitions_max {
        return Err(Status::TOO_MANY_PARTITIONS);
    }
    let catalog = state.log.catalog();
    let topics = catalog.streams().get(&stream).map_or(0, |stream| stream.topics.len());
    if topics >= limits.topics_max {
        return Err(Status::TOO_MANY_TOPICS);
    }
    let options = settings.to_log(&state.config, partitions as usize);
    let name = create.name.as_str();
    let created = state.log.create_topic(stream, None, name, &options, partitions);
    let id = created.map_err(|error| status(&error))?;
    info!(stream, topic = id.topic, name, partitions, user = request.user, "topic created");
    details(state, id)
}

/// Changes a topic's name and options.
pub(super) fn update_topic(state: &State, request: &Request<'_>) -> Outcome {
    let update = UpdateTopicRequest::decode_from(request.body)?;
    let _changing = state.changing.lock();
    let id = resolve::topic(state, &update.stream_id, &update.topic_id)?;
    state.users.authorize(request.user, Action::UpdateTopic(id))?;
    let catalog = state.log.catalog();
    let info = catalog.topic(id).ok_or(Status::TOPIC_ID_NOT_FOUND)?;
    let mut settings = Settings::of(&info.options, &state.config.topics);
    settings.update(&update.options)?;
    let options = settings.to_log(&state.config, info.partitions.len());
    let updated = state.log.update_topic(id, update.name.as_str(), &options);
    updated.map_err(|error| status(&error))?;
    Ok(Vec::new())
}

/// Deletes a topic with its partitions and groups.
pub(super) fn delete_topic(state: &State, request: &Request<'_>) -> Outcome {
    let delete = DeleteTopicRequest::decode_from(request.body)?;
    let _changing = state.changing.lock();
    let id = resolve::topic(state, &delete.stream_id, &delete.topic_id)?;
    state.users.authorize(request.user, Action::DeleteTopic(id))?;
    // Permissions on the topic are removed before the topic, because a new topic may reuse its id.
    // A crash between the two changes is harmless: users then lack permissions on a topic that
    // still exists.
    state.users.forget_topic(&state.log, id)?;
    state.log.delete_topic(id).map_err(|error| status(&error))?;
    // Permissions on the topic may have been granted after their removal above. Remove these as
    // well.
    state.users.forget_topic(&state.log, id)?;
    state.groups.topic_deleted(&state.log, id);
    state.forget_deleted();
    info!(stream = id.stream, topic = id.topic, user = request.user, "topic deleted");
    Ok(Vec::new())
}

/// Removes all messages of a topic.
pub(super) fn purge_topic(state: &State, request: &Request<'_>) -> Outcome {
    let purge = PurgeTopicRequest::decode_from(request.body)?;
    let _changing = state.changing.lock();
    let id = resolve::topic(state, &purge.stream_id, &purge.topic_id)?;
    state.users.authorize(request.user, Action::PurgeTopic(id))?;
    state.log.purge_topic(id).map_err(|error| status(&error))?;
    state.groups.topic_purged(id);
    info!(stream = id.stream, topic = id.topic, user = request.user, "topic purged");
    Ok(Vec::new())
}

/// Returns the status to report for an error from changing a topic.
pub(super) fn status(error: &Error) -> Status {
    match error.kind() {
        ErrorKind::AlreadyExists => Status::TOPIC_NAME_ALREADY_EXISTS,
        ErrorKind::InvalidArgument => Status::INVALID_TOPIC_NAME,
        ErrorKind::NotFound => Status::TOPIC_ID_NOT_FOUND,
        _ => super::storage_status(error),
    }
}
