//! Iterators that refresh themselves, or are refreshed, to newer versions of the database. The
//! tests check which memtables and tables the iterators release, and which entries the iterators
//! show.
#![cfg(not(loom))]

#[path = "refresh/ranges.rs"]
mod ranges;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tailwater::{
    ColumnFamily, CompactRangeOptions, Db, DbIterator, ErrorKind, OpenOptions, ReadOptions,
    WriteOptions,
};
use tailwater_io::sim::{Fault, FaultPlan, FaultRule, SimStorage};
use tailwater_io::{Operation, Purpose, Storage};

/// Number of keys in the database.
const KEYS: usize = 2000;
/// Number of times that all keys are overwritten during one scan.
const ROUNDS: usize = 5;
/// Maximum number of checks whether obsolete memtables and files have been removed.
const LOOKS: usize = 600;
/// Maximum number of reads to open a table and seek in it.
const OPENING_READS: usize = 3;

struct Scene {
    storage: SimStorage,
    db: Db,
    family: ColumnFamily,
}

impl Scene {
    fn new() -> Self {
        Self::with("")
    }

    fn with(text: &str) -> Self {
        let storage = SimStorage::new(1);
        let mut options = options(&storage);
        options.set_from_string(text).expect("options");
        let db = Db::open(Path::new("/db"), &options).expect("a database");
        let family = db.cf_handle("default").expect("the default column family");
        Self { storage, db, family }
    }

    fn write(&self, round: usize) {
        let options = WriteOptions::default();
        for number in 0..KEYS {
            self.db.put_cf_opt(&self.family, key(number), value(round), &options).expect("a put");
        }
    }

    /// Overwrites all keys, flushes and compacts. Older memtables and tables then remain only if
    /// readers use them.
    fn replace(&self, round: usize) {
        self.write(round);
        self.db.flush_cf(&self.family).expect("a flush");
        let options = CompactRangeOptions::default();
        self.db.compact_range_cf_opt(&self.family, None, None, &options).expect("a compaction");
    }

    fn number(&self, property: &str) -> u64 {
        let value = self.db.property_value_cf(&self.family, property).expect("a property");
        value.expect("a value").parse().expect("a number")
    }

    /// Returns the number of table files in the directory.
    fn tables(&self) -> usize {
        let entries = self.storage.list(Path::new("/db")).expect("the directory");
        entries.iter().filter(|entry| entry.name.ends_with(".sst")).count()
    }

    /// Returns the number of memtables and the number of tables that exist only because readers use
    /// them.
    fn kept(&self) -> (u64, u64) {
        (
            self.number("tailwater.num-pinned-mem-tables"),
            self.number("tailwater.num-obsolete-files"),
        )
    }

    /// Waits until only the memtables and tables of the current version exist. Returns whether that
    /// happened in time.
    fn keeps_nothing(&self) -> bool {
        (0..LOOKS).any(|_| {
            let live = self.db.live_files().len();
            let is_clean = self.kept() == (0, 0) && self.tables() == live;
            if !is_clean {
                std::thread::sleep(Duration::from_millis(10));
            }
            is_clean
        })
    }
}

fn options(storage: &SimStorage) -> OpenOptions {
    let mut options = OpenOptions::with_storage(Arc::new(storage.clone()));
    let text = "create_if_missing=true;write_buffer_size=64m;target_file_size_base=20000;\
                disable_auto_compactions=true;compression=kNoCompression";
    options.set_from_string(text).expect("options");
    options
}

fn key(number: usize) -> Vec<u8> {
    format!("{number:08}").into_bytes()
}

fn value(round: usize) -> Vec<u8> {
    vec![b'a' + round as u8; 500]
}

fn refreshing(db: &Db, refreshes: bool) -> ReadOptions {
    ReadOptions::new()
        .with_snapshot(db.snapshot())
        .with_auto_refresh_iterator_with_snapshot(refreshes)
}

