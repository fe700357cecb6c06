//! Reading ahead of an iterator that goes through a table block by block.
//!
//! The first blocks are read one at a time, since a seek often wants no more. Once a few have
//! followed one another, a larger piece of the file is read at once, and twice as much the next
//! time, up to a bound. Blocks that are in the cache are taken from there and leave the sequence
//! unbroken.

use std::sync::Arc;

use tailwater_format::table::{BLOCK_TRAILER_LENGTH, BlockHandle};

use crate::Result;
use crate::cache::Cached;
use crate::stats::{ReadAheadCharge, Ticker};
use crate::table::{Block, BlockKind, ReadProfile, TableReader};

/// What was read of a table ahead of its iterator.
pub(super) struct ReadAhead {
    buffer: Vec<u8>,
    charge: ReadAheadCharge,
    /// Where in the file `buffer` begins.
    start: u64,
    /// Where the next block begins if blocks go on one after the other.
    expected: u64,
    sequential: u64,
    /// How much to read at once the next time, in bytes.
    length: usize,
    /// Whether that amount was asked for, and so is read from the first block on and does not grow.
    fixed: bool,
}

impl ReadAhead {
    /// Reads `length` bytes at once, or, for 0, as many as the iterator's course suggests.
    pub(super) fn new(length: usize, table: &TableReader) -> Self {
        let auto = table.auto_read_ahead();
        let fixed = length > 0;
        Self {
            buffer: Vec::new(),
            charge: ReadAheadCharge::new(table.reader_memory()),
            start: 0,
            expected: 0,
            sequential: 0,
            length: if fixed { length } else { auto.initial_bytes.min(auto.max_bytes) },
            fixed,
        }
    }

    /// Begins anew, as [`ReadAhead::new`], for another table.
    pub(super) fn restart(&mut self, length: usize, table: &TableReader) {
        let next = Self::new(length, table);
        let last = std::mem::replace(self, next);
        self.buffer = last.buffer;
        self.buffer.clear();
        self.charge = last.charge;
    }

    /// The data block at `handle`: from the cache, from what was read ahead, or from the file.
    pub(super) fn load(
        &mut self,
        table: &TableReader,
        handle: BlockHandle,
        profile: &ReadProfile,
    ) -> Result<Arc<Cached<Block>>> {
        let in_sequence = handle.offset == self.expected && handle.offset > 0;
        self.expected = handle.offset + handle.size + BLOCK_TRAILER_LENGTH as u64;
        self.sequential = if in_sequence { self.sequential + 1 } else { 0 };
        if let Some(block) = table.resident(handle, BlockKind::Data) {
            return Ok(block);
        }
        let auto = table.auto_read_ahead();
        if !self.fixed && (self.sequential < auto.after_reads || self.length == 0) {
            return table.load_absent(handle, BlockKind::Data, profile);
        }
        self.read_ahead(table, handle, profile)
    }

    fn read_ahead(
        &mut self,
        table: &TableReader,
        handle: BlockHandle,
        profile: &ReadProfile,
    ) -> Result<Arc<Cached<Block>>> {
        let file = table.file();
        let needed = file.length_with_trailer(handle)?;
        if self.span(handle.offset, needed).is_none() {
            self.fill(table, handle.offset, needed, profile)?;
            table.count(Ticker::PrefetchBytes, self.buffer.len() as u64);
        } else {
            table.count(Ticker::PrefetchHits, 1);
        }
        let Some(raw) = self.span(handle.offset, needed) else {
            // The file ends inside the block: let the plain path say so.
            return table.load_absent(handle, BlockKind::Data, profile);
        };
        let dictionary = table.dictionary_for(BlockKind::Data);
        let bytes = file.unpack_read_ahead(raw, handle, dictionary, profile.verify_checksums)?;
        table.keep(handle, BlockKind::Data, bytes, profile)
    }

    /// The bytes of a span of the file, if they were read ahead.
    fn span(&self, offset: u64, length: usize) -> Option<&[u8]> {
        let from = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        self.buffer.get(from..from.checked_add(length)?)
    }

    fn fill(
        &mut self,
        table: &TableReader,
        offset: u64,
        needed: usize,
        profile: &ReadProfile,
    ) -> Result<()> {
        let left = table.file().length() - offset;
        let length = (self.length.max(needed) as u64).min(left) as usize;
        if !self.fixed {
            self.length = (self.length * 2).min(table.auto_read_ahead().max_bytes);
        }
        self.buffer.resize(length, 0);
        self.charge.set(self.buffer.capacity() as u64);
        self.start = offset;
        let read = table.file().read_raw(&mut self.buffer, offset, profile.purpose);
        self.buffer.truncate(*read.as_ref().unwrap_or(&0));
        read.map(|_| ())
    }
}
