//! Reads of several spans together: on real and simulated disks, with rings, threads and neither,
//! with faults, and with too little memory.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, LazyLock};

use fastrand::Rng;
use tailwater_io::in_flight::{ReadsInFlight, Span};
use tailwater_io::posix::PosixStorage;
use tailwater_io::sim::{Fault, FaultPlan, FaultRule, SimStorage};
use tailwater_io::{Create, IoMode, Operation, Purpose, ReadFile, Result, Storage};
use tailwater_testkit::filesystem::say;
use tailwater_testkit::seed;

const READ: Purpose = Purpose::UserRead;
/// Length of each file in bytes, which is not a multiple of any alignment.
const LENGTH: usize = 300_123;

/// The contents of the files.
static CONTENTS: LazyLock<[Vec<u8>; 3]> = LazyLock::new(|| {
    [0, 1, 2].map(|file| (0..LENGTH).map(|index| (index / 251 + index + file) as u8).collect())
});

/// Creates three files, and opens them in an I/O mode.
fn files(storage: &dyn Storage, directory: &Path, mode: IoMode) -> Result<Vec<Arc<dyn ReadFile>>> {
    let file = |number: usize| {
        let path = directory.join(format!("file{number}"));
        let mut file = storage.create(&path, Create::Truncate, IoMode::Buffered, READ)?;
        file.write_all_at(&CONTENTS[number], 0, READ)?;
        storage.open(&path, mode, READ)
    };
    (0..3).map(file).collect()
}

/// Returns random spans: some touch or overlap others, some are empty, some extend past the end of
/// their file.
fn random_spans(files: &[Arc<dyn ReadFile>], rng: &mut Rng) -> Vec<(usize, Span)> {
    let mut spans: Vec<(usize, Span)> = Vec::new();
    for _ in 0..rng.usize(..80) {
        let number = rng.usize(..files.len());
        let offset = match spans.last() {
            Some((_, last)) if rng.bool() => last.offset + last.length as u64,
            _ => rng.u64(..LENGTH as u64 + 5000),
        };
        let length = *rng.choice(&[0, 1, 500, 4096, 10_000, 70_000]).unwrap();
        spans.push((number, Span { file: Arc::clone(&files[number]), offset, length }));
    }
    spans
}

/// Reads the spans together and checks each result. Returns the number of those that failed.
fn check(reads: &ReadsInFlight, spans: &[(usize, Span)]) -> usize {
    let mut received = vec![false; spans.len()];
    let mut failed = 0;
    let only: Vec<_> = spans.iter().map(|(_, span)| span.clone()).collect();
    reads.read_together(&only, READ, |at, bytes| {
        assert!(!std::mem::replace(&mut received[at], true), "span {at} is passed twice");
        let (number, Span { offset, length, .. }) = &spans[at];
        let (all, from) = (&CONTENTS[*number], (*offset as usize).min(LENGTH));
        match bytes {
            Ok(bytes) => assert!(bytes == &all[from..(from + length).min(LENGTH)], "span {at}"),
            Err(error) => {
                assert_eq!(error.operation, Operation::Read);
                failed += 1;
            }
        }
    });
    assert!(received.iter().all(|received| *received), "each span is passed");
    assert_eq!(reads.buffers().in_use(), 0, "no buffer is left behind");
    failed
}

fn reads(storage: &dyn Storage, memory: usize, has_threads: bool) -> ReadsInFlight {
    ReadsInFlight::new(memory, has_threads, storage.statistics().foreground())
}

#[test]
fn spans_are_read_in_every_mode_with_rings_threads_and_neither() {
    let mut rng = seed::rng();
    let context = format!("TAILWATER_SEED={}", rng.value());
    println!("{context}");
    for storage in [PosixStorage::new(), PosixStorage::without_io_uring()] {
        for (mode, has_threads) in IoMode::ALL.iter().flat_map(|it| [(*it, true), (*it, false)]) {
            let directory = tempfile::tempdir().unwrap();
            let files = match files(&storage, directory.path(), mode) {
                Ok(files) => files,
                Err(error) => {
                    say(&format!("LEFT OUT: reads together: {mode:?}: {error}"));
                    continue;
                }
            };
            for memory in [0, 8192, 1 << 20] {
                let reads = reads(&storage, memory, has_threads);
                for _ in 0..10 {
                    let spans = random_spans(&files, &mut rng.rng);
                    if mode == IoMode::Uncached && check_unsupported(&reads, &files) {
                        say(&format!("LEFT OUT: reads together: {mode:?} is not supported"));
                        break;
                    }
                    assert_eq!(check(&reads, &spans), 0, "{mode:?}");
                }
                assert!(reads.buffers().peak() <= memory);
            }
        }
    }
}

/// Whether the system refuses reads in the mode of the files.
fn check_unsupported(reads: &ReadsInFlight, files: &[Arc<dyn ReadFile>]) -> bool {
    let span = Span { file: Arc::clone(&files[0]), offset: 0, length: 1 };
    let mut is_refused = false;
    reads.read_together(&[span], READ, |_, read| {
        is_refused = read.is_err_and(|error| error.is_unsupported());
    });
    is_refused
}

