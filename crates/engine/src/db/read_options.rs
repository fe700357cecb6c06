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
        }
    }
}
