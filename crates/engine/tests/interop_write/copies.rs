//! Tests of checkpoints that Tailwater makes and RocksDB then opens and writes to, and of databases
//! that `destroy` removes.

use crate::laboratory::{self, CREATE, in_laboratory};
use crate::place::Place;
use crate::shape::Shape;
use tailwater::{CheckpointOptions, Db};

/// Number of random steps.
const STEPS: usize = 400;

#[test]
fn a_checkpoint_is_a_database_of_its_own() {
    in_laboratory("a checkpoint is a database of its own", |laboratory| {
        for (database, log_size) in [
            ("", 0),
            ("wal_dir=$ROOT/logs", 0),
            ("manual_wal_flush=true;wal_compression=kZSTD", 0),
            ("", u64::MAX),
            ("wal_dir=$ROOT/logs;max_total_wal_size=4096", u64::MAX),
            ("manual_wal_flush=true;wal_compression=kZSTD", u64::MAX),
            ("recycle_log_file_num=2", u64::MAX),
            ("track_and_verify_wals_in_manifest=true;track_and_verify_wals=true", u64::MAX),
        ] {
            let options = CheckpointOptions::new().with_log_size_for_flush(log_size);
            let shape = Shape::new(database, "");
            let context = format!("{}, {database}, {log_size}", laboratory.context);
            let place = laboratory.next_place();
            let mut model = shape.model();
            let db = laboratory::open_ours(&shape, &place, &model, CREATE, &context);
            laboratory::ours_does(&db, &mut model, &mut laboratory.rng, STEPS, &context);
            let copy = laboratory.next_place();
            let made = db.checkpoint_opt(copy.database(), &options);
            made.unwrap_or_else(|error| panic!("{context}: {error}"));
            let taken = model.clone();
            laboratory::ours_does(&db, &mut model, &mut laboratory.rng, STEPS, &context);

            // All files of a checkpoint are in its own directory, so these options name no other
            // directories.
            let plain = Shape::new("", "");
            let mut script = plain.describe(&copy, &taken, "");
            script.line(&[&"open-existing"]);
            script.line(&[&"verify"]);
            let context = format!("{context}, the checkpoint");
            laboratory.rocksdb_finds(script, &taken, &context);
            let mut of_copy = taken.clone();
            let steps = laboratory::rocksdb_steps(&mut of_copy, &mut laboratory.rng, STEPS);
            laboratory.rocksdb_finds(steps, &of_copy, &context);
            laboratory.rocksdb_closes(&context);
            let options = plain.open_options(&copy, &of_copy, "");
            laboratory::ours_finds(&options, &copy, &of_copy, &context);

            // Writes that were made to the checkpoint must not appear in the original.
            db.close().unwrap_or_else(|error| panic!("{context}: {error}"));
            let mut script = shape.describe(&place, &model, "");
            script.line(&[&"open-existing"]);
            laboratory.rocksdb_finds(script, &model, &context);
            laboratory.rocksdb_closes(&context);
        }
    });
}

#[test]
fn a_database_can_be_created_where_one_was_destroyed() {
    in_laboratory("a database can be created where one was destroyed", |laboratory| {
        let mut shape = Shape::new("wal_dir=$ROOT/logs", "");
        shape.several_paths = true;
        let context = laboratory.context.clone();
        let place = laboratory.next_place();
        let mut model = shape.model();
        let db = laboratory::open_ours(&shape, &place, &model, CREATE, &context);
        laboratory::ours_does(&db, &mut model, &mut laboratory.rng, STEPS, &context);
        db.flush_all().unwrap_or_else(|error| panic!("{context}: {error}"));
        db.close().unwrap_or_else(|error| panic!("{context}: {error}"));
        drop(db);
        let options = shape.open_options(&place, &model, "");
        Db::destroy(place.database(), &options)
            .unwrap_or_else(|error| panic!("{context}: {error}"));
        assert_eq!(files(&place), 0, "{context}: files are left");

        let mut model = shape.model();
        let mut script = shape.describe(&place, &model, "error_if_exists=true");
        script.line(&[&"open"]);
        laboratory.rocksdb_finds(script, &model, &context);
        let steps = laboratory::rocksdb_steps(&mut model, &mut laboratory.rng, STEPS);
        laboratory.rocksdb_finds(steps, &model, &context);
        laboratory.rocksdb_closes(&context);
        let options = shape.open_options(&place, &model, "");
        laboratory::ours_finds(&options, &place, &model, &context);
    });
}

/// Returns the number of all files of a database, in its home and in its other directories.
fn files(place: &Place) -> usize {
    tailwater_testkit::directory::snapshot(place.root()).len()
}
