//! Merge operators, which combine merge operands into a value.
//!
//! A merge writes an operand instead of a value. If the newest records of a key are operands, the
//! merge operator computes the key's value from them and from the base value: the value that was
//! written before these operands, if there is one. The built-in operators have the names and
//! semantics of those of RocksDB (`utilities/merge_operators/`), so that both engines read the same
//! values from a database.

use std::fmt;
use std::sync::Arc;

use tailwater_format::limits::{self, TooLong};
use tailwater_format::user_code;

/// A user-defined merge operator.
///
/// ```
/// # fn main() -> tailwater::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// # let directory = directory.path();
/// use std::sync::Arc;
/// use tailwater::{CustomMergeOperator, Db, MergeOperator, OpenOptions};
///
/// /// Keeps the longest value.
/// struct Longest;
///
/// impl CustomMergeOperator for Longest {
///     fn name(&self) -> &str {
///         "example.Longest"
///     }
///
///     fn full_merge(
///         &self,
///         _key: &[u8],
///         existing: Option<&[u8]>,
///         operands: &[&[u8]],
///     ) -> Option<Vec<u8>> {
///         let all = existing.into_iter().chain(operands.iter().copied());
///         all.max_by_key(|value| value.len()).map(<[u8]>::to_vec)
///     }
/// }
///
/// let mut options = OpenOptions::default();
/// options.add_merge_operator(MergeOperator::Custom(Arc::new(Longest)));
/// options.set_from_string("create_if_missing=true;merge_operator=example.Longest")?;
/// let db = Db::open(directory, &options)?;
/// db.merge("name", "Ada")?;
/// db.merge("name", "Augusta Ada")?;
/// assert_eq!(db.get("name")?.as_deref(), Some(&b"Augusta Ada"[..]));
/// # Ok(())
/// # }
/// ```
pub trait CustomMergeOperator: Send + Sync {
    /// Returns the operator's name, which is written to OPTIONS files and table properties.
    fn name(&self) -> &str;

    /// Returns the value of `key` that results from applying `operands` to the base value
    /// `existing`, which is `None` if the key has none. `operands` are given oldest first. Returns
    /// `None` if the operator fails. A read of the key then fails, too; a compaction keeps the
    /// operands as they are, counts a violation of the operator's contract (property
    /// `tailwater.contract-violations`), and goes on, also if the operator panics. This is
    /// RocksDB's `OpFailureScope::kMustMerge`.
    ///
    /// The operator also fails if the key and the returned value together are longer than
    /// [`ENTRY_LENGTH_MAX`].
    ///
    /// [`ENTRY_LENGTH_MAX`]: crate::batch::ENTRY_LENGTH_MAX
    fn full_merge(
        &self,
        key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Option<Vec<u8>>;

    /// Returns one operand that has the same effect as applying `operands` in order, whatever the
    /// base value; `None` if there is no such operand. `operands` are given oldest first. A result
    /// that is too long for a value of `key` counts as none.
    fn partial_merge(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        let _ = (key, operands);
        None
    }

    /// Whether the result of a merge over a wide-column entity replaces only the default column. In
    /// both cases, `full_merge` is called with the value of the default column. If this function
    /// returns true, all other columns keep their values. If false, the result is a plain value
    /// that replaces the whole entity. The default implementation returns true, as in RocksDB,
    /// where `FullMergeV3` decides this. The function must return the same value every time.
    fn keeps_entity_columns(&self) -> bool {
        true
    }
}

/// The merge operator of a column family.
///
/// ```
/// # fn main() -> tailwater::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// # let directory = directory.path();
/// use tailwater::{Db, OpenOptions};
///
/// let mut options = OpenOptions::default();
/// // A built-in operator needs no registration.
/// options.set_from_string("create_if_missing=true;merge_operator=uint64add")?;
/// let db = Db::open(directory, &options)?;
/// db.merge("visits", 1_u64.to_le_bytes())?;
/// db.merge("visits", 2_u64.to_le_bytes())?;
/// assert_eq!(db.get("visits")?.as_deref(), Some(&3_u64.to_le_bytes()[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub enum MergeOperator {
    /// Adds 64-bit little-endian unsigned integers, and wraps on overflow. A value of any other
    /// length counts as zero.
    UInt64Add,
    /// Joins the values with a delimiter, a comma by default.
    StringAppend {
        /// The bytes between two values.
        delimiter: Vec<u8>,
        /// Whether this is the variant of the operator that RocksDB uses in its own tests. The
        /// variant has another name, and does not merge operands without a base value.
        test_variant: bool,
    },
    /// The newest operand becomes the value.
    Put,
    /// The largest operand, compared by bytes, becomes the value.
    Max,
    /// A user-defined operator.
    Custom(Arc<dyn CustomMergeOperator>),
}

