//! Tests the reading of updates, that is, of the batches in the logs from a sequence number on.
//! Both engines must return the same batches from the same logs.

use crate::laboratory::{self, CREATE, Laboratory, in_laboratory};
use crate::model::Model;
use crate::place::Place;
use crate::shape::Shape;
use crate::step::{Durability, Record, Step, Write};
use tailwater::{Db, Error, ErrorKind};
use tailwater_testkit::oracle::Script;

/// Number of random steps between two checks.
const STEPS: usize = 100;
/// Number of times that the test compares the updates that Tailwater reads with those that RocksDB
/// reads.
const LOOKS: usize = 4;
/// Number of random sequence numbers from which updates are read in each comparison.
const PLACES: usize = 6;

/// The updates that an engine returns from a sequence number on: the batches, and how the reading
/// ended.
struct Followed<E> {
    batches: Vec<Vec<u8>>,
    end: E,
}

/// Returns the updates from `sequence` on, as read by Tailwater.
fn ours(db: &Db, sequence: u64) -> Followed<Result<(), Error>> {
    let mut batches = Vec::new();
    let end = db.updates_since(sequence).and_then(|updates| {
        for batch in updates {
            batches.push(batch?.data().to_vec());
        }
        Ok(())
    });
    Followed { batches, end }
}

/// Returns the updates from `sequence` on, as read by RocksDB, which has the database open.
fn theirs(
    laboratory: &mut Laboratory,
    place: &Place,
    sequence: u64,
    context: &str,
) -> Followed<String> {
    let file = place.database().join("updates");
    let mut script = Script::default();
    script.line(&[&"updates", &sequence, &file.display()]);
    let end = laboratory.rocksdb_does(&script, context);
    Followed { batches: read(&file), end }
}

/// Returns the batches in a file that the oracle (the real RocksDB) wrote. Each is preceded by its
/// length.
#[expect(clippy::disallowed_methods, reason = "what the oracle wrote")]
fn read(file: &std::path::Path) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(file).expect("what the oracle wrote");
    let (mut batches, mut rest) = (Vec::new(), &bytes[..]);
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let (batch, after) = after.split_at(u32::from_le_bytes(*length) as usize);
        batches.push(batch.to_vec());
        rest = after;
    }
    batches
}

/// Returns the sequence number of a batch, which is in its first 8 bytes.
fn sequence_of(batch: &[u8]) -> u64 {
    u64::from_le_bytes(*batch.first_chunk().expect("a batch"))
}

/// Asserts that the updates of both engines agree, except for the differences named below. Returns
/// whether there were any batches.
fn agree(
    ours: &Followed<Result<(), Error>>,
    theirs: &Followed<String>,
    sequence: u64,
    context: &str,
) -> bool {
    let context = format!("{context}, since {sequence}: RocksDB ends with '{}'", theirs.end);
    if ours.batches.is_empty()
        && let Err(error) = &ours.end
    {
        // The batch with the requested sequence number is in no log. Tailwater reports that.
        // RocksDB returns the batches of the oldest remaining log instead.
        assert_eq!(error.kind(), ErrorKind::NotFound, "{context}: {error}");
        assert!(error.message().contains("is in no log"), "{context}: {error}");
        let first = theirs.batches.first().map(|batch| sequence_of(batch));
        assert!(first.is_none_or(|first| first > sequence), "{context}, {first:?}: {error}");
        return false;
    }
    let begins = |batches: &[Vec<u8>]| batches.iter().map(|it| sequence_of(it)).collect::<Vec<_>>();
    assert!(
        ours.batches == theirs.batches,
        "{context}: ours {:?}, theirs {:?}, {:?}",
        begins(&ours.batches),
        begins(&theirs.batches),
        ours.end
    );
    match &ours.end {
        // The sequence numbers after the last batch may have been used by writes that are in no
        // log. RocksDB then ends with an error, while Tailwater waits for the next batch.
        Ok(()) => assert!(theirs.end == "end" || theirs.end.contains("new iterator"), "{context}"),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::NotFound, "{context}: {error}");
            assert!(error.message().contains("gap in sequence numbers"), "{context}: {error}");
            assert!(theirs.end.contains("Gap in sequence numbers"), "{context}: {error}");
        }
    }
    !ours.batches.is_empty()
}

/// Returns a put to be written last, so that the newest log is not empty. RocksDB assumes that an
/// empty compressed log begins with sequence number 1, and would therefore ignore the logs before
/// it.
fn last_put(model: &mut Model) -> Step {
    let record = Record::Put(b"last".to_vec(), b"put".to_vec());
    let write = Write { family: "default".to_owned(), record };
    let step = Step::Write(vec![write], Durability::Logged);
    model.apply(&step);
    step
}

