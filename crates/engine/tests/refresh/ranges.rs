//! Ranges and prefixes that refresh themselves, from either end.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::path::Path;

use tailwater::options::{ColumnFamilyOptions, ObjectName};
use tailwater::{Db, Entries, ErrorKind, ReadOptions};
use tailwater_format::Comparator;
use tailwater_io::Operation;
use tailwater_io::sim::{Fault, FaultPlan, FaultRule};
use tailwater_testkit::seed;

use super::{KEYS, Scene, key, options, refreshing, value};

/// Number of times that all keys are overwritten during one scan.
const ROUNDS: usize = 2;

type Scan = fn(&Scene, &ReadOptions) -> Entries;

/// Ranges of all keys.
const SCANS: [Scan; 4] = [
    |scene, options| scene.db.range_opt(.., options),
    |scene, options| scene.db.range_cf_opt(&scene.family, key(0)..=key(KEYS - 1), options),
    |scene, options| {
        let bounds = (Bound::Excluded(vec![]), Bound::Excluded(key(KEYS)));
        scene.db.range_cf_opt(&scene.family, bounds, options)
    },
    |scene, options| scene.db.prefix_opt("0000", options),
];

fn take(entries: &mut Entries, from_front: bool) -> Option<(Vec<u8>, Vec<u8>)> {
    let entry = if from_front { entries.next() } else { entries.next_back() };
    entry.map(|entry| entry.expect("an entry")).map(|(key, value)| (key.into(), value.into()))
}

/// Takes the entries with the numbers in `numbers`, which have the values of round 0.
fn take_all(entries: &mut Entries, from_front: bool, numbers: impl Iterator<Item = usize>) {
    for number in numbers {
        assert_eq!(take(entries, from_front), Some((key(number), value(0))));
    }
}

/// Regression test: ranges ignored `auto_refresh_iterator_with_snapshot`, and kept all memtables
/// and tables that became obsolete until they were dropped.
#[test]
fn a_refreshing_range_releases_obsolete_memtables_and_tables() {
    for (at, scan) in SCANS.into_iter().enumerate() {
        for (refreshes, from_front) in [(true, at % 2 == 0), (false, at % 2 == 1)] {
            let scene = Scene::new();
            scene.write(0);
            let mut entries = scan(&scene, &refreshing(&scene.db, refreshes));
            let mut numbers: Vec<_> = (0..KEYS).collect();
            if !from_front {
                numbers.reverse();
            }
            for (round, part) in numbers.chunks(KEYS.div_ceil(ROUNDS)).enumerate() {
                scene.replace(round + 1);
                take_all(&mut entries, from_front, part.iter().copied());
                if refreshes {
                    assert!(scene.keeps_nothing(), "scan {at}, round {round}: {:?}", scene.kept());
                } else {
                    assert!(scene.kept().0 > 0, "scan {at}: the first memtable");
                }
            }
            assert!(entries.next().is_none() && entries.next_back().is_none());
            assert!(scene.keeps_nothing(), "scan {at} has ended: {:?}", scene.kept());
        }
    }
}

#[test]
fn the_end_of_a_range_that_is_not_used_releases_its_tables_too() {
    for scan in [SCANS[0], SCANS[3]] {
        let scene = Scene::new();
        scene.replace(0);
        let mut entries = scan(&scene, &refreshing(&scene.db, true));
        let (mut front, mut back) = (0, KEYS);
        for (round, from_front) in [true, false, false, true].into_iter().enumerate() {
            take_all(&mut entries, true, front..front + 10);
            take_all(&mut entries, false, (back - 10..back).rev());
            (front, back) = (front + 10, back - 10);
            scene.replace(round + 1);
            let number = if from_front { front } else { back - 1 };
            take_all(&mut entries, from_front, std::iter::once(number));
            if from_front {
                front += 1
            } else {
                back -= 1
            }
            assert!(scene.keeps_nothing(), "round {round}: {:?}", scene.kept());
        }
        // The two ends meet, although neither has a cursor at the other's last entry.
        take_all(&mut entries, true, front..back);
        assert!(entries.next().is_none() && entries.next_back().is_none());
    }
}

#[test]
fn a_range_without_a_snapshot_or_of_a_read_only_handle_stays_as_it_is() {
    let scene = Scene::new();
    scene.write(0);
    let mut entries = scene.db.range_opt(.., &refreshing(&scene.db, true).with_snapshot(None));
    scene.replace(1);
    take_all(&mut entries, true, 0..KEYS);
    assert!(scene.kept().0 > 0, "the first memtable");
    drop(entries);
    let Scene { storage, db, family, .. } = scene;
    drop((db, family));
    let db = Db::open_read_only(Path::new("/db"), &options(&storage)).expect("a handle");
    let entries = db.range_opt(.., &refreshing(&db, true));
    assert!(entries.map(|entry| entry.expect("an entry").1).all(|found| *found == *value(1)));
    assert_eq!(db.range_opt(.., &refreshing(&db, true)).count(), KEYS);
}

