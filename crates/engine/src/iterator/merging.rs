//! An iterator over every record of every source, in internal key order.
//!
//! The sources (`leaves`) are merged by a loser tree. `tree[0]` is the winner, the leaf with the
//! current record. Each inner node in `tree[1..]` is the leaf that lost the comparison at that
//! node. After the winner has moved, only the nodes between it and the root are compared again.
//! Most comparisons need only the leading words of the leaves' keys, which are in the tree.
//!
//! Invariant: while the iterator moves forward, every leaf is at its first record at or after the
//! current record; while the iterator moves backward, every leaf is at its last record at or before
//! the current record. So a change of direction repositions all leaves except the winner.

use std::cmp::Ordering;
use std::path::Path;
use std::sync::Arc;

use tailwater_format::Comparator;
use tailwater_format::key::{self, Sequence};

use crate::block_cache::BlockKind;
use crate::error::Result;
use crate::handover::Warmth;
use crate::iterator::tombstones::Cover;
use crate::iterator::{Direction, Leaf};
use crate::table::{LoadTogether, ReadProfile, SeekTo, StoredBlock, TableContext};

mod run;

use run::Run;
pub(crate) use run::RunStep;

/// An iterator over every record of every source, in internal key order.
pub(crate) struct MergingIterator {
    comparator: Comparator,
    /// The sources, newest first.
    leaves: Vec<Leaf>,
    tree: Vec<Contender>,
    direction: Direction,
    /// Buffer for the internal key to which leaves are repositioned.
    turning_key: Vec<u8>,
    /// If set, the blocks that a seek needs of different leaves are read together.
    reads_together: Option<(ReadProfile, Arc<TableContext>)>,
    run: Run,
}

/// A leaf in the loser tree.
#[derive(Debug, Clone, Copy, Default)]
struct Contender {
    /// Index of the leaf.
    leaf: usize,
    /// The [`Comparator::leading_word`] of the leaf's current user key. A leaf without a position
    /// has the word that comes last in the iterator's direction.
    word: u64,
}

impl MergingIterator {
    /// Creates an iterator over sources, given newest first. It has no position yet.
    pub(crate) fn new(comparator: Comparator, leaves: Vec<Leaf>) -> Self {
        let tree = vec![Contender::default(); leaves.len().max(1)];
        let direction = Direction::Forward;
        let (turning_key, run) = (Vec::new(), Run::default());
        Self { comparator, leaves, tree, direction, turning_key, reads_together: None, run }
    }

    /// Makes later seeks read the blocks that they need of different leaves together.
    pub(crate) fn read_together(&mut self, profile: ReadProfile, context: Arc<TableContext>) {
        self.reads_together = Some((profile, context));
    }

    /// Removes and returns all sources. The iterator then has no position until
    /// [`MergingIterator::put_leaves`] sets other sources.
    pub(crate) fn take_leaves(&mut self) -> Vec<Leaf> {
        self.run.end();
        self.tree.clear();
        self.tree.push(Contender::default());
        std::mem::take(&mut self.leaves)
    }

    /// Sets the sources, given newest first. Either each source must already be where the
    /// iterator's position and direction require it, or a seek must follow. Prefix filters are
    /// turned off for all sources, because the prefix extractor may have changed.
    pub(crate) fn put_leaves(&mut self, mut leaves: Vec<Leaf>) {
        for leaf in &mut leaves {
            leaf.ask_prefix_filter(false);
        }
        self.tree.resize(leaves.len().max(1), Contender::default());
        self.leaves = leaves;
        self.rebuild();
    }

    /// Whether the iterator is positioned on a record.
    #[inline]
    pub(crate) fn valid(&self) -> bool {
        self.winner().is_some_and(Leaf::valid)
    }

