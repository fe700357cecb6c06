//! A position between two nodes of a list, kept from one search to the next.
//!
//! A splice holds, for each level, a node before the last key and the node after it. The next
//! search starts on the lowest level on which these two nodes are still neighbours and enclose the
//! new key. So searches near each other are short: a sequential insert needs only level 0.
//!
//! A splice outlives the calls that use it and borrows no list. Instead it stores the number of the
//! list to which its addresses belong. No two lists have the same number, so an address is followed
//! only while its list is alive.
#![expect(unsafe_code, reason = "turns kept addresses into nodes again, once their list is known")]

use super::node::{Node, NodeAddress};
use super::{MAX_HEIGHT, SkipList};

/// A kept position in a list; at first it belongs to no list.
#[derive(Debug, Clone)]
pub(in crate::memtable) struct Splice {
    list: u64,
    /// For each level, a node before the key. On levels that the list does not have, the head.
    previous: [NodeAddress; MAX_HEIGHT],
    /// For each level, the node that followed `previous`; null at the end of the level.
    next: [NodeAddress; MAX_HEIGHT],
}

/// A splice whose addresses are known to belong to a living list.
pub(in crate::memtable) struct AttachedSplice<'splice, 'list> {
    splice: &'splice mut Splice,
    list: &'list SkipList,
}

impl Default for Splice {
    fn default() -> Self {
        let nowhere = [NodeAddress::NONE; MAX_HEIGHT];
        Self { list: 0, previous: nowhere, next: nowhere }
    }
}

impl Splice {
    /// Makes the splice usable on a list. If it was last used on another list, it is reset.
    #[inline]
    pub(in crate::memtable) fn attach<'splice, 'list>(
        &'splice mut self,
        list: &'list SkipList,
    ) -> AttachedSplice<'splice, 'list> {
        if self.list != list.number() {
            self.list = list.number();
            self.previous = [NodeAddress::of(Some(list.head())); MAX_HEIGHT];
            self.next = [NodeAddress::NONE; MAX_HEIGHT];
        }
        AttachedSplice { splice: self, list }
    }

    /// Returns the node at an address in the list to which this splice was last attached.
    ///
    /// # Safety
    /// The address must be null or that of a node of the list to which the splice was last
    /// attached.
    ///
    /// # Panics
    /// If `list` is not the list to which the splice was last attached.
    #[inline]
    pub(in crate::memtable) unsafe fn node<'list>(
        &self,
        list: &'list SkipList,
        address: NodeAddress,
    ) -> Option<Node<'list>> {
        assert_eq!(self.list, list.number(), "a cursor was used with another memtable");
        // SAFETY: by the caller's contract the address is of the list that the splice was last
        // attached to, which is the one borrowed here.
        unsafe { Node::at(address) }
    }
}

impl<'list> AttachedSplice<'_, 'list> {
    #[inline]
    pub(in crate::memtable) fn previous(&self, level: usize) -> Node<'list> {
        // SAFETY: `attach` ensured that all addresses are of this list, which lives for `'list`.
        let node = unsafe { Node::at(self.splice.previous[level]) };
        node.unwrap_or_else(|| self.list.head())
    }

    #[inline]
    pub(in crate::memtable) fn next(&self, level: usize) -> Option<Node<'list>> {
        // SAFETY: as for `previous`.
        unsafe { Node::at(self.splice.next[level]) }
    }

    #[inline]
    pub(in crate::memtable) fn set(
        &mut self,
        level: usize,
        previous: Node<'list>,
        next: Option<Node<'list>>,
    ) {
        self.splice.previous[level] = NodeAddress::of(Some(previous));
        self.splice.next[level] = NodeAddress::of(next);
    }

    /// Moves the splice one entry back and returns that entry. The splice must be directly before
    /// `from` (`None` for the end of the list); afterwards it is directly before the returned
    /// entry.
    pub(in crate::memtable) fn step_back(
        &mut self,
        from: Option<Node<'list>>,
    ) -> Option<Node<'list>> {
        if self.previous(0).next(0) != from {
            self.move_before(from);
        }
        self.step_over_previous()
    }

    /// Moves the splice to before the entry that precedes it, and returns that entry; `None` at the
    /// beginning.
    ///
    /// On each of the entry's levels, visits a node or two and compares only addresses, unless
    /// there was a concurrent insert.
    pub(super) fn step_over_previous(&mut self) -> Option<Node<'list>> {
        let entry = self.previous(0);
        if entry == self.list.head() {
            return None;
        }
        let levels = (0..MAX_HEIGHT).take_while(|&level| self.previous(level) == entry).count();
        let mut node = if levels < MAX_HEIGHT { self.previous(levels) } else { self.list.head() };
        for level in (0..levels).rev() {
            loop {
                match node.next(level) {
                    Some(next) if next == entry => break,
                    Some(next) => node = next,
                    None => {
                        self.move_before(Some(entry));
                        return Some(entry);
                    }
                }
            }
            self.set(level, node, Some(entry));
        }
        Some(entry)
    }

    /// Moves the splice directly before `node`; `None` moves it after the last node.
    pub(in crate::memtable) fn move_before(&mut self, node: Option<Node<'list>>) {
        match node {
            Some(node) => {
                self.list.locate(&self.list.target_of(node), self);
            }
            None => self.list.locate_end(self),
        }
    }
}
