//! Reads the messages that a poll returns, within the memory for replies.
//!
//! Messages in the log's tail are returned without a copy, and without a reservation. Memory for
//! messages in segments is reserved before they are read:
//!
//! 1. If the memory for one read is free, it is reserved. If not, the poll first reads only as much
//!    as need not be reserved. If that is not everything, it waits for the memory.
//! 2. A batch beyond one read is read as a whole if its memory is free at once. Otherwise it is
//!    read in parts when they can be sent. To find the wanted messages of such a batch, the log may
//!    have to read all of it, so only a few polls do this concurrently. The others have no memory
//!    reserved while they wait for their turn. The messages that are found in such a batch are
//!    reserved afterwards.
//! 3. If the poll wants more messages, further reads follow as long as memory is free.

use std::sync::Arc;

use iggy_binary_protocol::requests::messages::PollMessagesRequest;
use tailwater_log::{Consumer, ErrorKind, Partition, PartitionId, Polled, Strategy};
use tokio::task::yield_now;
use tracing::warn;

use super::extent::READ_BYTES;
use super::reply::PollReply;
use super::strategy;
use crate::command::POLL_HEADER_BYTES;
use crate::in_flight::UNCOUNTED_BYTES;
use crate::state::State;
use crate::status::Status;

/// Waits until memory for a poll is reserved, and reads the messages.
pub(super) async fn read(
    state: &State,
    id: PartitionId,
    consumer: Consumer,
    poll: &PollMessagesRequest,
) -> Result<PollReply, Status> {
    let partition = state.log.partition(id).map_err(|_| Status::PARTITION_NOT_FOUND)?;
    let start = || strategy(state, id, consumer, poll.strategy.kind, poll.strategy.value);
    let mut incarnation = partition.incarnation();
    let mut strategy = start()?;
    let mut count = poll.count;
    loop {
        let mut reply = PollReply::new(&partition);
        let polled = read_first(state, &mut reply, strategy, count).await?;
        if polled.incarnation != incarnation {
            // The partition was purged since the start was determined. A stored offset was that of
            // a message that was removed.
            incarnation = partition.incarnation();
            (strategy, count) = (start()?, poll.count);
            continue;
        }
        if POLL_HEADER_BYTES + polled.length() > state.config.limits.connection_bytes_max {
            if polled.count < 2 {
                return Err(Status::INVALID_SIZE_BYTES);
            }
            (strategy, count) = (Strategy::Offset(polled.first_offset), polled.count / 2);
            continue;
        }
        reply.add(polled);
        extend(state, &mut reply, count).await;
        reply.reserve_only_held();
        return Ok(reply);
    }
}

/// Reads the first messages of a poll.
async fn read_first(
    state: &State,
    reply: &mut PollReply,
    strategy: Strategy,
    count: u32,
) -> Result<Polled, Status> {
    let partition = Arc::clone(reply.partition());
    if let Some(polled) = read_memory(&partition, strategy, count)? {
        return Ok(polled);
    }
    if !reply.try_reserve(&state.in_flight, READ_BYTES) {
        const BYTES_MAX: usize = UNCOUNTED_BYTES - POLL_HEADER_BYTES;
        if let Some(polled) =
            try_read_segments(state, &partition, strategy, count, BYTES_MAX).await?
            && !has_more(&polled, count)
        {
            return Ok(polled);
        }
        reply.reserve(&state.in_flight, READ_BYTES).await;
    }
    if let Some(polled) = try_read_segments(state, &partition, strategy, count, READ_BYTES).await? {
        return Ok(polled);
    }
    read_large(state, reply, strategy, count).await
}

/// Reads the first messages of a poll, which are in a batch beyond one read.
///
/// Polls hold no memory while they wait for their turn, and do not wait for memory while it is
/// their turn: they would wait for each other.
async fn read_large(
    state: &State,
    reply: &mut PollReply,
    strategy: Strategy,
    count: u32,
) -> Result<Polled, Status> {
    let partition = Arc::clone(reply.partition());
    reply.reserve_only_held();
    let turn = state.in_flight.large_read().await;
    let polled = read_segments(state, &partition, strategy, count, READ_BYTES).await?;
    let (strategy, count, bytes) =
        (Strategy::Offset(polled.first_offset), polled.count, polled.length());
    match (&polled.stored, reply.try_reserve(&state.in_flight, bytes)) {
        (Some(_), true) => read_segments(state, &partition, strategy, count, bytes).await,
        (Some(_), false) | (None, true) => Ok(polled),
        (None, false) => {
            drop((polled, turn));
            reply.reserve(&state.in_flight, READ_BYTES).await;
            read_segments(state, &partition, strategy, count, READ_BYTES).await
        }
    }
}

