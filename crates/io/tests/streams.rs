//! Sequential readers and writers with every alignment, buffered and direct, with and without
//! threads, and under faults.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use tailwater_io::buffer::BufferPool;
use tailwater_io::posix::PosixStorage;
use tailwater_io::sim::{Fault, FaultPlan, FaultRule, SimStorage};
use tailwater_io::stream::{
    ReaderOptions, SequentialReader, SequentialWriter, Workers, WriterOptions,
};
use tailwater_io::{Create, IoMode, Operation, Purpose, ReadFile, Result, Storage, WriteFile};
use tailwater_testkit::filesystem::writes_directly;

const READ: Purpose = Purpose::CompactionRead;
const WRITE: Purpose = Purpose::CompactionWrite;
/// The modes in which streams are tested, if the filesystem does not refuse direct I/O.
const MODES: &[IoMode] = &[IoMode::Buffered, IoMode::Direct];

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index / 251 + index) as u8).collect()
}

fn put(storage: &dyn Storage, path: &Path, bytes: &[u8]) {
    let mut file = storage.create(path, Create::Truncate, IoMode::Buffered, WRITE).unwrap();
    file.write_all_at(bytes, 0, WRITE).unwrap();
}

fn get(storage: &dyn Storage, path: &Path) -> Vec<u8> {
    let file = storage.open(path, IoMode::Buffered, READ).unwrap();
    let mut bytes = vec![0; file.length().unwrap() as usize];
    assert_eq!(file.read_full_at(&mut bytes, 0, READ).unwrap(), bytes.len());
    bytes
}

fn reader_options(request_bytes: usize, depth: usize) -> ReaderOptions {
    ReaderOptions { request_bytes, depth, first: depth, purpose: READ }
}

/// Returns the modes that a directory of the real disk accepts. If direct I/O does not bypass the
/// page cache there, prints that `left_out` is left out, and why. Where direct I/O is accepted but
/// ignored, the bytes are compared all the same.
fn modes_of_the_real_disk(directory: &Path, left_out: &str) -> &'static [IoMode] {
    let is_direct = writes_directly(directory, left_out);
    let (storage, path) = (PosixStorage::new(), directory.join("trial"));
    match storage.create(&path, Create::New, IoMode::Direct, WRITE) {
        Ok(_) => {
            storage.remove(&path).unwrap();
            MODES
        }
        Err(error) => {
            assert!(!is_direct && error.is_unsupported(), "{error}");
            &MODES[..1]
        }
    }
}

/// Checks the reading of random spans in each mode. Each file has a random length. Each span is
/// read from front to back, in pieces of random length.
fn read_at_random(
    storage: &dyn Storage,
    directory: &Path,
    modes: &[IoMode],
    random: &mut fastrand::Rng,
) {
    let workers = Arc::new(Workers::new("reader", 3).unwrap());
    let path = directory.join("file");
    for &mode in modes {
        for depth in [0, 1, 2, 5] {
            let bytes = pattern(random.usize(..60_000));
            put(storage, &path, &bytes);
            let pool = BufferPool::new(1 << 20);
            let start = random.u64(..20_000);
            let span = start..random.u64(start..=70_000);
            let request = random.usize(1..16_384);
            let file = storage.open(&path, mode, READ).unwrap();
            let alignment = file.alignment();
            let options = reader_options(request, depth);
            let mut reader =
                SequentialReader::new(file, span.clone(), options, &pool, Some(&workers)).unwrap();
            let mut offset = start;
            while offset < span.end + 100 {
                let length = random.usize(..9000);
                let expected_end = (offset + length as u64).min(span.end).min(bytes.len() as u64);
                let expected = if offset < expected_end {
                    &bytes[offset as usize..expected_end as usize]
                } else {
                    &[]
                };
                let found = reader.read(offset, length).unwrap();
                assert!(found == expected, "{mode:?} depth {depth} request {request} at {offset}");
                let skip = if random.u8(..4) == 0 { random.u64(..30_000) } else { random.u64(..9) };
                offset += expected.len() as u64 + skip;
            }
            drop(reader);
            assert_eq!(pool.in_use(), 0);
            let most = (depth.max(1) + 1) * request.next_multiple_of(alignment);
            assert!(pool.peak() <= most, "{} bytes of at most {most}", pool.peak());
        }
    }
}

