//! Verifies a batch whose bytes arrive in pieces, so that a large batch need not be in memory as a
//! whole.

use std::fmt;
use std::ops::Range;

use xxhash_rust::xxh3::Xxh3;

use super::batch::{HEADER_BYTES, Header, MESSAGE_HEADER_BYTES};
use super::{u32_at, u64_at};
use crate::{Error, Result};

/// A message that a [`BatchVerifier`] has verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedMessage {
    /// Number of messages that precede it in the batch.
    pub index: u32,
    /// Where it is among the bytes of the batch's messages, that is, after the batch's header.
    pub range: Range<u64>,
    /// Its checksum.
    pub checksum: u64,
}

/// Verifies the messages of a batch, which arrive in pieces of any size. It finds the same errors
/// as [`Batch::verify`](super::batch::Batch::verify).
///
/// ```
/// use tailwater_format::message::batch::{Batch, Builder, HEADER_BYTES};
/// use tailwater_format::message::verifier::BatchVerifier;
///
/// let mut builder = Builder::new(0);
/// builder.push(1, 0, b"hello", b"")?;
/// builder.push(2, 0, b"world", b"")?;
/// let bytes = builder.finish();
/// let mut verifier = BatchVerifier::new(Batch::decode(&bytes)?.header());
/// let mut ends = Vec::new();
/// for piece in bytes[HEADER_BYTES..].chunks(7) {
///     verifier.update(piece, |message| ends.push(message.range.end))?;
/// }
/// verifier.finish()?;
/// assert_eq!(ends, [53, 106]);
/// # Ok::<(), tailwater_format::Error>(())
/// ```
pub struct BatchVerifier {
    header: Header,
    /// Hash of the header and of the checksums of the messages so far.
    batch: Xxh3,
    /// Number of messages that have arrived completely.
    count: u32,
    /// Number of bytes that have arrived, after the batch's header.
    position: u64,
    /// The first `head_bytes` bytes of the current message's header.
    head: [u8; MESSAGE_HEADER_BYTES],
    head_bytes: usize,
    message: CurrentMessage,
}

/// The current message, once its header has arrived.
struct CurrentMessage {
    /// Hash of the bytes so far.
    hasher: Xxh3,
    checksum: u64,
    /// Number of bytes that have not arrived yet.
    rest: u64,
    /// Its position after the batch's header.
    start: u64,
}

impl BatchVerifier {
    /// Begins with a batch that has this header.
    pub fn new(header: &Header) -> Self {
        Self {
            header: *header,
            batch: header.begin_checksum(),
            count: 0,
            position: 0,
            head: [0; MESSAGE_HEADER_BYTES],
            head_bytes: 0,
            message: CurrentMessage { hasher: Xxh3::new(), checksum: 0, rest: 0, start: 0 },
        }
    }

    /// Verifies the next bytes of the batch's messages. Calls `visit` with each message that is
    /// complete with these bytes.
    ///
    /// # Errors
    /// Corruption, for the first mismatch. The verifier must not be used after an error.
    pub fn update(
        &mut self,
        mut bytes: &[u8],
        mut visit: impl FnMut(VerifiedMessage),
    ) -> Result<()> {
        while !bytes.is_empty() {
            if self.head_bytes < MESSAGE_HEADER_BYTES {
                let wanted = MESSAGE_HEADER_BYTES - self.head_bytes;
                let taken = self.take(&mut bytes, wanted);
                let place = self.head.get_mut(self.head_bytes..self.head_bytes + taken.len());
                if let Some(place) = place {
                    place.copy_from_slice(taken);
                }
                self.head_bytes += taken.len();
                if self.head_bytes < MESSAGE_HEADER_BYTES {
                    return Ok(());
                }
                self.begin_message()?;
            }
            let wanted = usize::try_from(self.message.rest).unwrap_or(usize::MAX);
            let taken = self.take(&mut bytes, wanted);
            self.message.hasher.update(taken);
            self.message.rest -= taken.len() as u64;
            if self.message.rest == 0 {
                visit(self.end_message()?);
            }
        }
        Ok(())
    }

