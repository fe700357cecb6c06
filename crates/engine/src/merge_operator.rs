//! Merge operators: how operands fold into a value.
//!
//! A merge writes an operand instead of a value; the operator says what a key holds whose newest
//! records are operands over a base value, or over nothing. The built-in ones go by RocksDB's names
//! (`utilities/merge_operators/`), and fold as RocksDB's do, so that a database reads the same in
//! both.

use std::fmt;
use std::sync::Arc;

use tailwater_format::user_code;

/// How operands fold into a value, for an operator that is not built in.
pub trait CustomMergeOperator: Send + Sync {
    /// The name that stands in OPTIONS files and table properties.
    fn name(&self) -> &str;

    /// The value of `key` whose base value is `existing` and whose operands, oldest first, are
    /// `operands`; `None` if they do not fold, which fails the read or compaction that asked.
    fn full_merge(
        &self,
        key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Option<Vec<u8>>;

    /// One operand that stands for `operands`, oldest first, whatever lies below them; `None` if
    /// there is none.
    fn partial_merge(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        let _ = (key, operands);
        None
    }

    /// Returns whether merging over a wide-column entity keeps its other columns: the result of
    /// `full_merge` over the default column then replaces only that column. If false, the result is
    /// a plain value that replaces the whole entity. The default is true, as in RocksDB, where
    /// `FullMergeV3` decides this. It must always return the same.
    fn keeps_entity_columns(&self) -> bool {
        true
    }
}

/// The merge operator of a column family.
#[derive(Clone)]
pub enum MergeOperator {
    /// Adds 64-bit little-endian unsigned integers, wrapping; anything of another length counts as
    /// zero.
    UInt64Add,
    /// Joins with a delimiter, a comma by default.
    StringAppend {
        /// What stands between two operands.
        delimiter: Vec<u8>,
        /// Whether the name is that of the variant that was made for testing.
        test_variant: bool,
    },
    /// The newest operand wins.
    Put,
    /// The largest operand by bytes wins.
    Max,
    /// The user's own.
    Custom(Arc<dyn CustomMergeOperator>),
}

/// What a column family's operands fold by.
#[derive(Debug, Clone)]
pub(crate) enum FamilyMergeOperator {
    /// Nothing: it should have none.
    None,
    /// This.
    Known(MergeOperator),
    /// Something of this name, which is neither built in nor was supplied.
    Unknown(String),
}

impl MergeOperator {
    /// The built-in operator of that name, by any of the names RocksDB knows it by.
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

    /// The name that stands in OPTIONS files and table properties.
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

    /// The value of `key` whose base value is `existing` and whose operands, oldest first, are
    /// `operands`; `None` if the operator fails.
    pub fn full_merge(
        &self,
        key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        self.full_merge_into(key, existing, operands.iter().copied(), &mut out).then_some(out)
    }

    /// One operand that stands for `operands`, oldest first; `None` if there is none.
    pub fn partial_merge(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        self.partial_merge_into(key, operands.iter().copied(), &mut out).then_some(out)
    }

    /// Returns whether merging over an entity keeps its columns other than the default one.
    pub(crate) fn keeps_entity_columns(&self) -> bool {
        match self {
            Self::Custom(custom) => called(custom, || custom.keeps_entity_columns()),
            _ => true,
        }
    }

    /// As [`MergeOperator::full_merge`], over what `out` holds. Answers whether the operator did
    /// it. The built-in ones allocate nothing but what `out` grows by.
    pub(crate) fn full_merge_into<'a>(
        &self,
        key: &[u8],
        existing: Option<&'a [u8]>,
        operands: impl Iterator<Item = &'a [u8]>,
        out: &mut Vec<u8>,
    ) -> bool {
        match self {
            Self::Custom(custom) => {
                let operands: Vec<&[u8]> = operands.collect();
                put(called(custom, || custom.full_merge(key, existing, &operands)), out)
            }
            _ => {
                self.fold_into(existing.into_iter().chain(operands), out);
                true
            }
        }
    }

    /// As [`MergeOperator::partial_merge`], in the same way.
    pub(crate) fn partial_merge_into<'a>(
        &self,
        key: &[u8],
        operands: impl Iterator<Item = &'a [u8]>,
        out: &mut Vec<u8>,
    ) -> bool {
        match self {
            Self::Custom(custom) => {
                let operands: Vec<&[u8]> = operands.collect();
                put(called(custom, || custom.partial_merge(key, &operands)), out)
            }
            // It was made to see operands that stay as they are.
            Self::StringAppend { test_variant: true, .. } => false,
            _ => {
                self.fold_into(operands, out);
                true
            }
        }
    }

    /// The built-in operators are associative: a base value folds like an operand.
    fn fold_into<'a>(&self, values: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
        out.clear();
        match self {
            Self::UInt64Add => {
                let sum = values.map(decode_u64).fold(0u64, u64::wrapping_add);
                out.extend_from_slice(&sum.to_le_bytes());
            }
            Self::StringAppend { delimiter, .. } => {
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
    }
}

/// Calls an operator of the user's, which is named where it panics.
fn called<R>(custom: &Arc<dyn CustomMergeOperator>, call: impl FnOnce() -> R) -> R {
    user_code::call("merge operator", || custom.name(), call)
}

/// Replaces what `out` holds by a value, if there is one. Answers whether there is.
fn put(value: Option<Vec<u8>>, out: &mut Vec<u8>) -> bool {
    value.map(|value| *out = value).is_some()
}

fn decode_u64(bytes: &[u8]) -> u64 {
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

impl fmt::Debug for MergeOperator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
