//! Both engines write to one database and compact it in turns.

use std::cmp::Ordering;

use fastrand::Rng;
use tailwater::{BottommostRewrite, CompactRangeOptions, Db};
use tailwater_testkit::oracle::Script;

use crate::io_modes::IoModes;
use crate::laboratory::{self, CREATE, Laboratory, in_laboratory};
use crate::model::Model;
use crate::place::Place;
use crate::shape::{Shape, join};
use crate::{blobs, check, random};

/// Number of turns on one database, alternately by the two engines.
const TURNS: usize = 20;
/// Number of random steps in each half of a turn. The compactions are between the two halves.
const STEPS: usize = 500;
/// Options for levels so small that every level fills.
const SMALL: &str = "level0_file_num_compaction_trigger=2;target_file_size_base=12000;\
    max_bytes_for_level_base=30000;max_bytes_for_level_multiplier=3";
/// Texts in Tailwater's LOG that give the reason for an automatic compaction. They identify the
/// lines about automatic compactions.
const AUTOMATIC: [&str; 2] = ["(LevelL0FilesNum)", "(LevelMaxLevelSize)"];
/// Options with which RocksDB writes values into blob files, and its compactions collect garbage in
/// them.
const BLOBS: &str = "enable_blob_files=true;min_blob_size=25;enable_blob_garbage_collection=true;\
    blob_garbage_collection_age_cutoff=0.5";

/// The database that the engines use in turns.
struct Database {
    shape: Shape,
    /// Whether RocksDB writes blob files.
    has_blobs: bool,
}

impl Database {
    fn new(database: &str, family: &str) -> Self {
        let shape = Shape::new(database, &join(&[SMALL, family]));
        Self { shape, has_blobs: false }
    }
}

#[test]
fn dynamic_level_sizes() {
    take_turns("dynamic level sizes", || Database::new("", "compression=kZSTD"));
}

#[test]
fn static_level_sizes() {
    take_turns("static level sizes", || {
        let levels = "level_compaction_dynamic_level_bytes=false;num_levels=4";
        Database::new("", &format!("{levels};compaction_pri=kOldestSmallestSeqFirst"))
    });
}

#[test]
fn preserved_write_times() {
    take_turns("preserved write times", || {
        Database::new("", "preserve_internal_time_seconds=1800;compression=kLZ4Compression")
    });
}

#[test]
fn round_robin_picking_with_subcompactions() {
    take_turns("round robin picking with subcompactions", || {
        let family = "compaction_pri=kRoundRobin;max_compaction_bytes=40000";
        Database::new("max_subcompactions=3;max_background_jobs=4", family)
    });
}

#[test]
fn reverse_order_without_threads() {
    take_turns("reverse order without threads", || {
        let family = "comparator=rocksdb.ReverseBytewiseComparator;\
            block_based_table_factory={filter_policy=bloomfilter:10:false;format_version=5}";
        let mut database = Database::new("", family);
        database.shape.inline = true;
        database
    });
}

#[test]
fn tables_in_several_directories() {
    take_turns("tables in several directories", || {
        let mut database = Database::new("", "");
        database.shape.several_paths = true;
        database
    });
}

#[test]
fn direct_io_for_everything() {
    take_turns("direct I/O for everything", || {
        let mut database = Database::new("max_subcompactions=2", "");
        database.shape = database.shape.in_modes(&IoModes::all_direct());
        database
    });
}

#[test]
fn values_in_blob_files() {
    take_turns("values in blob files", || Database { has_blobs: true, ..Database::new("", "") });
}

/// Lets both engines use a database in turns. Asserts after every turn that each engine finds the
/// contents that the model expects.
fn take_turns(part: &str, database: impl Fn() -> Database) {
    in_laboratory(part, |laboratory| {
        let mut database = database();
        if database.shape.ours.is_empty() {
            let io_modes = IoModes::of_real_files(&mut laboratory.rng);
            database.shape = database.shape.in_modes(&io_modes);
        }
        let shape = &database.shape;
        let place = laboratory.next_place();
        let mut model = shape.model();
        let ours_begins = laboratory.rng.bool();
        let (mut automatic, mut garbage) = (0, 0);
        for turn in 0..TURNS {
            let is_ours = (turn % 2 == 0) == ours_begins;
            let who = if is_ours { "ours" } else { "RocksDB's" };
            let context = format!("{}, {shape:?}, turn {turn}, {who}", laboratory.context);
            if is_ours {
                our_turn(laboratory, &database, &place, &mut model, turn == 0, &context);
                automatic += automatic_compactions(&place);
            } else {
                rocksdb_turn(laboratory, &database, &place, &mut model, turn == 0, &context);
            }
            let options = shape.open_options(&place, &model, "");
            laboratory::ours_finds(&options, &place, &model, &context);
            rocksdb_finds_in_a_copy(laboratory, &database, &place, &model, &context);
            if database.has_blobs {
                garbage += blobs::garbage_is_counted(&place.database(), &context);
            }
        }
        assert!(automatic > TURNS, "{}: only {automatic} compactions", laboratory.context);
        assert_eq!(garbage > 0, database.has_blobs, "{}: garbage in blobs", laboratory.context);
    });
}

