//! Fills a log from a running server: Iggy's server, or another server with its protocol.
//!
//! # Where an import resumes
//!
//! Offsets in a partition are contiguous, in the source and in the log. Offset 0 of a partition in
//! the log corresponds to an offset `B` in the source. A partition of the log with `N` messages
//! therefore resumes at the source's offset `B + N`. `B` is stored as a record in the log. That
//! record is durable before the first message is appended. If the source has removed the message at
//! `B + N` and continues at a higher offset, `B` is increased by the difference before the next
//! append. After a crash at any point, the import resumes after the last message in the log.
//!
//! If the partition was purged in the source, or deleted and created again, its offsets began at 0
//! again, and `B + N` is meaningless. So the message at `B + N - 1` in the source must be the last
//! one in the log. If the source no longer has it, the source must not end below `B + N`.

mod connection;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use iggy_binary_protocol::WireIdentifier;
use iggy_binary_protocol::responses::streams::StreamResponse;
use iggy_binary_protocol::responses::streams::get_stream::TopicHeader;
use tailwater_format::message::batch::{Batch, Builder, HEADER_BYTES};
use tailwater_io::Storage;
use tailwater_io::posix::PosixStorage;
use tailwater_log::{Log, LogOptions, Partition, PartitionId, PolledMessage, Strategy, TopicId};

pub use connection::ClientError;
use connection::Connection;

use crate::command::imported_options;

/// Number of messages that the first poll of a partition requests (`MESSAGES`), and the maximum
/// number that any poll requests (`MESSAGES_MAX`).
const MESSAGES: u32 = 1000;
const MESSAGES_MAX: u32 = 100_000;
/// If the size of a reply, in bytes, is in this range, the next poll requests the same number of
/// messages. After a smaller reply, the number is doubled; after a larger one, it is halved.
const REPLY_BYTES: std::ops::Range<usize> = (1 << 20)..(16 << 20);
/// Name of a file in the directory of every log. It shows that the directory contains a log.
const IDENTITY: &str = "TAILWATER-LOG";

/// The server to import from.
#[derive(Clone)]
pub struct Source {
    /// The server's address, such as `127.0.0.1:8090`.
    pub address: String,
    /// Name of a user that may read the imported streams.
    pub username: String,
    /// The user's password.
    pub password: String,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Source({} as {})", self.address, self.username)
    }
}

/// The result of an import.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Imported {
    /// Number of partitions from which messages were requested.
    pub partitions: u64,
    /// Number of messages appended.
    pub messages: u64,
    /// Size of the appended batches, in bytes.
    pub bytes: u64,
    /// Number of messages that were not imported, because the source removed them after the first
    /// import of their partition had begun.
    pub missed: u64,
}

/// The reason why an import ended early. Messages imported so far stay in the log, and another
/// import resumes after them.
#[derive(Debug)]
#[non_exhaustive]
pub enum ImportError {
    /// The source refused a request or cannot be reached.
    Source(ClientError),
    /// An error from the log.
    Log(tailwater_log::Error),
    /// The directory contains files of another program, or cannot be read.
    Directory(String),
    /// The log has a stream or topic with the same id but another name, or a partition with
    /// messages that were not imported; or a partition was purged in the source, or deleted and
    /// created again, since messages of it were imported.
    Conflict(String),
    /// The source sent damaged batches.
    Damaged(String),
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source(error) => error.fmt(f),
            Self::Log(error) => error.fmt(f),
            Self::Directory(message) | Self::Conflict(message) | Self::Damaged(message) => {
                f.write_str(message)
            }
        }
    }
}

impl std::error::Error for ImportError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Source(error) => Some(error),
            Self::Log(error) => Some(error),
            Self::Directory(_) | Self::Conflict(_) | Self::Damaged(_) => None,
        }
    }
}

impl From<ClientError> for ImportError {
    fn from(error: ClientError) -> Self {
        Self::Source(error)
    }
}

impl From<tailwater_log::Error> for ImportError {
    fn from(error: tailwater_log::Error) -> Self {
        Self::Log(error)
    }
}

