//! OPTIONS files: reading them, writing them, and adjusting values to the ranges that RocksDB
//! enforces when it opens a database.

use std::collections::BTreeSet;
use std::path::Path;

use tailwater::for_tests::{sanitize_column_family, sanitize_database};
use tailwater::options::{
    ColumnFamilyOptions, DbOptions, OptionTable, Options, Problem, UnknownOptions, set_from_string,
};
use tailwater_format::options_text::Document;

/// The OPTIONS file that RocksDB 11.8.1 writes for a new database, if only `create_if_missing` and
/// `create_missing_column_families` are set.
const DEFAULT: &str = include_str!("data/default-11.8.1");
/// An OPTIONS file that RocksDB wrote for two column families. They have filters, prefix
/// extractors, and a compression for each level.
const RICH: &str = include_str!("data/rich-11.8.1");
/// The lines of all OPTIONS files of the golden databases, without duplicates.
const FIXTURE_LINES: &str = include_str!("data/fixture-lines.txt");
/// Option strings, each with the resulting options after RocksDB opened a database with the string.
const SANITIZED: &str = include_str!("data/sanitized.txt");

/// Returns the text of an OPTIONS file without the comment before its `[Version]` section.
fn body(text: &str) -> &str {
    &text[text.find("[Version]").unwrap()..]
}

fn read(text: &str) -> Options {
    let document = Document::parse(text).unwrap();
    Options::from_document(&document, UnknownOptions::Refuse).unwrap()
}

/// Returns the options as adjusted by creating a database with them.
fn opened(mut database: DbOptions, mut family: ColumnFamilyOptions) -> Options {
    database.create_if_missing = true;
    database.create_missing_column_families = true;
    sanitize_database(&mut database, Path::new("/data/db"));
    sanitize_column_family(&mut family, &database, false);
    Options { database, column_families: vec![("default".to_owned(), family)] }
}

#[test]
fn defaults_are_written_as_rocksdb_writes_them() {
    let options = opened(DbOptions::default(), ColumnFamilyOptions::default());
    assert_eq!(body(&options.to_document().to_text()), body(DEFAULT));
}

#[test]
fn rocksdb_options_files_round_trip_unchanged() {
    for text in [DEFAULT, RICH] {
        let options = read(text);
        let written = options.to_document().to_text();
        for (written, line) in body(&written).lines().zip(body(text).lines()) {
            assert_eq!(written, line);
        }
        assert_eq!(body(&written), body(text));
        assert_eq!(read(&options.to_document().to_text()), options);
    }
}

