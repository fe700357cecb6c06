//! Seeks with `async_io` when neither indexes, nor filters, nor data are in memory.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use fastrand::Rng;
use tailwater::{ColumnFamily, Db, DbIterator, OpenOptions, ReadOptions};
use tailwater_io::sim::{Fault, FaultPlan, FaultRule, SimStorage};
use tailwater_io::{Operation, Purpose};
use tailwater_testkit::{golden, seed};

use crate::recorder::Recorder;
use crate::{Scene, key, on_disk};

pub(crate) const TABLES: u32 = 6;
pub(crate) const ENTRIES: u32 = 2000;

/// Options with which nothing stays in the block cache.
const COLD: &str = "block_based_table_factory={block_cache=1k;cache_index_and_filter_blocks=true;\
                    pin_top_level_index_and_filter=false}";

/// Returns a new database.
fn open(recorder: &Recorder, more: &str) -> Db {
    let mut options = OpenOptions::with_storage(Arc::new(recorder.clone()));
    let text = "create_if_missing=true;compression=kNoCompression;disable_auto_compactions=true;\
                block_based_table_factory={block_size=1024;filter_policy=bloomfilter:10:false}";
    options.set_from_string(&format!("{text};{COLD};{more}")).expect("options");
    options.set_inline_background(true);
    Db::open(Path::new("/db"), &options).expect("a database")
}

/// Returns a database with overlapping tables of level 0.
pub(crate) fn overlapping(recorder: &Recorder, more: &str) -> Db {
    let db = open(recorder, more);
    for table in 0..TABLES {
        for number in (table..ENTRIES).step_by(TABLES as usize) {
            db.put(key(number), vec![b'x'; 100]).expect("a put");
        }
        db.flush().expect("a flush");
    }
    db
}

#[test]
fn the_blocks_that_a_seek_lacks_of_each_table_are_read_together() {
    // With a prefix extractor, a seek asks the filters first.
    let cases = [("", 2), ("prefix_extractor=rocksdb.FixedPrefix.3", 3)];
    for (more, rounds) in cases {
        let recorder = Recorder::new(SimStorage::new(1));
        let db = overlapping(&recorder, more);
        for target in [700, 0, 1400] {
            let iterator = |async_io| {
                let options = ReadOptions::new().with_async_io(async_io).with_fill_cache(false);
                db.raw_iterator_opt(&options).expect("an iterator")
            };
            let (mut plain, mut together) = (iterator(false), iterator(true));
            let seek = |it: &mut DbIterator| it.seek(key(target)).expect("a seek");
            let (batches, reads) = recorder.record(Purpose::UserRead, || seek(&mut plain));
            assert_eq!((batches.len(), reads), (0, u64::from(TABLES) * rounds));
            let (batches, reads) = recorder.record(Purpose::UserRead, || seek(&mut together));
            assert_eq!(batches, vec![TABLES as usize; rounds as usize], "{more}");
            assert_eq!(reads, u64::from(TABLES) * rounds, "no more than one by one");
            assert_eq!(together.item(), plain.item());
            assert_eq!(together.key(), key(target));
        }
    }
}

#[test]
fn seeks_to_both_ends_and_backward_read_together() {
    type Seek = fn(&mut DbIterator) -> tailwater::Result<()>;
    let seeks: [Seek; 3] = [DbIterator::seek_to_first, DbIterator::seek_to_last, |iterator| {
        iterator.seek_for_prev(key(1111))
    }];
    let recorder = Recorder::new(SimStorage::new(1));
    let db = overlapping(&recorder, "");
    for seek in seeks {
        let iterator = |async_io| {
            let options = ReadOptions::new().with_async_io(async_io).with_fill_cache(false);
            db.raw_iterator_opt(&options).expect("an iterator")
        };
        let (mut plain, mut together) = (iterator(false), iterator(true));
        let move_it = |it: &mut DbIterator| seek(it).expect("a seek");
        let (_, expected) = recorder.record(Purpose::UserRead, || move_it(&mut plain));
        let (batches, reads) = recorder.record(Purpose::UserRead, || move_it(&mut together));
        assert_eq!(batches[..2], [TABLES as usize; 2]);
        assert_eq!(reads, expected, "no more than one by one");
        assert_eq!(together.item(), plain.item());
    }
}

/// The golden database `formats` has indexes and filters of every kind, partitioned ones too.
#[test]
fn indexes_and_filters_of_every_kind_are_read_together() {
    let mut seed = seed::rng();
    println!("TAILWATER_SEED={}", seed.value());
    let rng = &mut seed.rng;
    let recorder = Recorder::new(on_disk("formats", rng));
    let mut options = OpenOptions::with_storage(Arc::new(recorder.clone()));
    options.set_load_when_opened(COLD);
    options.set_inline_background(true);
    let db = Db::open(Path::new("/db"), &options).expect("the database");
    let entries = golden::dump("formats");
    let (mut in_batches, mut strikes) = (0, 0);
    for _ in 0..100 * seed::rounds() {
        let entry = rng.choice(&entries).expect("an entry");
        let family = db.cf_handle(&entry.family).expect("a column family");
        let mut target = entry.key.clone();
        if rng.bool() {
            target.push(0);
        }
        let walk = Walk { family, target, is_forward: rng.bool(), steps: rng.usize(..20) };
        let expected = walk.run(&db, false).expect("no error without faults");
        let mut found = Ok(Vec::new());
        let (batches, _) = recorder.record(Purpose::UserRead, || found = walk.run(&db, true));
        in_batches += batches.iter().sum::<usize>();
        assert!(found.expect("no error without faults") == expected, "{walk:?}");
        let fault = |fault| FaultRule::new(fault).operation(Operation::Read);
        let set = |rule: FaultRule| {
            recorder.disk.set_faults(FaultPlan::none().with(rule.purpose(Purpose::UserRead)));
        };
        set(fault(Fault::Short).from(0));
        assert!(walk.run(&db, true).expect("short reads are completed") == expected, "{walk:?}");
        set(fault(Fault::InputOutput).at(rng.u64(..10)));
        match walk.run(&db, true) {
            Ok(found) => assert!(found == expected, "{walk:?}"),
            Err(_) => strikes += 1,
        }
        recorder.disk.set_faults(FaultPlan::none());
    }
    println!("{in_batches} reads in flight together, {strikes} walks met an error");
    assert!(in_batches > 0 && strikes > 0);
}