/// Imports messages from a server into the log in `directory`, which is created if it is missing.
/// `stream` is the id or name of the stream to import; with `None`, all streams are imported.
///
/// Streams and topics keep their ids and names. Messages keep their ids, origin timestamps, user
/// headers and order. `progress` is called repeatedly with the number of messages imported so far.
///
/// # Errors
/// See [`ImportError`].
pub fn import(
    source: &Source,
    stream: Option<&str>,
    directory: &Path,
    progress: &mut dyn FnMut(u64),
) -> Result<Imported, ImportError> {
    refuse_other_files(directory)?;
    let mut connection = Connection::open(source)?;
    let streams = connection.streams()?;
    let is_wanted = |given: &StreamResponse| match stream {
        Some(wanted) => given.name.as_str() == wanted || given.id.to_string() == wanted,
        None => true,
    };
    let streams: Vec<_> = streams.into_iter().filter(is_wanted).collect();
    if let (Some(wanted), true) = (stream, streams.is_empty()) {
        let message = format!("{} has no stream '{wanted}'", source.address);
        return Err(ClientError::Missing(message).into());
    }
    let log = Log::open(directory, &LogOptions::default())?;
    let mut import = Import { connection, log, imported: Imported::default(), progress };
    for stream in &streams {
        import.stream(stream)?;
    }
    import.log.close()?;
    Ok(import.imported)
}

/// Rejects a directory that contains files of another program, and no log. Writes nothing.
fn refuse_other_files(directory: &Path) -> Result<(), ImportError> {
    let entries = match PosixStorage::new().list(directory) {
        Ok(entries) => entries,
        Err(error) if error.is_not_found() => return Ok(()),
        Err(error) => return Err(ImportError::Directory(error.to_string())),
    };
    let has_log = entries.iter().any(|entry| entry.name == IDENTITY);
    match entries.first() {
        Some(entry) if !has_log => Err(ImportError::Directory(format!(
            "{} contains another program's files ('{}'), and no {IDENTITY}",
            directory.display(),
            entry.name
        ))),
        _ => Ok(()),
    }
}

struct Import<'a> {
    connection: Connection,
    log: Log,
    imported: Imported,
    progress: &'a mut dyn FnMut(u64),
}

