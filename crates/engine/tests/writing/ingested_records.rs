//! Snapshots that see ingested records, while newer writes of the same keys are compacted.

use std::collections::BTreeMap;
use std::path::Path;

use tailwater::{
    BottommostRewrite, CompactRangeOptions, Db, DbIterator, IngestOptions, ReadOptions, Snapshot,
    SstFileWriter,
};
use tailwater_io::Storage;
use tailwater_io::sim::SimStorage;

use crate::support::{default_family, put, simulated};

const PATH: &str = "/database";
const FILES: [&str; 2] = ["/outside/first.sst", "/outside/second.sst"];
/// The records of the ingested files. The file with the bounds is in the last level, below the
/// other one.
const BOUNDS: [&str; 2] = ["a", "z"];
const KEYS: [&str; 3] = ["k", "l", "m"];

/// Options with which a compaction of the whole database has steps above the last level, and
/// options with which it does not.
const SHAPES: [&str; 2] = ["", "level_compaction_dynamic_level_bytes=false;num_levels=4"];

type Contents = BTreeMap<String, String>;

/// A change to the key `k`.
#[derive(Debug, Clone, Copy)]
enum Change {
    Put,
    Delete,
    SingleDelete,
    Merge,
    MergeTwice,
    DeleteRange,
    SingleDeleteAndPut,
}

const CHANGES: [Change; 7] = [
    Change::Put,
    Change::Delete,
    Change::SingleDelete,
    Change::Merge,
    Change::MergeTwice,
    Change::DeleteRange,
    Change::SingleDeleteAndPut,
];

impl Change {
    fn make(self, db: &Db, contents: &mut Contents) {
        let value = match self {
            Self::Put => {
                put(db, "k", "new").expect("a put");
                Some("new")
            }
            Self::Delete => {
                db.delete("k").expect("a deletion");
                None
            }
            Self::SingleDelete => {
                db.single_delete("k").expect("a single deletion");
                None
            }
            Self::Merge => {
                db.merge("k", "x").expect("a merge");
                Some("ingested,x")
            }
            Self::MergeTwice => {
                db.merge("k", "x").expect("a merge");
                db.merge("k", "y").expect("a merge");
                Some("ingested,x,y")
            }
            Self::DeleteRange => {
                db.delete_range("k", "kk").expect("a range deletion");
                None
            }
            Self::SingleDeleteAndPut => {
                db.single_delete("k").expect("a single deletion");
                put(db, "k", "new").expect("a put");
                Some("new")
            }
        };
        match value {
            Some(value) => contents.insert("k".to_owned(), value.to_owned()),
            None => contents.remove("k"),
        };
    }
}

fn open(disk: &SimStorage, shape: &str) -> Db {
    let text = format!("merge_operator=stringappend;disable_auto_compactions=true;{shape}");
    Db::open(Path::new(PATH), &simulated(disk, &text)).expect("a database")
}

/// Ingests two files. With `merges`, the records of the keys are merge operands. Returns the
/// sequence numbers of the files.
fn ingest(disk: &SimStorage, db: &Db, merges: bool) -> Vec<u64> {
    let mut writer = SstFileWriter::new(&simulated(disk, ""), "default").expect("a writer");
    let mut ingest = |path: &str, keys: &[&str]| {
        writer.open(path).expect("a file");
        for key in keys {
            let written = match merges {
                true => writer.merge(key, "ingested"),
                false => writer.put(key, "ingested"),
            };
            written.expect("a record");
        }
        writer.finish().expect("a whole file");
        let ingested = db.ingest_external_file_opts(&[path], &IngestOptions::default());
        ingested.expect("a file")[0].sequence
    };
    vec![ingest(FILES[0], &BOUNDS), ingest(FILES[1], &KEYS)]
}

fn ingested() -> Contents {
    let keys = BOUNDS.iter().chain(&KEYS);
    keys.map(|key| ((*key).to_owned(), "ingested".to_owned())).collect()
}

/// Checks every way to read the database: gets, and iterators in both directions.
fn check(db: &Db, snapshot: Option<&Snapshot>, expected: &Contents, context: &str) {
    let mut options = ReadOptions::new();
    if let Some(snapshot) = snapshot {
        options = options.with_snapshot(snapshot.clone());
    }
    for key in BOUNDS.iter().chain(&KEYS) {
        let found = db.get_opt(key, &options).expect("a get");
        let found = found.map(|value| String::from_utf8(value).expect("text"));
        assert_eq!(found.as_ref(), expected.get(*key), "{context}: key {key}");
    }
    let family = default_family(db);
    let mut iterator = db.raw_iterator_cf_opt(&family, &options).expect("an iterator");
    check_iterator(&mut iterator, expected, context);
}

