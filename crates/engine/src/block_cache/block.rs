//! A block of a table in memory: verified, decompressed, and ready to be searched. A row of the row
//! cache has the same form, so that one cache can hold both.

use std::ops::{Deref, Range};
use std::ptr;
use std::sync::Arc;

use tailwater_format::block::{
    Cursor, IndexCursor, IndexFormat, Layout, RestartPrefixes, Restarts,
};
use tailwater_format::filter::{FilterKey, FilterLayout, FilterReader};

use crate::cache::{Cached, SlabBytes};
use crate::prefetch;

/// A block of a table in memory. It has cache lines of its own, so that writes to its reference
/// count or to neighbouring allocations do not slow down its readers.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Block {
    bytes: BlockBytes,
    contents: Contents,
    /// The first bytes of the keys at the restart points of an index block. They narrow a search to
    /// a few restart points.
    prefixes: Option<Box<RestartPrefixes>>,
}

/// The struct `Block` fills exactly one cache line. A larger struct would need another cache line,
/// which would increase the charge of every cached block.
const _: () = assert!(size_of::<Block>() == 64);

/// Maximum number of restarts whose entries are prefetched. A block of 4 KiB has about as many.
const PREFETCHED_RESTARTS: usize = 4;
/// Number of bytes that are prefetched before a scan forward reaches them. While the scan reads
/// them, the processor itself prefetches those that follow.
const SCAN_PREFETCH_BYTES: usize = 2048;
/// Number of bytes at the end of a block that are prefetched before a scan backward reaches it.
const BACKWARD_PREFETCH_BYTES: usize = 4096;

/// A block's uncompressed bytes.
#[derive(Debug)]
pub(crate) enum BlockBytes {
    /// The bytes are in memory of the heap, because the block is not for a cache, or the cache had
    /// no memory for the block.
    Heap(Box<[u8]>),
    /// The bytes are in memory of a block cache.
    Slab(SlabBytes),
}

impl From<Vec<u8>> for BlockBytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Heap(bytes.into())
    }
}

impl Deref for BlockBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Heap(bytes) => bytes,
            Self::Slab(bytes) => bytes,
        }
    }
}

/// The parsed layout of a block's contents.
#[derive(Debug, Clone, Copy)]
enum Contents {
    /// Sorted entries: a data, index or meta block.
    Entries(Layout),
    /// A filter over keys.
    Filter(FilterLayout),
    /// A row of the row cache, which only that reads.
    Row,
}

/// The expected type of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockKind {
    /// A data block, which holds records.
    Data,
    /// An index block, whose entries refer to other blocks.
    Index,
    /// A filter block, which tells whether keys may be in the table.
    Filter,
}

impl BlockKind {
    /// All kinds.
    pub(crate) const ALL: [Self; 3] = [Self::Data, Self::Index, Self::Filter];

    /// Returns the kind's name in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Index => "index",
            Self::Filter => "filter",
        }
    }
}

impl Block {
    /// Parses the uncompressed bytes of a block.
    pub(crate) fn parse(
        bytes: impl Into<BlockBytes>,
        kind: BlockKind,
    ) -> tailwater_format::Result<Self> {
        let bytes = bytes.into();
        let contents = match kind {
            BlockKind::Data | BlockKind::Index => Contents::Entries(Layout::parse(&bytes)?),
            BlockKind::Filter => Contents::Filter(FilterLayout::parse(&bytes)),
        };
        Ok(Self { bytes, contents, prefixes: None })
    }

    /// Creates a row of the row cache.
    pub(crate) fn row(bytes: impl Into<BlockBytes>) -> Self {
        Self { bytes: bytes.into(), contents: Contents::Row, prefixes: None }
    }

