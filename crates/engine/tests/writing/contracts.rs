//! Violations of contracts: of single deletions, by merge operators and by compaction filters. They
//! must stop neither compactions nor writes, and must not change what reads return.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use fastrand::Rng;
use tailwater::{
    BottommostRewrite, CompactRangeOptions, CustomMergeOperator, Db, ErrorKind, MergeOperator,
    ReadOptions, Snapshot, Statistics,
};
use tailwater_io::sim::SimStorage;
use tailwater_testkit::seed;

use crate::support::{
    default_family, failure, findings, get, level_0, log, make_file, property, put, simulated,
};

const PATH: &str = "/db";
/// Options with which every second flush starts a compaction, and with which few tables in level 0
/// stop writes.
const EAGER: &str = "level0_file_num_compaction_trigger=2;level0_slowdown_writes_trigger=3;\
                     level0_stop_writes_trigger=4";
const FORCE: CompactRangeOptions =
    CompactRangeOptions::new().with_bottommost_level_compaction(BottommostRewrite::Force);

/// Asserts that the database works after it found a number of violations.
fn expect_violations(db: &Db, count: u64) {
    assert!(db.background_error().is_none());
    assert!(db.stopped_compactions().is_empty());
    assert_eq!(property(db, "rocksdb.background-errors"), "0");
    assert!(level_0(db) < 3, "{}", property(db, "rocksdb.levelstats"));
    put(db, "later", "1").expect("a put");
    assert_eq!(property(db, "tailwater.contract-violations"), count.to_string());
}

/// Regression test: a compaction filter removed a value, which left a deletion, and the key was
/// then removed by a single deletion. Compactions of the column family stopped for good, and then
/// writes.
#[test]
fn a_removal_by_the_filter_below_a_single_deletion_stops_nothing() {
    for (enforces, violations) in [(true, 1), (false, 0)] {
        let disk = SimStorage::new(1);
        let text = format!(
            "{EAGER};enforce_single_del_contracts={enforces};num_levels=3;level_compaction_dynamic_level_bytes=false;\
             compaction_filter=RemoveEmptyValueCompactionFilter"
        );
        let mut options = simulated(&disk, &text);
        let statistics = Arc::new(Statistics::new());
        options.set_statistics(Arc::clone(&statistics));
        let db = Db::open(PATH, &options).expect("a database");
        // A table in the last level, over whose range deletions stay in level 1.
        let file = Path::new("/file.sst");
        make_file(&options, file, &["a", "z"], "first");
        db.ingest_external_file(&[file]).expect("a file");
        assert_eq!(property(&db, "rocksdb.num-files-at-level2"), "1");
        let flush_twice = |change: &dyn Fn()| {
            change();
            put(&db, "c", "1").expect("a put");
            db.flush_all().expect("a flush");
            put(&db, "a", "2").expect("a put");
            put(&db, "d", "2").expect("a put");
            db.flush_all().expect("a flush");
            assert_eq!((level_0(&db), get(&db, "b")), (0, None));
        };
        flush_twice(&|| put(&db, "b", "").expect("a put"));
        flush_twice(&|| db.single_delete("b").expect("a single deletion"));
        flush_twice(&|| ());
        expect_violations(&db, violations);
        assert_eq!(statistics.ticker("tailwater.contract.violations"), Some(violations));
        let reported = log(&disk, PATH);
        let what = "key 'b': a single deletion above a deletion";
        assert_eq!(reported.matches(what).count() as u64, violations, "{reported}");
        db.compact_range(None, None).expect("a compaction");
        assert_eq!((get(&db, "b"), get(&db, "a").as_deref()), (None, Some("2")));
        drop(db);
        assert_eq!(findings(PATH.as_ref(), &simulated(&disk, &text)), []);
    }
}

/// A merge operator that appends operands, and fails if one of them is `fail`.
struct Failing;

impl CustomMergeOperator for Failing {
    fn name(&self) -> &str {
        "tests.Failing"
    }

    fn full_merge(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let all = base.into_iter().chain(operands.iter().copied());
        (!operands.contains(&&b"fail"[..])).then(|| all.collect::<Vec<_>>().concat())
    }
}

fn open_failing(disk: &SimStorage, text: &str) -> Db {
    let mut options = simulated(disk, &format!("merge_operator=tests.Failing;{text}"));
    options.add_merge_operator(MergeOperator::Custom(Arc::new(Failing)));
    Db::open(PATH, &options).expect("a database")
}

