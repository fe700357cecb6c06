//! The layout of a list's nodes in memory.
//!
//! ```text
//! link height-1 ... link 1 | link 0 | prefix u64 | key length u32 | value length u32 | value's
//! a node's address --------^                                      address | key | [short value]
//! ```
//!
//! The links of the higher levels precede the node's address. So all other fields have fixed
//! offsets from the address, whatever the node's height. `key` is the internal key, and `prefix` is
//! the number that [`Target`] describes. A short key is on the same cache line as link 0 and the
//! prefix.
//!
//! A value of more than [`INLINE_VALUE_MAX`] bytes is in an arena of its own. So the nodes, which a
//! search visits at random, take fewer pages and cache lines than the entries as a whole.
//!
//! Invariants:
//! - All fields but the links are written before the node's address is stored in any link, and are
//!   never written again.
//! - Link `l` of a node is read only by threads that reached the node through a link of level `l`
//!   or higher.
//! - A link holds null or the address of a node of the same list.
#![expect(
    unsafe_code,
    reason = "nodes are laid out by hand in the arena; see the invariants above"
)]

use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::slice;

use tailwater_format::key::TRAILER_LENGTH;

use super::Target;
use crate::memtable::account::Account;
use crate::memtable::arena::{ALIGNMENT, Arena};
use crate::memtable::sync::{AtomicPtr, Ordering};
use crate::prefetch;

const LINK_SIZE: usize = size_of::<AtomicPtr<u8>>();
const PREFIX: usize = LINK_SIZE;
const KEY_LENGTH: usize = PREFIX + size_of::<u64>();
const VALUE_LENGTH: usize = KEY_LENGTH + size_of::<u32>();
const VALUE: usize = VALUE_LENGTH + size_of::<u32>();
const KEY: usize = VALUE + size_of::<NonNull<u8>>();

/// Maximum length of a value that is stored in its node, in bytes.
const INLINE_VALUE_MAX: usize = 16;

const _: () = assert!(ALIGNMENT.is_multiple_of(align_of::<AtomicPtr<u8>>()));
const _: () = assert!(LINK_SIZE.is_multiple_of(ALIGNMENT));

/// Maximum number of bytes of a value that are prefetched.
const PREFETCHED_VALUE_BYTES: usize = 256;

/// The memory of a list's nodes and values.
pub(super) struct Memory {
    nodes: Arena,
    values: Arena,
}

impl Memory {
    /// Creates empty arenas. `shards` is the number of shards of each, and `account` counts their
    /// memory; see [`Arena::new`].
    pub(super) fn new(shards: usize, account: Account) -> Self {
        Self { nodes: Arena::new(shards, account.clone()), values: Arena::new(shards, account) }
    }

    /// Returns the memory that the arenas hold, in bytes.
    pub(super) fn usage(&self) -> usize {
        self.nodes.memory_usage() + self.values.memory_usage()
    }
}

/// A node of a list. The list lives at least as long as `'list`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::memtable) struct Node<'list> {
    address: NonNull<u8>,
    list: PhantomData<&'list u8>,
}

/// The address of a node, or null. The list may be dropped while the address exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::memtable) struct NodeAddress(*mut u8);

impl Default for NodeAddress {
    fn default() -> Self {
        Self::NONE
    }
}

// SAFETY: an address is only a number; `Node::at` states when it may be followed.
unsafe impl Send for NodeAddress {}
// SAFETY: as for `Send`.
unsafe impl Sync for NodeAddress {}

/// A list's head: the node before the first entry. It is on all levels and has no key.
pub(super) struct Head(NonNull<u8>);

// SAFETY: only the links of a node change, and they are atomic.
unsafe impl Send for Head {}
// SAFETY: as for `Send`.
unsafe impl Sync for Head {}

