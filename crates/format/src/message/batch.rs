//! A batch of messages.
//!
//! ```text
//! batch   := header, message*
//! header  := partition: u64                id of the partition, assigned by the log
//!            base offset: u64              offset of its first message, assigned by the log
//!            base timestamp: u64           when the log accepted the batch, in us since 1970
//!            origin timestamp: u64         the producer's earliest timestamp, in us since 1970
//!            length: u64                   of the batch in bytes, the header included
//!            checksum: u64                 of the batch
//!            count: u32                    of messages
//!            zeros: 204 bytes
//! message := checksum: u64                 XXH3 of everything below
//!            id: u128
//!            offset delta: u32             from the base offset
//!            timestamp delta: u32          from the origin timestamp, in us
//!            user headers' length: u32
//!            payload's length: u32
//!            zeros: 8 bytes
//!            payload
//!            user headers
//! ```
//!
//! The batch's checksum is the XXH3 of the partition, base offset, base timestamp, origin
//! timestamp, length and count, followed by the checksum of each message. Since each message's
//! checksum covers the message, the batch's checksum covers every byte. When the log assigns an
//! offset to a batch, it hashes only the header's fields and 8 bytes per message.
//!
//! Source: Apache Iggy's protocol 0.11.0 (`iggy_binary_protocol::batch`).

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::{field, put, u32_at, u64_at};
use crate::{Error, Result};

/// Length of a batch's header, in bytes.
pub const HEADER_BYTES: usize = 256;
/// Length of a message's header, in bytes.
pub const MESSAGE_HEADER_BYTES: usize = 48;
/// Offset of the length in a batch's header, in bytes.
pub const LENGTH_AT: usize = 32;

const CHECKSUM_AT: usize = 40;
const COUNT_AT: usize = 48;
const ZEROS_AT: usize = 52;

/// The header of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Header {
    /// Id of the partition; 0 until a log has accepted the batch.
    pub partition: u64,
    /// Offset that the messages' deltas are relative to: the offset of the first message of the
    /// whole batch, even if this is the header of a [`Part`]. 0 until a log has accepted the batch.
    pub base_offset: u64,
    /// When the log accepted the batch, in microseconds since 1970; 0 until then.
    pub base_timestamp_us: u64,
    /// The producer's timestamp that the messages' deltas are relative to, in microseconds since
    /// 1970.
    pub origin_timestamp_us: u64,
    /// Length of the batch in bytes, the header included.
    pub length: u64,
    /// Stored checksum of the batch.
    pub checksum: u64,
    /// Number of messages.
    pub count: u32,
}

