//! Builds index blocks.

use super::IndexFormat;
use super::encoder::{Encoder, Tail};
use crate::Result;
use crate::comparator::Comparator;
use crate::key::{MAX_SEQUENCE, ValueType, pack_trailer, user_key};
use crate::table::BlockHandle;
use crate::table::footer::MAX_BLOCK_HANDLE_LENGTH;
use crate::varint::{put_fixed64, put_length_prefixed, put_varsigned64, varint_length};

/// Selects the index keys to shorten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IndexShortening {
    /// None: each index key is the last key of its block.
    None,
    /// Keys between two blocks: each is a short key that separates them.
    #[default]
    Separators,
    /// Keys between two blocks, and the last key, which becomes a short key at or above all keys of
    /// the table.
    SeparatorsAndSuccessor,
}

impl IndexShortening {
    /// Sets `out` to the index key, an internal key, of a block that ends with the internal key
    /// `last` and is followed by a block that begins with `next`, or by no block. Returns whether
    /// the user key alone separates the two blocks. It does not if both blocks contain that user
    /// key.
    ///
    /// An index has user keys only if they suffice for every entry.
    pub fn separate(
        self,
        comparator: &Comparator,
        last: &[u8],
        next: Option<&[u8]>,
        out: &mut Vec<u8>,
    ) -> bool {
        let last_user_key = user_key(last);
        out.clear();
        out.extend_from_slice(last_user_key);
        match next {
            Some(next) if self != Self::None => {
                comparator.find_shortest_separator(out, user_key(next));
            }
            None if self == Self::SeparatorsAndSuccessor => comparator.find_short_successor(out),
            _ => {}
        }
        if out.len() <= last_user_key.len() && comparator.compare(last_user_key, out).is_lt() {
            // This key belongs to no record: its trailer sorts before all others of the same user
            // key.
            put_fixed64(out, pack_trailer(MAX_SEQUENCE, ValueType::FOR_SEEK));
        } else {
            out.clear();
            out.extend_from_slice(last);
        }
        next.is_none_or(|next| comparator.compare(last_user_key, user_key(next)).is_ne())
    }
}

/// Options for encoding an index block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexBuilderOptions {
    /// Number of entries per restart interval, whose first key is written whole; 0 counts as 1,
    /// RocksDB's default.
    pub restart_interval: u32,
    /// How entries are written. RocksDB writes delta values in `format_version` 4 and later, except
    /// where `block_align` pads data blocks.
    pub format: IndexFormat,
    /// Whether keys are always internal keys, as in `format_version` 2.
    pub internal_keys: bool,
}

/// Builds an index block, a partition of an index or its top level, from entries added in order.
///
/// Whether the keys of an index need their trailers is known only at its end, so the block is built
/// in both forms until [`IndexBuilder::require_internal_keys`]. The output is byte for byte that of
/// RocksDB for the same entries, with `uniform_cv_threshold` at its default. Nothing is allocated
/// once the buffers have grown to the size of a block. Source:
/// `table/block_based/index_builder.{h,cc}`.
#[derive(Debug)]
pub struct IndexBuilder {
    options: IndexBuilderOptions,
    with_trailers: Encoder,
    /// The block with user keys in place of internal keys; meaningless once internal keys are
    /// required.
    without_trailers: Encoder,
    internal_keys: bool,
    last_handle: Option<BlockHandle>,
    values: Values,
}

/// The two forms of an entry's value.
#[derive(Debug, Default)]
struct Values {
    whole: Vec<u8>,
    delta: Vec<u8>,
}

impl IndexBuilder {
    /// Creates a builder without entries.
    pub fn new(options: IndexBuilderOptions) -> Self {
        Self {
            options,
            with_trailers: Encoder::new(options.restart_interval),
            without_trailers: Encoder::new(options.restart_interval),
            internal_keys: options.internal_keys,
            last_handle: None,
            values: Values::default(),
        }
    }

    /// Resets the entries and the requirement of internal keys. The memory is kept.
    pub fn reset(&mut self) {
        self.with_trailers.clear();
        self.without_trailers.clear();
        self.internal_keys = self.options.internal_keys;
        self.last_handle = None;
    }

    /// Returns whether the block has no entry yet.
    pub fn is_empty(&self) -> bool {
        self.with_trailers.buffer.is_empty()
    }

