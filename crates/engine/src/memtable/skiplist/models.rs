//! Inserts and reads in every order that the memory model allows.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p tailwater --lib models`.
#![cfg(loom)]

use loom::sync::Arc;
use loom::thread;
use tailwater_format::Comparator;
use tailwater_format::key::{ValueType, pack_trailer};

use super::{Duplicate, SkipList, Splice};

const SHARDS: usize = 1;

fn insert(list: &SkipList, key: u8, height: usize) -> Result<(), Duplicate> {
    let mut splice = Splice::default();
    let user_key = [key];
    let target = list.target(&user_key, pack_trailer(1, ValueType::Value as u8));
    list.insert_with_height(&target, &[key, key], height, 0, &mut splice.attach(list))
}

/// The keys on a level, with their values checked: a node that is linked must be whole.
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

fn model(test: impl Fn(Arc<SkipList>) + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || test(Arc::new(SkipList::new(Comparator::Bytewise, SHARDS))));
}

#[test]
fn inserts_at_one_place_are_both_there_in_order() {
    model(|list| {
        insert(&list, 1, 2).unwrap();
        let other = {
            let list = Arc::clone(&list);
            thread::spawn(move || insert(&list, 3, 2).unwrap())
        };
        insert(&list, 2, 2).unwrap();
        other.join().unwrap();
        assert_eq!(keys(&list, 0), [1, 2, 3]);
        assert_eq!(keys(&list, 1), [1, 2, 3]);
    });
}

#[test]
fn readers_see_whole_nodes_and_keep_what_they_saw() {
    model(|list| {
        insert(&list, 2, 1).unwrap();
        let writer = {
            let list = Arc::clone(&list);
            thread::spawn(move || {
                insert(&list, 1, 2).unwrap();
                insert(&list, 3, 1).unwrap();
            })
        };
        let saw_last = finds(&list, 3);
        let seen = keys(&list, 0);
        assert!(seen.is_sorted() && seen.contains(&2));
        if saw_last {
            assert_eq!(seen, [1, 2, 3]);
        }
        writer.join().unwrap();
        assert_eq!(keys(&list, 0), [1, 2, 3]);
    });
}

#[test]
fn of_two_inserts_of_the_same_key_one_succeeds() {
    model(|list| {
        let other = {
            let list = Arc::clone(&list);
            thread::spawn(move || insert(&list, 1, 2).is_ok())
        };
        let here = insert(&list, 1, 1).is_ok();
        assert!(here != other.join().unwrap());
        assert_eq!(keys(&list, 0), [1]);
    });
}

#[test]
fn a_splice_is_still_right_after_inserts_around_it() {
    model(|list| {
        let other = {
            let list = Arc::clone(&list);
            thread::spawn(move || {
                insert(&list, 3, 2).unwrap();
            })
        };
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
