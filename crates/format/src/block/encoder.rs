//! Encodes the entries of a block. Both the builder of data blocks and the builder of index blocks
//! use this.

use super::layout::{HASH_INDEX, RESTARTS_MASK, VALUES_APART};
use crate::limits::block_length_max;
use crate::varint::{put_fixed32, put_varint32};
use crate::{Error, Result};

/// The encoded entries of a block under construction, and the offsets of its restarts.
///
/// The encoder reuses its buffers, so it allocates nothing once they have grown.
#[derive(Debug)]
pub(super) struct Encoder {
    restart_interval: u32,
    pub(super) buffer: Vec<u8>,
    restarts: Vec<u32>,
    /// Number of entries since the last restart, including the one at the restart.
    since_restart: u32,
    last_key: Vec<u8>,
}

/// How the next entry is to be encoded.
#[derive(Debug, Clone, Copy)]
pub(super) struct EntryForm {
    /// Number of bytes that the entry's key shares with the previous key, and that are not stored.
    pub(super) shared: usize,
    /// Whether the entry is at a restart.
    pub(super) at_restart: bool,
}

/// The parts of a block that follow the array of restarts.
#[derive(Debug, Default)]
pub(super) struct Tail<'a> {
    /// The hash index, if any: its buckets, followed by their number.
    pub(super) hash_index: Option<&'a [u8]>,
    /// Offset in the block at which the values begin, if they are stored together after all keys.
    pub(super) values_start: Option<usize>,
}

impl Encoder {
    /// Creates an encoder with a restart every `restart_interval` entries; 0 counts as 1.
    pub(super) fn new(restart_interval: u32) -> Self {
        Self {
            restart_interval: restart_interval.max(1),
            buffer: Vec::new(),
            restarts: vec![0],
            since_restart: 0,
            last_key: Vec::new(),
        }
    }

    /// Discards the entries. Keeps the allocated memory.
    pub(super) fn clear(&mut self) {
        self.buffer.clear();
        self.restarts.truncate(1);
        self.since_restart = 0;
        self.last_key.clear();
    }

    /// Returns the key that was added last; empty if the block has no entry.
    pub(super) fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    /// Returns the index of the restart interval of the entry that was added last.
    pub(super) fn restart(&self) -> usize {
        self.restarts.len() - 1
    }

    /// Returns whether the next entry begins a new restart interval because the current one is
    /// full.
    pub(super) fn restart_is_due(&self) -> bool {
        self.since_restart >= self.restart_interval
    }

    /// Returns whether the next entry is at a restart: it begins a new interval or is the first
    /// entry of the block.
    pub(super) fn next_is_at_restart(&self) -> bool {
        self.since_restart == 0 || self.restart_is_due()
    }

    /// Returns the length of the block so far, in bytes: entries, restarts and footer. Does not
    /// count a hash index. Does not count values that are stored together after all keys, or the
    /// field with the offset of these values.
    pub(super) fn length(&self) -> usize {
        self.buffer.len() + 4 * self.restarts.len() + 4
    }

    /// Returns how to encode an entry with this key, and begins a restart interval if that is due.
    /// The caller must write this entry next. If `may_share` is false, the entry stores its whole
    /// key.
    #[inline]
    pub(super) fn place(&mut self, key: &[u8], may_share: bool) -> EntryForm {
        if self.restart_is_due() {
            self.restarts.push(self.buffer.len() as u32);
            self.since_restart = 0;
        }
        let at_restart = self.since_restart == 0;
        self.since_restart += 1;
        let shares = may_share && !at_restart;
        let shared = if shares { shared_prefix(&self.last_key, key) } else { 0 };
        EntryForm { shared, at_restart }
    }

    /// Appends the numbers that precede the key of an entry, as varints.
    #[inline]
    pub(super) fn put_numbers<const COUNT: usize>(&mut self, numbers: [usize; COUNT]) {
        if numbers.iter().fold(0, |all, number| all | number) < 0x80 {
            self.buffer.extend_from_slice(&numbers.map(|number| number as u8));
        } else {
            numbers.iter().for_each(|&number| put_varint32(&mut self.buffer, number as u32));
        }
    }

    /// Appends the key without its first `shared` bytes, which it shares with the previous key.
    #[inline]
    pub(super) fn put_key(&mut self, key: &[u8], shared: usize) {
        let unshared = key.get(shared..).unwrap_or_default();
        self.buffer.extend_from_slice(unshared);
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(unshared);
    }

    /// Completes the block, appends it to `out`, and begins another block. If `out` is empty, it is
    /// swapped with the encoder's buffer instead.
    ///
    /// # Errors
    /// Unsupported if the block is longer than [`block_length_max`], or has more restarts than the
    /// footer can count. The encoder is then empty, and `out` is unchanged.
    pub(super) fn finish(&mut self, tail: &Tail<'_>, out: &mut Vec<u8>) -> Result<()> {
        for &restart in &self.restarts {
            put_fixed32(&mut self.buffer, restart);
        }
        let mut packed = self.restarts.len() as u32;
        if let Some(buckets) = tail.hash_index {
            self.buffer.extend_from_slice(buckets);
            packed |= HASH_INDEX;
        }
        if let Some(start) = tail.values_start {
            put_fixed32(&mut self.buffer, start as u32);
            packed |= VALUES_APART;
        }
        put_fixed32(&mut self.buffer, packed);
        let (length, restarts) = (self.buffer.len(), self.restarts.len());
        if length > block_length_max() || restarts > RESTARTS_MASK as usize {
            self.clear();
            let feature = format!("a block of {length} bytes and {restarts} restarts");
            return Err(Error::unsupported(feature));
        }
        if out.is_empty() {
            std::mem::swap(out, &mut self.buffer);
        } else {
            out.extend_from_slice(&self.buffer);
        }
        self.clear();
        Ok(())
    }
}

/// Returns the length of the common prefix of two keys.
#[inline]
fn shared_prefix(a: &[u8], b: &[u8]) -> usize {
    let ((a_words, _), (b_words, _)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    let mut shared = 0;
    for (a_word, b_word) in a_words.iter().zip(b_words) {
        let difference = u64::from_le_bytes(*a_word) ^ u64::from_le_bytes(*b_word);
        if difference != 0 {
            return shared + difference.trailing_zeros() as usize / 8;
        }
        shared += 8;
    }
    let rest = |key| <[u8]>::iter(key).skip(shared);
    shared + rest(a).zip(rest(b)).take_while(|(a, b)| a == b).count()
}
