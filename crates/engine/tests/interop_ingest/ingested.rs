//! Databases into which both engines ingest tables.

use std::collections::BTreeSet;
use std::path::Path;

use tailwater::{BottommostRewrite, CompactRangeOptions, Db, IngestOptions};
use tailwater_testkit::oracle::Script;

use crate::check;
use crate::files::{ExternalTable, Maker, tell_ingestion};
use crate::io_modes::IoModes;
use crate::laboratory::{self, CREATE, Laboratory, in_laboratory};
use crate::model::Model;
use crate::place::Place;
use crate::shape::{Shape, join};

/// Number of turns on one database. Each turn ends with an ingestion.
const TURNS: usize = 14;
/// Number of random steps before each ingestion.
const STEPS: usize = 120;
/// Options for levels so small that several levels fill.
const SMALL: &str = "level0_file_num_compaction_trigger=2;target_file_size_base=12000;\
    max_bytes_for_level_base=30000;max_bytes_for_level_multiplier=3";
/// Options of a database and options of its column families. Each pair is tried.
const SHAPES: [(&str, &str); 4] = [
    ("", "compression=kZSTD;block_based_table_factory={filter_policy=bloomfilter:10:false}"),
    ("recycle_log_file_num=2", "level_compaction_dynamic_level_bytes=false;num_levels=4"),
    (
        "max_manifest_file_size=2000",
        "comparator=rocksdb.ReverseBytewiseComparator;\
         block_based_table_factory={format_version=5;checksum=kCRC32c}",
    ),
    ("atomic_flush=true", "prefix_extractor=fixed:6;num_levels=2"),
];

#[test]
fn tailwater_ingests_tables_made_by_rocksdb() {
    in_laboratory("Tailwater ingests tables made by RocksDB", |laboratory| {
        SHAPES.iter().for_each(|shape| ours_takes_in(laboratory, Maker::RocksDb, *shape));
    });
}

#[test]
fn tailwater_ingests_tables_made_by_tailwater() {
    in_laboratory("Tailwater ingests tables made by Tailwater", |laboratory| {
        SHAPES.iter().for_each(|shape| ours_takes_in(laboratory, Maker::Ours, *shape));
    });
}

/// Ingests tables that `maker` built with Tailwater. Checks that both engines then find the
/// contents that the model expects; RocksDB must find them even after it has compacted a copy of
/// the database.
fn ours_takes_in(laboratory: &mut Laboratory, maker: Maker, (database, family): (&str, &str)) {
    let io_modes = IoModes::of_real_files(&mut laboratory.rng);
    let shape = Shape::new(database, &join(&[SMALL, family])).in_modes(&io_modes);
    let place = laboratory.next_place();
    let mut model = shape.model();
    let context = format!("{}, {shape:?}", laboratory.context);
    let mut db = laboratory::open_ours(&shape, &place, &model, CREATE, &context);
    let mut has_sequences = BTreeSet::new();
    for turn in 0..TURNS {
        let context = format!("{context}, turn {turn}");
        laboratory::ours_does(&db, &mut model, &mut laboratory.rng, STEPS, &context);
        let tables = make(laboratory, &shape, &model, maker, &context);
        let snapshot = laboratory.rng.bool().then(|| (db.snapshot(), model.clone()));
        let options = IngestOptions::new()
            .with_move_files(laboratory.rng.bool())
            .with_verify_checksums_before_ingest(laboratory.rng.bool());
        let family = db.cf_handle(&tables[0].family).expect("a family");
        let paths: Vec<&Path> = tables.iter().map(ExternalTable::path).collect();
        let ingested = db
            .ingest_external_file_cf_opts(&family, &paths, &options)
            .unwrap_or_else(|error| panic!("{context}: {error}"));
        assert!(snapshot.is_none() || ingested.iter().all(|file| file.sequence > 0), "{context}");
        has_sequences.extend(ingested.iter().map(|file| file.sequence > 0));
        tables.iter().for_each(|table| table.apply(&mut model));
        check::holds(&db, &model.dump(), &context);
        if let Some((snapshot, model)) = snapshot {
            check::holds_at(&db, Some(&snapshot), &model.dump(), &format!("{context}, snapshot"));
        }
        if turn % 5 == 4 {
            db.close().unwrap_or_else(|error| panic!("{context}: {error}"));
            let options = shape.open_options(&place, &model, "");
            laboratory::ours_finds(&options, &place, &model, &context);
            rocksdb_goes_on(laboratory, &shape, &place, &model, &context);
            db = laboratory::open_ours(&shape, &place, &model, "", &context);
        }
    }
    assert!(has_sequences.contains(&true), "{context}: nothing was hidden");
}

