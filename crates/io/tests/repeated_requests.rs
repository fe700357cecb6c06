//! Repeated and concurrent requests: reads repeated after an error, several concurrent streams, and
//! concurrent probes of whether direct I/O works in a directory.

use std::path::Path;
use std::sync::Arc;

use tailwater_io::buffer::BufferPool;
use tailwater_io::clock::ManualClock;
use tailwater_io::foreground::Foreground;
use tailwater_io::posix::PosixStorage;
use tailwater_io::probe::{Access, probe};
use tailwater_io::sim::{Fault, FaultPlan, FaultRule, SimStorage};
use tailwater_io::stream::{ReaderOptions, SequentialReader, Workers};
use tailwater_io::{Create, IoMode, Operation, Purpose, Storage};

const READ: Purpose = Purpose::CompactionRead;

#[test]
fn a_failed_stream_returns_its_error_again() {
    let storage = SimStorage::new(1);
    let path = Path::new("/file");
    let mut file = storage.create(path, Create::New, IoMode::Buffered, READ).unwrap();
    file.write_all_at(&[7; 40_000], 0, READ).unwrap();
    drop(file);
    let file = storage.open(path, IoMode::Direct, READ).unwrap();
    let fault = FaultRule::new(Fault::InputOutput).operation(Operation::Read).from(1);
    storage.set_faults(FaultPlan::none().with(fault));
    let pool = BufferPool::new(1 << 20);
    let options = ReaderOptions { request_bytes: 4096, depth: 1, first: 1, purpose: READ };
    let mut reader = SequentialReader::new(file, 0..40_000, options, &pool, None).unwrap();
    for _ in 0..3 {
        assert!(reader.read(4000, 500).is_err());
    }
}

#[test]
fn a_directory_can_be_probed_concurrently() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let storage = PosixStorage::new();
                for round in 0..100 {
                    let tried = probe(&storage, directory.path(), IoMode::Direct, Access::Write);
                    assert!(tried.is_ok(), "round {round}: {tried:?}");
                }
            });
        }
    });
}

/// Checks that completed read-ahead of a stream does not count as requests in flight at the device,
/// even if the stream's caller has stopped reading. Otherwise idle streams would reduce the number
/// of requests that other streams may have in flight.
#[test]
fn completed_requests_leave_depth_for_other_streams() {
    let clock = Arc::new(ManualClock::new(0));
    let foreground = Arc::new(Foreground::new(Arc::clone(&clock) as Arc<_>));
    let users_read = |duration_ns| {
        (0..10).for_each(|_| foreground.record(4096, duration_ns));
        clock.advance(10_000_000);
    };
    let storage = SimStorage::new(1);
    let path = Path::new("/file");
    let mut file = storage.create(path, Create::New, IoMode::Buffered, READ).unwrap();
    file.write_all_at(&[7; 1 << 20], 0, READ).unwrap();
    drop(file);
    let workers = Arc::new(Workers::new("reader", 4).unwrap());
    let pool = BufferPool::new(1 << 20);
    let options = ReaderOptions { request_bytes: 4096, depth: 2, first: 2, purpose: READ };
    users_read(100_000);
    assert_eq!(foreground.depth(8, 0, true), 8);
    let streams: Vec<_> = (0..4)
        .map(|_| {
            let file = storage.open(path, IoMode::Direct, READ).unwrap();
            let mut stream =
                SequentialReader::new(file, 0..1 << 20, options, &pool, Some(&workers)).unwrap();
            stream.give_way_to(Arc::clone(&foreground));
            stream
        })
        .collect();
    while storage.statistics().snapshot(READ).reads.count < 8 {
        std::thread::yield_now();
    }
    // Users' reads now take twice as long, so the limiter halves the number of requests that may be
    // at the device. The 8 completed requests must not count against this limit.
    users_read(200_000);
    let depth = foreground.depth(4, 0, false);
    assert!(depth > 0, "nothing is at the device, and a fifth stream gets {depth}");
    drop(streams);
}
