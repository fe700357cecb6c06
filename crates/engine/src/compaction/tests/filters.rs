//! The calls of compaction filters, and the effects of their decisions.

use std::sync::Arc;

use tailwater_format::key::{Sequence, ValueType};

use super::scene::{Record, Scene, text};
use tailwater_io::sync::Mutex;

use crate::compaction_filter::{
    CompactionFilter, CustomCompactionFilter, FilterContext, FilterDecision, FilteredValue,
};

/// A compaction filter that decides by the first letter of a record's value, and keeps a list of
/// its calls.
#[derive(Default)]
struct Asked {
    asked: Mutex<Vec<String>>,
}

impl CustomCompactionFilter for Asked {
    fn name(&self) -> &str {
        "Asked"
    }

    fn filter(
        &self,
        FilterContext { level, .. }: &FilterContext,
        key: &[u8],
        kind: FilteredValue,
        value: &[u8],
    ) -> FilterDecision {
        let (key, shown) = (key.escape_ascii(), value.escape_ascii());
        self.asked.lock().push(format!("{level} {key} {kind:?} {shown}"));
        match value.first() {
            Some(b'R') => FilterDecision::Remove,
            Some(b'C') => FilterDecision::ChangeValue(b"changed".to_vec()),
            Some(b'S') => FilterDecision::RemoveAndSkipUntil(value[1..].to_vec()),
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
    let mut scene = Scene::new("merge_operator=stringappend");
    let filter = Arc::new(Asked::default());
    scene.filter = Some(CompactionFilter::Custom(filter.clone()));
    scene.snapshots = snapshots.to_vec();
    if !deeper.is_empty() {
        scene.add_table(6, deeper, None);
    }
    scene.add_table(0, records, None);
    let compaction = scene.levels(&[0, 5]);
    scene.compact(compaction).unwrap();
    let asked = filter.asked.lock().clone();
    (text(&scene.level_contents(5)), asked)
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
    let (left, asked) = filtered(&[], &records, &[]);
    assert_eq!(left, "a@0keep c@0changed");
    assert_eq!(asked, ["0 a Plain keep", "0 c Plain C", "0 d Plain R"]);
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
    let (left, asked) = filtered(&[], &records, &[]);
    assert_eq!(left, "a@0base,x,changed");
    assert_eq!(asked.len(), 3);
    assert_eq!(asked[1], "0 a MergeOperand R");
    let (left, asked) = filtered(&[8], &records, &[]);
    assert_eq!(left, "a@9+changed a@0base,x,R");
    assert_eq!(asked.len(), 1);
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
    let (left, asked) = filtered(&[], &records, &[]);
    assert_eq!(left, "a@0keep d@0keep e@0Sa f@0Sf");
    assert_eq!(asked.len(), 5);
}

/// Regression test: without a snapshot, the filter was not called for operands with sequence number
/// 0, which ingested operands have.
#[test]
fn the_filter_sees_ingested_operands_that_no_snapshot_sees() {
    let merge = |key, operand| Record::new(key, 0, ValueType::Merge, operand);
    let records = [merge("a", "C"), merge("b", "R")];
    let (left, asked) = filtered(&[], &records, &[]);
    assert_eq!((&left[..], asked.len()), ("a@0changed", 2));
    let (left, asked) = filtered(&[0], &records, &[]);
    assert_eq!((&left[..], asked.len()), ("a@0C b@0R", 0));
}
