//! Tests of the verb `stats`.

use tailwater_testkit::golden;

use crate::support::db;

#[test]
fn levels_are_shown_as_rocksdb_shows_them() {
    let directory = golden::unpack("records");
    let answer = db("stats", directory.path(), ["--column-family", "ranges"]).well();
    assert!(answer.output.starts_with("** Compaction Stats [ranges] **\n"), "{}", answer.output);
    let levels: Vec<&str> = answer.output.lines().filter(|line| line.starts_with("  L")).collect();
    assert_eq!(levels.len(), 1, "{levels:?}");
    assert!(levels[0].starts_with("  L0      7/0    276.68 KB  17.5 "), "{levels:?}");
    assert!(answer.output.contains("\nmemtables "), "{}", answer.output);
    assert!(answer.output.contains("\nuser_read "), "{}", answer.output);
    assert!(!answer.output.contains("[default]"), "{}", answer.output);
    let all = db("stats", directory.path(), []).well().output;
    for family in ["default", "counters", "ranges", "singles"] {
        assert!(all.contains(&format!("** Compaction Stats [{family}] **")), "{all}");
    }
    db("stats", directory.path(), ["--column-family", "nothing"]).ended(1, "nothing");
}

#[test]
fn json_statistics_are_numbers() {
    let directory = golden::unpack("basic");
    let document = db("stats", directory.path(), ["--json"]).well().json();
    let family = &document["column_families"][0];
    assert_eq!(family["column_family"], "default");
    assert_eq!(family["estimated_keys"], 17389);
    assert_eq!(family["live_data_bytes"], 992812);
    assert_eq!(family["pending_compaction_bytes"], 0);
    let levels = family["levels"].as_array().expect("levels");
    assert_eq!(levels.len(), 1);
    assert_eq!((&levels[0]["level"], &levels[0]["tables"]), (&6.into(), &4.into()));
    assert_eq!((&levels[0]["bytes"], &levels[0]["entries"]), (&992812.into(), &16165.into()));
    assert_eq!(levels[0]["deletions"], 0);
}
