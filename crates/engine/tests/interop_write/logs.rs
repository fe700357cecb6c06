//! Logs in states that random writes rarely produce.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::check;
use crate::laboratory::{self, CREATE, Laboratory, in_laboratory};
use crate::model::Model;
use crate::place::Place;
use crate::shape::{Shape, join};
use crate::shapes::RECOVERY_MODES;
use crate::step::{Durability, Record, Step, Write};
use tailwater::inspect::wal::{LogItem, LogReader};
use tailwater::{Db, ErrorKind};
use tailwater_format::record_log::{BLOCK_LENGTH, HEADER_LENGTH, RECYCLABLE_HEADER_LENGTH};
use tailwater_io::Storage;
use tailwater_io::posix::PosixStorage;
use tailwater_testkit::dump::Entry;

/// Number of random steps between two checks. One test draws a random number below this one
/// instead.
const STEPS: usize = 120;
/// Number of times that a test compares the contents of the database with the expected contents.
const LOOKS: usize = 10;

/// The recovery modes that accept a recycled log. The file of such a log may still have records of
/// an older log behind the end of the log.
pub(crate) const MODES_OF_RECYCLED: [&str; 2] = [RECOVERY_MODES[2], RECOVERY_MODES[3]];

/// Returns the paths of the logs in a database's home, oldest first.
pub(crate) fn logs(place: &Place) -> Vec<PathBuf> {
    let directory = place.database();
    let names = PosixStorage::new().list(&directory).expect("a directory that can be listed");
    let mut logs: Vec<PathBuf> = names
        .into_iter()
        .map(|entry| directory.join(entry.name))
        .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
        .collect();
    logs.sort();
    logs
}

/// Copies the current files for each engine, and lets the engine open its copy in recovery mode
/// `mode`. Asserts that both find the contents that the model expects. Returns the copy that
/// Tailwater read.
pub(crate) fn look(
    laboratory: &mut Laboratory,
    shape: &Shape,
    place: &Place,
    model: &Model,
    mode: &str,
    context: &str,
) -> Place {
    let context = format!("{context}, {mode}");
    let more = format!("wal_recovery_mode={mode}");
    let copy = laboratory.copy(place);
    let mut script = shape.describe(&copy, model, &more);
    script.line(&[&"open-existing"]);
    laboratory.rocksdb_finds(script, model, &context);
    laboratory.rocksdb_closes(&context);
    let copy = laboratory.copy(place);
    laboratory::ours_finds(&shape.open_options(&copy, model, &more), &copy, model, &context);
    copy
}

/// Returns the offset in a log at which the last record ends.
fn end_of(log: &Path) -> usize {
    let mut reader = LogReader::open(&PosixStorage::new(), log).expect("a log");
    let mut end = 0;
    while let Some(item) = reader.next_item().expect("a log that can be read") {
        if let LogItem::Batch(batch) = item {
            end = (batch.placement.offset + batch.placement.length) as usize;
        }
    }
    end
}

/// Returns the offset in the newest log at which the last record ends.
fn end(place: &Place) -> usize {
    end_of(logs(place).last().expect("a log"))
}

/// Whether a log has records and is in a recycled file that still has remains of an older log after
/// these records.
#[expect(clippy::disallowed_methods, reason = "looks at a database from outside")]
fn is_over_another(log: &Path) -> bool {
    let bytes = std::fs::read(log).expect("a log");
    let end = end_of(log);
    end > 0 && bytes[end..].iter().any(|&byte| byte != 0)
}

#[test]
fn recycled_logs_with_older_records_after_their_end() {
    in_laboratory("recycled logs", |laboratory| {
        for compression in ["", "wal_compression=kZSTD"] {
            let shape = Shape::new(&join(&["recycle_log_file_num=2", compression]), "");
            let context = format!("{}, {compression}", laboratory.context);
            let place = laboratory.next_place();
            let mut model = shape.model();
            let db = laboratory::open_ours(&shape, &place, &model, CREATE, &context);
            let mut over_others = 0;
            for number in 0..LOOKS {
                let context = format!("{context}, look {number}");
                // Writes a long log. After the flush no column family needs it, so its file is
                // recycled, and the next log overwrites only the beginning of the file.
                let long: Vec<u8> = (0..20_000).map(|_| laboratory.rng.u8(..)).collect();
                let long = put_value(b"long", long);
                long.perform(&db).unwrap_or_else(|error| panic!("{context}: {error}"));
                model.apply(&long);
                db.flush_all().unwrap_or_else(|error| panic!("{context}: {error}"));
                let count = laboratory.rng.usize(10..STEPS);
                laboratory::ours_does(&db, &mut model, &mut laboratory.rng, count, &context);
                for mode in MODES_OF_RECYCLED {
                    let copy = look(laboratory, &shape, &place, &model, mode, &context);
                    over_others += logs(&copy).iter().filter(|log| is_over_another(log)).count();
                }
            }
            assert!(over_others > 0, "{context}: no log was written over another");
            db.close().unwrap_or_else(|error| panic!("{context}: {error}"));
        }
    });
}

