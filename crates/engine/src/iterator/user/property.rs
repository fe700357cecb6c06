//! Properties of an iterator, by RocksDB's names.

use super::DbIterator;

impl DbIterator {
    /// Returns a property by RocksDB's name, as bytes; `None` if there is none of that name.
    ///
    /// - `rocksdb.iterator.super-version-number`: the number, in decimal, of the version of the
    ///   column family that it reads.
    /// - `rocksdb.iterator.is-key-pinned`: `1` if the key stays at its address until the iterator
    ///   is dropped ([`ReadOptions::pin_data`](crate::ReadOptions::pin_data)), otherwise `0`.
    /// - `rocksdb.iterator.is-value-pinned`: the same for the value, which is never pinned: `0`.
    /// - `rocksdb.iterator.internal-key`: the user key, as in RocksDB.
    ///
    /// Without a position, the two properties about pinning are `Iterator is not valid.`, and the
    /// key is empty.
    pub fn property(&self, name: &str) -> Option<Vec<u8>> {
        let of_place = |is_pinned: bool| match self.valid() {
            true => u8::from(is_pinned).to_string(),
            false => "Iterator is not valid.".to_owned(),
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
