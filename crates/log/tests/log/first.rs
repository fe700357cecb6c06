//! The log as a new user sees it: on a real disk, with its threads.

use std::path::Path;

use crate::common::{Machine, batch, messages, read_all, topic};
use tailwater_io::posix::PosixStorage;
use tailwater_io::{Create, IoMode, Purpose, Storage};
use tailwater_log::{
    Consumer, Durability, ErrorKind, Log, LogOptions, PartialBlocks, Strategy, TailMemory,
    TopicOptions,
};
use tailwater_testkit::filesystem::say;

fn all_options() -> Vec<TopicOptions> {
    let mut all = Vec::new();
    for durability in [Durability::Memory, Durability::Process, Durability::Disk] {
        for partial in [PartialBlocks::Pad, PartialBlocks::Carry] {
            all.push(crate::common::topic(durability, partial));
        }
    }
    all
}

#[test]
fn messages_are_there_when_the_log_is_opened_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let topics = {
        let log = Log::open(directory.path(), &LogOptions::default()).expect("the log opens");
        let stream = log.create_stream(None, "shop").expect("a stream");
        let mut topics = Vec::new();
        for (index, options) in all_options().into_iter().enumerate() {
            let name = format!("topic-{index}");
            let topic = log.create_topic(stream, None, &name, &options, 2).expect("a topic");
            for number in 0..2 {
                let partition = log.partition(topic.partition(number)).expect("a partition");
                for round in 0..40 {
                    let numbers = round * 10..round * 10 + 10;
                    let appended = partition.append(&batch(numbers, 400)).expect("an append");
                    assert_eq!(appended.base_offset, round * 10);
                    appended.ticket.wait().expect("an acknowledgement");
                }
                let stored = log.store_offset(partition.id(), Consumer::Group(7), 123);
                stored.expect("an offset").wait().expect("a stored offset");
            }
            topics.push(topic);
        }
        log.close().expect("the log closes");
        topics
    };
    let log = Log::open(directory.path(), &LogOptions::default()).expect("the log reopens");
    assert_eq!(log.open_report().partitions.len(), 0, "{:?}", log.open_report());
    for topic in topics {
        for number in 0..2 {
            let partition = log.partition(topic.partition(number)).expect("a partition");
            let expected: Vec<(u64, u64)> = (0..400).map(|number| (number, number)).collect();
            assert_eq!(read_all(&partition), expected);
            let last = partition.poll(Strategy::Last, 3).expect("a poll");
            assert_eq!(messages(&last), [(397, 397), (398, 398), (399, 399)]);
            assert_eq!(
                log.offset(partition.id(), Consumer::Group(7)).expect("an offset"),
                Some(123)
            );
            assert_eq!(log.offset(partition.id(), Consumer::Single(7)).expect("an offset"), None);
        }
    }
}

#[test]
fn opening_refuses_a_log_in_use_and_a_directory_with_other_files() {
    let directory = tempfile::tempdir().expect("a directory");
    let options = LogOptions::new().with_tail_memory(TailMemory::Private);
    let log = Log::open(directory.path(), &options).expect("the log opens");
    let error = Log::open(directory.path(), &options).expect_err("the log is open");
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    drop(log);
    drop(Log::open(directory.path(), &options).expect("the log opens"));
    let other = tempfile::tempdir().expect("a directory");
    let file = other.path().join("state.log");
    PosixStorage::new()
        .create(&file, Create::New, IoMode::Buffered, Purpose::Metadata)
        .expect("a file");
    let error = Log::open(other.path(), &options).expect_err("another program's directory");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("'state.log'"), "{error}");
}

/// Checks that a mistyped path does not become an empty log if the caller expects an existing one.
#[test]
fn opening_creates_nothing_if_the_log_must_exist() {
    let machine = Machine::new(1, true);
    let create = |path: &str| {
        let (path, mode) = (Path::new(path), IoMode::Buffered);
        machine.storage.create(path, Create::New, mode, Purpose::Metadata).expect("a file");
    };
    machine.storage.create_directory("/empty".as_ref()).expect("a directory");
    machine.storage.create_directory("/other".as_ref()).expect("a directory");
    create("/other/file");
    let options = machine.options().with_create_if_missing(false);
    for directory in ["/empty", "/other", "/missing", "/missing/log"] {
        let error = Log::open(directory, &options).expect_err("there is no log");
        assert_eq!(error.kind(), ErrorKind::NotFound, "{directory}: {error}");
        assert!(error.to_string().contains("has no message log"), "{error}");
    }
    let names = |directory: &str| -> Vec<String> {
        let entries = machine.storage.list(directory.as_ref()).expect("a list");
        entries.into_iter().map(|entry| entry.name).collect()
    };
    assert_eq!((names("/empty").len(), names("/other")), (0, vec!["file".to_owned()]));
    machine.storage.list("/missing".as_ref()).expect_err("nothing was created");
    machine.open().create_stream(None, "s").expect("a stream");
    let log = Log::open(crate::common::DIRECTORY, &options).expect("the log opens");
    assert_eq!(log.streams().len(), 1);
}