/// The outcome of a merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Merged {
    /// The operands are merged.
    Done,
    /// The operator failed or, for operands without a base value, has no result.
    Failed,
    /// The key and the result would be an entry that is too long.
    TooLong(TooLong),
}

/// The merge operator that the options of a column family name, and whether it is available.
#[derive(Debug, Clone)]
pub(crate) enum FamilyMergeOperator {
    /// The options name no operator.
    None,
    /// The operator to use.
    Known(MergeOperator),
    /// The options name an operator that is neither built in nor registered by the user. The field
    /// is its name.
    Unknown(String),
}

impl FamilyMergeOperator {
    /// Returns the operator's name, as it is recorded in tables; `None` without an operator.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Self::None => None,
            Self::Known(operator) => Some(operator.name()),
            Self::Unknown(name) => Some(name),
        }
    }
}

impl MergeOperator {
    /// Returns the built-in operator of the given name. An operator may have several names, as in
    /// RocksDB.
    pub fn built_in(name: &str) -> Option<Self> {
        let comma = || b",".to_vec();
        Some(match name {
            "UInt64AddOperator" | "uint64add" => Self::UInt64Add,
            "StringAppendOperator" | "stringappend" => {
                Self::StringAppend { delimiter: comma(), test_variant: false }
            }
            "StringAppendTESTOperator" | "stringappendtest" => {
                Self::StringAppend { delimiter: comma(), test_variant: true }
            }
            "PutOperator" | "put" | "put_v1" => Self::Put,
            "MaxOperator" | "max" => Self::Max,
            _ => return None,
        })
    }

    /// Returns the operator's name, which is written to OPTIONS files and table properties.
    pub fn name(&self) -> &str {
        match self {
            Self::UInt64Add => "UInt64AddOperator",
            Self::StringAppend { test_variant: false, .. } => "StringAppendOperator",
            Self::StringAppend { test_variant: true, .. } => "StringAppendTESTOperator",
            Self::Put => "PutOperator",
            Self::Max => "MaxOperator",
            Self::Custom(custom) => custom.name(),
        }
    }

    /// Returns the value of `key` that results from applying `operands` to the base value
    /// `existing`; `None` if the operator fails, or if the value is too long for an entry.
    /// `operands` are given oldest first.
    pub fn full_merge(
        &self,
        key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let merged = self.full_merge_into(key, existing, operands.iter().copied(), &mut out);
        (merged == Merged::Done).then_some(out)
    }

    /// Returns one operand that has the same effect as applying `operands` in order; `None` if
    /// there is no such operand, or if it is too long for an entry. `operands` are given oldest
    /// first.
    pub fn partial_merge(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let merged = self.partial_merge_into(key, operands.iter().copied(), &mut out);
        (merged == Merged::Done).then_some(out)
    }

    /// Whether a merge over a wide-column entity keeps all columns except the default column.
    pub(crate) fn keeps_entity_columns(&self) -> bool {
        match self {
            Self::Custom(custom) => called(custom, || custom.keeps_entity_columns()),
            _ => true,
        }
    }

