//! Tests the rules of the merge one at a time: the records that it keeps, and their sequence
//! numbers.

use std::sync::Arc;

use tailwater_format::blob::{BlobIndex, BlobLocation};
use tailwater_format::compress::Compression;
use tailwater_format::key::{MAX_SEQUENCE, Sequence, ValueType};
use tailwater_format::timed_value;
use tailwater_format::version_edit::BlobFileGarbage;
use tailwater_format::wide_column::{self, WideColumn};

use super::scene::{Record, Scene, text};
use crate::contracts::{Contract, Violations};
use crate::merge_operator::{CustomMergeOperator, MergeOperator};
use crate::open_options::OpenOptions;

/// Compacts one table of level 0 into level 5, which is bottommost unless a table in level 6
/// overlaps it. Returns the records in level 5.
fn compacted(
    options: &str,
    snapshots: &[Sequence],
    records: &[Record],
    deeper: &[Record],
) -> Result<String, crate::error::Error> {
    let (left, violations) = compacted_in(Scene::new(options), snapshots, records, deeper)?;
    assert_eq!(violations, Violations::default());
    Ok(left)
}

/// Like [`compacted`], in a given scene. Also returns the violations that the compaction reported.
fn compacted_in(
    mut scene: Scene,
    snapshots: &[Sequence],
    records: &[Record],
    deeper: &[Record],
) -> Result<(String, Violations), crate::error::Error> {
    scene.snapshots = snapshots.to_vec();
    if !deeper.is_empty() {
        scene.add_table(6, deeper, None);
    }
    scene.add_table(0, records, None);
    let compaction = scene.levels(&[0, 5]);
    let outcome = scene.compact(compaction)?;
    Ok((text(&scene.level_contents(5)), outcome.violations))
}

/// Compacts records that break the contract of single deletions, once with and once without reports
/// of violations. Returns the records in level 5, and the description of the violation.
fn mixed(snapshots: &[Sequence], records: &[Record], deeper: &[Record]) -> (String, String) {
    let compacted = |options: &str| {
        let scene = Scene::new(&format!("merge_operator=stringappend;{options}"));
        compacted_in(scene, snapshots, records, deeper).unwrap()
    };
    let (left, violations) = compacted("");
    let silent = compacted("enforce_single_del_contracts=false");
    assert_eq!(silent, (left.clone(), Violations::default()));
    let [broken] = violations.broken() else { panic!("{violations:?}") };
    assert_eq!((broken.contract, broken.count), (Contract::SingleDeletion, 1));
    (left, broken.first.clone())
}

fn put(key: &str, sequence: Sequence) -> Record {
    Record::put(key, sequence, &format!("={sequence}"))
}

fn merge(key: &str, sequence: Sequence, operand: &str) -> Record {
    Record::new(key, sequence, ValueType::Merge, operand)
}

fn single(key: &str, sequence: Sequence) -> Record {
    Record::new(key, sequence, ValueType::SingleDeletion, "")
}

fn range(key: &str, sequence: Sequence, end: &str) -> Record {
    Record::new(key, sequence, ValueType::RangeDeletion, end)
}

#[test]
fn versions_that_no_snapshot_distinguishes_are_dropped() {
    let records = [put("a", 9), put("a", 6), put("a", 5), put("a", 2), put("a", 1)];
    let last = |snapshots| compacted("", snapshots, &records, &[]).unwrap();
    assert_eq!(last(&[]), "a@0=9");
    assert_eq!(last(&[5]), "a@9=9 a@0=5");
    assert_eq!(last(&[3, 6, 7]), "a@9=9 a@6=6 a@0=2");
}

