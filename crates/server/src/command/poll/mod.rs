//! Polling messages.

mod extent;
mod reading;
mod reply;

use std::sync::Arc;

use iggy_binary_protocol::requests::messages::PollMessagesRequest;
use iggy_binary_protocol::{KIND_CONSUMER, KIND_CONSUMER_GROUP, WireDecode};
use tailwater_log::{Consumer, PartitionId, Strategy};

pub(crate) use reply::{PollReply, Release, Unread};

use super::{Body, Request, offsets, resolve};
use crate::state::State;
use crate::status::Status;
use crate::users::Action;
use reading::read;

/// Partition id in the reply to a group member whose poll is refused. It makes the client request
/// its current partitions before it polls again.
const SYNCHRONIZE: u32 = u32::MAX;

/// Codes of the positions at which a poll can start (the strategies) in the protocol.
const STRATEGY_OFFSET: u8 = 1;
const STRATEGY_TIMESTAMP: u8 = 2;
const STRATEGY_FIRST: u8 = 3;
const STRATEGY_LAST: u8 = 4;
const STRATEGY_NEXT: u8 = 5;

/// Reads messages.
pub(super) async fn poll(state: &Arc<State>, request: &Request<'_>) -> Result<Body, Status> {
    let poll = PollMessagesRequest::decode_from(request.body)?;
    let topic = resolve::topic(state, &poll.stream_id, &poll.topic_id)?;
    state.users.authorize(request.user, Action::PollMessages(topic))?;
    let reply = |partition, read: PollReply| Ok(read.into_body(partition));
    let synchronize = || Ok(reply::empty_body(SYNCHRONIZE));
    match poll.consumer.kind {
        KIND_CONSUMER => {
            let consumer = resolve::consumer(&poll.consumer.id);
            let id = topic.partition(poll.partition_id.unwrap_or(0));
            let read = read(state, id, consumer, &poll).await?;
            if poll.auto_commit
                && let Some(last) = read.last_polled_offset()
            {
                // The offset is stored, but the reply does not wait until it is durable. If the
                // server crashes before that, the consumer reads the messages again.
                offsets::keep(state, id, consumer, last, Some(read.incarnation())).map(drop)?;
            }
            reply(id.partition, read)
        }
        KIND_CONSUMER_GROUP => {
            let group = state.groups.resolve(topic, &poll.consumer.id);
            let session = request.session.id;
            let begun = group.and_then(|group| {
                let begun = state.groups.begin_poll(session, topic, group, poll.partition_id)?;
                Some((Consumer::Group(group), begun))
            });
            let Some((consumer, begun)) = begun else { return synchronize() };
            let id = topic.partition(begun.partition());
            let read = read(state, id, consumer, &poll).await?;
            let Some(last) = read.last_polled_offset() else {
                return reply(id.partition, read);
            };
            if !poll.auto_commit {
                begun.polled(last);
                return reply(id.partition, read);
            }
            let keep = || offsets::keep(state, id, consumer, last, Some(read.incarnation()));
            match begun.committed(last, keep) {
                Ok(_) => reply(id.partition, read),
                Err(Status::CONSUMER_GROUP_PARTITION_NOT_OWNED) => synchronize(),
                Err(status) => Err(status),
            }
        }
        _ => Err(Status::INVALID_COMMAND),
    }
}

/// Returns the position at which a poll starts.
fn strategy(
    state: &State,
    id: PartitionId,
    consumer: Consumer,
    kind: u8,
    value: u64,
) -> Result<Strategy, Status> {
    Ok(match kind {
        STRATEGY_OFFSET => Strategy::Offset(value),
        STRATEGY_TIMESTAMP => Strategy::Timestamp(value),
        STRATEGY_FIRST => Strategy::First,
        STRATEGY_LAST => Strategy::Last,
        STRATEGY_NEXT => {
            match state.log.offset(id, consumer).map_err(|_| Status::PARTITION_NOT_FOUND)? {
                Some(stored) => Strategy::Offset(stored.saturating_add(1)),
                None => Strategy::First,
            }
        }
        _ => return Err(Status::INVALID_COMMAND),
    })
}