    /// Takes up to `most` bytes from the start of `bytes`.
    fn take<'a>(&mut self, bytes: &mut &'a [u8], most: usize) -> &'a [u8] {
        let (taken, rest) = bytes.split_at(most.min(bytes.len()));
        *bytes = rest;
        self.position += taken.len() as u64;
        taken
    }

    fn begin_message(&mut self) -> Result<()> {
        const WHAT: &str = "message";
        let start = self.position - MESSAGE_HEADER_BYTES as u64;
        let at = |error: Error| error.at(HEADER_BYTES as u64 + start);
        if u64_at(&self.head, 40, WHAT)? != 0 {
            return Err(at(Error::corruption(WHAT, 40, "zeros", "other bytes")));
        }
        let rest =
            u64::from(u32_at(&self.head, 32, WHAT)?) + u64::from(u32_at(&self.head, 36, WHAT)?);
        let left = self.header.length.saturating_sub(HEADER_BYTES as u64 + self.position);
        if rest > left {
            let found = usize::try_from(left).unwrap_or(usize::MAX);
            return Err(at(Error::truncated(WHAT, found)));
        }
        let mut hasher = Xxh3::new();
        hasher.update(self.head.get(8..).unwrap_or_default());
        let checksum = u64_at(&self.head, 0, WHAT)?;
        self.message = CurrentMessage { hasher, checksum, rest, start };
        Ok(())
    }

    fn end_message(&mut self) -> Result<VerifiedMessage> {
        let CurrentMessage { hasher, checksum, start, .. } = &self.message;
        let (computed, checksum, start) = (hasher.digest(), *checksum, *start);
        if computed != checksum {
            let expected = format!("checksum {computed:016x}");
            let error = Error::corruption("message", 0, expected, format!("{checksum:016x}"));
            return Err(error.at(HEADER_BYTES as u64 + start));
        }
        self.batch.update(&checksum.to_le_bytes());
        let verified = VerifiedMessage { index: self.count, range: start..self.position, checksum };
        self.count = self.count.saturating_add(1);
        self.head_bytes = 0;
        Ok(verified)
    }

    /// Verifies that all bytes of the batch have arrived, and the batch's checksum.
    ///
    /// # Errors
    /// Corruption, for the first mismatch.
    pub fn finish(self) -> Result<()> {
        let length = HEADER_BYTES as u64 + self.position;
        if self.head_bytes > 0 || length != self.header.length {
            let arrived = usize::try_from(length).unwrap_or(usize::MAX);
            return Err(Error::truncated("batch", arrived));
        }
        self.header.check_count(self.count)?;
        self.header.check_digest(&self.batch)
    }
}

impl fmt::Debug for BatchVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BatchVerifier({} bytes of {:?})", self.position, self.header)
    }
}

/// Computes the header of a [part](super::batch::Part) of a batch from the checksums of its
/// messages.
pub struct PartHeader {
    header: Header,
    hasher: Xxh3,
}

impl PartHeader {
    /// Begins the header of a part with `count` messages of the batch with this header. `length` is
    /// the part's length in bytes, its header included.
    pub fn new(batch: &Header, length: u64, count: u32) -> Self {
        let header = Header { length, count, ..*batch };
        Self { header, hasher: header.begin_checksum() }
    }

    /// Adds the checksum of the part's next message.
    pub fn add(&mut self, checksum: u64) {
        self.hasher.update(&checksum.to_le_bytes());
    }

    /// Returns the header. The checksums of all messages must have been added.
    pub fn finish(self) -> Header {
        Header { checksum: self.hasher.digest(), ..self.header }
    }
}

impl fmt::Debug for PartHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PartHeader({:?})", self.header)
    }
}

#[cfg(test)]
mod tests {
    use super::super::batch::{Batch, Builder};
    use super::*;

    fn batch() -> Vec<u8> {
        let mut builder = Builder::new(7);
        for number in 0..9_u32 {
            let payload = vec![number as u8; 31 * number as usize];
            builder.push(u128::from(number), number, &payload, b"h").unwrap();
        }
        builder.finish()
    }

    /// Verifies a batch in pieces of `size` bytes. Returns the messages.
    fn verify(bytes: &[u8], size: usize) -> Result<Vec<VerifiedMessage>> {
        let mut messages = Vec::new();
        let mut verifier = BatchVerifier::new(&Header::decode(bytes)?);
        for piece in bytes.get(HEADER_BYTES..).unwrap_or_default().chunks(size) {
            verifier.update(piece, |message| messages.push(message))?;
        }
        verifier.finish()?;
        Ok(messages)
    }

    #[test]
    fn the_pieces_may_have_any_size() {
        let bytes = batch();
        for size in (1..200).chain([bytes.len()]) {
            let messages = verify(&bytes, size).unwrap();
            assert_eq!(messages.len(), 9);
            assert_eq!(messages[0].range.start, 0);
            assert_eq!(messages[8].range.end, (bytes.len() - HEADER_BYTES) as u64);
            assert!(messages.windows(2).all(|pair| pair[0].range.end == pair[1].range.start));
        }
    }

    #[test]
    fn it_accepts_exactly_the_batches_that_are_valid_as_a_whole() {
        let bytes = batch();
        for at in 0..bytes.len() {
            for bit in [1, 0x80] {
                let mut damaged = bytes.clone();
                damaged[at] ^= bit;
                let whole = Batch::decode(&damaged).is_ok_and(|batch| batch.verify().is_ok());
                assert_eq!(verify(&damaged, 64).is_ok(), whole, "byte {at}");
            }
        }
        for length in 0..bytes.len() {
            assert!(verify(&bytes[..length], 64).is_err(), "{length} bytes");
        }
        let longer = [&bytes[..], &[0; 48]].concat();
        assert!(verify(&longer, 64).is_err());
    }

    #[test]
    fn the_header_of_a_part_is_that_of_the_part() {
        let bytes = batch();
        let messages = verify(&bytes, 100).unwrap();
        let whole = Batch::decode(&bytes).unwrap();
        for (from, count) in [(0, 9), (0, 1), (3, 4), (8, 1)] {
            let part = whole.part(from, count).unwrap();
            let part_of = |message: &&VerifiedMessage| {
                (from..from + u64::from(count)).contains(&u64::from(message.index))
            };
            let mut header = PartHeader::new(whole.header(), part.header.length, count);
            messages.iter().filter(part_of).for_each(|message| header.add(message.checksum));
            assert_eq!(header.finish(), part.header);
        }
    }
}
