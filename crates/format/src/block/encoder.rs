//! Encodes a sequence of entries: the common part of the builders of data and index blocks.

use super::layout::{HASH_INDEX, RESTARTS_MASK, VALUES_APART};
use crate::varint::{put_fixed32, put_varint32};
use crate::{Error, Result};

/// The entries of a block under construction, and the offsets of its restarts.
///
/// The buffers are reused, so building allocates nothing once they have grown.
#[derive(Debug)]
pub(super) struct Encoder {
    restart_interval: u32,
    pub(super) buffer: Vec<u8>,
    restarts: Vec<u32>,
    /// Number of entries added since the last restart.
    since_restart: u32,
    last_key: Vec<u8>,
}

/// How to encode an entry.
#[derive(Debug, Clone, Copy)]
pub(super) struct EntryForm {
    /// Number of bytes that its key shares with the previous one.
    pub(super) shared: usize,
    /// Whether the entry begins a restart interval.
    pub(super) at_restart: bool,
}

/// The parts of a block after its restarts.
#[derive(Debug, Default)]
pub(super) struct Tail<'a> {
    /// The buckets of the hash index and their number.
    pub(super) hash_index: Option<&'a [u8]>,
    /// Offset of the values, if they are separate.
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

    /// Discards the entries and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.buffer.clear();
        self.restarts.truncate(1);
        self.since_restart = 0;
        self.last_key.clear();
    }

    /// Returns the key added last; empty before the first.
    pub(super) fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    /// Returns the number of the restart interval of the entry added last.
    pub(super) fn restart(&self) -> usize {
        self.restarts.len() - 1
    }

    /// Returns whether the next entry begins a restart interval that is not the block's first.
    pub(super) fn restart_is_due(&self) -> bool {
        self.since_restart >= self.restart_interval
    }

    /// Returns whether the next entry begins a restart interval.
    pub(super) fn next_is_at_restart(&self) -> bool {
        self.since_restart == 0 || self.restart_is_due()
    }

    /// Returns the length of the block so far, without hash index, separate values and their
    /// offset.
    pub(super) fn length(&self) -> usize {
        self.buffer.len() + 4 * self.restarts.len() + 4
    }

    /// Determines how to write an entry with this key, which must be written next. A key that may
    /// not share a prefix is written whole.
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

    /// Appends the lengths before a key: a byte each if all are below 128.
    #[inline]
    pub(super) fn put_numbers<const COUNT: usize>(&mut self, numbers: [usize; COUNT]) {
        if numbers.iter().fold(0, |all, number| all | number) < 0x80 {
            self.buffer.extend_from_slice(&numbers.map(|number| number as u8));
        } else {
            numbers.iter().for_each(|&number| put_varint32(&mut self.buffer, number as u32));
        }
    }

    /// Appends the part of a key that is not shared with the previous key.
    #[inline]
    pub(super) fn put_key(&mut self, key: &[u8], shared: usize) {
        let unshared = key.get(shared..).unwrap_or_default();
        self.buffer.extend_from_slice(unshared);
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(unshared);
    }

    /// Completes the block, appends it to `out` and begins another. An empty `out` is swapped with
    /// the block's buffer.
    ///
    /// # Errors
    /// Unsupported, for a block of 4 GiB or with more restarts than a footer can count. The encoder
    /// is then empty, and `out` unchanged.
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
        let too_large = u32::try_from(self.buffer.len()).is_err()
            || self.restarts.len() > RESTARTS_MASK as usize;
        if too_large {
            self.clear();
            return Err(Error::unsupported("a block of 4 GiB or of 268,435,456 restarts"));
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