#[test]
fn reading_any_span_on_the_real_disk() {
    let directory = tempfile::tempdir().unwrap();
    let modes = modes_of_the_real_disk(directory.path(), "direct streams that read any span");
    let first = fastrand::u64(..1 << 40);
    for seed in first..first + 15 {
        println!("seed {seed}");
        for storage in [PosixStorage::new(), PosixStorage::without_io_uring()] {
            let random = &mut fastrand::Rng::with_seed(seed);
            read_at_random(&storage, directory.path(), modes, random);
        }
    }
}

#[test]
fn reading_any_span_with_short_transfers() {
    let first = fastrand::u64(..1 << 40);
    for seed in first..first + 100 {
        println!("seed {seed}");
        let storage = SimStorage::new(seed);
        storage.set_alignment(4096 << (seed % 3));
        if seed % 2 == 0 {
            let short = FaultRule::new(Fault::Short).operation(Operation::Read).from(0);
            storage.set_faults(FaultPlan::none().with(short));
        }
        read_at_random(&storage, Path::new("/"), MODES, &mut fastrand::Rng::with_seed(seed));
    }
}

#[test]
fn skipped_bytes_are_not_read() {
    let path = Path::new("/file");
    let bytes = pattern(100 * 4096);
    for depth in [1, 3] {
        let storage = SimStorage::new(1);
        put(&storage, path, &bytes);
        storage.start_recording();
        let workers = Arc::new(Workers::new("reader", 2).unwrap());
        let pool = BufferPool::new(1 << 20);
        let file = storage.open(path, IoMode::Direct, READ).unwrap();
        let options = reader_options(4096, depth);
        let mut reader =
            SequentialReader::new(file, 0..1 << 40, options, &pool, Some(&workers)).unwrap();
        reader.read(0, 10).unwrap();
        assert!(reader.read(98 * 4096, 10).unwrap() == &bytes[98 * 4096..][..10]);
        drop(reader);
        drop(workers);
        let reads = storage.calls().iter().filter(|call| call.operation == Operation::Read).count();
        assert!(reads <= 2 * (depth + 1), "depth {depth}: {reads} reads");
    }
}

#[test]
fn a_failed_request_is_reported_at_its_offset() {
    let path = Path::new("/file");
    let bytes = pattern(50_000);
    for depth in [1, 4] {
        let workers = Arc::new(Workers::new("reader", 1).unwrap());
        for failing in 0..7u64 {
            let storage = SimStorage::new(1);
            put(&storage, path, &bytes);
            let file = storage.open(path, IoMode::Direct, READ).unwrap();
            let rule = FaultRule::new(Fault::InputOutput).operation(Operation::Read).at(failing);
            storage.set_faults(FaultPlan::none().with(rule));
            let pool = BufferPool::new(1 << 20);
            let options = reader_options(8192, depth);
            let mut reader =
                SequentialReader::new(file, 0..50_000, options, &pool, Some(&workers)).unwrap();
            let broken = failing * 8192..(failing + 1) * 8192;
            let mut offset = 0;
            while offset < broken.start {
                let found = reader.read(offset, 1024).unwrap();
                assert!(found == &bytes[offset as usize..offset as usize + 1024]);
                offset += 1024;
            }
            for _ in 0..2 {
                let error = reader.read(offset, 1024).unwrap_err();
                assert_eq!((error.operation, error.offset), (Operation::Read, Some(broken.start)));
                assert_eq!(error.source.raw_os_error(), Some(5));
            }
            // A read that begins inside the failed request fails, even if the read ends beyond that
            // request. A read that begins at the end of the failed request succeeds.
            if failing < 6 {
                reader.read(broken.end - 1, 2).unwrap_err();
                assert!(reader.read(broken.end, 3).unwrap() == &bytes[broken.end as usize..][..3]);
            }
        }
    }
}

#[test]
fn bytes_before_an_error_are_returned() {
    let path = Path::new("/file");
    let bytes = pattern(40_000);
    let storage = SimStorage::new(5);
    put(&storage, path, &bytes);
    let file = storage.open(path, IoMode::Buffered, READ).unwrap();
    // The first read call is short, and the call that continues it fails.
    storage.set_faults(
        FaultPlan::none()
            .with(FaultRule::new(Fault::Short).operation(Operation::Read).at(0))
            .with(FaultRule::new(Fault::InputOutput).operation(Operation::Read).at(1)),
    );
    let pool = BufferPool::new(1 << 20);
    let options = reader_options(16_384, 1);
    let mut reader = SequentialReader::new(file, 0..40_000, options, &pool, None).unwrap();
    assert_eq!(reader.read(0, 1).unwrap(), &bytes[..1]);
    let error = reader.read(1, 16_383).unwrap_err();
    let good = error.offset.unwrap();
    assert!(good > 0 && good < 16_384);
    assert!(reader.read(1, good as usize - 1).unwrap() == &bytes[1..good as usize]);
    assert_eq!(reader.read(good, 1).unwrap_err().offset, Some(good));
}