#[test]
fn a_range_continues_without_its_column_family_and_database() {
    let scene = Scene::new();
    let other = scene.db.create_cf("other", &Default::default()).expect("a family");
    for number in 0..KEYS {
        scene.db.put_cf(&other, key(number), value(0)).expect("a put");
    }
    let read = refreshing(&scene.db, true);
    let mut dropped = scene.db.range_cf_opt(&other, .., &read);
    let mut closed = scene.db.range_cf_opt(&other, .., &read);
    for entries in [&mut dropped, &mut closed] {
        take_all(entries, true, 0..10);
        take_all(entries, false, (KEYS - 10..KEYS).rev());
    }
    scene.db.flush_cf(&other).expect("a flush");
    scene.db.drop_cf(&other).expect("a drop");
    drop(other);
    take_all(&mut dropped, true, 10..KEYS - 10);
    assert!(dropped.next().is_none());
    drop((scene, read));
    take_all(&mut closed, false, (10..KEYS - 10).rev());
    assert!(closed.next_back().is_none());
}

#[test]
fn a_failed_refresh_is_the_last_item_of_a_range() {
    // With this limit nearly all tables are closed, so that the refresh must open tables.
    let scene = Scene::with("max_open_files=1");
    scene.write(0);
    let mut entries = scene.db.range_opt(.., &refreshing(&scene.db, true));
    take_all(&mut entries, true, 0..KEYS / 2);
    scene.replace(1);
    let rule = FaultRule::new(Fault::InputOutput).operation(Operation::Open).from(0);
    scene.storage.set_faults(FaultPlan::none().with(rule.path_containing(".sst")));
    let error = entries.next().expect("an item").expect_err("a table that cannot be opened");
    scene.storage.set_faults(FaultPlan::none());
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    assert!(entries.next().is_none() && entries.next_back().is_none());
}

/// Ranges with random bounds, taken from both ends while keys are overwritten, deleted, flushed and
/// compacted, yield the entries of their snapshot.
#[test]
fn a_refreshing_range_yields_the_entries_of_its_snapshot() {
    let mut seed = seed::rng();
    println!("TAILWATER_SEED={}", seed.value());
    let rng = &mut seed.rng;
    let storage = tailwater_io::sim::SimStorage::new(rng.u64(..));
    let mut options = options(&storage);
    options.set_inline_background(true);
    options.add_comparator(Comparator::ReverseBytewise);
    let db = Db::open(Path::new("/db"), &options).expect("a database");
    let mut reverse = ColumnFamilyOptions::default();
    reverse.comparator = ObjectName::new("rocksdb.ReverseBytewiseComparator");
    let reversed = db.create_cf("reversed", &reverse).expect("a family");
    let mut contents = BTreeMap::new();
    let (mut taken, mut changes) = (0, 0);
    for round in 0..40 * seed::rounds() {
        let family = if round % 2 == 0 { db.default_cf() } else { &reversed };
        let in_order = |a: &[u8], b: &[u8]| family.comparator().compare(a, b);
        let contents: &mut BTreeMap<Vec<u8>, Vec<u8>> = contents.entry(round % 2).or_default();
        for number in 0..100 {
            contents.insert(key(number), key(round));
            db.put_cf(family, key(number), key(round)).expect("a put");
        }
        let mut bound = || match rng.u8(..4) {
            0 => Bound::Unbounded,
            1 => Bound::Excluded(key(rng.usize(..100))),
            _ => Bound::Included(key(rng.usize(..100))),
        };
        let (start, end) = (bound(), bound());
        let is_after_start = |key: &[u8]| match &start {
            Bound::Unbounded => true,
            Bound::Excluded(start) => in_order(key, start).is_gt(),
            Bound::Included(start) => in_order(key, start).is_ge(),
        };
        let is_before_end = |key: &[u8]| match &end {
            Bound::Unbounded => true,
            Bound::Excluded(end) => in_order(key, end).is_lt(),
            Bound::Included(end) => in_order(key, end).is_le(),
        };
        let within = contents.iter().filter(|(key, _)| is_after_start(key) && is_before_end(key));
        let mut expected: Vec<_> =
            within.map(|(key, value)| (key.clone(), value.clone())).collect();
        expected.sort_by(|a, b| in_order(&a.0, &b.0));
        let mut expected = VecDeque::from(expected);
        let read = refreshing(&db, true).with_async_io(rng.bool());
        let mut entries = db.range_cf_opt(family, (start.clone(), end.clone()), &read);
        loop {
            match rng.u8(..12) {
                0 => db.flush_cf(family).expect("a flush"),
                1 => db.compact_range_cf(family, None, None).expect("a compaction"),
                2 => db.delete_cf(family, key(rng.usize(..100))).expect("a deletion"),
                3 => db.put_cf(family, key(rng.usize(..100)), "new").expect("a put"),
                _ => {
                    let from_front = rng.bool();
                    let next = if from_front { expected.pop_front() } else { expected.pop_back() };
                    assert_eq!(take(&mut entries, from_front), next, "{start:?} to {end:?}");
                    if next.is_none() {
                        break;
                    }
                    taken += 1;
                    continue;
                }
            }
            changes += 1;
        }
        assert!(entries.next().is_none() && entries.next_back().is_none());
    }
    println!("{taken} entries, {changes} changes");
    assert!(taken > 100 && changes > 100);
}
