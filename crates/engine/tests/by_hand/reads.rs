//! Reads of tables that contain data that a reader must ignore.

use tailwater::ReadOptions;
use tailwater_format::table::BlockHandle;

use crate::database::{Database, first_edit, new_file};
use crate::table::{internal_key, table, table_with_tombstones};

#[test]
fn tombstones_of_a_level_0_table_end_with_the_table() {
    // Regression test: iterators treated records of a neighbouring table as deleted. The first
    // table was moved from a deeper level to level 0. Its range tombstone extends beyond the bounds
    // of the table, but deletes nothing there. The neighbouring table is in a deeper level, and a
    // compaction has set the sequence number of its record to 0, which is lower than the
    // tombstone's.
    let upper =
        table_with_tombstones(&[(&[("a", 20, "v"), ("m", 21, "v")], "n")], &[("b", 10, "z")], &[]);
    let lower = table(&[(&[("q", 0, "alive")], "r")], &[]);
    let mut edit = first_edit();
    edit.new_files = vec![
        new_file(7, &upper, internal_key("a", 20), internal_key("m", 21)),
        new_file(8, &lower, internal_key("q", 0), internal_key("q", 0)),
    ];
    edit.new_files[0].level = 0;
    let database = Database::new().with_manifest(&[edit]);
    let db = database.with("000007.sst", &upper).with("000008.sst", &lower).open().expect("whole");
    let family = &db.column_families()[0];
    let got = db.get_cf_opt(family, b"q", &ReadOptions::default()).expect("a get");
    assert_eq!(got, Some(b"alive".to_vec()));
    let mut iterator =
        db.raw_iterator_cf_opt(family, &ReadOptions::default()).expect("an iterator");
    let mut keys = Vec::new();
    iterator.seek_to_first().expect("whole");
    while iterator.valid() {
        keys.push(String::from_utf8_lossy(iterator.key()).into_owned());
        iterator.next().expect("whole");
    }
    assert_eq!(keys, ["a", "m", "q"]);
}

#[test]
fn a_filter_of_an_unknown_policy_is_ignored() {
    // Regression test: the filter of an unknown policy was read as a built-in filter, and reported
    // existing keys as absent. The filter of this test is two zero bytes inside the only data
    // block.
    let filter = BlockHandle { offset: 18, size: 2 };
    let file = table(&[(&[("a", 4, "v")], "b")], &[("fullfilter.mine", filter)]);
    let mut edit = first_edit();
    edit.new_files = vec![new_file(7, &file, internal_key("a", 4), internal_key("a", 4))];
    let database = Database::new().with_manifest(&[edit]).with("000007.sst", &file);
    let filters = "block_based_table_factory={filter_policy=bloomfilter:10:false}";
    let db = database.open_with(filters).expect("whole");
    let got =
        db.get_cf_opt(&db.column_families()[0], b"a", &ReadOptions::default()).expect("a get");
    assert_eq!(got, Some(b"v".to_vec()));
    let findings = database.verify().findings;
    assert!(!findings.iter().any(|finding| finding.message.contains("filter")), "{findings:?}");
}

#[test]
fn a_unique_id_mismatch_is_damage_unless_verification_is_off() {
    let file = table(&[(&[("a", 4, "v")], "b")], &[]);
    let mut edit = first_edit();
    edit.new_files = vec![new_file(7, &file, internal_key("a", 4), internal_key("a", 4))];
    edit.new_files[0].unique_id = [1, 2];
    let database = Database::new().with_manifest(&[edit]).with("000007.sst", &file);
    let get = |options: &str| {
        let db = database.open_with(options).expect("tables are looked at when they are read");
        db.get_cf_opt(&db.column_families()[0], b"a", &ReadOptions::default())
    };
    let error = get("").expect_err("it is another table");
    assert!(error.to_string().contains("unique id mismatch"), "{error}");
    let value = get("verify_sst_unique_id_in_manifest=false").expect("nobody looks");
    assert_eq!(value, Some(b"v".to_vec()));
}