impl Header {
    /// Reads the header at the start of `bytes`.
    ///
    /// # Errors
    /// Corruption, if `bytes` is shorter than a header, the length does not cover the header, or a
    /// byte that must be zero is not.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        const WHAT: &str = "batch header";
        let bytes: &[u8; HEADER_BYTES] =
            bytes.first_chunk().ok_or_else(|| Error::truncated(WHAT, bytes.len()))?;
        let length = u64_at(bytes, LENGTH_AT, WHAT)?;
        if length < HEADER_BYTES as u64 {
            let found = format!("length {length}");
            return Err(Error::corruption(WHAT, LENGTH_AT, "a length of 256 or more", found));
        }
        let zeros = bytes.get(ZEROS_AT..).unwrap_or_default();
        if let Some(at) = zeros.iter().position(|&byte| byte != 0) {
            return Err(Error::corruption(WHAT, ZEROS_AT + at, "zeros", "another byte"));
        }
        Ok(Self {
            partition: u64_at(bytes, 0, WHAT)?,
            base_offset: u64_at(bytes, 8, WHAT)?,
            base_timestamp_us: u64_at(bytes, 16, WHAT)?,
            origin_timestamp_us: u64_at(bytes, 24, WHAT)?,
            length,
            checksum: u64_at(bytes, CHECKSUM_AT, WHAT)?,
            count: u32_at(bytes, COUNT_AT, WHAT)?,
        })
    }

    /// Returns the header's bytes.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        put(&mut bytes, 0, &self.partition.to_le_bytes());
        put(&mut bytes, 8, &self.base_offset.to_le_bytes());
        put(&mut bytes, 16, &self.base_timestamp_us.to_le_bytes());
        put(&mut bytes, 24, &self.origin_timestamp_us.to_le_bytes());
        put(&mut bytes, LENGTH_AT, &self.length.to_le_bytes());
        put(&mut bytes, CHECKSUM_AT, &self.checksum.to_le_bytes());
        put(&mut bytes, COUNT_AT, &self.count.to_le_bytes());
        bytes
    }

    /// Returns this header with the checksum field set for these messages.
    #[must_use]
    pub fn with_checksum_of(self, messages: &[u8]) -> Self {
        let mut hasher = self.begin_checksum();
        for message in Messages::new(messages) {
            hasher.update(&message.checksum.to_le_bytes());
        }
        Self { checksum: hasher.digest(), ..self }
    }

    /// Begins the hash that is the batch's checksum. The checksums of its messages follow.
    pub(super) fn begin_checksum(&self) -> Xxh3 {
        let mut hasher = Xxh3::new();
        let fields = [
            self.partition,
            self.base_offset,
            self.base_timestamp_us,
            self.origin_timestamp_us,
            self.length,
        ];
        for field in fields {
            hasher.update(&field.to_le_bytes());
        }
        hasher.update(&self.count.to_le_bytes());
        hasher
    }

    /// Checks that the batch has as many messages as the header states.
    pub(super) fn check_count(&self, count: u32) -> Result<()> {
        if count != self.count {
            let expected = format!("{} messages", self.count);
            return Err(Error::corruption("batch", COUNT_AT, expected, count.to_string()));
        }
        Ok(())
    }

    /// Checks the batch's checksum. `hasher` has hashed the header and all messages' checksums.
    pub(super) fn check_digest(&self, hasher: &Xxh3) -> Result<()> {
        let computed = hasher.digest();
        if computed != self.checksum {
            let expected = format!("checksum {computed:016x}");
            let found = format!("{:016x}", self.checksum);
            return Err(Error::corruption("batch", CHECKSUM_AT, expected, found));
        }
        Ok(())
    }
}

/// A message in a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// Stored checksum of the message.
    pub checksum: u64,
    /// Id that the producer assigned.
    pub id: u128,
    /// Offset of the message minus the batch's base offset.
    pub offset_delta: u32,
    /// The producer's timestamp, in microseconds from the batch's origin timestamp.
    pub timestamp_delta_us: u32,
    /// The payload.
    pub payload: &'a [u8],
    /// User headers, as the producer encoded them.
    pub user_headers: &'a [u8],
}

impl<'a> Message<'a> {
    /// Decodes the first message of `bytes`. Returns the message, its encoded bytes, and the bytes
    /// after it.
    fn split_first(bytes: &'a [u8]) -> Result<(Self, &'a [u8], &'a [u8])> {
        const WHAT: &str = "message";
        let zeros = u64_at(bytes, 40, WHAT)?;
        if zeros != 0 {
            return Err(Error::corruption(WHAT, 40, "zeros", "other bytes"));
        }
        let headers = u32_at(bytes, 32, WHAT)? as usize;
        let payload = u32_at(bytes, 36, WHAT)? as usize;
        let length = MESSAGE_HEADER_BYTES + payload + headers;
        let (whole, rest) =
            bytes.split_at_checked(length).ok_or_else(|| Error::truncated(WHAT, bytes.len()))?;
        let body = whole.get(MESSAGE_HEADER_BYTES..).unwrap_or_default();
        let (payload, user_headers) = body.split_at_checked(payload).unwrap_or_default();
        let message = Self {
            checksum: u64_at(whole, 0, WHAT)?,
            id: u128::from_le_bytes(field(whole, 8, WHAT)?),
            offset_delta: u32_at(whole, 24, WHAT)?,
            timestamp_delta_us: u32_at(whole, 28, WHAT)?,
            payload,
            user_headers,
        };
        Ok((message, whole, rest))
    }
}

/// Iterator over the messages of a batch. It stops at the first bytes that are not a valid message.
#[derive(Debug, Clone)]
pub struct Messages<'a> {
    rest: &'a [u8],
}

impl<'a> Messages<'a> {
    /// Creates an iterator over the messages at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns the unread bytes.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        let (message, _, rest) = Message::split_first(self.rest).ok()?;
        self.rest = rest;
        Some(message)
    }
}

/// A batch whose messages fill the length in its header exactly. Its checksums are not verified.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    header: Header,
    messages: &'a [u8],
}

