//! The calls of compaction filters, and the effects of their decisions.

use std::sync::Arc;

use tailwater_format::blob::{
    BlobFileFooter, BlobFileHeader, BlobIndex, BlobLocation, BlobRecordHeader,
};
use tailwater_format::compress::Compression;
use tailwater_format::key::{Sequence, ValueType};
use tailwater_format::wide_column::{self, WideColumn};
use tailwater_io::sync::Mutex;
use tailwater_io::{Create, IoMode, Purpose};

use super::scene::{Record, Scene, text};
use crate::compaction_filter::{
    CompactionFilter, CustomCompactionFilter, FilterContext, FilterDecision, FilteredValue,
};
use crate::contracts::Violations;

/// A compaction filter that decides by the first letter of a record's value, or of the value of an
/// entity's first column, and keeps a list of its calls.
#[derive(Default)]
struct Asked {
    calls: Mutex<Vec<String>>,
}

impl CustomCompactionFilter for Asked {
    fn name(&self) -> &str {
        "Asked"
    }

    fn filter(
        &self,
        FilterContext { level, .. }: &FilterContext,
        key: &[u8],
        value: FilteredValue<'_>,
    ) -> FilterDecision {
        let (shown, value) = match value {
            FilteredValue::Plain(value) => (format!("Plain {}", value.escape_ascii()), value),
            FilteredValue::MergeOperand(operand) => {
                (format!("MergeOperand {}", operand.escape_ascii()), operand)
            }
            FilteredValue::WideColumns(columns) => {
                assert!(columns.iter().all(|column| !column.is_blob_index));
                let shown = columns.iter().map(|column| {
                    format!(" {}:{}", column.name.escape_ascii(), column.value.escape_ascii())
                });
                (format!("WideColumns{}", shown.collect::<String>()), columns[0].value)
            }
        };
        self.calls.lock().push(format!("{level} {} {shown}", key.escape_ascii()));
        let column =
            |name: &str, value: &str| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
        match value.first() {
            Some(b'R') => FilterDecision::Remove,
            Some(b'P') => FilterDecision::Purge,
            Some(b'C') => FilterDecision::ChangeValue(b"changed".to_vec()),
            Some(b'E') => FilterDecision::ChangeEntity(vec![column("x", "1"), column("", "2")]),
            Some(b'D') => FilterDecision::ChangeEntity(vec![column("x", "1"), column("x", "2")]),
            Some(b'S') => FilterDecision::RemoveAndSkipUntil(value[1..].to_vec()),
            Some(b'!') => panic!("on purpose"),
            _ => FilterDecision::Keep,
        }
    }
}

/// Compacts `records`. Returns the records that remain, and the calls that the compaction filter
/// received.
fn filtered(
    snapshots: &[Sequence],
    records: &[Record],
    deeper: &[Record],
) -> (String, Vec<String>) {
    let (left, calls, violations) = filtered_in(&mut scene(), snapshots, records, deeper);
    assert_eq!(violations, Violations::default());
    (left, calls)
}

fn scene() -> Scene {
    Scene::new("merge_operator=stringappend")
}

/// Like [`filtered`], in a given scene. Also returns the violations that the compaction reported.
fn filtered_in(
    scene: &mut Scene,
    snapshots: &[Sequence],
    records: &[Record],
    deeper: &[Record],
) -> (String, Vec<String>, Violations) {
    let filter = Arc::new(Asked::default());
    scene.filter = Some(CompactionFilter::Custom(filter.clone()));
    scene.snapshots = snapshots.to_vec();
    if !deeper.is_empty() {
        scene.add_table(6, deeper, None);
    }
    scene.add_table(0, records, None);
    let compaction = scene.levels(&[0, 5]);
    let outcome = scene.compact(compaction).unwrap();
    let calls = filter.calls.lock().clone();
    (text(&scene.level_contents(5)), calls, outcome.violations)
}

/// Returns the number of violations, and the description of the first one.
fn described(violations: &Violations) -> (u64, String) {
    let first = violations.broken().first();
    (violations.count(), first.map_or_else(String::new, |broken| broken.first.clone()))
}

#[test]
fn the_filter_sees_the_newest_value_of_each_key() {
    let records = [
        Record::put("a", 9, "keep"),
        Record::put("a", 5, "R"),
        Record::delete("b", 8),
        Record::put("b", 7, "R"),
        Record::put("c", 6, "C"),
        Record::put("d", 4, "R"),
        Record::put("d", 3, "old"),
    ];
    let (left, calls) = filtered(&[], &records, &[]);
    assert_eq!(left, "a@0keep c@0changed");
    assert_eq!(calls, ["0 a Plain keep", "0 c Plain C", "0 d Plain R"]);
    // The filter is called for the newest value although a snapshot sees it. If a deeper level may
    // have older versions, a removed value becomes a deletion, which hides them.
    let (left, _) = filtered(&[5], &records, &[]);
    assert_eq!(left, "a@9keep a@0R c@6changed");
    let (left, _) = filtered(&[], &records[5..], &[Record::put("d", 1, "deep")]);
    assert_eq!(left, "d@4-");
}

