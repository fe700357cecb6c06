//! Builds data and meta blocks.

use super::encoder::{Encoder, Tail};
use super::hash_index::HashIndexBuilder;
use crate::Result;
use crate::hash::hash_index_hash;
use crate::key::user_key;
use crate::varint::varint_length;

/// Options for encoding the entries of a block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BuilderOptions {
    /// Number of entries from one restart to the next. The key of an entry at a restart is stored
    /// in full. 0 counts as 1.
    pub restart_interval: u32,
    /// Whether an entry that is not at a restart omits the prefix that its key shares with the
    /// previous key.
    pub delta_keys: bool,
    /// Whether the values are stored together after all keys, instead of each value after its key.
    pub values_apart: bool,
    /// Number of keys per bucket of the hash index, a fraction above 0; `None` for no hash index.
    /// Keys must be internal keys, so only data blocks can have a hash index.
    pub hash_index_utilization: Option<f64>,
}

impl BuilderOptions {
    /// For metaindex and range deletion blocks: every entry is a restart.
    pub const META: Self = Self {
        restart_interval: 1,
        delta_keys: true,
        values_apart: false,
        hash_index_utilization: None,
    };

    /// For the properties block: only the first entry is a restart.
    pub const PROPERTIES: Self = Self { restart_interval: u32::MAX, ..Self::META };
}

impl Default for BuilderOptions {
    /// Returns RocksDB's default options for data blocks.
    fn default() -> Self {
        Self { restart_interval: 16, ..Self::META }
    }
}

/// Builds the data blocks of a table one after another, or a meta block. Entries are added in key
/// order.
///
/// For the same entries, the output is the same bytes as RocksDB's. The caller decides where a
/// block ends, based on the size estimates. The builder allocates no more memory once its buffers
/// have grown to the size of a block. Source: `table/block_based/block_builder.cc`.
#[derive(Debug)]
pub struct Builder {
    options: BuilderOptions,
    encoder: Encoder,
    /// The values of the block's entries, if they are stored together after all keys; otherwise
    /// empty.
    values: Vec<u8>,
    hash_index: Option<HashIndexBuilder>,
}

impl Builder {
    /// Creates a builder without entries.
    pub fn new(options: BuilderOptions) -> Self {
        Self {
            options,
            encoder: Encoder::new(options.restart_interval),
            values: Vec::new(),
            hash_index: options.hash_index_utilization.map(HashIndexBuilder::new),
        }
    }

    /// Discards the entries, and prepares the builder for another table. Keeps the allocated
    /// memory.
    pub fn reset(&mut self) {
        self.encoder.clear();
        self.values.clear();
        if let Some(hash_index) = &mut self.hash_index {
            hash_index.reset();
        }
    }

    /// Returns whether the block has no entry yet.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.encoder.buffer.is_empty()
    }

    /// Returns the key of the entry added last; empty if the block has no entry.
    #[inline]
    pub fn last_key(&self) -> &[u8] {
        self.encoder.last_key()
    }

    /// Adds an entry. Keys must be added in ascending order, except those of range deletions.
    #[inline]
    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        let place = self.encoder.place(key, self.options.delta_keys);
        let (shared, unshared) = (place.shared, key.len() - place.shared);
        if self.options.values_apart {
            if place.at_restart {
                let offset = self.values.len();
                self.encoder.put_numbers([shared, unshared, value.len(), offset]);
            } else {
                self.encoder.put_numbers([shared, unshared, value.len()]);
            }
            self.encoder.put_key(key, shared);
            self.values.extend_from_slice(value);
        } else {
            self.encoder.put_numbers([shared, unshared, value.len()]);
            self.encoder.put_key(key, shared);
            self.encoder.buffer.extend_from_slice(value);
        }
        if let Some(hash_index) = &mut self.hash_index {
            hash_index.add(hash_index_hash(user_key(key)), self.encoder.restart());
        }
    }

    /// Returns the length that the block would have if it were finished now, in bytes.
    #[inline]
    pub fn size_estimate(&self) -> usize {
        let values_offset = if self.options.values_apart { 4 } else { 0 };
        let hash_index = self.hash_index.as_ref().map_or(0, HashIndexBuilder::length);
        self.encoder.length() + self.values.len() + values_offset + hash_index
    }

    /// Returns the length of a block with a single entry, whose key and value have these lengths,
    /// in bytes. The values are not stored apart from the keys, and there is no hash index.
    #[inline]
    pub fn length_with_one(key_length: usize, value_length: usize) -> usize {
        let shared = varint_length(0);
        let lengths = varint_length(key_length as u64) + varint_length(value_length as u64);
        let (restarts, footer) = (4, 4);
        shared + lengths + key_length + value_length + restarts + footer
    }

    /// Returns RocksDB's estimate of the length of the block after one more entry, in bytes.
    /// `key_length` and `value_length` are those of the entry. The estimate is too high, because it
    /// ignores shared prefixes. RocksDB uses it to decide whether to end the block before the
    /// entry.
    #[inline]
    pub fn size_estimate_with(&self, key_length: usize, value_length: usize) -> usize {
        let restart = if self.encoder.restart_is_due() { 4 } else { 0 };
        let offset = if self.options.values_apart && self.encoder.next_is_at_restart() {
            varint_length(self.values.len() as u64)
        } else {
            0
        };
        let shared = 4;
        let lengths = varint_length(key_length as u64) + varint_length(value_length as u64);
        self.size_estimate() + key_length + value_length + restart + offset + shared + lengths
    }

    /// Appends the finished block to `out` and begins the next block of the table. If `out` is
    /// empty, it is swapped with the builder's buffer, which saves a copy.
    ///
    /// A block gets no hash index if it is larger than 64 KiB or has more than 254 restarts. After
    /// a block with too many restarts, no later block gets a hash index either, until
    /// [`Builder::reset`]; RocksDB does the same.
    ///
    /// # Errors
    /// Unsupported if the block is longer than [`block_length_max`]. Its entries are then
    /// discarded, and `out` is unchanged.
    ///
    /// [`block_length_max`]: crate::limits::block_length_max
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<()> {
        /// Maximum length of a block with a hash index, in bytes.
        const HASHED_LENGTH_MAX: usize = 1 << 16;
        let indexed = self.size_estimate() <= HASHED_LENGTH_MAX;
        let values_start = self.options.values_apart.then_some(self.encoder.buffer.len());
        self.encoder.buffer.extend_from_slice(&self.values);
        self.values.clear();
        let hash_index = match &mut self.hash_index {
            Some(hash_index) if indexed => hash_index.finish(),
            _ => None,
        };
        let result = self.encoder.finish(&Tail { hash_index, values_start }, out);
        if let Some(hash_index) = &mut self.hash_index {
            hash_index.clear();
        }
        result
    }
}
