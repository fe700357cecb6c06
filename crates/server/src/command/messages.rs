//! Sending, polling and flushing messages.

use std::sync::Arc;
use std::time::Duration;

use iggy_binary_protocol::requests::messages::{
    FlushUnsavedBufferRequest, PollMessagesRequest, SendMessagesHeader,
};
use iggy_binary_protocol::responses::messages::send_messages::{
    SendMessagesConfirmationResponse, SendMessagesResponse,
};
use iggy_binary_protocol::{
    KIND_CONSUMER, KIND_CONSUMER_GROUP, WireDecode, WireEncode, WirePartitioning,
};
use tailwater_format::message::batch::Batch;
use tailwater_log::{Consumer, Error, ErrorKind, Partition, PartitionId, Polled, Strategy};
use tokio::sync::Notify;
use tokio::task::yield_now;
use tokio::time::timeout;
use tracing::warn;
use xxhash_rust::xxh32::xxh32;

use super::{Body, Content, Outcome, POLL_HEADER_BYTES, Request, offsets, resolve};
use crate::in_flight::Reservation;
use crate::state::State;
use crate::status::Status;
use crate::users::Action;

/// Maximum time that a send waits for space in the log to append its batch. After that, the client
/// is asked to repeat the send. Clients time out after 30 s.
const FULL_TIMEOUT: Duration = Duration::from_secs(20);
/// A send that waits for space in the log checks at this interval whether other requests wait for
/// memory. If so, the send ends, and the memory of its batch is released.
const YIELD_AFTER: Duration = Duration::from_secs(2);
/// Memory that a poll reserves before it reads from the log, in bytes. One read returns up to 1
/// MiB, for which this memory suffices. If the read's first batch alone is larger than 1 MiB, the
/// read returns more.
const POLL_BYTES: usize = (1 << 20) + POLL_HEADER_BYTES;
/// Partition id in the reply to a group member whose poll is refused. It makes the client request
/// its current partitions before it polls again.
const SYNCHRONIZE: u32 = u32::MAX;

/// Codes of the positions at which a poll can start (the strategies) in the protocol.
const STRATEGY_OFFSET: u8 = 1;
const STRATEGY_TIMESTAMP: u8 = 2;
const STRATEGY_FIRST: u8 = 3;
const STRATEGY_LAST: u8 = 4;
const STRATEGY_NEXT: u8 = 5;

/// Appends a batch.
pub(super) async fn send(state: &Arc<State>, request: &Request<'_>) -> Outcome {
    let (metadata, batch) = split(request.body)?;
    let header = SendMessagesHeader::decode_from(metadata)?;
    let id = target(state, request.user, &header)?;
    let partition = state.log.partition(id).map_err(|_| Status::PARTITION_NOT_FOUND)?;
    let count = Batch::decode(batch).map_err(|_| Status::INVALID_MESSAGES_COUNT)?.header().count;
    if count != header.messages_count || count == 0 {
        return Err(Status::INVALID_MESSAGES_COUNT);
    }
    let base_offset = append(&partition, batch, request.reservation).await?;
    let confirmation = SendMessagesConfirmationResponse {
        stream_id: id.stream,
        topic_id: id.topic,
        partition_id: id.partition,
        base_offset,
    };
    let response = SendMessagesResponse { confirmations: vec![confirmation] };
    Ok(response.to_bytes().to_vec())
}

/// Splits a body into the metadata with the batch's target, and the batch.
fn split(body: &[u8]) -> Result<(&[u8], &[u8]), Status> {
    let (length, rest) = body.split_first_chunk::<4>().ok_or(Status::INVALID_COMMAND)?;
    let length = u32::from_le_bytes(*length) as usize;
    rest.split_at_checked(length).ok_or(Status::INVALID_COMMAND)
}

/// Returns the target partition of a batch.
fn target(state: &State, user: u32, header: &SendMessagesHeader) -> Result<PartitionId, Status> {
    let catalog = state.log.catalog();
    let topic = resolve::topic_in(&catalog, &header.stream_id, &header.topic_id)?;
    state.users.authorize(user, Action::AppendMessages(topic))?;
    let partitions = &catalog.topic(topic).ok_or(Status::TOPIC_ID_NOT_FOUND)?.partitions;
    let count = partitions.len();
    let index = match &header.partitioning {
        WirePartitioning::PartitionId(id) if partitions.contains_key(id) => {
            return Ok(topic.partition(*id));
        }
        WirePartitioning::PartitionId(_) => return Err(Status::PARTITION_NOT_FOUND),
        _ if count == 0 => return Err(Status::NO_PARTITIONS),
        WirePartitioning::Balanced => state.balancer.next(topic, count),
        WirePartitioning::MessagesKey(key) => xxh32(key, 0) as usize % count,
    };
    let id = partitions.keys().nth(index).ok_or(Status::PARTITION_NOT_FOUND)?;
    Ok(topic.partition(*id))
}