#[test]
fn deletions_without_deeper_versions_are_dropped() {
    let records = [Record::delete("a", 9), put("a", 3), Record::delete("c", 8), put("d", 4)];
    assert_eq!(compacted("", &[], &records, &[]).unwrap(), "d@0=4");
    let deeper = [put("b", 1), put("c", 2)];
    assert_eq!(compacted("", &[], &records, &deeper).unwrap(), "c@8- d@4=4");
    // A snapshot at 3 sees the value, so the value and its deletion are kept. A snapshot at 2 sees
    // no version of the key, so both are dropped.
    assert_eq!(compacted("", &[3], &records, &[]).unwrap(), "a@9- a@0=3 d@4=4");
    assert_eq!(compacted("", &[2], &records, &[]).unwrap(), "d@4=4");
}

#[test]
fn a_single_deletion_is_dropped_with_its_write_and_not_before() {
    let records = [single("a", 9), put("a", 3), single("c", 8)];
    assert_eq!(compacted("", &[], &records, &[]).unwrap(), "");
    let deeper = [put("b", 1), put("c", 2)];
    assert_eq!(compacted("", &[], &records, &deeper).unwrap(), "c@8--");
    assert_eq!(compacted("", &[5], &records, &[]).unwrap(), "a@9-- a@0=3 c@8--");
    let pairs = [single("a", 9), put("a", 8), single("a", 7), put("a", 6)];
    assert_eq!(compacted("", &[], &pairs, &[]).unwrap(), "");
    assert_eq!(compacted("", &[6], &pairs, &[]).unwrap(), "a@7-- a@0=6");
}

/// Regression test: a deletion below a single deletion of the same key failed the compaction. The
/// compactions of the column family then stopped for good, and in the end its writes.
#[test]
fn a_deletion_below_a_single_deletion_breaks_the_contract() {
    let records = [single("a", 9), Record::delete("a", 5), put("a", 3)];
    let what = "key 'a': a single deletion above a deletion";
    let expect = |left: &str| (left.to_owned(), what.to_owned());
    assert_eq!(mixed(&[], &records, &[]), expect(""));
    let deeper = [put("a", 1)];
    assert_eq!(mixed(&[], &records, &deeper), expect("a@5-"));
    assert_eq!(mixed(&[4], &records, &[]), expect("a@5- a@0=3"));
    // The single deletion may belong to a later compaction.
    assert_eq!(compacted("", &[7], &records, &deeper).unwrap(), "a@9-- a@5-");
}

/// Regression test: a single deletion above a merge operand was dropped together with the operand,
/// as if the operand were the key's only write. Older versions became visible again.
#[test]
fn a_single_deletion_above_an_operand_becomes_a_deletion() {
    let records = [single("a", 9), merge("a", 7, "y"), merge("a", 6, "x"), put("a", 3)];
    let what = "key 'a': a single deletion above a merge operand";
    let expect = |left: &str| (left.to_owned(), what.to_owned());
    assert_eq!(mixed(&[], &records, &[]), expect(""));
    let deeper = [put("a", 1)];
    assert_eq!(mixed(&[], &records, &deeper), expect("a@9-"));
    assert_eq!(mixed(&[], &records[..2], &deeper), expect("a@9-"));
    assert_eq!(mixed(&[4], &records, &[]), expect("a@9- a@0=3"));
    assert_eq!(mixed(&[4], &records, &deeper), expect("a@9- a@3=3"));
    let above = [&[put("a", 12)], &records[..]].concat();
    assert_eq!(mixed(&[], &above, &deeper), expect("a@12=12 a@9-"));
    // All readers see the newest write, and nothing is below, so it does not matter.
    assert_eq!(compacted("", &[], &above, &[]).unwrap(), "a@0=12");
}