/// Regression test: a merge operator that failed on one key stopped the compactions of its column
/// family, and then writes.
#[test]
fn a_merge_operator_that_fails_on_one_key_stops_nothing() {
    let disk = SimStorage::new(1);
    let db = open_failing(&disk, EAGER);
    put(&db, "bad", "base").expect("a put");
    for round in 0..6 {
        db.merge("bad", "fail").expect("a merge");
        db.merge("good", round.to_string()).expect("a merge");
        db.flush_all().expect("a flush");
    }
    assert_eq!(get(&db, "good").as_deref(), Some("012345"));
    let (kind, text) = failure(db.get("bad"));
    assert_eq!(kind, ErrorKind::UserCode, "{text}");
    let violations: u64 = property(&db, "tailwater.contract-violations").parse().expect("a number");
    assert!(violations > 1, "each compaction tries again");
    expect_violations(&db, violations);
    assert!(log(&disk, PATH).contains("key 'bad': merge operator 'tests.Failing' failed"));
    // Nothing is lost: another operator merges the operands.
    drop(db);
    let text = "merge_operator=stringappend";
    let db = Db::open(PATH, &simulated(&disk, text)).expect("a database");
    let joined = format!("base{}", ",fail".repeat(6));
    assert_eq!(get(&db, "bad"), Some(joined.clone()));
    db.compact_range_cf_opt(&default_family(&db), None, None, &FORCE).expect("a compaction");
    assert_eq!(get(&db, "bad"), Some(joined));
}

/// Regression test: the first compaction of a column family that had merge operands, but was opened
/// without a merge operator, made the database refuse all writes.
#[test]
fn operands_without_a_merge_operator_stop_nothing() {
    let disk = SimStorage::new(1);
    let open = |text: &str| {
        let text = format!("{EAGER};{text}");
        Db::open(PATH, &simulated(&disk, &text)).expect("a database")
    };
    let db = open("merge_operator=stringappend");
    db.merge("a", "1").expect("a merge");
    db.merge("a", "2").expect("a merge");
    put(&db, "b", "").expect("a put");
    drop(db);
    let db = open("");
    for round in 0..4 {
        put(&db, "0", &round.to_string()).expect("a put");
        put(&db, "b", &round.to_string()).expect("a put");
        db.flush_all().expect("a flush");
    }
    let violations: u64 = property(&db, "tailwater.contract-violations").parse().expect("a number");
    assert!(violations > 0);
    expect_violations(&db, violations);
    assert!(log(&disk, PATH).contains("key 'a': the column family was opened without a merge"));
    drop(db);
    assert_eq!(get(&open("merge_operator=stringappend"), "a").as_deref(), Some("1,2"));
}

/// Regression test: a table in the last level with operands that could not be merged was compacted
/// again and again, since its sequence numbers were never set to 0.
#[test]
fn operands_that_cannot_be_merged_are_not_compacted_forever() {
    let disk = SimStorage::new(1);
    let db = open_failing(&disk, EAGER);
    put(&db, "bad", "base").expect("a put");
    db.merge("bad", "fail").expect("a merge");
    let snapshot = db.snapshot();
    put(&db, "overwritten", "1").expect("a put");
    db.compact_range_cf_opt(&default_family(&db), None, None, &FORCE).expect("a compaction");
    let before = db.live_files();
    put(&db, "overwritten", "2").expect("a put");
    drop(snapshot);
    // Background work is done by the calls that cause it. The end of a pause looks for compactions
    // that are due.
    drop(db.pause_compactions().expect("a pause"));
    let after = db.live_files();
    assert_ne!(before[0].path, after[0].path, "the release of the snapshot made one useful");
    drop(db.pause_compactions().expect("a pause"));
    assert_eq!(db.live_files()[0].path, after[0].path);
    expect_violations(&db, 2);
}

