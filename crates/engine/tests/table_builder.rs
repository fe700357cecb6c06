//! Tables that our builder wrote, read by ours and by the real RocksDB; and tables that RocksDB
//! wrote, built again.
//!
//! Databases are made of random records under options in which every two values meet. A failure
//! names the seed; `TAILWATER_SEED` repeats it, and `TAILWATER_ROUNDS` does everything so many times
//! over, with other choices.

#[path = "common/check.rs"]
mod check;
#[path = "table_builder/database.rs"]
mod database;
#[path = "interop/pairwise.rs"]
mod pairwise;
#[path = "table_builder/records.rs"]
mod records;
#[path = "table_builder/shape.rs"]
mod shape;

use database::Database;
use fastrand::Rng;
use records::Record;
use tailwater::Db;
use tailwater::verify;
use tailwater_testkit::oracle::{Oracle, Script};
use tailwater_testkit::seed;
use tempfile::TempDir;

/// How many column families a database has.
const FAMILIES: usize = 16;
/// How many tables each has.
const TABLES: usize = 3;
/// How many records a table has at most.
const RECORDS: usize = 400;

/// A database with a column family for each of these options.
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

/// Calls `test` with databases of every shape, as often as the environment asks for.
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
fn our_reader_reads_tables_of_every_shape() {
    with_databases("our reader", |database, context| {
        let options = &database.options;
        let db = Db::open_read_only(&database.path, options)
            .unwrap_or_else(|error| panic!("{context}: {error}"));
        check::holds(&db, &database.dump, context);
        let report = verify::verify(&database.path, options, &mut |_| {});
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
