//! A sorted list of entries that many threads insert into and read concurrently.
//!
//! Every node is on level 0; a quarter of the nodes of a level are also on the next higher level. A
//! search follows the highest level to the last node before its target, and continues from that
//! node a level below, and so on: about two steps on each level.
//!
//! Invariants:
//! - Nodes are never removed and never change, apart from their links.
//! - Each level is always sorted, strictly ascending by internal key.
//! - A node is linked on its levels from the lowest to the highest, so that a reader that sees the
//!   node on a level sees it on all lower levels.
//! - A node's bytes are written before the store with release ordering that links the node. Links
//!   are read with acquire ordering.
//!
//! An insert finds the position and writes the node. On each level it then points the node at its
//! successor, and changes the predecessor's link from that successor to the node; if another insert
//! has changed the link first, it searches on from the predecessor and tries again. Neither readers
//! nor inserts wait: an insert repeats a step only when another insert has made progress.
//!
//! A node holds the first eight bytes of its user key as a number that sorts like the key. Most
//! comparisons need only this number, which is on the cache line that the step to the node has to
//! read anyway.

#[cfg(test)]
mod models;
mod node;
mod splice;

use std::cmp::Ordering as KeyOrdering;
use std::sync::atomic::AtomicU64;

use tailwater_format::Comparator;

use super::arena::Arena;
use super::random;
use super::sync::{AtomicUsize, Ordering};

use node::Head;
pub(super) use node::{Node, NodeAddress};
pub(super) use splice::{AttachedSplice, Splice};

/// Maximum number of levels. Enough for 4 to the power of 12 (17 million) nodes; in larger lists,
/// searches get slower.
const MAX_HEIGHT: usize = 12;

/// Base-2 logarithm of the ratio between the numbers of nodes on a level and on the next level.
const BRANCHING_BITS: u32 = 2;

/// The number that the next list gets; the first list gets 1.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);

/// A sorted list of entries.
pub(super) struct SkipList {
    /// A number that no other list ever has.
    number: u64,
    comparator: Comparator,
    head: Head,
    /// Number of levels with nodes; at least 1.
    height: AtomicUsize,
    arena: Arena,
}

/// An internal key to look for or insert.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    /// A number that sorts like the user key, except that different keys may have the same number:
    /// the key's first eight bytes, big-endian, padded with zeros, and inverted for the reverse
    /// order. 0 for all keys if the comparator is not built in.
    prefix: u64,
    user_key: &'a [u8],
    trailer: u64,
}

/// The error if an entry is already in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Duplicate;

impl SkipList {
    /// Creates an empty list. See [`Arena::new`] for the number of shards.
    pub(super) fn new(comparator: Comparator, shards: usize) -> Self {
        let arena = Arena::new(shards);
        let head = Head::create(&arena, MAX_HEIGHT);
        let number = NEXT_NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Self { number, comparator, head, height: AtomicUsize::new(1), arena }
    }

    /// Returns the list's number, which no other list ever has.
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
        self.arena.memory_usage()
    }

    /// Returns the node before the first entry. It has no key.
    #[inline]
    pub(super) fn head(&self) -> Node<'_> {
        self.head.node()
    }

    /// Returns the target for a user key and trailer.
    #[inline]
    pub(super) fn target<'a>(&self, user_key: &'a [u8], trailer: u64) -> Target<'a> {
        let prefix = match self.comparator {
            Comparator::Bytewise => first_bytes(user_key),
            Comparator::ReverseBytewise => !first_bytes(user_key),
            _ => 0,
        };
        Target { prefix, user_key, trailer }
    }

    /// Whether two user keys are equal in this list's order.
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
            if level > 0
                && let Some(below) = node.next(level - 1)
            {
                // On average every other step moves a level down, so the node that would be next
                // there is prefetched.
                below.prefetch();
            }
            match next {
                // `bound` ended the search on the level above: it is not before the target on this
                // level either, so it need not be compared again.
                Some(next) if Some(next) != bound && self.is_before(next, target) => node = next,
                _ if level == 0 => return next,
                _ => {
                    bound = next;
                    level -= 1;
                }
            }
        }
    }

    /// Returns the first node at or after the target. The search starts from the splice's position;
    /// afterwards the splice encloses the target.
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

    /// Returns the last node at or before the target. The search starts from the splice's position;
    /// afterwards the splice is directly before that node, or at the beginning if there is none.
    pub(super) fn locate_previous<'list>(
        &'list self,
        target: &Target<'_>,
        splice: &mut AttachedSplice<'_, 'list>,
    ) -> Option<Node<'list>> {
        match self.locate(target, splice) {
            Some(node) if self.is_at(node, target) => Some(node),
            // The predecessor is taken from the splice. The current predecessor of the node after
            // the target may be another node that was inserted since.
            _ => splice.step_over_previous(),
        }
    }

    /// Returns the target for a node's own key.
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

    /// Moves the splice past the last entry.
    pub(super) fn locate_end<'list>(&'list self, splice: &mut AttachedSplice<'_, 'list>) {
        let mut node = self.head();
        for level in (0..self.height()).rev() {
            while let Some(next) = node.next(level) {
                node = next;
            }
            splice.set(level, node, None);
        }
    }

    /// Inserts an entry. The search starts from the splice's position; afterwards the splice is
    /// directly after the entry. Any number is valid for `shard`, see [`Arena::allocate`].
    ///
    /// The user key and its trailer together, and the value, must each have at most `u32::MAX`
    /// bytes.
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

    /// Inserts an entry on `height` levels, from 1 to [`MAX_HEIGHT`].
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
        let node = Node::create(&self.arena, shard, height, target, value);
        if height > self.height() {
            self.height.fetch_max(height, Ordering::Relaxed);
        }
        for level in 0..height {
            self.link(level, node, target, splice)?;
        }
        Ok(())
    }

    /// Links a node on a level, at the splice's position or after it.
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
            // A duplicate is found on level 0, before the node is linked on any level.
            if level == 0
                && let Some(next) = next
                && self.is_at(next, target)
            {
                splice.set(level, previous, Some(next));
                return Err(Duplicate);
            }
        }
    }

    /// Follows a level from a node before the target to the last node before the target. `bound` is
    /// a node that is known not to be before the target.
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
            if level > 0
                && let Some(below) = node.next(level - 1)
            {
                below.prefetch();
            }
            match next {
                Some(next) if Some(next) != bound && self.is_before(next, target) => node = next,
                _ => return (node, next),
            }
        }
    }

    /// Returns the lowest level on which the splice's two nodes are neighbours and enclose the
    /// target; `height` if there is no such level.
    ///
    /// If level 0 is such a level, the nodes of all higher levels enclose the target as well,
    /// though perhaps no longer as neighbours: they enclosed the last key, too, and they are also
    /// on level 0, where no node is between the two neighbours.
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
        // A level that just got its first node may be missed. That only makes this search longer.
        self.height.load(Ordering::Relaxed)
    }
}

/// Returns the first eight bytes of a key as a number that sorts like these bytes.
#[inline(always)]
fn first_bytes(key: &[u8]) -> u64 {
    match key.first_chunk() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => key.iter().rev().fold(0, |number, &byte| (number >> 8) | (u64::from(byte) << 56)),
    }
}

/// Returns a random height for a node, with the distribution that the levels need.
#[inline]
fn random_height() -> usize {
    let random = random::bits() | 1 << (BRANCHING_BITS * (MAX_HEIGHT as u32 - 1));
    1 + (random.trailing_zeros() / BRANCHING_BITS) as usize
}