/// Regression test: a flush dropped an overwritten put below a put and its single deletion. The
/// first compaction then dropped these two, and an older value in a deeper level became visible
/// again.
#[test]
fn a_key_put_twice_before_its_single_deletion_stays_deleted() {
    let disk = SimStorage::new(1);
    let text = "disable_auto_compactions=true;num_levels=3;level0_file_num_compaction_trigger=2;\
                level_compaction_dynamic_level_bytes=false";
    let options = simulated(&disk, text);
    let db = Db::open(PATH, &options).expect("a database");
    let file = Path::new("/file.sst");
    make_file(&options, file, &["a", "b", "z"], "first");
    db.ingest_external_file(&[file]).expect("a file");
    put(&db, "b", "second").expect("a put");
    put(&db, "b", "third").expect("a put");
    db.single_delete("b").expect("a single deletion");
    put(&db, "c", "").expect("a put");
    db.flush_all().expect("a flush");
    assert_eq!(property(&db, "tailwater.contract-violations"), "1");
    put(&db, "a", "second").expect("a put");
    put(&db, "c", "").expect("a put");
    db.flush_all().expect("a flush");
    let family = default_family(&db);
    db.set_options_cf(&family, &[("disable_auto_compactions", "false")]).expect("options");
    let levels: Vec<_> = db.live_files().iter().map(|file| file.level).collect();
    assert_eq!((levels, get(&db, "b")), (vec![1, 2], None));
    db.compact_range_cf_opt(&family, None, None, &FORCE).expect("a compaction");
    assert_eq!((get(&db, "b"), get(&db, "a").as_deref()), (None, Some("second")));
}

type Contents = BTreeMap<String, String>;

/// Tests random writes that break the contract of single deletions: a key gets every kind of write.
/// Flushes and compactions of the whole database must not change what reads return.
#[test]
fn mixed_writes_read_the_same_before_and_after_compactions() {
    let mut seed = seed::rng();
    let mut violations = 0;
    for round in 0..150 * seed::rounds() {
        let context = format!("seed {}, round {round}", seed.value());
        let disk = SimStorage::new(1);
        let text = "merge_operator=stringappend;disable_auto_compactions=true";
        let db = Db::open(PATH, &simulated(&disk, text)).expect("a database");
        let mut contents = Contents::new();
        let mut snapshots: Vec<(Snapshot, Contents)> = Vec::new();
        for step in 0..60 {
            match seed.rng.u8(..30) {
                0 | 1 => db.flush_all().expect("a flush"),
                2 => {
                    let family = default_family(&db);
                    let done = db.compact_range_cf_opt(&family, None, None, &FORCE);
                    done.unwrap_or_else(|error| panic!("{context}, step {step}: {error}"));
                }
                3 | 4 => snapshots.push((db.snapshot(), contents.clone())),
                5 if !snapshots.is_empty() => {
                    snapshots.swap_remove(seed.rng.usize(..snapshots.len()));
                }
                _ => write(&db, &mut contents, &mut seed.rng),
            }
            let context = format!("{context}, step {step}");
            check(&db, None, &contents, &context);
            for (snapshot, contents) in &snapshots {
                check(&db, Some(snapshot), contents, &context);
            }
        }
        let found = property(&db, "tailwater.contract-violations");
        violations += found.parse::<u64>().expect("a number");
    }
    assert!(violations > 0);
}

/// Makes a random write to one of a few keys.
fn write(db: &Db, contents: &mut Contents, rng: &mut Rng) {
    let key = rng.choice(["a", "b", "c"]).expect("a key");
    let value = rng.u32(..1000).to_string();
    match rng.u8(..10) {
        0..3 => {
            put(db, key, &value).expect("a put");
            contents.insert(key.to_owned(), value);
        }
        3..5 => {
            db.merge(key, &value).expect("a merge");
            let old = contents.get(key).map(|old| format!("{old},{value}"));
            contents.insert(key.to_owned(), old.unwrap_or(value));
        }
        5 => {
            db.delete(key).expect("a deletion");
            contents.remove(key);
        }
        6 => {
            db.delete_range(key, "c").expect("a range deletion");
            contents.retain(|other, _| &other[..] < key || &other[..] >= "c");
        }
        _ => {
            db.single_delete(key).expect("a single deletion");
            contents.remove(key);
        }
    }
}

fn check(db: &Db, snapshot: Option<&Snapshot>, expected: &Contents, context: &str) {
    let mut options = ReadOptions::new();
    if let Some(snapshot) = snapshot {
        options = options.with_snapshot(snapshot.clone());
    }
    for key in ["a", "b", "c"] {
        let found = db.get_opt(key, &options).expect("a get");
        let found = found.map(|value| String::from_utf8(value).expect("text"));
        assert_eq!(found.as_ref(), expected.get(key), "{context}: {key} at {snapshot:?}");
    }
}
