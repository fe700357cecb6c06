//! `compact`: its output, and the result if a table is damaged.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tailwater_testkit::{directory, golden};

use crate::support::{change, db, file, hex_dump, hex_lines};

/// The tables of a directory, with their bytes.
fn tables(path: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = directory::snapshot(path).into_iter();
    files
        .filter(|(path, _)| path.extension().is_some_and(|extension| extension == "sst"))
        .map(|(path, file)| (path, file.contents))
        .collect()
}

#[test]
fn databases_that_rocksdb_wrote_are_compacted() {
    // The other golden databases are left out, because their options request features that the
    // engine can read but not write.
    for name in ["basic", "records", "packages", "universal", "wal"] {
        let database = golden::unpack(name);
        let path = database.path();
        let dump = golden::dump(name);
        let before = tables(path);
        let compacted = db("compact", path, []);
        assert_eq!(compacted.code, 0, "{name}: {}", compacted.complaints);
        let output = compacted.output;
        let families = db("column-families", path, []).well().output;
        let printed: Vec<&str> =
            output.lines().filter_map(|line| line.split_once(": ")).map(|(name, _)| name).collect();
        assert_eq!(printed, families.lines().collect::<Vec<_>>(), "{name}: {output}");
        assert!(hex_dump(path) == hex_lines(&dump), "{name}");
        assert_eq!(db("verify", path, []).code, 0, "{name}");
        let after = tables(path);
        assert!(
            after.keys().all(|table| !before.contains_key(table)),
            "{name}: {:?}",
            after.keys()
        );
    }
}

#[test]
fn compact_reports_the_result_for_each_column_family() {
    let database = golden::unpack("records");
    let path = database.path();
    let state = |family: usize| {
        let state = db("properties", path, ["--json"]).well().json();
        let family = &state["column_families"][family];
        (family["table_count"].clone(), family["table_bytes"].clone())
    };
    db("flush", path, []).well();
    let (count, bytes) = state(1);
    let arguments = ["--column-family", "counters", "--json"];
    let document = db("compact", path, arguments).well().json();
    let families = document["column_families"].as_array().expect("column families");
    assert_eq!(families.len(), 1);
    assert_eq!(families[0]["column_family"], "counters");
    assert_eq!((&families[0]["tables_before"], &families[0]["bytes_before"]), (&count, &bytes));
    let (count, bytes) = state(1);
    assert_eq!(count, 1);
    assert_eq!((&families[0]["tables_after"], &families[0]["bytes_after"]), (&count, &bytes));
    assert!(state(2).0.as_u64() > Some(1), "another one was compacted, too");
    let text = db("compact", path, ["--column-family", "counters"]).well().output;
    let expected = format!("counters: 1 table of {bytes} bytes became 1 table of ");
    assert!(text.starts_with(&expected), "{text}");
    db("compact", path, ["--column-family", "nope"]).ended(1, "no column family 'nope'");
}

#[test]
fn both_ends_of_a_compacted_range_are_inclusive() {
    let scratch = tempfile::tempdir().expect("a directory");
    let path = scratch.path();
    let mut known = BTreeMap::new();
    for key in ["a", "m", "z"] {
        db("put", path, [key, "value", "--create"]);
        db("compact", path, ["--from", key, "--to", key]).well();
        // The tables written in earlier rounds, which have other keys, are unchanged.
        let tables = tables(path);
        assert_eq!(tables.len(), known.len() + 1);
        assert!(known.keys().all(|table| tables.contains_key(table)), "{key}");
        known = tables;
    }
    let rewritten = |arguments: [&str; 4]| {
        let before = tables(path);
        db("compact", path, arguments).well();
        before.len() - tables(path).keys().filter(|table| before.contains_key(*table)).count()
    };
    assert_eq!(rewritten(["--from", "b", "--to", "l"]), 0);
    assert_eq!(rewritten(["--from", "z", "--to", "zz"]), 1);
    assert_eq!(rewritten(["--key-hex", "--from", "6d", "--to=7a"]), 2);
    db("compact", path, ["--key-hex", "--from", "6"]).ended(2, "key '6'");
    assert_eq!(hex_dump(path).lines().count(), 3);
}

#[test]
fn a_column_family_with_a_damaged_table_holds_what_it_held() {
    let database = golden::unpack("records");
    let path = database.path();
    db("flush", path, []).well();
    // The oldest table of the column family `counters`.
    let damaged = file(path, "000009.sst");
    change(&damaged, |bytes| bytes[100] ^= 1);
    let before = tables(path);
    let answer = db("compact", path, [])
        .ended(1, "column family 'counters' was not compacted and is unchanged")
        .ended(1, "000009.sst");
    let printed: Vec<&str> =
        answer.output.lines().filter_map(|line| line.split(':').next()).collect();
    assert_eq!(printed, ["default", "ranges", "singles"]);
    // `default` has no tables after the compaction, `ranges` and `singles` have one new table each,
    // and the tables of `counters` are unchanged.
    let after = tables(path);
    let (stayed, new): (Vec<_>, Vec<_>) =
        after.iter().partition(|(path, _)| before.contains_key(*path));
    assert_eq!(new.len(), 2);
    assert!(stayed.len() > 1 && stayed.iter().any(|(path, _)| **path == damaged), "{stayed:?}");
    assert!(stayed.iter().all(|(path, bytes)| before[*path] == **bytes));

    // A compaction of `counters` alone fails too, and changes no table of any column family.
    let before = tables(path);
    db("compact", path, ["--column-family", "counters"]).ended(1, "000009.sst");
    assert!(tables(path) == before);
    change(&damaged, |bytes| bytes[100] ^= 1);
    assert!(hex_dump(path) == hex_lines(&golden::dump("records")));
    db("verify", path, []).well();
    db("compact", path, []).well();
    assert!(hex_dump(path) == hex_lines(&golden::dump("records")));
    assert_eq!(tables(path).len(), 3);
}
