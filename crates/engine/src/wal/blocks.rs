//! Aligned memory for whole blocks of a direct log.

use tailwater_io::buffer::{ALIGNMENT, AlignedBuffer};

/// The blocks of one write: records, and zeros that fill the last block. The buffer is reused for
/// later writes. Bytes that are still zero are not set again, so a short write touches few cache
/// lines.
#[derive(Debug)]
pub(super) struct Blocks {
    aligned: AlignedBuffer,
    /// Length of the prefix that may contain bytes other than zero.
    filled: usize,
}

impl Blocks {
    /// Creates an empty buffer.
    pub(super) fn new() -> Self {
        Self { aligned: AlignedBuffer::with_capacity(ALIGNMENT), filled: 0 }
    }

    /// Replaces the content with `bytes` and `zeros` zero bytes after them.
    pub(super) fn set(&mut self, bytes: &[u8], zeros: usize) {
        let length = bytes.len() + zeros;
        if self.aligned.capacity() < length {
            // New memory is zeroed.
            *self = Self { aligned: AlignedBuffer::with_capacity(length), filled: 0 };
        }
        self.aligned.set_length(length.max(self.filled));
        let (head, tail) = self.aligned.split_at_mut(bytes.len());
        head.copy_from_slice(bytes);
        tail[..self.filled.saturating_sub(bytes.len())].fill(0);
        self.filled = bytes.len();
        self.aligned.set_length(length);
    }

    /// Frees the buffer if it is larger than `bytes`.
    pub(super) fn shrink_to(&mut self, bytes: usize) {
        if self.aligned.capacity() > bytes {
            *self = Self::new();
        }
    }

    /// Returns the blocks: the bytes that were set and the zeros after them.
    pub(super) fn as_slice(&self) -> &[u8] {
        &self.aligned
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_overwrites_all_earlier_content() {
        let mut blocks = Blocks::new();
        for (length, zeros) in [(100, 3996), (40, 4056), (9000, 3288), (4096, 0), (0, 4096)] {
            let bytes: Vec<u8> = (0..length).map(|index| index as u8 | 1).collect();
            blocks.set(&bytes, zeros);
            let expected: Vec<u8> = bytes.into_iter().chain(vec![0; zeros]).collect();
            assert!(blocks.as_slice() == expected, "{length} bytes and {zeros} zeros");
            assert!(blocks.as_slice().as_ptr().addr().is_multiple_of(ALIGNMENT));
        }
    }
}
