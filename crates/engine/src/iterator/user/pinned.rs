//! Copies of keys. Each copy stays at its address until the iterator is dropped.

/// Size of a memory chunk for copied keys, in bytes. A key that is larger gets a chunk of its own.
const CHUNK_BYTES: usize = 32 << 10;

/// Copies of all keys that an iterator has visited.
///
/// Every key is copied, even if a block or memtable holds its bytes contiguously. So all keys stay
/// at their addresses, whatever their encoding and the iterator's direction, and the iterator can
/// release the blocks that it has left.
#[derive(Debug, Default)]
pub(super) struct PinnedKeys {
    /// The keys, concatenated. A chunk never grows past its initial capacity, because a
    /// reallocation would move its keys.
    chunks: Vec<Vec<u8>>,
    /// Offset of the last key in the last chunk, in bytes.
    last: usize,
}

impl PinnedKeys {
    /// Copies a key.
    pub(super) fn push(&mut self, key: &[u8]) {
        let room = self.chunks.last().map_or(0, |chunk| chunk.capacity() - chunk.len());
        if room < key.len() || self.chunks.is_empty() {
            self.chunks.push(Vec::with_capacity(key.len().max(CHUNK_BYTES)));
        }
        if let Some(chunk) = self.chunks.last_mut() {
            self.last = chunk.len();
            chunk.extend_from_slice(key);
        }
    }

    /// Returns the key that was copied last.
    pub(super) fn last(&self) -> &[u8] {
        self.chunks.last().and_then(|chunk| chunk.get(self.last..)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pinned_keys_keep_their_addresses() {
        let mut keys = PinnedKeys::default();
        let mut copies = Vec::new();
        for length in [0, 1, 0, 30_000, 5_000, 100_000, 0, 32 << 10, 7] {
            let key = vec![copies.len() as u8; length];
            keys.push(&key);
            assert_eq!(keys.last(), key);
            copies.push((keys.last().as_ptr(), key));
        }
        let mut chunks = keys.chunks.iter();
        let mut chunk = chunks.next().expect("a chunk").as_slice();
        for (address, key) in copies {
            if chunk.len() < key.len() {
                chunk = chunks.next().expect("a chunk");
            }
            let (copy, rest) = chunk.split_at(key.len());
            assert_eq!(copy, key);
            assert!(key.is_empty() || copy.as_ptr() == address);
            chunk = rest;
        }
    }
}
