//! Blocks staged for the block cache until their table is about to be installed.

use tailwater_io::buffer::AlignedBuffer;

/// Size of a chunk, the unit of allocation, in bytes. It is large enough that the allocator gives
/// each chunk a memory mapping of its own, which is returned to the system when the chunk is freed.
/// It is not a multiple of any alignment above a page, so that the mappings of neighbouring chunks
/// merge: the system limits the number of mappings.
const CHUNK: usize = (1 << 20) - 4096;

/// Staged blocks of a table that is being written.
///
/// The thread that writes the table stages blocks without a lock; another thread inserts the blocks
/// into the cache. The blocks are not allocated on the heap: the allocator would keep their freed
/// memory for the thread that writes the table, instead of returning it to the system.
#[derive(Debug, Default)]
pub(super) struct StagedBlocks {
    chunks: Vec<AlignedBuffer>,
    blocks: Vec<StagedBlock>,
}

/// An uncompressed block that waits to be inserted into the block cache.
#[derive(Debug)]
struct StagedBlock {
    /// Offset of the block in the table, in bytes.
    offset: u64,
    /// Whether the block is warm for the block cache: users read its data from cached blocks of the
    /// inputs. If not, the block is staged only because all blocks of the table are staged.
    is_warm: bool,
    /// Index of the chunk that holds the block. `start` is the block's offset in that chunk and
    /// `length` its length, in bytes.
    chunk: usize,
    start: usize,
    length: usize,
}

impl StagedBlocks {
    /// Whether no blocks are staged.
    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Stages the uncompressed bytes of the block at `offset`.
    pub(super) fn stage(&mut self, offset: u64, block: &[u8], is_warm: bool) {
        if self.chunks.last().is_none_or(|chunk| chunk.remaining() < block.len()) {
            self.chunks.push(AlignedBuffer::with_capacity(block.len().max(CHUNK)));
        }
        let Some(chunk) = self.chunks.last_mut() else { return };
        let (start, length) = (chunk.len(), block.len());
        chunk.append(block);
        self.blocks.push(StagedBlock {
            offset,
            is_warm,
            chunk: self.chunks.len() - 1,
            start,
            length,
        });
    }

    /// Calls `take` with each block, in order: its offset, whether it is warm, and its bytes. Each
    /// chunk is freed after the call for its last block.
    pub(super) fn for_each(self, mut take: impl FnMut(u64, bool, &[u8])) {
        let mut blocks = self.blocks.into_iter().peekable();
        for (index, chunk) in self.chunks.into_iter().enumerate() {
            while let Some(staged) = blocks.next_if(|staged| staged.chunk == index) {
                let bytes = &chunk[staged.start..staged.start + staged.length];
                take(staged.offset, staged.is_warm, bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn staged_blocks_are_returned_intact_and_in_order() {
        let mut staged = StagedBlocks::default();
        let block = |number: usize| vec![number as u8; [1, 4096, 300_000, CHUNK + 1][number % 4]];
        for number in 0..40 {
            staged.stage(number as u64, &block(number), number % 3 == 0);
        }
        let mut seen = 0;
        staged.for_each(|offset, is_warm, bytes| {
            assert!(bytes == block(seen), "block {seen}");
            assert_eq!((offset, is_warm), (seen as u64, seen % 3 == 0));
            seen += 1;
        });
        assert_eq!(seen, 40);
    }
}
