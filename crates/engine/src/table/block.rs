//! A block of a table in memory: checked, decompressed, ready to be searched.

use std::ops::Deref;
use std::sync::Arc;

use tailwater_format::block::{Layout, RestartPrefixes, Restarts};
use tailwater_format::filter::{FilterKey, FilterLayout, FilterReader};

use crate::cache::{Cached, SlabBytes};

/// A block of a table in memory. On cache lines of its own, so that neither its count of references
/// nor what the allocator puts beside it disturbs who reads it.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Block {
    bytes: BlockBytes,
    contents: Contents,
    /// To find entries of an index faster.
    prefixes: Option<Box<RestartPrefixes>>,
}

/// With its reference counts it is on two of them, where more memory is charged for each.
const _: () = assert!(size_of::<Block>() == 64);

/// A block's uncompressed bytes.
#[derive(Debug)]
pub(crate) enum BlockBytes {
    /// On the heap: of a block that is not for a cache, or where that has no memory.
    Heap(Box<[u8]>),
    /// In the memory of a block cache.
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

/// What a block holds, as its footer or trailer says.
#[derive(Debug, Clone, Copy)]
enum Contents {
    /// Sorted entries: a data, index or meta block.
    Entries(Layout),
    /// A filter over keys.
    Filter(FilterLayout),
}

/// What a block is expected to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockKind {
    /// Entries that users asked for.
    Data,
    /// Entries that lead to other blocks.
    Index,
    /// A filter over keys.
    Filter,
}

impl Block {
    /// Takes the uncompressed bytes of a block.
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

    /// Lets entries be found faster, in an index block in bytewise order. `delta_values` says how
    /// its values are written, `user_keys` whether its keys are without a trailer.
    ///
    /// # Errors
    /// Corruption, for a block whose entries are none.
    pub(crate) fn with_prefixes(
        mut self,
        delta_values: bool,
        user_keys: bool,
    ) -> tailwater_format::Result<Self> {
        let built = RestartPrefixes::build(&self.bytes, self.layout(), delta_values, user_keys)?;
        self.prefixes = Some(Box::new(built));
        Ok(self)
    }

    /// Among which restarts a search for a user key is to look.
    #[inline]
    pub(crate) fn restarts_for(&self, user_key: &[u8]) -> Restarts {
        match &self.prefixes {
            Some(prefixes) => prefixes.narrow(user_key),
            None => Restarts::all(self.layout()),
        }
    }

    /// Where its bytes are in memory.
    pub(crate) fn address(&self) -> usize {
        self.bytes.as_ptr().addr()
    }

    /// The uncompressed bytes.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Where the parts of a block of entries stand. A filter has no entries.
    #[inline]
    pub(crate) fn layout(&self) -> &Layout {
        const EMPTY: &Layout = &Layout::EMPTY;
        match &self.contents {
            Contents::Entries(layout) => layout,
            Contents::Filter(_) => EMPTY,
        }
    }

    /// Whether a filter may have a key. A block of entries may have any.
    #[inline]
    pub(crate) fn may_contain(&self, key: &FilterKey<'_>) -> bool {
        match &self.contents {
            Contents::Entries(_) => true,
            Contents::Filter(layout) => {
                FilterReader::with_layout(&self.bytes, *layout).may_contain(key)
            }
        }
    }

    /// The memory it takes, in bytes.
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

/// A block that stays in memory as long as this lives: kept by the epoch its reader is pinned in,
/// or by a reference.
pub(crate) enum BlockRef<'g> {
    /// In the cache or in the table's reader, whose owner outlives `'g`.
    Borrowed(&'g Arc<Cached<Block>>),
    /// A reference of its own.
    Owned(Arc<Cached<Block>>),
}

impl BlockRef<'_> {
    /// A reference that outlives the reader's epoch.
    pub(crate) fn to_arc(&self) -> Arc<Cached<Block>> {
        match self {
            Self::Borrowed(block) => Arc::clone(block),
            Self::Owned(block) => Arc::clone(block),
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
