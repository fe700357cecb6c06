//! Checks that streams have fewer requests in flight while users' reads are slowed down at the
//! device, and return to their full depth afterwards.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use tailwater_io::buffer::BufferPool;
use tailwater_io::clock::ManualClock;
use tailwater_io::foreground::Foreground;
use tailwater_io::sim::SimStorage;
use tailwater_io::stream::{
    ReaderOptions, SequentialReader, SequentialWriter, Workers, WriterOptions,
};
use tailwater_io::{IoMode, Purpose, ReadFile, ReadTime, Result, Storage, WriteFile};

/// Simulates users' reads by recording their durations in a [`Foreground`].
struct Users {
    clock: Arc<ManualClock>,
    foreground: Arc<Foreground>,
}

impl Users {
    /// Simulates users whose reads normally take 100 us. Checks that streams may then have all of
    /// their requests in flight.
    fn new() -> Self {
        let clock = Arc::new(ManualClock::new(0));
        let foreground = Arc::new(Foreground::new(Arc::clone(&clock) as Arc<_>));
        let users = Self { clock, foreground };
        users.read(100_000);
        assert_eq!(users.foreground.depth(8, 0, true), 8);
        users
    }

    /// Records ten reads of this duration and advances the clock by 10 ms.
    fn read(&self, duration_ns: u64) {
        (0..10).for_each(|_| self.foreground.record(4096, duration_ns));
        self.clock.advance(10_000_000);
    }

    /// Simulates slow reads by users until streams are limited to one request.
    fn suffer(&self) {
        for _ in 0..4 {
            self.read(1_000_000);
            self.foreground.depth(8, 0, true);
        }
        assert_eq!(self.foreground.depth(8, 0, true), 1);
    }

    /// Lets time pass without reads until streams may again have all of their requests in flight.
    fn leave(&self) {
        let mut depths = (0..12).map(|_| {
            self.clock.advance(100_000_000);
            self.foreground.depth(8, 0, true)
        });
        assert!(depths.any(|depth| depth == 8));
    }
}

/// A file on which every call takes at least 2 ms. The file counts the calls, and records how many
/// ran concurrently at most.
#[derive(Debug, Default)]
struct SlowFile {
    inside: AtomicUsize,
    most_inside: AtomicUsize,
    calls: AtomicUsize,
    /// While this is true, no call on the file returns.
    held: AtomicBool,
}

impl SlowFile {
    fn pass(&self) {
        self.calls.fetch_add(1, SeqCst);
        let inside = self.inside.fetch_add(1, SeqCst) + 1;
        self.most_inside.fetch_max(inside, SeqCst);
        std::thread::sleep(Duration::from_millis(2));
        while self.held.load(SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.inside.fetch_sub(1, SeqCst);
    }

    fn most_inside_since(&self) -> usize {
        self.most_inside.swap(0, SeqCst)
    }
}

impl ReadFile for SlowFile {
    fn read_at(&self, buffer: &mut [u8], _offset: u64, _purpose: Purpose) -> Result<usize> {
        self.pass();
        Ok(buffer.len())
    }

    fn length(&self) -> Result<u64> {
        Ok(1 << 20)
    }

    fn path(&self) -> &Path {
        Path::new("/slow")
    }

    fn mode(&self) -> IoMode {
        IoMode::Direct
    }
}

#[derive(Debug)]
struct SlowWriter(Arc<SlowFile>);

impl WriteFile for SlowWriter {
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
        Path::new("/slow")
    }

    fn mode(&self) -> IoMode {
        IoMode::Buffered
    }
}

#[test]
fn a_reader_has_one_request_in_flight_while_users_wait() {
    let (file, users) = (Arc::new(SlowFile::default()), Users::new());
    let workers = Arc::new(Workers::new("reader", 4).unwrap());
    let pool = BufferPool::new(1 << 20);
    let options =
        ReaderOptions { request_bytes: 4096, depth: 4, first: 4, purpose: Purpose::CompactionRead };
    let source = Arc::clone(&file) as Arc<dyn ReadFile>;
    let mut reader =
        SequentialReader::new(Arc::clone(&source), 0..0, options, &pool, Some(&workers)).unwrap();
    reader.give_way_to(Arc::clone(&users.foreground));
    users.suffer();
    reader.restart(source, 0..1 << 20).unwrap();
    for request in 0..20 {
        reader.read(request * 4096, 4096).unwrap();
    }
    assert_eq!(file.most_inside_since(), 1);
    users.leave();
    for request in 20..60 {
        reader.read(request * 4096, 4096).unwrap();
    }
    assert!(file.most_inside_since() > 1);
}