/// Regression test: a single deletion was dropped together with a put that had overwritten an older
/// one. If a snapshot saw the older one, it became visible to all readers, and so did the versions
/// in deeper levels.
#[test]
fn a_single_deletion_of_a_key_put_twice_becomes_a_deletion() {
    let what = "key 'a': a single deletion of a key that was written twice";
    let expect = |left: &str| (left.to_owned(), what.to_owned());
    let records = [single("a", 9), put("a", 7), put("a", 3)];
    let deeper = [put("a", 1)];
    assert_eq!(mixed(&[], &records, &[]), expect(""));
    assert_eq!(mixed(&[], &records, &deeper), expect("a@9-"));
    assert_eq!(mixed(&[4], &records, &[]), expect("a@9- a@0=3"));
    assert_eq!(mixed(&[4], &records, &deeper), expect("a@9- a@3=3"));
    let operand = [single("a", 9), put("a", 7), merge("a", 3, "x")];
    assert_eq!(mixed(&[4], &operand, &deeper), expect("a@9- a@3+x"));
    // If the single deletion and the put are kept for a snapshot, the older put is replaced by a
    // deletion. A later compaction drops the other two, and the deletion still hides older
    // versions.
    assert_eq!(mixed(&[8], &records, &deeper), expect("a@9-- a@7=7 a@3-"));
    assert_eq!(mixed(&[8], &records, &[]), expect("a@9-- a@0=7"));
    // The contract is kept if a deletion of any kind is between the two puts.
    let range = [single("a", 9), put("a", 7), range("a", 5, "b"), put("a", 3)];
    assert_eq!(compacted("", &[], &range, &[]).unwrap(), "");
    assert_eq!(compacted("", &[4], &range, &[]).unwrap(), "a@0=3 a@5..b");
    // A single deletion that is kept with its put was taken for one of a key put twice, although
    // the range tombstone was in between.
    assert_eq!(compacted("", &[8], &range, &[]).unwrap(), "a@9-- a@0=7");
    assert_eq!(compacted("", &[8], &range, &deeper).unwrap(), "a@9-- a@7=7 a@5..b");
    assert_eq!(compacted("", &[4, 8], &range, &[]).unwrap(), "a@9-- a@7=7 a@0=3 a@5..b");
    let pairs = [single("a", 9), put("a", 7), single("a", 5), put("a", 3)];
    assert_eq!(compacted("", &[4], &pairs, &[]).unwrap(), "a@5-- a@0=3");
}

/// Regression test: a deletion was dropped because a newer write hid it. The same compaction
/// dropped that write together with its single deletion. Older versions in a deeper level became
/// visible again.
#[test]
fn a_deletion_below_a_dropped_single_deletion_pair_is_kept() {
    let records = [single("a", 9), put("a", 7), Record::delete("a", 5)];
    let deeper = [put("a", 1)];
    assert_eq!(compacted("", &[], &records, &deeper).unwrap(), "a@5-");
    assert_eq!(compacted("", &[], &records, &[]).unwrap(), "");
    let above = [&[put("a", 12)], &records[..]].concat();
    assert_eq!(compacted("", &[], &above, &deeper).unwrap(), "a@12=12 a@5-");
    // A snapshot between the write and its single deletion keeps both of these records. A later
    // compaction will drop the two together. The older deletion must then still hide the records in
    // deeper levels, so it is kept.
    assert_eq!(compacted("", &[8], &records, &deeper).unwrap(), "a@9-- a@7=7 a@5-");
    assert_eq!(compacted("", &[8], &records, &[]).unwrap(), "a@9-- a@0=7");
    // A snapshot that sees a version older than the deletion keeps the deletion, too.
    let seen = [&records[..], &[put("a", 3)]].concat();
    assert_eq!(compacted("", &[3], &seen, &[]).unwrap(), "a@5- a@0=3");
    // A write without a newer single deletion is kept. It hides the older deletion, which is
    // dropped.
    let plain = [put("a", 7), Record::delete("a", 5)];
    assert_eq!(compacted("", &[], &plain, &deeper).unwrap(), "a@7=7");
    let pairs = [single("a", 9), put("a", 8), single("a", 7), put("a", 6), Record::delete("a", 5)];
    assert_eq!(compacted("", &[], &pairs, &deeper).unwrap(), "a@5-");
}

