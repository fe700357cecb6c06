//! Filter policies: the parameters with which a table's filter is built.
//!
//! Source: `table/block_based/filter_policy.cc`.

use super::bloom::BloomBuilder;

/// The part of a filter's name in the metaindex that identifies its policy. All built-in policies
/// share this name, because each of them can read the filters of the others.
pub const COMPATIBILITY_NAME: &str = "rocksdb.BuiltinBloomFilter";

/// The kinds of built-in policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterKind {
    /// Bloom filters.
    Bloom,
    /// The policy with which RocksDB writes Ribbon filters. They have the false-positive rate of a
    /// Bloom filter of the policy's size. On levels whose number is lower than
    /// `bloom_before_level`, RocksDB writes Bloom filters instead; the output of a flush counts as
    /// level -1. Tailwater writes Bloom filters on all levels.
    Ribbon {
        /// The lowest level number on which RocksDB writes Ribbon filters.
        bloom_before_level: i32,
    },
    /// Reads existing filters, but writes none.
    ReadOnly,
}

/// A built-in filter policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilterPolicy {
    /// The kind.
    pub kind: FilterKind,
    /// Size of the filters, in thousandths of a bit per key. If it is 0, no filters are written.
    millibits_per_key: u32,
}

impl FilterPolicy {
    /// Creates a policy of Bloom filters with this many bits per key. As in RocksDB, a value below
    /// 0.5 means no filter, other values below 1 are raised to 1, and values above 100 and NaN
    /// become 100.
    pub fn bloom(bits_per_key: f64) -> Self {
        Self { kind: FilterKind::Bloom, millibits_per_key: millibits(bits_per_key) }
    }

    /// Creates a policy of Ribbon filters with the false-positive rate of this many Bloom bits per
    /// key.
    pub fn ribbon(bits_per_key: f64, bloom_before_level: i32) -> Self {
        let kind = FilterKind::Ribbon { bloom_before_level };
        Self { kind, millibits_per_key: millibits(bits_per_key) }
    }

    /// Creates the policy that reads filters and writes none.
    pub const fn read_only() -> Self {
        Self { kind: FilterKind::ReadOnly, millibits_per_key: 0 }
    }

    /// Returns the policy's name that table properties record.
    pub const fn name(&self) -> &'static str {
        match self.kind {
            FilterKind::Bloom => "bloomfilter",
            FilterKind::Ribbon { .. } => "ribbonfilter",
            FilterKind::ReadOnly => COMPATIBILITY_NAME,
        }
    }

    /// Returns the size of the filters in thousandths of a bit per key; 0 if no filters are
    /// written.
    pub const fn millibits_per_key(&self) -> u32 {
        self.millibits_per_key
    }

    /// Returns a builder of Bloom filter blocks, or `None` if the policy writes no filters. The
    /// builder for a Ribbon policy also builds Bloom filters, instead of Ribbon filters. RocksDB
    /// reads filters of either kind.
    pub fn bloom_builder(&self) -> Option<BloomBuilder> {
        (self.millibits_per_key > 0).then(|| BloomBuilder::new(self.millibits_per_key))
    }
}

/// Converts bits to thousandths of a bit, rounded to nearest with a slight upward bias, as in
/// RocksDB.
fn millibits(bits_per_key: f64) -> u32 {
    let bits = match bits_per_key {
        bits if bits < 0.5 => 0.0,
        bits if bits < 1.0 => 1.0,
        bits if bits < 100.0 => bits,
        _ => 100.0,
    };
    (bits * 1000.0 + 0.500_001) as u32
}
