//! Reading a segment sequentially, batch by batch.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use tailwater_format::message::batch::{Batch, HEADER_BYTES, Header};
use tailwater_format::message::index::Entry;
use tailwater_format::message::padding::{BLOCK, Next, batch_at, gap_end};
use tailwater_io::stream::{ReaderOptions, SequentialReader};
use tailwater_io::{Purpose, ReadFile};

use super::files::SegmentFiles;
use crate::{Error, Result};

/// Size of a read request for prefetching, in bytes.
const REQUEST_BYTES: usize = 256 << 10;
/// Maximum number of requests in flight ahead of the caller.
const DEPTH: usize = 4;

/// Reads a span of a segment sequentially, with prefetching.
#[derive(Debug)]
pub(crate) struct Scanner {
    reader: SequentialReader,
    path: PathBuf,
    /// Position of the next batch or gap in the segment.
    position: u64,
    end: u64,
    /// The header of the next batch, if it was already read.
    next: Option<Header>,
}

/// A batch that was read.
#[derive(Debug)]
pub(crate) struct Scanned<'a> {
    /// Position of the batch in the segment.
    pub(crate) position: u64,
    pub(crate) header: Header,
    /// The bytes of the batch's messages.
    pub(crate) messages: &'a [u8],
}

impl Scanner {
    /// Reads `span` of a file.
    ///
    /// # Errors
    /// I/O errors.
    pub(crate) fn new(
        files: &SegmentFiles,
        file: Arc<dyn ReadFile>,
        span: Range<u64>,
    ) -> Result<Self> {
        let options = ReaderOptions {
            request_bytes: REQUEST_BYTES,
            depth: DEPTH,
            first: 1,
            purpose: Purpose::LogRead,
        };
        let path = file.path().to_owned();
        let (position, end) = (span.start, span.end.min(file.length()?));
        let reader = SequentialReader::new(file, span, options, &files.read_buffers, None)?;
        Ok(Self { reader, path, position, end, next: None })
    }

    /// Returns the segment's file.
    pub(crate) fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// Returns the start of the next batch or gap.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Returns the position and header of the next batch; `None` at the end.
    ///
    /// # Errors
    /// Corruption, with file and position, if the bytes are not a batch header or the batch extends
    /// beyond the segment; I/O errors.
    pub(crate) fn peek(&mut self) -> Result<Option<(u64, Header)>> {
        if let Some(header) = self.next {
            return Ok(Some((self.position, header)));
        }
        let header = loop {
            if self.position >= self.end {
                return Ok(None);
            }
            // First, only as many bytes are read as the shortest gap has. The rest of a header is
            // read once it is certain that these bytes do not begin a gap.
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

    /// Returns whether an entry of the index describes the next batch. If it does not, the index is
    /// wrong, and the segment is right.
    pub(crate) fn is_at(&mut self, entry: &Entry) -> bool {
        self.peek().is_ok_and(|next| {
            next.is_some_and(|(position, header)| {
                position == entry.position
                    && header.base_offset == entry.offset
                    && header.base_timestamp_us == entry.timestamp_us
            })
        })
    }

    /// Skips the batch that [`Self::peek`] returned.
    pub(crate) fn skip(&mut self) {
        if let Some(header) = self.next.take() {
            self.position += header.length;
        }
    }

    /// Reads the batch that [`Self::peek`] returned, and verifies all checksums; `None` at the end.
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
            let message = "the segment became shorter while it was read";
            return Err(Error::corruption(&self.path, position, message));
        }
        Batch::from_parts(header, messages)
            .and_then(|batch| batch.verify())
            .map_err(|error| Error::decoding(&self.path, position, error))?;
        Ok(Some(Scanned { position, header, messages }))
    }
}
