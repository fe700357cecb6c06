//! How a read behaves.

use crate::db::Snapshot;

/// How a get or an iterator behaves. The names and defaults are RocksDB's, of its `ReadOptions`.
#[derive(Debug, Clone)]
pub struct ReadOptions {
    /// Read what this snapshot sees; by default, what was written before the call.
    pub snapshot: Option<Snapshot>,
    /// Check the checksum of every block that is read from a file. Default: true.
    pub verify_checksums: bool,
    /// Put blocks that are read from a file into the block cache. Default: true.
    pub fill_cache: bool,
    /// The first key an iterator shows; none by default.
    pub iterate_lower_bound: Option<Vec<u8>>,
    /// The first key behind those an iterator shows; none by default.
    pub iterate_upper_bound: Option<Vec<u8>>,
    /// How much an iterator reads of a table at once, in bytes; 0, the default, lets that grow as
    /// it goes on.
    pub readahead_size: usize,
    /// An iterator shows only keys with the prefix of the last seek's key; after a seek to the
    /// first or last key, those with the prefix of the bound there, or of the key found where there
    /// is no bound. Default: false.
    pub prefix_same_as_start: bool,
    /// An iterator asks no prefix filters, so that it shows every key behind a seek and not only
    /// those with the sought key's prefix. Without a prefix extractor it makes no difference.
    /// Default: false.
    pub total_order_seek: bool,
    /// Every key that an iterator shows stays at its address until the iterator is dropped,
    /// whatever it does meanwhile, at the cost of a copy of each. Default: false.
    pub pin_data: bool,
    /// An iterator may leave a value in its blob file until
    /// [`DbIterator::prepare_value`](crate::DbIterator::prepare_value) is called: for scans that
    /// need few of the values. Default: false.
    pub allow_unprepared_value: bool,
    /// With a snapshot, an iterator goes over to newer versions of the column family by itself,
    /// while it continues to see what the snapshot sees: it lets go of flushed memtables and
    /// compacted tables as it is moved, and not only when it is dropped. Without a snapshot the
    /// option has no effect.
    ///
    /// Set it for iterators that live long while others write, such as those of a logical backup.
    /// A step costs one more relaxed load, and each new version the opening of what changed. What
    /// passes snapshots by shows in the middle of a scan: what a compaction filter takes out, and
    /// files that are ingested without regard to snapshots. Default: false.
    pub auto_refresh_iterator_with_snapshot: bool,
}

impl Default for ReadOptions {
    fn default() -> Self {
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
