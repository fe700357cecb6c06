//! Sending and flushing messages.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use iggy_binary_protocol::requests::messages::{FlushUnsavedBufferRequest, SendMessagesHeader};
use iggy_binary_protocol::responses::messages::send_messages::{
    SendMessagesConfirmationResponse, SendMessagesResponse,
};
use iggy_binary_protocol::{WireDecode, WireEncode, WirePartitioning};
use tailwater_format::message::batch::Batch;
use tailwater_log::{
    Appended, CatalogSnapshot, Error, ErrorKind, Partition, PartitionId, TopicId, VerifiedBatch,
};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};
use tracing::warn;
use xxhash_rust::xxh32::xxh32;

use super::{Outcome, Request, resolve};
use crate::in_flight::{Reservation, SMALL_BYTES};
use crate::state::State;
use crate::status::Status;
use crate::users::Action;

/// Maximum time that a send waits for space in the log to append its batch. After that, the client
/// is asked to repeat the send. Clients time out after 30 s.
const FULL_TIMEOUT: Duration = Duration::from_secs(20);
/// Time for which a send that waits for space in the log keeps the memory of its batch, even if
/// other requests wait for memory.
const FULL_PATIENCE: Duration = Duration::from_secs(2);

/// Appends a batch.
pub(super) async fn send(state: &Arc<State>, request: &Request<'_>, body: Bytes) -> Outcome {
    let (metadata, batch) = split(&body)?;
    let header = SendMessagesHeader::decode_from(metadata)?;
    let id = target(state, request.user, &header)?;
    let partition = state.log.partition(id).map_err(|_| Status::PARTITION_NOT_FOUND)?;
    let (batch, count) = (body.slice_ref(batch), header.messages_count);
    let verifying = Arc::clone(&partition);
    let batch = run(body.len(), move || verify(&verifying, batch, count)).await??;
    let base_offset = append(&partition, &Arc::new(batch), body.len(), request.reservation).await?;
    let confirmation = SendMessagesConfirmationResponse {
        stream_id: id.stream,
        topic_id: id.topic,
        partition_id: id.partition,
        base_offset,
    };
    let response = SendMessagesResponse { confirmations: vec![confirmation] };
    Ok(response.to_bytes().to_vec())
}

/// Runs work on a batch of `bytes` bytes. Work on a large batch takes milliseconds, so it runs on a
/// thread that may block, and does not delay other clients.
async fn run<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Status> {
    if bytes <= SMALL_BYTES {
        return Ok(work());
    }
    tokio::task::spawn_blocking(work).await.map_err(|_| Status::ERROR)
}

/// Verifies a batch, which must have `count` messages.
fn verify(partition: &Partition, batch: Bytes, count: u32) -> Result<VerifiedBatch<Bytes>, Status> {
    let decoded = Batch::decode(&batch).map_err(|_| Status::INVALID_MESSAGES_COUNT)?;
    if decoded.header().count != count || count == 0 {
        return Err(Status::INVALID_MESSAGES_COUNT);
    }
    partition.verify(batch).map_err(|error| append_status(partition, &error))
}

/// Returns the number of bytes at the start of a body that contain the target of its batch, or as
/// many as are needed to find out.
pub(super) fn target_bytes(arrived: &[u8]) -> usize {
    let length = arrived.first_chunk::<4>().map_or(0, |length| u32::from_le_bytes(*length));
    (length as usize).saturating_add(4)
}

/// Checks that the user may append messages to the target of a batch, and that the target exists.
/// `start` is the start of the request's body.
///
/// # Errors
/// The errors of [`send`] that do not depend on the batch.
pub(super) fn check_target(state: &State, user: u32, start: &[u8]) -> Result<(), Status> {
    let (metadata, _) = split(start)?;
    let header = SendMessagesHeader::decode_from(metadata)?;
    let catalog = state.log.catalog();
    let topic = target_topic(state, &catalog, user, &header)?;
    let partitions = &catalog.topic(topic).ok_or(Status::TOPIC_ID_NOT_FOUND)?.partitions;
    match &header.partitioning {
        WirePartitioning::PartitionId(id) if !partitions.contains_key(id) => {
            Err(Status::PARTITION_NOT_FOUND)
        }
        _ if partitions.is_empty() => Err(Status::NO_PARTITIONS),
        _ => Ok(()),
    }
}

/// Splits a body into the metadata with the batch's target, and the batch.
fn split(body: &[u8]) -> Result<(&[u8], &[u8]), Status> {
    let (length, rest) = body.split_first_chunk::<4>().ok_or(Status::INVALID_COMMAND)?;
    let length = u32::from_le_bytes(*length) as usize;
    rest.split_at_checked(length).ok_or(Status::INVALID_COMMAND)
}

