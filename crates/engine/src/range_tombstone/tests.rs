//! Tests that compare fragments, cursors and truncation with models, which scan all tombstones.

use std::cmp::Ordering;
use std::sync::Arc;

use fastrand::Rng;
use tailwater_format::Comparator;
use tailwater_format::comparator::CustomComparator;
use tailwater_format::key::{MAX_SEQUENCE, Sequence, ValueType, pack_trailer, put_internal_key};

use super::{
    Boundary, Cursor, FragmentedRangeTombstones, IndexCursor, RangeTombstone, TombstoneLayers,
    Truncation, View, joined, striped_fragments,
};

const ROUNDS: u32 = 400;
const LAST_SEQUENCE: Sequence = 20;

/// Shorter keys first; keys of the same length in bytewise order.
struct ShortestFirst;

impl CustomComparator for ShortestFirst {
    fn name(&self) -> &str {
        "tests.ShortestFirst"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.len().cmp(&b.len()).then_with(|| a.cmp(b))
    }
}

struct Owned {
    start: Vec<u8>,
    end: Vec<u8>,
    sequence: Sequence,
}

fn comparators() -> [Comparator; 3] {
    [Comparator::Bytewise, Comparator::ReverseBytewise, Comparator::Custom(Arc::new(ShortestFirst))]
}

/// Returns all keys of at most two letters from an alphabet of four.
fn all_keys() -> Vec<Vec<u8>> {
    let letters = *b"abcd";
    let mut keys = vec![Vec::new()];
    for first in letters {
        keys.push(vec![first]);
        keys.extend(letters.map(|second| vec![first, second]));
    }
    keys
}

fn random_key(random: &mut Rng) -> Vec<u8> {
    let keys = all_keys();
    keys[random.usize(..keys.len())].clone()
}

fn random_tombstones(random: &mut Rng) -> Vec<Owned> {
    (0..random.usize(..12))
        .map(|_| Owned {
            start: random_key(random),
            end: random_key(random),
            sequence: random.u64(1..=LAST_SEQUENCE),
        })
        .collect()
}

fn build(comparator: &Comparator, tombstones: &[Owned]) -> FragmentedRangeTombstones {
    let borrowed = tombstones.iter().map(|tombstone| RangeTombstone {
        start: &tombstone.start,
        end: &tombstone.end,
        sequence: tombstone.sequence,
    });
    FragmentedRangeTombstones::build(comparator, borrowed)
}

/// Returns the sequence numbers of the tombstones that cover the key, newest first. Only those in
/// `[oldest, newest]` are returned.
fn covering(
    comparator: &Comparator,
    tombstones: &[Owned],
    key: &[u8],
    oldest: Sequence,
    newest: Sequence,
) -> Vec<Sequence> {
    let mut sequences: Vec<Sequence> = tombstones
        .iter()
        .filter(|tombstone| comparator.compare(&tombstone.start, key).is_le())
        .filter(|tombstone| comparator.compare(key, &tombstone.end).is_lt())
        .map(|tombstone| tombstone.sequence)
        .filter(|sequence| (oldest..=newest).contains(sequence))
        .collect();
    sequences.sort_unstable_by(|a, b| b.cmp(a));
    sequences.dedup();
    sequences
}

/// Runs `test` for several rounds and all comparators, each round with its own seed. Prints the
/// seed, so that a failure can be reproduced.
fn for_each_seed(mut test: impl FnMut(&mut Rng, &Comparator)) {
    let base = fastrand::u64(..);
    for round in 0..ROUNDS {
        let seed = base.wrapping_add(u64::from(round));
        for comparator in comparators() {
            println!("seed {seed} comparator {}", comparator.name());
            test(&mut Rng::with_seed(seed), &comparator);
        }
    }
}

/// A fragment as seen through a cursor.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Seen<'a> {
    start: Boundary<'a>,
    end: Boundary<'a>,
    sequences: &'a [Sequence],
}

fn seen<'a>(cursor: &Cursor, view: View<'a>) -> Option<Seen<'a>> {
    cursor.valid().then(|| {
        assert_eq!(cursor.sequence(view), cursor.sequences(view)[0]);
        Seen { start: cursor.start(view), end: cursor.end(view), sequences: cursor.sequences(view) }
    })
}