#[test]
fn the_pieces_of_a_poll_say_what_they_contain() {
    let machine = crate::common::Machine::new(1, false);
    let log = machine.open();
    let stream = log.create_stream(None, "s").expect("a stream");
    let options = crate::common::topic(Durability::Memory, PartialBlocks::Pad);
    let topic = log.create_topic(stream, None, "t", &options, 1).expect("a topic");
    let partition = log.partition(topic.partition(0)).expect("a partition");
    partition.append(&batch(0..2, 100)).expect("an append").ticket.wait().expect("in memory");
    partition.append(&batch(2..5, 100)).expect("an append").ticket.wait().expect("in memory");
    // One whole batch, and the first message of the next.
    let polled = partition.poll(Strategy::First, 3).expect("a poll");
    let kinds: Vec<_> =
        polled.pieces.iter().map(|piece| (piece.is_header(), piece.is_in_tail())).collect();
    assert_eq!(kinds, [(false, true), (true, false), (false, true)]);
    assert_eq!(polled.pieces[0][..], *polled.pieces[0].as_ref());
    assert_eq!(polled.pieces.iter().map(|piece| piece.len()).sum::<usize>(), polled.length());
    assert_eq!(messages(&polled), [(0, 0), (1, 1), (2, 2)]);
    log.close().expect("the log closes");
    drop((partition, log));
    let log = machine.open();
    let partition = log.partition(topic.partition(0)).expect("a partition");
    let polled = partition.poll(Strategy::First, 5).expect("a poll");
    assert!(polled.pieces.iter().all(|piece| !piece.is_header() && !piece.is_in_tail()));
    assert_eq!(messages(&polled).len(), 5);
}

#[test]
fn messages_are_found_by_timestamp() {
    let machine = crate::common::Machine::new(1, true);
    let log = machine.open();
    let clock = machine.storage.clock();
    let stream = log.create_stream(None, "s").expect("a stream");
    let options = crate::common::topic(Durability::Process, PartialBlocks::Pad);
    let topic = log.create_topic(stream, None, "t", &options, 1).expect("a topic");
    let partition = log.partition(topic.partition(0)).expect("a partition");
    let mut times = Vec::new();
    for number in 0..300 {
        clock.advance(1_000_000);
        let appended = partition.try_append(&batch(number..number + 1, 1000)).expect("an append");
        times.push(appended.timestamp_us);
        if number % 7 == 0 {
            partition.flush(false).on_complete(|outcome| outcome.expect("a persisted batch"));
            log.run_pending();
        }
    }
    for log in [log] {
        for (offset, time) in times.iter().enumerate() {
            for (at, expected) in [(*time, offset), (*time - 1, offset), (*time + 1, offset + 1)] {
                let polled = partition.poll(Strategy::Timestamp(at), 1).expect("a poll");
                let found = messages(&polled).first().map(|(offset, _)| *offset as usize);
                assert_eq!(found, (expected < 300).then_some(expected), "time {at}");
            }
        }
        log.close().expect("the log closes");
    }
    let log = machine.open();
    let partition = log.partition(topic.partition(0)).expect("a partition");
    for (offset, time) in times.iter().enumerate() {
        for (at, expected) in [(*time, offset), (*time - 1, offset), (*time + 1, offset + 1)] {
            let polled = partition.poll(Strategy::Timestamp(at), 1).expect("a poll");
            let found = messages(&polled).first().map(|(offset, _)| *offset as usize);
            assert_eq!(found, (expected < 300).then_some(expected), "time {at}");
        }
    }
}

