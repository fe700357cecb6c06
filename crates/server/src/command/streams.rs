//! Commands that read and change streams.

use iggy_binary_protocol::requests::streams::{
    CreateStreamRequest, DeleteStreamRequest, GetStreamRequest, PurgeStreamRequest,
    UpdateStreamRequest,
};
use iggy_binary_protocol::responses::streams::{
    GetStreamResponse, GetStreamsResponse, StreamResponse,
};
use iggy_binary_protocol::{WireDecode, WireEncode, WireName, WireOptions};
use tailwater_log::{Error, ErrorKind, StreamInfo, TopicId};
use tracing::info;

use super::{Outcome, Request, count, options, resolve, topics};
use crate::state::State;
use crate::status::Status;
use crate::users::Action;

/// Returns a stream with its topics; an empty body if the stream does not exist.
pub(super) fn get_stream(state: &State, request: &Request<'_>) -> Outcome {
    let get = GetStreamRequest::decode_from(request.body)?;
    let catalog = state.log.catalog();
    let Ok(id) = resolve::stream_in(&catalog, &get.stream_id) else { return Ok(Vec::new()) };
    state.users.authorize(request.user, Action::GetStream(id))?;
    let Some(info) = catalog.streams().get(&id) else { return Ok(Vec::new()) };
    let headers = info
        .topics
        .iter()
        .map(|(topic, info)| topics::header(state, TopicId { stream: id, topic: *topic }, info));
    let topics = headers.collect::<Result<Vec<_>, _>>()?;
    let response = GetStreamResponse { stream: response(state, id, info)?, topics };
    Ok(response.to_bytes().to_vec())
}

/// Returns all streams.
pub(super) fn get_streams(state: &State, request: &Request<'_>) -> Outcome {
    state.users.authorize(request.user, Action::GetStreams)?;
    let catalog = state.log.catalog();
    let streams = catalog.streams().iter().map(|(id, info)| response(state, *id, info));
    let response = GetStreamsResponse { streams: streams.collect::<Result<_, _>>()? };
    Ok(response.to_bytes().to_vec())
}

fn response(state: &State, id: u32, info: &StreamInfo) -> Result<StreamResponse, Status> {
    let totals = info.topics.iter().map(|(topic, topic_info)| {
        topics::totals(state, TopicId { stream: id, topic: *topic }, topic_info)
    });
    let (size_bytes, messages_count) =
        totals.fold((0, 0), |sum, topic| (sum.0 + topic.0, sum.1 + topic.1));
    Ok(StreamResponse {
        id,
        created_at: info.created_us,
        topics_count: count(info.topics.len()),
        size_bytes,
        messages_count,
        name: WireName::new(info.name.as_str())?,
        options: WireOptions::empty(),
    })
}

/// Creates a stream, and returns it.
pub(super) fn create_stream(state: &State, request: &Request<'_>) -> Outcome {
    let create = CreateStreamRequest::decode_from(request.body)?;
    state.users.authorize(request.user, Action::CreateStream)?;
    options::refuse_all(&create.options)?;
    let _changing = state.changing.lock();
    if state.log.catalog().streams().len() >= state.config.limits.streams_max {
        return Err(Status::TOO_MANY_STREAMS);
    }
    let id = state.log.create_stream(None, create.name.as_str()).map_err(|error| status(&error))?;
    info!(stream = id, name = create.name.as_str(), user = request.user, "stream created");
    let catalog = state.log.catalog();
    let Some(info) = catalog.streams().get(&id) else { return Ok(Vec::new()) };
    let response = GetStreamResponse { stream: response(state, id, info)?, topics: Vec::new() };
    Ok(response.to_bytes().to_vec())
}

/// Renames a stream.
pub(super) fn update_stream(state: &State, request: &Request<'_>) -> Outcome {
    let update = UpdateStreamRequest::decode_from(request.body)?;
    let _changing = state.changing.lock();
    let id = resolve::stream(state, &update.stream_id)?;
    state.users.authorize(request.user, Action::UpdateStream(id))?;
    options::refuse_all(&update.options)?;
    state.log.rename_stream(id, update.name.as_str()).map_err(|error| status(&error))?;
    Ok(Vec::new())
}

/// Deletes a stream with its topics and groups.
pub(super) fn delete_stream(state: &State, request: &Request<'_>) -> Outcome {
    let delete = DeleteStreamRequest::decode_from(request.body)?;
    let _changing = state.changing.lock();
    let id = resolve::stream(state, &delete.stream_id)?;
    state.users.authorize(request.user, Action::DeleteStream(id))?;
    // Permissions on the stream are removed before the stream, because a new stream may reuse its
    // id. A crash between the two changes is harmless: users then lack permissions on a stream that
    // still exists.
    state.users.forget_stream(&state.log, id)?;
    state.log.delete_stream(id).map_err(|error| status(&error))?;
    // Permissions on the stream may have been granted after their removal above. Remove these as
    // well.
    state.users.forget_stream(&state.log, id)?;
    state.groups.stream_deleted(&state.log, id);
    state.forget_deleted();
    info!(stream = id, user = request.user, "stream deleted");
    Ok(Vec::new())
}

/// Removes all messages of a stream.
pub(super) fn purge_stream(state: &State, request: &Request<'_>) -> Outcome {
    let purge = PurgeStreamRequest::decode_from(request.body)?;
    let _changing = state.changing.lock();
    let id = resolve::stream(state, &purge.stream_id)?;
    state.users.authorize(request.user, Action::PurgeStream(id))?;
    let catalog = state.log.catalog();
    let topics = catalog.streams().get(&id).map(|stream| stream.topics.keys().copied());
    for topic in topics.into_iter().flatten() {
        let topic = TopicId { stream: id, topic };
        state.log.purge_topic(topic).map_err(|error| status(&error))?;
        state.groups.topic_purged(topic);
    }
    info!(stream = id, user = request.user, "stream purged");
    Ok(Vec::new())
}

fn status(error: &Error) -> Status {
    match error.kind() {
        ErrorKind::AlreadyExists => Status::STREAM_NAME_ALREADY_EXISTS,
        ErrorKind::InvalidArgument => Status::INVALID_STREAM_NAME,
        ErrorKind::NotFound => Status::STREAM_ID_NOT_FOUND,
        _ => super::storage_status(error),
    }
}
