//! Loom models of inserts and reads: loom runs a test in every order that the memory model allows.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p tailwater --lib models`.
//!
//! Loom remembers only the last access to an atomic. When the writer reads a link after a reader
//! has read it, loom forgets the reader's access. Loom then does not try the order in which the
//! writer changes the link before the reader reads it. Therefore readers run on threads that the
//! test spawns, and the writer runs on the test's own thread, which loom runs first. Each test of a
//! reader lists all results that the reader may get, and fails unless every one of them occurred
//! and no other did.
#![cfg(loom)]

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Mutex;

use loom::sync::Arc;
use loom::thread;
use tailwater_format::Comparator;
use tailwater_format::key::{ValueType, pack_trailer};

use super::{Duplicate, SkipList, Splice};
use crate::memtable::Account;

const SHARDS: usize = 1;

fn insert(list: &SkipList, key: u8, height: usize) -> Result<(), Duplicate> {
    let mut splice = Splice::default();
    let user_key = [key];
    let target = list.target(&user_key, pack_trailer(1, ValueType::Value as u8));
    list.insert_with_height(&target, &[key, key], height, 0, &mut splice.attach(list))
}

/// Returns the keys on a level. Also checks the nodes' values, because a linked node must be
/// complete.
fn keys(list: &SkipList, level: usize) -> Vec<u8> {
    std::iter::successors(list.head().next(level), |node| node.next(level))
        .map(|node| {
            let key = node.key_parts().0[0];
            assert_eq!(node.value(), [key, key]);
            key
        })
        .collect()
}

fn finds(list: &SkipList, key: u8) -> bool {
    let user_key = [key];
    let target = list.target(&user_key, pack_trailer(1, ValueType::FOR_SEEK));
    list.find(&target).is_some_and(|node| node.key_parts().0 == user_key)
}

/// Runs `test` in every order of its steps (with at most 3 preemptions), and returns the set of its
/// results.
fn model<T: Ord + Send + 'static>(
    test: impl Fn(Arc<SkipList>) -> T + Send + Sync + 'static,
) -> BTreeSet<T> {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    let outcomes = std::sync::Arc::new(Mutex::new(BTreeSet::new()));
    let all = std::sync::Arc::clone(&outcomes);
    builder.check(move || {
        let outcome =
            test(Arc::new(SkipList::new(Comparator::Bytewise, SHARDS, Account::default())));
        all.lock().unwrap().insert(outcome);
    });
    std::mem::take(&mut outcomes.lock().unwrap())
}

fn spawn<T: 'static>(
    list: &Arc<SkipList>,
    body: impl FnOnce(&SkipList) -> T + 'static,
) -> thread::JoinHandle<T> {
    let list = Arc::clone(list);
    thread::spawn(move || body(&list))
}

#[track_caller]
fn assert_all<T: Ord + Debug>(outcomes: &BTreeSet<T>, expected: impl IntoIterator<Item = T>) {
    assert_eq!(*outcomes, expected.into_iter().collect());
}

#[test]
fn concurrent_inserts_at_one_place_are_both_linked_in_order() {
    model(|list| {
        insert(&list, 1, 2).unwrap();
        let other = spawn(&list, |list| insert(list, 3, 2).unwrap());
        insert(&list, 2, 2).unwrap();
        other.join().unwrap();
        assert_eq!(keys(&list, 0), [1, 2, 3]);
        assert_eq!(keys(&list, 1), [1, 2, 3]);
    });
}

#[test]
fn readers_see_complete_nodes_which_do_not_disappear() {
    let outcomes = model(|list| {
        insert(&list, 2, 1).unwrap();
        let reader = spawn(&list, |list| {
            let saw_last = finds(list, 3);
            (saw_last, keys(list, 0))
        });
        insert(&list, 1, 2).unwrap();
        insert(&list, 3, 1).unwrap();
        let seen = reader.join().unwrap();
        assert_eq!(keys(&list, 0), [1, 2, 3]);
        seen
    });
    let after = [vec![2], vec![1, 2], vec![1, 2, 3], vec![2, 3]];
    let unseen = after.into_iter().map(|keys| (false, keys));
    assert_all(&outcomes, unseen.chain([(true, vec![1, 2, 3])]));
}

#[test]
fn exactly_one_of_two_inserts_of_a_key_succeeds() {
    let outcomes = model(|list| {
        let other = spawn(&list, |list| insert(list, 1, 2).is_ok());
        let here = insert(&list, 1, 1).is_ok();
        assert!(here != other.join().unwrap());
        assert_eq!(keys(&list, 0), [1]);
        here
    });
    assert_all(&outcomes, [false, true]);
}

#[test]
fn a_splice_stays_valid_after_concurrent_inserts() {
    model(|list| {
        let other = spawn(&list, |list| insert(list, 3, 2).unwrap());
        let mut splice = Splice::default();
        for key in [2, 4] {
            let user_key = [key];
            let target = list.target(&user_key, pack_trailer(1, ValueType::Value as u8));
            let mut splice = splice.attach(&list);
            list.insert_with_height(&target, &[key, key], 2, 0, &mut splice).unwrap();
        }
        other.join().unwrap();
        assert_eq!(keys(&list, 0), [2, 3, 4]);
        assert_eq!(keys(&list, 1), [2, 3, 4]);
        let mut path = splice.attach(&list);
        path.move_before(None);
        let backwards: Vec<u8> =
            std::iter::successors(path.step_back(None), |&node| path.step_back(Some(node)))
                .map(|node| node.key_parts().0[0])
                .collect();
        assert_eq!(backwards, [4, 3, 2]);
    });
}

#[test]
fn the_node_located_before_a_target_sorts_before_it() {
    let outcomes = model(|list| {
        insert(&list, 1, 1).unwrap();
        insert(&list, 5, 2).unwrap();
        let reader = spawn(&list, |list| {
            let mut splice = Splice::default();
            let mut path = splice.attach(list);
            let target = list.target(&[3], pack_trailer(1, ValueType::Value as u8));
            let found = list.locate_previous(&target, &mut path);
            let before = path.step_back(found);
            [found, before].map(|node| node.map(|node| node.key_parts().0[0]))
        });
        insert(&list, 4, 2).unwrap();
        insert(&list, 2, 1).unwrap();
        reader.join().unwrap()
    });
    assert_all(&outcomes, [[Some(1), None], [Some(2), Some(1)]]);
}
