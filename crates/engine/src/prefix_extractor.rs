//! Prefix extractors, which select the part of a key that prefix filters and prefix iterators use.

use std::fmt;
use std::sync::Arc;

use tailwater_format::user_code;

use crate::error::{Error, Result};

/// A user-defined prefix extractor.
pub trait CustomPrefixExtractor: Send + Sync {
    /// Returns the name written to OPTIONS files and table properties. It must change whenever the
    /// prefixes do.
    fn name(&self) -> &str;

    /// Returns the prefix of a key, which must be a prefix of its bytes; `None` if the key has
    /// none.
    fn prefix<'a>(&self, key: &'a [u8]) -> Option<&'a [u8]>;
}

/// The prefix extractor of a column family.
#[derive(Clone)]
pub enum PrefixExtractor {
    /// The first N bytes; shorter keys have no prefix: `rocksdb.FixedPrefix.N`.
    Fixed(usize),
    /// The first N bytes, or the whole key if it is shorter: `rocksdb.CappedPrefix.N`.
    Capped(usize),
    /// The whole key: `rocksdb.Noop`.
    Noop,
    /// A user-defined extractor.
    Custom(Arc<dyn CustomPrefixExtractor>),
}

impl PrefixExtractor {
    /// Returns the built-in extractor of the given name: `rocksdb.FixedPrefix.8`, `fixed:8`,
    /// `rocksdb.CappedPrefix.8`, `capped:8`, `rocksdb.Noop`.
    ///
    /// # Errors
    /// Not supported, for any other name.
    pub fn from_name(name: &str) -> Result<Self> {
        let length = |prefix: &str| name.strip_prefix(prefix)?.parse::<usize>().ok();
        if let Some(length) = length("rocksdb.FixedPrefix.").or_else(|| length("fixed:")) {
            Ok(Self::Fixed(length))
        } else if let Some(length) = length("rocksdb.CappedPrefix.").or_else(|| length("capped:")) {
            Ok(Self::Capped(length))
        } else if name == "rocksdb.Noop" {
            Ok(Self::Noop)
        } else {
            Err(Error::not_supported(format!("prefix extractor '{name}'")))
        }
    }

    /// Returns the name written to OPTIONS files and table properties.
    pub fn name(&self) -> String {
        match self {
            Self::Fixed(length) => format!("rocksdb.FixedPrefix.{length}"),
            Self::Capped(length) => format!("rocksdb.CappedPrefix.{length}"),
            Self::Noop => "rocksdb.Noop".to_owned(),
            Self::Custom(custom) => custom.name().to_owned(),
        }
    }

    /// Whether both extract the same prefixes, judged by their names.
    pub(crate) fn same_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Fixed(a), Self::Fixed(b)) | (Self::Capped(a), Self::Capped(b)) => a == b,
            (Self::Noop, Self::Noop) => true,
            (Self::Custom(a), Self::Custom(b)) => a.name() == b.name(),
            _ => false,
        }
    }

    /// Returns the prefix of a key; `None` if the key has none.
    #[inline]
    pub fn prefix<'a>(&self, key: &'a [u8]) -> Option<&'a [u8]> {
        match self {
            Self::Fixed(length) => key.get(..*length),
            Self::Capped(length) => Some(&key[..key.len().min(*length)]),
            Self::Noop => Some(key),
            Self::Custom(custom) => {
                user_code::call("prefix extractor", || custom.name(), || custom.prefix(key))
            }
        }
    }
}

impl fmt::Debug for PrefixExtractor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}