/// Some consecutive messages of a batch, each of them whole, and one batch header for all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part<'a> {
    /// The header that covers only these messages. Its base offset is that of the batch from which
    /// the messages come, so that the offset deltas of the messages stay valid.
    pub header: Header,
    /// The messages.
    pub messages: &'a [u8],
}

impl<'a> Batch<'a> {
    /// Reads the batch at the start of `bytes`, which may contain more after it.
    ///
    /// # Errors
    /// Corruption, if `bytes` is shorter than the batch, or if its messages do not fill it exactly.
    pub fn decode(bytes: &'a [u8]) -> Result<Self> {
        let batch = Self::split(bytes)?;
        batch.walk(|_, _| Ok(()))?;
        Ok(batch)
    }

    /// Reads the batch at the start of `bytes`, as [`Self::decode`] does, and checks its checksums.
    ///
    /// # Errors
    /// The errors of [`Self::decode`]; corruption also if a checksum is wrong.
    pub fn decode_verified(bytes: &'a [u8]) -> Result<Self> {
        let batch = Self::split(bytes)?;
        batch.verify()?;
        Ok(batch)
    }

    /// Combines a header and its messages. Only the length is checked.
    ///
    /// # Errors
    /// Corruption, if the header states a different length.
    pub fn from_parts(header: Header, messages: &'a [u8]) -> Result<Self> {
        let length = (HEADER_BYTES + messages.len()) as u64;
        if header.length != length {
            let expected = format!("length {length}");
            return Err(Error::corruption("batch", LENGTH_AT, expected, header.length.to_string()));
        }
        Ok(Self { header, messages })
    }

    /// Checks that the messages fill the batch exactly, and all checksums.
    ///
    /// # Errors
    /// Corruption, for the first mismatch.
    pub fn verify(&self) -> Result<()> {
        let mut hasher = self.header.begin_checksum();
        self.walk(|message, bytes| {
            let computed = xxh3_64(bytes.get(8..).unwrap_or_default());
            if computed != message.checksum {
                let expected = format!("checksum {computed:016x}");
                let found = format!("{:016x}", message.checksum);
                return Err(Error::corruption("message", 0, expected, found));
            }
            hasher.update(&message.checksum.to_le_bytes());
            Ok(())
        })?;
        self.header.check_digest(&hasher)
    }

    fn split(bytes: &'a [u8]) -> Result<Self> {
        let header = Header::decode(bytes)?;
        let length = usize::try_from(header.length).unwrap_or(usize::MAX);
        let messages = bytes
            .get(HEADER_BYTES..length)
            .ok_or_else(|| Error::truncated("batch", bytes.len()))?;
        Ok(Self { header, messages })
    }

    /// Calls `visit` with each message and its encoded bytes, and checks that the messages fill the
    /// batch exactly.
    fn walk(&self, mut visit: impl FnMut(&Message<'a>, &'a [u8]) -> Result<()>) -> Result<()> {
        let mut rest = self.messages;
        let mut count: u32 = 0;
        while !rest.is_empty() {
            let at = (HEADER_BYTES + self.messages.len() - rest.len()) as u64;
            let (message, whole, after) =
                Message::split_first(rest).map_err(|error| error.at(at))?;
            visit(&message, whole).map_err(|error| error.at(at))?;
            count = count.saturating_add(1);
            rest = after;
        }
        self.header.check_count(count)
    }