    /// Adds the first bytes of the keys at the restart points, which speed up searches in an index
    /// block in bytewise order. `delta_values` says whether the block's values are delta-encoded,
    /// `user_keys` whether its keys are user keys, without a trailer.
    ///
    /// # Errors
    /// Corruption, for a block whose entries are malformed.
    pub(crate) fn with_prefixes(
        mut self,
        delta_values: bool,
        user_keys: bool,
    ) -> tailwater_format::Result<Self> {
        let built = RestartPrefixes::build(&self.bytes, self.layout(), delta_values, user_keys)?;
        self.prefixes = Some(Box::new(built));
        Ok(self)
    }

    /// Returns the restart points among which to search for a user key.
    #[inline]
    pub(crate) fn restarts_for(&self, user_key: &[u8]) -> Restarts {
        match &self.prefixes {
            Some(prefixes) => prefixes.narrow(user_key),
            None => Restarts::all(self.layout()),
        }
    }

    /// Returns the memory address of the block's bytes.
    pub(crate) fn address(&self) -> usize {
        self.bytes.as_ptr().addr()
    }

    /// Returns the address of the slot that the bytes are in, if they are in one.
    pub(crate) fn slot_address(&self) -> Option<usize> {
        match &self.bytes {
            BlockBytes::Heap(_) => None,
            BlockBytes::Slab(bytes) => bytes.slot_address(),
        }
    }

    /// Returns the uncompressed bytes.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the layout of a block of entries; for a filter, a layout without entries.
    #[inline]
    pub(crate) fn layout(&self) -> &Layout {
        const EMPTY: &Layout = &Layout::EMPTY;
        match &self.contents {
            Contents::Entries(layout) => layout,
            Contents::Filter(_) | Contents::Row => EMPTY,
        }
    }

    /// Calls `each` at every entry of a block of entries, in order. Returns the first error of
    /// `each`, or what `damaged` makes of the error about an entry that does not decode.
    pub(crate) fn walk<E>(
        &self,
        damaged: impl Fn(tailwater_format::Error) -> E,
        mut each: impl FnMut(&Cursor) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut cursor = Cursor::default();
        cursor.seek_to_first(&self.bytes, self.layout()).map_err(&damaged)?;
        while cursor.valid() {
            each(&cursor)?;
            cursor.next(&self.bytes, self.layout()).map_err(&damaged)?;
        }
        Ok(())
    }

    /// Like [`Self::walk`], for an index block.
    pub(crate) fn walk_index<E>(
        &self,
        format: IndexFormat,
        damaged: impl Fn(tailwater_format::Error) -> E,
        mut each: impl FnMut(&IndexCursor) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut cursor = IndexCursor::default();
        cursor.seek_to_first(&self.bytes, self.layout(), format).map_err(&damaged)?;
        while cursor.valid() {
            each(&cursor)?;
            cursor.next(&self.bytes, self.layout(), format).map_err(&damaged)?;
        }
        Ok(())
    }

    /// Whether a filter block may contain `key`. Always true for a block of entries.
    #[inline]
    pub(crate) fn may_contain(&self, key: &FilterKey<'_>) -> bool {
        match &self.contents {
            Contents::Entries(_) | Contents::Row => true,
            Contents::Filter(layout) => {
                FilterReader::with_layout(&self.bytes, *layout).may_contain(key)
            }
        }
    }

    /// Prefetches what [`Self::may_contain`] reads.
    #[inline]
    pub(crate) fn prefetch_filter(&self, key: &FilterKey<'_>) {
        if let Contents::Filter(layout) = &self.contents
            && let Some(line) = FilterReader::with_layout(&self.bytes, *layout).first_line(key)
        {
            prefetch::line(line.as_ptr());
        }
    }

    /// Prefetches the part of the restart array of an index block that a search among these
    /// restarts reads first.
    #[inline]
    pub(crate) fn prefetch_restart(&self, among: &Restarts) {
        prefetch::byte(&self.bytes, self.layout().offset_of_last(among));
    }

