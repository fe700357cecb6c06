//! Tests of compactions that fail, and of the files that remain afterwards.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tailwater_format::key::ValueType;
use tailwater_io::sim::{Fault, FaultPlan, SimStorage};

use super::scene::{Record, Scene};
use crate::compaction_filter::{
    CompactionFilter, CustomCompactionFilter, FilterContext, FilterDecision, FilteredValue,
};
use crate::error::ErrorKind;

/// Returns a scene with two overlapping tables in level 0. Each has `count` records.
fn filled(options: &str, count: u64) -> Scene {
    fill(Scene::new(options), count)
}

fn fill(mut scene: Scene, count: u64) -> Scene {
    for table in 0..2 {
        let record = |at| Record::put(&format!("key{at:05}"), 1 + at + table * count, "some value");
        let records: Vec<Record> = (0..count).map(record).collect();
        scene.add_table(0, &records, None);
    }
    scene.max_output_file_bytes = 4096;
    scene
}

#[test]
fn a_cancelled_compaction_leaves_no_file() {
    let mut scene = filled("compression=kNoCompression", 2000);
    scene.cancelled.store(true, Ordering::Relaxed);
    let compaction = scene.levels(&[0, 6]);
    let error = scene.compact(compaction).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert_eq!(scene.file_count(), 2);
    scene.cancelled.store(false, Ordering::Relaxed);
    let compaction = scene.levels(&[0, 6]);
    assert!(scene.compact(compaction).unwrap().outputs.len() > 1);
}

#[test]
fn a_damaged_input_is_named_and_leaves_no_file() {
    let mut scene = filled("compression=kNoCompression", 2000);
    let number = scene.files(0)[1].number();
    let path = scene.directory.join(format!("{number:06}.sst"));
    change(&path, |bytes| bytes[20_000] ^= 1);
    let compaction = scene.levels(&[0, 6]);
    let error = scene.compact(compaction).unwrap_err();
    assert!(error.is_corruption(), "{error}");
    assert_eq!(error.path(), Some(&*path));
    assert_eq!(scene.file_count(), 2);
}

/// Tests records whose values do not decode, although their blocks are whole. No contract of the
/// program is broken: the table is damaged, and the error names it.
#[test]
fn a_table_with_a_value_that_does_not_decode_is_named() {
    // The entity has one column, whose name is missing.
    let entity = Record::new("a", 5, ValueType::WideColumnEntity, "\u{1}\u{1}");
    let operand = Record::new("a", 6, ValueType::Merge, "x");
    for (records, has_filter) in [(vec![operand, entity.clone()], false), (vec![entity], true)] {
        let mut scene = Scene::new("merge_operator=stringappend");
        if has_filter {
            scene.filter = Some(CompactionFilter::Custom(Arc::new(KeepsAll)));
        }
        scene.add_table(0, &records, None);
        let path = scene.directory.join(format!("{:06}.sst", scene.files(0)[0].number()));
        let compaction = scene.levels(&[0, 6]);
        let error = scene.compact(compaction).unwrap_err();
        assert!(error.is_corruption() && error.to_string().contains("key 'a'"), "{error}");
        assert_eq!(error.path(), Some(&*path), "{error}");
        assert_eq!(scene.file_count(), 1);
    }
}

/// A compaction filter that sees entities, and keeps them.
struct KeepsAll;

impl CustomCompactionFilter for KeepsAll {
    fn name(&self) -> &str {
        "KeepsAll"
    }

    fn filter(&self, _: &FilterContext, _: &[u8], _: FilteredValue<'_>) -> FilterDecision {
        FilterDecision::Keep
    }
}

#[test]
fn no_failing_call_leaves_a_file() {
    // The compaction reads through the shared readers of the tables or, with the second options,
    // through its own readers. Even if it fails, no reader may hold a file open afterwards.
    for (options, failures_min) in [("", 5), ("use_direct_io_for_compaction_reads=true", 10)] {
        let storage = SimStorage::new(1);
        let scene = fill(Scene::simulated(options, &storage), 300);
        let mut failures = 0;
        for call in 0.. {
            storage.set_faults(FaultPlan::at(call, Fault::InputOutput));
            let run = scene.job(scene.levels(&[0, 6])).run();
            assert_eq!(scene.open_budget.taken(), 0, "call {call} of '{options}'");
            match run {
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
                    assert_eq!(scene.file_count(), 2, "call {call}: {error}");
                    failures += 1;
                }
                // The fault affected no call that the job needs, or came after the job's last call.
                Ok(_) => break,
            }
        }
        assert!(failures >= failures_min, "{failures} of '{options}'");
    }
}

#[test]
fn a_wrong_record_count_names_the_tables() {
    let unchecked = "block_based_table_factory={checksum=kNoChecksum;format_version=5}";
    let mut scene = filled(unchecked, 100);
    let number = scene.files(0)[0].number();
    change(&scene.directory.join(format!("{number:06}.sst")), |bytes| {
        // The property `rocksdb.num.entries`. Property names in the block are prefix-compressed, so
        // only its last part is in the file.
        let name = b"entries";
        let at = bytes.windows(name.len()).position(|window| window == name).unwrap();
        assert_eq!(bytes[at + name.len()], 100);
        bytes[at + name.len()] = 99;
    });
    let compaction = scene.levels(&[0, 6]);
    let error = scene.compact(compaction).unwrap_err();
    assert!(error.is_corruption(), "{error}");
    let expected =
        "tables 1001, 1000 have 199 records according to their properties, but 200 were read";
    assert!(error.to_string().contains(expected), "{error}");
    assert_eq!(scene.file_count(), 2);
    scene.database.compaction_verify_record_count = false;
    let compaction = scene.levels(&[0, 6]);
    assert!(scene.compact(compaction).is_ok());
}

#[expect(clippy::disallowed_methods, reason = "changes a file from outside the engine")]
fn change(path: &std::path::Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(path).unwrap();
    change(&mut bytes);
    std::fs::write(path, bytes).unwrap();
}
