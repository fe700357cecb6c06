//! Tests with user comparators that panic during an insert.

use std::cmp::Ordering;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use fastrand::Rng;
use tailwater_format::Comparator;
use tailwater_format::comparator::CustomComparator;
use tailwater_format::key::{MAX_SEQUENCE, ValueType};

use super::rounds;
use crate::memtable::{Account, MemTable};

/// The bytewise order. Panics after `left` further comparisons.
struct Fused {
    left: AtomicU64,
}

impl CustomComparator for Fused {
    fn name(&self) -> &str {
        "tests.Fused"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let left = self.left.load(Relaxed);
        assert!(left > 0, "no comparison is left");
        self.left.store(left - 1, Relaxed);
        a.cmp(b)
    }
}

#[test]
fn inserts_after_a_panicking_insert_are_linked_in_order() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = Rng::with_seed(seed);
    let comparator = Arc::new(Fused { left: AtomicU64::new(u64::MAX) });
    let memtable = MemTable::new(Comparator::Custom(comparator.clone()), None, Account::default());
    let count = rounds(2000, 100) as u64;
    let mut added = Vec::new();
    for number in 0..count {
        // Ascending keys near each other, whose inserts always succeed, alternate with random keys,
        // whose inserts may panic after some comparisons.
        let near = (1 << 40) + number;
        memtable.add(number, ValueType::Value, &near.to_be_bytes(), b"").unwrap();
        added.push(near);
        let far = random.u64(..1 << 41);
        comparator.left.store(random.u64(1..24), Relaxed);
        let result = catch_unwind(AssertUnwindSafe(|| {
            memtable.add(number, ValueType::Value, &far.to_be_bytes(), b"").unwrap();
        }));
        comparator.left.store(u64::MAX, Relaxed);
        added.extend(result.is_ok().then_some(far));
    }
    assert_eq!(memtable.counters().entries, added.len() as u64);
    for key in added {
        assert!(memtable.versions(&key.to_be_bytes(), MAX_SEQUENCE).next().is_some());
    }
    // Even if the higher levels were out of order, searches would give correct results, only
    // slowly. So the order of each level is checked directly.
    for level in 0..8 {
        let first = memtable.list.head().next(level);
        let nodes = std::iter::successors(first, |node| node.next(level));
        assert!(nodes.is_sorted_by_key(|node| node.key_parts().0), "level {level}");
    }
}