/// Asserts that RocksDB finds the contents that the model expects in a copy of the database, both
/// before and after RocksDB compacts everything there.
fn rocksdb_goes_on(
    laboratory: &mut Laboratory,
    shape: &Shape,
    place: &Place,
    model: &Model,
    context: &str,
) {
    let copy = laboratory.copy(place);
    let mut script = shape.describe(&copy, model, "paranoid_checks=true");
    script.line(&[&"open-existing"]);
    script.line(&[&"verify"]);
    laboratory.rocksdb_finds(script, model, context);
    let mut script = Script::default();
    model.families().iter().for_each(|(family, _)| script.compact(family));
    laboratory.rocksdb_finds(script, model, &format!("{context}, compacted"));
    laboratory.rocksdb_closes(context);
}

#[test]
fn rocksdb_ingests_tables_made_by_tailwater() {
    in_laboratory("RocksDB ingests tables made by Tailwater", |laboratory| {
        let shape = Shape::new("", SMALL).in_modes(&IoModes::all_direct());
        let place = laboratory.next_place();
        let mut model = shape.model();
        let context = laboratory.context.clone();
        for turn in 0..TURNS {
            let context = format!("{context}, turn {turn}");
            let mut script = shape.describe(&place, &model, "");
            script.line(&[if turn == 0 { &"open" } else { &"open-existing" }]);
            laboratory.rocksdb_does(&script, &context);
            let steps = laboratory::rocksdb_steps(&mut model, &mut laboratory.rng, STEPS);
            laboratory.rocksdb_does(&steps, &context);
            let tables = make(laboratory, &shape, &model, Maker::Ours, &context);
            let mut script = Script::default();
            if laboratory.rng.bool() {
                script.line(&[&"snapshot"]);
            }
            tell_ingestion(&mut script, &tables, ["copy", "move"][turn % 2]);
            script.line(&[&"release"]);
            tables.iter().for_each(|table| table.apply(&mut model));
            laboratory.rocksdb_finds(script, &model, &context);
            laboratory.rocksdb_closes(&context);
        }
        let options = shape.open_options(&place, &model, "");
        laboratory::ours_finds(&options, &place, &model, &context);
        let db = laboratory::open_ours(&shape, &place, &model, "", &context);
        compact_everything(&db, &context);
        check::holds(&db, &model.dump(), &context);
    });
}

/// A table as RocksDB lists it: its column family, level, smallest and largest key, and largest
/// sequence number.
type Seat = (String, String, String, String, String);

#[test]
fn both_choose_the_same_levels_and_sequence_numbers() {
    in_laboratory("both choose the same levels", |laboratory| {
        let levels = "disable_auto_compactions=true;level0_stop_writes_trigger=1000;\
            level0_slowdown_writes_trigger=1000;num_levels=5";
        let shape = Shape::new("", &join(&[SMALL, levels]));
        let mut place = laboratory.next_place();
        let mut model = shape.model();
        let mut depths = BTreeSet::new();
        for turn in 0..TURNS {
            let context = format!("{}, turn {turn}", laboratory.context);
            let mut script = shape.describe(&place, &model, "");
            script.line(&[if turn == 0 { &"open" } else { &"open-existing" }]);
            laboratory.rocksdb_does(&script, &context);
            let steps = laboratory::rocksdb_steps(&mut model, &mut laboratory.rng, STEPS);
            laboratory.rocksdb_does(&steps, &context);
            let mut script = Script::default();
            let some = laboratory.rng.usize(..model.families().len());
            script.line(&[&"compact-to", &model.families()[some].0, &laboratory.rng.u8(1..5)]);
            model.families().iter().for_each(|(family, _)| script.flush(family));
            laboratory.rocksdb_does(&script, &context);
            laboratory.rocksdb_closes(&context);
            let tables = make(laboratory, &shape, &model, Maker::Ours, &context);
            let is_watched = laboratory.rng.bool();
            let ours = laboratory.copy(&place);
            let seats = seats_by_rocksdb(laboratory, &shape, &place, &model, |script| {
                if is_watched {
                    script.line(&[&"snapshot"]);
                }
                tell_ingestion(script, &tables, "copy");
            });
            ingest_by_ours(&shape, &ours, &model, &tables, is_watched, &context);
            tables.iter().for_each(|table| table.apply(&mut model));
            let our_seats = seats_by_rocksdb(laboratory, &shape, &ours, &model, |_| {});
            assert_eq!(our_seats, seats, "{context}");
            depths.extend(seats.iter().map(|seat| seat.1.clone()));
            place = ours;
        }
        assert!(depths.len() > 2, "only levels {depths:?}");
    });
}

