//! Tests of the OPTIONS files that Tailwater writes. RocksDB must be able to load such a file, and
//! the OPTIONS file that RocksDB then writes must have the same entries. Only for a value that is
//! out of range does RocksDB record the one that replaces it.

use std::path::{Path, PathBuf};

use crate::laboratory::{self, CREATE, in_laboratory};
use crate::place::Place;
use crate::shape::Shape;
use tailwater::for_tests;
use tailwater::options::{ColumnFamilyOptions, DbOptions, OptionTable, Options, UnknownOptions};
use tailwater::{Db, OpenOptions};
use tailwater_format::options_text::Document;
use tailwater_testkit::oracle::Script;

/// Options of a database with values other than the defaults.
const DATABASE: &str = "max_background_jobs=3;max_total_wal_size=1000000;wal_bytes_per_sync=65536;\
    bytes_per_sync=131072;wal_compression=kZSTD;avoid_flush_during_recovery=true;\
    wal_recovery_mode=kAbsoluteConsistency;max_manifest_file_size=123456;atomic_flush=true;\
    delayed_write_rate=1234567;keep_log_file_num=7;max_open_files=300;use_fsync=true;\
    compaction_readahead_size=65536;writable_file_max_buffer_size=32768;\
    max_subcompactions=2;track_and_verify_wals=true;info_log_level=WARN_LEVEL";

/// Options of a column family with values other than the defaults.
const FAMILY: &str = "compression=kZSTD;compression_opts={level=5};\
    bottommost_compression=kLZ4Compression;prefix_extractor=capped:7;\
    max_write_buffer_number=5;min_write_buffer_number_to_merge=2;arena_block_size=4096;\
    level0_file_num_compaction_trigger=6;level0_slowdown_writes_trigger=30;\
    level0_stop_writes_trigger=40;target_file_size_base=54321;max_bytes_for_level_base=765432;\
    max_bytes_for_level_multiplier=7.500000;ttl=86400;periodic_compaction_seconds=172800;\
    num_levels=6;level_compaction_dynamic_level_bytes=false;paranoid_file_checks=true;\
    max_bytes_for_level_multiplier_additional=1:2:3:1:1:1:1;\
    compression_per_level=kNoCompression:kSnappyCompression:kZSTD;\
    comparator=rocksdb.ReverseBytewiseComparator;\
    block_based_table_factory={block_size=2048;checksum=kCRC32c;format_version=6;\
    filter_policy=bloomfilter:9.5:false;whole_key_filtering=false;block_restart_interval=8;\
    cache_index_and_filter_blocks=true}";

/// Number of random steps on a database.
const STEPS: usize = 200;

/// RocksDB versions to write into an OPTIONS file. `None` keeps the version that Tailwater writes.
/// The other version is older than the RocksDB that loads the file. If a file has an older version,
/// RocksDB accepts only option names that it knows.
const LABELS: [Option<&str>; 2] = [None, Some("6.0.0")];

/// Returns the path and the text of a database's newest OPTIONS file.
#[expect(clippy::disallowed_methods, reason = "looks at a database from outside")]
pub(crate) fn newest(place: &Place) -> (PathBuf, String) {
    let entries = std::fs::read_dir(place.database()).expect("a directory that can be listed");
    let newest = entries
        .map(|entry| entry.expect("an entry of the directory").path())
        .filter(|path| path.file_name().is_some_and(|name| number(name).is_some()))
        .max()
        .expect("an OPTIONS file");
    let text = std::fs::read_to_string(&newest).expect("a text");
    (newest, text)
}

fn number(name: &std::ffi::OsStr) -> Option<u64> {
    name.to_str()?.strip_prefix("OPTIONS-")?.parse().ok()
}

/// Writes the OPTIONS file `text` to `path`, with `version` as the RocksDB version in it.
fn label(path: &Path, text: &str, version: &str) {
    let is_version = |line: &str| line.trim_start().starts_with("rocksdb_version=");
    assert!(text.lines().any(is_version), "no version in {text}");
    let relabelled: Vec<String> = text
        .lines()
        .map(|line| {
            if is_version(line) { format!("  rocksdb_version={version}") } else { line.to_owned() }
        })
        .collect();
    write(path, &(relabelled.join("\n") + "\n"));
}

