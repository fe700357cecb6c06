//! Options whose value names an object: a comparator, a prefix extractor, a filter policy.
//!
//! The text of such an option is the object's id, or `{id=<id>;option=value;...}` if the object has
//! options of its own. Both `nullptr` and the empty text mean that there is no object.

use tailwater_format::options_text::{escape, parse_option_string, strip_outer_braces, unescape};

use super::error::{Error, Problem, Result, nearest};
use super::value::{OptionValue, ValueKind};

/// The text of an option that names no object.
const NONE: &str = "nullptr";

/// The name of an object that is built in or that the program registers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObjectName {
    text: String,
}

impl ObjectName {
    /// Creates the name of the object with the given id.
    pub fn new(id: impl Into<String>) -> Self {
        Self { text: id.into() }
    }

    /// Returns the id; `None` for no object.
    pub fn id(&self) -> Option<&str> {
        let id = object_id(&self.text);
        (!id.is_empty() && id != NONE).then_some(id)
    }
}

impl ObjectName {
    /// Returns the value of option `name` of the object itself, as in `{id=<id>;name=value}`.
    /// Returns `None` if the text does not set this option.
    pub(crate) fn property(&self, name: &str) -> Option<String> {
        if !self.text.contains('=') {
            return None;
        }
        let assignments = parse_option_string(&self.text).ok()?;
        let found = assignments.iter().find(|assignment| assignment.name == name)?;
        Some(unescape(found.value))
    }
}

/// Returns the id in the text of an option that names an object.
fn object_id(text: &str) -> &str {
    if !text.contains('=') {
        return strip_outer_braces(text);
    }
    let assignments = parse_option_string(text).unwrap_or_default();
    assignments.iter().find(|assignment| assignment.name == "id").map_or("", |id| id.value)
}

/// Whether the braces of a text are balanced and, if the text begins with a brace, nothing follows
/// the matching closing brace.
fn is_braced_well(text: &str) -> bool {
    let mut depth = 0u32;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 0 => return false,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 && text.starts_with('{') && at + 1 < text.len() {
            return false;
        }
    }
    depth == 0
}

impl OptionValue for ObjectName {
    const KIND: ValueKind = ValueKind::Object;

    fn set(&mut self, text: &str) -> Result<()> {
        let mut unescaped = unescape(text);
        if !is_braced_well(unescaped.trim()) {
            return Err(Error::malformed(text, "an object's name, or its options in braces"));
        }
        if text.contains('=') {
            parse_option_string(text)?;
            // An item of a list comes without its outer braces, so they are added.
            if !text.trim_start().starts_with('{') {
                unescaped = format!("{{{unescaped}}}");
            }
        }
        self.text = unescaped;
        Ok(())
    }

    fn print(&self) -> String {
        match self.id() {
            // In an id, colons are written without a backslash.
            Some(_) => escape(&self.text).replace("\\:", ":"),
            None => NONE.to_owned(),
        }
    }
}

/// The part of a key that filters and hash indexes may use instead of the whole key. This type is
/// only the value of the option: for a user's extractor it holds the name, and the registered
/// [`crate::PrefixExtractor`] has the code.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PrefixExtractor {
    /// Keys have no prefix.
    #[default]
    None,
    /// The prefix is the first N bytes of the key, where N is the field. A key with fewer than N
    /// bytes has no prefix.
    Fixed(usize),
    /// The prefix is the first N bytes of the key, where N is the field. A key with fewer than N
    /// bytes is its own prefix.
    Capped(usize),
    /// The prefix is the whole key.
    Noop,
    /// A user's extractor, which must be registered under this name.
    Custom(String),
}

impl OptionValue for PrefixExtractor {
    const KIND: ValueKind = ValueKind::Object;

    fn set(&mut self, text: &str) -> Result<()> {
        let text = unescape(text);
        let id = object_id(&text);
        let length = |prefixes: [&str; 2]| {
            let length = prefixes.iter().find_map(|prefix| id.strip_prefix(prefix))?;
            Some(length.parse().map_err(|_| Error::malformed(id, "a length in bytes")))
        };
        *self = match id {
            "" | NONE => Self::None,
            "rocksdb.Noop" => Self::Noop,
            _ => match length(["rocksdb.FixedPrefix.", "fixed:"]) {
                Some(length) => Self::Fixed(length?),
                None => match length(["rocksdb.CappedPrefix.", "capped:"]) {
                    Some(length) => Self::Capped(length?),
                    None => Self::Custom(id.to_owned()),
                },
            },
        };
        Ok(())
    }

