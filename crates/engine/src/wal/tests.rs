//! Tests that follow a log whose file holds more than the log: padding between records and, after
//! the log's known end, zeros, later records, or remains of an older log.

use std::path::Path;

use tailwater_format::batch::WriteBatch;
use tailwater_format::record_log::Writer;
use tailwater_io::sim::SimStorage;
use tailwater_io::{Create, IoMode, Purpose, Storage, WriteFile};

use super::tail::LogTail;

/// Number of batches in a log.
const BATCHES: u64 = 300;
/// Initial length of the file, in bytes.
const LENGTH: usize = 3 << 20;

fn batch(sequence: u64, length: usize) -> WriteBatch {
    let mut batch = WriteBatch::new();
    batch.put_cf(0, sequence.to_be_bytes(), vec![sequence as u8; length]).expect("a put");
    batch.set_sequence(sequence);
    batch
}

/// Reads the batches up to the known end of the log that was last passed to `tail`. Returns the
/// sequence numbers of these batches.
fn sequences(tail: &mut LogTail) -> Vec<u64> {
    let next = || tail.next_batch().expect("a batch").map(|found| found.batch.sequence());
    std::iter::from_fn(next).collect()
}

/// Writes a log over the file's content in padded groups, so that the log's length is a multiple of
/// 4096 bytes after each group. Between the groups, reads the log with a `LogTail`, up to the known
/// end that was last passed to the `LogTail`.
fn follow(mut file: Box<dyn WriteFile>, disk: &SimStorage, writer: &mut Writer, out: Vec<u8>) {
    let mut rng = fastrand::Rng::with_seed(7);
    let mut tail = LogTail::open(disk, Path::new("/"), 9).expect("a log");
    let (mut written, mut out) = (0, out);
    let mut group = Vec::new();
    for sequence in 1..=BATCHES {
        let length = if rng.u8(..30) == 0 { rng.usize(..50_000) } else { rng.usize(..500) };
        writer.add_record(batch(sequence, length).data(), &mut out).expect("a record");
        group.push(sequence);
        if rng.bool() {
            writer.pad(&mut out);
            file.write_all_at(&out, written, Purpose::Wal).expect("a write");
            written += out.len() as u64;
            out.clear();
            assert_eq!(sequences(&mut tail), [], "after the known end");
            if rng.bool() {
                assert!(tail.read_up_to(written));
                assert_eq!(sequences(&mut tail), group);
                group.clear();
            }
        }
    }
    tail.read_up_to(written);
    let seen = sequences(&mut tail);
    assert!(group.starts_with(&seen) && !tail.read_up_to(written));
    assert!(written > 300_000 && written < LENGTH as u64, "{written}");
}

/// Creates the file of a log, with `bytes` as its content.
fn log_over(bytes: &[u8]) -> (Box<dyn WriteFile>, SimStorage) {
    let disk = SimStorage::new(1);
    let path = Path::new("/000009.log");
    let file = disk.create(path, Create::New, IoMode::Buffered, Purpose::Wal);
    let mut file = file.expect("a file");
    file.write_all_at(bytes, 0, Purpose::Wal).expect("a write");
    (file, disk)
}

#[test]
fn zeros_after_the_end_and_padding_are_ignored() {
    for recyclable in [false, true] {
        let (file, disk) = log_over(&vec![0; LENGTH]);
        follow(file, &disk, &mut Writer::new(9, recyclable), Vec::new());
        let (file, disk) = log_over(&vec![0; LENGTH]);
        let mut out = Vec::new();
        let mut writer = Writer::new_compressed(9, recyclable, &mut out).expect("a log");
        follow(file, &disk, &mut writer, out);
    }
}

#[test]
fn remains_of_an_older_log_are_ignored() {
    let (mut older, mut before) = (Writer::new(5, true), Vec::new());
    while before.len() < LENGTH {
        older.add_record(batch(1, 333).data(), &mut before).expect("a record");
    }
    let (file, disk) = log_over(&before);
    follow(file, &disk, &mut Writer::new(9, true), Vec::new());
}
