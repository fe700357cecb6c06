//! Slow reads and where their time went: on a real filesystem, with injected delays of each kind,
//! and through changes of the options.
//!
//! The tests wait, but compare only what was waited for with what was measured: a machine that is
//! busy with other work adds waits for a processor, which count as such.

mod delays;
mod lines;
mod operations;

use std::path::Path;

use tailwater::{Db, OpenOptions, SlowReadCause};

use lines::{recent, text_of};

const KEYS: u32 = 2000;

fn key(number: u32) -> String {
    format!("key{number:06}")
}

/// Opens a database with these options, and attributes each read that takes a microsecond.
fn open(directory: &Path, text: &str) -> Db {
    let mut options = OpenOptions::default();
    let always = "create_if_missing=true;disable_auto_compactions=true;slow_read_threshold_us=1;";
    options.set_from_string(&format!("{always}{text}")).expect("options");
    Db::open(directory, &options).expect("a database")
}

/// Fills a database with a table in the last level, and one with half of the keys in level 0.
fn fill(db: &Db) {
    for step in [1, 2] {
        for number in (0..KEYS).step_by(step) {
            db.put(key(number), format!("{step} {number} {}", "x".repeat(100))).expect("a put");
        }
        db.flush().expect("a flush");
        if step == 1 {
            db.compact_range(None::<&[u8]>, None::<&[u8]>).expect("a compaction");
        }
    }
}

fn set(db: &Db, changes: &[(&str, &str)]) {
    db.set_database_options(changes).expect("a change of options");
}

#[test]
fn without_a_threshold_nothing_is_attributed() {
    let directory = tempfile::tempdir().expect("a directory");
    let db = open(directory.path(), "slow_read_threshold_us=0");
    fill(&db);
    assert!(db.get(key(1)).expect("a get").is_some());
    assert_eq!(db.slow_reads().durations.count, 0);
    assert_eq!(text_of(&db, "tailwater.recent-slow-reads"), "");
    assert_eq!(text_of(&db, "tailwater.slow-reads"), "off: slow_read_threshold_us is 0\n");
}

#[test]
fn the_threshold_can_be_changed_and_is_kept() {
    let directory = tempfile::tempdir().expect("a directory");
    let db = open(directory.path(), "slow_read_threshold_us=0;use_direct_reads=true");
    fill(&db);
    set(&db, &[("slow_read_threshold_us", "1"), ("slow_read_keys", "true")]);
    db.get(key(1)).expect("a get");
    assert_eq!(recent(&db).len(), 1);
    assert_eq!(recent(&db)[0].text("key"), key(1));

    set(&db, &[("slow_read_keys", "false")]);
    assert!(!text_of(&db, "tailwater.recent-slow-reads").contains("key000"));
    set(&db, &[("slow_read_threshold_us", "1000000000")]);
    db.get(key(3)).expect("a get");
    assert_eq!(recent(&db).len(), 1);

    let refused = db.set_database_options(&[("direct_request_size", "1M")]);
    assert!(refused.is_err_and(|error| error.to_string().contains("direct_request_size")));
    drop(db);
    let kept = OpenOptions::load(directory.path()).expect("the recorded options");
    assert_eq!(kept.database().tailwater.slow_read_threshold_us, 1_000_000_000);
}

#[test]
fn open_iterators_are_attributed_from_their_next_seek() {
    let directory = tempfile::tempdir().expect("a directory");
    let no_cache = "slow_read_threshold_us=0;block_based_table_factory={no_block_cache=1}";
    let db = open(directory.path(), no_cache);
    fill(&db);
    let mut iterator = db.raw_iterator().expect("an iterator");
    iterator.seek_to_first().expect("a seek");
    set(&db, &[("slow_read_threshold_us", "1")]);
    iterator.next().expect("a step");
    assert!(recent(&db).is_empty());
    iterator.seek_to_first().expect("a seek");
    assert!(!recent(&db).is_empty());
}

#[test]
fn names_and_keys_are_escaped() {
    let directory = tempfile::tempdir().expect("a directory");
    let db =
        open(directory.path(), "slow_read_keys=true;block_based_table_factory={no_block_cache=1}");
    let options = tailwater::options::ColumnFamilyOptions::default();
    let family = db.create_cf("a \"family\"\n", &options).expect("a column family");
    let key = b"\x00\"\\\xff";
    db.put_cf(&family, key, "value").expect("a put");
    db.flush_cf(&family).expect("a flush");
    db.get_cf(&family, key).expect("a get").expect("a value");
    let text = text_of(&db, "tailwater.recent-slow-reads");
    let expected = concat!(r#""family":"a \"family\"\u000a","#, r#""key":"\\x00\\\"\\\\\\xff","#);
    assert!(text.lines().count() == 1 && text.contains(expected), "{expected} is not in {text}");
}

#[test]
fn a_checkpoint_records_the_present_threshold() {
    let directory = tempfile::tempdir().expect("a directory");
    let db = open(&directory.path().join("db"), "slow_read_threshold_us=0");
    fill(&db);
    set(&db, &[("slow_read_threshold_us", "1234")]);
    let copy = directory.path().join("checkpoint");
    db.checkpoint(&copy).expect("a checkpoint");
    let options = OpenOptions::load(&copy).expect("the checkpoint's options");
    assert_eq!(options.database().tailwater.slow_read_threshold_us, 1234);
}

#[test]
fn the_last_thousand_are_kept() {
    let directory = tempfile::tempdir().expect("a directory");
    let db =
        open(directory.path(), "slow_read_keys=true;block_based_table_factory={no_block_cache=1}");
    fill(&db);
    for number in 0..1200 {
        db.get(key(number)).expect("a get");
    }
    let reads = recent(&db);
    assert_eq!(reads.len(), 1000);
    assert_eq!(reads[999].text("key"), key(1199));
    let totals = db.slow_reads();
    assert!(totals.durations.count > 1000 && totals.blocks >= 1200, "{totals}");
}

#[test]
fn the_metrics_have_prometheus_s_format() {
    let directory = tempfile::tempdir().expect("a directory");
    let db = open(directory.path(), "");
    fill(&db);
    for number in 0..100 {
        db.get(key(number * 20)).expect("a get");
    }
    let totals = db.slow_reads();
    let gets = totals.by_operation().find(|(name, _)| *name == "get").map_or(0, |(_, gets)| gets);
    assert!(gets > 0 && totals.durations.count > 0 && totals.blocks > 0, "{totals}");
    assert!(SlowReadCause::ALL.iter().any(|&cause| totals.cause(cause).count > 0), "{totals}");
    let text = text_of(&db, "tailwater.slow-reads-prometheus");
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').expect("a name and a value");
        assert!(name.starts_with("tailwater_slow_reads"), "{line}");
        assert!(value.parse::<f64>().is_ok(), "{line}");
    }
    let mut expected = vec![
        format!("total{{operation=\"get\"}} {gets}"),
        format!("seconds_count {}", totals.durations.count),
        format!("blocks_total {}", totals.blocks),
    ];
    expected.extend(SlowReadCause::ALL.map(|cause| {
        let (name, count) = (cause.name(), totals.cause(cause).count);
        format!("cause_seconds_count{{cause=\"{name}\"}} {count}")
    }));
    for line in expected {
        let line = format!("tailwater_slow_reads_{line}\n");
        assert!(text.contains(&line), "{line} is not in\n{text}");
    }
}
