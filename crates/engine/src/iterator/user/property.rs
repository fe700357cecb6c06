//! Properties of an iterator, by RocksDB's names.

use super::DbIterator;

impl DbIterator {
    /// Returns the property with this RocksDB name, as bytes; `None` if there is no property of
    /// that name.
    ///
    /// - `rocksdb.iterator.super-version-number`: the number, in decimal, of the super version of
    ///   the column family that the iterator reads.
    /// - `rocksdb.iterator.is-key-pinned`: `1` if the key stays at its address until the iterator
    ///   is dropped ([`ReadOptions::pin_data`](crate::ReadOptions::pin_data)), otherwise `0`.
    /// - `rocksdb.iterator.is-value-pinned`: always `0`, because values are never pinned.
    /// - `rocksdb.iterator.internal-key`: the current user key. RocksDB also returns the user key,
    ///   despite the property's name.
    ///
    /// If the iterator has no position, the two properties about pinning are the text `Iterator is
    /// not valid.`, and `rocksdb.iterator.internal-key` is empty.
    pub fn property(&self, name: &str) -> Option<Vec<u8>> {
        let of_place = |is_pinned: bool| {
            if self.valid() {
                u8::from(is_pinned).to_string()
            } else {
                "Iterator is not valid.".to_owned()
            }
        };
        match name.strip_prefix("rocksdb.iterator.")? {
            "super-version-number" => Some(self.source.number().to_string().into_bytes()),
            "is-key-pinned" => Some(of_place(self.pinned.is_some()).into_bytes()),
            "is-value-pinned" => Some(of_place(false).into_bytes()),
            "internal-key" => Some(self.key().to_vec()),
            _ => None,
        }
    }
}
