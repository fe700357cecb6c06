//! Options of reads.

use crate::read::Snapshot;

/// Options of a get or an iterator. The names and defaults are those of RocksDB's `ReadOptions`.
///
/// ```
/// # fn main() -> tailwater::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// # let directory = directory.path();
/// # let db = tailwater::Db::open_default(directory)?;
/// use tailwater::ReadOptions;
///
/// for key in ["a", "b", "c"] {
///     db.put(key, "")?;
/// }
/// // A scan that leaves the block cache to other reads.
/// let options = ReadOptions {
///     fill_cache: false,
///     iterate_upper_bound: Some(b"c".to_vec()),
///     ..ReadOptions::new()
/// };
/// assert_eq!(db.range_opt(.., &options).count(), 2);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct ReadOptions {
    /// Read the state of this snapshot; by default, the state at the time of the call.
    pub snapshot: Option<Snapshot>,
    /// Check the checksum of every block that is read from a file. Default: true.
    pub verify_checksums: bool,
    /// Put blocks that are read from a file into the block cache. Default: true.
    pub fill_cache: bool,
    /// Inclusive lower bound of an iterator's keys; none by default.
    pub iterate_lower_bound: Option<Vec<u8>>,
    /// Exclusive upper bound of an iterator's keys; none by default.
    pub iterate_upper_bound: Option<Vec<u8>>,
    /// Size of each of an iterator's reads from a table, in bytes. With 0, the default, the size
    /// grows as the iterator advances.
    pub readahead_size: usize,
    /// An iterator shows only keys with the prefix of the last seek's target. After a seek to the
    /// first or last key, it shows only keys with the prefix of the bound at that end or, without a
    /// bound, of the key found. Default: false.
    pub prefix_same_as_start: bool,
    /// An iterator uses no prefix filters, so that after a seek it shows every key, not only those
    /// with the target's prefix. Has no effect without a prefix extractor. Default: false.
    pub total_order_seek: bool,
    /// Every key that an iterator shows stays at its address until the iterator is dropped. Each
    /// key is copied for this. Default: false.
    pub pin_data: bool,
    /// An iterator may leave a value in its blob file until
    /// [`DbIterator::prepare_value`](crate::DbIterator::prepare_value) is called. Useful for scans
    /// that need few of the values. Default: false.
    pub allow_unprepared_value: bool,
    /// With a snapshot, an iterator moves to newer versions of the column family on its own, but
    /// still sees the snapshot's state. So it releases flushed memtables and compacted tables
    /// whenever it is moved, not only when it is dropped. Without a snapshot, the option has no
    /// effect.
    ///
    /// Set the option for iterators that live long while others write, such as those of a logical
    /// backup. Each step costs one more relaxed load, and each new version costs the opening of the
    /// changed sources. Changes that ignore snapshots become visible during a scan, namely removals
    /// by a compaction filter and files ingested without regard to snapshots. Default: false.
    pub auto_refresh_iterator_with_snapshot: bool,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl ReadOptions {
    /// Returns the default options.
    pub const fn new() -> Self {
        Self {
            snapshot: None,
            verify_checksums: true,
            fill_cache: true,
            iterate_lower_bound: None,
            iterate_upper_bound: None,
            readahead_size: 0,
            prefix_same_as_start: false,
            total_order_seek: false,
            pin_data: false,
            allow_unprepared_value: false,
            auto_refresh_iterator_with_snapshot: false,
        }
    }
}