fn walk_forward<'a>(cursor: &mut Cursor, view: View<'a>) -> Vec<Seen<'a>> {
    cursor.seek_to_first(view);
    std::iter::from_fn(|| {
        let fragment = seen(cursor, view)?;
        cursor.next(view);
        Some(fragment)
    })
    .collect()
}

fn walk_backward<'a>(cursor: &mut Cursor, view: View<'a>) -> Vec<Seen<'a>> {
    cursor.seek_to_last(view);
    std::iter::from_fn(|| {
        let fragment = seen(cursor, view)?;
        cursor.previous(view);
        Some(fragment)
    })
    .collect()
}

fn internal_key(user_key: &[u8], sequence: Sequence, value_type: ValueType) -> Vec<u8> {
    let mut key = Vec::new();
    put_internal_key(&mut key, user_key, pack_trailer(sequence, value_type as u8));
    key
}

#[test]
fn the_newest_visible_tombstone_over_a_key_is_found() {
    for_each_seed(|random, comparator| {
        let tombstones = random_tombstones(random);
        let fragments = build(comparator, &tombstones);
        for key in all_keys() {
            for snapshot in 0..=LAST_SEQUENCE + 1 {
                let expected = covering(comparator, &tombstones, &key, 0, snapshot);
                let found = fragments.covering_sequence(&key, snapshot);
                assert_eq!(found, expected.first().copied(), "{key:?} @ {snapshot} {fragments:?}");
            }
        }
    });
}

fn layers(comparator: &Comparator, tombstones: &[Owned]) -> TombstoneLayers {
    let mut layers = TombstoneLayers::default();
    for tombstone in tombstones {
        let Owned { start, end, sequence } = tombstone;
        let tombstone = RangeTombstone { start, end, sequence: *sequence };
        layers = layers.with(comparator, tombstone).unwrap_or(layers);
    }
    layers
}

/// Returns tombstones of which no two share both start and sequence number.
fn random_distinct_tombstones(random: &mut Rng, comparator: &Comparator) -> Vec<Owned> {
    let mut distinct: Vec<Owned> = Vec::new();
    for _ in 0..random.usize(..5) {
        for new in random_tombstones(random) {
            let is_same = |old: &Owned| {
                old.sequence == new.sequence && comparator.compare(&old.start, &new.start).is_eq()
            };
            if !distinct.iter().any(is_same) {
                distinct.push(new);
            }
        }
    }
    distinct
}

#[test]
fn the_newest_visible_tombstone_is_found_while_more_are_added() {
    for_each_seed(|random, comparator| {
        let tombstones = random_distinct_tombstones(random, comparator);
        let layers = layers(comparator, &tombstones);
        assert_eq!(layers.iter().count(), tombstones.len());
        let lengths: Vec<usize> = layers.indexes().iter().map(|index| index.len()).collect();
        assert!(lengths.windows(2).all(|pair| pair[0] >= 4 * pair[1]), "{lengths:?}");
        for key in all_keys() {
            for snapshot in 0..=LAST_SEQUENCE + 1 {
                let expected = covering(comparator, &tombstones, &key, 0, snapshot);
                let found = layers.covering(&key, snapshot);
                assert_eq!(found, expected.first().copied(), "{key:?} @ {snapshot}");
            }
        }
        let (first, last) = (random_key(random), random_key(random));
        if comparator.compare(&first, &last).is_le() {
            let between = |key: &Vec<u8>| {
                comparator.compare(&first, key).is_le() && comparator.compare(key, &last).is_le()
            };
            let overlaps = |tombstone: &&Owned| {
                comparator.compare(&tombstone.start, &tombstone.end).is_lt()
                    && comparator.compare(&tombstone.start, &last).is_le()
                    && comparator.compare(&first, &tombstone.end).is_lt()
            };
            let expected = tombstones.iter().find(overlaps).is_some();
            assert_eq!(layers.overlaps(&first, &last), expected, "{first:?} {last:?}");
            let is_covered =
                |key: &Vec<u8>| !covering(comparator, &tombstones, key, 0, MAX_SEQUENCE).is_empty();
            assert!(expected || !all_keys().iter().filter(|key| between(key)).any(is_covered));
        }
    });
}

