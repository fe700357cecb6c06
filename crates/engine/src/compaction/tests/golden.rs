//! The same tables compacted by RocksDB and by Tailwater.
//!
//! RocksDB writes a database and compacts it while snapshots are held. Tailwater compacts a copy of
//! the database made before RocksDB's compaction. The resulting records must be the same. The
//! boundaries of the resulting tables must be the same too, unless RocksDB splits the versions of a
//! user key between two tables, which Tailwater never does. RocksDB leaves range tombstones in
//! pieces that Tailwater joins; the tests join RocksDB's pieces before they compare. Databases of
//! which RocksDB moves tables are skipped, because the tests run a merge without choosing its
//! inputs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fastrand::Rng;
use tailwater_format::Comparator;
use tailwater_format::key::{self, ParsedKey, Sequence, ValueType, pack_trailer};
use tailwater_testkit::oracle::{Oracle, Script};
use tailwater_testkit::seed;

use super::history::History;
use super::scene::{Contents, Record, Scene, internal_key, text};
use crate::db::Db;
use crate::merge_operator::MergeOperator;
use crate::open_options::OpenOptions;
use crate::range_tombstone::{self, StripedFragment};
use crate::table::FileMetadata;

/// Number of databases that each test compares.
const DATABASES: usize = 15;
/// Target size of a table, in bytes, in databases for which the boundaries of tables are compared.
const TABLE_BYTES: u64 = 600;

/// A database written by RocksDB.
struct Subject {
    path: PathBuf,
    script: Script,
    snapshots: Vec<Sequence>,
    table_bytes: u64,
    written: usize,
}

impl Subject {
    fn new(path: PathBuf, rng: &mut Rng, operator: &str, more: &str) -> Self {
        let has_snapshots = rng.bool();
        let table_bytes = if has_snapshots { 1 << 20 } else { TABLE_BYTES };
        Self::with_table_bytes(path, table_bytes, rng, operator, more)
    }

    fn with_table_bytes(
        path: PathBuf,
        table_bytes: u64,
        rng: &mut Rng,
        operator: &str,
        more: &str,
    ) -> Self {
        let options = format!(
            "merge_operator={operator};compression=kNoCompression;disable_auto_compactions=true;\
             target_file_size_base={table_bytes};{more};\
             block_based_table_factory={{block_size={}}}",
            rng.u32(1..400)
        );
        let script = Script::open(&path, "", &[("default", &options)]);
        let snapshots = Vec::new();
        Self { path, script, snapshots, table_bytes, written: 0 }
    }

    /// Adds steps to the script that put these records into the database and flush them. If the
    /// database has snapshots, also adds steps that take snapshots between the writes.
    fn write(&mut self, rng: &mut Rng, records: &[Record]) {
        for record in records {
            let Record { key, value, kind, .. } = record;
            match kind {
                ValueType::Value => self.script.put("default", key, value),
                ValueType::Merge => self.script.merge("default", key, value),
                ValueType::Deletion => self.script.delete("default", key),
                ValueType::SingleDeletion => self.script.single_delete("default", key),
                _ => self.script.delete_range("default", key, value),
            }
            self.written += 1;
            if self.table_bytes > TABLE_BYTES && rng.u8(..30) == 0 {
                self.script.line(&[&"snapshot"]);
                self.snapshots.push(self.written as u64);
            }
        }
        self.script.flush("default");
    }

    /// Lets RocksDB execute all steps recorded so far.
    fn run(&mut self, oracle: &mut Oracle, context: &str) -> String {
        let script = std::mem::take(&mut self.script);
        oracle.run(&script).unwrap_or_else(|error| panic!("{context}: {error}"))
    }

    /// Returns a copy of the database in its current state, opened by Tailwater.
    fn copy(&self, name: &str) -> Scene {
        let copy = self.path.with_extension(name);
        copy_directory(&self.path, &copy);
        let mut scene = open(&copy);
        scene.snapshots = self.snapshots.clone();
        scene.max_output_file_bytes = self.table_bytes;
        scene.max_overlap_bytes = 25 * self.table_bytes;
        scene
    }
}

fn open(path: &Path) -> Scene {
    let options = OpenOptions::load(path).unwrap();
    let db = Db::open_read_only(path, &options).unwrap();
    let version = Arc::clone(db.cf_handle("default").unwrap().super_version().version());
    Scene::of(path.to_owned(), &options, version)
}

