//! Filter policies: the parameters with which a table's filter is built.
//!
//! Source: `table/block_based/filter_policy.cc`.

use super::bloom::BloomBuilder;

/// Name of the filters of all built-in policies in the metaindex: each policy can read the others'
/// filters.
pub const COMPATIBILITY_NAME: &str = "rocksdb.BuiltinBloomFilter";

/// The kinds of built-in policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterKind {
    /// Bloom filters.
    Bloom,
    /// Ribbon filters with the false-positive rate of a Bloom filter of this many bits; Bloom
    /// filters on the levels before `bloom_before_level`, where a flush is level -1.
    Ribbon {
        /// The first level with Ribbon filters.
        bloom_before_level: i32,
    },
    /// Reads filters, but writes none.
    ReadOnly,
}

/// A built-in filter policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilterPolicy {
    /// The kind.
    pub kind: FilterKind,
    /// Thousandths of a bit per key. Zero writes no filters.
    millibits_per_key: u32,
}

impl FilterPolicy {
    /// Creates a policy of Bloom filters with this many bits per key. As in RocksDB, less than 0.5
    /// means no filter, less than 1 counts as 1, and more than 100 or NaN as 100.
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

    /// Returns the name in table properties.
    pub const fn name(&self) -> &'static str {
        match self.kind {
            FilterKind::Bloom => "bloomfilter",
            FilterKind::Ribbon { .. } => "ribbonfilter",
            FilterKind::ReadOnly => COMPATIBILITY_NAME,
        }
    }

    /// Returns the size in thousandths of a bit per key; 0 means that no filters are written.
    pub const fn millibits_per_key(&self) -> u32 {
        self.millibits_per_key
    }

    /// Returns a builder of Bloom filter blocks, or `None` if the policy writes none. Under a
    /// Ribbon policy it also builds Bloom filters, which RocksDB reads.
    pub fn bloom_builder(&self) -> Option<BloomBuilder> {
        (self.millibits_per_key > 0).then(|| BloomBuilder::new(self.millibits_per_key))
    }
}

/// Returns thousandths of bits, rounded to the nearest with a slight upward bias, as in RocksDB.
fn millibits(bits_per_key: f64) -> u32 {
    let bits = match bits_per_key {
        bits if bits < 0.5 => 0.0,
        bits if bits < 1.0 => 1.0,
        bits if bits < 100.0 => bits,
        _ => 100.0,
    };
    (bits * 1000.0 + 0.500_001) as u32
}