impl Import<'_> {
    fn stream(&mut self, stream: &StreamResponse) -> Result<(), ImportError> {
        let name = stream.name.as_str();
        match self.log.streams().get(&stream.id) {
            Some(there) if there.name == name => {}
            Some(there) => {
                let message = format!("stream {} is '{}', not '{name}'", stream.id, there.name);
                return Err(ImportError::Conflict(message));
            }
            None => {
                self.log.create_stream(Some(stream.id), name)?;
            }
        }
        for topic in self.connection.topics(stream.id)? {
            self.topic(stream.id, &topic)?;
        }
        Ok(())
    }

    fn topic(&mut self, stream: u32, topic: &TopicHeader) -> Result<(), ImportError> {
        let name = topic.name.as_str();
        let id = TopicId { stream, topic: topic.id };
        // The ids of partitions begin at 0. If the source has fewer partitions than the log, those
        // with the highest ids were deleted in the source; the log keeps them.
        let partitions = self.connection.partitions(stream, topic.id)?;
        let ids = partitions.iter().map(|partition| partition.id);
        let wanted = ids.max().map_or(0, |highest| highest + 1);
        let streams = self.log.streams();
        match streams.get(&stream).and_then(|stream| stream.topics.get(&topic.id)) {
            Some(there) if there.name == name => {
                let count = u32::try_from(there.partitions.len()).unwrap_or(u32::MAX);
                self.log.create_partitions(id, wanted.saturating_sub(count))?;
            }
            Some(there) => {
                let message = format!(
                    "topic {} of stream {stream} is '{}', not '{name}'",
                    id.topic, there.name
                );
                return Err(ImportError::Conflict(message));
            }
            None => {
                let options = imported_options(topic, wanted);
                self.log.create_topic(stream, Some(topic.id), name, &options, wanted)?;
            }
        }
        for partition in partitions {
            self.partition(id, partition.id)?;
        }
        Ok(())
    }

    fn partition(&mut self, topic: TopicId, number: u32) -> Result<(), ImportError> {
        let partition = self.log.partition(topic.partition(number))?;
        let key = format!("stream/{}/topic/{}/import/{number}", topic.stream, topic.topic);
        let records = self.log.records(&key);
        let mut base: Option<u64> = records.get(&key).and_then(|text| text.parse().ok());
        if base.is_none() && partition.stats().end_offset > 0 {
            let message = format!("{} has messages that were not imported", partition.id());
            return Err(ImportError::Conflict(message));
        }
        self.check_source(&partition, base)?;
        let mut count = MESSAGES;
        self.imported.partitions += 1;
        loop {
            let end = partition.stats().end_offset;
            let next = base.unwrap_or(0) + end;
            let reply = self.connection.poll(topic, number, next, count)?;
            count = match reply.len() {
                bytes if bytes >= REPLY_BYTES.end => (count / 2).max(1),
                bytes if bytes < REPLY_BYTES.start => (count * 2).min(MESSAGES_MAX),
                _ => count,
            };
            let Some(batches) = batches(&partition, &reply, next)? else { break };
            if base.is_none() || batches.first > next {
                self.imported.missed += base.map_or(0, |_| batches.first - next);
                let begins = batches.first - end;
                // A crash between this write and the first append is safe: the next import finds
                // the same number of messages in the log's partition, and computes the same value
                // again.
                self.log.set_records(&[(key.clone(), Some(begins.to_string()))])?;
                base = Some(begins);
            }
            for batch in &batches.batches {
                let appended = partition.append(batch)?;
                drop(appended);
                self.imported.bytes += batch.len() as u64;
            }
            self.imported.messages += batches.messages;
            (self.progress)(self.imported.messages);
        }
        if partition.stats().end_offset > 0 {
            partition.flush(true).wait()?;
        }
        self.check_source(&partition, base)
    }

    /// Checks that the source's partition is the one that `partition` was imported from, as far as
    /// it was. Its first imported message has the offset `base` in the source.
    fn check_source(
        &mut self,
        partition: &Partition,
        base: Option<u64>,
    ) -> Result<(), ImportError> {
        let (id, end) = (partition.id(), partition.stats().end_offset);
        let next = base.unwrap_or(0) + end;
        let Some(last) = next.checked_sub(1) else { return Ok(()) };
        let reply = self.connection.poll(id.topic(), id.partition, last, 1)?;
        let polled = partition.poll(Strategy::Offset(end.saturating_sub(1)), 1)?;
        let imported = polled.messages().next().transpose()?;
        let is_same = is_same(&reply, last, imported)
            .map_err(|error| ImportError::Damaged(format!("{id}, offset {last}: {error}")))?;
        // The source had no message below `base` when that was recorded.
        let is_same = is_same.map(|is_same| is_same && end > 0);
        if is_same == Some(true) {
            return Ok(());
        }
        let partitions = self.connection.partitions(id.stream, id.topic)?;
        let found = partitions.iter().find(|partition| partition.id == id.partition);
        let source_end =
            found.map_or(0, |found| match (found.current_offset, found.messages_count) {
                (0, 0) => 0,
                (last, _) => last.saturating_add(1),
            });
        let what = match is_same {
            // The source has removed the message. If it has no message at all, the offset that it
            // reports does not show whether it ever had one.
            None if source_end.max(1) >= next => return Ok(()),
            None => format!("the source ends at offset {source_end} now"),
            Some(_) => format!(
                "the source, which ends at offset {source_end}, has another message at offset \
                 {last} now"
            ),
        };
        Err(ImportError::Conflict(format!(
            "{}: the messages below offset {next} of the source were imported, but {what}. So it \
             was purged, or deleted and created again, and its messages were not imported. Import \
             them into another directory; or first delete the topic from the log, with a client \
             of `tailwater serve`, which removes the imported messages",
            self.describe(id)
        )))
    }

    /// Returns a text with the names and the ids of a partition's stream and topic.
    fn describe(&self, id: PartitionId) -> String {
        let streams = self.log.streams();
        let stream = streams.get(&id.stream);
        let topic = stream.and_then(|stream| stream.topics.get(&id.topic));
        format!(
            "stream '{}' ({}), topic '{}' ({}), partition {}",
            stream.map_or("", |stream| stream.name.as_str()),
            id.stream,
            topic.map_or("", |topic| topic.name.as_str()),
            id.topic,
            id.partition
        )
    }
}

