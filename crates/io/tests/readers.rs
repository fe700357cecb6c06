//! Tests of streams that read: they are restarted on other files, change their depth, and drop
//! pages.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_io::buffer::BufferPool;
use tailwater_io::posix::PosixStorage;
use tailwater_io::sim::{Fault, FaultPlan, FaultRule, SimStorage};
use tailwater_io::stream::{ReaderOptions, SequentialReader, Workers};
use tailwater_io::{Create, IoMode, Operation, Purpose, Storage};
use tailwater_testkit::filesystem::{say, writes_directly};

const READ: Purpose = Purpose::CompactionRead;

/// Returns the content of test file `number`, which differs from that of every other number.
fn pattern(number: usize, length: usize) -> Vec<u8> {
    (0..length).map(|index| (index / 251 + index * (2 * number + 1)) as u8).collect()
}

fn put(storage: &dyn Storage, path: &Path, bytes: &[u8]) {
    let mut file = storage.create(path, Create::Truncate, IoMode::Buffered, READ).unwrap();
    file.write_all_at(bytes, 0, READ).unwrap();
}

fn options(request_bytes: usize, depth: usize) -> ReaderOptions {
    ReaderOptions { request_bytes, depth, first: depth, purpose: READ }
}

/// Reads random spans of several files with one stream, and stops in some spans before their end.
fn go_through_files(storage: &dyn Storage, directory: &Path, random: &mut fastrand::Rng) {
    let files: Vec<(PathBuf, Vec<u8>)> = (0..4)
        .map(|number| {
            let (path, length) = (directory.join(format!("{number}")), random.usize(1..80_000));
            let bytes = pattern(number, length);
            put(storage, &path, &bytes);
            (path, bytes)
        })
        .collect();
    let workers = Arc::new(Workers::new("reader", 3).unwrap());
    let pool = BufferPool::new(1 << 20);
    let depth = random.usize(1..6);
    let path = &files[0].0;
    let file = storage.open(path, IoMode::Direct, READ).unwrap();
    let opts = options(random.usize(1..16_384), depth);
    let mut reader = SequentialReader::new(file, 0..0, opts, &pool, Some(&workers)).unwrap();
    for _ in 0..12 {
        let (path, bytes) = random.choice(&files).unwrap();
        let mode = *random.choice(&[IoMode::Direct, IoMode::Buffered]).unwrap();
        let begin = random.usize(..=bytes.len());
        let end = random.usize(begin..=bytes.len() + 10);
        let file = storage.open(path, mode, READ).unwrap();
        reader.restart(file, begin as u64..end as u64).unwrap();
        assert_eq!(reader.position(), begin as u64);
        let end = end.min(bytes.len());
        let mut offset = begin;
        while offset < end && random.u8(..20) > 0 {
            let length = random.usize(1..9000);
            let found = reader.read(offset as u64, length).unwrap();
            let expected = &bytes[offset..(offset + length).min(end)];
            assert!(found == expected, "{mode:?} depth {depth} at {offset}");
            offset += expected.len();
        }
    }
    drop(reader);
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn from_file_to_file_on_the_real_disk() {
    let directory = tempfile::tempdir().unwrap();
    let storage = PosixStorage::new();
    let path = directory.path().join("0");
    if let Err(error) = storage.create(&path, Create::New, IoMode::Direct, READ) {
        return say(&format!("LEFT OUT: streams from file to file: {error}"));
    }
    // Where direct I/O is ignored, the bytes are compared all the same.
    writes_directly(directory.path(), "direct streams from file to file");
    let first = fastrand::u64(..1 << 40);
    for seed in first..first + 15 {
        println!("seed {seed}");
        for storage in [PosixStorage::new(), PosixStorage::without_io_uring()] {
            go_through_files(&storage, directory.path(), &mut fastrand::Rng::with_seed(seed));
        }
    }
}

#[test]
fn from_file_to_file_with_short_transfers() {
    let first = fastrand::u64(..1 << 40);
    for seed in first..first + 60 {
        println!("seed {seed}");
        let storage = SimStorage::new(seed);
        storage.set_alignment(4096 << (seed % 3));
        if seed % 2 == 0 {
            let short = FaultRule::new(Fault::Short).operation(Operation::Read).from(0);
            storage.set_faults(FaultPlan::none().with(short));
        }
        go_through_files(&storage, Path::new("/"), &mut fastrand::Rng::with_seed(seed));
    }
}

#[test]
fn a_file_with_a_larger_alignment_gets_new_buffers() {
    let (small, large) = (SimStorage::new(1), SimStorage::new(2));
    large.set_alignment(16_384);
    let (path, bytes) = (Path::new("/file"), pattern(1, 70_000));
    put(&small, path, &bytes);
    put(&large, path, &bytes);
    let workers = Arc::new(Workers::new("reader", 2).unwrap());
    let pool = BufferPool::new(1 << 20);
    let open = |storage: &SimStorage| storage.open(path, IoMode::Direct, READ).unwrap();
    let opts = options(4096, 2);
    let mut reader =
        SequentialReader::new(open(&small), 5000..60_000, opts, &pool, Some(&workers)).unwrap();
    assert!(reader.read(5000, 10_000).unwrap() == &bytes[5000..15_000]);
    assert_eq!(pool.in_use(), 3 * 4096);
    reader.restart(open(&large), 5000..60_000).unwrap();
    assert!(reader.read(5000, 50_000).unwrap() == &bytes[5000..55_000]);
    assert_eq!(pool.in_use(), 3 * 16_384);
}

#[test]
fn nothing_beyond_the_span_is_read() {
    let path = Path::new("/file");
    let storage = SimStorage::new(1);
    put(&storage, path, &pattern(1, 200_000));
    let workers = Arc::new(Workers::new("reader", 2).unwrap());
    let pool = BufferPool::new(1 << 20);
    for depth in [1, 4] {
        let before = storage.statistics().snapshot(READ).read_bytes;
        let file = storage.open(path, IoMode::Direct, READ).unwrap();
        let span = 10_000..30_000;
        let opts = options(8192, depth);
        let mut reader = SequentialReader::new(file, span, opts, &pool, Some(&workers)).unwrap();
        assert_eq!(reader.read(10_000, 50_000).unwrap().len(), 20_000);
        drop(reader);
        // The span 10000..30000 was read with aligned requests that cover 8192..32768.
        assert_eq!(storage.statistics().snapshot(READ).read_bytes - before, 24_576);
    }
}

#[test]
fn a_restart_clears_an_error_and_a_failed_restart_reads_nothing() {
    let path = Path::new("/file");
    let bytes = pattern(1, 50_000);
    let storage = SimStorage::new(1);
    put(&storage, path, &bytes);
    let workers = Arc::new(Workers::new("reader", 2).unwrap());
    for depth in [1, 3] {
        let pool = BufferPool::new(1 << 20);
        let file = storage.open(path, IoMode::Direct, READ).unwrap();
        storage.set_faults(
            FaultPlan::none().with(FaultRule::new(Fault::InputOutput).operation(Operation::Read)),
        );
        let span = 0..50_000;
        let opts = options(8192, depth);
        let mut reader =
            SequentialReader::new(Arc::clone(&file), span.clone(), opts, &pool, Some(&workers))
                .unwrap();
        reader.read(0, 50_000).unwrap_err();
        storage.set_faults(
            FaultPlan::none()
                .with(FaultRule::new(Fault::InputOutput).operation(Operation::Metadata)),
        );
        let error = reader.restart(Arc::clone(&file), span.clone()).unwrap_err();
        assert_eq!(error.operation, Operation::Metadata);
        assert!(reader.read(0, 10).unwrap().is_empty());
        reader.restart(file, span).unwrap();
        assert!(reader.read(0, 50_000).unwrap() == bytes);
    }
}

#[test]
fn the_number_of_buffers_follows_the_depth_and_the_pool() {
    let path = Path::new("/file");
    let bytes = pattern(1, 1 << 20);
    let storage = SimStorage::new(1);
    put(&storage, path, &bytes);
    let workers = Arc::new(Workers::new("reader", 4).unwrap());
    for (depth, buffers) in [(1, 1), (2, 3), (4, 5), (20, 6)] {
        let pool = BufferPool::new(6 * 4096);
        let file = storage.open(path, IoMode::Direct, READ).unwrap();
        let opts = options(4096, depth);
        let mut reader =
            SequentialReader::new(file, 0..1 << 20, opts, &pool, Some(&workers)).unwrap();
        assert_eq!(pool.in_use(), buffers * 4096, "depth {depth}");
        assert!(reader.read(0, 1 << 20).unwrap() == bytes);
    }
}

/// Number of pages in 1 MiB.
const PAGES: u64 = (1 << 20) / 4096;

#[test]
fn pages_are_dropped_behind_a_stream_with_readahead() {
    let directory = tempfile::tempdir().unwrap();
    let storage = PosixStorage::new();
    let path = directory.path().join("file");
    let bytes = pattern(1, 24 << 20);
    let mut file = storage.create(&path, Create::New, IoMode::DropBehind, READ).unwrap();
    file.write_all_at(&bytes, 0, READ).unwrap();
    file.sync_data(READ).unwrap();
    drop(file);
    match storage.resident_pages(&path).unwrap() {
        // Pages cannot be dropped on tmpfs, for example, where they are the file itself.
        Some(pages) if pages > PAGES => {
            return say("LEFT OUT: pages behind a stream: pages cannot be dropped here");
        }
        None => return say("LEFT OUT: pages behind a stream: the kernel does not report them"),
        Some(_) => {}
    }
    let workers = Arc::new(Workers::new("reader", 4).unwrap());
    let pool = BufferPool::new(8 << 20);
    for request_bytes in [256 << 10, 1 << 20] {
        for depth in [1, 4] {
            let rings = depth == 4 && request_bytes == 1 << 20;
            let reading =
                if rings { PosixStorage::new() } else { PosixStorage::without_io_uring() };
            let file = reading.open(&path, IoMode::DropBehind, READ).unwrap();
            let opts = options(request_bytes, depth);
            let mut reader =
                SequentialReader::new(file, 0..24 << 20, opts, &pool, Some(&workers)).unwrap();
            for offset in (0..24 << 20).step_by(100_000) {
                let end = (offset + 100_000).min(24 << 20);
                assert!(reader.read(offset as u64, 100_000).unwrap() == &bytes[offset..end]);
            }
            drop(reader);
            let left = storage.resident_pages(&path).unwrap().unwrap();
            println!("{request_bytes} depth {depth}: {left} pages left");
            // A folio (pages that the kernel keeps or drops together) may hold parts of two
            // adjacent requests. If these requests complete out of order, the folio may stay in the
            // page cache.
            assert!(left <= 4 * PAGES, "{left} pages are left, {request_bytes} depth {depth}");
        }
    }
}
