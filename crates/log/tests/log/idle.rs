//! Checks that idle partitions hold neither memory for recent messages nor preallocated disk space.

use std::path::Path;
use std::sync::Arc;

use crate::common::{DIRECTORY, Machine, batch, read_all, topic};
use tailwater_format::message::name::{FileName, Kind};
use tailwater_io::Storage;
use tailwater_log::{Durability, ErrorKind, Log, LogOptions, PartialBlocks, Partition};

const PARTITIONS: u32 = 1000;
/// Time after which a partition counts as idle, with a margin, in nanoseconds.
const IDLE_NS: u64 = 11_000_000_000;
/// Maximum length of a segment that contains one small batch, in bytes: one block of the device.
const BLOCK: u64 = 4096;

/// Creates one topic for each combination of a durability and a handling of partial blocks. The
/// topics have `partitions` partitions in total, all of which are returned.
fn create(log: &Log, partitions: u32, save_interval_us: u64) -> Vec<Arc<Partition>> {
    let stream = log.create_stream(None, "s").expect("a stream");
    for durability in [Durability::Process, Durability::Disk] {
        for partial in [PartialBlocks::Pad, PartialBlocks::Carry] {
            let options = topic(durability, partial).with_save_interval_us(save_interval_us);
            let name = format!("{durability:?} {partial:?}");
            log.create_topic(stream, None, &name, &options, partitions / 4).expect("a topic");
        }
    }
    log.partitions()
}

/// Appends one message to every partition.
fn append(log: &Log, partitions: &[Arc<Partition>], number: u64) {
    for partition in partitions {
        let bytes = batch(number..number + 1, 100);
        let appended = match partition.try_append(&bytes) {
            Err(error) if error.kind() == ErrorKind::Full => {
                log.run_pending();
                partition.try_append(&bytes)
            }
            appended => appended,
        };
        appended
            .expect("an append")
            .ticket
            .on_complete(|outcome| outcome.expect("a persisted batch"));
        let (used, limit) = log.tail_memory();
        assert!(used <= limit, "{used} of {limit} bytes");
    }
}

/// Advances the clock by `time_ns`, and runs the work that is due at the new time.
fn pass(machine: &Machine, log: &Log, time_ns: u64) {
    machine.storage.clock().advance(time_ns);
    log.run_pending();
}

fn lengths(storage: &dyn Storage, directory: &Path, lengths: &mut Vec<u64>) {
    for entry in storage.list(directory).expect("a list") {
        let path = directory.join(&entry.name);
        match FileName::parse(&entry.name) {
            Some(name) if name.kind == Kind::Log => {
                lengths.push(storage.metadata(&path).expect("metadata").length);
            }
            Some(_) => {}
            None if storage.list(&path).is_ok() => self::lengths(storage, &path, lengths),
            None => {}
        }
    }
}

/// Checks that the log holds no memory for tails, and that every partition has `messages` messages.
/// Also checks that no segment file is longer than `segment` bytes. The length of a file includes
/// its preallocated space.
fn check(machine: &Machine, log: &Log, messages: usize, segment: u64) {
    assert_eq!(log.tail_memory().0, 0, "memory of tails");
    assert_eq!(machine.regions(), [""; 0], "regions of shared memory");
    let mut found = Vec::new();
    lengths(&*machine.storage, &Path::new(DIRECTORY).join("streams"), &mut found);
    assert_eq!(found.len(), PARTITIONS as usize);
    assert!(found.iter().all(|length| *length <= segment), "{:?}", found.iter().max());
    for partition in log.partitions() {
        assert_eq!(read_all(&partition).len(), messages);
    }
}

#[test]
fn a_thousand_idle_partitions_hold_no_tail_memory_or_disk_space() {
    let machine = Machine::new(1, true);
    let log = Log::open(DIRECTORY, &options_of(&machine)).expect("the log opens");
    let partitions = create(&log, PARTITIONS, 1_000_000);
    append(&log, &partitions, 0);
    assert!(log.tail_memory().0 > 0);
    pass(&machine, &log, 2_000_000_000);
    let persisted = partitions.iter().all(|partition| partition.stats().persisted_offset == 1);
    assert!(persisted && log.tail_memory().0 > 0, "recent messages are in memory");
    pass(&machine, &log, IDLE_NS);
    check(&machine, &log, 1, BLOCK);
    // Partitions whose memory was released accept appends and become idle again.
    append(&log, &partitions, 1);
    pass(&machine, &log, 2_000_000_000);
    pass(&machine, &log, IDLE_NS);
    check(&machine, &log, 2, 2 * BLOCK);
    // The process dies while each partition has an unpersisted message. After the next process has
    // opened the log, the partitions hold no memory.
    append(&log, &partitions, 2);
    let storage = Arc::new(machine.storage.process_crash_image(1));
    let memory = machine.memory.as_ref().map(|memory| memory.snapshot().expect("a copy"));
    let machine = Machine { storage, memory, boot: 1 };
    let log = Log::open(DIRECTORY, &options_of(&machine)).expect("the log opens");
    check_opened(&machine, &log);
}

fn options_of(machine: &Machine) -> LogOptions {
    machine.options().with_tail_bytes_max(64 << 20)
}

/// Checks the memory, the disk space and the messages of a log that was opened again. The previous
/// process died while each partition had one unpersisted message.
fn check_opened(machine: &Machine, log: &Log) {
    assert_eq!(log.tail_memory().0, 0, "memory of tails");
    assert_eq!(machine.regions(), [""; 0], "regions of shared memory");
    let mut found = Vec::new();
    lengths(&*machine.storage, &Path::new(DIRECTORY).join("streams"), &mut found);
    assert!(found.iter().all(|length| *length <= 3 * BLOCK), "{:?}", found.iter().max());
    for partition in log.partitions() {
        let survives = partition.id().topic < 2;
        assert_eq!(read_all(&partition).len(), 2 + usize::from(survives), "{}", partition.id());
    }
}

/// Small appends to 1,000 partitions must stay within the limit on the memory for recent messages.
/// When the limit is reached, they must not have to wait for the save interval, which is an hour.
#[test]
fn many_partitions_fit_into_the_tail_memory() {
    const HOUR_US: u64 = 3_600_000_000;
    let machine = Machine::new(1, true);
    let log = machine.open();
    // The memory of tails is limited to 4 MiB, which is 128 chunks of the smallest size. The test
    // has more than 128 partitions.
    assert_eq!(log.tail_memory().1, 4 << 20);
    let partitions = create(&log, PARTITIONS, HOUR_US);
    for number in 0..3 {
        append(&log, &partitions, number);
    }
    for partition in &partitions {
        let flushed = partition.flush(false);
        log.run_pending();
        flushed.wait().expect("a flush");
        assert_eq!(read_all(partition).len(), 3);
    }
}