    /// Returns the current internal key.
    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        self.winner().map_or(&[], Leaf::key)
    }

    /// Returns the current value.
    #[inline]
    pub(crate) fn value(&self) -> &[u8] {
        self.winner().map_or(&[], Leaf::value)
    }

    /// Returns the current internal key and value: both with one look at the sources.
    #[inline(always)]
    pub(crate) fn entry(&self) -> (&[u8], &[u8]) {
        match self.winner() {
            Some(leaf) => leaf.entry(),
            None => (&[], &[]),
        }
    }

    #[inline]
    fn winner(&self) -> Option<&Leaf> {
        self.leaves.get(self.tree[0].leaf)
    }

    /// Returns the path of the table with the current record, if it is in a table.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.winner().and_then(Leaf::path)
    }

    /// Returns the data block that the current record's source left last, if its stored bytes are
    /// in memory.
    pub(crate) fn left_block(&self) -> Option<StoredBlock<'_>> {
        self.winner().and_then(Leaf::left_block)
    }

    #[inline]
    pub(crate) fn warmth(&self) -> Warmth {
        self.winner().map_or(Warmth::default(), Leaf::warmth)
    }

    /// Sets whether later seeks check prefix filters. Such a seek may miss keys that do not have
    /// the target's prefix.
    pub(crate) fn ask_prefix_filters(&mut self, ask: bool) {
        for leaf in &mut self.leaves {
            leaf.ask_prefix_filter(ask);
        }
    }

    /// Moves to the first record.
    pub(crate) fn seek_to_first(&mut self) -> Result<()> {
        self.prepare(SeekTo::First);
        self.move_all(Direction::Forward, Leaf::seek_to_first)
    }

    /// Moves to the last record.
    pub(crate) fn seek_to_last(&mut self) -> Result<()> {
        self.prepare(SeekTo::Last);
        self.move_all(Direction::Backward, Leaf::seek_to_last)
    }

    /// Moves to the first record at or after an internal key.
    pub(crate) fn seek(&mut self, target: &[u8]) -> Result<()> {
        self.prepare(SeekTo::AtOrAfter(target));
        self.move_all(Direction::Forward, |leaf| leaf.seek(target))
    }

    /// Moves to the last record at or before an internal key.
    pub(crate) fn seek_for_prev(&mut self, target: &[u8]) -> Result<()> {
        self.prepare(SeekTo::AtOrBefore(target));
        self.move_all(Direction::Backward, |leaf| leaf.seek_for_prev(target))
    }

    /// Moves to the next record.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<()> {
        self.run.end();
        if self.direction != Direction::Forward {
            self.turn(Direction::Forward)?;
        }
        let winner = self.tree[0].leaf;
        if let Some(leaf) = self.leaves.get_mut(winner) {
            leaf.next()?;
            self.replay(winner);
        }
        Ok(())
    }

    /// Moves to the previous record.
    #[inline]
    pub(crate) fn previous(&mut self) -> Result<()> {
        self.run.end();
        if self.direction != Direction::Backward {
            self.turn(Direction::Backward)?;
        }
        let winner = self.tree[0].leaf;
        if let Some(leaf) = self.leaves.get_mut(winner) {
            leaf.previous()?;
            self.replay(winner);
        }
        Ok(())
    }

    /// Returns the range tombstone that hides the current record, if one does.
    #[inline]
    pub(crate) fn cover(&mut self) -> Option<Cover> {
        let winner = self.tree[0].leaf;
        let (newer, rest) = self.leaves.split_at_mut_checked(winner)?;
        let own = rest.first_mut()?;
        // Leaves older than the current record's leaf are not searched: their tombstones are older
        // than the current record.
        if newer.iter().all(|leaf| !leaf.has_tombstones()) && !own.has_tombstones() {
            return None;
        }
        let (user_key, trailer) = key::split(own.key())?;
        let hides = |sequence: &Sequence| *sequence > trailer >> 8;
        for (source, leaf) in newer.iter_mut().enumerate() {
            let covering = leaf.covering(&self.comparator, user_key, trailer, self.direction);
            if covering.filter(hides).is_some() {
                return Some(Cover { source, below: true });
            }
        }
        own.covers_itself(&self.comparator, self.direction)
            .then_some(Cover { source: winner, below: false })
    }

    /// Moves past the current record in the current direction. `cover` is the tombstone that hides
    /// the record. If the tombstone's leaf is newer than the record's leaf, also moves past all
    /// other records that the tombstone covers in leaves older than the tombstone's leaf.
    pub(crate) fn skip(&mut self, cover: Cover) -> Result<()> {
        let direction = self.direction;
        if !cover.below {
            // The tombstone is in the same leaf as the current record. Some records in its key
            // range may be newer than the tombstone, and visible. So only the current record is
            // skipped.
            return match direction {
                Direction::Forward => self.next(),
                Direction::Backward => self.previous(),
            };
        }
        let Some((newer, older)) = self.leaves.split_at_mut_checked(cover.source + 1) else {
            return Ok(());
        };
        let Some(source) = newer.last() else { return Ok(()) };
        // The edge is the internal key at which the tombstone ends in the current direction. No
        // record has this internal key, because records never have the value type of an edge. So a
        // seek to the edge ends after it (forward) or before it (backward).
        self.run.end();
        let edge = &mut self.turning_key;
        source.edge(direction, edge);
        let mut moved = Ok(());
        for leaf in older.iter_mut().filter(|leaf| leaf.valid()) {
            let order = key::compare_internal(&self.comparator, leaf.key(), edge);
            moved = match (order, direction) {
                (Ordering::Less, Direction::Forward) => leaf.seek(edge),
                (Ordering::Greater, Direction::Backward) => leaf.seek_for_prev(edge),
                _ => continue,
            };
            if moved.is_err() {
                break;
            }
        }
        self.rebuild();
        moved
    }

    /// If reads are in flight together, loads the blocks that a seek of all leaves needs. In each
    /// round, the blocks that the leaves need next are loaded together: of filters, of indexes, and
    /// last the data blocks that the seek begins in. While the next leaf finds its block, those of
    /// earlier leaves are read.
    fn prepare(&mut self, to: SeekTo<'_>) {
        let Self { leaves, reads_together, .. } = self;
        let Some((profile, context)) = reads_together else { return };
        let mut loads = LoadTogether::new(context, profile);
        let mut loading = Vec::new();
        for (at, leaf) in leaves.iter_mut().enumerate() {
            // What was prepared for an earlier seek that panicked is for another target.
            leaf.drop_prepared();
            if let Some(block) = leaf.prepare(to) {
                loads.add(block);
                loading.push(at);
            }
        }
        while !loads.is_empty() {
            let loaded = std::mem::replace(&mut loads, LoadTogether::new(context, profile));
            let by = std::mem::take(&mut loading);
            let mut unprepared = Vec::new();
            loaded.finish(|at, block, loaded| {
                // If reading the block failed, the leaf reads it again, and reports the error.
                let Ok(loaded) = loaded else { return };
                leaves[by[at]].hand_over(block, loaded);
                if block.kind != BlockKind::Data {
                    unprepared.push(by[at]);
                }
            });
            for at in unprepared {
                if let Some(block) = leaves[at].prepare(to) {
                    loads.add(block);
                    loading.push(at);
                }
            }
        }
    }

    fn move_all(
        &mut self,
        direction: Direction,
        mut go: impl FnMut(&mut Leaf) -> Result<()>,
    ) -> Result<()> {
        self.direction = direction;
        self.run.end();
        let mut moved = Ok(());
        for leaf in &mut self.leaves {
            leaf.reset_tombstones();
            moved = go(leaf);
            if moved.is_err() {
                break;
            }
        }
        if moved.is_err() {
            // The leaves that were not reached do not make the seek that was prepared for them.
            self.leaves.iter_mut().for_each(Leaf::drop_prepared);
        }
        self.rebuild();
        self.run.expect(self.tree[0].leaf);
        moved
    }

    /// Changes the direction: repositions every leaf except the winner.
    #[cold]
    fn turn(&mut self, direction: Direction) -> Result<()> {
        self.direction = direction;
        let winner = self.tree[0].leaf;
        let mut target = std::mem::take(&mut self.turning_key);
        target.clear();
        target.extend_from_slice(self.key());
        let mut moved = Ok(());
        for (index, leaf) in self.leaves.iter_mut().enumerate() {
            leaf.reset_tombstones();
            if index != winner && moved.is_ok() {
                moved = match direction {
                    Direction::Forward => leaf.seek(&target),
                    Direction::Backward => leaf.seek_for_prev(&target),
                };
            }
        }
        self.turning_key = target;
        self.rebuild();
        moved
    }

    /// Rebuilds the whole tree by comparing all leaves.
    fn rebuild(&mut self) {
        let count = self.leaves.len();
        if count == 0 {
            return;
        }
        // A node with the leaf `count` is one that no leaf has reached yet. The first leaf to reach
        // a node waits there; the second is compared with it.
        self.tree.fill(Contender { leaf: count, word: 0 });
        for leaf in (0..count).rev() {
            let mut winner = self.contender(leaf);
            let mut node = (leaf + count) / 2;
            while node > 0 {
                let waiting = self.tree[node];
                if waiting.leaf == count {
                    self.tree[node] = winner;
                    break;
                }
                if self.beats(waiting, winner) {
                    self.tree[node] = winner;
                    winner = waiting;
                }
                node /= 2;
            }
            if node == 0 {
                self.tree[0] = winner;
            }
        }
    }

    /// Updates the tree after leaf `moved` has moved to another record: compares the leaf with the
    /// losers at the nodes on its path to the root, root included.
    #[inline]
    fn replay(&mut self, moved: usize) {
        let mut node = (moved + self.leaves.len()) / 2;
        if node == 0 {
            // The only leaf is always the winner.
            return;
        }
        let mut winner = self.contender(moved);
        while node > 0 {
            let loser = self.tree[node];
            if self.beats(loser, winner) {
                self.tree[node] = winner;
                winner = loser;
            }
            node /= 2;
        }
        self.tree[0] = winner;
    }

    #[inline]
    fn contender(&self, leaf: usize) -> Contender {
        let source = &self.leaves[leaf];
        let word = match self.direction {
            _ if source.valid() => self.comparator.leading_word(key::user_key(source.key())),
            Direction::Forward => u64::MAX,
            Direction::Backward => 0,
        };
        Contender { leaf, word }
    }

    /// Whether leaf `a` comes before leaf `b` in the current direction. A leaf without a position
    /// comes last. If both leaves have the same internal key, the record of the newer leaf counts
    /// as the newer one, as in a get. This happens in databases that RocksDB repaired: it gives the
    /// records of ingested tables sequence number 0.
    #[inline]
    fn beats(&self, a: Contender, b: Contender) -> bool {
        match (a.word.cmp(&b.word), self.direction) {
            (Ordering::Equal, _) => self.beats_by_key(a.leaf, b.leaf),
            (order, Direction::Forward) => order == Ordering::Less,
            (order, Direction::Backward) => order == Ordering::Greater,
        }
    }

    /// Compares two leaves with the same word like [`MergingIterator::beats`].
    fn beats_by_key(&self, a: usize, b: usize) -> bool {
        let (leaf, other) = (&self.leaves[a], &self.leaves[b]);
        if !leaf.valid() || !other.valid() {
            return leaf.valid();
        }
        let order = key::compare_internal(&self.comparator, leaf.key(), other.key());
        match self.direction {
            Direction::Forward => order.then(a.cmp(&b)) == Ordering::Less,
            Direction::Backward => order.then(a.cmp(&b)) == Ordering::Greater,
        }
    }
}