#[test]
fn operands_fold_within_their_stripe() {
    let append = "merge_operator=stringappend";
    let records = [merge("a", 9, "z"), merge("a", 8, "y"), merge("a", 5, "x"), put("a", 3)];
    assert_eq!(compacted(append, &[], &records, &[]).unwrap(), "a@0=3,x,y,z");
    assert_eq!(compacted(append, &[5], &records, &[]).unwrap(), "a@9+y,z a@0=3,x");
    let deeper = [put("a", 1)];
    assert_eq!(compacted(append, &[], &records[..3], &deeper).unwrap(), "a@9+x,y,z");
    assert_eq!(compacted(append, &[], &records[..1], &deeper).unwrap(), "a@9+z");
    assert_eq!(compacted(append, &[], &records[..1], &[]).unwrap(), "a@0z");
    let gone = [merge("a", 9, "z"), Record::delete("a", 5), put("a", 3)];
    assert_eq!(compacted(append, &[], &gone, &deeper).unwrap(), "a@9z");
    let tested = "merge_operator=stringappendtest";
    assert_eq!(compacted(tested, &[], &records[..2], &deeper).unwrap(), "a@9+z a@8+y");
}

fn entity(columns: &[(&str, &str)]) -> Vec<u8> {
    let columns: Vec<_> = columns
        .iter()
        .map(|(name, value)| WideColumn::new(name.as_bytes(), value.as_bytes()))
        .collect();
    let mut entity = Vec::new();
    wide_column::encode(&columns, &mut entity).unwrap();
    entity
}

#[test]
fn operands_fold_over_the_default_column_of_an_entity() {
    for (base, folded) in [
        (&[("", "v"), ("x", "w")][..], &[("", "v,z"), ("x", "w")][..]),
        (&[("x", "w")][..], &[("", ",z"), ("x", "w")][..]),
    ] {
        let mut scene = Scene::new("merge_operator=stringappend");
        let base =
            Record { value: entity(base), ..Record::new("a", 3, ValueType::WideColumnEntity, "") };
        scene.add_table(0, &[merge("a", 9, "z"), base], None);
        let compaction = scene.levels(&[0, 6]);
        scene.compact(compaction).unwrap();
        let records = scene.level_contents(6).records;
        assert_eq!(records.len(), 1);
        assert_eq!(records[0].0, [b"a", &[0x16, 0, 0, 0, 0, 0, 0, 0][..]].concat());
        assert_eq!(records[0].1, entity(folded));
    }
}

/// Regression test: a compaction applied a merge operator to an entity and kept the entity's other
/// columns, although the operator's `FullMergeV3` in RocksDB turns an entity into a plain value.
#[test]
fn operands_replace_an_entity_if_the_operator_drops_its_columns() {
    struct Newest;
    impl CustomMergeOperator for Newest {
        fn name(&self) -> &str {
            "tests.Newest"
        }

        fn full_merge(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
            Some([base?, operands.last()?].concat())
        }

        fn keeps_entity_columns(&self) -> bool {
            false
        }
    }
    let mut options = OpenOptions::default();
    options.set_from_string("merge_operator=tests.Newest").unwrap();
    options.add_merge_operator(MergeOperator::Custom(Arc::new(Newest)));
    for (base, folded) in [(&[("", "v"), ("x", "w")][..], "vz"), (&[("x", "w")][..], "z")] {
        let mut scene = Scene::opened(&options);
        let base =
            Record { value: entity(base), ..Record::new("a", 3, ValueType::WideColumnEntity, "") };
        scene.add_table(0, &[merge("a", 9, "z"), base], None);
        let compaction = scene.levels(&[0, 6]);
        scene.compact(compaction).unwrap();
        let records = scene.level_contents(6).records;
        assert_eq!(records[0].0, [b"a", &[0x01, 0, 0, 0, 0, 0, 0, 0][..]].concat());
        assert_eq!(records[0].1, folded.as_bytes());
    }
}

