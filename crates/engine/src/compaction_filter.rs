//! Compaction filters: user code that removes or changes records during compactions.

/// The kind of record that a compaction filter is called with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilteredValue {
    /// A value; one in a blob file has been read.
    Plain,
    /// A merge operand.
    MergeOperand,
    /// A wide-column entity, as stored.
    WideColumns,
}

/// The decision of a compaction filter about a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilterDecision {
    /// Keeps the record.
    Keep,
    /// Removes the record, with all older versions of its key that no snapshot sees.
    Remove,
    /// Keeps the record, with this value or operand.
    ChangeValue(Vec<u8>),
    /// Removes the record and everything that this compaction reads of keys up to this one,
    /// exclusive. Older versions of those keys in deeper levels become visible again. If this key
    /// is not above the record's, the record is kept.
    RemoveAndSkipUntil(Vec<u8>),
}

/// A filter that compactions call for records.
///
/// It is called for the newest version of each key that a compaction reads, if that is a value or
/// an entity, whether or not snapshots see it, and for each merge operand that no snapshot sees.
/// Snapshots therefore do not protect values from it, as in RocksDB since version 6. Flushes do not
/// call it.
///
/// Several threads may call it concurrently. It may drop the last handle to the database, but not
/// close it. A panic fails the compaction, and writes are refused until `resume`. Source:
/// `include/rocksdb/compaction_filter.h`, `db/compaction/compaction_iterator.cc`.
pub trait CompactionFilter: Send + Sync {
    /// The name written to OPTIONS files.
    fn name(&self) -> &str;

    /// Returns what to do with a record of `key`. `level` is the first input level of the
    /// compaction.
    fn filter(&self, level: usize, key: &[u8], kind: FilteredValue, value: &[u8])
    -> FilterDecision;
}
