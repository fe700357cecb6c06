//! Tests that both engines report the same state of a database, such as its tables and sequence
//! number.

use std::path::Path;

use crate::laboratory::{self, CREATE, in_laboratory};
use crate::place::Place;
use crate::shape::Shape;
use tailwater::inspect::manifest::{self, FamilyState, ManifestState};
use tailwater::inspect::table::TableFile;
use tailwater::{Db, OpenOptions};
use tailwater_format::file_name::FileKind;
use tailwater_format::version_edit::NewFile;
use tailwater_io::Storage;
use tailwater_io::posix::PosixStorage;
use tailwater_testkit::oracle::Script;

/// Number of random steps. It is so small that the database has few tables: RocksDB reads the entry
/// counts of only the first twenty tables.
const STEPS: usize = 1200;
/// Options with which RocksDB does not compact the tables.
const QUIET: &str = "disable_auto_compactions=true;level0_slowdown_writes_trigger=1000;\
    level0_stop_writes_trigger=1000";
/// Length of the trailer of an internal key (sequence number and type), in bytes.
const TRAILER: usize = 8;

/// Returns the state of a database, as recorded in the MANIFEST that CURRENT names.
fn state(place: &Place, context: &str) -> ManifestState {
    let (storage, directory) = (PosixStorage::new(), place.database());
    let number = manifest::current(&storage, &directory);
    number
        .and_then(|number| manifest::state(&storage, &directory, number))
        .unwrap_or_else(|error| panic!("{context}: {error}"))
}

#[expect(clippy::disallowed_methods, reason = "looks at a database from outside")]
fn identity(place: &Place) -> String {
    std::fs::read_to_string(place.database().join("IDENTITY")).expect("an IDENTITY")
}

