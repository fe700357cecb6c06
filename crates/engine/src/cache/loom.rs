//! Loom tests, which run all interleavings of a few threads. Two tests run a lookup while another
//! thread removes an entry and inserts another into the same slot of the table; in one of the two,
//! the removed entry is also freed. The third test is about the slab allocator: threads push
//! dropped slots on a stack while another thread takes them.
//!
//! Values hold loom's own cell, and freeing a value writes to it, so loom reports a lookup whose
//! read of the value is not ordered before the freeing.

#![expect(unsafe_code, reason = "loom checks the accesses that the table's contract allows")]

use loom::cell::UnsafeCell;
use loom::sync::Arc as Shared;
use loom::thread;

use super::entry::{Cached, Key, Node, Priority};
use super::slab::{Returned, ReturnedStack};
use super::table::Table;
use crate::epoch::domain::Domain;
use std::ptr::{self, NonNull};
use std::sync::Arc;

const FREED: u64 = 0xdead;
/// A hash shared by all entries.
const HASH: u64 = 0x5500_0000_0000_0000;

/// A value that records that it was freed.
struct Value(UnsafeCell<u64>);

// SAFETY: the tests check that accesses to the cell are ordered; loom checks every access.
unsafe impl Sync for Value {}
// SAFETY: accesses to the cell are ordered as for `Sync`, so the value may also be sent.
unsafe impl Send for Value {}

fn node(offset: u64) -> Arc<Node<Value>> {
    let value = Value(UnsafeCell::new(offset));
    let cached = Arc::new(Cached::standalone(value));
    Arc::new(Node::new(Key { file: 1, offset }, cached, Priority::Low, 0))
}

/// Looks up the entry with this offset, as a reader does. Returns the number in its value.
fn look(domain: &Domain, table: &Table<Value>, hash: u64, offset: u64) -> Option<u64> {
    let key = Key { file: 1, offset };
    let slot = domain.take_slot();
    domain.enter(slot);
    // SAFETY: this thread has entered the domain above and leaves it below, and the writer frees
    // removed entries through the same domain.
    let found = unsafe { table.find(hash, key) };
    let answer = found.map(|node| {
        node.touch();
        // SAFETY: loom fails the test if a write to the value is not ordered before or after this
        // read.
        node.value.0.with(|value| unsafe { *value })
    });
    slot.leave();
    slot.release();
    answer
}

fn free_if_due(domain: &Domain, stamp: u64, node: &Node<Value>) {
    if stamp < domain.oldest_pinned() {
        // SAFETY: loom fails the test if a read of the value is not ordered before this write.
        node.value.0.with_mut(|value| unsafe { *value = FREED });
    }
}

#[test]
fn a_lookup_finds_a_live_entry_or_none() {
    loom::model(|| {
        // The table has one bucket, so the second entry gets the slot of the first.
        let shared = Shared::new((Domain::new(), Table::<Value>::new(1)));
        let (first, second) = (node(10), node(20));
        shared.1.insert(HASH, Arc::as_ptr(&first));
        let reader = {
            let shared = Shared::clone(&shared);
            thread::spawn(move || {
                let found = look(&shared.0, &shared.1, HASH, 10);
                assert!(matches!(found, None | Some(10)), "found {found:?}");
            })
        };
        let (domain, table) = (&shared.0, &shared.1);
        table.remove(HASH, Arc::as_ptr(&first));
        let stamp = domain.advance();
        table.insert(HASH, Arc::as_ptr(&second));
        free_if_due(domain, stamp, &first);
        reader.join().expect("the reader found what it should");
        assert_eq!(look(domain, table, HASH, 10), None);
        assert_eq!(look(domain, table, HASH, 20), Some(20));
    });
}

#[test]
fn a_lookup_never_sees_a_partial_insert() {
    loom::model(|| {
        // Both entries have the same hash, so the tag of the removed entry can lead a reader to the
        // pointer of the new entry.
        let shared = Shared::new((Domain::new(), Table::<Value>::new(1)));
        let first = node(10);
        shared.1.insert(HASH, Arc::as_ptr(&first));
        let reader = {
            let shared = Shared::clone(&shared);
            thread::spawn(move || {
                let found = look(&shared.0, &shared.1, HASH, 20);
                assert!(matches!(found, None | Some(20)), "found {found:?}");
            })
        };
        shared.1.remove(HASH, Arc::as_ptr(&first));
        let second = node(20);
        shared.1.insert(HASH, Arc::as_ptr(&second));
        reader.join().expect("the reader found what it should");
    });
}

/// A slot for a value. When the slot has been dropped, `returned` links it into the stack of
/// dropped slots.
#[repr(C)]
struct Slot {
    returned: Returned,
    value: UnsafeCell<u64>,
}

#[test]
fn writes_to_a_reused_slot_follow_all_reads_of_its_old_value() {
    loom::model(|| {
        let stack = Shared::new(ReturnedStack::new());
        let droppers: Vec<_> = (1..=2)
            .map(|number| {
                let stack = Shared::clone(&stack);
                thread::spawn(move || {
                    let returned = Returned { next: ptr::null_mut() };
                    let slot = Box::new(Slot { returned, value: UnsafeCell::new(number) });
                    // SAFETY: loom fails the test if a write to the value is not ordered after this
                    // read.
                    assert_eq!(slot.value.with(|value| unsafe { *value }), number);
                    // SAFETY: a slot begins with its `Returned`.
                    unsafe { stack.push(NonNull::from(Box::leak(slot)).cast()) };
                })
            })
            .collect();
        let mut seen = 0;
        let mut take = || {
            let mut next = stack.take_all();
            while let Some(first) = NonNull::new(next) {
                // SAFETY: the slot was leaked above. `take_all` removed it from the stack and
                // returned it to this thread only, so this thread owns the slot exclusively.
                let slot = unsafe { Box::from_raw(first.cast::<Slot>().as_ptr()) };
                next = slot.returned.next;
                // SAFETY: this thread owns the slot exclusively, and loom checks the order of
                // accesses.
                seen += slot.value.with_mut(|value| unsafe { std::mem::take(&mut *value) });
            }
        };
        take();
        droppers.into_iter().for_each(|dropper| dropper.join().expect("it returns its slot"));
        take();
        assert_eq!(seen, 3);
    });
}
