//! A skiplist: a sorted list of entries that many threads insert into and read concurrently.
//!
//! Every node is on level 0. Half of the nodes of each level are also on the next higher level. A
//! search begins on the highest level. It follows the level to the last node before its target, and
//! continues from that node one level lower, down to level 0. It takes about one step forward per
//! level.
//!
//! A search waits for memory at every step forward: only the node before says where the next one
//! is. The nodes at which it may step down are known earlier, and are prefetched. So a list with
//! few steps forward is faster, although it has more levels: with a quarter instead of half of the
//! nodes on the next higher level, a search takes three steps forward for every two levels of this
//! list.
//!
//! Invariants:
//! - Nodes are never removed and never change, apart from their links.
//! - Each level is always sorted, strictly ascending by internal key.
//! - A node is linked on its levels from the lowest to the highest, so that a reader that sees the
//!   node on a level sees it on all lower levels.
//! - A node's bytes are written before it is linked, and the store that links it has release
//!   ordering. Links are read with acquire ordering.
//!
//! An insert finds the position and writes the node. Then, on each of the node's levels, it points
//! the node at its successor, and replaces the predecessor's link to the successor by a link to the
//! node, with a compare-and-exchange. If another insert has changed that link first, the insert
//! searches on from the predecessor and tries again. Neither reads nor inserts wait: an insert
//! repeats a step only when another insert has made progress.
//!
//! A node also holds the first eight bytes of its user key as a number that sorts like these bytes.
//! Most comparisons need only this number. It is on the cache line that a search must read anyway
//! to follow the node's links.

#[cfg(test)]
mod models;
mod node;
mod splice;

use std::cmp::Ordering as KeyOrdering;
use std::sync::atomic::AtomicU64;

use tailwater_format::Comparator;

use super::account::Account;
use super::random;
use super::sync::{AtomicUsize, Ordering};

use node::{Head, Memory};
pub(super) use node::{Node, NodeAddress};
pub(super) use splice::{AttachedSplice, Splice};

/// Maximum number of levels. Suffices for 2 to the power of 18 (260,000) nodes; in larger lists,
/// searches take more steps.
const MAX_HEIGHT: usize = 18;

/// Number of levels below a search's level on which it prefetches the next node.
const PREFETCHED_LEVELS: usize = 2;

/// The number of the next list to be created, from 1.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);

/// A sorted list of entries.
pub(super) struct SkipList {
    /// Identifies the list in this process. Numbers are never reused.
    number: u64,
    comparator: Comparator,
    head: Head,
    /// Number of levels that have nodes; at least 1.
    height: AtomicUsize,
    memory: Memory,
}

/// An internal key to look for or insert.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    /// The user key's [`Comparator::leading_word`].
    prefix: u64,
    user_key: &'a [u8],
    trailer: u64,
}

/// The error of an insert whose internal key is already in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Duplicate;

impl SkipList {
    /// Creates an empty list. `shards` is the number of the arenas' shards, and `account` counts
    /// their memory; see [`Memory::new`].
    pub(super) fn new(comparator: Comparator, shards: usize, account: Account) -> Self {
        let memory = Memory::new(shards, account);
        let head = Head::create(&memory, MAX_HEIGHT);
        let number = NEXT_NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Self { number, comparator, head, height: AtomicUsize::new(1), memory }
    }

    /// Returns the list's number, which identifies it in this process and is never reused.
    #[inline]
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the comparator of user keys.
    #[inline]
    pub(super) fn comparator(&self) -> &Comparator {
        &self.comparator
    }

    /// Returns the memory that the list holds, in bytes.
    pub(super) fn memory_usage(&self) -> usize {
        self.memory.usage()
    }

