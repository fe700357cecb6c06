//! Filter policies: the options that choose a table's filter.
//!
//! Source: `table/block_based/filter_policy.cc`.

use std::fmt;

use crate::{Error, Result};

use super::bloom::BloomBuilder;

/// The name of the filters of every built-in policy in the metaindex, so that each can read the
/// others'.
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
    /// Creates a policy of Bloom filters with this many bits per key. As in RocksDB, below half a
    /// bit there is no filter, below one it is one, and above 100 (and for NaN) it is 100.
    pub fn bloom(bits_per_key: f64) -> Self {
        Self { kind: FilterKind::Bloom, millibits_per_key: millibits(bits_per_key) }
    }

    /// Creates a policy of Ribbon filters with the false-positive rate of this many Bloom bits per
    /// key.
    pub fn ribbon(bits_per_key: f64, bloom_before_level: i32) -> Self {
        let kind = FilterKind::Ribbon { bloom_before_level };
        Self { kind, millibits_per_key: millibits(bits_per_key) }
    }

    /// Parses the policy of an option string, `None` for `nullptr` or an empty one:
    /// `bloomfilter:10:false`, `ribbonfilter:10:-1`, `{id=ribbonfilter:10;bloom_before_level=2;}`,
    /// `rocksdb.BuiltinBloomFilter`; `rocksdb.BloomFilter` and `rocksdb.RibbonFilter` are aliases.
    ///
    /// # Errors
    /// Unsupported, for policies that are not built in and strings of another form.
    pub fn parse(text: &str) -> Result<Option<Self>> {
        let refused = || Error::unsupported(format!("filter policy {text}"));
        let inner = match text.strip_prefix('{') {
            Some(rest) => rest.strip_suffix('}').ok_or_else(refused)?,
            None => text,
        };
        if !inner.contains('=') {
            return Self::parse_id(inner).ok_or_else(refused);
        }
        let (mut id, mut level) = (None, None);
        for setting in inner.split(';').filter(|setting| !setting.trim().is_empty()) {
            match setting.trim().split_once('=').ok_or_else(refused)? {
                ("id", value) => id = Some(value),
                ("bloom_before_level", value) => {
                    level = Some(value.parse::<i32>().map_err(|_| refused())?);
                }
                _ => return Err(refused()),
            }
        }
        let mut policy = Self::parse_id(id.ok_or_else(refused)?).ok_or_else(refused)?;
        if let Some(level) = level {
            match policy.as_mut().map(|policy| &mut policy.kind) {
                Some(FilterKind::Ribbon { bloom_before_level }) => *bloom_before_level = level,
                _ => return Err(refused()),
            }
        }
        Ok(policy)
    }

    fn parse_id(id: &str) -> Option<Option<Self>> {
        match id {
            "" | "nullptr" => return Some(None),
            COMPATIBILITY_NAME => {
                return Some(Some(Self { kind: FilterKind::ReadOnly, millibits_per_key: 0 }));
            }
            _ => {}
        }
        let mut fields = id.split(':');
        let (name, bits, last) = (fields.next()?, fields.next()?, fields.next());
        if fields.next().is_some()
            || !bits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        {
            return None;
        }
        let bits = bits.parse().ok()?;
        Some(Some(match (name, last) {
            ("bloomfilter" | "rocksdb.BloomFilter", None | Some("false" | "true")) => {
                Self::bloom(bits)
            }
            ("ribbonfilter" | "rocksdb.RibbonFilter", None) => Self::ribbon(bits, 0),
            ("ribbonfilter" | "rocksdb.RibbonFilter", Some(level)) => {
                Self::ribbon(bits, level.parse().ok()?)
            }
            _ => return None,
        }))
    }

    /// Returns the name in table properties.
    pub const fn name(&self) -> &'static str {
        match self.kind {
            FilterKind::Bloom => "bloomfilter",
            FilterKind::Ribbon { .. } => "ribbonfilter",
            FilterKind::ReadOnly => COMPATIBILITY_NAME,
        }
    }

    /// Returns the thousandths of a bit per key; zero writes no filters.
    pub const fn millibits_per_key(&self) -> u32 {
        self.millibits_per_key
    }

    /// Returns a builder of Bloom filter blocks, or `None` if the policy writes none. Under a
    /// Ribbon policy it also builds Bloom filters, which RocksDB reads.
    pub fn bloom_builder(&self) -> Option<BloomBuilder> {
        (self.millibits_per_key > 0).then(|| BloomBuilder::new(self.millibits_per_key))
    }
}

/// Formats the policy as in OPTIONS files.
impl fmt::Display for FilterPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.millibits_per_key / 1000, self.millibits_per_key % 1000);
        let fraction = format!(".{rest:03}");
        let fraction = fraction.trim_end_matches(['0']).trim_end_matches('.');
        match self.kind {
            FilterKind::Bloom => write!(f, "bloomfilter:{whole}{fraction}:false"),
            FilterKind::Ribbon { bloom_before_level: level } => {
                let id = format!("ribbonfilter:{whole}{fraction}:{level}");
                write!(f, "{{id={id};bloom_before_level={level};}}")
            }
            FilterKind::ReadOnly => f.write_str(COMPATIBILITY_NAME),
        }
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
