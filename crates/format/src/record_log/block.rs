//! Reading a log block by block. [`BlockSource`] provides the blocks, and a cursor is the reader's
//! position in the current block.

use std::convert::Infallible;

use super::BLOCK_LENGTH;

/// Provides the bytes of a log, from its beginning or from the beginning of a block.
pub trait BlockSource {
    /// The error from a failed read.
    type Error;

    /// Fills `block` with the next bytes of the log and returns their number. Fewer than
    /// `block.len()` bytes mean that the log ends there; the source is not called again.
    ///
    /// # Errors
    /// Errors from the source. The reader returns them; its later results are unspecified.
    fn fill(&mut self, block: &mut [u8]) -> Result<usize, Self::Error>;
}

/// A log in memory.
#[derive(Debug, Clone)]
pub struct SliceSource<'a> {
    bytes: &'a [u8],
}

impl<'a> SliceSource<'a> {
    /// Creates a source for the log in `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }
}

impl BlockSource for SliceSource<'_> {
    type Error = Infallible;

    fn fill(&mut self, block: &mut [u8]) -> Result<usize, Infallible> {
        let length = self.bytes.len().min(block.len());
        let (head, tail) = self.bytes.split_at(length);
        if let Some(target) = block.get_mut(..length) {
            target.copy_from_slice(head);
        }
        self.bytes = tail;
        Ok(length)
    }
}

/// The current block and the position in it.
#[derive(Debug)]
pub(super) struct BlockCursor<S> {
    source: S,
    block: Box<[u8]>,
    /// Number of bytes of the block that are filled.
    length: usize,
    position: usize,
    /// Offset of the end of the block's filled part, in bytes from the start of the log.
    end: u64,
    is_last: bool,
}

impl<S: BlockSource> BlockCursor<S> {
    /// Creates a cursor at `offset`, which is a multiple of [`BLOCK_LENGTH`]. `source` provides the
    /// bytes from there on.
    pub(super) fn new(source: S, offset: u64) -> Self {
        let block = vec![0; BLOCK_LENGTH].into_boxed_slice();
        Self { source, block, length: 0, position: 0, end: offset, is_last: false }
    }

    /// Returns the offset of the next unread byte in the log.
    pub(super) fn offset(&self) -> u64 {
        self.end - (self.length - self.position) as u64
    }

    /// Returns the offset of the next unread byte in the block.
    pub(super) fn position(&self) -> usize {
        self.position
    }

    /// Returns the unread bytes of the block.
    pub(super) fn rest(&self) -> &[u8] {
        self.block.get(self.position..self.length).unwrap_or_default()
    }

    /// Returns the bytes of the block from `start` to `end`, exclusive. Both are offsets in the
    /// block.
    pub(super) fn bytes(&self, start: usize, end: usize) -> &[u8] {
        self.block.get(start..end).unwrap_or_default()
    }

    /// Returns whether the log ends inside this block. If the log ends exactly at the end of a
    /// block, the block after it is empty and is the last one.
    pub(super) fn is_last(&self) -> bool {
        self.is_last
    }

    /// Lets the cursor read on after the end of the log, if the log has grown. `source` provides
    /// the bytes that were appended.
    pub(super) fn resume(&mut self, source: S) {
        (self.source, self.is_last) = (source, false);
    }

    /// Skips `length` bytes of the block.
    pub(super) fn skip(&mut self, length: usize) {
        self.position = (self.position + length).min(self.length);
    }

    /// Skips to the end of the block and returns the number of bytes skipped.
    pub(super) fn skip_block(&mut self) -> u64 {
        let skipped = self.length - self.position;
        self.position = self.length;
        skipped as u64
    }

    /// Moves to the next block, skipping the rest of this one; false if this is the last.
    pub(super) fn next_block(&mut self) -> Result<bool, S::Error> {
        if self.is_last {
            return Ok(false);
        }
        // The block is partly filled if the log ended inside it and was resumed. The bytes before
        // `start` were read earlier.
        let start = self.length % self.block.len();
        (self.position, self.length) = (start, start);
        let room = self.block.get_mut(start..).unwrap_or_default();
        let filled = self.source.fill(room)?.min(room.len());
        self.length += filled;
        self.end += filled as u64;
        self.is_last = self.length < self.block.len();
        Ok(true)
    }
}