/// Moves an iterator over the keys with numbers in `from..to`. Checks that they have the values of
/// round 0.
fn step(iterator: &mut DbIterator, from: usize, to: usize) {
    for number in from..to {
        assert_eq!(iterator.item(), Some((&key(number)[..], &value(0)[..])));
        iterator.next().expect("a step");
    }
}

/// Regression test: a scan with automatic refresh kept all memtables and tables that became
/// obsolete during the scan, and released them only at its end.
#[test]
fn a_refreshing_scan_releases_obsolete_memtables_and_tables() {
    for refreshes in [true, false] {
        let scene = Scene::new();
        scene.write(0);
        let mut iterator = scene
            .db
            .raw_iterator_cf_opt(&scene.family, &refreshing(&scene.db, refreshes))
            .expect("an iterator");
        iterator.seek_to_first().expect("a seek");
        let part = KEYS / ROUNDS;
        for round in 0..ROUNDS {
            step(&mut iterator, round * part, (round + 1) * part - 1);
            let before = scene.number("rocksdb.current-super-version-number");
            scene.replace(round + 1);
            assert!(scene.number("rocksdb.current-super-version-number") > before);
            step(&mut iterator, (round + 1) * part - 1, (round + 1) * part);
            if refreshes {
                assert!(scene.keeps_nothing(), "round {round}: {:?}", scene.kept());
            }
        }
        assert!(!iterator.valid());
        if !refreshes {
            assert!(scene.kept().0 > 0, "the first memtable");
            drop(iterator);
            assert!(scene.keeps_nothing(), "at the end: {:?}", scene.kept());
        }
    }
}

/// Regression test: a backward scan with automatic refresh kept all memtables and tables that
/// became obsolete during the scan. It released them only at its end. Forward scans had the same
/// error. Here the scan begins in a table.
#[test]
fn a_refreshing_backward_scan_releases_obsolete_memtables_and_tables() {
    for refreshes in [true, false] {
        let scene = Scene::new();
        scene.replace(0);
        let mut iterator = scene
            .db
            .raw_iterator_cf_opt(&scene.family, &refreshing(&scene.db, refreshes))
            .expect("an iterator");
        iterator.seek_to_last().expect("a seek");
        for number in (0..KEYS).rev() {
            assert_eq!(iterator.item(), Some((&key(number)[..], &value(0)[..])));
            if number % 500 == 250 {
                scene.replace(1 + number / 500);
            }
            iterator.prev().expect("a step");
            if number % 500 == 250 && refreshes {
                assert!(scene.keeps_nothing(), "key {number}: {:?}", scene.kept());
            }
        }
        assert!(!iterator.valid());
        if !refreshes {
            assert!(scene.kept().1 > 0, "the first tables");
        }
    }
}

#[test]
fn without_a_snapshot_the_option_has_no_effect() {
    let scene = Scene::new();
    scene.write(0);
    let options = refreshing(&scene.db, true).with_snapshot(None);
    let mut iterator = scene.db.raw_iterator_cf_opt(&scene.family, &options).expect("an iterator");
    iterator.seek_to_first().expect("a seek");
    scene.replace(1);
    step(&mut iterator, 0, KEYS);
    assert!(scene.kept().0 > 0, "the first memtable");
}

#[test]
fn a_refresh_shows_the_current_state_or_that_of_a_snapshot() {
    let scene = Scene::new();
    scene.write(0);
    let snapshot = scene.db.snapshot();
    let mut iterator = scene
        .db
        .raw_iterator_cf_opt(&scene.family, &refreshing(&scene.db, true))
        .expect("an iterator");
    iterator.seek_to_first().expect("a seek");
    scene.replace(1);
    iterator.refresh().expect("a refresh");
    assert!(!iterator.valid(), "a seek must follow");
    iterator.next().expect("a step from nowhere");
    assert!(!iterator.valid());
    iterator.seek(key(7)).expect("a seek");
    assert_eq!(iterator.item(), Some((&key(7)[..], &value(1)[..])));
    // The explicit refresh took away the iterator's snapshot. Without a snapshot the iterator does
    // not refresh itself.
    scene.replace(2);
    iterator.next().expect("a step");
    assert_eq!(iterator.item(), Some((&key(8)[..], &value(1)[..])));
    assert!(scene.kept().1 > 0);
    iterator.refresh_at(&snapshot).expect("a refresh");
    iterator.seek_to_first().expect("a seek");
    step(&mut iterator, 0, KEYS);
    assert!(!iterator.valid());
    let other = Scene::new();
    let error = iterator.refresh_at(&other.db.snapshot()).expect_err("another's snapshot");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
}