#[test]
fn the_filter_sees_operands_newer_than_all_snapshots() {
    let merge = |sequence, operand| Record::new("a", sequence, ValueType::Merge, operand);
    let records = [merge(9, "C"), merge(8, "R"), merge(7, "x"), Record::put("a", 2, "base")];
    let (left, calls) = filtered(&[], &records, &[]);
    assert_eq!(left, "a@0base,x,changed");
    assert_eq!(calls.len(), 3);
    assert_eq!(calls[1], "0 a MergeOperand R");
    let (left, calls) = filtered(&[8], &records, &[]);
    assert_eq!(left, "a@9+changed a@0base,x,R");
    assert_eq!(calls.len(), 1);
}

#[test]
fn the_filter_may_skip_to_another_key() {
    let records = [
        Record::put("a", 1, "keep"),
        Record::put("b", 2, "Sd"),
        Record::put("bb", 3, "gone"),
        Record::put("c", 4, "R"),
        Record::put("d", 5, "keep"),
        // A skip to the same or an earlier key has no effect.
        Record::put("e", 6, "Sa"),
        Record::put("f", 7, "Sf"),
    ];
    let (left, calls) = filtered(&[], &records, &[]);
    assert_eq!(left, "a@0keep d@0keep e@0Sa f@0Sf");
    assert_eq!(calls.len(), 5);
}

fn merge(key: &str, sequence: Sequence, operand: &str) -> Record {
    Record::new(key, sequence, ValueType::Merge, operand)
}

fn single(key: &str, sequence: Sequence) -> Record {
    Record::new(key, sequence, ValueType::SingleDeletion, "")
}