#[test]
fn every_line_of_the_fixtures_round_trips_unchanged() {
    let (mut database, mut family) = (DbOptions::default(), ColumnFamilyOptions::default());
    for line in FIXTURE_LINES.lines().filter(|line| !line.starts_with('#')) {
        let (section, assignment) = line.split_once(' ').unwrap();
        let (name, value) = assignment.split_once('=').unwrap();
        let find = |mut printed: Box<dyn Iterator<Item = (&'static str, String)> + '_>| {
            printed.find(|(printed, _)| *printed == name).map(|(_, value)| value)
        };
        let printed = match section {
            "database" => {
                database.set_option(name, value).unwrap();
                find(Box::new(database.print_options()))
            }
            "family" => {
                family.set_option(name, value).unwrap();
                find(Box::new(family.print_options()))
            }
            _ => {
                family.table_factory.set_option(name, value).unwrap();
                find(Box::new(family.table_factory.print_options()))
            }
        };
        assert_eq!(printed.as_deref(), Some(value), "{line}");
    }
}

/// Returns the cases in [`SANITIZED`]. Each case is an option string for the database, an option
/// string for the column family, and the lines of the resulting OPTIONS file that a default OPTIONS
/// file does not have.
fn cases() -> Vec<(&'static str, &'static str, BTreeSet<&'static str>)> {
    let blocks = SANITIZED.split("\n\n").filter(|block| block.starts_with("database:"));
    blocks
        .map(|block| {
            let mut lines = block.lines();
            let mut string = |prefix: &str| lines.next().unwrap().strip_prefix(prefix).unwrap();
            let database = string("database:").trim();
            let family = string("family:").trim();
            (database, family, lines.map(str::trim).collect())
        })
        .collect()
}

/// Returns the entries of the OPTIONS file for these options. Each is preceded by the kind of its
/// section.
fn lines(options: &Options) -> BTreeSet<String> {
    let family = options.column_family("default").unwrap();
    let line = |section: &str, (name, value): (&str, String)| format!("{section} {name}={value}");
    let database = options.database.print_options().map(|option| line("database", option));
    let family_lines = family.print_options().map(|option| line("family", option));
    let table = family.table_factory.print_options().map(|option| line("table", option));
    database.chain(family_lines).chain(table).collect()
}

#[test]
fn values_are_parsed_and_sanitized_as_by_rocksdb() {
    let defaults = lines(&opened(DbOptions::default(), ColumnFamilyOptions::default()));
    let cases = cases();
    assert!(cases.len() > 25);
    for (database_string, family_string, expected) in cases {
        let (mut database, mut family) = (DbOptions::default(), ColumnFamilyOptions::default());
        set_from_string(&mut database, &mut family, database_string).unwrap();
        set_from_string(&mut database, &mut family, family_string).unwrap();
        let found = lines(&opened(database, family));
        let found: BTreeSet<&str> = found.difference(&defaults).map(String::as_str).collect();
        assert_eq!(found, expected, "{database_string} | {family_string}");
    }
}

/// Returns an OPTIONS file of RocksDB version `version`. `database` is the text of its section
/// `DBOptions`, and `table` is the text of its section `CFOptions "default"`.
fn file(version: &str, database: &str, table: &str) -> Document {
    let text = format!(
        "[Version]\nrocksdb_version={version}\n\
         [DBOptions]\n{database}\n\
         [CFOptions \"default\"]\n{table}\n"
    );
    Document::parse(&text).unwrap()
}

#[test]
fn errors_name_the_option_the_value_and_the_line() {
    let read = |database: &str, table: &str| {
        let document = file("11.8.1", database, table);
        Options::from_document(&document, UnknownOptions::Refuse).unwrap_err().to_string()
    };
    assert_eq!(
        read("max_openfiles=3", ""),
        "line 4: unknown option max_openfiles; is it max_open_files?"
    );
    assert_eq!(read("completely_different=3", ""), "line 4: unknown option completely_different");
    assert_eq!(
        read("max_open_files=many", ""),
        "line 4: option max_open_files: 'many' is not a whole number of 32 bits"
    );
    let tables = "[TableOptions/BlockBasedTable \"default\"]\n\nblock_size=-1";
    assert_eq!(
        read("", tables),
        "line 8: option block_size: '-1' is not a whole number of 64 bits without a sign"
    );
    assert_eq!(
        read("", "[TableOptions/PlainTable \"default\"]"),
        "line 6: option table_factory: 'PlainTable' is not supported: only block-based tables are \
         built"
    );
    assert_eq!(
        read("", "compression_opts={levl=3}"),
        "line 6: unknown option compression_opts.levl; is it level?"
    );
    assert_eq!(
        read("", "compaction_style=kLevel"),
        "line 6: option compaction_style: 'kLevel' is not one of kCompactionStyleLevel, \
         kCompactionStyleUniversal, kCompactionStyleFIFO, kCompactionStyleNone"
    );
}

#[test]
fn unknown_options_are_ignored_only_in_files_of_newer_versions() {
    let read = |version: &str, unknown| {
        let document = file(version, "from_the_future=1\nmax_open_files=7", "");
        Options::from_document(&document, unknown)
    };
    for version in ["5.0", "11.8.1"] {
        let error = read(version, UnknownOptions::IgnoreFromNewer).unwrap_err();
        assert!(matches!(error.problem, Problem::Unknown { .. }), "{error}");
    }
    assert!(read("12.0.0", UnknownOptions::Refuse).is_err());
    let options = read("12.0.0", UnknownOptions::IgnoreFromNewer).unwrap();
    assert_eq!(options.database.max_open_files, 7);
    let document = file("12.0.0", "max_open_files=x", "");
    assert!(Options::from_document(&document, UnknownOptions::IgnoreFromNewer).is_err());
}

#[test]
fn the_first_of_two_lines_for_an_option_applies() {
    let document = file("11.8.1", "max_open_files=7\nmax_open_files=8", "");
    let options = Options::from_document(&document, UnknownOptions::Refuse).unwrap();
    assert_eq!(options.database.max_open_files, 7);
}

#[test]
fn wal_dir_is_normalized() {
    let wal_dir = |given: &str| {
        let mut database = DbOptions::default();
        database.wal_dir = given.to_owned();
        sanitize_database(&mut database, Path::new("/data/db"));
        database.wal_dir
    };
    assert_eq!(wal_dir("/logs/"), "/logs");
    assert_eq!(wal_dir("/data/db/"), "");
    assert_eq!(wal_dir("/data//db"), "");
    assert_eq!(wal_dir(""), "");
}