#[test]
fn operands_of_an_unknown_operator_pass_through() {
    let unknown = "merge_operator=somebodys";
    let records = [merge("a", 9, "z"), merge("a", 8, "y"), put("a", 3), put("a", 2), put("b", 1)];
    let kept = compacted(unknown, &[], &records, &[]).unwrap();
    assert_eq!(kept, "a@9+z a@8+y a@0=3 b@0=1");
}

/// Compacts records with operands that cannot be merged. Returns the records in level 5, and the
/// description of the violation.
fn unmerged(scene: Scene, records: &[Record]) -> (String, String) {
    let (left, violations) = compacted_in(scene, &[], records, &[]).unwrap();
    let [broken] = violations.broken() else { panic!("{violations:?}") };
    assert_eq!((broken.contract, broken.count), (Contract::MergeOperator, 1));
    (left, broken.first.clone())
}

/// Regression test: a compaction of merge operands failed if the column family had been opened
/// without a merge operator, and then all writes were refused.
#[test]
fn operands_without_an_operator_pass_through() {
    let records = [merge("a", 9, "z"), merge("a", 8, "y"), put("a", 3), put("a", 2), put("b", 1)];
    let what = "key 'a': the column family was opened without a merge operator";
    let left = "a@9+z a@8+y a@0=3 b@0=1";
    assert_eq!(unmerged(Scene::new(""), &records), (left.to_owned(), what.to_owned()));
}

/// A merge operator that appends operands, and fails or panics if an operand says so.
struct Failing;

impl CustomMergeOperator for Failing {
    fn name(&self) -> &str {
        "tests.Failing"
    }

    fn full_merge(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        assert!(!operands.contains(&&b"panic"[..]), "on purpose");
        let all = base.into_iter().chain(operands.iter().copied());
        (!operands.contains(&&b"fail"[..])).then(|| all.collect::<Vec<_>>().concat())
    }

    fn partial_merge(&self, _: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        assert!(!operands.contains(&&b"panic"[..]), "on purpose");
        None
    }
}

fn failing_scene() -> Scene {
    let mut options = OpenOptions::default();
    options.set_from_string("merge_operator=tests.Failing").unwrap();
    options.add_merge_operator(MergeOperator::Custom(Arc::new(Failing)));
    Scene::opened(&options)
}

/// Regression test: a merge operator that failed for one key stopped the compactions of its column
/// family, and one that panicked stopped all writes.
#[test]
fn operands_that_cannot_be_merged_are_kept() {
    for (operand, what) in [
        ("fail", "merge operator 'tests.Failing' failed"),
        ("panic", "merge operator 'tests.Failing' panicked: on purpose"),
    ] {
        let check = |records: &[Record], left: &str| {
            let kept = unmerged(failing_scene(), records);
            assert_eq!(kept, (left.to_owned(), format!("key 'a': {what}")));
        };
        let operands = [merge("a", 9, "z"), merge("a", 8, operand)];
        let with = |base: &[Record]| [&operands[..], base, &[merge("b", 1, "x")]].concat();
        let kept = format!("a@9+z a@8+{operand}");
        check(&with(&[]), &format!("{kept} b@0x"));
        check(&with(&[put("a", 3), put("a", 2)]), &format!("{kept} a@0=3 b@0x"));
        check(&with(&[Record::delete("a", 3), put("a", 2)]), &format!("{kept} b@0x"));
        check(&with(&[single("a", 3), put("a", 2)]), &format!("{kept} b@0x"));
        let base = entity(&[("", "v"), ("x", "w")]);
        let shown = base.escape_ascii().to_string();
        let base = Record { value: base, ..Record::new("a", 3, ValueType::WideColumnEntity, "") };
        check(&with(&[base]), &format!("{kept} a@0entity{shown} b@0x"));
    }
    // A panic in a partial merge keeps the operands, too.
    let operands = [merge("a", 9, "z"), merge("a", 8, "panic")];
    let (left, violations) = compacted_in(failing_scene(), &[], &operands, &[put("a", 1)]).unwrap();
    assert_eq!((&left[..], violations.count()), ("a@9+z a@8+panic", 1));
}

