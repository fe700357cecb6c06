//! Builds index blocks.

use super::IndexFormat;
use super::encoder::{Encoder, Tail};
use crate::Result;
use crate::comparator::Comparator;
use crate::key::{MAX_SEQUENCE, ValueType, pack_trailer, user_key};
use crate::table::BlockHandle;
use crate::table::footer::MAX_BLOCK_HANDLE_LENGTH;
use crate::varint::{put_fixed64, put_length_prefixed, put_varsigned64, varint_length};

/// Which keys of an index are shortened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IndexShortening {
    /// No key is shortened: the index key of a block is the last key of the block.
    None,
    /// The index key of a block is a short key that separates the block from the next one.
    #[default]
    Separators,
    /// As [`IndexShortening::Separators`]; in addition, the index key of the last block is a short
    /// key that is at or above all keys of the table.
    SeparatorsAndSuccessor,
}

impl IndexShortening {
    /// Sets `out` to the index key of a block, as an internal key. `last` is the last internal key
    /// of the block, and `next` is the first internal key of the next block, if there is one.
    /// Returns whether the user keys alone separate the two blocks, which is false if both blocks
    /// contain the same user key.
    ///
    /// An index stores only user keys if these separate all its blocks.
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
        let is_other = out.as_slice() != last_user_key;
        if is_other
            && out.len() <= last_user_key.len()
            && comparator.compare(last_user_key, out).is_lt()
        {
            // The shortened user key belongs to no record. This trailer sorts before all other
            // trailers of the same user key.
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
    /// Number of entries from one restart to the next. The key of an entry at a restart is stored
    /// in full. 0 counts as 1, which is RocksDB's default.
    pub restart_interval: u32,
    /// How entries are encoded. RocksDB sets `delta_values` for `format_version` 4 and later,
    /// except for tables whose data blocks are padded because of `block_align`.
    pub format: IndexFormat,
    /// Whether keys are always stored as internal keys, even if user keys would suffice, as in
    /// `format_version` 2.
    pub internal_keys: bool,
}

/// Builds an index block: a whole index, a partition of an index, or the top level of a partitioned
/// index. Entries are added in key order.
///
/// Whether the keys of an index must be internal keys is known only when its last entry is added.
/// Until [`IndexBuilder::require_internal_keys`] is called, the block is therefore built in two
/// forms, with internal keys and with user keys. For the same entries, the output is the same bytes
/// as RocksDB's with `uniform_cv_threshold` at its default. The builder allocates no more memory
/// once its buffers have grown to the size of a block. Source:
/// `table/block_based/index_builder.{h,cc}`.
#[derive(Debug)]
pub struct IndexBuilder {
    options: IndexBuilderOptions,
    with_trailers: Encoder,
    /// The block with user keys instead of internal keys. It is not maintained or used once
    /// internal keys are required.
    without_trailers: Encoder,
    internal_keys: bool,
    last_handle: Option<BlockHandle>,
    values: Values,
}

/// The value of an index entry in both of its forms. In one form, the block handle is whole. In the
/// other form, the difference between the sizes of this block and the previous block replaces it.
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

    /// Discards the entries. Forgets [`IndexBuilder::require_internal_keys`], so that only the
    /// options determine whether internal keys are required. Keeps the allocated memory.
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

    /// Makes the builder store internal keys in this block. If [`IndexShortening::separate`]
    /// returns false for any entry of an index, this must be called for every block of that index.
    pub fn require_internal_keys(&mut self) {
        self.internal_keys = true;
    }

    /// Returns whether this block stores internal keys.
    pub fn internal_keys(&self) -> bool {
        self.internal_keys
    }

    /// Adds an entry for the block at `handle`. `separator` is an internal key at or above the last
    /// key of that block. `first_key` is the first key of that block; it is ignored if the format
    /// has no first keys. If the format has delta values and the block does not directly follow the
    /// previous one, the entry stores a whole key and a whole handle.
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

    /// Returns the length that the block would have if it were finished now, in bytes.
    pub fn size_estimate(&self) -> usize {
        self.encoder().length()
    }

    /// Returns the length that the block would have if it were finished now with internal keys, in
    /// bytes. It is an upper bound of the length of the finished block.
    #[inline]
    pub fn length_max(&self) -> usize {
        self.with_trailers.length()
    }

    /// Returns RocksDB's estimate of the length that the block would have with one more entry, in
    /// bytes. The key of that entry has `key_length` bytes. RocksDB uses the estimate to decide
    /// whether to end a partition before the entry.
    pub fn size_estimate_with(&self, key_length: usize, handle: BlockHandle) -> usize {
        let value = varint_length(handle.offset) + varint_length(handle.size);
        let restart_is_due = self.encoder().restart_is_due();
        let value = if self.options.format.delta_values && !restart_is_due {
            value / 2
        } else {
            value + varint_length(value as u64)
        };
        let restart = if restart_is_due { 4 } else { 0 };
        let shared = 4;
        let length = varint_length(key_length as u64);
        self.size_estimate() + key_length + value + restart + shared + length
    }

    /// Appends the finished block to `out`, and resets the builder as [`IndexBuilder::reset`] does.
    /// If `out` is empty, it is swapped with the builder's buffer, which saves a copy.
    ///
    /// # Errors
    /// Unsupported if the block is longer than [`block_length_max`]. Its entries are then
    /// discarded, and `out` is unchanged.
    ///
    /// [`block_length_max`]: crate::limits::block_length_max
    pub fn finish(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let encoder =
            if self.internal_keys { &mut self.with_trailers } else { &mut self.without_trailers };
        let result = encoder.finish(&Tail::default(), out);
        self.reset();
        result
    }

    /// Returns the encoder whose entries will be written: the one with internal keys or the one
    /// with user keys.
    fn encoder(&self) -> &Encoder {
        if self.internal_keys { &self.with_trailers } else { &self.without_trailers }
    }
}

impl Values {
    /// Encodes `handle` in both forms: as a whole, and as the difference of its size from that of
    /// `last`. If there is a first key, it follows in both forms.
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

/// Appends an entry. In a format with delta values, the entry gets the delta value if its key
/// shares bytes with the previous key, and otherwise the whole value. So a reader sees from the
/// number of shared bytes which value the entry has.
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
