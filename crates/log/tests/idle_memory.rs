//! Checks that idle partitions use little memory.

use std::sync::Arc;

use tailwater_format::message::batch::Builder;
use tailwater_io::kernel::{Memory, System};
use tailwater_io::sim::SimStorage;
use tailwater_log::{Durability, Log, LogOptions, TailMemory, TopicOptions};
use tailwater_testkit::filesystem::say;

const PARTITIONS: u32 = 1000;
/// Maximum anonymous memory that an idle partition may use, in bytes.
const BYTES_MAX: u64 = 16 << 10;

/// Returns the anonymous memory of this process in bytes, after freed memory has been returned to
/// the kernel; `None` if the kernel does not report it.
fn anonymous() -> Option<u64> {
    tailwater_io::release_free_memory();
    Memory::of_this_process(System::default()).anonymous()
}

#[test]
fn a_thousand_idle_partitions_take_little_memory() {
    // Prefer a tmpfs: syncs are fast there, and its files do not count as anonymous memory of this
    // process.
    let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let directory = directory.expect("a directory");
    let clock = SimStorage::new(1).clock();
    let options = LogOptions::new()
        .with_clock(Arc::clone(&clock) as _)
        .with_tail_memory(TailMemory::Private)
        .with_persisters(0);
    let log = Log::open(directory.path(), &options).expect("the log opens");
    let Some(before) = anonymous() else {
        return say("LEFT OUT: the memory of idle partitions: the kernel does not report it");
    };
    let stream = log.create_stream(None, "s").expect("a stream");
    let topic = TopicOptions::new().with_durability(Durability::Memory);
    log.create_topic(stream, None, "t", &topic, PARTITIONS).expect("a topic");
    let mut batch = Builder::new(0);
    batch.push(0, 0, &[7; 100], b"").expect("a message");
    let batch = batch.finish();
    for partition in log.partitions() {
        drop(partition.append(&batch).expect("an append"));
    }
    // After the first advance of the clock the partitions persist; after the second one they are
    // idle and release their memory.
    for _ in 0..2 {
        clock.advance(11_000_000_000);
        log.run_pending();
    }
    assert_eq!(log.tail_memory().0, 0);
    let after = anonymous().expect("the amount of memory");
    let each = after.saturating_sub(before) / u64::from(PARTITIONS);
    println!("{each} bytes for each partition");
    assert!(each <= BYTES_MAX, "{each} bytes for each partition");
    log.close().expect("the log closes");
}
