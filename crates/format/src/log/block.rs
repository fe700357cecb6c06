//! Where a reader's blocks come from, and how far it has come in the one at hand.

use std::convert::Infallible;

use super::BLOCK_LENGTH;

/// Gives the bytes of a log from its beginning on.
pub trait BlockSource {
    /// Why bytes could not be read.
    type Error;

    /// Fills `block` with the next bytes of the log, as many as there are, and answers how many.
    /// Fewer than `block.len()` say that the log ends with them; the source is not asked again.
    ///
    /// # Errors
    /// The source's own. The reader passes them on, and what it gives afterwards is unspecified.
    fn fill(&mut self, block: &mut [u8]) -> Result<usize, Self::Error>;
}

/// A log that is in memory.
#[derive(Debug, Clone)]
pub struct SliceSource<'a> {
    bytes: &'a [u8],
}

impl<'a> SliceSource<'a> {
    /// The log that `bytes` are.
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

/// The block at hand and the place in it.
#[derive(Debug)]
pub(super) struct BlockCursor<S> {
    source: S,
    block: Box<[u8]>,
    /// How many bytes of the block are filled.
    length: usize,
    position: usize,
    /// Where in the log the block ends.
    end: u64,
    is_last: bool,
}

impl<S: BlockSource> BlockCursor<S> {
    pub(super) fn new(source: S) -> Self {
        let block = vec![0; BLOCK_LENGTH].into_boxed_slice();
        Self { source, block, length: 0, position: 0, end: 0, is_last: false }
    }

    /// Where in the log the next unread byte stands.
    pub(super) fn offset(&self) -> u64 {
        self.end - (self.length - self.position) as u64
    }

    /// Where in the block the next unread byte stands.
    pub(super) fn position(&self) -> usize {
        self.position
    }

    /// What has not been read of the block.
    pub(super) fn rest(&self) -> &[u8] {
        self.block.get(self.position..self.length).unwrap_or_default()
    }

    /// The bytes from `start` to `end` of the block.
    pub(super) fn bytes(&self, start: usize, end: usize) -> &[u8] {
        self.block.get(start..end).unwrap_or_default()
    }

    /// Whether the log ends with this block, inside it. A log that ends exactly where a block does
    /// is found out about by an empty block after it.
    pub(super) fn is_last(&self) -> bool {
        self.is_last
    }

    /// Takes the log up again where it ended: `source` gives what comes behind that place.
    pub(super) fn resume(&mut self, source: S) {
        (self.source, self.is_last) = (source, false);
    }

    /// Goes past `length` bytes of the block.
    pub(super) fn skip(&mut self, length: usize) {
        self.position = (self.position + length).min(self.length);
    }

    /// Goes to the end of the block and answers how many bytes were left.
    pub(super) fn skip_block(&mut self) -> u64 {
        let skipped = self.length - self.position;
        self.position = self.length;
        skipped as u64
    }

    /// Goes to the next block, past what is left of this one; false where this is the last.
    pub(super) fn next_block(&mut self) -> Result<bool, S::Error> {
        if self.is_last {
            return Ok(false);
        }
        // A log that is taken up again ended inside its block.
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
