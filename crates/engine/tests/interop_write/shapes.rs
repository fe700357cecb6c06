//! Databases with many combinations of options. Tailwater writes them, and RocksDB reads them after
//! a clean close and after a kill of Tailwater's process.

use crate::io_modes::{Disk, IoModes};
use crate::laboratory::{self, CREATE, Laboratory, in_laboratory};
use crate::model::Model;
use crate::place::Place;
use crate::shape::Shape;
use crate::{check, pairwise};
use tailwater_testkit::oracle::Script;

/// What an option applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    Database,
    /// The option applies to the database, but only while RocksDB has the database open.
    Theirs,
    Family,
    Table,
    /// In how many directories the tables are.
    Paths,
    /// Whether Tailwater uses background threads.
    Threads,
    /// The I/O modes with which Tailwater opens the database.
    Modes,
}

use Scope::{Database, Family, Modes, Paths, Table, Theirs, Threads};

/// The scope of each option and its values to try. An empty text leaves the option at RocksDB's
/// default.
const FACTORS: [(Scope, &[&str]); 25] = [
    (
        Family,
        &[
            "compression=kNoCompression",
            "compression=kSnappyCompression",
            "compression=kLZ4Compression",
            "compression=kZSTD",
        ],
    ),
    (
        Table,
        &["checksum=kNoChecksum", "checksum=kCRC32c", "checksum=kxxHash", "checksum=kxxHash64", ""],
    ),
    (Table, &["format_version=5", "format_version=6", "format_version=7"]),
    (
        Table,
        &[
            "",
            "filter_policy=bloomfilter:10:false",
            "filter_policy=bloomfilter:10:false;whole_key_filtering=false",
            "filter_policy=ribbonfilter:10",
        ],
    ),
    (Family, &["", "prefix_extractor=fixed:6", "prefix_extractor=capped:7"]),
    (Table, &["block_restart_interval=1", "", "block_restart_interval=5"]),
    (Family, &["", "comparator=rocksdb.ReverseBytewiseComparator"]),
    (Family, &["", "preserve_internal_time_seconds=1800"]),
    // `min_write_buffer_number_to_merge` is not tried: if it is above 1, RocksDB may wait forever
    // for a flush.
    (Family, &["", "max_write_buffer_number=4"]),
    (Database, &["", "wal_compression=kZSTD"]),
    (Database, &["", "recycle_log_file_num=2"]),
    (Database, &["", "wal_dir=$ROOT/logs"]),
    (Database, &["", "manual_wal_flush=true"]),
    (
        Database,
        &[
            "wal_recovery_mode=kTolerateCorruptedTailRecords",
            "wal_recovery_mode=kAbsoluteConsistency",
            "",
            "wal_recovery_mode=kSkipAnyCorruptedRecords",
        ],
    ),
    (Database, &["", "atomic_flush=true"]),
    (Database, &["", "track_and_verify_wals=true"]),
    // Only RocksDB uses this option, with which it records logs in the MANIFEST. Tailwater does not
    // record logs there, but must be able to continue such a database.
    (Theirs, &["", "track_and_verify_wals_in_manifest=true"]),
    (Database, &["", "avoid_flush_during_recovery=true"]),
    (Database, &["", "max_manifest_file_size=2000;max_manifest_space_amp_pct=0"]),
    (Database, &["", "write_dbid_to_manifest=false", "write_identity_file=false"]),
    (Database, &["", "allow_fallocate=false;writable_file_max_buffer_size=5000"]),
    (Database, &["", "db_write_buffer_size=100000", "max_total_wal_size=50000"]),
    (Paths, &["", "several"]),
    (Threads, &["", "none"]),
    (Modes, &["", "direct", "drawn"]),
];

/// All recovery modes for logs.
pub(crate) const RECOVERY_MODES: [&str; 4] = [
    "kTolerateCorruptedTailRecords",
    "kAbsoluteConsistency",
    "kPointInTimeRecovery",
    "kSkipAnyCorruptedRecords",
];

/// Number of times that Tailwater opens a database and writes to it.
const SESSIONS: usize = 3;
/// Number of random steps in each session.
const STEPS: usize = 400;

/// Returns sets of database options. For any two entries of [`FACTORS`], each pair of their values
/// occurs in some set.
pub(crate) fn shapes(rng: &mut fastrand::Rng) -> Vec<Shape> {
    let sizes = FACTORS.map(|(_, values)| values.len());
    let combinations = pairwise::combinations(&sizes, rng);
    combinations.iter().map(|choice| shape(choice, rng)).collect()
}