#[test]
fn iterators_of_read_only_handles_do_not_refresh() {
    let scene = Scene::new();
    scene.write(0);
    drop(scene.db);
    let db = Db::open_read_only(Path::new("/db"), &options(&scene.storage)).expect("a handle");
    let family = db.cf_handle("default").expect("a column family");
    let mut iterator =
        db.raw_iterator_cf_opt(&family, &ReadOptions::default()).expect("an iterator");
    let snapshot = db.snapshot();
    for refreshed in [iterator.refresh(), iterator.refresh_at(&snapshot)] {
        let error = refreshed.expect_err("it cannot");
        assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}");
    }
}

#[test]
fn an_iterator_continues_after_its_column_family_is_dropped() {
    let scene = Scene::new();
    let other = scene.db.create_cf("other", &Default::default()).expect("a family");
    for number in 0..KEYS {
        let options = WriteOptions::default();
        scene.db.put_cf_opt(&other, key(number), value(0), &options).expect("a put");
    }
    let mut iterator =
        scene.db.raw_iterator_cf_opt(&other, &refreshing(&scene.db, true)).expect("an iterator");
    iterator.seek_to_first().expect("a seek");
    step(&mut iterator, 0, KEYS / 2);
    scene.db.flush_cf(&other).expect("a flush");
    scene.db.drop_cf(&other).expect("a drop");
    drop(other);
    step(&mut iterator, KEYS / 2, KEYS);
    assert!(!iterator.valid());
    drop(iterator);
    assert!(scene.keeps_nothing(), "{:?}", scene.kept());
}

/// Regression test: if a refresh failed to open a table, the iterator lost some of the memtables
/// and tables that it was still reading.
#[test]
fn a_failed_refresh_ends_the_scan_and_the_next_seek_recovers() {
    // With this limit nearly all tables are closed, so that the refresh must open tables.
    let scene = Scene::with("max_open_files=1");
    scene.write(0);
    let mut iterator = scene
        .db
        .raw_iterator_cf_opt(&scene.family, &refreshing(&scene.db, true))
        .expect("an iterator");
    iterator.seek_to_first().expect("a seek");
    step(&mut iterator, 0, KEYS / 2);
    scene.replace(1);
    let tables = |directory: &str| {
        let entries = scene.storage.list(Path::new(directory)).expect("the directory");
        let names = entries.into_iter().map(|entry| entry.name);
        names.filter(|name| name.ends_with(".sst")).collect::<Vec<_>>()
    };
    let rename_all = |from: &str, to: &str| {
        for name in tables(from) {
            let (from, to) = (Path::new(from).join(&name), Path::new(to).join(&name));
            match scene.storage.rename(&from, &to) {
                // The file was listed, but has been removed since, because it was obsolete.
                Err(error) if error.is_not_found() => {}
                renamed => renamed.expect("another name"),
            }
        }
    };
    scene.storage.create_directory(Path::new("/aside")).expect("a directory");
    rename_all("/db", "/aside");
    let error = iterator.next().expect_err("a table that cannot be opened");
    assert!(error.to_string().contains(".sst"), "{error}");
    assert!(!iterator.valid());
    iterator.next().expect("a step from nowhere");
    iterator.seek(key(KEYS / 2)).expect_err("a table that cannot be opened");
    rename_all("/aside", "/db");
    iterator.seek_to_first().expect("a seek");
    step(&mut iterator, 0, KEYS);
    assert!(!iterator.valid());
}