#[test]
fn readers_of_one_thread_share_the_reduced_depth_while_users_wait() {
    let (file, users) = (Arc::new(SlowFile::default()), Users::new());
    let workers = Arc::new(Workers::new("reader", 8).unwrap());
    let pool = BufferPool::new(1 << 20);
    let options =
        ReaderOptions { request_bytes: 4096, depth: 4, first: 4, purpose: Purpose::CompactionRead };
    users.suffer();
    let mut readers: Vec<_> = (0..3)
        .map(|_| {
            let file = Arc::clone(&file) as Arc<dyn ReadFile>;
            let mut reader =
                SequentialReader::new(Arc::clone(&file), 0..0, options, &pool, Some(&workers))
                    .unwrap();
            reader.give_way_to(Arc::clone(&users.foreground));
            reader.restart(file, 0..1 << 20).unwrap();
            reader
        })
        .collect();
    for request in 0..10 {
        for reader in &mut readers {
            assert_eq!(reader.read(request * 4096, 4096).unwrap().len(), 4096);
        }
    }
    // All streams together have at most two requests in flight: one read-ahead request of a stream,
    // and one request for which the caller of another stream waits.
    assert!(file.most_inside_since() <= 2);
    drop(readers);
    // Requests that ended when the readers were dropped must no longer count, so other streams get
    // the full depth again.
    users.leave();
    users.suffer();
    assert_eq!(users.foreground.depth(8, 0, false), 1);
}

#[test]
fn a_writer_waits_for_each_write_while_users_wait() {
    let (file, users) = (Arc::new(SlowFile::default()), Users::new());
    let workers = Arc::new(Workers::new("writer", 1).unwrap());
    let pool = BufferPool::new(1 << 20);
    let purpose = Purpose::CompactionWrite;
    let options = WriterOptions { buffer_bytes: 8192, depth: 3, ..WriterOptions::new(purpose) };
    let slow = Box::new(SlowWriter(Arc::clone(&file)));
    let mut writer = SequentialWriter::new(slow, options, &pool, Some(&workers)).unwrap();
    writer.give_way_to(Arc::clone(&users.foreground));
    users.suffer();
    for written in 1..10 {
        writer.append(&[1; 8192]).unwrap();
        assert_eq!((file.calls.load(SeqCst), file.inside.load(SeqCst)), (written, 0));
    }
    users.leave();
    // Now the writer must not wait for its writes: none of them can end while `held` is set, and
    // `append` must return.
    file.held.store(true, SeqCst);
    writer.append(&[1; 3 * 8192]).unwrap();
    file.held.store(false, SeqCst);
    assert_eq!(writer.close().unwrap(), 12 * 8192);
    assert_eq!(file.calls.load(SeqCst), 12);
}

/// Records slow or fast 4 KiB reads with this purpose for four windows of 10 ms. Returns the depth
/// that a stream with a depth of 8 is then allowed.
fn depth_after_reads(disk: &SimStorage, purpose: Purpose, duration_ns: u64) -> usize {
    let statistics = disk.statistics();
    for _ in 0..4 {
        (0..10).for_each(|_| statistics.record_read(purpose, 4096, ReadTime::Alone(duration_ns)));
        disk.clock().advance(10_000_000);
        statistics.foreground().depth(8, 0, true);
    }
    statistics.foreground().depth(8, 0, true)
}

#[test]
fn only_users_reads_of_the_storage_reduce_the_depth() {
    for slow in [Purpose::UserRead, Purpose::UserBlobRead] {
        let disk = SimStorage::new(1);
        assert_eq!(depth_after_reads(&disk, Purpose::UserRead, 100_000), 8);
        assert_eq!(depth_after_reads(&disk, Purpose::CompactionRead, 5_000_000), 8);
        assert_eq!(disk.statistics().foreground().held_back(), 0);
        assert_eq!(depth_after_reads(&disk, slow, 1_000_000), 1, "{}", slow.name());
        assert!(disk.statistics().foreground().held_back() > 0);
    }
}