/// Appends a batch, waits until it is acknowledged, and returns the offset of its first message.
///
/// If the log is full, the send waits for space. It gives up when other requests wait for the
/// memory that this request holds. Otherwise, requests with batches for a partition that accepts no
/// appends could take all of the memory for requests.
async fn append(
    partition: &Partition,
    batch: &[u8],
    memory: Option<&Reservation>,
) -> Result<u64, Status> {
    let batch = partition.verify(batch).map_err(|error| append_status(partition, &error))?;
    let wait = async {
        loop {
            let freed = Arc::new(Notify::new());
            let wake = Arc::clone(&freed);
            match partition.try_append_or(&batch, move || wake.notify_one()) {
                Err(error) if error.kind() == ErrorKind::Full => {
                    while timeout(YIELD_AFTER, freed.notified()).await.is_err() {
                        if memory.is_some_and(Reservation::is_wanted) {
                            return Err(Status::TRANSIENT_NOT_ACCEPTED);
                        }
                    }
                }
                appended => return appended.map_err(|error| append_status(partition, &error)),
            }
        }
    };
    let appended = timeout(FULL_TIMEOUT, wait).await;
    let appended = appended.unwrap_or(Err(Status::TRANSIENT_NOT_ACCEPTED))?;
    appended.ticket.await.map_err(|error| append_status(partition, &error))?;
    Ok(appended.base_offset)
}

fn append_status(partition: &Partition, error: &Error) -> Status {
    match error.kind() {
        ErrorKind::InvalidArgument => Status::INVALID_BATCH_CHECKSUM,
        ErrorKind::Closed | ErrorKind::NotFound => Status::PARTITION_NOT_FOUND,
        // Nothing was appended, so the client repeats the request.
        ErrorKind::OutOfDescriptors => Status::TRANSIENT_NOT_ACCEPTED,
        _ => {
            warn!(partition = %partition.id(), %error, "append failed");
            Status::CANNOT_APPEND_MESSAGE
        }
    }
}

