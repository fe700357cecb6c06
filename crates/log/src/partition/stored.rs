//! Batches that are too large to be held in memory. A poll returns only the header of such a batch,
//! and its caller reads it in parts.
//!
//! A whole batch is verified while its parts are read. The part that completes a damaged message
//! fails, and so does each later poll of the batch. If only some of the batch's messages are
//! wanted, the poll itself reads and verifies the batch once, to find them.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use tailwater_format::message::batch::{HEADER_BYTES, Header};
use tailwater_format::message::name::Kind;
use tailwater_format::message::verifier::{BatchVerifier, PartHeader};
use tailwater_io::{Purpose, ReadFile};

use super::polled::Piece;
use crate::segment::{ReadAccess, Scanner, Segment, SegmentFiles};
use crate::sync::Mutex;
use crate::{Error, ErrorKind, Result};

/// A batch, or a part of a batch, in a segment, which a poll did not read into memory.
/// [`Partition::read_stored`](super::Partition::read_stored) reads it.
#[derive(Clone)]
pub struct StoredBatch {
    segment: Arc<Segment>,
    /// Position of the batch in the segment, in bytes.
    batch_position: u64,
    /// The header of the batch or part.
    header: Header,
    /// Position of the first message in the segment, in bytes.
    position: u64,
    /// What has been verified of a whole batch; `None` if the poll has verified it.
    progress: Option<Arc<Mutex<Verification>>>,
}

/// How far a batch has been verified.
struct Verification {
    /// `None` after the end of the batch.
    verifier: Option<BatchVerifier>,
    /// Number of bytes that were verified, after the batch's header.
    bytes: usize,
}

impl StoredBatch {
    /// Returns the length in bytes, the header included.
    pub fn length(&self) -> usize {
        usize::try_from(self.header.length).unwrap_or(usize::MAX)
    }

    /// Returns the number of messages.
    pub(super) fn count(&self) -> u32 {
        self.header.count
    }

    /// Selects the part of the scanner's next batch that begins with the message at `offset` and
    /// has at most `count` messages. The scanner must read `segment`, and the batch must contain
    /// the offset. Afterwards, the scanner is after the batch.
    ///
    /// # Errors
    /// Corruption, with file and position, if the batch is known to be damaged, or if only a part
    /// of it is selected and it is damaged; I/O errors.
    pub(super) fn select(
        segment: &Arc<Segment>,
        scanner: &mut Scanner,
        offset: u64,
        count: u32,
    ) -> Result<Option<Self>> {
        let Some((batch_position, header)) = scanner.peek()? else { return Ok(None) };
        if let Some(error) = segment.damage_of(batch_position, header) {
            return Err(error);
        }
        let position = batch_position + HEADER_BYTES as u64;
        let segment = Arc::clone(segment);
        let mut stored = Self { segment, batch_position, header, position, progress: None };
        let skipped = offset.saturating_sub(header.base_offset);
        let skipped = u32::try_from(skipped).unwrap_or(u32::MAX);
        let count = count.min(header.count.saturating_sub(skipped));
        if count == header.count {
            scanner.skip();
            let verification =
                Verification { verifier: Some(BatchVerifier::new(&header)), bytes: 0 };
            stored.progress = Some(Arc::new(Mutex::new(verification)));
        } else {
            stored.select_part(scanner, skipped..skipped + count)?;
        }
        Ok(Some(stored))
    }

    /// Reduces the batch to a part of its messages.
    fn select_part(&mut self, scanner: &mut Scanner, part: Range<u32>) -> Result<()> {
        let (mut begin, mut end) = (None, 0);
        scanner.verify_next(|message| {
            if part.contains(&message.index) {
                begin.get_or_insert(message.range.start);
                end = message.range.end;
            }
        })?;
        let begin = begin.unwrap_or(0);
        let length = HEADER_BYTES as u64 + end - begin;
        let mut header = PartHeader::new(&self.header, length, part.end - part.start);
        // The header's checksum covers its length, which is known only now. So the messages'
        // checksums, whose number is not bounded, are read again.
        scanner.restart(self.batch_position, self.segment.length())?;
        scanner.verify_next(|message| {
            if part.contains(&message.index) {
                header.add(message.checksum);
            }
        })?;
        self.header = header.finish();
        self.position += begin;
        Ok(())
    }