/// Returns a description of a table, in the format of the lines that the oracle (the real RocksDB)
/// prints for live tables.
fn line(storage: &dyn Storage, paths: &[&Path], family: &str, file: &NewFile) -> String {
    let path = paths[usize::from(file.path_id)].join(FileKind::Table(file.number).to_string());
    let table = TableFile::open(storage, &path).expect("a table");
    let properties = table.properties().as_ref().expect("properties");
    let user_key = |key: &[u8]| match &key[..key.len() - TRAILER] {
        [] => "-".to_owned(),
        key => key.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    format!(
        "{family},{},{},{},{},{},{},{},{},{}",
        file.level,
        path.display(),
        file.size,
        user_key(&file.smallest),
        user_key(&file.largest),
        file.smallest_sequence,
        file.largest_sequence,
        properties.num_entries,
        properties.num_deletions,
    )
}

/// Returns the parts of each column family's recorded state that opening a database does not
/// change: ID, name, comparator and tables.
fn lasting(families: &[FamilyState]) -> Vec<(u32, String, String, Vec<Vec<NewFile>>)> {
    let parts = |family: &FamilyState| {
        let FamilyState { id, name, comparator, levels, .. } = family.clone();
        (id, name, comparator, levels)
    };
    families.iter().map(parts).collect()
}

#[test]
fn both_engines_list_the_same_tables() {
    in_laboratory("both engines list the same tables", |laboratory| {
        for several_paths in [false, true] {
            let mut shape = Shape::new("", QUIET);
            shape.several_paths = several_paths;
            shape.families[1].1.push_str(";comparator=rocksdb.ReverseBytewiseComparator");
            let context = format!("{}, several paths: {several_paths}", laboratory.context);
            let place = laboratory.next_place();
            let mut model = shape.model();
            let db = laboratory::open_ours(&shape, &place, &model, CREATE, &context);
            laboratory::ours_does(&db, &mut model, &mut laboratory.rng, STEPS, &context);
            db.flush_all().unwrap_or_else(|error| panic!("{context}: {error}"));
            let sequence = db.latest_sequence_number();
            db.close().unwrap_or_else(|error| panic!("{context}: {error}"));
            drop(db);

            let ours = state(&place, &context);
            let before = identity(&place);
            assert_eq!(ours.database_id.as_deref(), Some(&*before), "{context}");
            let mut script = shape.describe(&place, &model, "");
            script.line(&[&"open-existing"]);
            laboratory.rocksdb_finds(script, &model, &context);
            let mut script = Script::default();
            script.line(&[&"sequence"]);
            let theirs = laboratory.rocksdb_does(&script, &context);
            assert_eq!(theirs, sequence.to_string(), "{context}");
            assert_same_tables(laboratory, &shape, &place, &ours, &context);
            laboratory.rocksdb_closes(&context);

            // RocksDB wrote a new MANIFEST when it opened the database. Its contents are what
            // RocksDB read from Tailwater's MANIFEST.
            let theirs = state(&place, &context);
            assert_ne!(theirs.number, ours.number, "{context}: it is the same MANIFEST");
            assert_eq!(identity(&place), before, "{context}");
            assert_eq!(theirs.database_id, ours.database_id, "{context}");
            assert_eq!(theirs.max_column_family, ours.max_column_family, "{context}");
            assert_eq!(theirs.last_sequence, ours.last_sequence, "{context}");
            assert!(theirs.next_file_number > ours.next_file_number, "{context}");
            let (ours, theirs) = (lasting(&ours.column_families), lasting(&theirs.column_families));
            assert_eq!(ours, theirs, "{context}");
        }
    });
}

fn assert_same_tables(
    laboratory: &mut laboratory::Laboratory,
    shape: &Shape,
    place: &Place,
    ours: &ManifestState,
    context: &str,
) {
    let directory = place.database();
    let paths = shape.table_directories(place);
    let mut paths: Vec<&Path> = paths.iter().map(|(path, _)| path.as_path()).collect();
    if paths.is_empty() {
        paths.push(&directory);
    }
    let mut script = Script::default();
    script.line(&[&"live-files"]);
    let theirs = laboratory.rocksdb_does(&script, context);
    let mut theirs: Vec<&str> = theirs.split(' ').collect();
    let storage = PosixStorage::new();
    let mut lines: Vec<String> = Vec::new();
    for family in &ours.column_families {
        let files = family.levels.iter().flatten();
        lines.extend(files.map(|file| line(&storage, &paths, &family.name, file)));
    }
    theirs.sort_unstable();
    lines.sort_unstable();
    assert!(lines.len() > 3, "{context}: {} tables are not many", lines.len());
    assert_eq!(lines, theirs, "{context}");
}

#[test]
fn both_engines_report_the_same_logs_and_sequence_number() {
    in_laboratory("both engines report the same logs and sequence number", |laboratory| {
        let shape = Shape::new("", QUIET);
        let context = laboratory.context.clone();
        let place = laboratory.next_place();
        let mut model = shape.model();
        let db = laboratory::open_ours(&shape, &place, &model, CREATE, &context);
        for round in 0..4 {
            let context = format!("{context}, round {round}");
            laboratory::ours_does(&db, &mut model, &mut laboratory.rng, STEPS / 4, &context);
            let sequence = db.latest_sequence_number();
            let killed = laboratory.copy(&place);
            let ours = state(&killed, &context);
            let mut script = shape.describe(&killed, &model, "");
            script.line(&[&"open-read-only"]);
            laboratory.rocksdb_finds(script, &model, &context);
            let mut script = Script::default();
            script.line(&[&"sequence"]);
            assert_eq!(laboratory.rocksdb_does(&script, &context), sequence.to_string());
            let mut script = Script::default();
            script.line(&[&"property", &"default", &"rocksdb.min-log-number-to-keep"]);
            let oldest_log = laboratory.rocksdb_does(&script, &context);
            assert_eq!(oldest_log, ours.min_log_number_to_keep.to_string(), "{context}");
            laboratory.rocksdb_closes(&context);
            let options: OpenOptions = shape.open_options(&killed, &model, "");
            let copy = Db::open_read_only(killed.database(), &options)
                .unwrap_or_else(|error| panic!("{context}: {error}"));
            assert_eq!(copy.latest_sequence_number(), sequence, "{context}");
        }
        db.close().unwrap_or_else(|error| panic!("{context}: {error}"));
    });
}