/// Returns whether the message with this offset in a reply is the imported one; `None` if the reply
/// does not contain the offset. If the log no longer has the imported message, any is the same.
fn is_same(
    reply: &[u8],
    offset: u64,
    imported: Option<PolledMessage<'_>>,
) -> Result<Option<bool>, tailwater_format::Error> {
    let mut rest = reply;
    while !rest.is_empty() {
        let batch = decode(rest)?;
        let header = *batch.header();
        let mut messages = batch.messages();
        let found = messages.find(|message| {
            header.base_offset.saturating_add(message.offset_delta.into()) == offset
        });
        if let Some(found) = found {
            // A producer may give any timestamp.
            let origin_us =
                header.origin_timestamp_us.saturating_add(found.timestamp_delta_us.into());
            return Ok(Some(imported.is_none_or(|imported| {
                (imported.id, imported.origin_timestamp_us) == (found.id, origin_us)
                    && imported.payload == found.payload
                    && imported.user_headers == found.user_headers
            })));
        }
        let length = HEADER_BYTES + batch.message_bytes().len();
        rest = rest.get(length..).unwrap_or_default();
    }
    Ok(None)
}

/// Verifies the batches of a reply. Returns their messages with offsets of at least `next`, encoded
/// as batches of a producer, which have no offsets. Returns `None` if there are no such messages.
fn batches(
    partition: &Arc<Partition>,
    reply: &[u8],
    next: u64,
) -> Result<Option<Batches>, ImportError> {
    let damaged = |error: tailwater_format::Error| {
        ImportError::Damaged(format!("{}, from offset {next}: {error}", partition.id()))
    };
    let mut batches = Batches { first: next, messages: 0, batches: Vec::new() };
    let mut rest = reply;
    let mut expected = None;
    while !rest.is_empty() {
        let batch = decode(rest).map_err(damaged)?;
        let length = HEADER_BYTES + batch.message_bytes().len();
        let header = *batch.header();
        let mut builder = Builder::new(header.origin_timestamp_us);
        for message in batch.messages() {
            let offset = header.base_offset + u64::from(message.offset_delta);
            if offset < next {
                continue;
            }
            let first = *expected.get_or_insert_with(|| {
                batches.first = offset;
                offset
            });
            if offset != first {
                let message =
                    format!("{}: offset {offset} follows where {first} is due", partition.id());
                return Err(ImportError::Damaged(message));
            }
            expected = Some(offset + 1);
            builder
                .push(message.id, message.timestamp_delta_us, message.payload, message.user_headers)
                .map_err(damaged)?;
        }
        if builder.count() > 0 {
            batches.messages += u64::from(builder.count());
            batches.batches.push(builder.finish());
        }
        rest = rest.get(length..).unwrap_or_default();
    }
    Ok((batches.messages > 0).then_some(batches))
}

/// The messages of one poll, as batches to append.
struct Batches {
    /// Offset that the first of these messages has in the source.
    first: u64,
    messages: u64,
    batches: Vec<Vec<u8>>,
}

/// Decodes the batch at the start of `bytes`, and verifies the checksum of each message. A wrong
/// checksum of the whole batch is accepted, because a server that returns only a part of a batch
/// may leave the checksum of the whole batch unchanged.
fn decode(bytes: &[u8]) -> Result<Batch<'_>, tailwater_format::Error> {
    if let Ok(batch) = Batch::decode_verified(bytes) {
        return Ok(batch);
    }
    let batch = Batch::decode(bytes)?;
    let header = batch.header().with_checksum_of(batch.message_bytes());
    let batch = Batch::from_parts(header, batch.message_bytes())?;
    batch.verify()?;
    Ok(batch)
}

/// Returns the protocol's identifier for the numeric id of a stream or topic.
fn numeric(id: u32) -> WireIdentifier {
    WireIdentifier::numeric(id)
}