#[test]
fn the_same_tombstone_is_not_added_to_layers_twice() {
    let tombstones: Vec<Owned> = (1..=20)
        .map(|sequence| Owned { start: b"a".to_vec(), end: b"b".to_vec(), sequence })
        .collect();
    let layers = layers(&Comparator::Bytewise, &tombstones);
    for sequence in 0..=21 {
        let same = RangeTombstone { start: b"a", end: b"z", sequence };
        let is_new = layers.with(&Comparator::Bytewise, same).is_some();
        assert_eq!(is_new, sequence == 0 || sequence == 21, "{sequence}");
        let other = RangeTombstone { start: b"b", end: b"z", sequence };
        assert!(layers.with(&Comparator::Bytewise, other).is_some());
    }
}

#[test]
fn cursors_over_an_index_go_from_fragment_to_fragment() {
    for_each_seed(|random, comparator| {
        let tombstones = random_distinct_tombstones(random, comparator);
        let layers = layers(comparator, &tombstones);
        let Some(index) = layers.indexes().first() else { return };
        let tombstones: Vec<Owned> = index
            .iter()
            .map(|it| Owned {
                start: it.start.to_vec(),
                end: it.end.to_vec(),
                sequence: it.sequence,
            })
            .collect();
        let snapshot = random.u64(..=LAST_SEQUENCE);
        let mut cursor = IndexCursor::new(snapshot);
        cursor.seek(index, &all_keys_in_order(comparator)[0]);
        let mut forward = Vec::new();
        while let Some(sequence) = cursor.sequence() {
            forward.push((cursor.start(index), cursor.end(index), sequence));
            cursor.next(index);
        }
        cursor.seek_to_last(index);
        let mut backward = Vec::new();
        while let Some(sequence) = cursor.sequence() {
            backward.push((cursor.start(index), cursor.end(index), sequence));
            cursor.previous(index);
        }
        backward.reverse();
        assert_eq!(forward, backward);
        for (at, &(_, end, _)) in forward.iter().enumerate() {
            cursor.seek(index, forward[at].0.user_key);
            let touching =
                |pair: &&[(Boundary<'_>, Boundary<'_>, Sequence)]| pair[0].1 == pair[1].0;
            let behind = forward[at..].windows(2).take_while(touching).last();
            let expected = behind.map_or(end, |pair| pair[1].1);
            assert_eq!(cursor.covered_edge(index, true), expected);
            let before = forward[..=at].windows(2).rev().take_while(touching).last();
            let expected = before.map_or(forward[at].0, |pair| pair[0].0);
            assert_eq!(cursor.covered_edge(index, false), expected);
        }
        for pair in forward.windows(2) {
            assert!(!pair[1].0.is_before(comparator, pair[0].1));
        }
        for key in all_keys() {
            let expected = covering(comparator, &tombstones, &key, 0, snapshot).first().copied();
            let record = Boundary { user_key: &key, trailer: 5 << 8 | 1 };
            cursor.seek(index, &key);
            let here =
                cursor.sequence().filter(|_| !record.is_before(comparator, cursor.start(index)));
            assert_eq!(here, expected, "{key:?} @ {snapshot}");
            let ahead = forward.iter().find(|(_, end, _)| record.is_before(comparator, *end));
            assert_eq!(cursor.sequence(), ahead.map(|(_, _, sequence)| *sequence));
        }
    });
}

fn all_keys_in_order(comparator: &Comparator) -> Vec<Vec<u8>> {
    let mut keys = all_keys();
    keys.sort_by(|a, b| comparator.compare(a, b));
    keys
}

#[test]
fn tombstones_are_kept_if_snapshots_distinguish_them() {
    for_each_seed(|random, comparator| {
        let tombstones = random_distinct_tombstones(random, comparator);
        let mut snapshots: Vec<Sequence> =
            (0..random.usize(..4)).map(|_| random.u64(1..LAST_SEQUENCE)).collect();
        snapshots.sort_unstable();
        let below = |sequence: Sequence| {
            snapshots.iter().rev().find(|&&snapshot| snapshot < sequence).copied()
        };
        let borrowed = tombstones.iter().map(|it| RangeTombstone {
            start: &it.start,
            end: &it.end,
            sequence: it.sequence,
        });
        let cut = striped_fragments(comparator, borrowed, below);
        assert!(cut.iter().all(|it| comparator.compare(it.start, it.end).is_lt()));
        let fragments = joined(comparator, cut);
        for pair in fragments.windows(2) {
            let order = comparator.compare(pair[0].end, pair[1].start);
            assert!(order.is_lt() || order.is_eq() && pair[0].sequences != pair[1].sequences);
        }
        for key in all_keys() {
            let mut expected = Vec::new();
            let mut newest = Some(MAX_SEQUENCE);
            while let Some(snapshot) = newest {
                let visible = covering(comparator, &tombstones, &key, 0, snapshot);
                expected.extend(visible.first());
                newest = visible.first().and_then(|&sequence| below(sequence));
            }
            let here = fragments.iter().find(|it| {
                comparator.compare(it.start, &key).is_le()
                    && comparator.compare(&key, it.end).is_lt()
            });
            assert_eq!(here.map_or(&[][..], |it| &it.sequences), expected, "{key:?}");
        }
    });
}