#[expect(clippy::disallowed_methods, reason = "files around a database, not of it")]
fn write(path: &Path, text: &str) {
    std::fs::write(path, text).expect("a file that can be written");
}

/// Returns the section, name and value of every entry of an OPTIONS file, in order. Removes each
/// semicolon before a closing brace. RocksDB writes these semicolons, but Tailwater writes a value
/// as it was set.
pub(crate) fn entries(text: &str) -> Vec<(String, String, String)> {
    let mut section = String::new();
    let mut entries = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        if line.starts_with('[') {
            section = line.to_owned();
        } else if let Some((name, value)) = line.split_once('=') {
            entries.push((section.clone(), name.to_owned(), value.replace(";}", "}")));
        }
    }
    entries
}

/// Returns an OPTIONS file in which every value out of range is replaced by a valid one, as RocksDB
/// does before it records options.
fn in_range(text: &str, home: &Path) -> String {
    let document = Document::parse(text).expect("an OPTIONS file");
    let mut options =
        Options::from_document(&document, UnknownOptions::Refuse).expect("known options");
    for_tests::sanitize_database(&mut options.database, home);
    for (_, family) in &mut options.column_families {
        for_tests::sanitize_column_family(family, &options.database, false);
    }
    options.to_document().to_text()
}

/// Asserts that two OPTIONS files have the same entries, in any order. The RocksDB version is
/// ignored.
fn assert_same(ours: &str, theirs: &str, context: &str) {
    let is_option = |entry: &(String, String, String)| entry.1 != "rocksdb_version";
    let mut ours: Vec<_> = entries(ours).into_iter().filter(is_option).collect();
    let mut theirs: Vec<_> = entries(theirs).into_iter().filter(is_option).collect();
    ours.sort();
    theirs.sort();
    let only_ours: Vec<_> = ours.iter().filter(|entry| !theirs.contains(entry)).collect();
    let only_theirs: Vec<_> = theirs.iter().filter(|entry| !ours.contains(entry)).collect();
    assert!(
        only_ours.is_empty() && only_theirs.is_empty(),
        "{context}: only ours says {only_ours:#?}, only RocksDB's says {only_theirs:#?}"
    );
    assert_eq!(ours.len(), theirs.len(), "{context}: an option occurs twice");
}

#[test]
fn rocksdb_loads_the_options_files_of_tailwater() {
    in_laboratory("RocksDB loads the options files of Tailwater", |laboratory| {
        for (database, family) in [("", ""), (DATABASE, FAMILY)] {
            let shape = Shape::new(database, family);
            let context = format!("{}, {shape:?}", laboratory.context);
            let place = laboratory.next_place();
            let mut model = shape.model();
            let db = laboratory::open_ours(&shape, &place, &model, CREATE, &context);
            laboratory::ours_does(&db, &mut model, &mut laboratory.rng, STEPS, &context);
            db.close().unwrap_or_else(|error| panic!("{context}: {error}"));
            let (_, ours) = newest(&place);
            for version in LABELS {
                let context = format!("{context}, labelled {version:?}");
                let place = laboratory.copy(&place);
                if let Some(version) = version {
                    let (path, text) = newest(&place);
                    label(&path, &text, version);
                }
                let mut script = Script::describe(&place.database(), "", &[]);
                script.line(&[&"load"]);
                script.line(&[&"open"]);
                laboratory.rocksdb_finds(script, &model, &context);
                laboratory.rocksdb_closes(&context);
                let (_, theirs) = newest(&place);
                let ours = in_range(&ours, &place.database());
                assert_same(&ours, &theirs, &context);
            }
        }
    });
}