#[test]
fn logs_that_are_switched_many_times() {
    in_laboratory("logs that are switched many times", |laboratory| {
        let family = "write_buffer_size=1000000";
        let shape = Shape::new("max_total_wal_size=20000;track_and_verify_wals=true", family);
        let context = laboratory.context.clone();
        let place = laboratory.next_place();
        let mut model = shape.model();
        let db = laboratory::open_ours(&shape, &place, &model, CREATE, &context);
        let mut seen = BTreeSet::new();
        for number in 0..LOOKS {
            let context = format!("{context}, look {number}");
            laboratory::ours_does(&db, &mut model, &mut laboratory.rng, STEPS, &context);
            let mode = RECOVERY_MODES[number % RECOVERY_MODES.len()];
            let copy = look(laboratory, &shape, &place, &model, mode, &context);
            seen.extend(logs(&copy).iter().map(|log| log.file_name().map(ToOwned::to_owned)));
        }
        assert!(seen.len() > LOOKS / 2, "{context}: only logs {seen:?}");
        db.close().unwrap_or_else(|error| panic!("{context}: {error}"));
    });
}

fn put(key: &[u8], length: usize) -> Step {
    put_value(key, vec![b'v'; length])
}

fn put_value(key: &[u8], value: Vec<u8>) -> Step {
    let record = Record::Put(key.to_vec(), value);
    Step::Write(vec![Write { family: "default".to_owned(), record }], Durability::Logged)
}

/// Returns the length of a value for which the put of `key` takes `bytes` bytes of the log, not
/// counting the header of the log record.
fn value_length(key: &[u8], bytes: usize) -> usize {
    // The subtracted bytes are the header of the batch, the type of the record, the length of the
    // key, and the key.
    let rest = bytes - 12 - 1 - 1 - key.len();
    let with_length = |length: usize| length + 1 + length.checked_ilog(128).unwrap_or(0) as usize;
    (rest - 4..rest).find(|&length| with_length(length) == rest).expect("such a length")
}

#[test]
fn logs_that_end_at_the_end_of_a_block() {
    in_laboratory("logs that end at the end of a block", |laboratory| {
        for (recycle, header) in
            [("", HEADER_LENGTH), ("recycle_log_file_num=1", RECYCLABLE_HEADER_LENGTH)]
        {
            let shape = Shape::new(recycle, "write_buffer_size=100000000");
            let context = format!("{}, '{recycle}'", laboratory.context);
            let place = laboratory.next_place();
            let mut model = shape.model();
            let db = laboratory::open_ours(&shape, &place, &model, CREATE, &context);
            let perform = |model: &mut Model, step: Step| {
                step.perform(&db).unwrap_or_else(|error| panic!("{context}: {error}"));
                model.apply(&step);
            };
            for left in 0..RECYCLABLE_HEADER_LENGTH + 3 {
                let context = format!("{context}, {left} bytes before the end of a block");
                let mode = match recycle {
                    "" => RECOVERY_MODES[left % RECOVERY_MODES.len()],
                    _ => MODES_OF_RECYCLED[left % MODES_OF_RECYCLED.len()],
                };
                let key = format!("key{left:02}").into_bytes();
                // The filler is as long as a block, so it ends in another block than it begins in.
                // The value of the next put has the length with which the put ends `left` bytes
                // before the end of that block.
                perform(&mut model, put(b"filler", BLOCK_LENGTH));
                let room = BLOCK_LENGTH - end(&place) % BLOCK_LENGTH;
                perform(&mut model, put(&key, value_length(&key, room - left - header)));
                assert_eq!(end(&place) % BLOCK_LENGTH, (BLOCK_LENGTH - left) % BLOCK_LENGTH);
                look(laboratory, &shape, &place, &model, mode, &context);
                perform(&mut model, put(b"behind", left));
                look(laboratory, &shape, &place, &model, mode, &context);
            }
            db.close().unwrap_or_else(|error| panic!("{context}: {error}"));
        }
    });
}

#[test]
fn unlogged_writes_leave_a_sequence_gap() {
    in_laboratory("unlogged writes leave a sequence gap", |laboratory| {
        let shape = Shape::new("", "");
        let context = laboratory.context.clone();
        let place = laboratory.next_place();
        let mut model = shape.model();
        let db = laboratory::open_ours(&shape, &place, &model, CREATE, &context);
        for (key, durability) in [
            (b"logged", Durability::Logged),
            (b"lost 1", Durability::Unlogged),
            (b"behind", Durability::Synced),
            (b"lost 2", Durability::Unlogged),
        ] {
            let record = Record::Put(key.to_vec(), b"value".to_vec());
            let step =
                Step::Write(vec![Write { family: "default".to_owned(), record }], durability);
            step.perform(&db).unwrap_or_else(|error| panic!("{context}: {error}"));
            if durability != Durability::Unlogged {
                model.apply(&step);
            }
        }
        for mode in RECOVERY_MODES {
            look(laboratory, &shape, &place, &model, mode, &context);
        }
        db.close().unwrap_or_else(|error| panic!("{context}: {error}"));
    });
}