/// Returns the target topic of a batch, to which the user may append messages.
fn target_topic(
    state: &State,
    catalog: &CatalogSnapshot,
    user: u32,
    header: &SendMessagesHeader,
) -> Result<TopicId, Status> {
    let topic = resolve::topic_in(catalog, &header.stream_id, &header.topic_id)?;
    state.users.authorize(user, Action::AppendMessages(topic))?;
    Ok(topic)
}

/// Returns the target partition of a batch.
fn target(state: &State, user: u32, header: &SendMessagesHeader) -> Result<PartitionId, Status> {
    let catalog = state.log.catalog();
    let topic = target_topic(state, &catalog, user, header)?;
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
/// `bytes` is the size of the request.
///
/// If the log is full, the send waits for space. It gives up when the memory that the request holds
/// is revoked. Otherwise, requests with batches for a partition that accepts no appends could take
/// all of the memory for requests.
async fn append(
    partition: &Arc<Partition>,
    batch: &Arc<VerifiedBatch<Bytes>>,
    bytes: usize,
    memory: Option<&Reservation>,
) -> Result<u64, Status> {
    let attempt = |freed: Arc<Notify>| {
        let (target, batch) = (Arc::clone(partition), Arc::clone(batch));
        let append = move || target.try_append_or(&batch, move || freed.notify_one());
        async move {
            match run(bytes, append).await? {
                Err(error) if error.kind() == ErrorKind::Full => Ok(None),
                appended => appended.map(Some).map_err(|error| append_status(partition, &error)),
            }
        }
    };
    let appended: Appended = when_space(attempt, memory).await?;
    appended.ticket.await.map_err(|error| append_status(partition, &error))?;
    Ok(appended.base_offset)
}

/// Attempts an append until there is space for it: as long as it returns `None`, the next attempt
/// follows when the [`Notify`] is notified. Only the waits between the attempts have a time limit.
/// An append that has begun is awaited, because it may succeed.
///
/// # Errors
/// The errors of the append. Not accepted, if there is no space within [`FULL_TIMEOUT`], or the
/// memory that the request holds is revoked.
async fn when_space<T, F>(
    mut attempt: impl FnMut(Arc<Notify>) -> F,
    memory: Option<&Reservation>,
) -> Result<T, Status>
where
    F: Future<Output = Result<Option<T>, Status>>,
{
    if let Some(memory) = memory {
        memory.progress().restart(FULL_PATIENCE);
    }
    let end = Instant::now() + FULL_TIMEOUT;
    loop {
        let freed = Arc::new(Notify::new());
        if let Some(done) = attempt(Arc::clone(&freed)).await? {
            return Ok(done);
        }
        let waited = timeout_at(end, wait_for_space(&freed, memory)).await;
        waited.unwrap_or(Err(Status::TRANSIENT_NOT_ACCEPTED))?;
    }
}

/// Waits until `freed` is notified.
///
/// # Errors
/// Not accepted, if the memory that the request holds is revoked.
async fn wait_for_space(freed: &Notify, memory: Option<&Reservation>) -> Result<(), Status> {
    let Some(memory) = memory else {
        freed.notified().await;
        return Ok(());
    };
    let _waiting = memory.progress().wait();
    tokio::select! {
        biased;
        () = freed.notified() => Ok(()),
        () = memory.revoked() => Err(Status::TRANSIENT_NOT_ACCEPTED),
    }
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

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    /// Regression test: the time limit of the wait for space applied to the append, too. A send was
    /// answered as not accepted although its batch was appended, so the client sent it again.
    #[tokio::test(start_paused = true)]
    async fn an_append_that_has_begun_is_awaited() {
        let slow = |_| async {
            sleep(2 * FULL_TIMEOUT).await;
            Ok(Some(7))
        };
        assert_eq!(when_space(slow, None).await, Ok(7));
        let mut attempts = 0;
        let slow_after_a_wait = |freed: Arc<Notify>| {
            attempts += 1;
            let done = (attempts == 2).then_some(7);
            async move {
                sleep(FULL_TIMEOUT - Duration::from_secs(1)).await;
                freed.notify_one();
                Ok(done)
            }
        };
        assert_eq!(when_space(slow_after_a_wait, None).await, Ok(7));
    }

    #[tokio::test(start_paused = true)]
    async fn a_send_without_space_is_not_accepted_in_the_end() {
        let full = |_| async { Ok(None::<u8>) };
        let began = Instant::now();
        assert_eq!(when_space(full, None).await, Err(Status::TRANSIENT_NOT_ACCEPTED));
        assert_eq!(began.elapsed().as_secs(), FULL_TIMEOUT.as_secs());
    }
}
