//! Filters. A filter shows that certain keys are not in a table or in a part of it.
//!
//! A filter block consists of the bits of one of three structures and five bytes of metadata:
//!
//! ```text
//! first byte   structure                then
//! -1           FastLocalBloom           0, probes (5 bits; the 3 above are zero), 0, 0
//! -2           Ribbon, 128 bits wide    seed, number of blocks in 24 bits, little-endian
//! 1 to 127     legacy Bloom, that       number of lines in 32 bits, little-endian
//!              many probes
//! others       reserved: every key may be present
//! ```
//!
//! A block of five bytes or fewer contains no keys. A filter of an unknown structure reports that
//! any key may be present. This costs a read but is never wrong, so reading a filter cannot fail.
//! The partitions of a partitioned filter are filter blocks themselves. Source:
//! `table/block_based/filter_policy.cc`.

mod bloom;
mod legacy_bloom;
mod policy;
mod ribbon;

use crate::hash::hash64;

pub use bloom::BloomBuilder;
pub use policy::{COMPATIBILITY_NAME, FilterKind, FilterPolicy};

use bloom::FastLocalBloom;
use legacy_bloom::LegacyBloom;
use ribbon::Ribbon;

/// Length of the metadata after the bits, in bytes.
const METADATA_LENGTH: usize = 5;

/// A key to look up in filters. It is hashed once, and the hash is used for every filter.
#[derive(Debug, Clone, Copy)]
pub struct FilterKey<'a> {
    key: &'a [u8],
    hash: u64,
}

impl<'a> FilterKey<'a> {
    /// Hashes a user key or a prefix.
    #[inline]
    pub fn new(key: &'a [u8]) -> Self {
        Self { key, hash: hash64(key) }
    }

    /// Returns the 64-bit hash of the key.
    #[inline]
    pub fn hash(&self) -> u64 {
        self.hash
    }
}

/// The structure and the parameters of a filter block, without its bits. A cached filter block is
/// stored together with its layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilterLayout(Layout);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Layout {
    AlwaysTrue,
    AlwaysFalse,
    FastLocalBloom(FastLocalBloom),
    Ribbon(Ribbon),
    LegacyBloom(LegacyBloom),
}

impl FilterLayout {
    /// Parses the metadata, the last five bytes of a filter block.
    pub fn parse(block: &[u8]) -> Self {
        let Some((bits, metadata)) = block.split_last_chunk::<METADATA_LENGTH>() else {
            return Self(Layout::AlwaysFalse);
        };
        if bits.is_empty() {
            return Self(Layout::AlwaysFalse);
        }
        let [marker, a, b, c, d] = *metadata;
        let layout = match marker {
            0xff if a == 0 && c == 0 && d == 0 => {
                FastLocalBloom::new(bits.len(), b).map(Layout::FastLocalBloom)
            }
            0xfe => {
                let blocks = u32::from_le_bytes([b, c, d, 0]);
                Ribbon::new(bits.len(), a, blocks).map(Layout::Ribbon)
            }
            1..=0x7f => {
                let lines = u32::from_le_bytes([a, b, c, d]);
                LegacyBloom::new(bits.len(), marker, lines).map(Layout::LegacyBloom)
            }
            _ => None,
        };
        Self(layout.unwrap_or(Layout::AlwaysTrue))
    }
}

/// A filter block that can be queried. Queries allocate nothing. The reader may be shared between
/// threads.
#[derive(Debug, Clone, Copy)]
pub struct FilterReader<'a> {
    block: &'a [u8],
    layout: FilterLayout,
}

impl<'a> FilterReader<'a> {
    /// Creates a reader of `block`, a filter block without its trailer, and parses its metadata.
    #[inline]
    pub fn parse(block: &'a [u8]) -> Self {
        Self { block, layout: FilterLayout::parse(block) }
    }

    /// Creates a reader from a layout that was parsed earlier, without reading the block.
    #[inline]
    pub fn with_layout(block: &'a [u8], layout: FilterLayout) -> Self {
        Self { block, layout }
    }

    /// Returns the structure and its parameters.
    pub fn layout(&self) -> FilterLayout {
        self.layout
    }

    /// Returns whether `key` may be among the keys and prefixes that were added. If `false`, it is
    /// certainly not among them.
    #[inline]
    pub fn may_contain(&self, key: &FilterKey<'_>) -> bool {
        match &self.layout.0 {
            Layout::FastLocalBloom(bloom) => bloom.may_contain(self.block, key.hash),
            Layout::Ribbon(ribbon) => ribbon.may_contain(self.block, key.hash),
            Layout::LegacyBloom(bloom) => bloom.may_contain(self.block, key.key),
            Layout::AlwaysTrue => true,
            Layout::AlwaysFalse => false,
        }
    }

    /// Returns the part of the block that a query of `key` reads first; `None` if the structure is
    /// not a Bloom filter with the probes of a key in one cache line.
    #[inline]
    pub fn first_line(&self, key: &FilterKey<'_>) -> Option<&'a [u8]> {
        match &self.layout.0 {
            Layout::FastLocalBloom(bloom) => bloom.line(self.block, key.hash).map(|line| &line[..]),
            _ => None,
        }
    }

    /// Queries several keys together and calls `answer` with each key's index in `keys` and whether
    /// it may be present.
    ///
    /// The probes of different keys in a Bloom filter are independent, so that their cache misses
    /// overlap in time.
    #[inline]
    pub fn may_contain_each(&self, keys: &[FilterKey<'_>], mut answer: impl FnMut(usize, bool)) {
        if let Layout::FastLocalBloom(bloom) = &self.layout.0 {
            for (place, key) in keys.iter().enumerate() {
                answer(place, bloom.may_contain(self.block, key.hash));
            }
            return;
        }
        for (place, key) in keys.iter().enumerate() {
            answer(place, self.may_contain(key));
        }
    }
}