fn entity(columns: &[WideColumn<'_>]) -> Vec<u8> {
    let mut entity = Vec::new();
    wide_column::encode(columns, &mut entity).unwrap();
    entity
}

/// Regression test: a compaction filter could remove a value only by a deletion. If the key was
/// then removed by a single deletion, which must not meet a deletion, its compactions stopped for
/// good.
#[test]
fn a_purged_value_becomes_a_single_deletion() {
    let deeper = [Record::put("0", 1, ""), Record::put("z", 1, "")];
    let purged = [Record::put("a", 5, "P")];
    assert_eq!(filtered(&[], &purged, &deeper).0, "a@5--");
    assert_eq!(filtered(&[], &purged, &[]).0, "");
    let below = [Record::put("a", 1, "deep")];
    assert_eq!(filtered(&[], &purged, &below).0, "a@5--");
    // The program's own single deletion is above that of the filter, which then belongs to the put
    // of an earlier life of the key.
    let lives = [single("a", 5), single("a", 4), Record::put("a", 3, "x")];
    let (left, calls) = filtered(&[], &lives, &below);
    assert_eq!((&left[..], calls.len()), ("", 0));
    let later = [single("a", 9), single("a", 5)];
    assert_eq!(filtered(&[], &later, &below).0, "a@5--");
    let snapshots = [Record::put("a", 9, "P"), single("a", 6), Record::put("a", 3, "x")];
    assert_eq!(filtered(&[4], &snapshots, &below).0, "a@6-- a@3x");
}

/// Regression test: a compaction filter removed a value, which left a deletion, and the program
/// then removed the key by a single deletion. The compactions of the column family stopped for
/// good.
#[test]
fn a_removal_below_a_single_deletion_does_not_stop_a_compaction() {
    let below = [Record::put("a", 1, "deep")];
    let (left, _) = filtered(&[], &[Record::put("a", 5, "R")], &below);
    assert_eq!(left, "a@5-");
    let records = [single("a", 9), Record::delete("a", 5), Record::put("b", 6, "P")];
    let (left, _, violations) = filtered_in(&mut scene(), &[], &records, &below);
    assert_eq!(left, "a@5-");
    let first = "key 'a': a single deletion above a deletion".to_owned();
    assert_eq!(described(&violations), (1, first));
}

#[test]
fn the_filter_sees_the_columns_of_an_entity() {
    let record = |key: &str, first: &str| {
        let columns = [WideColumn::new(b"", first.as_bytes()), WideColumn::new(b"n", b"v")];
        Record { value: entity(&columns), ..Record::new(key, 7, ValueType::WideColumnEntity, "") }
    };
    let records = ["keep", "R", "P", "C", "E"];
    let keys = ["a", "b", "c", "d", "e"];
    let records: Vec<_> = keys.iter().zip(records).map(|(key, first)| record(key, first)).collect();
    let deeper = [Record::put("b", 1, ""), Record::put("c", 1, ""), Record::put("z", 1, "")];
    let (left, calls) = filtered(&[], &records, &deeper);
    let kept = entity(&[WideColumn::new(b"", b"keep"), WideColumn::new(b"n", b"v")]);
    let changed = entity(&[WideColumn::new(b"", b"2"), WideColumn::new(b"x", b"1")]);
    let [kept, changed] = [kept, changed].map(|it| it.escape_ascii().to_string());
    assert_eq!(left, format!("a@7entity{kept} b@7- c@7-- d@7changed e@7entity{changed}"));
    assert_eq!(calls[0], "0 a WideColumns :keep n:v");
    // A plain value becomes an entity, too.
    let (left, _) = filtered(&[], &[Record::put("a", 7, "E")], &[]);
    assert_eq!(left, format!("a@0entity{changed}"));
}

#[test]
fn the_filter_sees_values_and_columns_that_are_in_blob_files() {
    let mut scene = scene();
    let mut file = Vec::new();
    BlobFileHeader::new(0, Compression::None).encode(&mut file);
    let mut index_of = |key: &[u8], value: &[u8]| {
        BlobRecordHeader::new(key, value, 0).encode(&mut file);
        file.extend_from_slice(key);
        let offset = file.len() as u64;
        file.extend_from_slice(value);
        let location = BlobLocation {
            file_number: 7,
            offset,
            size: value.len() as u64,
            compression: Compression::None,
            expiration: None,
        };
        let mut index = Vec::new();
        BlobIndex::Blob(location).encode(&mut index);
        index
    };
    let [plain, column] = [index_of(b"a", b"R1"), index_of(b"b", b"E2")];
    let columns = [
        WideColumn { name: b"", value: &column, is_blob_index: true },
        WideColumn::new(b"n", b"v"),
    ];
    let records = [
        Record { value: plain, ..Record::new("a", 5, ValueType::BlobIndex, "") },
        Record { value: entity(&columns), ..Record::new("b", 6, ValueType::WideColumnEntity, "") },
    ];
    BlobFileFooter::new(2).encode(&mut file);
    let path = scene.directory.join("000007.blob");
    let created = scene.storage.create(&path, Create::New, IoMode::Buffered, Purpose::FlushWrite);
    created.unwrap().write_all_at(&file, 0, Purpose::FlushWrite).unwrap();
    let (left, calls, violations) = filtered_in(&mut scene, &[], &records, &[]);
    assert_eq!(calls, ["0 a Plain R1", "0 b WideColumns :E2 n:v"]);
    let changed = entity(&[WideColumn::new(b"", b"2"), WideColumn::new(b"x", b"1")]);
    assert_eq!(left, format!("b@0entity{}", changed.escape_ascii()));
    assert_eq!(violations, Violations::default());
}

/// Regression test: a compaction filter that panicked for one key stopped all writes.
#[test]
fn a_decision_that_cannot_be_carried_out_keeps_the_record() {
    let kept = |record: Record, text: &str, what: &str| {
        let records = [record, Record::put("b", 8, "C")];
        let (left, _, violations) = filtered_in(&mut scene(), &[], &records, &[]);
        assert_eq!(left, format!("{text} b@0changed"));
        assert_eq!(described(&violations), (1, format!("key 'a': {what}")));
    };
    let panicked = "compaction filter 'Asked' panicked: on purpose";
    kept(Record::put("a", 7, "!"), "a@0!", panicked);
    kept(merge("a", 7, "!"), "a@0!", panicked);
    let impossible = "a decision that is not possible for a merge operand";
    kept(merge("a", 7, "P"), "a@0P", impossible);
    kept(merge("a", 7, "E"), "a@0E", impossible);
    let (left, _, violations) = filtered_in(&mut scene(), &[], &[Record::put("a", 7, "D")], &[]);
    assert_eq!(left, "a@0D");
    assert_eq!(violations.count(), 1);
    let columns = [WideColumn::new(b"", b"D"), WideColumn::new(b"n", b"v")];
    let value = entity(&columns);
    let record = Record { value, ..Record::new("a", 7, ValueType::WideColumnEntity, "") };
    let (left, _, violations) = filtered_in(&mut scene(), &[], std::slice::from_ref(&record), &[]);
    assert_eq!(left, format!("a@0entity{}", record.value.escape_ascii()));
    assert_eq!(violations.count(), 1);
}

/// Regression test: without a snapshot, the filter was not called for operands with sequence number
/// 0, which ingested operands have.
#[test]
fn the_filter_sees_ingested_operands_that_no_snapshot_sees() {
    let records = [merge("a", 0, "C"), merge("b", 0, "R")];
    let (left, calls) = filtered(&[], &records, &[]);
    assert_eq!((&left[..], calls.len()), ("a@0changed", 2));
    let (left, calls) = filtered(&[0], &records, &[]);
    assert_eq!((&left[..], calls.len()), ("a@0C b@0R", 0));
}