fn ingest_by_ours(
    shape: &Shape,
    place: &Place,
    model: &Model,
    tables: &[ExternalTable],
    is_watched: bool,
    context: &str,
) {
    let db = laboratory::open_ours(shape, place, model, "", context);
    let snapshot = is_watched.then(|| db.snapshot());
    let family = db.cf_handle(&tables[0].family).expect("a family");
    let paths: Vec<&Path> = tables.iter().map(ExternalTable::path).collect();
    db.ingest_external_file_cf_opts(&family, &paths, &IngestOptions::default())
        .unwrap_or_else(|error| panic!("{context}: {error}"));
    drop(snapshot);
    db.close().unwrap_or_else(|error| panic!("{context}: {error}"));
}

/// Opens a database with RocksDB, runs commands, and returns a description of every live table.
/// `more` adds the commands to the script that RocksDB executes.
fn seats_by_rocksdb(
    laboratory: &mut Laboratory,
    shape: &Shape,
    place: &Place,
    model: &Model,
    more: impl FnOnce(&mut Script),
) -> BTreeSet<Seat> {
    let mut script = shape.describe(place, model, "");
    script.line(&[&"open-existing"]);
    more(&mut script);
    script.line(&[&"live-files"]);
    let context = laboratory.context.clone();
    let reported = laboratory.rocksdb_does(&script, &context);
    laboratory.rocksdb_closes(&context);
    let seat = |line: &str| {
        let part = |at: usize| line.split(',').nth(at).expect("a part").to_owned();
        (part(0), part(1), part(4), part(5), part(7))
    };
    reported.split_whitespace().map(seat).collect()
}

/// Lets `maker` build one table, or two to four tables that mostly overlap, for a random column
/// family.
fn make(
    laboratory: &mut Laboratory,
    shape: &Shape,
    model: &Model,
    maker: Maker,
    context: &str,
) -> Vec<ExternalTable> {
    let outside = laboratory.next_place();
    let families = model.families();
    let family = families[laboratory.rng.usize(..families.len())];
    let count = if laboratory.rng.bool() { 1 } else { laboratory.rng.usize(2..5) };
    let tables: Vec<ExternalTable> = (0..count)
        .map(|at| {
            let path = outside.root().join(format!("{at}.sst"));
            ExternalTable::random(&mut laboratory.rng, family, path, maker)
        })
        .collect();
    match maker {
        Maker::Ours => {
            let options = shape.open_options(&outside, model, "");
            for table in &tables {
                table.write(&options).unwrap_or_else(|error| panic!("{context}: {error}"));
            }
        }
        Maker::RocksDb => {
            // RocksDB builds a table with the options of an open database, so the script opens an
            // empty one.
            let mut script = shape.describe(&outside, model, CREATE);
            script.line(&[&"open"]);
            tables.iter().for_each(|table| table.tell(&mut script));
            script.line(&[&"close"]);
            laboratory.rocksdb_does(&script, context);
        }
    }
    tables
}

fn compact_everything(db: &Db, context: &str) {
    let options =
        CompactRangeOptions::new().with_bottommost_level_compaction(BottommostRewrite::Force);
    for family in db.column_families() {
        db.compact_range_cf_opt(&family, None, None, &options)
            .unwrap_or_else(|error| panic!("{context}: {error}"));
    }
}
