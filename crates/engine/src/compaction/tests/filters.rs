//! The calls of compaction filters, and the effects of their decisions.

use std::sync::Arc;

use tailwater_format::key::{Sequence, ValueType};

use super::scene::{Record, Scene, text};
use tailwater_io::sync::Mutex;

use crate::compaction_filter::{
    CompactionFilter, CustomCompactionFilter, FilterContext, FilterDecision, FilteredValue,
};
use crate::contracts::Violations;

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
    let (left, asked, violations) = filtered_in(&mut scene(), snapshots, records, deeper);
    assert_eq!(violations, Violations::default());
    (left, asked)
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
    let asked = filter.asked.lock().clone();
    (text(&scene.level_contents(5)), asked, outcome.violations)
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

fn merge(key: &str, sequence: Sequence, operand: &str) -> Record {
    Record::new(key, sequence, ValueType::Merge, operand)
}

fn single(key: &str, sequence: Sequence) -> Record {
    Record::new(key, sequence, ValueType::SingleDeletion, "")
}

/// Regression test: a compaction filter removed a value, which left a deletion, and the program
/// then removed the key by a single deletion. The compactions of the column family stopped for
/// good.
#[test]
fn a_removal_below_a_single_deletion_does_not_stop_a_compaction() {
    let below = [Record::put("a", 1, "deep")];
    let (left, _) = filtered(&[], &[Record::put("a", 5, "R")], &below);
    assert_eq!(left, "a@5-");
    let records = [single("a", 9), Record::delete("a", 5)];
    let (left, _, violations) = filtered_in(&mut scene(), &[], &records, &below);
    assert_eq!(left, "a@5-");
    let first = "key 'a': a single deletion above a deletion".to_owned();
    assert_eq!(described(&violations), (1, first));
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
}

/// Regression test: without a snapshot, the filter was not called for operands with sequence number
/// 0, which ingested operands have.
#[test]
fn the_filter_sees_ingested_operands_that_no_snapshot_sees() {
    let records = [merge("a", 0, "C"), merge("b", 0, "R")];
    let (left, asked) = filtered(&[], &records, &[]);
    assert_eq!((&left[..], asked.len()), ("a@0changed", 2));
    let (left, asked) = filtered(&[0], &records, &[]);
    assert_eq!((&left[..], asked.len()), ("a@0C b@0R", 0));
}
