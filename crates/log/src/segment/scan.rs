//! Reads a segment sequentially, batch by batch.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_format::message::batch::{Batch, HEADER_BYTES, Header};
use tailwater_format::message::index::Entry;
use tailwater_format::message::padding::{BLOCK, Next, batch_at, gap_end};
use tailwater_format::message::verifier::{BatchVerifier, VerifiedMessage};
use tailwater_io::descriptors::Claim;
use tailwater_io::stream::{ReaderOptions, RequestPath, SequentialReader};
use tailwater_io::{Purpose, ReadFile};

use super::files::{ReadAccess, ScanBuffers};
use crate::{Error, Result};

/// Size of a read request, in bytes.
pub(super) const REQUEST_BYTES: usize = 256 << 10;
/// Maximum number of read-ahead requests in flight.
pub(super) const DEPTH: usize = 4;

/// Reads the batches of a span of a segment sequentially, with read-ahead.
#[derive(Debug)]
pub(crate) struct Scanner {
    reader: SequentialReader,
    file: Arc<dyn ReadFile>,
    /// The descriptor with which the scanner reads ahead, if it has one.
    _claim: Option<Claim>,
    path: PathBuf,
    /// Position of the next batch in the segment, or of a gap that precedes this batch, in bytes.
    position: u64,
    end: u64,
    /// The header of the next batch, if it has already been read.
    next: Option<Header>,
}

/// A batch that has been read and verified.
#[derive(Debug)]
pub(crate) struct Scanned<'a> {
    /// Position of the batch in the segment, in bytes.
    pub(crate) position: u64,
    pub(crate) header: Header,
    /// The bytes of the batch after its header.
    pub(crate) messages: &'a [u8],
}