/// Regression test: tables with the same internal key were merged in a random order, so an iterator
/// or a compaction could take the value that a get did not see. Tables that RocksDB has repaired
/// may have such keys.
#[test]
fn the_newer_table_precedes_if_internal_keys_are_equal() {
    let mut scene = Scene::new("merge_operator=stringappend");
    let value = |key: &str, value: &str| Record::put(key, 0, value);
    scene.add_table(0, &[value("a", ""), value("b", "old"), merge("c", 0, "x")], None);
    scene.add_table(0, &[value("b", "new"), value("bb", ""), merge("c", 0, "y")], None);
    let expected = [("a", ""), ("b", "new"), ("bb", ""), ("c", "x,y")];
    let expected =
        expected.map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec()));
    let check = |scene: &Scene| {
        for (key, value) in &expected {
            assert_eq!(scene.get(key, MAX_SEQUENCE - 1).as_ref(), Some(value));
        }
        for forward in [true, false] {
            assert_eq!(scene.iterate(MAX_SEQUENCE - 1, forward), expected, "forward: {forward}");
        }
    };
    check(&scene);
    let compaction = scene.levels(&[0, 6]);
    scene.compact(compaction).unwrap();
    check(&scene);
}

#[test]
fn range_tombstones_drop_covered_records_and_become_obsolete() {
    let records = [put("a", 1), put("b", 2), put("c", 9), put("d", 3), range("b", 5, "d")];
    assert_eq!(compacted("", &[], &records, &[]).unwrap(), "a@0=1 c@0=9 d@0=3");
    assert_eq!(compacted("", &[2], &records, &[]).unwrap(), "a@0=1 b@0=2 c@9=9 d@3=3 b@5..d");
    let deeper = [put("b", 1)];
    assert_eq!(compacted("", &[], &records[1..], &deeper).unwrap(), "c@9=9 d@3=3 b@5..d");
}

#[test]
fn range_tombstones_alone_make_a_table_if_they_are_kept() {
    let records = [range("b", 5, "d"), range("c", 7, "e")];
    assert_eq!(compacted("", &[], &records, &[]).unwrap(), "");
    let deeper = [put("c", 1)];
    assert_eq!(compacted("", &[], &records, &deeper).unwrap(), "c@7..d");
}

#[test]
fn a_timed_value_gets_its_preferred_sequence_number() {
    let timed = |sequence, preferred: u8| {
        let value = format!("v{}\0\0\0\0\0\0\0", char::from(preferred));
        Record::new("a", sequence, ValueType::ValuePreferredSequence, &value)
    };
    assert_eq!(compacted("", &[], &[timed(9, 4)], &[]).unwrap(), "a@0v");
    let deeper = [put("0", 1), put("z", 1)];
    let as_it_was = compacted("", &[], &[timed(9, 4)], &deeper).unwrap();
    assert!(as_it_was.starts_with("a@9timedv"), "{as_it_was}");
    // If the value took its preferred sequence number, it would be older than the range tombstone,
    // which would then delete it. So the value keeps the sequence number of its write.
    let records = [timed(9, 4), range("a", 6, "b")];
    assert!(compacted("", &[], &records, &[]).unwrap().starts_with("a@0timedv"));
}

/// Regression test: a flush could store a value's write time in place of its preferred sequence
/// number. Compactions then kept the write time forever, and RocksDB took it for a sequence number.
#[test]
fn a_timed_value_without_a_lower_preferred_number_is_a_plain_value() {
    let timed = |sequence, preferred: u64| {
        let mut value = Vec::new();
        timed_value::put(&mut value, b"v", preferred);
        Record { value, ..Record::new("a", sequence, ValueType::ValuePreferredSequence, "") }
    };
    let deeper = [put("0", 1), put("z", 1)];
    assert_eq!(compacted("", &[], &[timed(9, 1_700_000_000)], &deeper).unwrap(), "a@9v");
    assert_eq!(compacted("", &[5], &[timed(9, 9)], &[]).unwrap(), "a@9v");
    assert_eq!(compacted("", &[], &[timed(0, 4)], &[]).unwrap(), "a@0v");
    let covered = [timed(5, 1_700_000_000), range("a", 6, "b")];
    assert_eq!(compacted("", &[], &covered, &deeper).unwrap(), "a@6..b");
}