    /// Reads up to `bytes_max` bytes from position `from`, where 0 is the start of the header.
    ///
    /// # Errors
    /// Corruption, if the batch is damaged, or the segment's file is missing or too short; I/O
    /// errors.
    pub(super) fn read(
        &self,
        access: &mut ReadAccess<'_>,
        from: usize,
        bytes_max: usize,
    ) -> Result<Vec<Piece>> {
        let file = self.segment.file(access)?;
        let pieces = self.read_range(access.files, &*file, from, bytes_max)?;
        let ends_after_header = from.saturating_add(bytes_max) > HEADER_BYTES;
        if let Some(progress) = &self.progress
            && let Some(messages) = pieces.last().filter(|_| ends_after_header)
        {
            let start = from.max(HEADER_BYTES) - HEADER_BYTES;
            let verified = self.verify(access, &mut progress.lock(), start, messages);
            verified.inspect_err(|error| self.note_damage(error))?;
        }
        Ok(pieces)
    }

    /// Reads a part of a batch, which [`Self::select`] has verified, with the segment's open file.
    ///
    /// # Errors
    /// The errors of [`Self::read`].
    pub(super) fn read_selected(
        &self,
        files: &SegmentFiles,
        file: &dyn ReadFile,
    ) -> Result<Vec<Piece>> {
        self.read_range(files, file, 0, self.length())
    }

    /// Reads bytes without verifying them.
    fn read_range(
        &self,
        files: &SegmentFiles,
        file: &dyn ReadFile,
        from: usize,
        bytes_max: usize,
    ) -> Result<Vec<Piece>> {
        let mut pieces = Vec::new();
        let end = from.saturating_add(bytes_max).min(self.length());
        let header = self.header.encode();
        if let Some(rest) = header.get(from..end.min(HEADER_BYTES)).filter(|rest| !rest.is_empty())
        {
            pieces.push(Piece::read(rest.to_vec()));
        }
        if end > HEADER_BYTES {
            let messages = from.max(HEADER_BYTES) - HEADER_BYTES..end - HEADER_BYTES;
            pieces.push(self.read_messages(files, file, messages)?);
        }
        Ok(pieces)
    }

    /// Reads a range of the messages' bytes.
    fn read_messages(
        &self,
        files: &SegmentFiles,
        file: &dyn ReadFile,
        range: Range<usize>,
    ) -> Result<Piece> {
        let position = self.position + range.start as u64;
        let mut buffer = files.part_buffers.take();
        let read = file.read_span(&mut buffer, position, range.len(), Purpose::LogRead)?;
        let path = self.segment.path(Kind::Log);
        if read.len() < range.len() {
            let message = "the segment became shorter while it was read";
            return Err(Error::corruption(&path, position + read.len() as u64, message));
        }
        let start = read.as_ptr().addr() - buffer.as_ptr().addr();
        Ok(Piece::window(buffer, start..start + range.len()))
    }

    /// Records that the batch is damaged, if that is what the error says.
    fn note_damage(&self, error: &Error) {
        if error.kind() == ErrorKind::Corruption {
            self.segment.note_damage(self.batch_position, self.header, error);
        }
    }

    /// Verifies `bytes`, which begin at position `from` of the messages' bytes, as far as they have
    /// not been verified.
    fn verify(
        &self,
        access: &mut ReadAccess<'_>,
        progress: &mut Verification,
        from: usize,
        bytes: &[u8],
    ) -> Result<()> {
        let Some(verifier) = &mut progress.verifier else { return Ok(()) };
        let decoding =
            |error| Error::decoding(&self.segment.path(Kind::Log), self.batch_position, error);
        let Some(verified) = progress.bytes.checked_sub(from) else {
            // The bytes before these were not read through this value.
            self.segment.scan(access, self.batch_position)?.verify_next(|_| ())?;
            progress.verifier = None;
            return Ok(());
        };
        let unverified = bytes.get(verified..).unwrap_or_default();
        verifier.update(unverified, |_| ()).map_err(decoding)?;
        progress.bytes += unverified.len();
        if HEADER_BYTES + progress.bytes == self.length()
            && let Some(verifier) = progress.verifier.take()
        {
            verifier.finish().map_err(decoding)?;
        }
        Ok(())
    }
}

impl fmt::Debug for StoredBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.segment.path(Kind::Log);
        write!(f, "StoredBatch({} bytes in {})", self.header.length, path.display())
    }
}
