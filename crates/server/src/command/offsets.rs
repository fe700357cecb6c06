//! Commands for the stored offsets of consumers and groups.

use std::sync::Arc;

use iggy_binary_protocol::requests::consumer_offsets::{
    DeleteConsumerOffsetRequest, GetConsumerOffsetRequest, StoreConsumerOffsetRequest,
};
use iggy_binary_protocol::responses::consumer_offsets::ConsumerOffsetResponse;
use iggy_binary_protocol::{
    AckLevel, KIND_CONSUMER, KIND_CONSUMER_GROUP, WireConsumer, WireDecode, WireEncode,
    WireIdentifier,
};
use tailwater_log::{Consumer, ErrorKind, PartitionId, Ticket, TopicId};

use super::{Outcome, Request, resolve};
use crate::state::State;
use crate::status::Status;
use crate::users::Action;

/// Returns a consumer's stored offset; an empty body if there is none.
pub(super) fn get(state: &State, request: &Request<'_>) -> Outcome {
    let get = GetConsumerOffsetRequest::decode_from(request.body)?;
    let topic = resolve::topic(state, &get.stream_id, &get.topic_id)?;
    state.users.authorize(request.user, Action::GetOffset(topic))?;
    let partition = get.partition_id.unwrap_or(0);
    let id = topic.partition(partition);
    let stats = state.log.partition(id).map_err(|_| Status::PARTITION_NOT_FOUND)?.stats();
    let Some(consumer) = consumer(state, topic, &get.consumer)? else { return Ok(Vec::new()) };
    let stored = state.log.offset(id, consumer).map_err(|_| Status::PARTITION_NOT_FOUND)?;
    let Some(stored_offset) = stored else { return Ok(Vec::new()) };
    let response = ConsumerOffsetResponse {
        partition_id: partition,
        current_offset: stats.end_offset.saturating_sub(1),
        stored_offset,
    };
    Ok(response.to_bytes().to_vec())
}

/// Returns the consumer or group whose offset a request changes.
fn existing(state: &State, topic: TopicId, named: &WireConsumer) -> Result<Consumer, Status> {
    consumer(state, topic, named)?.ok_or(match named.id {
        WireIdentifier::Numeric(_) => Status::CONSUMER_GROUP_ID_NOT_FOUND,
        WireIdentifier::String(_) => Status::CONSUMER_GROUP_NAME_NOT_FOUND,
    })
}

/// Returns the consumer or group that a request names; `None` for a group that does not exist.
fn consumer(
    state: &State,
    topic: TopicId,
    consumer: &WireConsumer,
) -> Result<Option<Consumer>, Status> {
    match consumer.kind {
        KIND_CONSUMER => Ok(Some(resolve::consumer(&consumer.id))),
        KIND_CONSUMER_GROUP => Ok(state.groups.resolve(topic, &consumer.id).map(Consumer::Group)),
        _ => Err(Status::INVALID_COMMAND),
    }
}

/// Stores a consumer's offset.
pub(super) async fn store(state: &Arc<State>, request: &Request<'_>) -> Outcome {
    let store = StoreConsumerOffsetRequest::decode_from(request.body)?;
    let topic = resolve::topic(state, &store.stream_id, &store.topic_id)?;
    state.users.authorize(request.user, Action::StoreOffset(topic))?;
    let consumer = existing(state, topic, &store.consumer)?;
    let id = topic.partition(store.partition_id.unwrap_or(0));
    let keep = || keep(state, id, consumer, store.offset, None);
    let ticket = match consumer {
        Consumer::Single(_) => keep(),
        Consumer::Group(group) => {
            let session = request.session.id;
            state.groups.change_offset(
                session,
                topic,
                group,
                id.partition,
                Some(store.offset),
                keep,
            )
        }
    }?;
    if store.ack != AckLevel::NoAck {
        ticket.await.map_err(|_| Status::IO_ERROR)?;
    }
    Ok(Vec::new())
}

/// Stores a consumer's offset. With `incarnation`, the offset is that of a poll: stores it only if
/// the partition still has this incarnation, and no higher offset is stored. The returned ticket
/// completes when the offset survives a crash of the process or, if the topic requires durable
/// offsets, a power cut.
pub(super) fn keep(
    state: &State,
    id: PartitionId,
    consumer: Consumer,
    offset: u64,
    incarnation: Option<u64>,
) -> Result<Ticket, Status> {
    state.consumers.store(&state.log, id, consumer, || {
        let log = &state.log;
        let stored = match incarnation {
            Some(incarnation) => log.store_polled_offset(id, incarnation, consumer, offset),
            None => log.store_offset(id, consumer, offset),
        };
        stored.map_err(|error| match error.kind() {
            ErrorKind::InvalidArgument => Status::INVALID_OFFSET,
            ErrorKind::NotFound => Status::PARTITION_NOT_FOUND,
            _ => super::storage_status(&error),
        })
    })
}

/// Deletes a consumer's offset.
pub(super) async fn delete(state: &Arc<State>, request: &Request<'_>) -> Outcome {
    let delete = DeleteConsumerOffsetRequest::decode_from(request.body)?;
    let topic = resolve::topic(state, &delete.stream_id, &delete.topic_id)?;
    state.users.authorize(request.user, Action::DeleteOffset(topic))?;
    let consumer = existing(state, topic, &delete.consumer)?;
    let id = topic.partition(delete.partition_id.unwrap_or(0));
    state.log.partition(id).map_err(|_| Status::PARTITION_NOT_FOUND)?;
    let forget = || {
        let deleted = state.log.delete_offset(id, consumer);
        deleted.map_err(|_| Status::CONSUMER_OFFSET_NOT_FOUND)
    };
    let ticket = match consumer {
        Consumer::Single(_) => state.consumers.delete(id, forget),
        Consumer::Group(group) => {
            let session = request.session.id;
            state.groups.change_offset(session, topic, group, id.partition, None, forget)
        }
    }?;
    if delete.ack != AckLevel::NoAck {
        ticket.await.map_err(|_| Status::IO_ERROR)?;
    }
    Ok(Vec::new())
}