impl Scanner {
    /// Creates a scanner for `span`, a range of positions in `file`. It must begin at a batch or a
    /// gap.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn new(
        access: &mut ReadAccess<'_>,
        file: Arc<dyn ReadFile>,
        span: Range<u64>,
    ) -> Result<Self> {
        let mut scanner = Self::with_buffers(file, span, access.buffers()?)?;
        let has_descriptor = scanner.reader.request_path() == RequestPath::Ring;
        scanner._claim = has_descriptor.then(|| access.claim.split(1));
        Ok(scanner)
    }

    /// Like [`Self::new`], with memory of the caller.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn with_buffers(
        file: Arc<dyn ReadFile>,
        span: Range<u64>,
        buffers: ScanBuffers,
    ) -> Result<Self> {
        let ScanBuffers { pool, first, depth } = buffers;
        let options = ReaderOptions {
            request_bytes: REQUEST_BYTES,
            depth,
            first: 1,
            purpose: Purpose::LogRead,
        };
        let path = file.path().to_owned();
        let (position, end) = (span.start, span.end.min(file.length()?));
        let of_reader = Arc::clone(&file);
        let reader = SequentialReader::with_buffer(of_reader, span, options, &pool, None, first)?;
        Ok(Self { reader, file, _claim: None, path, position, end, next: None })
    }

    /// Goes to `position`, which must be a batch or a gap. From now on, the span ends at `end`.
    ///
    /// # Errors
    /// I/O errors.
    pub(crate) fn restart(&mut self, position: u64, end: u64) -> Result<()> {
        let end = end.min(self.file.length()?);
        self.reader.restart(Arc::clone(&self.file), position..end)?;
        (self.position, self.end, self.next) = (position, end, None);
        Ok(())
    }

    /// Returns the segment's file.
    pub(crate) fn file(&self) -> &dyn ReadFile {
        &*self.file
    }

    /// Returns the path of the segment's file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the position of the next batch, or of a gap before it.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Skips gaps and returns the position and the header of the next batch, without moving past
    /// it; `None` at the end of the span.
    ///
    /// # Errors
    /// Corruption, with file and position, if the bytes are not a batch header or the batch extends
    /// beyond the span; I/O errors.
    pub(crate) fn peek(&mut self) -> Result<Option<(u64, Header)>> {
        if let Some(header) = self.next {
            return Ok(Some((self.position, header)));
        }
        let header = loop {
            if self.position >= self.end {
                return Ok(None);
            }
            // A gap may be shorter than a batch header, and the reader cannot go back. So first
            // read only as many bytes as the shortest gap has. Read the rest of the header when it
            // is certain that these bytes do not begin a gap.
            let shortest_gap = gap_end(self.position, BLOCK) - self.position;
            let mut header = [0; HEADER_BYTES];
            let first =
                self.reader.read(self.position, shortest_gap.min(HEADER_BYTES as u64) as usize)?;
            let have = first.len();
            if let Some(target) = header.get_mut(..have) {
                target.copy_from_slice(first);
            }
            if let Next::Gap(end) = batch_at(self.position, header.get(..have).unwrap_or_default())
            {
                self.position = end;
                continue;
            }
            let rest = self.reader.read(self.position + have as u64, HEADER_BYTES - have)?;
            let have_all = have + rest.len();
            if let Some(target) = header.get_mut(have..have_all) {
                target.copy_from_slice(rest);
            }
            let seen = header.get(..have_all).unwrap_or_default();
            break Header::decode(seen)
                .map_err(|error| Error::decoding(&self.path, self.position, error))?;
        };
        if header.length > self.end - self.position {
            let message = format!(
                "a batch of {} bytes extends beyond the segment's end at {}",
                header.length, self.end
            );
            return Err(Error::corruption(&self.path, self.position, message));
        }
        self.next = Some(header);
        Ok(Some((self.position, header)))
    }

    /// Returns whether the next batch is the one that an index entry describes. If not, the index
    /// is wrong.
    pub(crate) fn is_at(&mut self, entry: &Entry) -> bool {
        self.peek().is_ok_and(|next| {
            next.is_some_and(|(position, header)| {
                position == entry.position
                    && header.base_offset == entry.offset
                    && header.base_timestamp_us == entry.timestamp_us
            })
        })
    }

    /// Moves past the batch that [`Self::peek`] returned, without reading its messages.
    pub(crate) fn skip(&mut self) {
        if let Some(header) = self.next.take() {
            self.position += header.length;
        }
    }

    /// Reads the next batch, verifies all its checksums, and appends its header and messages to
    /// `bytes`. Returns its header; `None` at the end of the span. After an error, `bytes` is
    /// unchanged.
    ///
    /// # Errors
    /// The errors of [`Self::read_verified`].
    pub(crate) fn read_verified_into(&mut self, bytes: &mut Vec<u8>) -> Result<Option<Header>> {
        let Some((position, header)) = self.peek()? else { return Ok(None) };
        let start = bytes.len();
        bytes.extend_from_slice(&header.encode());
        let read = self.for_each_part(|part| bytes.extend_from_slice(part));
        let verified = read.and_then(|()| {
            let messages = bytes.get(start + HEADER_BYTES..).unwrap_or_default();
            Batch::from_parts(header, messages)
                .and_then(|batch| batch.verify())
                .map_err(|error| Error::decoding(&self.path, position, error))
        });
        if verified.is_err() {
            bytes.truncate(start);
        }
        verified.map(|()| Some(header))
    }

    /// Reads the next batch in parts and verifies all its checksums, without holding more than a
    /// part in memory. Calls `visit` with each message. Does nothing at the end of the span.
    ///
    /// # Errors
    /// The errors of [`Self::read_verified`].
    pub(crate) fn verify_next(&mut self, mut visit: impl FnMut(VerifiedMessage)) -> Result<()> {
        let Some((position, header)) = self.peek()? else { return Ok(()) };
        let mut verifier = BatchVerifier::new(&header);
        let mut failure = None;
        self.for_each_part(|part| {
            if failure.is_none() {
                failure = verifier.update(part, &mut visit).err();
            }
        })?;
        let verified = match failure {
            Some(error) => Err(error),
            None => verifier.finish(),
        };
        verified.map_err(|error| Error::decoding(&self.path, position, error))
    }

    /// Reads the messages of the batch that [`Self::peek`] returned, and moves past it. Calls
    /// `visit` with consecutive parts of their bytes.
    fn for_each_part(&mut self, mut visit: impl FnMut(&[u8])) -> Result<()> {
        let Some(header) = self.next.take() else { return Ok(()) };
        let mut at = self.position + HEADER_BYTES as u64;
        self.position += header.length;
        while at < self.position {
            let wanted = usize::try_from(self.position - at).unwrap_or(usize::MAX);
            let part = self.reader.read_part(at, wanted)?;
            if part.is_empty() {
                return Err(shortened(&self.path, self.position - header.length));
            }
            visit(part);
            at += part.len() as u64;
        }
        Ok(())
    }

    /// Reads the next batch and verifies all its checksums; `None` at the end of the span.
    ///
    /// # Errors
    /// The errors of [`Self::peek`]; corruption also if a checksum is wrong.
    pub(crate) fn read_verified(&mut self) -> Result<Option<Scanned<'_>>> {
        let Some((position, header)) = self.peek()? else { return Ok(None) };
        self.next = None;
        self.position += header.length;
        let length = (header.length as usize).saturating_sub(HEADER_BYTES);
        let messages = self.reader.read(position + HEADER_BYTES as u64, length)?;
        if messages.len() < length {
            return Err(shortened(&self.path, position));
        }
        Batch::from_parts(header, messages)
            .and_then(|batch| batch.verify())
            .map_err(|error| Error::decoding(&self.path, position, error))?;
        Ok(Some(Scanned { position, header, messages }))
    }
}

#[cold]
fn shortened(path: &Path, position: u64) -> Error {
    Error::corruption(path, position, "the segment became shorter while it was read")
}
