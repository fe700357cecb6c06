//! Prefetching of the blocks that a scan reaches next, if they are in the block cache.
//!
//! To move to a cached block, a scan reads the bucket of the cache's hash table, the entry, the
//! block's header and the block's first bytes. Each of them tells where the next one is, and each
//! is likely to be outside the processor's caches. So the scan walks the index some blocks ahead.
//! Whenever it moves to another block, it prefetches one of these parts for each of the next
//! blocks: those of the nearest block have been prefetched by then, except its bytes.

use tailwater_format::block::IndexCursor;
use tailwater_format::table::BlockHandle;

use super::index::{IndexIterator, Level};
use crate::cache::Stage;
use crate::epoch;
use crate::table::{Direction, TableReader};

/// Number of blocks ahead, one for each part of a block.
const BLOCKS: usize = 4;
/// The part that is prefetched of each of the next blocks, the nearest block first; `None` stands
/// for the block's bytes.
const STAGES: [Option<Stage>; BLOCKS] =
    [None, Some(Stage::Value), Some(Stage::Entry), Some(Stage::Bucket)];
/// Number of moves in one direction after which prefetching begins: a seek is often followed by a
/// few steps only.
const MOVES_MIN: u32 = 2;

/// The blocks that a scan reaches next.
#[derive(Default)]
pub(super) struct Lookahead {
    /// The handles of the next blocks, the nearest first.
    next: [BlockHandle; BLOCKS],
    /// Number of handles in `next`.
    known: usize,
    /// The position in the index of the last handle in `next`.
    scout: IndexCursor,
    /// Number of moves in the same direction since the last seek.
    moves: u32,
    is_backward: bool,
}

impl Lookahead {
    /// Called before a seek, and before the index of another table is used.
    pub(super) fn restart(&mut self) {
        self.moves = 0;
        self.known = 0;
    }

    /// Called after the index has moved by one block.
    pub(super) fn follow(
        &mut self,
        index: &IndexIterator,
        table: &TableReader,
        direction: Direction,
    ) {
        let is_backward = direction == Direction::Backward;
        if self.is_backward != is_backward {
            self.restart();
            self.is_backward = is_backward;
        }
        self.moves = self.moves.saturating_add(1);
        if self.moves >= MOVES_MIN && index.valid() {
            self.walk(index.leaf(), table, direction);
            self.prefetch(table);
        }
    }

    /// Walks the index ahead of its current position.
    fn walk(&mut self, index: &Level, table: &TableReader, direction: Direction) {
        if self.known > 0 && self.next[0] == index.cursor().handle() {
            self.next.rotate_left(1);
            self.known -= 1;
        } else {
            self.known = 0;
            self.scout.go_to(index.cursor());
        }
        while self.known < BLOCKS && self.scout.valid() {
            let moved = index.step(table, &mut self.scout, direction);
            if moved.is_err() || !self.scout.valid() {
                // A step from here could begin at the other end. An error is reported when the scan
                // gets here.
                self.scout.reset();
                break;
            }
            self.next[self.known] = self.scout.handle();
            self.known += 1;
        }
    }

    fn prefetch(&self, table: &TableReader) {
        let guard = epoch::pin();
        for (handle, stage) in self.next[..self.known].iter().zip(STAGES) {
            match stage {
                Some(stage) => table.prefetch_block(*handle, stage, &guard),
                None => table.prefetch_bytes(*handle, self.is_backward, &guard),
            }
        }
    }
}
