//! Prefix extractors. They select the part of a key that prefix filters and prefix iterators use
//! instead of the whole key.

use std::fmt;
use std::sync::Arc;

use tailwater_format::user_code;

/// A user-defined prefix extractor.
///
/// ```
/// # fn main() -> tailwater::Result<()> {
/// use std::sync::Arc;
/// use tailwater::{CustomPrefixExtractor, OpenOptions, PrefixExtractor};
///
/// /// The part of a key up to its first colon.
/// struct UpToColon;
///
/// impl CustomPrefixExtractor for UpToColon {
///     fn name(&self) -> &str {
///         "example.UpToColon"
///     }
///
///     fn prefix<'a>(&self, key: &'a [u8]) -> Option<&'a [u8]> {
///         let colon = key.iter().position(|&byte| byte == b':')?;
///         key.get(..=colon)
///     }
/// }
///
/// let mut options = OpenOptions::default();
/// options.add_prefix_extractor(PrefixExtractor::Custom(Arc::new(UpToColon)));
/// options.set_from_string("prefix_extractor=example.UpToColon")?;
/// # Ok(())
/// # }
/// ```
pub trait CustomPrefixExtractor: Send + Sync {
    /// Returns the extractor's name, which is written to OPTIONS files and table properties. If the
    /// extractor is changed so that it extracts other prefixes, it must get another name.
    fn name(&self) -> &str;

    /// Returns the prefix of a key; `None` if the key has none. The returned bytes must be the
    /// first bytes of `key`.
    fn prefix<'a>(&self, key: &'a [u8]) -> Option<&'a [u8]>;
}

/// The prefix extractor of a column family.
///
/// ```
/// # fn main() -> tailwater::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// # let directory = directory.path();
/// use tailwater::{Db, OpenOptions, PrefixExtractor, ReadOptions};
///
/// let extractor = PrefixExtractor::built_in("fixed:4").expect("a built-in extractor");
/// assert_eq!(extractor.prefix(b"user42"), Some(&b"user"[..]));
///
/// let mut options = OpenOptions::default();
/// options.set_from_string("create_if_missing=true;prefix_extractor=fixed:4")?;
/// let db = Db::open(directory, &options)?;
/// db.put("user1", "ada")?;
/// db.put("zone1", "utc")?;
/// let same_prefix = ReadOptions::new().with_prefix_same_as_start(true);
/// let mut cursor = db.raw_iterator_opt(&same_prefix)?;
/// cursor.seek("user")?;
/// assert!(cursor.valid());
/// cursor.next()?;
/// assert!(!cursor.valid(), "the next key has another prefix");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub enum PrefixExtractor {
    /// The prefix is the first N bytes of the key. A key with fewer bytes has no prefix. Named
    /// `rocksdb.FixedPrefix.N`.
    Fixed(usize),
    /// The prefix is the first N bytes of the key. A key with fewer bytes is its own prefix. Named
    /// `rocksdb.CappedPrefix.N`.
    Capped(usize),
    /// The prefix is the whole key. Named `rocksdb.Noop`.
    Noop,
    /// A user-defined extractor.
    Custom(Arc<dyn CustomPrefixExtractor>),
}

impl PrefixExtractor {
    /// Returns the built-in extractor of the given name. The names are `rocksdb.FixedPrefix.8` or
    /// `fixed:8`, `rocksdb.CappedPrefix.8` or `capped:8` (with any length instead of 8), and
    /// `rocksdb.Noop`.
    pub fn built_in(name: &str) -> Option<Self> {
        let length = |prefix: &str| name.strip_prefix(prefix)?.parse::<usize>().ok();
        if let Some(length) = length("rocksdb.FixedPrefix.").or_else(|| length("fixed:")) {
            Some(Self::Fixed(length))
        } else if let Some(length) = length("rocksdb.CappedPrefix.").or_else(|| length("capped:")) {
            Some(Self::Capped(length))
        } else if name == "rocksdb.Noop" {
            Some(Self::Noop)
        } else {
            None
        }
    }

    /// Returns the extractor's name, which is written to OPTIONS files and table properties.
    pub fn name(&self) -> String {
        match self {
            Self::Fixed(length) => format!("rocksdb.FixedPrefix.{length}"),
            Self::Capped(length) => format!("rocksdb.CappedPrefix.{length}"),
            Self::Noop => "rocksdb.Noop".to_owned(),
            Self::Custom(custom) => custom.name().to_owned(),
        }
    }

    /// Whether both extractors have the same name. They then extract the same prefixes.
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
