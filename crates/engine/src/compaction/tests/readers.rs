//! The readers of a compaction's inputs: the size of their requests, and when they are closed.

use std::sync::Arc;

use tailwater_format::key::{MAX_SEQUENCE, ValueType};
use tailwater_format::{Comparator, key};
use tailwater_io::sim::SimStorage;
use tailwater_io::{Purpose, Storage};

use super::scene::{Record, Scene};
use crate::compaction::merge::{CoverCursor, Inputs};
use crate::table::ReadPlan;

/// Maximum request size that the device reports, in bytes.
const REQUEST_BYTES_MAX: u64 = 64 << 10;

/// Compacts `tables` tables of 4 MB. Returns the average size of a read request, in bytes.
fn bytes_of_a_read(options: &str, tables: u64, request_bytes_max: Option<u64>) -> u64 {
    let storage = SimStorage::new(1);
    if let Some(bytes) = request_bytes_max {
        storage.set_request_bytes_max(bytes as usize);
    }
    let options = format!("compression=kNoCompression;compaction_readahead_size=524288;{options}");
    let mut scene = Scene::simulated(&options, &storage);
    let value = "v".repeat(4000);
    for table in 0..tables {
        let record = |at: u64| Record::put(&format!("key{at:05}"), 1 + at + table * 1000, &value);
        let records: Vec<Record> = (0..1000).map(record).collect();
        scene.add_table(0, &records, None);
    }
    scene.job(scene.levels(&[0, 6])).run().unwrap();
    let read = storage.statistics().snapshot(Purpose::CompactionRead);
    assert!(read.read_bytes >= tables * 4_000_000, "{read:?}");
    read.read_bytes / read.reads.count
}

#[test]
fn buffered_readahead_requests_fit_the_device_limit() {
    let direct = "use_direct_io_for_compaction_reads=true";
    assert!(bytes_of_a_read("", 2, Some(REQUEST_BYTES_MAX)) <= REQUEST_BYTES_MAX);
    assert!(bytes_of_a_read("", 2, None) > 2 * REQUEST_BYTES_MAX);
    assert!(bytes_of_a_read(direct, 2, Some(REQUEST_BYTES_MAX)) > 2 * REQUEST_BYTES_MAX);
}

/// Regression test: the buffers of many inputs had no bound.
#[test]
fn buffered_readahead_of_many_inputs_takes_bounded_memory() {
    let options = "compaction_readahead_size=2097152";
    let bound = (64 << 20) / 64;
    assert!(bytes_of_a_read(options, 2, None) > bound);
    assert!(bytes_of_a_read(options, 64, None) <= bound);
}

/// Creates tables with range tombstones in two levels. The option set here makes a compaction open
/// tables itself, instead of using those opened for users' reads.
fn with_tombstones(storage: &SimStorage) -> Scene {
    let mut scene = Scene::simulated("use_direct_io_for_compaction_reads=true", storage);
    for (level, sequence) in [(1, 1_u64), (0, 100), (0, 200)] {
        let record = |at: u64| Record::put(&format!("key{at:02}"), sequence + at, "some value");
        let mut records: Vec<Record> = (0..40).map(record).collect();
        records.push(Record::new("key10", sequence + 50, ValueType::RangeDeletion, "key20"));
        scene.add_table(level, &records, None);
    }
    scene
}

/// The objects through which a compaction reads its inputs. A field is `None` when the test has
/// dropped its object.
#[derive(Default)]
struct Left {
    inputs: Option<Inputs>,
    iterator: Option<crate::iterator::MergingIterator>,
    cover: Option<CoverCursor>,
}

impl Left {
    fn of(scene: &Scene) -> Self {
        let readers = scene.readers.for_compaction(&scene.open_budget);
        let compaction = scene.levels(&[0, 1]);
        let inputs = Inputs::survey(&compaction, &readers.tables, &scene.open_budget).unwrap();
        let mut iterator = inputs.merged(None, None, &ReadPlan::growing()).unwrap();
        iterator.seek_to_first().unwrap();
        let tombstones = Arc::clone(inputs.tombstones());
        let cover = CoverCursor::new(Comparator::Bytewise, tombstones);
        Self { inputs: Some(inputs), iterator: Some(iterator), cover: Some(cover) }
    }

    fn let_go_of(&mut self, part: usize) {
        match part {
            0 => self.inputs = None,
            1 => self.iterator = None,
            _ => self.cover = None,
        }
    }

    /// Asserts that each field that is not `None` still works, although the test has dropped the
    /// objects in other fields.
    fn check(&mut self, context: &str) {
        if let Some(iterator) = &mut self.iterator {
            let mut count = 0;
            iterator.seek_to_first().unwrap();
            while iterator.valid() {
                count += 1;
                iterator.next().unwrap();
            }
            assert_eq!(count, 120, "{context}");
        }
        if let Some(cover) = &mut self.cover {
            cover.restart();
            let trailer = key::pack_trailer(1, ValueType::Value as u8);
            for (user_key, is_covered) in [("key05", false), ("key15", true), ("key25", false)] {
                let covered = cover.covers(user_key.as_bytes(), trailer, MAX_SEQUENCE);
                assert_eq!(covered, is_covered, "{context}: {user_key}");
            }
        }
    }
}

#[test]
fn readers_close_after_their_last_use_in_any_drop_order() {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let scene = with_tombstones(&SimStorage::new(1));
        let mut left = Left::of(&scene);
        assert!(scene.open_budget.taken() >= 3, "every input is open");
        for part in order {
            left.check(&format!("{order:?}, before {part}"));
            left.let_go_of(part);
            // Dropping `cover` closes nothing: it holds range tombstones in memory and no open
            // file.
            let reads = left.inputs.is_some() || left.iterator.is_some();
            assert_eq!(scene.open_budget.taken() > 0, reads, "{order:?}, after {part}");
        }
    }
}
