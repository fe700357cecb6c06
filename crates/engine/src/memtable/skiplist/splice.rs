//! A position between two nodes of a list, kept from one search to the next.
//!
//! A splice holds, for each level, a node before the last search's key and the node after it. The
//! next search starts on the lowest level on which these two nodes are still neighbours and enclose
//! the new key. So a search is short if its key is near the last one: an insert of sequential keys
//! only needs level 0.
//!
//! A splice outlives the calls that use it, and does not borrow a list. Instead it stores the
//! number of the list to which its addresses belong. Before an address is followed, the number is
//! compared with that of a borrowed list. List numbers are never reused, so the address then
//! belongs to that list, which is alive.
#![expect(unsafe_code, reason = "turns kept addresses into nodes again, once their list is known")]

use super::node::{Node, NodeAddress};
use super::{MAX_HEIGHT, SkipList};

/// A position in a list, kept between searches. A new splice belongs to no list.
#[derive(Debug, Clone)]
pub(in crate::memtable) struct Splice {
    list: u64,
    /// For each level, a node before the splice's position. When the node was stored here, it was
    /// the last one before the position; others may have been inserted since. On a level that the
    /// list does not use, this is the list's head.
    previous: [NodeAddress; MAX_HEIGHT],
    /// For each level, the node that followed `previous` at the time when the splice's position was
    /// found. Null if `previous` was the level's last node.
    next: [NodeAddress; MAX_HEIGHT],
}

/// A splice together with the borrowed list to which its addresses belong.
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
    /// Attaches the splice to a list, which makes it usable. If it was last attached to another
    /// list, it is reset.
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
        // SAFETY: the caller guarantees that the address is of the list to which the splice was
        // last attached. The assertion above checks that it is `list`, which is borrowed.
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

    /// Moves the splice one entry back and returns that entry; `None` at the beginning. The splice
    /// should be directly before `from` (`None` means the end of the list); if it is not, it is
    /// moved there first. Afterwards the splice is directly before the returned entry.
    pub(in crate::memtable) fn step_back(
        &mut self,
        from: Option<Node<'list>>,
    ) -> Option<Node<'list>> {
        if self.previous(0).next(0) != from {
            self.move_before(from);
        }
        self.step_over_previous()
    }

    /// Moves the splice back over one entry and returns that entry; `None` at the beginning.
    /// Afterwards the splice is directly before that entry.
    ///
    /// This does not search for a key. On each of the entry's levels, it visits one or two nodes
    /// and compares only addresses, unless other nodes were inserted concurrently.
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

    /// Moves the splice directly before `node`; with `None`, after the last node.
    pub(in crate::memtable) fn move_before(&mut self, node: Option<Node<'list>>) {
        match node {
            Some(node) => {
                self.list.locate(&self.list.target_of(node), self);
            }
            None => self.list.locate_end(self),
        }
    }
}
