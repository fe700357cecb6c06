//! Blocks that are kept aside for the block cache, until the table that they are in is about to be
//! installed.

use tailwater_io::buffer::AlignedBuffer;

/// How much memory is asked for at a time, in bytes: so much that it is a mapping of its own, which
/// goes back to the system at once; and a multiple of nothing above a page, so that it begins at
/// any and many of them are one mapping to the system, which has a limit on those.
const CHUNK: usize = (1 << 20) - 4096;

/// Blocks of a table that is being written, one behind the other.
///
/// Kept by the thread that writes the table, which takes no lock for it, and taken into the cache
/// by another: on the heap they would stay with the first one when they are gone.
#[derive(Debug, Default)]
pub(super) struct Aside {
    chunks: Vec<AlignedBuffer>,
    blocks: Vec<Kept>,
}

/// A block that is kept.
#[derive(Debug)]
struct Kept {
    /// Where it begins in the table.
    offset: u64,
    /// Whether users read it where it comes from.
    is_warm: bool,
    /// Which chunk it is in, and where.
    chunk: usize,
    start: usize,
    length: usize,
}

impl Aside {
    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Keeps the uncompressed bytes of a block that begins at `offset`.
    pub(super) fn keep(&mut self, offset: u64, block: &[u8], is_warm: bool) {
        if self.chunks.last().is_none_or(|chunk| chunk.remaining() < block.len()) {
            self.chunks.push(AlignedBuffer::with_capacity(block.len().max(CHUNK)));
        }
        let Some(chunk) = self.chunks.last_mut() else { return };
        let (start, length) = (chunk.len(), block.len());
        chunk.append(block);
        self.blocks.push(Kept { offset, is_warm, chunk: self.chunks.len() - 1, start, length });
    }

    /// Does something with each block, in their order: its offset, whether users read it, and its
    /// bytes. Memory goes as soon as all that is in it is done with.
    pub(super) fn for_each(self, mut take: impl FnMut(u64, bool, &[u8])) {
        let mut blocks = self.blocks.into_iter().peekable();
        for (index, chunk) in self.chunks.into_iter().enumerate() {
            while let Some(kept) = blocks.next_if(|kept| kept.chunk == index) {
                let bytes = &chunk[kept.start..kept.start + kept.length];
                take(kept.offset, kept.is_warm, bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_come_back_in_their_order_whole() {
        let mut aside = Aside::default();
        let block = |number: usize| vec![number as u8; [1, 4096, 300_000, CHUNK + 1][number % 4]];
        for number in 0..40 {
            aside.keep(number as u64, &block(number), number % 3 == 0);
        }
        let mut seen = 0;
        aside.for_each(|offset, is_warm, bytes| {
            assert!(bytes == block(seen), "block {seen}");
            assert_eq!((offset, is_warm), (seen as u64, seen % 3 == 0));
            seen += 1;
        });
        assert_eq!(seen, 40);
    }
}