impl Head {
    /// Creates the head of a list whose nodes are allocated in `memory`, with links for `height`
    /// levels. The head must not outlive the memory.
    pub(super) fn create(memory: &Memory, height: usize) -> Self {
        let no_key = Target { prefix: 0, user_key: &[], trailer: 0 };
        Self(Node::create(memory, 0, height, &no_key, &[]).address)
    }

    #[inline(always)]
    pub(super) fn node(&self) -> Node<'_> {
        Node { address: self.0, list: PhantomData }
    }
}

impl NodeAddress {
    pub(super) const NONE: Self = Self(ptr::null_mut());

    #[inline]
    pub(in crate::memtable) fn of(node: Option<Node<'_>>) -> Self {
        node.map_or(Self::NONE, |node| Self(node.address.as_ptr()))
    }
}

impl<'list> Node<'list> {
    /// Returns the node at an address; `None` for null.
    ///
    /// # Safety
    /// The address must be null, or that of a node whose list lives at least as long as `'list`.
    #[inline]
    pub(super) unsafe fn at(address: NodeAddress) -> Option<Self> {
        NonNull::new(address.0).map(|address| Self { address, list: PhantomData })
    }

    /// Writes a node and its value into the arenas: `height` null links, the internal key in
    /// `target`, and `value`.
    ///
    /// # Panics
    /// If the height is 0, or if the internal key or the value is longer than `u32::MAX` bytes,
    /// because the lengths are stored as `u32`.
    pub(super) fn create(
        memory: &'list Memory,
        shard: usize,
        height: usize,
        target: &Target<'_>,
        value: &[u8],
    ) -> Self {
        let user_key = target.user_key;
        let key_length = user_key.len() + TRAILER_LENGTH;
        let (Ok(stored_key_length), Ok(value_length)) =
            (u32::try_from(key_length), u32::try_from(value.len()))
        else {
            panic!("an entry of {key_length} and {} bytes is too long for a node", value.len())
        };
        assert!(height >= 1, "a node has at least one level");
        let tower = (height - 1) * LINK_SIZE;
        let inline = if value.len() <= INLINE_VALUE_MAX { value.len() } else { 0 };
        let start = memory.nodes.allocate(shard, tower + KEY + key_length + inline);
        // SAFETY: the arena allocated these bytes for this call alone: `tower` bytes for the links,
        // `KEY` bytes for the fixed fields, and those for the key and a short value. They are
        // aligned for links, and so for the numbers after them. A longer value gets as many bytes
        // of the other arena. The copied slices cannot overlap the new memory, because no other
        // code knows its address yet.
        unsafe {
            let address = start.add(tower);
            for level in 0..height {
                let link = AtomicPtr::new(ptr::null_mut::<u8>());
                address.sub(level * LINK_SIZE).cast::<AtomicPtr<u8>>().write(link);
            }
            address.add(PREFIX).cast::<u64>().write(target.prefix);
            address.add(KEY_LENGTH).cast::<u32>().write(stored_key_length);
            address.add(VALUE_LENGTH).cast::<u32>().write(value_length);
            let key = address.add(KEY);
            let trailer = key.add(user_key.len());
            let end = trailer.add(TRAILER_LENGTH);
            key.copy_from_nonoverlapping(NonNull::from(user_key).cast(), user_key.len());
            trailer.cast::<[u8; TRAILER_LENGTH]>().write(target.trailer.to_le_bytes());
            let stored_value = if inline == value.len() {
                end
            } else {
                memory.values.allocate(shard, value.len())
            };
            stored_value.copy_from_nonoverlapping(NonNull::from(value).cast(), value.len());
            address.add(VALUE).cast::<NonNull<u8>>().write(stored_value);
            Self { address, list: PhantomData }
        }
    }

    /// Returns the key's prefix, which comparisons use first; see [`Target`].
    #[inline(always)]
    pub(super) fn prefix(self) -> u64 {
        // SAFETY: the prefix was written by `create` and never changes.
        unsafe { self.address.add(PREFIX).cast::<u64>().read() }
    }

