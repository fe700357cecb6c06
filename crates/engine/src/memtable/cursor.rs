//! A position in a memtable.
//!
//! A cursor keeps the address of a node, and borrows the memtable only during a call. So its owner
//! can keep the cursor and the memtable in the same struct. Two properties make this sound. First,
//! nodes are neither moved nor freed before their memtable is dropped. Second, every call checks
//! that it was given the memtable to which the address belongs, before it follows the address. The
//! check compares the number of the memtable's list, which is never reused.
#![expect(unsafe_code, reason = "follows kept addresses of nodes; see above")]

use tailwater_format::key;

use super::MemTable;
use super::skiplist::{Node, NodeAddress, SkipList, Splice, Target};

/// A position among the point entries of a memtable. Range deletions are stored elsewhere.
///
/// Every call must be given the memtable in which the cursor was last positioned; otherwise it
/// panics. A call may or may not see entries that are added concurrently. No call allocates memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cursor {
    /// The current node. It belongs to the list to which `path` is attached. Null if the cursor is
    /// not valid.
    node: NodeAddress,
    path: Splice,
    /// Whether `path` is the position directly before `node`. If not, a move backward must first
    /// search for that position.
    path_leads_here: bool,
}

impl Cursor {
    /// Whether the cursor is positioned on an entry.
    #[inline]
    pub(crate) fn valid(&self) -> bool {
        self.node != NodeAddress::default()
    }

    /// Returns the current entry's internal key; empty if the cursor is not valid.
    #[inline]
    pub(crate) fn key<'a>(&self, memtable: &'a MemTable) -> &'a [u8] {
        self.node(&memtable.list).map_or(&[], Node::key)
    }

    /// Returns the current entry's value; empty if the cursor is not valid.
    #[inline]
    pub(crate) fn value<'a>(&self, memtable: &'a MemTable) -> &'a [u8] {
        self.node(&memtable.list).map_or(&[], Node::value)
    }

    /// Moves to the first entry at or after the internal key.
    pub(crate) fn seek(&mut self, memtable: &MemTable, internal_key: &[u8]) {
        self.node = NodeAddress::default();
        let list = &memtable.list;
        let node = list.locate(&target(list, internal_key), &mut self.path.attach(list));
        self.stand_on(node, true);
    }

    /// Moves to the last entry at or before the internal key.
    pub(crate) fn seek_for_previous(&mut self, memtable: &MemTable, internal_key: &[u8]) {
        self.node = NodeAddress::default();
        let list = &memtable.list;
        let target = target(list, internal_key);
        let node = list.locate_previous(&target, &mut self.path.attach(list));
        self.stand_on(node, true);
    }

    /// Moves to the first entry.
    pub(crate) fn seek_to_first(&mut self, memtable: &MemTable) {
        self.node = NodeAddress::default();
        self.path.attach(&memtable.list);
        self.stand_on(memtable.list.head().next(0), false);
    }

    /// Moves to the last entry.
    pub(crate) fn seek_to_last(&mut self, memtable: &MemTable) {
        self.node = NodeAddress::default();
        let list = &memtable.list;
        let mut path = self.path.attach(list);
        list.locate_end(&mut path);
        let node = path.step_back(None);
        self.stand_on(node, true);
    }

    /// Moves to the next entry. After the last entry, the cursor is not valid. Does nothing if the
    /// cursor is not valid.
    #[inline]
    pub(crate) fn next(&mut self, memtable: &MemTable) {
        let next = self.node(&memtable.list).and_then(|node| node.next(0));
        // The node after the next one was prefetched by the last step.
        if let Some(second) = next.and_then(|next| next.next(0)) {
            second.prefetch_value();
            if let Some(third) = second.next(0) {
                third.prefetch();
            }
        }
        self.stand_on(next, false);
    }

    /// Moves to the previous entry. If the current entry is the first, the cursor becomes invalid.
    /// Does nothing if the cursor is already invalid.
    pub(crate) fn previous(&mut self, memtable: &MemTable) {
        let list = &memtable.list;
        let Some(node) = self.node(list) else { return };
        let mut path = self.path.attach(list);
        if !self.path_leads_here {
            path.move_before(Some(node));
        }
        let previous = path.step_back(Some(node));
        self.stand_on(previous, true);
    }

    #[inline]
    fn stand_on(&mut self, node: Option<Node<'_>>, path_leads_here: bool) {
        self.node = NodeAddress::of(node);
        self.path_leads_here = path_leads_here;
    }

    #[inline]
    fn node<'a>(&self, list: &'a SkipList) -> Option<Node<'a>> {
        if !self.valid() {
            return None;
        }
        // SAFETY: `node` is set only to nodes of the list to which `path` is attached, and is
        // cleared before `path` is attached to another list.
        unsafe { self.path.node(list, self.node) }
    }
}

/// Returns the search target for an internal key. A key that is too short to have a trailer is
/// taken as a user key; the target then sorts after all versions of that user key.
#[inline]
fn target<'a>(list: &SkipList, internal_key: &'a [u8]) -> Target<'a> {
    let (user_key, trailer) = key::split(internal_key).unwrap_or((internal_key, 0));
    list.target(user_key, trailer)
}