#[test]
fn reading_backward_and_an_exhausted_pool_are_errors() {
    let path = Path::new("/file");
    let storage = SimStorage::new(1);
    put(&storage, path, &pattern(10_000));
    let file = storage.open(path, IoMode::Buffered, READ).unwrap();
    let pool = BufferPool::new(4096);
    let open =
        || SequentialReader::new(Arc::clone(&file), 0..10_000, reader_options(1, 1), &pool, None);
    let mut reader = open().unwrap();
    assert_eq!(open().unwrap_err().source.kind(), ErrorKind::OutOfMemory);
    reader.read(100, 50).unwrap();
    assert_eq!(reader.position(), 150);
    assert_eq!(reader.read(149, 1).unwrap_err().source.kind(), ErrorKind::InvalidInput);
    reader.read(150, 1).unwrap();
}

/// A file whose calls block until the test releases them, and can be made to panic.
#[derive(Debug, Default)]
struct GatedFile {
    open: Mutex<bool>,
    opened: Condvar,
    inside: AtomicUsize,
    most_inside: AtomicUsize,
    panics: AtomicBool,
}

impl GatedFile {
    fn pass(&self) {
        let inside = self.inside.fetch_add(1, SeqCst) + 1;
        self.most_inside.fetch_max(inside, SeqCst);
        let mut open = self.open.lock().unwrap();
        while !*open {
            open = self.opened.wait(open).unwrap();
        }
        drop(open);
        self.inside.fetch_sub(1, SeqCst);
        assert!(!self.panics.load(SeqCst), "on purpose");
    }

    fn let_through(&self) {
        *self.open.lock().unwrap() = true;
        self.opened.notify_all();
    }