#[test]
fn modes_are_reported_for_each_purpose() {
    let machine = crate::common::Machine::new(1, true);
    let options = machine.options().with_syncs_appends(true);
    let log = Log::open(crate::common::DIRECTORY, &options).expect("the log opens");
    let modes = log.modes();
    assert_eq!((modes.append, modes.append_sync, modes.read), ("direct", "dsync", "direct"));
    assert_eq!((modes.index, modes.offsets), ("buffered", "buffered"));
    assert_eq!((modes.tail, modes.block), ("shared memory", 4096));
    assert_eq!(&log.open_report().modes, modes);
}

#[test]
fn the_memory_of_tails_is_sized_automatically_by_default() {
    let directory = tempfile::tempdir().expect("a directory");
    let options = LogOptions::new().with_tail_memory(TailMemory::Private);
    let log = Log::open(directory.path(), &options).expect("the log opens");
    let (used, limit) = log.tail_memory();
    assert!(used == 0 && (64 << 20..=1 << 30).contains(&limit), "{used} of {limit} bytes");
    log.close().expect("the log closes");
}

/// The process of a log died, and the log's directory was deleted. The log's shared memory is left
/// over, and the next log that is opened must warn about it.
#[test]
fn shared_memory_of_a_deleted_log_is_reported() {
    let Ok(shared) = tempfile::tempdir_in("/dev/shm") else {
        return say("LEFT OUT: shared memory of a deleted log: there is no /dev/shm");
    };
    let options = LogOptions::new()
        .with_tail_memory(TailMemory::Directory(shared.path().to_owned()))
        .with_persisters(0);
    let gone = tempfile::tempdir().expect("a directory");
    let gone_path = gone.path().canonicalize().expect("a path");
    let log = match Log::open(gone.path(), &options) {
        Err(error) if error.kind() == ErrorKind::NotSupported => {
            return say(&format!("LEFT OUT: shared memory of a deleted log: {error}"));
        }
        log => log.expect("the log opens"),
    };
    let stream = log.create_stream(None, "s").expect("a stream");
    let topic = log.create_topic(stream, None, "t", &TopicOptions::default(), 1).expect("a topic");
    let partition = log.partition(topic.partition(0)).expect("a partition");
    partition
        .append(&batch(0..1, 100))
        .expect("an append")
        .ticket
        .wait()
        .expect("an acknowledgement");
    // The log is leaked instead of closed, so that its shared memory stays, as after the death of a
    // process.
    std::mem::forget(log);
    let directory = tempfile::tempdir().expect("a directory");
    let other = Log::open(directory.path(), &options).expect("the log opens");
    assert_eq!(other.open_report().warnings, [""; 0]);
    other.close().expect("the log closes");
    gone.close().expect("the log closes");
    let other = Log::open(directory.path(), &options).expect("the log opens");
    let warnings = &other.open_report().warnings;
    let gone_path = gone_path.display().to_string();
    assert!(warnings.len() == 1 && warnings[0].contains(&gone_path), "{warnings:?}");
    other.close().expect("the log closes");
}

/// One poll returns messages from several segments, and then from the tail in memory.
#[test]
fn a_poll_crosses_segments_and_the_tail() {
    let machine = Machine::new(1, true);
    let log = machine.open();
    let stream = log.create_stream(None, "s").expect("a stream");
    let options = topic(Durability::Process, PartialBlocks::Pad);
    let id = log.create_topic(stream, None, "t", &options, 1).expect("a topic");
    let append = |log: &Log, numbers: std::ops::Range<u64>, length| {
        let partition = log.partition(id.partition(0)).expect("a partition");
        partition.append(&batch(numbers, length)).expect("an append");
        log.run_pending();
    };
    // Segments have 64 KiB, so each of these batches begins a segment.
    (0..4).for_each(|number| append(&log, number..number + 1, 40 << 10));
    log.close().expect("the log closes");
    drop(log);
    let log = machine.open();
    append(&log, 4..6, 100);
    let partition = log.partition(id.partition(0)).expect("a partition");
    let poll = |strategy, count| {
        let polled = partition.poll(strategy, count).expect("a poll");
        messages(&polled).into_iter().map(|(offset, _)| offset).collect::<Vec<_>>()
    };
    assert_eq!(poll(Strategy::First, 100), [0, 1, 2, 3, 4, 5]);
    assert_eq!(poll(Strategy::Offset(1), 4), [1, 2, 3, 4]);
    assert_eq!(poll(Strategy::Last, 3), [3, 4, 5]);
}