#[test]
fn each_engine_continues_with_the_options_file_of_the_other() {
    in_laboratory("each engine continues with the options file of the other", |laboratory| {
        let shape = Shape::new(DATABASE, FAMILY);
        let context = format!("{}, {shape:?}", laboratory.context);
        let place = laboratory.next_place();
        let mut model = shape.model();
        let db = laboratory::open_ours(&shape, &place, &model, CREATE, &context);
        laboratory::ours_does(&db, &mut model, &mut laboratory.rng, STEPS, &context);
        db.close().unwrap_or_else(|error| panic!("{context}: {error}"));
        for round in 0..3 {
            let context = format!("{context}, round {round}");
            let (_, before) = newest(&place);
            let mut script = Script::describe(&place.database(), "", &[]);
            script.line(&[&"load"]);
            script.line(&[&"open-existing"]);
            laboratory.rocksdb_finds(script, &model, &context);
            let steps = laboratory::rocksdb_steps(&mut model, &mut laboratory.rng, STEPS);
            laboratory.rocksdb_finds(steps, &model, &context);
            laboratory.rocksdb_closes(&context);

            let options = OpenOptions::load(place.database())
                .unwrap_or_else(|error| panic!("{context}: {error}"));
            let db = Db::open(place.database(), &options)
                .unwrap_or_else(|error| panic!("{context}: {error}"));
            crate::check::holds(&db, &model.dump(), &context);
            laboratory::ours_does(&db, &mut model, &mut laboratory.rng, STEPS, &context);
            db.close().unwrap_or_else(|error| panic!("{context}: {error}"));
            let (_, after) = newest(&place);
            let of_database = |text: &str| -> Vec<_> {
                let entries = entries(text).into_iter();
                entries.filter(|(section, ..)| section == "[DBOptions]").collect()
            };
            assert_eq!(of_database(&before), of_database(&after), "{context}");
        }
    });
}
/// Options that keep their defaults, since the test needs databases that RocksDB can open. RocksDB
/// refuses the first two together. It does not open an existing database with the third. With the
/// last one it creates an additional column family.
const LEFT_ALONE: [&str; 4] =
    ["two_write_queues", "disallow_memtable_writes", "error_if_exists", "persist_stats_to_disk"];

/// Returns another value of the same type if `value` is a boolean or a number, and `None`
/// otherwise.
fn another(value: &str) -> Option<String> {
    match value {
        "true" => Some("false".to_owned()),
        "false" => Some("true".to_owned()),
        _ => value.parse::<u64>().ok().map(|number| number.wrapping_add(1).max(1).to_string()),
    }
}

/// Changes every boolean and every number from its default to another value, unless that value
/// cannot be set or `is_refused` rejects the resulting options. Returns how many options were
/// changed.
fn turn_over<T: OptionTable + Clone>(options: &mut T, is_refused: impl Fn(&T) -> bool) -> usize {
    let mut count = 0;
    let defaults: Vec<(String, String)> =
        options.print_options().map(|(name, value)| (name.to_owned(), value)).collect();
    for (name, value) in defaults {
        let mut turned = options.clone();
        let Some(value) = another(&value).filter(|_| !LEFT_ALONE.contains(&&*name)) else {
            continue;
        };
        if turned.set_option(&name, &value).is_ok() && !is_refused(&turned) {
            *options = turned;
            count += 1;
        }
    }
    count
}

#[test]
fn every_accepted_option_is_printed_as_by_rocksdb() {
    in_laboratory("options turned over", |laboratory| {
        let context = laboratory.context.clone();
        let place = laboratory.next_place();
        let mut script = Script::open(&place.database(), "", &[]);
        script.line(&[&"close"]);
        laboratory.rocksdb_does(&script, &context);

        let (mut database, mut family) = (DbOptions::default(), ColumnFamilyOptions::default());
        let mut count =
            turn_over(&mut database, |turned| for_tests::check_database(turned).is_err());
        count += turn_over(&mut family, |turned| {
            for_tests::check_column_family(turned, &database).is_err()
        });
        let mut table = family.table_factory.clone();
        count += turn_over(&mut table, |turned| {
            let mut family = family.clone();
            family.table_factory = turned.clone();
            for_tests::check_column_family(&family, &database).is_err()
        });
        family.table_factory = table;
        assert!(count > 120, "{context}: only {count} options are turned over");
        for_tests::sanitize_database(&mut database, &place.database());
        for_tests::sanitize_column_family(&mut family, &database, true);
        let column_families = vec![("default".to_owned(), family)];
        let ours = Options { database, column_families }.to_document().to_text();
        let (path, _) = newest(&place);
        write(&path, &ours);
        let mut script = Script::describe(&place.database(), "", &[]);
        script.line(&[&"load"]);
        script.line(&[&"open-existing"]);
        script.line(&[&"close"]);
        laboratory.rocksdb_does(&script, &context);
        let (path_after, theirs) = newest(&place);
        assert_ne!(path, path_after, "{context}");
        assert_same(&ours, &theirs, &context);
    });
}