#[test]
fn fragments_are_sorted_disjoint_and_complete() {
    for_each_seed(|random, comparator| {
        let tombstones = random_tombstones(random);
        let fragments = build(comparator, &tombstones);
        let (oldest, newest) = (random.u64(..4), random.u64(..=LAST_SEQUENCE));
        let mut cursor = Cursor::between(oldest, newest);
        let forward = walk_forward(&mut cursor, fragments.view());
        for pair in forward.windows(2) {
            assert!(comparator.compare(pair[0].end.user_key, pair[1].start.user_key).is_le());
        }
        for key in all_keys() {
            let here = forward.iter().find(|fragment| {
                comparator.compare(fragment.start.user_key, &key).is_le()
                    && comparator.compare(&key, fragment.end.user_key).is_lt()
            });
            let found = here.map_or(&[][..], |fragment| fragment.sequences);
            assert_eq!(found, covering(comparator, &tombstones, &key, oldest, newest));
        }
    });
}

#[test]
fn empty_tombstones_cover_nothing() {
    let fragments = build(&Comparator::Bytewise, &[]);
    assert!(fragments.is_empty());
    assert_eq!(fragments.covering_sequence(b"", MAX_SEQUENCE), None);
    assert_eq!(walk_forward(&mut Cursor::new(MAX_SEQUENCE), fragments.view()), []);
    assert_eq!(walk_backward(&mut Cursor::new(MAX_SEQUENCE), fragments.view()), []);
    let backwards = Owned { start: b"b".to_vec(), end: b"a".to_vec(), sequence: 1 };
    let fragments = build(&Comparator::Bytewise, &[backwards]);
    assert!(fragments.is_empty());
}

/// Returns random bounds of a file: two internal keys in ascending order. The second one, the
/// file's largest key, may be a sentinel made from the end key of a tombstone.
fn random_bounds(random: &mut Rng, comparator: &Comparator) -> (Vec<u8>, Vec<u8>) {
    loop {
        let smallest =
            internal_key(&random_key(random), random.u64(..=LAST_SEQUENCE), ValueType::Value);
        let largest = if random.bool() {
            internal_key(&random_key(random), MAX_SEQUENCE, ValueType::RangeDeletion)
        } else {
            internal_key(&random_key(random), random.u64(..=LAST_SEQUENCE), ValueType::Value)
        };
        if tailwater_format::key::compare_internal(comparator, &smallest, &largest).is_lt() {
            return (smallest, largest);
        }
    }
}

/// Whether `record` is within the file's bounds, so that the file's tombstones may apply to it. If
/// `largest` has sequence number 0, the record with this key counts as outside the bounds:
/// truncation relies on the rule that no tombstone covers that record.
fn in_file(comparator: &Comparator, smallest: &[u8], record: &[u8], largest: &[u8]) -> bool {
    let compare = |a, b| tailwater_format::key::compare_internal(comparator, a, b);
    let at_largest = compare(record, largest);
    let largest_sequence = Boundary::from_internal_key(largest).unwrap().trailer >> 8;
    compare(smallest, record).is_le()
        && (at_largest.is_lt() || (at_largest.is_eq() && largest_sequence != 0))
}