    fn print(&self) -> String {
        match self {
            Self::None => NONE.to_owned(),
            Self::Fixed(length) => format!("rocksdb.FixedPrefix.{length}"),
            Self::Capped(length) => format!("rocksdb.CappedPrefix.{length}"),
            Self::Noop => "rocksdb.Noop".to_owned(),
            Self::Custom(name) => escape(name).replace("\\:", ":"),
        }
    }
}

/// The filters that tables get. Keeps numbers exactly as they were set, because they are written to
/// OPTIONS files. When a table is built, they become a `tailwater_format::filter::FilterPolicy`, in
/// which the number of bits is rounded.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub enum FilterPolicy {
    /// Tables get no filters, and existing filters are not used.
    #[default]
    None,
    /// Tables get no filters, but existing filters are used. This is the case for a user-defined
    /// policy and for a built-in one without a number of bits. The field is the option's text.
    ReadOnly(String),
    /// Bloom filters.
    Bloom {
        /// Filter bits per key; below 0.5 there is no filter.
        bits_per_key: f64,
    },
    /// Ribbon filters. They are smaller than Bloom filters of the same accuracy, and slower to
    /// build.
    Ribbon {
        /// Number of bits per key that a Bloom filter of the same accuracy would have. The Ribbon
        /// filter takes about 30 % fewer.
        bloom_equivalent_bits_per_key: f64,
        /// First level whose tables get a Ribbon filter; tables on levels before it get a Bloom
        /// filter. With 0, only tables that flushes write get a Bloom filter; with -1, none do.
        bloom_before_level: i32,
    },
}

impl FilterPolicy {
    /// RocksDB's name for its built-in filters when the number of bits is not given.
    const READ_ONLY: &'static str = "rocksdb.BuiltinBloomFilter";

    /// The names of the built-in filter policies.
    const BUILT_IN: [&'static str; 5] = [
        Self::READ_ONLY,
        "bloomfilter",
        "rocksdb.BloomFilter",
        "ribbonfilter",
        "rocksdb.RibbonFilter",
    ];

    /// Whether a text names a built-in policy.
    pub(crate) fn is_built_in(text: &str) -> bool {
        Self::BUILT_IN.contains(&object_id(text).split(':').next().unwrap_or_default())
    }

    /// Whether a class name may be a misspelled name of a built-in policy.
    fn may_mean_built_in(class: &str) -> bool {
        Self::BUILT_IN.iter().any(|known| known.contains(class))
            || nearest(class, Self::BUILT_IN.into_iter()).is_some()
    }

    /// Parses the id of a filter policy: a class name and parameters, separated by colons.
    fn parse(id: &str) -> Result<Self> {
        let malformed =
            || Error::malformed(id, "a filter, such as bloomfilter:10 or ribbonfilter:10:0");
        let mut parts = id.split(':');
        let class = parts.next().unwrap_or_default();
        let parts: Vec<&str> = parts.collect();
        let bits = |text: &str| {
            let bits = text.parse().ok().filter(|bits: &f64| bits.is_finite());
            bits.ok_or_else(malformed)
        };
        match (class, parts.as_slice()) {
            ("" | NONE, []) => Ok(Self::None),
            (Self::READ_ONLY | "bloomfilter" | "ribbonfilter", []) => {
                Ok(Self::ReadOnly(id.to_owned()))
            }
            // The optional last parameter selected the block-based filter format, which RocksDB has
            // removed. It is ignored.
            ("bloomfilter" | "rocksdb.BloomFilter", [text] | [text, "false" | "true"]) => {
                Ok(Self::Bloom { bits_per_key: bits(text)? })
            }
            ("ribbonfilter" | "rocksdb.RibbonFilter", [text]) => Ok(Self::Ribbon {
                bloom_equivalent_bits_per_key: bits(text)?,
                bloom_before_level: 0,
            }),
            ("ribbonfilter" | "rocksdb.RibbonFilter", [text, level]) => Ok(Self::Ribbon {
                bloom_equivalent_bits_per_key: bits(text)?,
                bloom_before_level: level.parse().map_err(|_| malformed())?,
            }),
            // Any other id is taken for that of a user-defined policy, unless it may be a
            // misspelled built-in name.
            _ if is_name(id) && !Self::may_mean_built_in(class) => {
                Ok(Self::ReadOnly(id.to_owned()))
            }
            _ => Err(malformed()),
        }
    }
}

/// Whether a text may be a class name, optionally followed by a colon and parameters.
fn is_name(text: &str) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:".contains(&byte);
    text.starts_with(|first: char| first.is_ascii_alphabetic()) && text.bytes().all(is_of_name)
}

impl OptionValue for FilterPolicy {
    const KIND: ValueKind = ValueKind::Object;

