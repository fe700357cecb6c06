//! Where outputs end and begin, if they are cut at range tombstones.

use std::sync::Arc;

use tailwater_format::key::{self, ValueType};

use super::scene::{Record, Scene, text};
use crate::table::FileMetadata;

/// Compacts one table of level 0 into level 5, above a table of level 6. The first output is full
/// when it has the records `a` and `b`, so it ends before the next key at which an output can end.
/// Returns, for each output, its smallest key, its largest key, and its contents.
fn outputs(records: &[Record], deeper: &[Record]) -> Vec<String> {
    let mut scene =
        Scene::new("compression=kNoCompression;block_based_table_factory={block_size=100}");
    scene.max_output_file_bytes = 1000;
    scene.add_table(6, deeper, None);
    let long = "v".repeat(2000);
    let full = [Record::put("a", 2, &long), Record::put("b", 3, "")];
    scene.add_table(0, &[&full, records].concat(), None);
    let compaction = scene.levels(&[0, 5]);
    scene.compact(compaction).unwrap();
    let bound = |bound: &[u8]| {
        let (user_key, trailer) = key::split(bound).unwrap();
        let sequence = if trailer >> 8 == key::MAX_SEQUENCE { 0 } else { trailer >> 8 };
        let mark = match trailer as u8 == ValueType::RangeDeletion as u8 {
            true if sequence == 0 => ")",
            true => "..",
            false => "",
        };
        format!("{}@{sequence}{mark}", user_key.escape_ascii())
    };
    let show = |file: &Arc<FileMetadata>| {
        let contents = text(&scene.contents(file)).replace(&long, "");
        format!("{} {}: {contents}", bound(file.smallest()), bound(file.largest()))
    };
    scene.files(5).iter().map(show).collect()
}

fn single(key: &str, sequence: u64) -> Record {
    Record::new(key, sequence, ValueType::SingleDeletion, "")
}

fn range(key: &str, sequence: u64, end: &str) -> Record {
    Record::new(key, sequence, ValueType::RangeDeletion, end)
}

/// Regression test: an output did not begin at the start of a range tombstone below a single
/// deletion and its write, which were dropped. Its smallest key was the next record.
#[test]
fn an_output_begins_at_a_start_below_a_dropped_single_deletion_pair() {
    let records = [single("k", 9), Record::put("k", 8, "v"), range("k", 7, "m"), single("k", 6)];
    let written = outputs(&records, &[Record::put("k", 1, "v")]);
    assert_eq!(written, ["a@2 b@3: a@2 b@3", "k@7.. m@0): k@6-- k@7..m"]);
    // If the start is between the single deletion and its write, it is passed together with them.
    let records = [single("k", 9), range("k", 8, "m"), Record::put("k", 7, "v"), single("k", 6)];
    let written = outputs(&records, &[Record::put("k", 1, "v")]);
    assert_eq!(written, ["a@2 b@3: a@2 b@3", "k@6 m@0): k@6-- k@8..m"]);
}

/// Regression test: an output began at the start of a range tombstone at the key of a single
/// deletion that had no write. RocksDB skips this start.
#[test]
fn no_output_begins_at_a_start_below_a_single_deletion_without_a_write() {
    let records = [single("k", 9), range("k", 7, "m"), Record::put("l", 8, "v")];
    let dropped = outputs(&records, &[Record::put("kk", 1, ""), Record::put("ll", 1, "")]);
    assert_eq!(dropped, ["a@2 l@0): a@2 b@3 k@7..m", "l@8 m@0): l@8v k@7..m"]);
    let kept = outputs(&records, &[Record::put("k", 1, ""), Record::put("ll", 1, "")]);
    assert_eq!(kept, ["a@2 b@3: a@2 b@3", "k@9 m@0): k@9-- l@8v k@7..m"]);
}
