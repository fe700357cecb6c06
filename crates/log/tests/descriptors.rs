//! The behaviour of a log near the limit on open file descriptors of the process
//! (`RLIMIT_NOFILE`), with real files.
//!
//! The limit applies to the whole process, so the tests run one after another.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{Mode, OFlags};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tailwater_format::message::batch::Builder;
use tailwater_log::{
    Durability, Log, LogOptions, Partition, Strategy, TailMemory, TopicId, TopicOptions,
};

/// Lowers the limit on open files while this object exists. Also holds a lock, so that the tests
/// run one after another.
struct Limit {
    before: Rlimit,
    _turn: MutexGuard<'static, ()>,
}

impl Limit {
    fn new(files: u64) -> Self {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let before = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, Rlimit { current: Some(files), ..before }).expect("a limit");
        Self { before, _turn: turn }
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        setrlimit(Resource::Nofile, self.before).expect("the limit before");
    }
}

/// Opens files until the process has no file descriptor left.
fn take_all_descriptors() -> Vec<std::os::fd::OwnedFd> {
    let open = || rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    std::iter::from_fn(|| open().ok()).collect()
}

/// Returns the number of descriptors that this process has open.
#[expect(clippy::disallowed_methods, reason = "asks the system what is open")]
fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("the list of descriptors").count()
}

fn batch(number: u64, length: usize) -> Vec<u8> {
    let mut batch = Builder::new(0);
    let mut payload = number.to_le_bytes().to_vec();
    payload.resize(length.max(8), 7);
    batch.push(u128::from(number), 0, &payload, b"").expect("a message");
    batch.finish()
}

fn create_topic(log: &Log, options: &TopicOptions, partitions: u32) -> TopicId {
    let stream = log.create_stream(None, "stream").expect("a stream");
    log.create_topic(stream, None, "topic", options, partitions).expect("a topic")
}

/// Returns the number of the message at this offset.
fn number_at(partition: &Partition, offset: u64) -> u64 {
    let polled = partition.poll(Strategy::Offset(offset), 1).expect("a poll");
    let message = polled.messages().next().expect("a message").expect("a message");
    assert_eq!(message.offset, offset);
    u64::from_le_bytes(message.payload[..8].try_into().expect("8 bytes"))
}

/// Regression test: a partition of 400 segments could not be read by a process that may have 300
/// files open.
#[test]
fn consumers_read_more_segments_than_files_may_be_open() {
    const SEGMENTS: u64 = 400;
    let directory = tempfile::tempdir().expect("a directory");
    let _limit = Limit::new(300);
    let options = LogOptions::new().with_tail_memory(TailMemory::Private);
    let options = options.with_read_ahead_bytes_max(4 << 20).with_tail_bytes_max(4 << 20);
    let log = Log::open(directory.path(), &options).expect("the log opens");
    let topic_options =
        TopicOptions::new().with_segment_bytes(64 << 10).with_durability(Durability::Memory);
    let id = create_topic(&log, &topic_options, 1);
    let partition = log.partition(id.partition(0)).expect("a partition");
    for number in 0..SEGMENTS {
        drop(partition.append(&batch(number, 50_000)).expect("an append"));
    }
    partition.flush(false).wait().expect("a flush");
    assert_eq!(partition.stats().segments, SEGMENTS as usize);
    // Many consumers catch up, each with another order of the segments.
    std::thread::scope(|scope| {
        for consumer in 0..60 {
            let partition = &partition;
            scope.spawn(move || {
                for step in 0..SEGMENTS {
                    let offset = (step * (2 * consumer + 1) + consumer) % SEGMENTS;
                    assert_eq!(number_at(partition, offset), offset);
                }
            });
        }
    });
    // Nothing is left for other code, and the log makes do with what it has.
    let taken = take_all_descriptors();
    for offset in 0..SEGMENTS {
        assert_eq!(number_at(&partition, offset), offset);
    }
    drop(partition.append(&batch(SEGMENTS, 50_000)).expect("an append"));
    partition.flush(true).wait().expect("a flush");
    drop(taken);
    assert_eq!(number_at(&partition, SEGMENTS), SEGMENTS);
    log.close().expect("the log closes");
}

