//! Tests that only one of the two engines can have a database open for writing. The other engine
//! may read it meanwhile.

use crate::laboratory::{self, CREATE, in_laboratory};
use crate::shape::Shape;
use tailwater::{Db, ErrorKind};
use tailwater_testkit::oracle::Script;

/// Number of random steps between two checks.
const STEPS: usize = 300;

#[test]
fn a_writer_keeps_the_other_engine_from_writing() {
    in_laboratory("a writer keeps the other engine from writing", |laboratory| {
        let shape = Shape::new("", "");
        let context = laboratory.context.clone();
        let place = laboratory.next_place();
        let mut model = shape.model();
        let db = laboratory::open_ours(&shape, &place, &model, CREATE, &context);
        laboratory::ours_does(&db, &mut model, &mut laboratory.rng, STEPS, &context);
        let mut script = shape.describe(&place, &model, "");
        script.line(&[&"open-existing"]);
        let refusal = laboratory.oracle.run(&script).expect_err("RocksDB opens what ours writes");
        assert!(refusal.contains("lock"), "{context}: {refusal}");
        db.close().unwrap_or_else(|error| panic!("{context}: {error}"));

        // RocksDB opens the database for writing and keeps it open, so Tailwater must be refused.
        laboratory.rocksdb_finds(script, &model, &context);
        let options = shape.open_options(&place, &model, "");
        let refusal = Db::open(place.database(), &options).map(drop).expect_err("no lock is held");
        assert_eq!(refusal.kind(), ErrorKind::Busy, "{context}: {refusal}");
        let steps = laboratory::rocksdb_steps(&mut model, &mut laboratory.rng, STEPS);
        laboratory.rocksdb_finds(steps, &model, &context);
        laboratory.rocksdb_closes(&context);
        laboratory::open_ours(&shape, &place, &model, "", &context);
    });
}

#[test]
fn rocksdb_reads_while_tailwater_writes() {
    in_laboratory("RocksDB reads while Tailwater writes", |laboratory| {
        let shape = Shape::new("", "");
        let context = laboratory.context.clone();
        let place = laboratory.next_place();
        let mut model = shape.model();
        let db = laboratory::open_ours(&shape, &place, &model, CREATE, &context);
        for round in 0..4 {
            laboratory::ours_does(&db, &mut model, &mut laboratory.rng, STEPS, &context);
            if round % 2 == 1 {
                db.flush_all().unwrap_or_else(|error| panic!("{context}: {error}"));
            }
            // A compaction could remove a table while RocksDB opens the database, and RocksDB would
            // not find it.
            let pause = db.pause_compactions().unwrap_or_else(|error| panic!("{context}: {error}"));
            let mut script = shape.describe(&place, &model, "");
            script.line(&[&"open-read-only"]);
            laboratory.rocksdb_finds(script, &model, &format!("{context}, round {round}"));
            laboratory.rocksdb_closes(&context);
            drop(pause);
        }
        db.close().unwrap_or_else(|error| panic!("{context}: {error}"));
    });
}

#[test]
fn both_engines_list_the_same_column_families() {
    in_laboratory("both engines list the same column families", |laboratory| {
        let shape = Shape::new("", "");
        let context = laboratory.context.clone();
        let place = laboratory.next_place();
        let mut model = shape.model();
        let db = laboratory::open_ours(&shape, &place, &model, CREATE, &context);
        laboratory::ours_does(&db, &mut model, &mut laboratory.rng, 3 * STEPS, &context);
        db.close().unwrap_or_else(|error| panic!("{context}: {error}"));
        let mut script = Script::describe(&place.database(), "", &[]);
        script.line(&[&"list-families"]);
        let theirs = laboratory.rocksdb_does(&script, &context);
        let mut theirs: Vec<&str> = theirs.split(' ').collect();
        let options = shape.open_options(&place, &model, "");
        let mut ours = Db::list_cf(place.database(), &options)
            .unwrap_or_else(|error| panic!("{context}: {error}"));
        theirs.sort_unstable();
        ours.sort_unstable();
        assert_eq!(ours, theirs, "{context}");
        assert_eq!(ours.len(), model.families().len(), "{context}");
    });
}