#[expect(clippy::disallowed_methods, reason = "copies a directory from outside the engine")]
fn copy_directory(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

/// Calls `test` for each of [`DATABASES`] databases, with the path of a directory for it. `test`
/// returns whether it compared a compaction; some must have done so. Does nothing without RocksDB.
fn with_databases(part: &str, mut test: impl FnMut(&mut Oracle, PathBuf, &mut Rng, &str) -> bool) {
    let Some(mut oracle) = Oracle::start(part) else { return };
    let mut seed = seed::rng();
    let directory = tempfile::tempdir().unwrap();
    let (count, mut compared) = (DATABASES * seed::rounds(), 0);
    for number in 0..count {
        let context = format!("{part}, seed {}, database {number}", seed.value());
        let path = directory.path().join(number.to_string());
        compared += usize::from(test(&mut oracle, path, &mut seed.rng, &context));
    }
    println!("{part}: {compared} of {count} compactions were compared");
    assert!(compared > 0, "{part}: nothing was compared in {count} databases");
}

/// Returns a random history and the name of the merge operator that it uses. The history is divided
/// into `count` pieces, one for each table to be flushed.
fn pieces(rng: &mut Rng, count: usize) -> (Vec<Vec<Record>>, &'static str) {
    let operator = ["stringappend", "uint64add", "stringappendtest", "max", "put"];
    let operator = operator[rng.usize(..operator.len())];
    let known = MergeOperator::built_in(operator).unwrap();
    // Either a short history of few keys, or a long history of many keys.
    let (keys, length) = if rng.bool() { (24, 200) } else { (400, 3000) };
    let length = rng.usize(4 * count..length);
    let mut history = History::plain(rng, length, keys, known);
    let mut pieces = Vec::new();
    for left in (1..=count).rev() {
        let rest = history.records.split_off(history.records.len() / left);
        pieces.push(std::mem::replace(&mut history.records, rest));
    }
    (pieces, operator)
}

/// Whether a user key has versions in two adjacent tables of a level.
fn cuts_within_key(files: &[Arc<FileMetadata>]) -> bool {
    files.windows(2).any(|pair| {
        let is_exclusive = key::split(pair[0].largest()).unwrap().1 == u64::MAX << 8 | 0xF;
        !is_exclusive && pair[0].largest_user_key() == pair[1].smallest_user_key()
    })
}

/// Returns the contents of a table, with the pieces of its range tombstones joined.
fn joined_contents(scene: &Scene, file: &FileMetadata) -> Contents {
    let Contents { records, tombstones } = scene.contents(file);
    let mut fragments: Vec<StripedFragment<'_>> = Vec::new();
    for (start, end) in &tombstones {
        let (start, trailer) = key::split(start).unwrap();
        match fragments.last_mut() {
            Some(last) if last.start == start => last.sequences.push(trailer >> 8),
            _ => fragments.push(StripedFragment { start, end, sequences: vec![trailer >> 8] }),
        }
    }
    let mut joined = Vec::new();
    for StripedFragment { start, end, sequences } in
        range_tombstone::joined(&Comparator::Bytewise, fragments)
    {
        joined.extend(sequences.into_iter().map(|sequence| {
            let trailer = pack_trailer(sequence, ValueType::RangeDeletion as u8);
            (internal_key(start, trailer), end.to_vec())
        }));
    }
    Contents { records, tombstones: joined }
}

/// Removes the deletions that RocksDB drops and Tailwater keeps: those below a single deletion and
/// its write. A later compaction drops these two together, and then only the deletion hides older
/// versions. Returns whether nothing was removed.
fn remove_needed_deletions(ours: &mut Contents, theirs: &Contents) -> bool {
    let parsed = |record: &(Vec<u8>, Vec<u8>)| {
        let key = ParsedKey::parse(&record.0).unwrap();
        (key.user_key.to_vec(), key.value_type)
    };
    let records = std::mem::take(&mut ours.records);
    let count = records.len();
    for record in records {
        let (key, kind) = parsed(&record);
        let above: Vec<_> = ours.records.iter().rev().take(2).map(parsed).collect();
        let is_needed = kind == ValueType::Deletion
            && matches!(&above[..], [(write, _), (single, ValueType::SingleDeletion)]
                if *write == key && *single == key);
        if !is_needed || theirs.records.contains(&record) {
            ours.records.push(record);
        }
    }
    ours.records.len() == count
}

/// Asserts that a level has the same contents in Tailwater's and in RocksDB's database.
fn compare(ours: &Scene, theirs: &Scene, level: usize, context: &str) {
    let level_contents = |scene: &Scene| {
        let mut all = Contents::default();
        for file in scene.files(level) {
            let Contents { records, tombstones } = joined_contents(scene, &file);
            all.records.extend(records);
            all.tombstones.extend(tombstones);
        }
        all
    };
    let (mut our_contents, mut contents) = (level_contents(ours), level_contents(theirs));
    if cuts_within_key(&theirs.files(level)) {
        our_contents.tombstones.clear();
        contents.tombstones.clear();
    }
    let are_all_common = remove_needed_deletions(&mut our_contents, &contents);
    assert_eq!(text(&our_contents), text(&contents), "{context}");
    if cuts_within_key(&theirs.files(level)) || !are_all_common {
        return;
    }
    let bounds = |scene: &Scene| -> Vec<String> {
        let files = scene.files(level);
        let show = |bound: &[u8]| bound.escape_ascii().to_string();
        let show = |file: &Arc<FileMetadata>| {
            let added = file.added();
            format!(
                "{} {} {} {} {} {}",
                show(file.smallest()),
                show(file.largest()),
                added.smallest_sequence,
                added.largest_sequence,
                added.epoch_number,
                text(&joined_contents(scene, file)),
            )
        };
        files.iter().map(show).collect()
    };
    assert_eq!(bounds(ours), bounds(theirs), "{context}");
}

#[test]
fn compaction_into_the_last_level_matches_rocksdb() {
    with_databases("compacting into the last level", |oracle, path, rng, context| {
        let count = rng.usize(2..5);
        let (pieces, operator) = pieces(rng, count);
        let mut subject = Subject::new(path, rng, operator, "num_levels=7");
        pieces.iter().for_each(|piece| subject.write(rng, piece));
        subject.run(oracle, context);
        let mut ours = subject.copy("copy");
        if are_moved(&ours.files(0)) {
            subject.script.line(&[&"close"]);
            subject.run(oracle, context);
            return false;
        }
        subject.script.compact("default");
        subject.script.line(&[&"close"]);
        subject.run(oracle, context);
        let theirs = open(&subject.path);
        let compaction = ours.levels(&[0, 6]);
        ours.compact(compaction).unwrap_or_else(|error| panic!("{context}: {error}"));
        compare(&ours, &theirs, 6, context);
        true
    });
}

/// Whether RocksDB moves these tables of level 0 instead of merging them, because no table overlaps
/// another. Two tables that share only a user key do not overlap if one has the newer versions.
fn are_moved(files: &[Arc<FileMetadata>]) -> bool {
    let compare = |a: &[u8], b: &[u8]| key::compare_internal(&Comparator::Bytewise, a, b);
    let mut files: Vec<_> = files.iter().collect();
    files.sort_by(|a, b| compare(a.smallest(), b.smallest()));
    files.windows(2).all(|pair| compare(pair[0].largest(), pair[1].smallest()).is_lt())
}

/// Whether RocksDB takes all these tables of level 0 into one compaction: their user keys overlap,
/// directly or through other tables.
fn are_compacted_together(files: &[Arc<FileMetadata>]) -> bool {
    let mut files: Vec<_> = files.iter().collect();
    files.sort_by_key(|file| file.smallest_user_key());
    (1..files.len()).all(|at| {
        let before = files[..at].iter().map(|file| file.largest_user_key()).max();
        before >= Some(files[at].smallest_user_key())
    })
}

/// Writes the first piece of a history to level 2, and the others to one table of level 0 each.
/// Compares the compactions of level 0 into level 1. Returns false if RocksDB makes none that can
/// be compared.
fn compact_above_level_2(
    oracle: &mut Oracle,
    subject: &mut Subject,
    rng: &mut Rng,
    pieces: &[Vec<Record>],
    context: &str,
) -> bool {
    subject.write(rng, &pieces[0]);
    subject.script.line(&[&"compact-to", &"default", &2]);
    pieces[1..].iter().for_each(|piece| subject.write(rng, piece));
    subject.run(oracle, context);
    let mut ours = subject.copy("copy");
    let files = ours.files(0);
    // If a piece of the history produced no table when it was flushed, or if RocksDB does not take
    // all tables, it waits for another table before it compacts the rest.
    let is_complete = files.len() == pieces.len() - 1 && are_compacted_together(&files);
    if !is_complete || are_moved(&files) {
        subject.script.line(&[&"close"]);
        subject.run(oracle, context);
        return false;
    }
    subject.script.line(&[&"change", &"default", &"disable_auto_compactions=false"]);
    while subject.run(oracle, context).trim() != "0" {
        subject.script.line(&[&"property", &"default", &"rocksdb.num-files-at-level0"]);
    }
    subject.script.line(&[&"close"]);
    subject.run(oracle, context);
    let theirs = open(&subject.path);
    // As in RocksDB, if deeper levels have tables, an output may grow to twice the target size
    // before it is cut at a grandparent's bound.
    let mut compaction = ours.levels(&[0, 1]);
    if !compaction.is_bottommost && !compaction.grandparents.is_empty() {
        compaction.max_output_file_bytes *= 2;
    }
    ours.compact(compaction).unwrap_or_else(|error| panic!("{context}: {error}"));
    compare(&ours, &theirs, 1, context);
    true
}

/// Returns the options of a database whose level 0 is compacted when it has all but the first of
/// `count` pieces.
fn above_level_2(count: usize) -> String {
    format!(
        "level_compaction_dynamic_level_bytes=false;level0_file_num_compaction_trigger={}",
        count - 1
    )
}

#[test]
fn compaction_above_other_levels_matches_rocksdb() {
    with_databases("compacting above other levels", |oracle, path, rng, context| {
        let count = rng.usize(3..6);
        let (pieces, operator) = pieces(rng, count);
        let mut subject = Subject::new(path, rng, operator, &above_level_2(count));
        compact_above_level_2(oracle, &mut subject, rng, &pieces, context)
    });
}

/// Regression test: compactions did not cut outputs at the same starts of range tombstones as
/// RocksDB, if the starts were at the key of a single deletion.
#[test]
fn outputs_cut_at_keys_of_single_deletions_match_rocksdb() {
    let record = |kind| move |key: &str, value: &str| Record::new(key, 0, kind, value);
    let put = record(ValueType::Value);
    let range = record(ValueType::RangeDeletion);
    let single = |key| record(ValueType::SingleDeletion)(key, "");
    let long = "v".repeat(2 * TABLE_BYTES as usize);
    // With these records, the first output is full.
    let full = || [put("a", &long), put("b", "v")];
    let histories = [
        // The first output ends before the start of the range tombstone, which is below a single
        // deletion and its write, and above another single deletion.
        vec![
            vec![put("k", "v")],
            vec![single("k"), range("k", "m")],
            [&full()[..], &[put("k", "v")]].concat(),
            vec![single("k")],
        ],
        // The start of the range tombstone is between the single deletion and its write. So the
        // first output ends behind it, and the second output's smallest key is a record behind it.
        vec![
            vec![put("k", "v")],
            vec![single("k")],
            [&full()[..], &[put("k", "v")]].concat(),
            vec![range("k", "m"), single("k")],
        ],
        // The first output does not end before the start of the range tombstone, because the
        // compaction drops a single deletion at this key.
        vec![
            vec![put("kk", "v"), put("ll", "v")],
            vec![range("k", "m")],
            [&full()[..], &[single("k"), put("l", "v")]].concat(),
        ],
        // As before, but the single deletion is kept.
        vec![
            vec![put("k", "v"), put("ll", "v")],
            vec![range("k", "m")],
            [&full()[..], &[single("k"), put("l", "v")]].concat(),
        ],
    ];
    let Some(mut oracle) = Oracle::start("cutting at keys of single deletions") else { return };
    let directory = tempfile::tempdir().unwrap();
    for (number, pieces) in histories.iter().enumerate() {
        let path = directory.path().join(number.to_string());
        let options = above_level_2(pieces.len());
        let rng = &mut Rng::with_seed(0);
        let mut subject = Subject::with_table_bytes(path, TABLE_BYTES, rng, "put", &options);
        let context = format!("history {number}");
        let is_compared = compact_above_level_2(&mut oracle, &mut subject, rng, pieces, &context);
        assert!(is_compared, "{context}: RocksDB compacts otherwise");
    }
}