    fn wait_for(&self, inside: usize) {
        while self.inside.load(SeqCst) < inside {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl ReadFile for GatedFile {
    fn read_at(&self, buffer: &mut [u8], _offset: u64, _purpose: Purpose) -> Result<usize> {
        self.pass();
        buffer.fill(1);
        Ok(buffer.len())
    }

    fn length(&self) -> Result<u64> {
        Ok(1 << 20)
    }

    fn path(&self) -> &Path {
        Path::new("/gated")
    }

    fn mode(&self) -> IoMode {
        IoMode::Direct
    }
}

/// Write access to a [`GatedFile`].
#[derive(Debug)]
struct GatedWriter(Arc<GatedFile>);

impl WriteFile for GatedWriter {
    fn write_at(&mut self, bytes: &[u8], _offset: u64, _purpose: Purpose) -> Result<usize> {
        self.0.pass();
        Ok(bytes.len())
    }

    fn sync_data(&mut self, _purpose: Purpose) -> Result<()> {
        Ok(())
    }

    fn sync_all(&mut self, _purpose: Purpose) -> Result<()> {
        Ok(())
    }

    fn truncate(&mut self, _length: u64) -> Result<()> {
        Ok(())
    }

    fn allocate(&mut self, _offset: u64, _length: u64) -> Result<()> {
        Ok(())
    }

    fn start_writeback(&mut self, _offset: u64, _length: u64) -> Result<()> {
        Ok(())
    }

    fn length(&self) -> Result<u64> {
        Ok(0)
    }

    fn path(&self) -> &Path {
        Path::new("/gated")
    }

    fn mode(&self) -> IoMode {
        IoMode::Buffered
    }
}

#[test]
fn requests_run_concurrently_and_a_dropped_reader_waits_for_them() {
    let file = Arc::new(GatedFile::default());
    let pool = BufferPool::new(1 << 20);
    let workers = Arc::new(Workers::new("reader", 3).unwrap());
    let options = reader_options(4096, 5);
    let gated = Arc::clone(&file);
    let reader = SequentialReader::new(gated, 0..1 << 20, options, &pool, Some(&workers)).unwrap();
    file.wait_for(3);
    let dropping = std::thread::scope(|scope| {
        let dropping = scope.spawn(|| drop(reader));
        std::thread::sleep(Duration::from_millis(30));
        assert!(!dropping.is_finished(), "running calls own their buffers");
        // Three requests are inside their calls. The buffers of the other requests were returned to
        // the pool immediately.
        assert_eq!(pool.in_use(), 3 * 4096);
        file.let_through();
        dropping.join()
    });
    dropping.unwrap();
    assert_eq!((pool.in_use(), pool.peak()), (0, 6 * 4096));
    assert_eq!(file.most_inside.load(SeqCst), 3);
}

#[test]
fn a_panic_in_a_request_is_an_error() {
    let file = Arc::new(GatedFile::default());
    file.panics.store(true, SeqCst);
    file.let_through();
    let pool = BufferPool::new(1 << 20);
    let workers = Arc::new(Workers::new("worker", 1).unwrap());
    let options = reader_options(4096, 2);
    let gated = Arc::clone(&file);
    let mut reader =
        SequentialReader::new(gated, 0..1 << 20, options, &pool, Some(&workers)).unwrap();
    let error = reader.read(0, 10).unwrap_err();
    assert!(error.to_string().contains("panicked"), "{error}");
    drop(reader);

    let options = WriterOptions { depth: 1, buffer_bytes: 8192, ..WriterOptions::new(WRITE) };
    let gated = Box::new(GatedWriter(file));
    let mut writer = SequentialWriter::new(gated, options, &pool, Some(&workers)).unwrap();
    writer.append(&[1; 100]).unwrap();
    assert!(writer.flush().unwrap_err().to_string().contains("panicked"));
    writer.append(&[1; 100]).unwrap_err();
    drop(writer);
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn write_behind_is_bounded() {
    let file = Arc::new(GatedFile::default());
    let pool = BufferPool::new(1 << 20);
    let workers = Arc::new(Workers::new("writer", 1).unwrap());
    let options = WriterOptions { depth: 2, buffer_bytes: 8192, ..WriterOptions::new(WRITE) };
    let gated = Box::new(GatedWriter(Arc::clone(&file)));
    let mut writer = SequentialWriter::new(gated, options, &pool, Some(&workers)).unwrap();
    // Fill the three buffers: one is being written, one is queued and the third collects bytes.
    writer.append(&[1; 2 * 8192 + 100]).unwrap();
    file.wait_for(1);
    std::thread::scope(|scope| {
        let appending = scope.spawn(|| {
            writer.append(&[1; 8192]).unwrap();
            writer
        });
        std::thread::sleep(Duration::from_millis(30));
        assert!(!appending.is_finished(), "there is no fourth buffer");
        file.let_through();
        drop(appending.join().unwrap());
    });
    assert_eq!(pool.in_use(), 0);
    assert_eq!(pool.peak(), 3 * 8192);
}

/// The only worker is in a call of another stream that does not return: for example, a disk of
/// another database does not answer. The stream's own thread writes then.
#[test]
fn a_stream_does_not_wait_for_workers_that_others_occupy() {
    let file = Arc::new(GatedFile::default());
    let pool = BufferPool::new(1 << 20);
    let workers = Arc::new(Workers::new("writer", 1).unwrap());
    let options = WriterOptions { depth: 2, buffer_bytes: 8192, ..WriterOptions::new(WRITE) };
    let gated = Box::new(GatedWriter(Arc::clone(&file)));
    let mut stuck = SequentialWriter::new(gated, options, &pool, Some(&workers)).unwrap();
    stuck.append(&[1; 8192]).unwrap();
    file.wait_for(1);

    let storage = SimStorage::new(1);
    let (path, bytes) = (Path::new("/file"), pattern(10 * 8192 + 100));
    let free = storage.create(path, Create::New, IoMode::Buffered, WRITE).unwrap();
    let mut writer = SequentialWriter::new(free, options, &pool, Some(&workers)).unwrap();
    writer.append(&bytes).unwrap();
    writer.sync().unwrap();
    writer.close().unwrap();
    assert_eq!(get(&storage, path), bytes);

    // If its own thread panics inside a call, the stream fails, as after a worker's panic.
    let panicking = Arc::new(GatedFile::default());
    panicking.panics.store(true, SeqCst);
    panicking.let_through();
    let gated = Box::new(GatedWriter(panicking));
    let mut writer = SequentialWriter::new(gated, options, &pool, Some(&workers)).unwrap();
    writer.append(&[1; 100]).unwrap();
    assert!(writer.flush().unwrap_err().to_string().contains("panic"));

    file.let_through();
    stuck.close().unwrap();
}

/// As above, for reading: the reader's own thread makes the requests that no worker can begin.
#[test]
fn a_reader_does_not_wait_for_workers_that_others_occupy() {
    let file = Arc::new(GatedFile::default());
    let pool = BufferPool::new(1 << 20);
    let workers = Arc::new(Workers::new("reader", 1).unwrap());
    let begin = |file| {
        let options = reader_options(8192, 2);
        SequentialReader::new(file, 0..5 * 8192, options, &pool, Some(&workers)).unwrap()
    };
    let stuck = begin(Arc::clone(&file) as Arc<dyn ReadFile>);
    file.wait_for(1);

    let (storage, bytes) = (SimStorage::new(1), pattern(5 * 8192));
    put(&storage, Path::new("/file"), &bytes);
    let free = storage.open(Path::new("/file"), IoMode::Buffered, READ).unwrap();
    let mut reader = begin(free);
    for (at, part) in bytes.chunks(1000).enumerate() {
        assert_eq!(reader.read(at as u64 * 1000, part.len()).unwrap(), part);
    }

    // A panic of its own thread inside a call is the error of the request.
    let panicking = Arc::new(GatedFile::default());
    panicking.panics.store(true, SeqCst);
    panicking.let_through();
    let error = begin(panicking).read(0, 100).unwrap_err();
    assert!(error.to_string().contains("panic"), "{error}");

    file.let_through();
    drop(stuck);
}

/// In each mode, appends pieces of random length, flushes or syncs at random and checks the content
/// of the file after each flush, and finally closes the stream.
fn write_at_random(
    storage: &dyn Storage,
    directory: &Path,
    modes: &[IoMode],
    random: &mut fastrand::Rng,
) {
    let workers = Arc::new(Workers::new("writer", 2).unwrap());
    let path = directory.join("file");
    for &mode in modes {
        for depth in [0, 1, 3] {
            let pool = BufferPool::new(1 << 20);
            let file = storage.create(&path, Create::Truncate, mode, WRITE).unwrap();
            let options = WriterOptions {
                buffer_bytes: random.usize(1..20_000),
                depth,
                bytes_per_sync: random.u64(..20_000),
                preallocate_bytes: random.u64(..2) * random.u64(..100_000),
                purpose: WRITE,
            };
            let mut writer = SequentialWriter::new(file, options, &pool, Some(&workers)).unwrap();
            let mut expected = Vec::new();
            for _ in 0..random.usize(..30) {
                match random.u8(..8) {
                    0 => writer.flush().unwrap(),
                    1 => writer.sync().unwrap(),
                    _ => {
                        let limit = *random.choice(&[10, 5000, 50_000]).unwrap();
                        let bytes = pattern(random.usize(..limit));
                        writer.append(&bytes).unwrap();
                        expected.extend_from_slice(&bytes);
                        assert_eq!(writer.length(), expected.len() as u64);
                        continue;
                    }
                }
                assert!(get(storage, &path) == expected, "{mode:?} {options:?}");
            }
            assert_eq!(writer.close().unwrap(), expected.len() as u64);
            assert!(get(storage, &path) == expected, "{mode:?} {options:?}");
            assert_eq!(pool.in_use(), 0);
        }
    }
}

#[test]
fn writing_on_the_real_disk() {
    let directory = tempfile::tempdir().unwrap();
    let modes = modes_of_the_real_disk(directory.path(), "direct streams that write");
    let first = fastrand::u64(..1 << 40);
    for seed in first..first + 10 {
        println!("seed {seed}");
        let random = &mut fastrand::Rng::with_seed(seed);
        write_at_random(&PosixStorage::new(), directory.path(), modes, random);
    }
}

#[test]
fn writing_with_short_transfers_and_no_room_to_reserve() {
    let first = fastrand::u64(..1 << 40);
    for seed in first..first + 100 {
        println!("seed {seed}");
        let storage = SimStorage::new(seed);
        storage.set_alignment(4096 << (seed % 3));
        if seed % 2 == 0 {
            let short = FaultRule::new(Fault::Short).operation(Operation::Write).from(0);
            let full = FaultRule::new(Fault::NoSpace).operation(Operation::Allocate).from(2);
            storage.set_faults(FaultPlan::none().with(short).with(full));
        }
        write_at_random(&storage, Path::new("/"), MODES, &mut fastrand::Rng::with_seed(seed));
    }
}

#[test]
fn the_first_failure_latches_and_nothing_is_written_after_it() {
    let bytes = pattern(100_000);
    let path = Path::new("/file");
    for (mode, depth) in [(IoMode::Buffered, 0), (IoMode::Direct, 0), (IoMode::Direct, 2)] {
        let mut number = 1;
        loop {
            let storage = SimStorage::new(number);
            storage.start_recording();
            storage.set_faults(FaultPlan::at(number, Fault::InputOutput));
            let workers = Arc::new(Workers::new("writer", 1).unwrap());
            let pool = BufferPool::new(1 << 20);
            let file = storage.create(path, Create::New, mode, WRITE).unwrap();
            let options = WriterOptions {
                buffer_bytes: 16_384,
                depth,
                bytes_per_sync: 30_000,
                preallocate_bytes: 50_000,
                purpose: WRITE,
            };
            let mut writer = SequentialWriter::new(file, options, &pool, Some(&workers)).unwrap();
            let mut run = || {
                writer.append(&bytes[..60_000])?;
                writer.sync()?;
                writer.append(&bytes[60_000..])?;
                writer.sync()
            };
            let Err(error) = run() else { break };
            assert_eq!(error.source.raw_os_error(), Some(5), "call {number}");
            let failed = &storage.calls()[number as usize];
            assert_eq!(error.operation, failed.operation);
            for again in [writer.append(b"x"), writer.flush(), writer.sync()] {
                let again = again.unwrap_err();
                assert_eq!((again.operation, again.offset), (error.operation, error.offset));
            }
            writer.close().unwrap_err();
            assert_eq!(storage.call_count(), number + 1, "no call after the failure");
            assert_eq!(pool.in_use(), 0);
            number += 1;
        }
        assert!(number > 10, "{mode:?}: only {number} calls could fail");
    }
}

#[test]
fn synced_bytes_survive_a_crash_at_any_later_call() {
    let bytes = pattern(70_000);
    let path = Path::new("/file");
    for mode in [IoMode::Buffered, IoMode::Direct] {
        let storage = SimStorage::new(2);
        let pool = BufferPool::new(1 << 20);
        let file = storage.create(path, Create::New, mode, WRITE).unwrap();
        storage.sync_directory(Path::new("/")).unwrap();
        storage.start_recording();
        let options = WriterOptions { buffer_bytes: 8192, ..WriterOptions::new(WRITE) };
        let mut writer = SequentialWriter::new(file, options, &pool, None).unwrap();
        let mut synced = Vec::new();
        for end in [10_001, 30_000, 30_700, 70_000] {
            writer.append(&bytes[writer.length() as usize..end]).unwrap();
            writer.sync().unwrap();
            synced.push((storage.call_count(), end));
        }
        writer.close().unwrap();
        // Closing makes no call, because everything is already written and no space was
        // preallocated.
        assert_eq!(storage.call_count(), synced[3].0);
        let mut replay = storage.replay();
        for call in 0..=storage.call_count() {
            replay.advance_to(call);
            let durable =
                synced.iter().rev().find(|(since, _)| *since <= call).map_or(0, |(_, end)| *end);
            for seed in 0..10 {
                let found = get(&replay.crash_image(seed), path);
                assert!(
                    found.len() >= durable && found[..durable] == bytes[..durable],
                    "{mode:?}, call {call}, seed {seed}: {} of {durable}",
                    found.len()
                );
            }
        }
    }
}

#[test]
fn space_is_reserved_and_written_back_in_steps() {
    let storage = SimStorage::new(1);
    storage.start_recording();
    let pool = BufferPool::new(1 << 20);
    let file = storage.create(Path::new("/file"), Create::New, IoMode::Buffered, WRITE).unwrap();
    let options = WriterOptions {
        buffer_bytes: 8192,
        depth: 0,
        bytes_per_sync: 32_768,
        preallocate_bytes: 65_536,
        purpose: WRITE,
    };
    let mut writer = SequentialWriter::new(file, options, &pool, None).unwrap();
    writer.append(&pattern(200_000)).unwrap();
    writer.flush().unwrap();
    // The second flush has no new bytes and does nothing.
    writer.flush().unwrap();
    writer.close().unwrap();
    let count = |wanted| storage.calls().iter().filter(|call| call.operation == wanted).count();
    assert_eq!(count(Operation::Write), 25);
    assert_eq!(count(Operation::Allocate), 4);
    assert_eq!(count(Operation::StartWriteback), 6);
    assert_eq!(count(Operation::Truncate), 1, "unused space after the end is freed");
    assert_eq!(count(Operation::Sync), 0);
}
