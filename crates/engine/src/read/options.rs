//! Options of reads.

use tailwater_io::pace::Priority;

use crate::read::Snapshot;
use crate::setters::setters;
use crate::skipped_damage::SkippedDamage;

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
/// let options = ReadOptions::new().with_fill_cache(false).with_iterate_upper_bound("c");
/// assert_eq!(db.range_opt(.., &options).count(), 2);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ReadOptions {
    /// The snapshot whose state is read; by default, the state at the time of the call.
    pub snapshot: Option<Snapshot>,
    /// Whether to verify the checksum of every block that is read from a file. Default: true.
    pub verify_checksums: bool,
    /// Whether to add blocks that are read from a file to the block cache. Default: true.
    pub fill_cache: bool,
    /// Inclusive lower bound of an iterator's keys; none by default.
    pub iterate_lower_bound: Option<Vec<u8>>,
    /// Exclusive upper bound of an iterator's keys; none by default.
    pub iterate_upper_bound: Option<Vec<u8>>,
    /// Number of bytes that an iterator reads from a table file at a time. With 0, the default, the
    /// number grows as the iterator advances sequentially.
    pub readahead_size: usize,
    /// Whether an iterator has several reads in flight: the blocks that a seek needs of different
    /// tables, and the next part of a table that it reads from front to back. Default: false.
    pub async_io: bool,
    /// Whether a multi-get reads the blocks that it needs of different levels together. Otherwise
    /// it reads those of one level together, and then goes on to the next level. Default: true.
    pub optimize_multiget_for_io: bool,
    /// Whether an iterator that goes on to the next table of a level keeps the readahead size that
    /// it has reached. Otherwise it begins with the initial size again. Default: false.
    pub adaptive_readahead: bool,
    /// Whether the readahead of an iterator ends with the block of its upper bound, if it has one.
    /// Default: true.
    pub auto_readahead_size: bool,
    /// Whether an iterator shows only keys with the prefix of the last seek's target. After
    /// `seek_to_first` it shows only keys with the prefix of the lower bound, and after
    /// `seek_to_last` only those with the prefix of the upper bound. Without the bound, it is the
    /// prefix of the key that was found. Default: false.
    pub prefix_same_as_start: bool,
    /// Whether seeks of an iterator ignore prefix filters. Otherwise, in a column family with a
    /// prefix extractor, an iterator is reliable after a seek only on keys with the target's
    /// prefix. Ranges ([`Entries`](crate::Entries)) always ignore prefix filters. Default: false.
    pub total_order_seek: bool,
    /// Whether every key that an iterator returns stays at its address until the iterator is
    /// dropped. Each key is copied for this. No effect on ranges, whose items are copies that
    /// belong to the caller. Default: false.
    pub pin_data: bool,
    /// Whether an iterator may leave a value in its blob file until
    /// [`DbIterator::prepare_value`](crate::DbIterator::prepare_value) is called. Useful for scans
    /// that need only a few of the values. No effect on ranges, whose items contain the value.
    /// Default: false.
    pub allow_unprepared_value: bool,
    /// Whether an iterator with a snapshot moves to newer versions of the column family on its own,
    /// while it keeps showing the snapshot's state. With this option, the iterator releases flushed
    /// memtables and compacted tables at its next step or seek, instead of keeping them until it is
    /// dropped. Without a snapshot, the option has no effect. Default: false.
    ///
    /// Set the option for iterators and ranges that live long while others write, for instance for
    /// a logical backup. It costs one more relaxed load at each step. At each new version, the
    /// iterator must also open the sources that have changed. Two kinds of changes ignore
    /// snapshots, and become visible during a scan: removals by a compaction filter, and ingestion
    /// of files without regard to snapshots.
    pub auto_refresh_iterator_with_snapshot: bool,
    /// The priority at which the reads from files are charged to the database's rate limiter
    /// ([`OpenOptions::set_rate_limiter`](crate::OpenOptions::set_rate_limiter)), for which they
    /// wait. With `None`, the default, as with RocksDB's `IO_TOTAL`, they are not. No effect if the
    /// rate limiter limits only writes, which is its default. Headers and footers of tables are not
    /// charged.
    pub rate_limiter_priority: Option<Priority>,
    /// If set, an iterator skips damaged blocks and tables, and keys whose values cannot be read,
    /// and records them here instead of returning an error. The iterator may then show outdated
    /// values and deleted keys in the ranges that it records: see
    /// [`SkippedKeys`](crate::SkippedKeys). For rescuing data, and only with `total_order_seek`,
    /// because damaged filters are still errors. Default: `None`.
    pub skipped_damage: Option<SkippedDamage>,
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
            async_io: false,
            optimize_multiget_for_io: true,
            adaptive_readahead: false,
            auto_readahead_size: true,
            prefix_same_as_start: false,
            total_order_seek: false,
            pin_data: false,
            allow_unprepared_value: false,
            auto_refresh_iterator_with_snapshot: false,
            rate_limiter_priority: None,
            skipped_damage: None,
        }
    }

    /// Sets [`snapshot`](Self::snapshot).
    #[must_use]
    pub fn with_snapshot(mut self, snapshot: impl Into<Option<Snapshot>>) -> Self {
        self.snapshot = snapshot.into();
        self
    }

    /// Sets [`iterate_lower_bound`](Self::iterate_lower_bound).
    #[must_use]
    pub fn with_iterate_lower_bound(mut self, bound: impl Into<Vec<u8>>) -> Self {
        self.iterate_lower_bound = Some(bound.into());
        self
    }

    /// Sets [`iterate_upper_bound`](Self::iterate_upper_bound).
    #[must_use]
    pub fn with_iterate_upper_bound(mut self, bound: impl Into<Vec<u8>>) -> Self {
        self.iterate_upper_bound = Some(bound.into());
        self
    }

    /// Sets [`rate_limiter_priority`](Self::rate_limiter_priority).
    #[must_use]
    pub fn with_rate_limiter_priority(mut self, priority: impl Into<Option<Priority>>) -> Self {
        self.rate_limiter_priority = priority.into();
        self
    }

    /// Sets [`skipped_damage`](Self::skipped_damage).
    #[must_use]
    pub fn with_skipped_damage(mut self, record: impl Into<Option<SkippedDamage>>) -> Self {
        self.skipped_damage = record.into();
        self
    }
}

setters!(ReadOptions {
    with_verify_checksums(verify_checksums: bool),
    with_fill_cache(fill_cache: bool),
    with_readahead_size(readahead_size: usize),
    with_async_io(async_io: bool),
    with_optimize_multiget_for_io(optimize_multiget_for_io: bool),
    with_adaptive_readahead(adaptive_readahead: bool),
    with_auto_readahead_size(auto_readahead_size: bool),
    with_prefix_same_as_start(prefix_same_as_start: bool),
    with_total_order_seek(total_order_seek: bool),
    with_pin_data(pin_data: bool),
    with_allow_unprepared_value(allow_unprepared_value: bool),
    with_auto_refresh_iterator_with_snapshot(auto_refresh_iterator_with_snapshot: bool),
});
