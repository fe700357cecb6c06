//! Streams that use io_uring: short and failed requests, and streams that end with requests in
//! flight.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use std::io::{ErrorKind, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tailwater_io::buffer::BufferPool;
use tailwater_io::clock::Clock;
use tailwater_io::posix::PosixStorage;
use tailwater_io::rings::Rings;
use tailwater_io::stream::{ReaderOptions, RequestPath, SequentialReader, Workers};
use tailwater_io::{
    Create, DescriptorBudget, Foreground, IoMode, Operation, Purpose, ReadFile, ReadTime, Result,
    RingAccess, Storage,
};
use tailwater_testkit::filesystem::{say, writes_directly};

const READ: Purpose = Purpose::CompactionRead;

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index / 251 + index) as u8).collect()
}

fn options(request_bytes: usize, depth: usize) -> ReaderOptions {
    ReaderOptions { request_bytes, depth, first: depth, purpose: READ }
}

/// A file that returns `bytes` from ordinary reads, while its descriptor refers to a different
/// file, so that tests can control the result of reads through the ring.
#[derive(Debug)]
struct Elsewhere {
    bytes: Vec<u8>,
    descriptor: OwnedFd,
    rings: Arc<Rings>,
    /// Number of bytes read by ordinary reads. `by_ring` counts the bytes read through the ring.
    plainly: AtomicU64,
    by_ring: AtomicU64,
}

impl Elsewhere {
    fn new(bytes: &[u8], descriptor: impl Into<OwnedFd>) -> Arc<Self> {
        Self::with(bytes, descriptor, Rings::new(&DescriptorBudget::new(100)))
    }

    fn with(bytes: &[u8], descriptor: impl Into<OwnedFd>, rings: Arc<Rings>) -> Arc<Self> {
        let (plainly, by_ring) = (AtomicU64::new(0), AtomicU64::new(0));
        let descriptor = descriptor.into();
        Arc::new(Self { bytes: bytes.to_vec(), descriptor, rings, plainly, by_ring })
    }

    fn counts(&self) -> (u64, u64) {
        (self.plainly.load(SeqCst), self.by_ring.load(SeqCst))
    }
}

impl ReadFile for Elsewhere {
    fn read_at(&self, buffer: &mut [u8], offset: u64, _purpose: Purpose) -> Result<usize> {
        let rest = self.bytes.get(offset as usize..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.plainly.fetch_add(count as u64, SeqCst);
        Ok(count)
    }

    fn length(&self) -> Result<u64> {
        Ok(self.bytes.len() as u64)
    }

    fn path(&self) -> &Path {
        Path::new("/elsewhere")
    }

    fn mode(&self) -> IoMode {
        IoMode::Buffered
    }

    fn ring_access(&self) -> Option<RingAccess<'_>> {
        Some(RingAccess { descriptor: self.descriptor.as_fd(), rings: &self.rings })
    }

    fn was_read(&self, _offset: u64, count: usize, _purpose: Purpose, _time: ReadTime) {
        self.by_ring.fetch_add(count as u64, SeqCst);
    }
}

/// Returns a stream that reads `file` through io_uring. Prints a message and returns `None` if
/// io_uring is not allowed.
fn stream(file: &Arc<Elsewhere>, depth: usize, pool: &BufferPool) -> Option<SequentialReader> {
    let file = Arc::clone(file) as Arc<dyn ReadFile>;
    let length = file.length().unwrap();
    let reader = SequentialReader::new(file, 0..length, options(4096, depth), pool, None).unwrap();
    if reader.request_path() != RequestPath::Ring {
        say("LEFT OUT: streams through io_uring: it is not allowed here");
        return None;
    }
    Some(reader)
}

/// Returns an open file that contains these bytes and has no name.
fn unnamed(bytes: &[u8]) -> std::fs::File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file
}