/// Returns whether there are more messages after a poll that has not got `count` messages.
fn has_more(polled: &Polled, count: u32) -> bool {
    let end = polled.end_offset();
    polled.count < count && polled.partition_last_offset.is_some_and(|last| last >= end)
}

/// Adds messages to a poll that ended at the byte limit of one read of the log, until it has
/// `count` messages. This is necessary because programs take a poll with fewer messages than
/// requested for the end of the partition.
///
/// The function stops earlier at the maximum size of a poll, when three quarters of the memory for
/// large replies are reserved, and at an error. The next poll returns that error.
async fn extend(state: &State, reply: &mut PollReply, count: u32) {
    let bytes_max = state.config.limits.poll_body_max();
    while let Some(more) = read_more(state, reply, count, bytes_max).await {
        reply.add(more);
        // A read from memory never yields to the scheduler. The loop must therefore yield.
        yield_now().await;
    }
}

/// Reads the messages that follow the messages of a poll.
async fn read_more(
    state: &State,
    reply: &mut PollReply,
    count: u32,
    bytes_max: usize,
) -> Option<Polled> {
    let end = reply.more_from()?;
    let rest = count.checked_sub(reply.count()).filter(|rest| *rest > 0)?;
    let bytes = POLL_HEADER_BYTES + reply.length();
    if bytes >= bytes_max {
        return None;
    }
    let partition = Arc::clone(reply.partition());
    let strategy = Strategy::Offset(end);
    let held = reply.counted_bytes();
    let more = match read_memory(&partition, strategy, rest).ok()? {
        Some(more) => more,
        None if reply.try_reserve(&state.in_flight, held + READ_BYTES) => {
            match try_read_segments(state, &partition, strategy, rest, READ_BYTES).await.ok()? {
                Some(more) => more,
                None => {
                    reply.reserve_only_held();
                    let _turn = state.in_flight.large_read().await;
                    let more = read_segments(state, &partition, strategy, rest, READ_BYTES).await;
                    let more = more.ok()?;
                    let fits = more.stored.is_some()
                        || reply.try_reserve(&state.in_flight, held + more.length());
                    fits.then_some(more)?
                }
            }
        }
        None => return None,
    };
    let is_same = more.incarnation == reply.incarnation();
    let is_next = is_same && more.count > 0 && more.first_offset == end;
    (is_next && bytes + more.length() <= bytes_max).then_some(more)
}

/// Reads messages from memory; `None` if they are in a segment.
fn read_memory(
    partition: &Partition,
    strategy: Strategy,
    count: u32,
) -> Result<Option<Polled>, Status> {
    partition.poll_memory(strategy, count).map_err(|error| read_status(partition, &error))
}

/// Reads up to `bytes_max` bytes of messages, on a thread that may block.
async fn read_segments(
    state: &State,
    partition: &Arc<Partition>,
    strategy: Strategy,
    count: u32,
    bytes_max: usize,
) -> Result<Polled, Status> {
    let reading = Arc::clone(partition);
    let read = move || reading.poll_within(strategy, count, bytes_max);
    let polled = state.in_flight.read(read).await.map_err(|_| Status::ERROR)?;
    polled.map_err(|error| read_status(partition, &error))
}

/// Reads up to `bytes_max` bytes of messages, on a thread that may block; `None` if the first batch
/// is larger.
async fn try_read_segments(
    state: &State,
    partition: &Arc<Partition>,
    strategy: Strategy,
    count: u32,
    bytes_max: usize,
) -> Result<Option<Polled>, Status> {
    let reading = Arc::clone(partition);
    let read = move || reading.try_poll_within(strategy, count, bytes_max);
    let polled = state.in_flight.read(read).await.map_err(|_| Status::ERROR)?;
    polled.map_err(|error| read_status(partition, &error))
}

fn read_status(partition: &Partition, error: &tailwater_log::Error) -> Status {
    match error.kind() {
        ErrorKind::Closed | ErrorKind::NotFound => Status::PARTITION_NOT_FOUND,
        ErrorKind::OutOfDescriptors => Status::TRANSIENT_NOT_ACCEPTED,
        _ => {
            warn!(partition = %partition.id(), %error, "poll failed");
            Status::CANNOT_READ_MESSAGE
        }
    }
}
