//! What inspection says about the recovery of a log with random damage, and what opening does.

use fastrand::Rng;
use tailwater::inspect::Verdict;
use tailwater::inspect::wal::LogItem;
use tailwater::{Db, ReadOptions};
use tailwater_format::batch::WriteBatch;
use tailwater_format::record_log::Writer;
use tailwater_testkit::seed;

use crate::database::{Database, first_edit};

const LOG: &str = "000005.log";
const LOG_NUMBER: u64 = 5;
/// The sequence number of a log's first batch.
const FIRST: u64 = 101;
const BLOCK: usize = 32 << 10;
const SECTOR: usize = 512;

const MODES: [&str; 4] = [
    "kTolerateCorruptedTailRecords",
    "kAbsoluteConsistency",
    "kPointInTimeRecovery",
    "kSkipAnyCorruptedRecords",
];

/// Writes batches of one put, whose keys are their sequence numbers. Pads some of them to a block
/// for direct I/O if `pads` is true.
fn write(mut writer: Writer, mut out: Vec<u8>, pads: bool, rng: &mut Rng) -> Vec<u8> {
    for sequence in FIRST..FIRST + rng.u64(1..12) {
        let length = if rng.u8(..8) == 0 { rng.usize(..2 * BLOCK) } else { rng.usize(..3000) };
        let mut batch = WriteBatch::new();
        batch.put_cf(0, key(sequence), vec![rng.u8(..); length]).expect("room");
        batch.set_sequence(sequence);
        writer.add_record(batch.data(), &mut out).expect("compression works");
        if pads && rng.bool() {
            writer.pad(&mut out);
        }
    }
    out
}

fn key(sequence: u64) -> Vec<u8> {
    sequence.to_string().into_bytes()
}

/// Returns an intact log: plain, recycled, compressed or direct.
fn intact(rng: &mut Rng) -> Vec<u8> {
    let is_recycled = rng.bool();
    let mut log = if rng.u8(..4) == 0 {
        let mut out = Vec::new();
        let writer = Writer::new_compressed(LOG_NUMBER, is_recycled, &mut out).expect("zstd");
        write(writer, out, false, rng)
    } else {
        write(Writer::new(LOG_NUMBER, is_recycled), Vec::new(), rng.bool(), rng)
    };
    if is_recycled && rng.bool() {
        let before = if rng.u8(..4) == 0 { 9 } else { 3 };
        let earlier = write(Writer::new(before, true), Vec::new(), false, rng);
        log.extend(earlier.get(log.len()..).unwrap_or_default());
    } else if rng.u8(..3) == 0 {
        log.resize(log.len() + rng.usize(..2 * BLOCK), 0);
    }
    log
}

fn damage(log: &mut Vec<u8>, rng: &mut Rng) {
    if log.is_empty() {
        return;
    }
    let at = rng.usize(..log.len());
    let most = if rng.bool() { 50 } else { BLOCK };
    let end = log.len().min(at + 1 + rng.usize(..most));
    match rng.u8(..8) {
        0 | 1 => log[at] ^= 1 << rng.u8(..8),
        2 => log.truncate(at),
        3 => log[at..end].fill(0),
        4 => {
            let sector = at - at % SECTOR;
            let end = log.len().min(sector + SECTOR * rng.usize(1..4));
            log[sector..end].fill(0);
        }
        5 => drop(log.drain(at..end)),
        6 => {
            let piece = log[at..end].to_vec();
            let to = rng.usize(..=log.len());
            log.splice(to..to, piece);
        }
        _ => log.extend((0..rng.usize(1..40)).map(|_| rng.u8(..))),
    }
}

/// Returns the sequence numbers of the batches that a database shows.
fn shown(db: &Db) -> Vec<u64> {
    let family = db.cf_handle("default").expect("the default column family");
    let has = |sequence: &u64| {
        let read = ReadOptions::default();
        db.get_cf_opt(&family, key(*sequence), &read).expect("it is in memory").is_some()
    };
    (FIRST..FIRST + 12).filter(has).collect()
}

/// Regression test: for some damage, inspection said that a recovery mode accepts a whole log or
/// ends it, although opening in that mode failed or stopped earlier.
#[test]
fn inspection_says_what_recovery_does() {
    let mut seed = seed::rng();
    let (mut refused, mut stopped, mut ended, mut whole) = (0, 0, 0, 0);
    for round in 0..400 * seed::rounds() {
        let mut rng = seed.rng.fork();
        let mut log = intact(&mut rng);
        for _ in 0..rng.usize(..3) {
            damage(&mut log, &mut rng);
        }
        let database = Database::new().with_manifest(&[first_edit()]).with(LOG, &log);
        for mode in MODES {
            let recycled = rng.u8(..2);
            let text = format!("wal_recovery_mode={mode};recycle_log_file_num={recycled}");
            let what = format!("TAILWATER_SEED={} round {round}, {text}", seed.value());
            let options = database.options(&text);
            let mut reader = database.log_reader(LOG);
            let end = reader.recovery_end(options.database()).expect("the disk has no faults");
            let mut batches = Vec::new();
            while let Some(item) = reader.next_item().expect("the disk has no faults") {
                if let LogItem::Batch(batch) = item
                    && batch.problem.is_none()
                    && end.as_ref().is_none_or(|end| batch.placement.offset < end.offset)
                {
                    batches.push(batch.sequence);
                }
            }
            let opened = database.open_with(&text);
            match (&end, opened) {
                (Some(end), Err(error)) if end.verdict == Verdict::Fail => {
                    refused += 1;
                    assert_eq!(error.offset(), Some(end.offset), "{what}: {error}");
                }
                (Some(end), Ok(_)) if end.verdict == Verdict::Fail => {
                    panic!("{what}: the database opens in spite of {end:?}")
                }
                (_, Err(error)) => panic!("{what}: {error}, in spite of {end:?}"),
                (_, Ok(db)) => {
                    let verdict = end.as_ref().map(|end| end.verdict);
                    match verdict {
                        Some(Verdict::StopReplay) => stopped += 1,
                        Some(_) => ended += 1,
                        None => whole += 1,
                    }
                    batches.sort_unstable();
                    batches.dedup();
                    assert_eq!(shown(&db), batches, "{what}: {end:?}, {:?}", db.left_out());
                }
            }
        }
    }
    let counts = [refused, stopped, ended, whole];
    assert!(counts.iter().all(|&count| count > 0), "{counts:?}");
}
