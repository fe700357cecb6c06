//! Golden databases, which RocksDB wrote. Tailwater compacts each of them completely, and RocksDB
//! then compacts the result.

use std::io::Write;
use std::path::{Path, PathBuf};

use tailwater::for_tests;
use tailwater::options::{self, ColumnFamilyOptions, DbOptions};
use tailwater::verify;
use tailwater::{BottommostRewrite, ColumnFamily, CompactRangeOptions, Db, OpenOptions};
use tailwater_testkit::dump::Entry;
use tailwater_testkit::oracle::{Oracle, Script};
use tailwater_testkit::{directory, golden};

use crate::laboratory::assert_same;
use crate::{blobs, check};

/// Options with which Tailwater can read tables but not write them. Each option is paired with the
/// option text that replaces it for the compaction.
const WRITTEN_INSTEAD: [(&str, &str); 5] = [
    ("enable_blob_files", "enable_blob_files=false"),
    (
        "compression_opts.max_dict_bytes",
        "compression_opts={max_dict_bytes=0;zstd_max_train_bytes=0}",
    ),
    ("format_version", "block_based_table_factory={format_version=5}"),
    ("index_type", "block_based_table_factory={index_type=kBinarySearch}"),
    ("partition_filters", "block_based_table_factory={partition_filters=false}"),
];

tailwater_testkit::golden_tests!(compacted_to_the_bottom);

fn compacted_to_the_bottom(name: &str) {
    let copy = golden::unpack(name);
    let path = copy.path();
    let dump = golden::dump(name);
    let options = written_options(name, path);
    compact(path, &options, &dump, name);
    let context = format!("{name}, compacted");
    let entries = reads(path, &options, &dump, &context);
    assert_eq!(entries, dump.len() as u64, "{context}: tables hold invisible records");

    let Some(mut oracle) = Oracle::start(&format!("'{name}' compacted")) else { return };
    let rocksdb_finds = |oracle: &mut Oracle, script: Script, context: &str| {
        let found = oracle.dump_open(script);
        let found = found.unwrap_or_else(|error| panic!("{context}: RocksDB says {error}"));
        assert_same(&found, &dump, &format!("{context}: RocksDB"));
    };
    let mut script = Script::default();
    script.line(&[&"directory", &path.display()]);
    script.line(&[&"load"]);
    script.line(&[&"open-existing"]);
    script.line(&[&"verify"]);
    rocksdb_finds(&mut oracle, script, &context);
    let context = format!("{context}, compacted by RocksDB");
    let mut script = Script::default();
    options.column_families().for_each(|family| script.compact(family));
    script.line(&[&"verify"]);
    rocksdb_finds(&mut oracle, script, &context);
    let mut script = Script::default();
    script.line(&[&"close"]);
    oracle.run(&script).unwrap_or_else(|error| panic!("{context}: RocksDB says {error}"));
    reads(path, &options, &dump, &context);
}

/// Returns the options of the OPTIONS file. Options with which Tailwater refuses to write are
/// replaced, and each replacement is reported on standard error.
fn written_options(name: &str, path: &Path) -> OpenOptions {
    let mut options = OpenOptions::load(path).expect("an OPTIONS file");
    let families: Vec<String> = options.column_families().map(str::to_owned).collect();
    for family in families {
        let mut changed = options.column_family(&family).clone();
        while let Err(error) = for_tests::check_column_family(&changed, options.database()) {
            let text = replacement(&error.to_string());
            // Writes to stderr directly, since the test harness shows the output of `eprintln!`
            // only if the test fails.
            let message = format!("{name}: family '{family}': {error}: compacted with {text}\n");
            let _ = std::io::stderr().write_all(message.as_bytes());
            set(&mut changed, text);
        }
        options.set_column_family(&family, changed);
    }
    options
}

fn replacement(error: &str) -> &'static str {
    let replacement = WRITTEN_INSTEAD.iter().find(|(option, _)| error.contains(option));
    replacement.unwrap_or_else(|| panic!("no replacement: {error}")).1
}

fn set(family: &mut ColumnFamilyOptions, text: &str) {
    options::set_from_string(&mut DbOptions::default(), family, text)
        .unwrap_or_else(|error| panic!("{text}: {error}"));
}

/// Compacts all column families completely with Tailwater. Checks that every old table was
/// replaced, and that each column family has tables in at most one level.
fn compact(path: &Path, options: &OpenOptions, dump: &[Entry], context: &str) {
    let force =
        CompactRangeOptions::new().with_bottommost_level_compaction(BottommostRewrite::Force);
    let db = Db::open(path, options).unwrap_or_else(|error| panic!("{context}: {error}"));
    check::holds(&db, dump, context);
    db.flush_all().unwrap_or_else(|error| panic!("{context}: {error}"));
    let before = tables(path);
    assert!(!before.is_empty(), "{context}: there is nothing to compact");
    for family in &db.column_families() {
        db.compact_range_cf_opt(family, None, None, &force)
            .unwrap_or_else(|error| panic!("{context}, family '{}': {error}", family.name()));
        let levels = levels(&db, family);
        let filled = levels.iter().filter(|&&tables| tables > 0).count();
        assert!(filled <= 1, "{context}, family '{}': {levels:?}", family.name());
    }
    check::holds(&db, dump, &format!("{context}, before it is closed"));
    db.close().unwrap_or_else(|error| panic!("{context}: {error}"));
    drop(db);
    let after = tables(path);
    let stayed: Vec<&PathBuf> = after.iter().filter(|path| before.contains(path)).collect();
    assert!(stayed.is_empty(), "{context}: not rewritten: {stayed:?}");
}

/// Returns the number of tables in each level; index 0 is level 0.
fn levels(db: &Db, family: &ColumnFamily) -> Vec<u64> {
    let at = |level| {
        let name = format!("rocksdb.num-files-at-level{level}");
        db.property_value_cf(family, &name)
            .expect("a property")
            .map(|count| count.parse().expect("a count"))
    };
    (0..).map_while(at).collect()
}

fn tables(path: &Path) -> Vec<PathBuf> {
    let files = directory::snapshot(path).into_keys();
    files.filter(|path| path.extension().is_some_and(|extension| extension == "sst")).collect()
}

/// Asserts that Tailwater reads the contents of `dump` from a database, that verification finds
/// nothing, and that the garbage counts of blob files are correct. Returns the number of records in
/// the database's tables.
fn reads(path: &Path, options: &OpenOptions, dump: &[Entry], context: &str) -> u64 {
    let db = Db::open_read_only(path, options).unwrap_or_else(|error| panic!("{context}: {error}"));
    assert!(db.left_out().is_empty(), "{context}: {:?}", db.left_out());
    check::holds(&db, dump, context);
    let report = verify::verify(path, options);
    assert!(report.findings.is_empty(), "{context}: {:#?}", report.findings);
    blobs::garbage_is_counted(path, context);
    report.entries
}