#[test]
fn recycled_logs_refuse_unlogged_writes() {
    in_laboratory("recycled logs refuse unlogged writes", |laboratory| {
        let shape = Shape::new("recycle_log_file_num=1", "");
        let context = laboratory.context.clone();
        let place = laboratory.next_place();
        let model = shape.model();
        let db = laboratory::open_ours(&shape, &place, &model, CREATE, &context);
        let record = Record::Put(b"key".to_vec(), b"value".to_vec());
        let writes = vec![Write { family: "default".to_owned(), record }];
        let step = Step::Write(writes, Durability::Unlogged);
        let refusal = step.perform(&db).expect_err("the write is not refused");
        assert_eq!(refusal.kind(), ErrorKind::InvalidArgument, "{context}: {refusal}");
        db.close().unwrap_or_else(|error| panic!("{context}: {error}"));
        let mut script = shape.describe(&place, &model, "");
        script.line(&[&"open-existing"]);
        step.tell(&mut script);
        let refusal = laboratory.oracle.run(&script).expect_err("RocksDB takes the write");
        assert!(refusal.contains("recycle_log_file_num"), "{context}: {refusal}");
    });
}

/// Returns how many of the batches of [`numbered`] are in a dump. Checks that each of these batches
/// is complete, and that no batch before the last of them is missing.
fn whole_batches(dump: &[Entry], families: &[(&str, &str)], context: &str) -> usize {
    let count = dump.len() / families.len();
    for (family, _) in families {
        let keys = dump.iter().filter(|entry| entry.family == *family).map(|entry| &entry.key);
        let expected: Vec<_> = (0..count).map(key).collect();
        assert!(keys.eq(expected.iter()), "{context}: batches are there in part, in '{family}'");
    }
    count
}

fn key(number: usize) -> Vec<u8> {
    format!("key{number:06}").into_bytes()
}

/// Returns batch number `number`, which puts one key in every column family.
fn numbered(number: usize, families: &[(&str, &str)]) -> Step {
    let write = |(family, _): &(&str, &str)| Write {
        family: (*family).to_owned(),
        record: Record::Put(key(number), vec![b'v'; number % 700]),
    };
    Step::Write(families.iter().map(write).collect(), Durability::Logged)
}

#[test]
fn buffered_writes_are_lost_only_from_the_end() {
    in_laboratory("buffered writes are lost only from the end", |laboratory| {
        for compression in ["", "wal_compression=kZSTD"] {
            let shape = Shape::new(&join(&["manual_wal_flush=true", compression]), "");
            let context = format!("{}, '{compression}'", laboratory.context);
            let place = laboratory.next_place();
            let model = shape.model();
            let families = model.families();
            let db = laboratory::open_ours(&shape, &place, &model, CREATE, &context);
            let (mut flushed, mut lost) = (0, 0);
            for number in 0..LOOKS * STEPS {
                let step = numbered(number, &families);
                step.perform(&db).unwrap_or_else(|error| panic!("{context}: {error}"));
                if number % 97 == 96 {
                    // Flushes only one column family. What the batches so far changed in the other
                    // column families must not be lost either.
                    let (family, _) = families[laboratory.rng.usize(..families.len())];
                    let flush = Step::Flush(family.to_owned());
                    flush.perform(&db).unwrap_or_else(|error| panic!("{context}: {error}"));
                    flushed = number + 1;
                }
                if number % STEPS != STEPS - 1 {
                    continue;
                }
                let copy = laboratory.copy(&place);
                let mut script = shape.describe(&copy, &model, "");
                script.line(&[&"open-existing"]);
                let found = laboratory.oracle.dump(script);
                let found = found.unwrap_or_else(|error| panic!("{context}: {error}"));
                let count = whole_batches(&found, &families, &context);
                assert!((flushed..=number + 1).contains(&count), "{context}: {count} batches");
                lost += number + 1 - count;
                let copy = laboratory.copy(&place);
                let options = shape.open_options(&copy, &model, "");
                let ours = Db::open(copy.database(), &options);
                let ours = ours.unwrap_or_else(|error| panic!("{context}: {error}"));
                check::holds(&ours, &found, &context);
            }
            assert!(lost > 0, "{context}: nothing was held back");
            db.close().unwrap_or_else(|error| panic!("{context}: {error}"));
        }
    });
}