    /// Makes the keys of this block internal keys. Must be called on every part of an index once
    /// [`IndexShortening::separate`] returns that user keys do not suffice for one of its entries.
    pub fn require_internal_keys(&mut self) {
        self.internal_keys = true;
    }

    /// Returns whether the keys of this block are internal keys.
    pub fn internal_keys(&self) -> bool {
        self.internal_keys
    }

    /// Adds the entry of the block at `handle`. `separator` is an internal key at or above the last
    /// key of the block, `first_key` the block's first key, which is omitted if the format does not
    /// store first keys. A block that does not directly follow the previous one gets a whole key
    /// and handle instead of a delta.
    pub fn add(&mut self, separator: &[u8], handle: BlockHandle, first_key: &[u8]) {
        let format = self.options.format;
        self.values.encode(handle, self.last_handle, format.first_keys.then_some(first_key));
        let follows = self.last_handle.is_none_or(|last| last.end() == handle.offset);
        let may_share = follows || !format.delta_values;
        put_entry(&mut self.with_trailers, format, separator, &self.values, may_share);
        if !self.internal_keys {
            let key = user_key(separator);
            put_entry(&mut self.without_trailers, format, key, &self.values, may_share);
        }
        self.last_handle = Some(handle);
    }

    /// Returns the length of the block in bytes if it were finished now.
    pub fn size_estimate(&self) -> usize {
        self.encoder().length()
    }

    /// Returns RocksDB's estimate of the block's length, in bytes, with one more entry whose key
    /// has `key_length` bytes. RocksDB uses it to decide where to end a partition.
    pub fn size_estimate_with(&self, key_length: usize, handle: BlockHandle) -> usize {
        let value = varint_length(handle.offset) + varint_length(handle.size);
        let restart_is_due = self.encoder().restart_is_due();
        let value = match self.options.format.delta_values && !restart_is_due {
            true => value / 2,
            false => value + varint_length(value as u64),
        };
        let restart = if restart_is_due { 4 } else { 0 };
        let shared = 4;
        let length = varint_length(key_length as u64);
        self.size_estimate() + key_length + value + restart + shared + length
    }

    /// Appends the block to `out` and begins another as [`IndexBuilder::reset`] does. An empty
    /// `out` is swapped with the builder's own buffer, without a copy.
    ///
    /// # Errors
    /// Unsupported, for a block of 4 GiB. Its entries are then discarded, and `out` is unchanged.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let encoder = match self.internal_keys {
            true => &mut self.with_trailers,
            false => &mut self.without_trailers,
        };
        let result = encoder.finish(&Tail::default(), out);
        self.reset();
        result
    }

    /// Returns the encoder whose form of the block will be written.
    fn encoder(&self) -> &Encoder {
        if self.internal_keys { &self.with_trailers } else { &self.without_trailers }
    }
}

impl Values {
    /// Encodes a handle, whole and as the difference from `last`, each followed by the first key.
    fn encode(&mut self, handle: BlockHandle, last: Option<BlockHandle>, first_key: Option<&[u8]>) {
        self.whole.clear();
        self.whole.reserve(MAX_BLOCK_HANDLE_LENGTH);
        handle.encode(&mut self.whole);
        self.delta.clear();
        let last_size = last.map_or(0, |last| last.size);
        put_varsigned64(&mut self.delta, handle.size.wrapping_sub(last_size) as i64);
        if let Some(first_key) = first_key {
            put_length_prefixed(&mut self.whole, first_key);
            put_length_prefixed(&mut self.delta, first_key);
        }
    }
}

/// Appends an entry. The delta is used if and only if the key shares bytes, which is how a reader
/// recognises it.
fn put_entry(
    encoder: &mut Encoder,
    format: IndexFormat,
    key: &[u8],
    values: &Values,
    may_share: bool,
) {
    let shared = encoder.place(key, may_share).shared;
    let unshared = key.len() - shared;
    if !format.delta_values {
        encoder.put_numbers([shared, unshared, values.whole.len()]);
    } else {
        encoder.put_numbers([shared, unshared]);
    }
    encoder.put_key(key, shared);
    let delta = format.delta_values && shared != 0;
    encoder.buffer.extend_from_slice(if delta { &values.delta } else { &values.whole });
}