    /// Prefetches the entry of an index block that a search among these restarts reads first.
    #[inline]
    pub(crate) fn prefetch_entry(&self, among: &Restarts) {
        if let Some(entry) = self.layout().entry_of_last(&self.bytes, among) {
            prefetch::byte(&self.bytes, entry);
        }
    }

    /// Prefetches the restart array of a block of entries, which a search in the block reads first.
    #[inline]
    pub(crate) fn prefetch_restarts(&self) {
        prefetch::byte(&self.bytes, self.layout().restarts_offset());
    }

    /// Returns the address of the bytes that a reader of the block reads first; null for a filter,
    /// in which it depends on the key.
    pub(crate) fn first_read(&self) -> *const u8 {
        match &self.contents {
            Contents::Entries(layout) => {
                let restarts = self.bytes.get(layout.restarts_offset()..).unwrap_or_default();
                restarts.as_ptr()
            }
            Contents::Filter(_) => ptr::null(),
            Contents::Row => self.bytes.as_ptr(),
        }
    }

    /// Prefetches entries that a search in a block of entries reads.
    #[inline]
    pub(crate) fn prefetch_entries(&self) {
        let restarts = self.layout().restart_offsets(&self.bytes);
        restarts.take(PREFETCHED_RESTARTS).for_each(|at| prefetch::byte(&self.bytes, at));
    }

    /// Prefetches a range of the block's bytes, but only its first [`SCAN_PREFETCH_BYTES`].
    #[inline]
    pub(crate) fn prefetch_range(&self, range: Range<usize>) {
        let end = range.end.min(range.start.saturating_add(SCAN_PREFETCH_BYTES));
        prefetch::bytes(self.bytes.get(range.start..end).unwrap_or_default());
    }

    /// Prefetches the bytes that a scan of the block reads first.
    pub(crate) fn prefetch_for_scan(&self, is_backward: bool) {
        let restarts = self.layout().restarts_offset();
        if is_backward {
            // Intervals are reached last to first, but each is read from its start.
            let first = restarts.saturating_sub(BACKWARD_PREFETCH_BYTES);
            prefetch::bytes(self.bytes.get(first..).unwrap_or_default());
        } else {
            self.prefetch_range(0..restarts);
            prefetch::byte(&self.bytes, restarts);
        }
    }

    /// Returns the memory that the block uses, in bytes.
    pub(crate) fn memory(&self) -> usize {
        let prefixes = self.prefixes.as_deref();
        let bytes = match &self.bytes {
            BlockBytes::Heap(bytes) => bytes.len(),
            BlockBytes::Slab(bytes) => bytes.capacity(),
        };
        size_of::<Self>()
            + bytes
            + prefixes.map_or(0, |prefixes| size_of_val(prefixes) + prefixes.memory())
    }
}

/// A reference to a block that keeps the block in memory.
pub(crate) enum BlockRef<'g> {
    /// A block in the cache or in its table's reader. The owner of this reference is pinned in the
    /// epoch for `'g`, so the block is not freed during `'g`.
    Borrowed(&'g Arc<Cached<Block>>),
    /// A counted reference to the block.
    Owned(Arc<Cached<Block>>),
}

impl BlockRef<'_> {
    /// Returns a counted reference, which keeps the block in memory for longer than `'g`.
    pub(crate) fn to_arc(&self) -> Arc<Cached<Block>> {
        match self {
            Self::Borrowed(block) => Arc::clone(block),
            Self::Owned(block) => Arc::clone(block),
        }
    }

    /// Like [`Self::to_arc`], without counting an owned reference again.
    pub(crate) fn into_arc(self) -> Arc<Cached<Block>> {
        match self {
            Self::Borrowed(block) => Arc::clone(block),
            Self::Owned(block) => block,
        }
    }
}

impl Deref for BlockRef<'_> {
    type Target = Block;

    #[inline]
    fn deref(&self) -> &Block {
        match self {
            Self::Borrowed(block) => block,
            Self::Owned(block) => block,
        }
    }
}