fn check_iterator(iterator: &mut DbIterator, expected: &Contents, context: &str) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
    let mut found = Vec::new();
    iterator.seek_to_first().expect("a seek");
    while let Some((key, value)) = iterator.item() {
        found.push((text(key), text(value)));
        iterator.next().expect("a step");
    }
    let forward: Vec<_> = expected.clone().into_iter().collect();
    assert_eq!(found, forward, "{context}: forward");
    let mut found = Vec::new();
    iterator.seek_to_last().expect("a seek");
    while let Some((key, value)) = iterator.item() {
        found.push((text(key), text(value)));
        iterator.prev().expect("a step");
    }
    found.reverse();
    assert_eq!(found, forward, "{context}: backward");
}

/// What happens before the snapshot is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    /// Nothing: the ingested files have sequence number 0, and so has the snapshot.
    Nothing,
    /// The database is reopened. It has no write, and begins at sequence number 0 again.
    Reopening,
    /// A key is written before the files are ingested, in whose range it lies. The files get
    /// sequence numbers, and the snapshot has the highest of these.
    Write,
    /// The same, and all records are compacted, so that they have sequence number 0.
    WriteAndCompaction,
}

/// Regression test: a snapshot at sequence number 0 saw the records of ingested files, which have
/// this number, too. Compactions assumed that such a snapshot sees nothing, and dropped these
/// records together with newer deletions, single deletions and merge operands. The snapshot lost
/// the key, or saw the merged value.
#[test]
fn a_snapshot_keeps_the_ingested_records_that_it_sees() {
    let befores = [Before::Nothing, Before::Reopening, Before::Write, Before::WriteAndCompaction];
    for shape in SHAPES {
        for before in befores {
            for merges in [false, true] {
                CHANGES.iter().for_each(|&change| check_change(shape, before, merges, change));
            }
        }
    }
}

fn check_change(shape: &str, before: Before, merges: bool, change: Change) {
    let context = format!("'{shape}', {before:?}, merge operands: {merges}, {change:?}");
    let disk = SimStorage::new(1);
    disk.create_directory(Path::new("/outside")).expect("a directory");
    let mut db = open(&disk, shape);
    let compact = |db: &Db| {
        let force =
            CompactRangeOptions::new().with_bottommost_level_compaction(BottommostRewrite::Force);
        let family = default_family(db);
        db.compact_range_cf_opt(&family, None, None, &force).expect("a compaction");
    };
    if matches!(before, Before::Write | Before::WriteAndCompaction) {
        for key in BOUNDS.iter().chain(&KEYS) {
            put(&db, key, "first").expect("a put");
        }
    }
    let has_numbers = ingest(&disk, &db, merges).iter().any(|&sequence| sequence > 0);
    assert_eq!(has_numbers, matches!(before, Before::Write | Before::WriteAndCompaction));
    let mut contents = ingested();
    if has_numbers && merges {
        contents.values_mut().for_each(|value| *value = "first,ingested".to_owned());
    }
    if before == Before::Reopening {
        drop(db);
        db = open(&disk, shape);
    }
    if before == Before::WriteAndCompaction {
        compact(&db);
    }
    let snapshot = db.snapshot();
    assert_eq!(snapshot.sequence_number() == 0, !has_numbers, "{context}");
    let seen = contents.clone();
    let refreshing = ReadOptions::new()
        .with_snapshot(snapshot.clone())
        .with_auto_refresh_iterator_with_snapshot(true);
    let mut iterator =
        db.raw_iterator_cf_opt(&default_family(&db), &refreshing).expect("an iterator");
    let mut check_all = |contents: &Contents, context: &str| {
        check(&db, Some(&snapshot), &seen, &format!("{context}, snapshot"));
        check_iterator(&mut iterator, &seen, &format!("{context}, refreshed iterator"));
        check(&db, None, contents, context);
    };
    check_all(&contents, &context);
    change.make(&db, &mut contents);
    if let Some(value) = contents.get_mut("k")
        && has_numbers
        && merges
    {
        *value = value.replace("ingested,", "first,ingested,");
    }
    check_all(&contents, &format!("{context}, changed"));
    db.flush_all().expect("a flush");
    check_all(&contents, &format!("{context}, flushed"));
    for round in 0..2 {
        compact(&db);
        check_all(&contents, &format!("{context}, compacted {round}"));
    }
    drop((snapshot, iterator, refreshing));
    compact(&db);
    check(&db, None, &contents, &format!("{context}, snapshot released"));
    drop(db);
    check(&open(&disk, shape), None, &contents, &format!("{context}, reopened"));
}