    fn set(&mut self, text: &str) -> Result<()> {
        let text = unescape(text);
        let mut policy = Self::parse(object_id(&text))?;
        if matches!(&policy, Self::ReadOnly(id) if !Self::is_built_in(id)) {
            policy = Self::ReadOnly(text);
        } else if text.contains('=') {
            for assignment in parse_option_string(&text)? {
                if assignment.name != "id" {
                    policy.set_part(assignment.name, assignment.value)?;
                }
            }
        }
        *self = policy;
        Ok(())
    }

    fn set_part(&mut self, part: &str, text: &str) -> Result<()> {
        match (part, self) {
            ("bloom_before_level", Self::Ribbon { bloom_before_level, .. }) => {
                bloom_before_level.set(text).map_err(|error| error.within(part))
            }
            _ => Err(Error::new(part, Problem::Unknown { nearest: None })),
        }
    }

    fn print(&self) -> String {
        match self {
            Self::None => NONE.to_owned(),
            Self::ReadOnly(text) => escape(text).replace("\\:", ":"),
            Self::Bloom { bits_per_key } => format!("bloomfilter:{}:false", bits(*bits_per_key)),
            Self::Ribbon { bloom_equivalent_bits_per_key, bloom_before_level } => {
                let bits = bits(*bloom_equivalent_bits_per_key);
                let level = bloom_before_level;
                format!("{{id=ribbonfilter:{bits}:{level};bloom_before_level={level};}}")
            }
        }
    }
}

/// Prints a number of bits with at most three decimals, without trailing zeros. RocksDB keeps the
/// same precision.
fn bits(bits: f64) -> String {
    let text = format!("{bits:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Capacity of a cache that is created from options.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheCapacity {
    /// The engine chooses the capacity.
    #[default]
    Unset,
    /// The cache chooses its own size, and changes it continuously. It grows as long as reads
    /// benefit from this and memory is free.
    Auto,
    /// The capacity is this number of bytes.
    Bytes(u64),
    /// The capacity is this number of bytes, and its limit is strict: a read fails if the blocks
    /// that readers hold leave no room for the block that it needs.
    Strict(u64),
}

/// Capacity, in bytes, of a cache whose options do not say it. Same as in RocksDB.
pub(crate) const DEFAULT_CACHE_CAPACITY: u64 = 32 << 20;

impl CacheCapacity {
    /// Returns the number of bytes, if it is fixed.
    fn bytes(self) -> Option<u64> {
        match self {
            Self::Unset | Self::Auto => None,
            Self::Bytes(bytes) | Self::Strict(bytes) => Some(bytes),
        }
    }
}

impl OptionValue for CacheCapacity {
    const KIND: ValueKind = ValueKind::Object;

    fn set(&mut self, text: &str) -> Result<()> {
        if !text.contains('=') {
            return match strip_outer_braces(text) {
                "" | NONE => {
                    *self = Self::Unset;
                    Ok(())
                }
                "auto" => {
                    *self = Self::Auto;
                    Ok(())
                }
                _ => {
                    *self = Self::Unset;
                    self.set_part("capacity", text)
                }
            };
        }
        let mut capacity = Self::Unset;
        for assignment in parse_option_string(text)? {
            capacity.set_part(assignment.name, assignment.value)?;
        }
        *self = capacity;
        Ok(())
    }

    fn set_part(&mut self, part: &str, text: &str) -> Result<()> {
        match part {
            "capacity" => {
                let mut bytes = 0u64;
                bytes.set(text)?;
                *self = match self {
                    Self::Strict(_) => Self::Strict(bytes),
                    Self::Unset | Self::Auto | Self::Bytes(_) => Self::Bytes(bytes),
                };
                Ok(())
            }
            "strict_capacity_limit" => {
                let mut is_strict = false;
                is_strict.set(text)?;
                match (is_strict, *self) {
                    (true, Self::Auto) => {
                        let why = "the limit of a cache that sizes itself is not strict";
                        return Err(Error::refused(text, why).within(part));
                    }
                    (true, _) => {
                        *self = Self::Strict(self.bytes().unwrap_or(DEFAULT_CACHE_CAPACITY));
                    }
                    (false, Self::Strict(bytes)) => *self = Self::Bytes(bytes),
                    (false, _) => {}
                }
                Ok(())
            }
            // Accepted and ignored: these options tune the internals of RocksDB's block caches.
            "id" | "num_shard_bits" | "high_pri_pool_ratio" | "low_pri_pool_ratio" => Ok(()),
            _ => Err(Error::new(part, Problem::Unknown { nearest: Some("capacity") })),
        }
    }

    fn print(&self) -> String {
        match self {
            Self::Unset => String::new(),
            Self::Auto => "auto".to_owned(),
            Self::Bytes(bytes) => bytes.to_string(),
            Self::Strict(bytes) => format!("{{capacity={bytes};strict_capacity_limit=true}}"),
        }
    }
}