    /// Returns the internal key.
    #[inline(always)]
    pub(in crate::memtable) fn key(self) -> &'list [u8] {
        // SAFETY: `create` wrote the length, and this number of bytes after the fixed fields.
        // Neither the length nor the bytes ever change, and both live as long as the list.
        unsafe {
            let length = self.address.add(KEY_LENGTH).cast::<u32>().read();
            slice::from_raw_parts(self.address.add(KEY).as_ptr(), length as usize)
        }
    }

    /// Returns the user key and the trailer of the internal key.
    #[inline(always)]
    pub(in crate::memtable) fn key_parts(self) -> (&'list [u8], u64) {
        tailwater_format::key::split(self.key()).unwrap_or((&[], 0))
    }

    /// Returns the value.
    #[inline(always)]
    pub(in crate::memtable) fn value(self) -> &'list [u8] {
        // SAFETY: `create` wrote the length and the address, and this number of bytes there. They
        // never change, and live as long as the list.
        unsafe {
            let length = self.address.add(VALUE_LENGTH).cast::<u32>().read();
            let start = self.address.add(VALUE).cast::<NonNull<u8>>().read();
            slice::from_raw_parts(start.as_ptr(), length as usize)
        }
    }

    /// Returns the next node on a level. The caller must have reached this node on that level or a
    /// higher one.
    #[inline(always)]
    pub(in crate::memtable) fn next(self, level: usize) -> Option<Self> {
        let address = self.link(level).load(Ordering::Acquire);
        // SAFETY: a link holds null or a node of the same list, whose bytes were written before the
        // store that this load acquires.
        unsafe { Self::at(NodeAddress(address)) }
    }

    /// Sets the next node on a level. This node must not be linked on that level yet.
    #[inline]
    pub(super) fn prepare_next(self, level: usize, next: Option<Node<'list>>) {
        // Relaxed, because the release in `link_next` publishes this store.
        self.link(level).store(NodeAddress::of(next).0, Ordering::Relaxed);
    }

    /// Links `node` after this node on a level, if `next` is still the next node. Returns whether
    /// it did.
    #[inline]
    pub(super) fn link_next(self, level: usize, next: Option<Self>, node: Self) -> bool {
        let (next, node) = (NodeAddress::of(next).0, node.address.as_ptr());
        let link = self.link(level);
        link.compare_exchange(next, node, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// Prefetches the cache line at the node's address.
    #[inline(always)]
    pub(in crate::memtable) fn prefetch(self) {
        prefetch::line(self.address.as_ptr());
    }

    /// Prefetches the first cache lines of the value. Reads the node.
    #[inline(always)]
    pub(in crate::memtable) fn prefetch_value(self) {
        let value = self.value();
        prefetch::bytes(&value[..value.len().min(PREFETCHED_VALUE_BYTES)]);
    }

    #[inline(always)]
    fn link(self, level: usize) -> &'list AtomicPtr<u8> {
        // SAFETY: the node has this level, because the caller reached it on that level or is
        // linking it there, and `create` wrote a link for each of the node's levels.
        unsafe { self.address.sub(level * LINK_SIZE).cast::<AtomicPtr<u8>>().as_ref() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: in builds without debug assertions, the length of a long value was
    /// truncated to 32 bits. A read of the value then took the bytes after the node as the rest of
    /// the value, possibly beyond the end of the allocated memory.
    #[test]
    #[should_panic(expected = "too long for a node")]
    fn a_value_whose_length_does_not_fit_is_refused() {
        let memory = Memory::new(1, Account::default());
        let target = Target { prefix: 0, user_key: b"key", trailer: 0 };
        // These zeros are never read or written, so the system does not back them with memory.
        let value = vec![0; u32::MAX as usize + 1];
        Node::create(&memory, 0, 1, &target, &value);
    }
}