#[test]
fn iterator_properties_describe_the_iterator() {
    let scene = Scene::new();
    scene.write(0);
    let text = |iterator: &DbIterator, name: &str| {
        let value = iterator.property(&format!("rocksdb.iterator.{name}"));
        String::from_utf8(value.expect("a property")).expect("text")
    };
    let read = ReadOptions::new()
        .with_snapshot(scene.db.snapshot())
        .with_auto_refresh_iterator_with_snapshot(true)
        .with_pin_data(true);
    let mut iterator = scene.db.raw_iterator_cf_opt(&scene.family, &read).expect("an iterator");
    assert_eq!(text(&iterator, "is-key-pinned"), "Iterator is not valid.");
    iterator.seek_to_first().expect("a seek");
    assert_eq!(text(&iterator, "is-key-pinned"), "1");
    assert_eq!(text(&iterator, "is-value-pinned"), "0");
    assert_eq!(text(&iterator, "internal-key").as_bytes(), key(0));
    let number = text(&iterator, "super-version-number");
    let (first, address) = (iterator.key().to_vec(), iterator.key().as_ptr());
    scene.replace(1);
    assert_eq!(text(&iterator, "super-version-number"), number);
    iterator.next().expect("a step");
    assert_ne!(text(&iterator, "super-version-number"), number);
    // The iterator's buffer holds the previous key at the old address, and the current key after
    // it.
    assert_eq!(iterator.key().as_ptr(), address.wrapping_add(first.len()));
    let plain = scene.db.raw_iterator_cf_opt(&scene.family, &ReadOptions::default());
    let mut plain = plain.expect("an iterator");
    plain.seek_to_last().expect("a seek");
    assert_eq!(text(&plain, "is-key-pinned"), "0");
    assert_eq!(plain.property("rocksdb.iterator.none"), None);
    assert_eq!(plain.property("is-key-pinned"), None);
}

/// Tests a refresh in the middle of a table. The iterator must continue in the new table with the
/// readahead size that it had reached in the old one.
#[test]
fn readahead_continues_in_a_table_that_replaced_another() {
    let scene =
        Scene::with("target_file_size_base=64m;block_based_table_factory={no_block_cache=1}");
    scene.replace(0);
    let read = refreshing(&scene.db, true);
    let mut iterator = scene.db.raw_iterator_cf_opt(&scene.family, &read).expect("an iterator");
    iterator.seek_to_first().expect("a seek");
    step(&mut iterator, 0, KEYS / 2);
    scene.replace(1);
    scene.storage.start_recording();
    step(&mut iterator, KEYS / 2, KEYS);
    let calls = scene.storage.calls();
    let reads = calls.iter().filter(|call| {
        call.operation == Operation::Read && call.purpose == Some(Purpose::UserRead)
    });
    // The new table has two records for each key. After a few reads to open it, the iterator must
    // read 256 KiB at a time.
    let (reads, most) = (reads.count(), KEYS * 1000 / 2 / (256 << 10) + 1 + OPENING_READS);
    assert!(reads <= most, "{reads} reads");
    assert!(!iterator.valid());
}

/// Regression test: an explicit refresh failed, and the next seek retried it with an older sequence
/// number than requested. The records at that sequence number might have been dropped by then.
#[test]
fn a_retried_refresh_uses_the_latest_requested_sequence_number() {
    for with_snapshot in [true, false] {
        let scene = Scene::with("max_open_files=1");
        scene.write(0);
        scene.db.flush_cf(&scene.family).expect("a flush");
        let mut iterator = scene
            .db
            .raw_iterator_cf_opt(&scene.family, &ReadOptions::default())
            .expect("an iterator");
        // At least twenty tables stay open whatever the limit, so there must be more tables than
        // that.
        for _ in 0..25 {
            scene.write(1);
            scene.db.flush_cf(&scene.family).expect("a flush");
        }
        let snapshot = scene.db.snapshot();
        let rule = FaultRule::new(Fault::InputOutput).operation(Operation::Open).from(0);
        scene.storage.set_faults(FaultPlan::none().with(rule.path_containing(".sst")));
        let refreshed =
            if with_snapshot { iterator.refresh_at(&snapshot) } else { iterator.refresh() };
        refreshed.expect_err("a table that cannot be opened");
        scene.storage.set_faults(FaultPlan::none());
        drop(snapshot);
        scene.replace(2);
        iterator.seek_to_first().expect("a seek");
        let round = if with_snapshot { 1 } else { 2 };
        for number in 0..KEYS {
            assert_eq!(iterator.item(), Some((&key(number)[..], &value(round)[..])));
            iterator.next().expect("a step");
        }
        assert!(!iterator.valid());
    }
}

