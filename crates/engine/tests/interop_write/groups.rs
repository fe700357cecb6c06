//! Concurrent writers, whose batches Tailwater combines into write groups. RocksDB must read the
//! result.

use std::thread;

use fastrand::Rng;
use tailwater_testkit::oracle::Script;

use crate::check;
use crate::laboratory::{self, CREATE, in_laboratory};
use crate::shape::Shape;
use crate::step::{Durability, Record, Step, Write};

/// Number of threads that write concurrently.
const WRITERS: u32 = 4;
/// Number of batches that each thread writes.
const BATCHES: u32 = 150;

/// Returns the batches of one writer. Each batch has writes to random column families. The writer
/// uses many of its keys more than once, but no key of another writer.
fn batches(writer: u32, rng: &mut Rng) -> Vec<Step> {
    let write = |rng: &mut Rng| {
        let family = ["default", "numbers", "joined"][rng.usize(..3)].to_owned();
        let key = format!("writer{writer} key{}", rng.u8(..90)).into_bytes();
        let record = match rng.u8(..6) {
            0 => Record::Delete(key),
            1 if family != "default" => Record::Merge(key, rng.u64(..).to_le_bytes().to_vec()),
            _ => Record::Put(key, rng.u64(..).to_le_bytes().repeat(rng.usize(1..40))),
        };
        Write { family, record }
    };
    let batch = |_| {
        // Some batches are large. Their own writer, not the leader of the write group, inserts a
        // large batch into the memtable.
        let count = if rng.u8(..8) == 0 { rng.usize(50..200) } else { rng.usize(1..5) };
        let durability = if rng.u8(..20) == 0 { Durability::Synced } else { Durability::Logged };
        Step::Write((0..count).map(|_| write(rng)).collect(), durability)
    };
    (0..BATCHES).map(batch).collect()
}

#[test]
fn concurrent_writers() {
    in_laboratory("concurrent writers", |laboratory| {
        for database in ["", "wal_compression=kZSTD;recycle_log_file_num=2", "atomic_flush=true"] {
            let shape = Shape::new(database, "");
            let context = format!("{}, '{database}'", laboratory.context);
            let place = laboratory.next_place();
            let mut model = shape.model();
            let db = laboratory::open_ours(&shape, &place, &model, CREATE, &context);
            let work: Vec<Vec<Step>> =
                (0..WRITERS).map(|writer| batches(writer, &mut laboratory.rng)).collect();
            thread::scope(|scope| {
                for steps in &work {
                    let (db, context) = (&db, &context);
                    scope.spawn(move || {
                        for step in steps {
                            step.perform(db).unwrap_or_else(|error| panic!("{context}: {error}"));
                        }
                    });
                }
            });
            // Two writers never write the same key, so the model does not depend on the order of
            // their batches.
            work.iter().flatten().for_each(|step| model.apply(step));
            check::holds(&db, &model.dump(), &context);
            let sequence = db.latest_sequence_number();
            let killed = laboratory.copy(&place);
            db.close().unwrap_or_else(|error| panic!("{context}: {error}"));
            for place in [killed, place] {
                let mut script = shape.describe(&place, &model, "");
                script.line(&[&"open-existing"]);
                laboratory.rocksdb_finds(script, &model, &context);
                let mut script = Script::default();
                script.line(&[&"sequence"]);
                let theirs = laboratory.rocksdb_does(&script, &context);
                assert_eq!(theirs, sequence.to_string(), "{context}");
                laboratory.rocksdb_closes(&context);
            }
        }
    });
}