#[test]
fn truncated_tombstones_delete_within_their_file_only() {
    for_each_seed(|random, comparator| {
        let tombstones = random_tombstones(random);
        let fragments = build(comparator, &tombstones);
        let (smallest, largest) = random_bounds(random, comparator);
        let truncation = Truncation::new(&smallest, &largest).unwrap();
        let view = fragments.truncated(&truncation);
        let snapshot = random.u64(..=LAST_SEQUENCE);
        let forward = walk_forward(&mut Cursor::new(snapshot), view);
        for key in all_keys() {
            let expected = covering(comparator, &tombstones, &key, 0, snapshot).first().copied();
            for sequence in 0..=LAST_SEQUENCE {
                let record = internal_key(&key, sequence, ValueType::Value);
                let place = Boundary::from_internal_key(&record).unwrap();
                let deleted = forward.iter().any(|fragment| {
                    !place.is_before(comparator, fragment.start)
                        && place.is_before(comparator, fragment.end)
                        && fragment.sequences[0] > sequence
                });
                let here = in_file(comparator, &smallest, &record, &largest);
                let expected_deleted = here && expected.is_some_and(|newest| newest > sequence);
                assert_eq!(deleted, expected_deleted, "{key:?} @ {sequence} in {truncation:?}");
            }
        }
    });
}

#[test]
fn truncated_cursors_agree_in_both_directions_and_after_seeks() {
    for_each_seed(|random, comparator| {
        let tombstones = random_tombstones(random);
        let fragments = build(comparator, &tombstones);
        let (smallest, largest) = random_bounds(random, comparator);
        let truncation = Truncation::new(&smallest, &largest).unwrap();
        let bounded = random.bool();
        let view = if bounded { fragments.truncated(&truncation) } else { fragments.view() };
        let mut cursor = Cursor::between(random.u64(..4), random.u64(..=LAST_SEQUENCE));
        let forward = walk_forward(&mut cursor, view);
        let mut backward = walk_backward(&mut cursor, view);
        backward.reverse();
        assert_eq!(forward, backward);
        for fragment in &forward {
            assert!(fragment.start.is_before(comparator, fragment.end));
        }
        for key in all_keys() {
            let first = Boundary {
                user_key: &key,
                trailer: pack_trailer(MAX_SEQUENCE, ValueType::RangeDeletion as u8),
            };
            cursor.seek(view, &key);
            let at_or_behind = forward.iter().find(|seen| first.is_before(comparator, seen.end));
            assert_eq!(seen(&cursor, view).as_ref(), at_or_behind);
            let place = Boundary {
                user_key: &key,
                trailer: pack_trailer(random.u64(..=LAST_SEQUENCE), ValueType::FOR_SEEK),
            };
            cursor.seek_boundary(view, place);
            let reaching = forward.iter().find(|seen| place.is_before(comparator, seen.end));
            assert_eq!(seen(&cursor, view).as_ref(), reaching);
        }
    });
}

#[test]
fn a_sentinel_bound_is_exclusive_and_a_record_bound_inclusive() {
    let tombstones = [Owned { start: b"a".to_vec(), end: b"z".to_vec(), sequence: 9 }];
    let fragments = build(&Comparator::Bytewise, &tombstones);
    let smallest = internal_key(b"c", 7, ValueType::Value);
    let sentinel = internal_key(b"m", MAX_SEQUENCE, ValueType::RangeDeletion);
    let truncation = Truncation::new(&smallest, &sentinel).unwrap();
    let view = fragments.truncated(&truncation);
    let mut cursor = Cursor::new(9);
    cursor.seek_to_first(view);
    let trailer = pack_trailer(MAX_SEQUENCE, ValueType::RangeDeletion as u8);
    assert_eq!(cursor.end(view), Boundary { user_key: b"m", trailer });
    let record = internal_key(b"m", 5, ValueType::Value);
    let truncation = Truncation::new(&smallest, &record).unwrap();
    let view = fragments.truncated(&truncation);
    cursor.seek_to_first(view);
    assert_eq!(cursor.start(view), Boundary { user_key: b"c", trailer: pack_trailer(7, 0x1A) });
    assert_eq!(cursor.end(view), Boundary { user_key: b"m", trailer: pack_trailer(4, 0x1A) });
}

#[test]
fn entries_of_another_type_are_refused() {
    let key = internal_key(b"a", 3, ValueType::RangeDeletion);
    let expected = RangeTombstone { start: b"a", end: b"c", sequence: 3 };
    assert_eq!(RangeTombstone::from_entry(&key, b"c"), Ok(expected));
    assert!(RangeTombstone::from_entry(&internal_key(b"a", 3, ValueType::Value), b"c").is_err());
    assert!(RangeTombstone::from_entry(b"short", b"c").is_err());
    assert!(Truncation::new(b"short", &key).is_err());
    assert!(Truncation::new(&key, b"").is_err());
}