/// Returns the sequence numbers from which updates are read: the first one, the latest one and
/// random ones.
fn places(laboratory: &mut Laboratory, latest: u64) -> Vec<u64> {
    let chosen = (0..PLACES).map(|_| laboratory.rng.u64(1..=latest));
    [1, latest].into_iter().chain(chosen).collect()
}

/// Options that affect the write-ahead logs. Each test tries every string.
const LOGS: [&str; 4] = [
    "",
    "wal_compression=kZSTD",
    "recycle_log_file_num=2",
    "manual_wal_flush=true;wal_dir=$ROOT/wal",
];

#[test]
fn rocksdb_returns_the_same_updates_from_logs_of_tailwater() {
    in_laboratory("updates of ours", |laboratory| {
        for text in LOGS {
            let shape = Shape::new(text, "");
            let context = format!("{}, {text}", laboratory.context);
            let place = laboratory.next_place();
            let mut model = shape.model();
            let db = laboratory::open_ours(&shape, &place, &model, CREATE, &context);
            // While this iterator over updates exists, the database keeps all logs.
            let _all = db.updates_since(0).unwrap_or_else(|error| panic!("{context}: {error}"));
            let mut compared = 0;
            for look in 0..LOOKS {
                let context = format!("{context}, look {look}");
                laboratory::ours_does(&db, &mut model, &mut laboratory.rng, STEPS, &context);
                let last = last_put(&mut model);
                last.perform(&db).unwrap_or_else(|error| panic!("{context}: {error}"));
                db.flush_wal(false).unwrap_or_else(|error| panic!("{context}: {error}"));
                let copy = laboratory.copy(&place);
                let mut script = shape.describe(&copy, &model, "");
                script.line(&[&"open-read-only"]);
                laboratory.rocksdb_does(&script, &context);
                for sequence in places(laboratory, db.latest_sequence_number()) {
                    let theirs = theirs(laboratory, &copy, sequence, &context);
                    let ours = ours(&db, sequence);
                    compared += usize::from(agree(&ours, &theirs, sequence, &context));
                }
                laboratory.rocksdb_closes(&context);
            }
            assert!(compared > LOOKS, "{context}: nearly nothing was compared");
        }
    });
}

#[test]
fn tailwater_returns_the_same_updates_from_logs_of_rocksdb() {
    in_laboratory("updates of RocksDB", |laboratory| {
        // Recycled logs are not compared. The file of such a log may have old records behind the
        // end of the log. If it does, Tailwater flushes everything and removes the logs when it
        // opens the database.
        for text in LOGS.into_iter().filter(|text| !text.contains("recycle")) {
            let shape = Shape::new(text, "");
            let mut compared = 0;
            for look in 0..LOOKS {
                let context = format!("{}, {text}, look {look}", laboratory.context);
                let place = laboratory.next_place();
                let mut model = shape.model();
                let mut script = shape.describe(&place, &model, "");
                script.line(&[&"open"]);
                laboratory.rocksdb_does(&script, &context);
                compared += compare(laboratory, &shape, &place, &mut model, &context);
                laboratory.rocksdb_closes(&context);
            }
            assert!(compared > 0, "{text}: nothing was compared");
        }
    });
}

/// Writes with RocksDB. Then requests from both engines the updates since each of several sequence
/// numbers, and compares them. Returns for how many of these sequence numbers there were any
/// updates.
fn compare(
    laboratory: &mut Laboratory,
    shape: &Shape,
    place: &Place,
    model: &mut Model,
    context: &str,
) -> usize {
    let mut script = laboratory::rocksdb_steps(model, &mut laboratory.rng, STEPS / 2);
    last_put(model).tell(&mut script);
    script.line(&[&"flush-wal"]);
    laboratory.rocksdb_does(&script, context);
    let copy = laboratory.copy(place);
    let more = "avoid_flush_during_recovery=true";
    let db = laboratory::open_ours(shape, &copy, model, more, context);
    let mut compared = 0;
    for sequence in places(laboratory, db.latest_sequence_number()) {
        let ours = ours(&db, sequence);
        if ours.end.is_ok() || !ours.batches.is_empty() {
            let theirs = theirs(laboratory, place, sequence, context);
            compared += usize::from(agree(&ours, &theirs, sequence, context));
        }
    }
    compared
}
