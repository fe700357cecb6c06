//! Puts entries behind one another: what the builders of data and index blocks have in common.

use super::layout::{HASH_INDEX, RESTARTS_MASK, VALUES_APART};
use crate::varint::{put_fixed32, put_varint32};
use crate::{Error, Result};

/// The entries of a block that is being built, and where its restarts are.
///
/// Its buffers are kept from block to block, so that building allocates nothing once they have
/// grown.
#[derive(Debug)]
pub(super) struct Encoder {
    restart_interval: u32,
    pub(super) buffer: Vec<u8>,
    restarts: Vec<u32>,
    /// How many entries have been added since the last restart.
    since_restart: u32,
    last_key: Vec<u8>,
}

/// How an entry is to be written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// How many bytes its key shares with the one before.
    pub(super) shared: usize,
    /// Whether it begins a restart interval.
    pub(super) at_restart: bool,
}

/// What stands behind the restarts of a block.
#[derive(Debug, Default)]
pub(super) struct Tail<'a> {
    /// The buckets of the hash index and their number.
    pub(super) hash_index: Option<&'a [u8]>,
    /// Where the values begin, if they are kept apart.
    pub(super) values_start: Option<usize>,
}

impl Encoder {
    /// An encoder with a restart every so many entries; 0 counts as 1.
    pub(super) fn new(restart_interval: u32) -> Self {
        Self {
            restart_interval: restart_interval.max(1),
            buffer: Vec::new(),
            restarts: vec![0],
            since_restart: 0,
            last_key: Vec::new(),
        }
    }

    /// Forgets the entries and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.buffer.clear();
        self.restarts.truncate(1);
        self.since_restart = 0;
        self.last_key.clear();
    }

    /// The key added last; empty before the first.
    pub(super) fn last_key(&self) -> &[u8] {
        &self.last_key
    }

    /// The number of the restart interval of the entry added last.
    pub(super) fn restart(&self) -> usize {
        self.restarts.len() - 1
    }

    /// Whether the next entry begins a restart interval that is not the block's first.
    pub(super) fn restart_is_due(&self) -> bool {
        self.since_restart >= self.restart_interval
    }

    /// Whether the next entry begins a restart interval.
    pub(super) fn next_is_at_restart(&self) -> bool {
        self.since_restart == 0 || self.restart_is_due()
    }

    /// The length of the block so far without a hash index, values apart or their offset.
    pub(super) fn length(&self) -> usize {
        self.buffer.len() + 4 * self.restarts.len() + 4
    }

    /// Finds the place for an entry with that key, which has to be written next. A key that may not
    /// share is written whole.
    #[inline]
    pub(super) fn place(&mut self, key: &[u8], may_share: bool) -> Place {
        if self.restart_is_due() {
            self.restarts.push(self.buffer.len() as u32);
            self.since_restart = 0;
        }
        let at_restart = self.since_restart == 0;
        self.since_restart += 1;
        let shares = may_share && !at_restart;
        let shared = if shares { shared_prefix(&self.last_key, key) } else { 0 };
        Place { shared, at_restart }
    }

    /// Appends the numbers before a key: a byte each if all are below 128.
    #[inline]
    pub(super) fn put_numbers<const COUNT: usize>(&mut self, numbers: [usize; COUNT]) {
        if numbers.iter().fold(0, |all, number| all | number) < 0x80 {
            self.buffer.extend_from_slice(&numbers.map(|number| number as u8));
        } else {
            numbers.iter().for_each(|&number| put_varint32(&mut self.buffer, number as u32));
        }
    }

    /// Appends what a key does not share with the one before.
    #[inline]
    pub(super) fn put_key(&mut self, key: &[u8], shared: usize) {
        let unshared = key.get(shared..).unwrap_or_default();
        self.buffer.extend_from_slice(unshared);
        self.last_key.truncate(shared);
        self.last_key.extend_from_slice(unshared);
    }

    /// Completes the block, moves it to the end of `out` and begins another. An empty `out` is
    /// exchanged for the buffer that the block stands in.
    ///
    /// # Errors
    /// Unsupported, for a block of 4 GiB or with more restarts than a footer can count. The encoder
    /// is then as if new, and `out` as it was.
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

/// How many bytes two keys have in common at their beginnings.
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