#[test]
fn spans_are_read_from_a_simulated_disk_despite_short_reads_and_errors() {
    let mut rng = seed::rng();
    println!("TAILWATER_SEED={}", rng.value());
    let storage = SimStorage::new(rng.rng.u64(..));
    let (mut failures, mut calls) = (0, 0);
    for mode in [IoMode::Buffered, IoMode::Direct] {
        let files = files(&storage, Path::new("/"), mode).unwrap();
        for has_threads in [false, true] {
            let reads = reads(&storage, 1 << 20, has_threads);
            for _ in 0..20 {
                let spans = random_spans(&files, &mut rng.rng);
                let before = storage.call_count();
                assert_eq!(check(&reads, &spans), 0);
                let count = storage.call_count() - before;
                calls += count;
                let read = |fault| FaultRule::new(fault).operation(Operation::Read);
                storage.set_faults(FaultPlan::none().with(read(Fault::Short).from(0)));
                assert_eq!(check(&reads, &spans), 0, "short reads are completed");
                let at = rng.rng.u64(..count.max(1));
                storage.set_faults(FaultPlan::none().with(read(Fault::InputOutput).at(at)));
                failures += check(&reads, &spans);
                storage.set_faults(FaultPlan::none().with(read(Fault::InputOutput).from(at)));
                failures += check(&reads, &spans);
                storage.set_faults(FaultPlan::none());
            }
        }
    }
    println!("{failures} spans failed, in runs of {calls} calls");
    assert!(failures > 0, "faults strike");
}

/// A span whose request is shared with others, and that fails with the others, is read again alone.
#[test]
fn an_error_of_a_shared_request_does_not_fail_the_other_spans() {
    let storage = SimStorage::new(1);
    let files = files(&storage, Path::new("/"), IoMode::Buffered).unwrap();
    let reads = reads(&storage, 1 << 20, false);
    let span = |offset| (0, Span { file: Arc::clone(&files[0]), offset, length: 1000 });
    let spans: Vec<_> = (0..10).map(|number| span(number * 1000)).collect();
    let before = storage.call_count();
    assert_eq!(check(&reads, &spans), 0);
    assert_eq!(storage.call_count() - before, 1, "spans that touch share a request");
    let fault = FaultRule::new(Fault::InputOutput).operation(Operation::Read);
    storage.set_faults(FaultPlan::none().with(fault.at(0)));
    assert_eq!(check(&reads, &spans), 0);
}

#[test]
fn aligned_spans_that_touch_share_a_direct_request() {
    let storage = SimStorage::new(1);
    let files = files(&storage, Path::new("/"), IoMode::Direct).unwrap();
    let reads = reads(&storage, 1 << 20, false);
    let span = |offset| (0, Span { file: Arc::clone(&files[0]), offset, length: 100 });
    // The first two are in one block, the third is in the next one, the last is far away.
    let spans = [span(4000), span(100), span(8100), span(40_000)];
    let before = storage.call_count();
    assert_eq!(check(&reads, &spans), 0);
    assert_eq!(storage.call_count() - before, 2);
}

#[test]
fn requests_complete_in_any_order() {
    let storage = SimStorage::new(1);
    let files = files(&storage, Path::new("/"), IoMode::Buffered).unwrap();
    let reads = reads(&storage, 1 << 20, false);
    let span = |offset| Span { file: Arc::clone(&files[0]), offset, length: 10 };
    let spans: Vec<_> = (0..20).map(|number| span(number * 1000)).collect();
    let mut orders = std::collections::HashSet::new();
    for _ in 0..10 {
        let mut order = Vec::new();
        reads.read_together(&spans, READ, |at, _| order.push(at));
        orders.insert(order);
    }
    assert!(orders.len() > 5, "{orders:?}");
}

/// A file in memory that counts its reads.
#[derive(Debug, Default)]
struct Counting {
    single: AtomicUsize,
    in_batch: AtomicUsize,
}

impl ReadFile for Counting {
    fn read_at(&self, buffer: &mut [u8], _offset: u64, _purpose: Purpose) -> Result<usize> {
        self.single.fetch_add(1, Relaxed);
        Ok(buffer.len())
    }

    fn read_in_batch_at(&self, buffer: &mut [u8], _: u64, _: Purpose) -> Result<usize> {
        self.in_batch.fetch_add(1, Relaxed);
        Ok(buffer.len())
    }

    fn length(&self) -> Result<u64> {
        Ok(u64::MAX)
    }

    fn path(&self) -> &Path {
        Path::new("/counting")
    }

    fn mode(&self) -> IoMode {
        IoMode::Buffered
    }
}

#[test]
fn single_reads_and_batches_are_told_apart() {
    let file = Arc::new(Counting::default());
    let span = |offset| Span { file: Arc::clone(&file) as Arc<_>, offset, length: 10 };
    // With threads, several requests are in flight. Without them there is only one at a time, as
    // there is for spans that touch.
    for (has_threads, offsets, expected) in [
        (true, [0, 1000, 2000], (0, 3)),
        (false, [0, 1000, 2000], (3, 0)),
        (true, [0, 10, 20], (1, 0)),
    ] {
        let reads = ReadsInFlight::new(1 << 20, has_threads, &Arc::default());
        let spans = offsets.map(span);
        reads.read_together(&spans, READ, |_, bytes| assert_eq!(bytes.unwrap().len(), 10));
        let counts = (file.single.swap(0, Relaxed), file.in_batch.swap(0, Relaxed));
        assert_eq!(counts, expected, "{has_threads}, {offsets:?}");
    }
}