    /// Returns the header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the bytes of all messages.
    pub fn message_bytes(&self) -> &'a [u8] {
        self.messages
    }

    /// Returns the messages in order.
    pub fn messages(&self) -> Messages<'a> {
        Messages::new(self.messages)
    }

    /// Returns the offset after that of the last message, at which the next batch begins.
    pub fn end_offset(&self) -> u64 {
        self.header.base_offset.saturating_add(u64::from(self.header.count))
    }

    /// Checks that a log can accept the batch from a producer: it has at least one message, and the
    /// offset deltas are 0, 1, 2 and so on.
    ///
    /// # Errors
    /// Corruption, naming the faulty message.
    pub fn check_deltas(&self) -> Result<()> {
        if self.header.count == 0 {
            return Err(Error::corruption("batch", COUNT_AT, "at least one message", "none"));
        }
        for (index, message) in (0..).zip(self.messages()) {
            if message.offset_delta != index {
                let expected = format!("offset delta {index}");
                let found = message.offset_delta.to_string();
                return Err(Error::corruption("message", 24, expected, found));
            }
        }
        Ok(())
    }

    /// Returns the header with which a log stores this batch: it contains the fields that the log
    /// assigns, and the checksum is updated.
    pub fn stamped(&self, partition: u64, base_offset: u64, base_timestamp_us: u64) -> Header {
        let header = Header { partition, base_offset, base_timestamp_us, ..self.header };
        header.with_checksum_of(self.messages)
    }

    /// Returns the part of the batch that begins with the message at `offset` and has at most
    /// `count` messages. If `offset` is below the base offset, the part begins with the first
    /// message. `None` if the part would have no messages.
    pub fn part(&self, offset: u64, count: u32) -> Option<Part<'a>> {
        let skipped = offset.saturating_sub(self.header.base_offset);
        let skipped = u32::try_from(skipped).ok().filter(|&skipped| skipped < self.header.count)?;
        let count = count.min(self.header.count - skipped);
        if count == 0 {
            return None;
        }
        let mut messages = self.messages();
        messages.by_ref().take(skipped as usize).for_each(drop);
        let from = messages.rest();
        messages.by_ref().take(count as usize).for_each(drop);
        let taken = from.get(..from.len() - messages.rest().len()).unwrap_or_default();
        let length = (HEADER_BYTES + taken.len()) as u64;
        let header = Header { length, count, ..self.header };
        Some(Part { header: header.with_checksum_of(taken), messages: taken })
    }
}

/// Builds a batch that a producer sends to a log.
///
/// ```
/// use tailwater_format::message::batch::{Batch, Builder};
///
/// let mut builder = Builder::new(1_700_000_000_000_000);
/// builder.push(1, 0, b"hello", b"")?;
/// builder.push(2, 15, b"world", b"")?;
/// let bytes = builder.finish();
/// let batch = Batch::decode_verified(&bytes)?;
/// let payloads: Vec<_> = batch.messages().map(|message| message.payload).collect();
/// assert_eq!(payloads, [b"hello", b"world"]);
/// # Ok::<(), tailwater_format::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Builder {
    bytes: Vec<u8>,
    header: Header,
}

impl Builder {
    /// Creates an empty batch whose messages' timestamps count from `origin_timestamp_us`, in
    /// microseconds since 1970.
    pub fn new(origin_timestamp_us: u64) -> Self {
        let header = Header { origin_timestamp_us, ..Header::default() };
        Self { bytes: vec![0; HEADER_BYTES], header }
    }

    /// Returns the number of messages.
    pub fn count(&self) -> u32 {
        self.header.count
    }

    /// Returns the length of the batch so far, in bytes.
    pub fn length(&self) -> usize {
        self.bytes.len()
    }

    /// Adds a message. `user_headers` are bytes that the log does not interpret.
    ///
    /// # Errors
    /// Unsupported, if payload or user headers are 4 GiB or longer.
    pub fn push(
        &mut self,
        id: u128,
        timestamp_delta_us: u32,
        payload: &[u8],
        user_headers: &[u8],
    ) -> Result<()> {
        let length = |bytes: &[u8]| {
            u32::try_from(bytes.len())
                .map_err(|_| Error::unsupported(format!("a message part of {} bytes", bytes.len())))
        };
        let (headers_length, payload_length) = (length(user_headers)?, length(payload)?);
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 8]);
        self.bytes.extend_from_slice(&id.to_le_bytes());
        self.bytes.extend_from_slice(&self.header.count.to_le_bytes());
        self.bytes.extend_from_slice(&timestamp_delta_us.to_le_bytes());
        self.bytes.extend_from_slice(&headers_length.to_le_bytes());
        self.bytes.extend_from_slice(&payload_length.to_le_bytes());
        self.bytes.extend_from_slice(&[0; 8]);
        self.bytes.extend_from_slice(payload);
        self.bytes.extend_from_slice(user_headers);
        let checksum = xxh3_64(self.bytes.get(start + 8..).unwrap_or_default());
        put(&mut self.bytes, start, &checksum.to_le_bytes());
        self.header.count += 1;
        Ok(())
    }

    /// Returns the batch.
    pub fn finish(mut self) -> Vec<u8> {
        self.header.length = self.bytes.len() as u64;
        let messages = self.bytes.get(HEADER_BYTES..).unwrap_or_default();
        let header = self.header.with_checksum_of(messages).encode();
        put(&mut self.bytes, 0, &header);
        self.bytes
    }
}
