//! Tests of the tables in the source code that declare the options.

use std::collections::BTreeSet;

use tailwater::options::{
    BlockBasedTableOptions, CacheUsageOptions, ColumnFamilyOptions, CompressionOptions, DbOptions,
    FifoCompactionOptions, MetadataCacheOptions, Mutability, OptionTable, TailwaterOptions,
    UniversalCompactionOptions, ValueKind, Verdict,
};

/// Every option name that RocksDB 11.8.1 registers, with the group of the option.
const NAMES: &str = include_str!("data/names-11.8.1.txt");

fn names_of<T: OptionTable>() -> BTreeSet<&'static str> {
    let names: Vec<&str> = T::names().chain(T::retired_names().iter().copied()).collect();
    let unique: BTreeSet<&str> = names.iter().copied().collect();
    assert_eq!(names.len(), unique.len(), "a name occurs twice");
    unique
}

#[test]
fn every_option_of_rocksdb_is_in_its_table_once() {
    let group = |group: &str| -> BTreeSet<&str> {
        let lines = NAMES.lines().filter(|line| !line.starts_with('#'));
        let pairs = lines.map(|line| line.split_once(' ').unwrap());
        pairs.filter(|(found, _)| *found == group).map(|(_, name)| name).collect()
    };
    let mut database = names_of::<DbOptions>();
    // Tailwater's old name of `use_direct_io_for_compaction_reads`. It is older than RocksDB's
    // option.
    assert!(database.remove("use_direct_reads_for_compaction"));
    // RocksDB registers no name for `db_paths`, since the option can be set only in code there.
    assert!(database.remove("db_paths"));
    assert_eq!(database.symmetric_difference(&group("database")).next(), None);
    let mut family = names_of::<ColumnFamilyOptions>();
    assert!(family.remove("cf_paths"));
    assert_eq!(family, group("family"));
    let mut table = names_of::<BlockBasedTableOptions>();
    assert!(table.remove("cache_usage_options"));
    assert_eq!(table, group("table"));
    assert_eq!(names_of::<CompressionOptions>(), group("compression"));
    assert_eq!(names_of::<FifoCompactionOptions>(), group("fifo"));
    assert_eq!(names_of::<UniversalCompactionOptions>(), group("universal"));
    assert_eq!(names_of::<MetadataCacheOptions>(), group("metadata"));
}

fn check_group<T: OptionTable + Default>() {
    T::default().check_verdicts().unwrap();
    for info in T::table() {
        if let Verdict::NoEffect(why) | Verdict::Refused(why, _) = info.verdict {
            assert!(why.len() > 10 && !why.ends_with('.'), "{}: {why}", info.name);
        }
    }
}

#[test]
fn nothing_that_is_refused_is_on_by_default() {
    check_group::<DbOptions>();
    check_group::<ColumnFamilyOptions>();
    check_group::<BlockBasedTableOptions>();
    check_group::<CompressionOptions>();
    check_group::<FifoCompactionOptions>();
    check_group::<UniversalCompactionOptions>();
    check_group::<MetadataCacheOptions>();
    check_group::<CacheUsageOptions>();
}

#[test]
fn unwritten_options_are_not_printed() {
    let mut family = ColumnFamilyOptions::default();
    family.table_factory.set_option("block_cache", "1m").unwrap();
    let table = BlockBasedTableOptions::table();
    assert!(
        table
            .iter()
            .any(|info| info.name == "block_cache" && info.mutability == Mutability::Unwritten)
    );
    assert!(family.table_factory.print_options().all(|(name, _)| name != "block_cache"));
}

#[test]
fn differences_list_the_changed_options() {
    let before = DbOptions::default();
    let mut after = before.clone();
    after.max_open_files = 5;
    let differences: Vec<_> = before.differences(&after).collect();
    assert_eq!(differences, [("max_open_files", "-1".to_owned(), "5".to_owned())]);
}

#[test]
fn the_former_name_of_low_priority_compactions_is_an_alias() {
    let options = TailwaterOptions::from_text("quiet_background=true\n").unwrap();
    assert!(options.low_priority_compactions);
    assert!(options.to_text().unwrap().contains("\nlow_priority_compactions=true\n"));
}

/// Checks that the options of a group accept the values of their kinds and no others.
fn check_kinds<T: OptionTable + Default>() {
    for info in T::table() {
        let (name, kind) = (info.name, info.kind);
        let accepts = |text: &str| T::default().set_option(name, text).is_ok();
        match kind {
            ValueKind::Bool => assert!(accepts("true") && accepts("0") && !accepts("2"), "{name}"),
            ValueKind::Integer { min, max } => {
                for (number, is_within) in
                    [(min - 1, false), (min, true), (max, true), (max + 1, false)]
                {
                    assert_eq!(accepts(&number.to_string()), is_within, "{name}={number}");
                }
            }
            ValueKind::Float => assert!(accepts("-0.5") && !accepts("half"), "{name}"),
            ValueKind::Enum(names) => {
                assert!(names.iter().all(|value| accepts(value)) && !accepts("kOther"), "{name}");
                assert!(names.contains(&info.value_in(&T::default()).as_str()), "{name}");
            }
            ValueKind::List(&ValueKind::Enum(names)) => assert!(accepts(&names.join(":"))),
            ValueKind::List(_) | ValueKind::String => assert!(accepts(""), "{name}"),
            ValueKind::Object => assert!(accepts("nullptr"), "{name}"),
            ValueKind::Group => assert!(!accepts("no_such_option=1"), "{name}"),
            kind => panic!("{name} has an unexpected kind, {kind:?}"),
        }
    }
}

#[test]
fn kinds_describe_the_accepted_values() {
    check_kinds::<DbOptions>();
    check_kinds::<TailwaterOptions>();
    check_kinds::<ColumnFamilyOptions>();
    check_kinds::<BlockBasedTableOptions>();
    check_kinds::<MetadataCacheOptions>();
    check_kinds::<CacheUsageOptions>();
    check_kinds::<CompressionOptions>();
    check_kinds::<FifoCompactionOptions>();
    check_kinds::<UniversalCompactionOptions>();
}