#[test]
fn requests_are_counted_with_their_latency() {
    let directory = tempfile::tempdir().unwrap();
    // Where direct I/O is ignored, the requests are counted all the same.
    writes_directly(directory.path(), "direct requests with their latency");
    let path = directory.path().join("file");
    let bytes = pattern(300_000);
    let storage = PosixStorage::new();
    let mut file = storage.create(&path, Create::New, IoMode::Buffered, READ).unwrap();
    file.write_all_at(&bytes, 0, READ).unwrap();
    let pool = BufferPool::new(1 << 20);
    for mode in IoMode::ALL {
        let file = match storage.open(&path, mode, READ) {
            Ok(file) => file,
            Err(error) => {
                assert!(error.is_unsupported(), "{error}");
                say(&format!("LEFT OUT: requests with their latency: {mode:?}: {error}"));
                continue;
            }
        };
        let before = storage.statistics().snapshot(READ);
        let mut reader =
            SequentialReader::new(file, 0..300_000, options(65_536, 3), &pool, None).unwrap();
        match reader.read(0, 300_000) {
            Ok(found) => assert!(found == bytes, "{mode:?}"),
            Err(error) => {
                assert!(mode == IoMode::Uncached && error.is_unsupported(), "{error}");
                say(&format!("LEFT OUT: requests with their latency: {mode:?}: {error}"));
                continue;
            }
        }
        let after = storage.statistics().snapshot(READ);
        assert_eq!(after.read_bytes - before.read_bytes, 300_000);
        assert!(after.reads.count - before.reads.count >= 5);
        assert!(after.reads.total_ns > before.reads.total_ns);
    }
}

#[test]
fn threads_or_the_caller_read_without_io_uring() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let storage = PosixStorage::without_io_uring();
    storage.create(&path, Create::New, IoMode::Buffered, READ).unwrap();
    let pool = BufferPool::new(1 << 20);
    let workers = Arc::new(Workers::new("reader", 1).unwrap());
    let begin = |depth, workers| {
        let file = storage.open(&path, IoMode::Buffered, READ).unwrap();
        SequentialReader::new(file, 0..10, options(4096, depth), &pool, workers).unwrap()
    };
    assert_eq!(begin(2, Some(&workers)).request_path(), RequestPath::Threads);
    assert_eq!(begin(1, Some(&workers)).request_path(), RequestPath::Caller);
    assert_eq!(begin(2, None).request_path(), RequestPath::Caller);
}