/// Regression test: with more partitions than open files, appends were acknowledged and then lost,
/// and the log could not be opened again under the same limit.
#[test]
fn more_partitions_are_appended_to_than_files_may_be_open() {
    const PARTITIONS: u32 = 600;
    let directory = tempfile::tempdir().expect("a directory");
    let _limit = Limit::new(150);
    let topic_options = TopicOptions::new().with_save_interval_us(100_000);
    let mut id = None;
    for process in 0..3 {
        let log = Log::open(directory.path(), &LogOptions::new()).expect("the log opens");
        let id = *id.get_or_insert_with(|| create_topic(&log, &topic_options, PARTITIONS));
        for partition in 0..PARTITIONS {
            let partition = log.partition(id.partition(partition)).expect("a partition");
            let appended = partition.append(&batch(process, 100)).expect("an append");
            appended.ticket.wait().expect("an acknowledgement");
        }
        assert!(open_descriptors() <= 150);
        for partition in 0..PARTITIONS {
            let partition = log.partition(id.partition(partition)).expect("a partition");
            assert_eq!(number_at(&partition, process), process);
            assert!(partition.failure().is_none());
        }
        if process == 1 {
            // Without descriptors, the messages of the next process are only in shared memory.
            let taken = take_all_descriptors();
            for partition in 0..PARTITIONS {
                let partition = log.partition(id.partition(partition)).expect("a partition");
                assert_eq!(number_at(&partition, 0), 0);
            }
            drop(taken);
        }
        log.close().expect("the log closes");
    }
    let log = Log::open(directory.path(), &LogOptions::new()).expect("the log opens");
    for partition in 0..PARTITIONS {
        let partition = log.partition(id.expect("a topic").partition(partition));
        let partition = partition.expect("a partition");
        assert_eq!(partition.stats().end_offset, 3);
        assert_eq!(number_at(&partition, 2), 2);
    }
}

/// Regression test: other code in the process used all descriptors for a while. From then on,
/// partitions refused appends, and messages that were acknowledged later were lost.
#[test]
fn partitions_go_on_when_other_code_returns_its_descriptors() {
    let directory = tempfile::tempdir().expect("a directory");
    let _limit = Limit::new(200);
    let topic_options = TopicOptions::new().with_save_interval_us(10_000);
    let log = Log::open(directory.path(), &LogOptions::new()).expect("the log opens");
    let id = create_topic(&log, &topic_options, 100);
    let partitions: Vec<Arc<Partition>> = log.partitions();
    let mut taken = take_all_descriptors();
    for partition in &partitions {
        // The append may wait until there is a descriptor for its shared memory.
        match partition.try_append(&batch(0, 100)) {
            Ok(appended) => appended.ticket.wait().expect("an acknowledgement"),
            Err(_) => {
                taken.pop();
                let appended = partition.append(&batch(0, 100)).expect("an append");
                appended.ticket.wait().expect("an acknowledgement");
            }
        }
    }
    // Gives the persisters time to try to open files.
    std::thread::sleep(std::time::Duration::from_millis(300));
    drop(taken);
    for partition in &partitions {
        let appended = partition.append(&batch(1, 100)).expect("an append");
        appended.ticket.wait().expect("an acknowledgement");
        partition.flush(true).wait().or_else(|_| partition.flush(true).wait()).expect("a flush");
        assert!(partition.failure().is_none());
    }
    log.close().expect("the log closes");
    drop((partitions, log));
    let log = Log::open(directory.path(), &LogOptions::new()).expect("the log opens");
    for partition in 0..100 {
        let partition = log.partition(id.partition(partition)).expect("a partition");
        assert_eq!([number_at(&partition, 0), number_at(&partition, 1)], [0, 1]);
    }
}