/// Tailwater's turn: writes, compacts and writes again.
fn our_turn(
    laboratory: &mut Laboratory,
    database: &Database,
    place: &Place,
    model: &mut Model,
    is_first: bool,
    context: &str,
) {
    let more = if is_first { CREATE } else { "" };
    let db = laboratory::open_ours(&database.shape, place, model, more, context);
    let rng = &mut laboratory.rng;
    laboratory::ours_does(&db, model, rng, STEPS, context);
    for _ in 0..rng.usize(..4) {
        compact_some(&db, rng, context);
    }
    check::holds(&db, &model.dump(), context);
    laboratory::ours_does(&db, model, rng, STEPS, context);
    check::holds(&db, &model.dump(), context);
    db.close().unwrap_or_else(|error| panic!("{context}: {error}"));
}

/// Compacts a random range of a random column family.
fn compact_some(db: &Db, rng: &mut Rng, context: &str) {
    let families = db.column_families();
    let family = &families[rng.usize(..families.len())];
    let end_of_range = |rng: &mut Rng| rng.bool().then(|| random::key(rng, random::KEYS));
    let (mut begin, mut end) = (end_of_range(rng), end_of_range(rng));
    if let (Some(first), Some(last)) = (&begin, &end)
        && family.comparator().compare(first, last) == Ordering::Greater
    {
        std::mem::swap(&mut begin, &mut end);
    }
    let rewrites = [
        BottommostRewrite::Skip,
        BottommostRewrite::IfHaveCompactionFilter,
        BottommostRewrite::Force,
        BottommostRewrite::ForceOptimized,
    ];
    let options = CompactRangeOptions::new()
        .with_bottommost_level_compaction(rewrites[rng.usize(..rewrites.len())]);
    db.compact_range_cf_opt(family, begin.as_deref(), end.as_deref(), &options).unwrap_or_else(
        |error| {
            panic!("{context}: '{}' from {begin:?} to {end:?}, {options:?}: {error}", family.name())
        },
    );
}

/// RocksDB's turn: writes, compacts and writes again.
fn rocksdb_turn(
    laboratory: &mut Laboratory,
    database: &Database,
    place: &Place,
    model: &mut Model,
    is_first: bool,
    context: &str,
) {
    let mut script = database.shape.describe(place, model, "");
    script.line(&[if is_first { &"open" } else { &"open-existing" }]);
    laboratory.rocksdb_finds(script, model, context);
    let mut script = Script::default();
    for (family, _) in model.families().into_iter().filter(|_| database.has_blobs) {
        script.line(&[&"change", &family, &BLOBS]);
    }
    laboratory.rocksdb_does(&script, context);
    let steps = laboratory::rocksdb_steps(model, &mut laboratory.rng, STEPS);
    laboratory.rocksdb_does(&steps, context);
    let mut script = Script::default();
    for (family, _) in model.families() {
        match laboratory.rng.u8(..8) {
            0 | 1 => script.compact(family),
            // Compacts into a random level. RocksDB does so even if this level is closer to level 0
            // than the levels that already have data.
            2 => script.line(&[&"compact-to", &family, &laboratory.rng.u8(1..4)]),
            _ => {}
        }
    }
    laboratory.rocksdb_does(&script, context);
    let steps = laboratory::rocksdb_steps(model, &mut laboratory.rng, STEPS);
    laboratory.rocksdb_finds(steps, model, context);
    laboratory.rocksdb_closes(context);
}

/// Asserts that RocksDB opens and verifies a copy of the database, and finds the contents there
/// that the model expects. RocksDB opens a copy, since opening changes the files.
fn rocksdb_finds_in_a_copy(
    laboratory: &mut Laboratory,
    database: &Database,
    place: &Place,
    model: &Model,
    context: &str,
) {
    let copy = laboratory.copy(place);
    let mut script = database.shape.describe(&copy, model, "paranoid_checks=true");
    script.line(&[&"open-existing"]);
    script.line(&[&"verify"]);
    laboratory.rocksdb_finds(script, model, context);
    laboratory.rocksdb_closes(context);
}

/// Returns how many automatic compactions Tailwater ran since it last opened the database,
/// according to its LOG.
#[expect(clippy::disallowed_methods, reason = "looks at a database from outside")]
fn automatic_compactions(place: &Place) -> usize {
    let log = std::fs::read_to_string(place.database().join("LOG")).expect("an information log");
    let is_automatic = |line: &&str| AUTOMATIC.iter().any(|reason| line.contains(reason));
    log.lines().filter(is_automatic).count()
}