    /// Computes the same value as [`MergeOperator::full_merge`], and replaces the contents of `out`
    /// with it. Unless the outcome is [`Merged::Done`], the contents of `out` are unspecified. A
    /// built-in operator allocates memory only if `out` must grow, and none for a result that is
    /// too long.
    pub(crate) fn full_merge_into<'a>(
        &self,
        key: &[u8],
        existing: Option<&'a [u8]>,
        operands: impl Iterator<Item = &'a [u8]> + Clone,
        out: &mut Vec<u8>,
    ) -> Merged {
        match self {
            Self::Custom(custom) => {
                let operands: Vec<&[u8]> = operands.collect();
                put(key, called(custom, || custom.full_merge(key, existing, &operands)), out)
            }
            _ => self.fold_into(key, existing.into_iter().chain(operands), out),
        }
    }

    /// Computes the same operand as [`MergeOperator::partial_merge`], and replaces the contents of
    /// `out` with it. Unless the outcome is [`Merged::Done`], the contents of `out` are
    /// unspecified.
    pub(crate) fn partial_merge_into<'a>(
        &self,
        key: &[u8],
        operands: impl Iterator<Item = &'a [u8]> + Clone,
        out: &mut Vec<u8>,
    ) -> Merged {
        match self {
            Self::Custom(custom) => {
                let operands: Vec<&[u8]> = operands.collect();
                put(key, called(custom, || custom.partial_merge(key, &operands)), out)
            }
            // As in RocksDB, the variant for tests never merges operands without a base value.
            Self::StringAppend { test_variant: true, .. } => Merged::Failed,
            _ => self.fold_into(key, operands, out),
        }
    }

    /// Applies a built-in operator to `values`, oldest first, and replaces the contents of `out`
    /// with the result. All built-in operators are associative. So the base value needs no special
    /// treatment: it is simply the first of the values.
    fn fold_into<'a>(
        &self,
        key: &[u8],
        values: impl Iterator<Item = &'a [u8]> + Clone,
        out: &mut Vec<u8>,
    ) -> Merged {
        out.clear();
        match self {
            Self::UInt64Add => {
                let sum = values.map(decode_u64).fold(0u64, u64::wrapping_add);
                out.extend_from_slice(&sum.to_le_bytes());
            }
            Self::StringAppend { delimiter, .. } => {
                let lengths = values.clone().map(|value| value.len() + delimiter.len());
                let length = lengths.sum::<usize>().saturating_sub(delimiter.len());
                if let Err(entry) = limits::check_value(key.len(), length) {
                    return Merged::TooLong(entry);
                }
                for (at, value) in values.enumerate() {
                    if at > 0 {
                        out.extend_from_slice(delimiter);
                    }
                    out.extend_from_slice(value);
                }
            }
            Self::Put => out.extend_from_slice(values.last().unwrap_or_default()),
            Self::Max => out.extend_from_slice(values.max().unwrap_or_default()),
            Self::Custom(_) => {}
        }
        // The other operators make no value that is longer than all of `values`.
        Merged::Done
    }
}

/// Calls a user-defined operator. If the operator panics, the resulting error names it.
fn called<R>(custom: &Arc<dyn CustomMergeOperator>, call: impl FnOnce() -> R) -> R {
    user_code::call("merge operator", || custom.name(), call)
}

/// Replaces the contents of `out` with `value`, the result of a user-defined operator.
fn put(key: &[u8], value: Option<Vec<u8>>, out: &mut Vec<u8>) -> Merged {
    let Some(value) = value else { return Merged::Failed };
    match limits::check_value(key.len(), value.len()) {
        Ok(()) => {
            *out = value;
            Merged::Done
        }
        Err(entry) => Merged::TooLong(entry),
    }
}

fn decode_u64(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

impl fmt::Debug for MergeOperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
