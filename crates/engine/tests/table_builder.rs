//! Tests of the table builder. Tailwater and the real RocksDB read the tables that it writes, and
//! it rebuilds tables that RocksDB wrote.
//!
//! The tables have random records. For every two options, each pair of their values occurs in some
//! table. A failure prints the seed. `TAILWATER_SEED` repeats the run with that seed, and
//! `TAILWATER_ROUNDS` multiplies the number of runs, with different random choices.

#[path = "common/check.rs"]
mod check;
#[path = "table_builder/database.rs"]
mod database;
#[path = "table_builder/faults.rs"]
mod faults;
#[path = "common/pairwise.rs"]
mod pairwise;
#[path = "table_builder/rebuilt.rs"]
mod rebuilt;
#[path = "table_builder/records.rs"]
mod records;
#[path = "table_builder/reported.rs"]
mod reported;
#[path = "table_builder/shape.rs"]
mod shape;

use std::path::Path;

use database::Database;
use fastrand::Rng;
use rebuilt::Compared;
use records::Record;
use tailwater::options::FilterPolicy;
use tailwater::verify;
use tailwater::{Db, OpenOptions};
use tailwater_format::compress::Compression;
use tailwater_format::key::ValueType;
use tailwater_testkit::oracle::{Oracle, Script};
use tailwater_testkit::{directory, golden, seed};
use tempfile::TempDir;

/// Number of column families in each database.
const FAMILIES: usize = 16;
/// Number of tables in each column family.
const TABLES: usize = 3;
/// Exclusive upper bound of the number of random records in a table.
const RECORDS: usize = 400;

/// Returns a database whose tables the table builder wrote. It has one column family for each
/// option string in `shapes`.
fn database(directory: &TempDir, number: usize, shapes: &[String], rng: &mut Rng) -> Database {
    let path = directory.path().join(number.to_string());
    let mut database = Database::new(path, rng.u64(..));
    for (at, options) in shapes.iter().enumerate() {
        let name = format!("shape{at}");
        let tables: Vec<Vec<Record>> = (0..TABLES)
            .map(|_| {
                let count = rng.usize(1..RECORDS);
                records::random(rng, options.contains("Reverse"), &mut database.sequence, count)
            })
            .collect();
        database.add_family(&name, options, &tables);
    }
    database.finish();
    database
}

/// Calls `test` with databases. Each option string of [`shape::all`] is that of a column family in
/// one of the databases. Repeats this `TAILWATER_ROUNDS` times.
fn with_databases(part: &str, mut test: impl FnMut(&Database, &str)) {
    let mut seed = seed::rng();
    let context = format!("{part}, seed {}", seed.value());
    let directory = tempfile::tempdir().expect("a directory");
    for round in 0..seed::rounds() {
        let shapes = shape::all(&mut seed.rng);
        for (number, group) in shapes.chunks(FAMILIES).enumerate() {
            let number = 1000 * round + number;
            let database = database(&directory, number, group, &mut seed.rng);
            test(&database, &format!("{context}, families {group:#?}"));
        }
    }
}

#[test]
fn tailwater_reads_tables_of_every_shape() {
    with_databases("our reader", |database, context| {
        let options = &database.options;
        let db = Db::open_read_only(&database.path, options)
            .unwrap_or_else(|error| panic!("{context}: {error}"));
        check::holds(&db, &database.dump, context);
        let report = verify::verify(&database.path, options);
        assert!(report.findings.is_empty(), "{context}: {:#?}", report.findings);
        assert_eq!(report.tables as usize, database.tables);
        assert_eq!(report.entries, database.records);
    });
}

#[test]
fn rocksdb_reads_verifies_and_compacts_tables_of_every_shape() {
    let Some(mut oracle) = Oracle::start("RocksDB reads our tables") else { return };
    with_databases("RocksDB", |database, context| {
        for compacts in [false, true] {
            let mut script = Script::open(&database.path, "", &database.families());
            script.line(&[&"verify"]);
            for (family, _) in database.families() {
                if compacts {
                    script.compact(family);
                }
            }
            let dump = oracle
                .dump(script)
                .unwrap_or_else(|error| panic!("{context}, compacts: {compacts}: {error}"));
            let differs = dump.iter().zip(&database.dump).find(|(a, b)| a != b);
            assert!(
                dump.len() == database.dump.len() && differs.is_none(),
                "{context}, compacts: {compacts}: {} entries of {}, {differs:?}",
                dump.len(),
                database.dump.len()
            );
        }
    });
}