/// Regression test: a refresh failed, and the database was closed. The next seek returned an error
/// and forgot the refresh, so that the seek after it searched at a sequence number whose records
/// may have been dropped.
#[test]
fn a_failed_refresh_is_not_forgotten_when_the_database_is_closed() {
    let scene = Scene::with("max_open_files=1");
    scene.write(0);
    scene.db.flush_cf(&scene.family).expect("a flush");
    let mut iterator =
        scene.db.raw_iterator_cf_opt(&scene.family, &ReadOptions::default()).expect("an iterator");
    for _ in 0..25 {
        scene.write(1);
        scene.db.flush_cf(&scene.family).expect("a flush");
    }
    let rule = FaultRule::new(Fault::InputOutput).operation(Operation::Open).from(0);
    scene.storage.set_faults(FaultPlan::none().with(rule.path_containing(".sst")));
    iterator.refresh().expect_err("a table that cannot be opened");
    scene.storage.set_faults(FaultPlan::none());
    let Scene { db, family, .. } = scene;
    drop(db);
    for _ in 0..2 {
        let error = iterator.seek_to_first().expect_err("a seek without the database");
        assert_eq!(error.kind(), ErrorKind::Closed);
    }
    drop(family);
}

/// Regression test: iterators kept tables open, and used the prefix extractor that was set when
/// these tables were opened. After the prefix extractor was changed, the iterators used the filters
/// of these tables wrongly and skipped keys.
#[test]
fn changing_the_prefix_extractor_hides_no_key_from_iterators() {
    let text = "prefix_extractor=fixed:4;\
                block_based_table_factory={filter_policy=bloomfilter:10:false}";
    let put = |scene: &Scene, key: &str| {
        let options = WriteOptions::default();
        scene.db.put_cf_opt(&scene.family, key.as_bytes(), b"value", &options).expect("a put");
    };
    let flush = |scene: &Scene| scene.db.flush_cf(&scene.family).expect("a flush");
    let change = |scene: &Scene, prefixes: &str| {
        let options = [("prefix_extractor", prefixes)];
        scene.db.set_options_cf(&scene.family, &options).expect("other options");
    };
    for compacted in [false, true] {
        let scene = Scene::with(text);
        put(&scene, "aaab");
        flush(&scene);
        if compacted {
            let options = CompactRangeOptions::default();
            scene
                .db
                .compact_range_cf_opt(&scene.family, None, None, &options)
                .expect("a compaction");
        }
        for refreshes in [true, false] {
            let read = refreshing(&scene.db, refreshes);
            let mut iterator =
                scene.db.raw_iterator_cf_opt(&scene.family, &read).expect("an iterator");
            iterator.seek(b"aaab").expect("a seek");
            change(&scene, "fixed:1");
            if !refreshes {
                iterator.refresh().expect("a refresh");
            }
            iterator.seek(b"aaaa").expect("a seek");
            assert_eq!(iterator.key(), b"aaab", "{refreshes}, {compacted}");
            change(&scene, "fixed:4");
        }
    }
    // Checks again that a seek finds its key after a change of the prefix extractor. This time, the
    // extractor changes in the middle of a scan.
    let scene = Scene::with(text);
    change(&scene, "fixed:1");
    put(&scene, "aaaa");
    flush(&scene);
    put(&scene, "aaab");
    let read = refreshing(&scene.db, true);
    let mut iterator = scene.db.raw_iterator_cf_opt(&scene.family, &read).expect("an iterator");
    iterator.seek(b"a").expect("a seek");
    assert_eq!(iterator.key(), b"aaaa");
    change(&scene, "fixed:4");
    flush(&scene);
    (0..20).for_each(|_| put(&scene, "aaaa"));
    iterator.next().expect("a step");
    assert_eq!(iterator.key(), b"aaab");
    iterator.seek(b"aaab").expect("a seek");
    assert_eq!(iterator.key(), b"aaab");
}

