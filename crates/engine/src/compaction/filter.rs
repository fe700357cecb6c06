//! Compaction filters: what the user wants removed or changed while tables are written anew.

/// What a compaction filter is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilteredValue {
    /// A value; one that stands in a blob file was read from there.
    Plain,
    /// An operand that was not folded yet.
    MergeOperand,
    /// An entity of named columns, as it is stored.
    WideColumns,
}

/// What a compaction filter wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilterDecision {
    /// It stays as it is.
    Keep,
    /// It goes, and everything older of its key that no snapshot shows.
    Remove,
    /// It stays, with this as its value or operand.
    ChangeValue(Vec<u8>),
    /// It goes, and so does everything that this compaction reads of keys before this one, which is
    /// not included. Older versions of those keys in deeper levels come to light again. A key that
    /// is not above the filtered one keeps it.
    RemoveAndSkipUntil(Vec<u8>),
}

/// A filter that compactions ask about what they read.
///
/// It is asked about the newest version of each key that a compaction reads, if that is a value or
/// an entity, whether or not snapshots show it, and about each merge operand that no snapshot
/// shows. Snapshots therefore do not protect values from it, as in RocksDB since version 6.
/// Flushes do not ask.
///
/// Several threads call it at once. It may drop the last handle to the database, but not close it.
/// A panic ends the compaction, and refuses writes until `resume`. Source:
/// `include/rocksdb/compaction_filter.h`, `db/compaction/compaction_iterator.cc`.
pub trait CompactionFilter: Send + Sync {
    /// The name that stands in OPTIONS files.
    fn name(&self) -> &str;

    /// What to do with a record of `key`. `level` is the first level that the compaction takes
    /// tables from.
    fn filter(&self, level: usize, key: &[u8], kind: FilteredValue, value: &[u8])
    -> FilterDecision;
}