/// A seek in a column family, and some steps.
#[derive(Debug)]
struct Walk {
    family: ColumnFamily,
    target: Vec<u8>,
    is_forward: bool,
    steps: usize,
}

impl Walk {
    /// Returns the entries that the walk passes.
    fn run(&self, db: &Db, async_io: bool) -> tailwater::Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let options = ReadOptions::new().with_async_io(async_io).with_fill_cache(false);
        let mut iterator = db.raw_iterator_cf_opt(&self.family, &options)?;
        if self.is_forward {
            iterator.seek(&self.target)?;
        } else {
            iterator.seek_for_prev(&self.target)?;
        }
        let mut found = Vec::new();
        for _ in 0..self.steps {
            let Some((key, value)) = iterator.item() else { break };
            found.push((key.to_vec(), value.to_vec()));
            if self.is_forward {
                iterator.next()?;
            } else {
                iterator.prev()?;
            }
        }
        Ok(found)
    }
}

/// Regression test: if a source failed during a seek, the sources after it kept what was prepared
/// for this seek, and used it in a later one, with another target.
#[test]
fn a_failed_seek_leaves_nothing_prepared() {
    let mut seed = seed::rng();
    println!("TAILWATER_SEED={}", seed.value());
    let rng = &mut seed.rng;
    let scene = Scene::new("", "", rng);
    let options = ReadOptions::new().with_async_io(true).with_fill_cache(false);
    let mut iterator = scene.db.raw_iterator_cf_opt(&scene.family, &options).expect("an iterator");
    let mut failed = 0;
    for _ in 0..200 * seed::rounds() {
        scene.set_fault(Some(FaultRule::new(Fault::InputOutput).at(rng.u64(..8))));
        failed += usize::from(seek_anywhere(&mut iterator, rng).is_err());
        scene.set_fault(None);
        if rng.bool() {
            iterator.seek_to_first().expect("a seek");
            let first = scene.now.first_key_value().map(|(key, value)| (&key[..], &value[..]));
            assert_eq!(iterator.item(), first);
        } else {
            iterator.seek_to_last().expect("a seek");
            let last = scene.now.last_key_value().map(|(key, value)| (&key[..], &value[..]));
            assert_eq!(iterator.item(), last);
        }
        check_turns(&scene, &mut iterator, rng);
    }
    assert!(failed > 0);
}

/// Regression test: what was prepared for a seek that panicked was used by the next seek, if blocks
/// that this one needed could not be read. Then it passed over keys.
#[test]
fn a_seek_that_panicked_leaves_nothing_prepared() {
    let recorder = Recorder::new(SimStorage::new(1));
    let db = open(&recorder, "prefix_extractor=rocksdb.FixedPrefix.3");
    for keys in [["aaa1", "bbb1"], ["bbb0", "bbb2"]] {
        for key in keys {
            db.put(key, "value").expect("a put");
        }
        db.flush().expect("a flush");
    }
    let options = ReadOptions::new().with_async_io(true).with_fill_cache(false);
    for failing in 0..4 {
        let mut iterator = db.raw_iterator_opt(&options).expect("an iterator");
        // The filters of both tables are read, and that of the second one excludes the target. Then
        // the index of the first one cannot be read.
        recorder.panic_after(2);
        let sought = catch_unwind(AssertUnwindSafe(|| iterator.seek("aaa")));
        assert!(sought.is_err() && !iterator.valid());
        let rule = FaultRule::new(Fault::InputOutput).operation(Operation::Read).at(failing);
        recorder.disk.set_faults(FaultPlan::none().with(rule));
        let sought = iterator.seek("bbb");
        recorder.disk.set_faults(FaultPlan::none());
        assert!(sought.is_err() || iterator.key() == b"bbb0", "{:?}", iterator.item());
    }
}

fn seek_anywhere(iterator: &mut DbIterator, rng: &mut Rng) -> tailwater::Result<()> {
    let target = key(rng.u32(..crate::KEYS));
    match rng.u8(..4) {
        0 => iterator.seek_to_first(),
        1 => iterator.seek_to_last(),
        2 => iterator.seek(target),
        _ => iterator.seek_for_prev(target),
    }
}

/// Makes steps in both directions, and compares the entries with those of the scene.
fn check_turns(scene: &Scene, iterator: &mut DbIterator, rng: &mut Rng) {
    for _ in 0..rng.usize(..10) {
        let is_forward = rng.bool();
        for _ in 0..rng.usize(..5) {
            let Some(here) = iterator.item().map(|(key, _)| key.to_vec()) else { return };
            let expected = if is_forward {
                iterator.next().expect("a step");
                scene.now.range(here.clone()..).nth(1)
            } else {
                iterator.prev().expect("a step");
                scene.now.range(..here.clone()).next_back()
            };
            let expected = expected.map(|(key, value)| (&key[..], &value[..]));
            assert_eq!(iterator.item(), expected, "after {}", here.escape_ascii());
        }
    }
}