#[test]
fn golden_tables_are_rebuilt_byte_for_byte() {
    let mut compared = Compared::default();
    for name in golden::names() {
        let directory = golden::unpack(name);
        let options = OpenOptions::load(directory.path()).expect("options");
        let known = rebuilt::known(directory.path());
        for (file, bytes) in golden::files(name) {
            if file.ends_with(".sst") {
                let (family, number) = rebuilt::family_and_number(&bytes);
                let mut options = options.column_family(&family).clone();
                // The check of the options would refuse blob files. Whether values are in blob
                // files does not affect the format of the table that refers to them.
                options.enable_blob_files = false;
                let policy = &mut options.table_factory.filter_policy;
                if matches!(policy, FilterPolicy::ReadOnly(_)) {
                    // The OPTIONS file lacks the number of bits per key of this filter. RocksDB
                    // used ten.
                    *policy = FilterPolicy::Bloom { bits_per_key: 10.0 };
                }
                let context = format!("{name}/{file}, family '{family}'");
                // RocksDB wrote these tables with an older version of zstd, so their compressed
                // blocks may differ.
                let codecs = [Compression::Zstd];
                rebuilt::check(bytes, &known[&number], &options, &codecs, &mut compared, &context);
            }
        }
    }
    assert_eq!(compared, Compared { left_out: 15, same: 47, compressed_otherwise: 7 });
}

#[test]
fn tables_flushed_by_rocksdb_are_rebuilt_byte_for_byte() {
    let Some(mut oracle) = Oracle::start("RocksDB's tables built again") else { return };
    let mut seed = seed::rng();
    let context = format!("RocksDB's tables, seed {}", seed.value());
    let directory = tempfile::tempdir().expect("a directory");
    let mut compared = Compared::default();
    for round in 0..seed::rounds() {
        let mut shapes = shape::all(&mut seed.rng);
        // With this option RocksDB fits the size of a filter to its memory allocator, which cannot
        // be reproduced.
        let plain = "optimize_filters_for_memory=false;block_cache=";
        shapes.iter_mut().for_each(|shape| *shape = shape.replace("block_cache=", plain));
        for (number, group) in shapes.chunks(FAMILIES).enumerate() {
            let path = directory.path().join(format!("{round}-{number}"));
            flush(&mut oracle, &path, group, &mut seed.rng);
            let known = rebuilt::known(&path);
            for (file, bytes) in tables(&path) {
                let (family, number) = rebuilt::family_and_number(&bytes);
                let at = family["shape".len()..].parse::<usize>().expect("a number");
                let context = format!("{context}, {file}, {}", group[at]);
                let options = database::family_options(&group[at]);
                // Tailwater has other implementations of these codecs, written in Rust, so
                // compressed blocks may differ.
                let codecs = [Compression::Snappy, Compression::Zlib];
                rebuilt::check(bytes, &known[&number], &options, &codecs, &mut compared, &context);
            }
        }
    }
    assert_eq!(compared.left_out, 0, "{context}");
    assert!(compared.same > compared.compressed_otherwise, "{context}: {compared:?}");
}

/// Lets RocksDB write a database with one column family for each option string in `shapes`, and
/// flush all of them.
fn flush(oracle: &mut Oracle, path: &Path, shapes: &[String], rng: &mut Rng) {
    let names: Vec<String> = (0..shapes.len()).map(|at| format!("shape{at}")).collect();
    let families: Vec<(&str, &str)> =
        names.iter().map(String::as_str).zip(shapes.iter().map(String::as_str)).collect();
    let mut script = Script::open(path, "", &families);
    let mut sequence = 0;
    for (family, options) in families {
        let count = rng.usize(1..RECORDS);
        for record in records::random(rng, options.contains("Reverse"), &mut sequence, count) {
            match record.kind {
                ValueType::Value => script.put(family, &record.key, &record.value),
                ValueType::Merge => script.merge(family, &record.key, &record.value),
                ValueType::Deletion => script.delete(family, &record.key),
                _ => script.delete_range(family, &record.key, &record.value),
            }
            if rng.u8(..100) == 0 {
                script.line(&[&"snapshot"]);
            }
        }
        script.flush(family);
    }
    script.line(&[&"close"]);
    oracle.run(&script).unwrap_or_else(|error| panic!("{error}"));
}

/// Returns the names and contents of the tables in a directory.
fn tables(path: &Path) -> Vec<(String, Vec<u8>)> {
    directory::snapshot(path)
        .into_iter()
        .filter(|(path, _)| path.extension().is_some_and(|it| it == "sst"))
        .map(|(path, file)| (path.display().to_string(), file.contents))
        .collect()
}
