//! The cache of tables' blocks.

use crate::cache::Cache;
use crate::table::Block;

/// A cache of tables' blocks, which column families and databases may share. Any thread may use it.
///
/// What it holds, evicted blocks that somebody still reads included, never takes more than its
/// capacity; a block for which there is no room is read past it.
#[derive(Debug)]
pub struct BlockCache {
    pub(crate) blocks: Cache<Block>,
}

impl BlockCache {
    /// An empty cache of `capacity` bytes.
    pub fn new(capacity: usize) -> Self {
        Self { blocks: Cache::new(capacity) }
    }

    /// How many bytes it may hold.
    pub fn capacity(&self) -> usize {
        self.blocks.capacity()
    }

    /// Changes how many bytes it may hold; what is too much is evicted at once.
    pub fn set_capacity(&self, capacity: usize) {
        self.blocks.set_capacity(capacity);
    }

    /// How many bytes it holds.
    pub fn usage(&self) -> usize {
        self.blocks.usage()
    }

    /// How many of those bytes somebody is reading, so that they cannot be given back.
    pub fn pinned_usage(&self) -> usize {
        self.blocks.pinned_usage()
    }
}
