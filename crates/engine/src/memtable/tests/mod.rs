//! Tests that compare the memtable with a sorted list, with one and with several threads.
#![cfg(not(loom))]

mod filter;
mod model;
mod panics;
mod range_deletions;
mod rocksdb;
mod threads;

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tailwater_format::Comparator;
use tailwater_format::comparator::CustomComparator;
use tailwater_format::key::{Sequence, pack_trailer, put_internal_key};

/// Shorter keys first; among keys of equal length, the bytewise order that ignores case. So keys
/// with different bytes can be equal.
struct ShortestFirst;

impl CustomComparator for ShortestFirst {
    fn name(&self) -> &str {
        "tests.ShortestFirst"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let folded = |key: &[u8]| key.to_ascii_lowercase();
        a.len().cmp(&b.len()).then_with(|| folded(a).cmp(&folded(b)))
    }
}

/// The bytewise order. Counts the comparisons.
#[derive(Default)]
struct Counting(AtomicU64);

impl CustomComparator for Counting {
    fn name(&self) -> &str {
        "tests.Counting"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.0.fetch_add(1, Relaxed);
        a.cmp(b)
    }
}

fn comparators() -> [Comparator; 3] {
    [Comparator::Bytewise, Comparator::ReverseBytewise, Comparator::Custom(Arc::new(ShortestFirst))]
}

fn internal_key(user_key: &[u8], sequence: Sequence, value_type: u8) -> Vec<u8> {
    let mut key = Vec::new();
    put_internal_key(&mut key, user_key, pack_trailer(sequence, value_type));
    key
}

/// Returns the number of rounds of a test: `natively`, or `interpreted` under a slow interpreter
/// such as Miri.
fn rounds(natively: usize, interpreted: usize) -> usize {
    let is_slow = cfg!(miri) || std::env::var_os("TAILWATER_SLOW_TOOL").is_some();
    if is_slow { interpreted } else { natively }
}