    /// Returns the head: a node before the first entry, without a key.
    #[inline]
    pub(super) fn head(&self) -> Node<'_> {
        self.head.node()
    }

    /// Returns the search target for a user key and trailer.
    #[inline]
    pub(super) fn target<'a>(&self, user_key: &'a [u8], trailer: u64) -> Target<'a> {
        Target { prefix: self.comparator.leading_word(user_key), user_key, trailer }
    }

    /// Whether two user keys are equal in the order of this list.
    #[inline]
    pub(super) fn same_user_key(&self, a: &[u8], b: &[u8]) -> bool {
        match &self.comparator {
            Comparator::Bytewise | Comparator::ReverseBytewise => a == b,
            other => other.compare(a, b) == KeyOrdering::Equal,
        }
    }

    /// Returns the first node at or after the target.
    #[inline]
    pub(super) fn find(&self, target: &Target<'_>) -> Option<Node<'_>> {
        let mut level = self.height() - 1;
        let mut node = self.head();
        let mut bound = None;
        loop {
            let next = node.next(level);
            prefetch_below(node, level);
            match next {
                // `bound` is the node at which the search on the level above ended. It is not
                // before the target, so it need not be compared again on this level.
                Some(next) if Some(next) != bound && self.is_before(next, target) => node = next,
                _ if level == 0 => return next,
                _ => {
                    bound = next;
                    level -= 1;
                }
            }
        }
    }

    /// Returns the first node at or after the target. The search starts from the splice's position.
    /// Afterwards the splice is directly before that node.
    #[inline]
    pub(super) fn locate<'list>(
        &'list self,
        target: &Target<'_>,
        splice: &mut AttachedSplice<'_, 'list>,
    ) -> Option<Node<'list>> {
        let height = self.height();
        let start = self.lowest_enclosing_level(target, splice, height);
        let (mut node, mut bound) = if start < height {
            (splice.previous(start), splice.next(start))
        } else {
            (self.head(), None)
        };
        for level in (0..start).rev() {
            (node, bound) = self.walk(level, node, bound, target);
            splice.set(level, node, bound);
        }
        bound
    }

    /// Returns the last node at or before the target. The search starts from the splice's position.
    /// Afterwards the splice is directly before that node, or at the beginning if there is no such
    /// node.
    pub(super) fn locate_previous<'list>(
        &'list self,
        target: &Target<'_>,
        splice: &mut AttachedSplice<'_, 'list>,
    ) -> Option<Node<'list>> {
        match self.locate(target, splice) {
            Some(node) if self.is_at(node, target) => Some(node),
            // Takes the predecessor that the search has found, which the splice holds. Another node
            // may have been inserted directly before the target since then; it is ignored.
            _ => splice.step_over_previous(),
        }
    }

    /// Returns a node's own key as a [`Target`], which is the form of a key to search for.
    #[inline]
    pub(super) fn target_of<'list>(&self, node: Node<'list>) -> Target<'list> {
        let (user_key, trailer) = node.key_parts();
        Target { prefix: node.prefix(), user_key, trailer }
    }

    /// Whether the node has the target's internal key.
    #[inline]
    pub(super) fn is_at(&self, node: Node<'_>, target: &Target<'_>) -> bool {
        self.compare(node, target).is_eq()
    }

    /// Moves the splice after the last entry.
    pub(super) fn locate_end<'list>(&'list self, splice: &mut AttachedSplice<'_, 'list>) {
        let mut node = self.head();
        for level in (0..self.height()).rev() {
            while let Some(next) = node.next(level) {
                node = next;
            }
            splice.set(level, node, None);
        }
    }

    /// Inserts an entry. The search starts from the splice's position. Afterwards the splice is
    /// directly after the entry. `shard` selects the arenas' shard and may be any number; see
    /// `Arena::allocate`.
    ///
    /// The internal key may have at most `u32::MAX` bytes, and so may the value.
    ///
    /// # Errors
    /// If the internal key is already in the list.
    #[inline]
    pub(super) fn insert<'list>(
        &'list self,
        target: &Target<'_>,
        value: &[u8],
        shard: usize,
        splice: &mut AttachedSplice<'_, 'list>,
    ) -> Result<(), Duplicate> {
        self.insert_with_height(target, value, random_height(), shard, splice)
    }

    /// Inserts an entry whose node is on `height` levels, which must be from 1 to [`MAX_HEIGHT`].
    fn insert_with_height<'list>(
        &'list self,
        target: &Target<'_>,
        value: &[u8],
        height: usize,
        shard: usize,
        splice: &mut AttachedSplice<'_, 'list>,
    ) -> Result<(), Duplicate> {
        if let Some(next) = self.locate(target, splice)
            && self.is_at(next, target)
        {
            return Err(Duplicate);
        }
        let node = Node::create(&self.memory, shard, height, target, value);
        if height > self.height() {
            self.height.fetch_max(height, Ordering::Relaxed);
        }
        for level in 0..height {
            self.link(level, node, target, splice)?;
        }
        Ok(())
    }

    /// Links a node on a level, at the splice's position. If another insert changed the link there,
    /// searches on for the node's position.
    #[inline]
    fn link<'list>(
        &'list self,
        level: usize,
        node: Node<'list>,
        target: &Target<'_>,
        splice: &mut AttachedSplice<'_, 'list>,
    ) -> Result<(), Duplicate> {
        let (mut previous, mut next) = (splice.previous(level), splice.next(level));
        loop {
            node.prepare_next(level, next);
            if previous.link_next(level, next, node) {
                splice.set(level, node, next);
                return Ok(());
            }
            (previous, next) = self.walk(level, previous, None, target);
            // A duplicate is found here only on level 0, which is linked first. So the node is not
            // linked on any level yet.
            if level == 0
                && let Some(next) = next
                && self.is_at(next, target)
            {
                splice.set(level, previous, Some(next));
                return Err(Duplicate);
            }
        }
    }

    /// Returns the last node before the target on a level, and the node after it. Starts at `node`,
    /// which must be before the target. `bound` may be a node known not to be before the target; it
    /// is not compared.
    #[inline]
    fn walk<'list>(
        &'list self,
        level: usize,
        mut node: Node<'list>,
        bound: Option<Node<'list>>,
        target: &Target<'_>,
    ) -> (Node<'list>, Option<Node<'list>>) {
        loop {
            let next = node.next(level);
            prefetch_below(node, level);
            match next {
                Some(next) if Some(next) != bound && self.is_before(next, target) => node = next,
                _ => return (node, next),
            }
        }
    }

    /// Returns the lowest level on which the splice's two nodes enclose the target and are still
    /// neighbours; `height` if there is no such level.
    ///
    /// If this is level 0, then the splice's two nodes on every higher level enclose the target,
    /// too, even if other nodes have been inserted between them. The reason: the splice's nodes on
    /// all levels enclosed the key of the last search. On level 0, which has all nodes of the list,
    /// the splice's two nodes are still neighbours. So the two nodes of a higher level are not
    /// between them, and enclose everything that the two nodes on level 0 enclose, including the
    /// target.
    #[inline]
    fn lowest_enclosing_level(
        &self,
        target: &Target<'_>,
        splice: &AttachedSplice<'_, '_>,
        height: usize,
    ) -> usize {
        let mut before = self.head();
        let mut behind = None;
        let mut encloses = |level| {
            let (previous, next) = (splice.previous(level), splice.next(level));
            let enclosed = previous.next(level) == next
                && (previous == before || self.is_before(previous, target))
                && next.is_none_or(|node| next == behind || !self.is_before(node, target));
            if enclosed {
                (before, behind) = (previous, next);
            }
            enclosed
        };
        if encloses(0) {
            return 0;
        }
        let mut lowest = height;
        while lowest > 1 && encloses(lowest - 1) {
            lowest -= 1;
        }
        lowest
    }

    #[inline(always)]
    fn is_before(&self, node: Node<'_>, target: &Target<'_>) -> bool {
        self.compare(node, target) == KeyOrdering::Less
    }

    #[inline(always)]
    fn compare(&self, node: Node<'_>, target: &Target<'_>) -> KeyOrdering {
        node.prefix().cmp(&target.prefix).then_with(|| {
            let (user_key, trailer) = node.key_parts();
            self.comparator
                .compare(user_key, target.user_key)
                .then_with(|| target.trailer.cmp(&trailer))
        })
    }

    #[inline]
    fn height(&self) -> usize {
        // Relaxed: the load may miss that a level has just got its first node. Then only this
        // search takes more steps.
        self.height.load(Ordering::Relaxed)
    }
}

/// Prefetches the nodes at which a search may continue if it moves down from this node and level.
#[inline(always)]
fn prefetch_below(node: Node<'_>, level: usize) {
    for below in level.saturating_sub(PREFETCHED_LEVELS)..level {
        if let Some(next) = node.next(below) {
            next.prefetch();
        }
    }
}

/// Returns a random height: 1 with probability 1/2, and each further level with probability 1/2, up
/// to [`MAX_HEIGHT`].
#[inline]
fn random_height() -> usize {
    let random = random::bits() | 1 << (MAX_HEIGHT - 1);
    1 + random.trailing_zeros() as usize
}