#[test]
fn a_stream_takes_the_best_way_for_each_of_its_files() {
    let bytes = pattern(50_000);
    let pool = BufferPool::new(1 << 20);
    let workers = Arc::new(Workers::new("reader", 2).unwrap());
    let elsewhere = Elsewhere::new(&bytes, unnamed(&bytes));
    let Some(mut reader) = stream(&elsewhere, 3, &pool) else { return };
    let simulated = tailwater_io::sim::SimStorage::new(1);
    let path = Path::new("/file");
    let mut file = simulated.create(path, Create::New, IoMode::Buffered, READ).unwrap();
    file.write_all_at(&bytes, 0, READ).unwrap();
    let plain = simulated.open(path, IoMode::Direct, READ).unwrap();
    reader.read(0, 10).unwrap();
    reader.restart(Arc::clone(&plain), 0..50_000).unwrap();
    assert_eq!(reader.request_path(), RequestPath::Caller);
    assert!(reader.read(0, 50_000).unwrap() == bytes);
    reader.restart(elsewhere.clone(), 100..50_000).unwrap();
    assert_eq!(reader.request_path(), RequestPath::Ring);
    assert!(reader.read(100, 50_000).unwrap() == &bytes[100..]);
    drop(reader);
    let opts = options(4096, 3);
    let mut reader = SequentialReader::new(plain, 0..50_000, opts, &pool, Some(&workers)).unwrap();
    assert_eq!(reader.request_path(), RequestPath::Threads);
    reader.restart(elsewhere, 0..50_000).unwrap();
    assert_eq!(reader.request_path(), RequestPath::Ring);
    assert!(reader.read(0, 50_000).unwrap() == bytes);
    drop(reader);
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn short_ring_reads_are_completed_by_plain_reads() {
    let bytes = pattern(50_000);
    let pool = BufferPool::new(1 << 20);
    // The test file returns different bytes from the two kinds of reads. Reads through the ring see
    // a file that ends at offset 22,222: one of them is short, and those after it read nothing.
    // Ordinary reads see all 50,000 bytes, and complete the short reads.
    let file = Elsewhere::new(&bytes, unnamed(&bytes[..22_222]));
    let Some(mut reader) = stream(&file, 4, &pool) else { return };
    assert!(reader.read(0, 50_000).unwrap() == bytes);
    assert_eq!(file.counts(), (50_000 - 22_222, 22_222));
    // The descriptor is open only for writing, so every read through the ring fails.
    let directory = tempfile::tempdir().unwrap();
    let (_, kept) = tempfile::NamedTempFile::new_in(&directory).unwrap().keep().unwrap();
    let flags = rustix::fs::OFlags::WRONLY;
    let closed = rustix::fs::open(&kept, flags, rustix::fs::Mode::empty()).unwrap();
    let file = Elsewhere::new(&bytes, closed);
    let Some(mut reader) = stream(&file, 4, &pool) else { return };
    assert!(reader.read(0, 50_000).unwrap() == bytes);
    assert_eq!(file.counts(), (50_000, 0));
}

#[test]
fn a_failed_ring_request_is_reported_at_its_offset() {
    let directory = tempfile::tempdir().unwrap();
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY;
    let unreadable = rustix::fs::open(directory.path(), flags, rustix::fs::Mode::empty()).unwrap();
    let file = Elsewhere::new(&pattern(50_000), unreadable);
    let pool = BufferPool::new(1 << 20);
    let Some(mut reader) = stream(&file, 3, &pool) else { return };
    for _ in 0..2 {
        let error = reader.read(5000, 10).unwrap_err();
        assert_eq!((error.operation, error.offset), (Operation::Read, Some(4096)));
        assert_eq!(error.source.kind(), ErrorKind::IsADirectory);
    }
    assert_eq!(file.counts(), (0, 0));
    // After the error, the stream can be restarted on a readable file.
    let bytes = pattern(9000);
    reader.restart(Elsewhere::new(&bytes, unnamed(&bytes)), 0..9000).unwrap();
    assert!(reader.read(0, 9000).unwrap() == bytes);
}

#[test]
fn a_dropped_stream_waits_for_requests_in_flight() {
    let pool = BufferPool::new(1 << 20);
    // Read requests on an empty pipe stay in flight until bytes are written to it.
    let (reading, mut writing) = std::io::pipe().unwrap();
    let file = Elsewhere::new(&pattern(50_000), reading);
    let Some(reader) = stream(&file, 3, &pool) else { return };
    assert_eq!(pool.in_use(), 4 * 4096);
    std::thread::scope(|scope| {
        let dropping = scope.spawn(|| drop(reader));
        std::thread::sleep(Duration::from_millis(30));
        assert!(!dropping.is_finished(), "the kernel has the buffers");
        // The buffer that no request used was returned to the pool immediately.
        assert_eq!(pool.in_use(), 3 * 4096);
        for _ in 0..3 {
            writing.write_all(&[7; 4096]).unwrap();
        }
    });
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn a_stream_can_be_restarted_by_another_thread_with_requests_in_flight() {
    let bytes = pattern(50_000);
    let pool = BufferPool::new(1 << 20);
    let (reading, mut writing) = std::io::pipe().unwrap();
    let file = Elsewhere::new(&bytes, reading);
    // The thread that submits the requests ends while they are in flight.
    let begun = std::thread::scope(|scope| scope.spawn(|| stream(&file, 3, &pool)).join().unwrap());
    let Some(mut reader) = begun else { return };
    writing.write_all(&[7; 3 * 4096]).unwrap();
    drop(writing);
    reader.restart(Elsewhere::new(&bytes, unnamed(&bytes)), 1..50_000).unwrap();
    assert!(reader.read(1, 50_000).unwrap() == &bytes[1..]);
    drop(reader);
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn a_few_streams_that_are_read_in_turn_keep_their_rings() {
    let bytes = pattern(50_000);
    let pool = BufferPool::new(1 << 20);
    let file = Elsewhere::new(&bytes, unnamed(&bytes));
    let streams: Option<Vec<_>> = (0..3).map(|_| stream(&file, 3, &pool)).collect();
    let Some(mut streams) = streams else { return };
    for at in (0..50_000).step_by(5000) {
        for stream in &mut streams {
            assert!(stream.read(at, 5000).unwrap() == &bytes[at as usize..][..5000]);
        }
    }
    let rings = format!("{:?}", file.rings);
    assert!(rings.contains("open: 3, idle: 0"), "{rings}");
    assert_eq!(file.counts(), (0, 3 * 50_000));
}

/// Streams that keep their rings, because their requests, on an empty pipe, stay in flight. As a
/// clock, it begins another such stream when it is read, which needs a ring.
#[derive(Debug)]
struct Rivals {
    file: Arc<Elsewhere>,
    pool: BufferPool,
    streams: Mutex<Vec<SequentialReader>>,
    /// Number of readings of the clock until the next stream begins; 0 for none.
    readings_left: AtomicUsize,
    /// The end of a pipe to which a chunk is written before the next stream begins.
    pipe: Option<Mutex<std::io::PipeWriter>>,
}

impl Rivals {
    /// So many streams that the pool takes back rings that are lent before it opens others.
    const FIRST: usize = 6;

    /// Returns the streams, and the end of the pipe that must be closed before they end; `None` if
    /// io_uring is not allowed.
    fn new(pipe: Option<std::io::PipeWriter>) -> Option<(Arc<Self>, std::io::PipeWriter)> {
        let (reading, writing) = std::io::pipe().unwrap();
        let (file, pool) = (Elsewhere::new(&[7; 50_000], reading), BufferPool::new(1 << 20));
        let (streams, readings_left) = (Mutex::default(), AtomicUsize::new(0));
        let rivals = Self { file, pool, streams, readings_left, pipe: pipe.map(Mutex::new) };
        (0..Self::FIRST).try_for_each(|_| rivals.begin())?;
        Some((Arc::new(rivals), writing))
    }

    fn begin(&self) -> Option<()> {
        let stream = stream(&self.file, 2, &self.pool)?;
        self.streams.lock().unwrap().push(stream);
        Some(())
    }

    fn count(&self) -> usize {
        self.streams.lock().unwrap().len()
    }
}

impl Clock for Rivals {
    fn monotonic_ns(&self) -> u64 {
        let left = self.readings_left.load(SeqCst);
        self.readings_left.store(left.saturating_sub(1), SeqCst);
        if left == 1 {
            if let Some(pipe) = &self.pipe {
                pipe.lock().unwrap().write_all(&[7; 4096]).unwrap();
            }
            self.begin().unwrap();
        }
        0
    }

    fn wall_us(&self) -> u64 {
        0
    }

    fn sleep_until(&self, _deadline_ns: u64) {}
}

/// Regression test: if the pool took a stream's ring back after the stream had chosen it and before
/// the first request, the stream made its requests one by one to the end of its span.
#[test]
fn a_ring_is_not_taken_back_before_the_first_request() {
    let Some((rivals, pipe)) = Rivals::new(None) else { return };
    let bytes = pattern(20 * 4096);
    let rings = Arc::clone(&rivals.file.rings);
    let file = Elsewhere::with(&bytes, unnamed(&bytes), rings);
    let Some(mut reader) = stream(&file, 3, &rivals.pool) else { return };
    assert!(reader.read(0, 100_000).unwrap() == bytes);
    reader.give_way_to(Arc::new(Foreground::new(rivals.clone())));
    rivals.readings_left.store(1, SeqCst);
    reader.restart(file.clone(), 0..100_000).unwrap();
    assert_eq!(rivals.count(), Rivals::FIRST + 1);
    assert!(reader.read(0, 100_000).unwrap() == bytes);
    assert_eq!(file.counts(), (0, 2 * bytes.len() as u64));
    drop(pipe);
}

/// Like the test before, with a ring that had one request in flight when the stream went on. The
/// request completes before the next ones are submitted.
#[test]
fn a_ring_is_not_taken_back_after_its_last_request() {
    let (reading, writing) = std::io::pipe().unwrap();
    let mut to_pipe = writing.try_clone().unwrap();
    let Some((rivals, pipe)) = Rivals::new(Some(writing)) else { return };
    let bytes = [7; 5 * 4096];
    let file = Elsewhere::with(&bytes, reading, Arc::clone(&rivals.file.rings));
    let Some(mut reader) = stream(&file, 3, &rivals.pool) else { return };
    to_pipe.write_all(&bytes[..3 * 4096]).unwrap();
    assert!(reader.read(0, 4096).unwrap() == &bytes[..4096]);
    // Two chunks have arrived, and the fourth is in flight. The clock is read twice: before and
    // after the stream takes the second chunk.
    reader.give_way_to(Arc::new(Foreground::new(rivals.clone())));
    rivals.readings_left.store(2, SeqCst);
    assert!(reader.read(4096, 4096).unwrap() == &bytes[..4096]);
    assert_eq!(rivals.count(), Rivals::FIRST + 1);
    to_pipe.write_all(&bytes[..4096]).unwrap();
    assert!(reader.read(2 * 4096, 5 * 4096).unwrap() == &bytes[..3 * 4096]);
    assert_eq!(file.counts(), (0, bytes.len() as u64));
    drop(pipe);
}