#[test]
fn unreferenced_blobs_are_counted_as_garbage() {
    let blob = |key: &str, sequence, size| {
        let location = BlobLocation {
            file_number: 7,
            offset: 100,
            size,
            compression: Compression::None,
            expiration: None,
        };
        let mut index = Vec::new();
        BlobIndex::Blob(location).encode(&mut index);
        Record { value: index, ..Record::new(key, sequence, ValueType::BlobIndex, "") }
    };
    let mut scene = Scene::new("");
    scene.add_table(0, &[blob("a", 1, 10), blob("bb", 2, 20), blob("c", 3, 30)], None);
    scene.add_table(0, &[put("a", 4), Record::delete("bb", 5)], None);
    let compaction = scene.levels(&[0, 6]);
    let outcome = scene.compact(compaction).unwrap();
    // A blob's record is a header of 32 bytes, the key and the value. The blobs of `a` and `bb`
    // have become garbage.
    let garbage = BlobFileGarbage { number: 7, blob_count: 2, blob_bytes: 43 + 54 };
    assert_eq!(outcome.blob_garbage, [garbage]);
    assert_eq!(outcome.outputs[0].oldest_blob_file_number, Some(7));
}

#[test]
fn output_metadata_is_derived_from_the_inputs() {
    let mut scene = Scene::new("optimize_filters_for_hits=true");
    let older = scene.add_table(6, &[put("a", 1), put("m", 2)], None);
    let newer = scene.add_table(0, &[put("a", 7), put("z", 6), range("b", 5, "d")], None);
    let compaction = scene.levels(&[0, 6]);
    let outcome = scene.compact(compaction).unwrap();
    let [output] = &outcome.outputs[..] else { panic!("{:?}", outcome.outputs) };
    assert_eq!((output.level, output.epoch_number), (6, older));
    assert_eq!(output.oldest_ancestor_time_s, 1000 + older);
    let file = &scene.files(6)[0];
    let table = scene.readers.tables.open_uncached(file, tailwater_io::Purpose::UserRead).unwrap();
    assert_eq!(table.properties().newest_key_time, 3000 + newer);
    assert_eq!(table.properties().num_entries, 3);
    let statistics = outcome.statistics;
    assert_eq!((statistics.records_in, statistics.records_out), (4, 3));
    assert_eq!((statistics.dropped.hidden, statistics.dropped.obsolete), (1, 1));
    assert_eq!(statistics.read.iter().map(|level| level.files).collect::<Vec<_>>(), [1, 1]);
    assert_eq!(statistics.written.bytes, output.size);
    assert_eq!(scene.get(b"a", MAX_SEQUENCE - 1), Some(b"=7".to_vec()));
}

#[test]
fn concurrent_parts_produce_the_same_records_as_one_part() {
    let records: Vec<Record> = (0..2000u64).map(|at| put(&format!("key{at:04}"), at + 1)).collect();
    let mut contents = Vec::new();
    for parts in [1, 4] {
        let mut scene = Scene::new("block_based_table_factory={block_size=200}");
        scene.parts = parts;
        scene.max_output_file_bytes = 5000;
        scene.add_table(0, &records, None);
        scene.add_table(0, &[range("key0100", 5000, "key1900"), put("key1000", 6000)], None);
        let compaction = scene.levels(&[0, 6]);
        let outcome = scene.compact(compaction).unwrap();
        assert_eq!(outcome.statistics.parts, parts);
        assert_eq!(outcome.statistics.records_in, 2001);
        contents.push(scene.level_contents(6));
    }
    assert_eq!(contents[0].records.len(), 201);
    assert_eq!(contents[0], contents[1]);
}