fn shape(choice: &[usize], rng: &mut fastrand::Rng) -> Shape {
    let chosen = |scope: Scope| -> Vec<&str> {
        let values = FACTORS.iter().zip(choice).filter(|((of, _), _)| *of == scope);
        values.map(|((_, values), &at)| values[at]).filter(|value| !value.is_empty()).collect()
    };
    let table = chosen(Table).join(";");
    let family = format!("{};block_based_table_factory={{{table}}}", chosen(Family).join(";"));
    let mut shape = Shape::new(&chosen(Database).join(";"), &family);
    shape.theirs = chosen(Theirs).join(";");
    shape.several_paths = !chosen(Paths).is_empty();
    shape.inline = !chosen(Threads).is_empty();
    let io_modes = match chosen(Modes).as_slice() {
        ["direct"] => IoModes::all_direct(),
        ["drawn"] => IoModes::random(rng, Disk::Real),
        _ => IoModes::default(),
    };
    shape.in_modes(&io_modes)
}

#[test]
fn databases_of_every_shape() {
    in_laboratory("databases of every shape", |laboratory| {
        for shape in shapes(&mut laboratory.rng.fork()) {
            let context = format!("{}, {shape:?}", laboratory.context);
            let place = laboratory.next_place();
            let mut model = shape.model();
            let torn = write(laboratory, &shape, &place, &mut model, &context);
            closed(laboratory, &shape, &place, &model, &context);
            left_by_a_killed_process(laboratory, &shape, &torn, &model, &context);
            laboratory.clear();
        }
    });
}

/// Lets Tailwater open a database, write to it and close it, several times. Returns a copy of its
/// files from right before the last close, as if the process had been killed then.
fn write(
    laboratory: &mut Laboratory,
    shape: &Shape,
    place: &Place,
    model: &mut Model,
    context: &str,
) -> Place {
    let mut more = CREATE;
    let mut torn = None;
    for session in 0..SESSIONS {
        let context = format!("{context}, session {session}");
        let db = laboratory::open_ours(shape, place, model, more, &context);
        more = "";
        laboratory::ours_does(&db, model, &mut laboratory.rng, STEPS, &context);
        check::holds(&db, &model.dump(), &context);
        db.flush_wal(false).unwrap_or_else(|error| panic!("{context}: {error}"));
        if session + 1 == SESSIONS {
            torn = Some(laboratory.copy(place));
        }
        db.close().unwrap_or_else(|error| panic!("{context}: {error}"));
    }
    torn.expect("a last session")
}

/// Checks a closed database, and makes RocksDB compact all of it. Both engines must find the
/// contents that the model expects, before and after the compaction.
fn closed(laboratory: &mut Laboratory, shape: &Shape, place: &Place, model: &Model, context: &str) {
    let context = format!("{context}, closed");
    laboratory::ours_finds(&shape.open_options(place, model, ""), place, model, &context);
    let mut script = shape.describe(place, model, "paranoid_checks=true");
    script.line(&[&"open-existing"]);
    script.line(&[&"verify"]);
    laboratory.rocksdb_finds(script, model, &context);
    let context = format!("{context}, compacted");
    let mut script = Script::default();
    for (family, _) in model.families() {
        script.flush(family);
        script.compact(family);
    }
    script.line(&[&"verify"]);
    laboratory.rocksdb_finds(script, model, &context);
    laboratory.rocksdb_closes(&context);
    laboratory::ours_finds(&shape.open_options(place, model, ""), place, model, &context);
}

/// Checks the files that a killed process left, in every recovery mode. Both engines must find the
/// contents that the model expects. The strict modes may refuse a recycled log; in that case both
/// engines must refuse it.
fn left_by_a_killed_process(
    laboratory: &mut Laboratory,
    shape: &Shape,
    torn: &Place,
    model: &Model,
    context: &str,
) {
    let recycles = shape.database.contains("recycle_log_file_num=");
    for mode in RECOVERY_MODES {
        let context = format!("{context}, killed, {mode}");
        let more = format!("wal_recovery_mode={mode}");
        let place = laboratory.copy(torn);
        let mut script = shape.describe(&place, model, &more);
        script.line(&[&"open-existing"]);
        let found = laboratory.oracle.dump(script);
        let is_strict = mode.contains("Tolerate") || mode.contains("Absolute");
        let place = laboratory.copy(torn);
        match found {
            Err(error) if recycles && is_strict => {
                let options = shape.open_options(&place, model, &more);
                let ours = tailwater::Db::open(place.database(), &options);
                assert!(ours.is_err(), "{context}: ours opens it, and RocksDB says {error}");
            }
            Err(error) => panic!("{context}: RocksDB says {error}"),
            Ok(found) => {
                laboratory::assert_same(&found, &model.dump(), &format!("{context}: RocksDB"));
                let options = shape.open_options(&place, model, &more);
                laboratory::ours_finds(&options, &place, model, &context);
                let db = laboratory::open_ours(shape, &place, model, &more, &context);
                db.close().unwrap_or_else(|error| panic!("{context}: {error}"));
            }
        }
    }
}