/// Reads messages.
pub(super) async fn poll(state: &Arc<State>, request: &Request<'_>) -> Result<Body, Status> {
    let poll = PollMessagesRequest::decode_from(request.body)?;
    let topic = resolve::topic(state, &poll.stream_id, &poll.topic_id)?;
    state.users.authorize(request.user, Action::PollMessages(topic))?;
    let reply = |partition, read| Ok(polled_body(partition, read));
    let synchronize = || Ok(polled_body(SYNCHRONIZE, Read::default()));
    match poll.consumer.kind {
        KIND_CONSUMER => {
            let consumer = resolve::consumer(&poll.consumer.id);
            let id = topic.partition(poll.partition_id.unwrap_or(0));
            let read = read(state, id, consumer, &poll).await?;
            if poll.auto_commit
                && let Some(last) = read.polled.last_polled_offset()
            {
                // The offset is stored, but the reply does not wait until it is durable. If the
                // server crashes before that, the consumer reads the messages again.
                let incarnation = Some(read.polled.incarnation);
                offsets::keep(state, id, consumer, last, incarnation).map(drop)?;
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
            let Some(last) = read.polled.last_polled_offset() else {
                return reply(id.partition, read);
            };
            if !poll.auto_commit {
                begun.polled(last);
                return reply(id.partition, read);
            }
            let incarnation = Some(read.polled.incarnation);
            let keep = || offsets::keep(state, id, consumer, last, incarnation);
            match begun.committed(last, keep) {
                Ok(_) => reply(id.partition, read),
                Err(Status::CONSUMER_GROUP_PARTITION_NOT_OWNED) => synchronize(),
                Err(status) => Err(status),
            }
        }
        _ => Err(Status::INVALID_COMMAND),
    }
}

/// The result of a poll's read, and the memory reserved for the reply.
#[derive(Default)]
struct Read {
    polled: Polled,
    reservation: Option<Reservation>,
}

fn polled_body(partition: u32, read: Read) -> Body {
    let Read { polled, reservation } = read;
    let mut header = [0; POLL_HEADER_BYTES];
    header[..4].copy_from_slice(&partition.to_le_bytes());
    header[4..12].copy_from_slice(&polled.partition_last_offset.unwrap_or(0).to_le_bytes());
    header[12..].copy_from_slice(&polled.count.to_le_bytes());
    Body { content: Content::Polled { header, polled }, reservation }
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

/// Waits until memory for a poll is reserved, and reads the messages.
///
/// The memory is reserved before the read, because a reply that had to wait for its reservation
/// after the read would already hold the messages in memory. The size of the reply is known only
/// after the read. If the messages do not fit into the reservation and the reservation cannot grow,
/// the messages are dropped. They are read again when enough memory is reserved.
async fn read(
    state: &State,
    id: PartitionId,
    consumer: Consumer,
    poll: &PollMessagesRequest,
) -> Result<Read, Status> {
    let partition = state.log.partition(id).map_err(|_| Status::PARTITION_NOT_FOUND)?;
    let start = || strategy(state, id, consumer, poll.strategy.kind, poll.strategy.value);
    let mut incarnation = partition.incarnation();
    let mut strategy = start()?;
    let mut count = poll.count;
    let mut reservation = state.in_flight.reply(POLL_BYTES).await;
    loop {
        let polled = read_once(&partition, strategy, count).await?;
        if polled.incarnation != incarnation {
            // The partition was purged since the start was determined. A stored offset was that of
            // a message that was removed.
            incarnation = partition.incarnation();
            (strategy, count) = (start()?, poll.count);
            continue;
        }
        let bytes = POLL_HEADER_BYTES + polled.length();
        if bytes > state.config.limits.connection_bytes_max {
            if polled.count < 2 {
                return Err(Status::INVALID_SIZE_BYTES);
            }
            (strategy, count) = (Strategy::Offset(polled.first_offset), polled.count / 2);
            continue;
        }
        if reservation.as_mut().is_some_and(|reservation| reservation.resize(bytes)) {
            let mut read = Read { polled, reservation };
            extend(state, &partition, &mut read, count).await;
            return Ok(read);
        }
        drop((polled, reservation.take()));
        reservation = state.in_flight.reply(bytes).await;
    }
}

/// Adds messages to a poll that ended at the byte limit of one read of the log, until it has
/// `count` messages. This is necessary because programs take a poll with fewer messages than
/// requested for the end of the partition.
///
/// The function stops earlier at the maximum size of a poll, when three quarters of the memory for
/// replies are reserved, and at an error. The next poll returns that error.
async fn extend(state: &State, partition: &Arc<Partition>, read: &mut Read, count: u32) {
    let Read { polled, reservation: Some(reservation) } = read else { return };
    let bytes_max = state.config.limits.poll_body_max();
    while let Some(more) = read_more(partition, polled, reservation, count, bytes_max).await {
        polled.partition_last_offset = more.partition_last_offset;
        polled.count += more.count;
        polled.pieces.extend(more.pieces);
        // A read from memory never yields to the scheduler. The loop must therefore yield.
        yield_now().await;
    }
    reservation.resize(POLL_HEADER_BYTES + polled.length());
}

/// Reads the messages that follow the messages of a poll. Before that, grows `reservation`, the
/// memory that is reserved for the reply to the poll.
async fn read_more(
    partition: &Arc<Partition>,
    polled: &Polled,
    reservation: &mut Reservation,
    count: u32,
    bytes_max: usize,
) -> Option<Polled> {
    let end = polled.end_offset();
    let rest = count.checked_sub(polled.count).filter(|rest| *rest > 0)?;
    let has_more = polled.count > 0 && polled.partition_last_offset.is_some_and(|last| last >= end);
    let bytes = POLL_HEADER_BYTES + polled.length();
    let expected = (bytes + POLL_BYTES).min(bytes_max);
    if !has_more || bytes >= bytes_max || !reservation.grow(expected) {
        return None;
    }
    let more = read_once(partition, Strategy::Offset(end), rest).await.ok()?;
    let total = bytes + more.length();
    let is_same = more.incarnation == polled.incarnation;
    let is_next = is_same && more.count > 0 && more.first_offset == end;
    let fits = total <= bytes_max && (total <= expected || reservation.grow(total));
    (is_next && fits).then_some(more)
}

/// Reads messages. Messages in memory are read in this task; messages in segments are read on a
/// thread that may block.
async fn read_once(
    partition: &Arc<Partition>,
    strategy: Strategy,
    count: u32,
) -> Result<Polled, Status> {
    let polled = match partition.poll_memory(strategy, count) {
        Ok(Some(polled)) => return Ok(polled),
        Ok(None) => {
            let partition = Arc::clone(partition);
            tokio::task::spawn_blocking(move || partition.poll(strategy, count))
                .await
                .map_err(|_| Status::ERROR)?
        }
        Err(error) => Err(error),
    };
    polled.map_err(|error| match error.kind() {
        ErrorKind::Closed | ErrorKind::NotFound => Status::PARTITION_NOT_FOUND,
        ErrorKind::OutOfDescriptors => Status::TRANSIENT_NOT_ACCEPTED,
        _ => {
            warn!(partition = %partition.id(), %error, "poll failed");
            Status::CANNOT_READ_MESSAGE
        }
    })
}

/// Persists the unpersisted messages of a partition.
pub(super) async fn flush(state: &Arc<State>, request: &Request<'_>) -> Outcome {
    let flush = FlushUnsavedBufferRequest::decode_from(request.body)?;
    let id = resolve::partition(state, &flush.stream_id, &flush.topic_id, flush.partition_id)?;
    state.users.authorize(request.user, Action::FlushMessages(id.topic()))?;
    let partition = state.log.partition(id).map_err(|_| Status::PARTITION_NOT_FOUND)?;
    partition.flush(flush.fsync).await.map_err(|error| {
        warn!(partition = %id, %error, "flush failed");
        Status::CANNOT_SYNC_FILE
    })?;
    Ok(Vec::new())
}
