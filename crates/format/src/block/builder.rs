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
    /// Number of entries per restart interval, whose first key is written whole; 0 counts as 1.
    pub restart_interval: u32,
    /// Whether keys between restarts omit the prefix that they share with the previous key.
    pub delta_keys: bool,
    /// Whether all values follow all keys, instead of each value following its key.
    pub values_apart: bool,
    /// Fraction of a hash index's buckets that keys should fill, above 0; `None` for no hash index.
    /// Only for data blocks, because it requires internal keys.
    pub hash_index_utilization: Option<f64>,
}

impl BuilderOptions {
    /// Metaindex and range deletion blocks: every key is a restart.
    pub const META: Self = Self {
        restart_interval: 1,
        delta_keys: true,
        values_apart: false,
        hash_index_utilization: None,
    };

    /// The properties block: only the first key is a restart.
    pub const PROPERTIES: Self = Self { restart_interval: u32::MAX, ..Self::META };
}

impl Default for BuilderOptions {
    /// RocksDB's default for data blocks.
    fn default() -> Self {
        Self { restart_interval: 16, ..Self::META }
    }
}

/// Builds the data blocks of a table, or a meta block, from entries added in order.
///
/// The output is byte for byte that of RocksDB for the same entries. The caller uses the size
/// estimates to decide where a block ends. Nothing is allocated once the buffers have grown to the
/// size of a block. Source: `table/block_based/block_builder.cc`.
#[derive(Debug)]
pub struct Builder {
    options: BuilderOptions,
    encoder: Encoder,
    /// The values, if they are separate.
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

    /// Discards the entries and begins another table. Keeps the memory.
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

    /// Adds an entry. Keys must ascend, except those of range deletions.
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

    /// Returns the length of the block in bytes if it were finished now.
    #[inline]
    pub fn size_estimate(&self) -> usize {
        let values_offset = if self.options.values_apart { 4 } else { 0 };
        let hash_index = self.hash_index.as_ref().map_or(0, HashIndexBuilder::length);
        self.encoder.length() + self.values.len() + values_offset + hash_index
    }

    /// Returns RocksDB's estimate of the block's length, in bytes, with one more entry whose key
    /// and value have these lengths. It is too high, because it ignores shared prefixes; RocksDB
    /// uses it to decide where to end a block.
    #[inline]
    pub fn size_estimate_with(&self, key_length: usize, value_length: usize) -> usize {
        let restart = if self.encoder.restart_is_due() { 4 } else { 0 };
        let offset = match self.options.values_apart && self.encoder.next_is_at_restart() {
            true => varint_length(self.values.len() as u64),
            false => 0,
        };
        let shared = 4;
        let lengths = varint_length(key_length as u64) + varint_length(value_length as u64);
        self.size_estimate() + key_length + value_length + restart + offset + shared + lengths
    }

    /// Appends the block to `out` and begins the next block of the table. An empty `out` is swapped
    /// with the builder's own buffer, without a copy.
    ///
    /// A block with more restarts than a hash index can address gets no hash index; as in RocksDB,
    /// neither do later blocks until [`Builder::reset`]. A block larger than 64 KiB gets none
    /// either.
    ///
    /// # Errors
    /// Unsupported, for a block of 4 GiB. Its entries are then discarded, and `out` is unchanged.
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
