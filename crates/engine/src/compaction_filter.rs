//! Compaction filters, which remove or change records during compactions.

use std::fmt;
use std::sync::Arc;

use tailwater_format::user_code;
use tailwater_format::wide_column::WideColumn;

/// The contents of a record for which a compaction filter is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FilteredValue<'a> {
    /// A value. If it is stored in a blob file, it was read from that file.
    Plain(&'a [u8]),
    /// A merge operand.
    MergeOperand(&'a [u8]),
    /// The columns of a wide-column entity, in the order of their names. Values that are stored in
    /// blob files were read from these files, so no column has a blob index.
    WideColumns(&'a [WideColumn<'a>]),
}

/// The compaction for which a filter is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct FilterContext {
    /// The shallowest input level of the compaction.
    pub level: usize,
}

/// The decision of a compaction filter about a record.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FilterDecision {
    /// Keeps the record.
    Keep,
    /// Removes the record. A value or an entity is replaced by a deletion of its key, and thus
    /// older versions of the key are deleted, too, except for snapshots that see these. Keys that
    /// the program removes by single deletions must be removed by [`FilterDecision::Purge`]
    /// instead. A merge operand is removed alone.
    Remove,
    /// Removes the record: a value or an entity is replaced by a single deletion of its key. This
    /// is the decision for keys that the program removes by single deletions, since a key must not
    /// have deletions of both kinds. The contract of
    /// [`Db::single_delete`](crate::Db::single_delete) applies. Not for merge operands: the operand
    /// is kept, and counts as a violation of the filter's contract.
    Purge,
    /// Keeps the record, but with this value or operand. An entity becomes a plain value. If the
    /// key and the value together are longer than [`ENTRY_LENGTH_MAX`], the record is kept as it
    /// is, and counts as a violation of the filter's contract.
    ///
    /// [`ENTRY_LENGTH_MAX`]: crate::batch::ENTRY_LENGTH_MAX
    ChangeValue(Vec<u8>),
    /// Keeps the record, but as a wide-column entity with these names and values of columns, in any
    /// order. Names must differ; the default column has an empty name. If names are equal, if the
    /// entity is too long, or for a merge operand, the record is kept as it is, and counts as a
    /// violation of the filter's contract.
    ChangeEntity(Vec<(Vec<u8>, Vec<u8>)>),
    /// Removes the record, and the records that follow it in the compaction's input up to, not
    /// including, this key. Removed keys get no deletion records, so older versions of them in
    /// deeper levels become visible again. If this key is not above the record's key, the record is
    /// kept.
    RemoveAndSkipUntil(Vec<u8>),
}

/// A user-defined compaction filter.
///
/// A filter is called for the newest version of each key that a compaction reads, if that version
/// is a value or an entity, whether or not snapshots see the version. It is also called for each
/// merge operand that no snapshot sees. So, as in RocksDB since version 6, snapshots do not protect
/// values from a filter. Flushes do not call filters.
///
/// Several threads may call a filter concurrently. A filter may drop the last handle to the
/// database, but must not close the database. If a filter panics, or returns a decision that cannot
/// be carried out, the compaction keeps the record and goes on. Such violations of the filter's
/// contract are written to the LOG, and counted by the property `tailwater.contract-violations`.
/// Source: `include/rocksdb/compaction_filter.h` (`FilterV3`),
/// `db/compaction/compaction_iterator.cc`.
///
/// ```
/// # fn main() -> tailwater::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// # let directory = directory.path();
/// use std::sync::Arc;
/// use tailwater::{
///     CompactionFilter, CustomCompactionFilter, Db, FilterContext, FilterDecision, FilteredValue,
///     OpenOptions,
/// };
///
/// /// Removes keys that begin with `temporary/`.
/// struct Temporary;
///
/// impl CustomCompactionFilter for Temporary {
///     fn name(&self) -> &str {
///         "example.Temporary"
///     }
///
///     fn filter(
///         &self,
///         _context: &FilterContext,
///         key: &[u8],
///         _value: FilteredValue<'_>,
///     ) -> FilterDecision {
///         match key.starts_with(b"temporary/") {
///             true => FilterDecision::Remove,
///             false => FilterDecision::Keep,
///         }
///     }
/// }
///
/// let mut options = OpenOptions::default();
/// options.add_compaction_filter(CompactionFilter::Custom(Arc::new(Temporary)));
/// options.set_from_string("create_if_missing=true;compaction_filter=example.Temporary")?;
/// let db = Db::open(directory, &options)?;
/// db.put("temporary/1", "x")?;
/// db.compact_range(None, None)?;
/// assert!(db.get("temporary/1")?.is_none());
/// # Ok(())
/// # }
/// ```
pub trait CustomCompactionFilter: Send + Sync {
    /// Returns the name written to OPTIONS files.
    fn name(&self) -> &str;

    /// Decides whether the compaction keeps, removes or changes a record of the user key `key`.
    fn filter(
        &self,
        context: &FilterContext,
        key: &[u8],
        value: FilteredValue<'_>,
    ) -> FilterDecision;
}

/// The compaction filter of a column family.
///
/// ```
/// # fn main() -> tailwater::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// # let directory = directory.path();
/// use tailwater::{Db, OpenOptions};
///
/// let mut options = OpenOptions::default();
/// let text = "create_if_missing=true;compaction_filter=RemoveEmptyValueCompactionFilter";
/// options.set_from_string(text)?;
/// let db = Db::open(directory, &options)?;
/// db.put("empty", "")?;
/// db.put("full", "1")?;
/// db.compact_range(None, None)?;
/// assert!(db.get("empty")?.is_none() && db.get("full")?.is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub enum CompactionFilter {
    /// Removes keys with an empty value: RocksDB's `RemoveEmptyValueCompactionFilter`.
    RemoveEmptyValues,
    /// A user-defined filter.
    Custom(Arc<dyn CustomCompactionFilter>),
}

impl CompactionFilter {
    /// Returns the built-in filter of the given name.
    pub fn built_in(name: &str) -> Option<Self> {
        (name == Self::RemoveEmptyValues.name()).then_some(Self::RemoveEmptyValues)
    }

    /// Returns the name written to OPTIONS files.
    pub fn name(&self) -> &str {
        match self {
            Self::RemoveEmptyValues => "RemoveEmptyValueCompactionFilter",
            Self::Custom(custom) => custom.name(),
        }
    }

    /// Decides whether a compaction keeps, removes or changes a record of `key`; see
    /// [`CustomCompactionFilter::filter`].
    pub fn filter(
        &self,
        context: &FilterContext,
        key: &[u8],
        value: FilteredValue<'_>,
    ) -> FilterDecision {
        match self {
            Self::RemoveEmptyValues => match value {
                FilteredValue::Plain([]) => FilterDecision::Remove,
                _ => FilterDecision::Keep,
            },
            Self::Custom(custom) => {
                let call = || custom.filter(context, key, value);
                user_code::call("compaction filter", || custom.name(), call)
            }
        }
    }

    /// Whether the filter keeps every entity, so that it need not be called for entities.
    pub(crate) fn keeps_entities(&self) -> bool {
        matches!(self, Self::RemoveEmptyValues)
    }
}

impl fmt::Debug for CompactionFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