/// Tests failing refreshes during forward and backward moves. In each round, the refresh fails at
/// the next table: first when it opens its first table, then when it opens its second table, and so
/// on.
#[test]
fn an_error_partway_neither_skips_a_key_nor_repeats_one() {
    for goes_forward in [true, false] {
        let scene = Scene::with("max_open_files=1");
        scene.write(0);
        let read = refreshing(&scene.db, true);
        let mut iterator = scene.db.raw_iterator_cf_opt(&scene.family, &read).expect("an iterator");
        let mut failures = 0;
        for index in 0..8 {
            let middle = KEYS / 2;
            iterator.seek(key(middle)).expect("a seek");
            // At least twenty tables stay open whatever the limit, so there must be more tables
            // than that.
            for _ in 0..25 {
                let options = WriteOptions::default();
                scene.db.put_cf_opt(&scene.family, key(middle), value(1), &options).expect("a put");
                scene.db.flush_cf(&scene.family).expect("a flush");
            }
            let rule = FaultRule::new(Fault::InputOutput).operation(Operation::Open).at(index);
            scene.storage.set_faults(FaultPlan::none().with(rule.path_containing(".sst")));
            let step = |iterator: &mut DbIterator| {
                if goes_forward { iterator.next() } else { iterator.prev() }
            };
            let moved = step(&mut iterator);
            scene.storage.set_faults(FaultPlan::none());
            let first = if goes_forward { middle + 1 } else { middle - 1 };
            assert_eq!(moved.is_ok(), iterator.valid(), "{moved:?}");
            if moved.is_err() {
                failures += 1;
                iterator.seek(key(first)).expect("a seek");
            }
            for distance in 0..20 {
                let at = if goes_forward { first + distance } else { first - distance };
                assert_eq!(iterator.item(), Some((&key(at)[..], &value(0)[..])));
                step(&mut iterator).expect("a step");
            }
            scene.replace(1);
        }
        assert!(failures > 3, "{failures} failures");
    }
}

/// Regression test: an iterator that outlived all handles of its dropped column family kept all
/// memtables and tables of the column family, even those that it did not read.
#[test]
fn an_iterator_keeps_alive_only_what_it_shows() {
    let scene = Scene::new();
    let other = scene.db.create_cf("other", &Default::default()).expect("a family");
    let put = |value: &[u8]| {
        let options = WriteOptions::default();
        scene.db.put_cf_opt(&other, b"key", value, &options).expect("a put");
        scene.db.flush_cf(&other).expect("a flush");
    };
    put(b"first");
    let read = ReadOptions::default();
    let mut iterator = scene.db.raw_iterator_cf_opt(&other, &read).expect("an iterator");
    put(b"second");
    scene.db.drop_cf(&other).expect("a drop");
    drop(other);
    assert!((0..LOOKS).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        scene.tables() == 1
    }));
    iterator.seek_to_first().expect("a seek");
    assert_eq!(iterator.value(), b"first");
    let error = iterator.refresh().expect_err("nothing to go over to");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    // The refresh failed, and the iterator must still show the same entry.
    assert_eq!(iterator.value(), b"first");
    drop(scene.family);
    drop(scene.db);
    let error = iterator.refresh().expect_err("no database");
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    iterator.seek_to_first().expect("a seek");
    assert_eq!(iterator.value(), b"first");
}
