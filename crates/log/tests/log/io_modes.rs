//! Checks, at the simulated storage, in which I/O mode segments are opened, which writes to them
//! are durable when they return, and what the log does if direct I/O is refused or loses data.
//! [`crate::kernel_modes`] checks the same at the kernel.

use std::path::Path;
use std::sync::{Arc, Mutex};

use tailwater_io::sim::{SimStorage, WriteCall};
use tailwater_io::{DescriptorBudget, IoMode, Purpose};
use tailwater_log::{
    Durability, ErrorKind, IoModeChoice, Log, LogOptions, PartialBlocks, Partition, Strategy,
    TopicId,
};

use crate::common::{DIRECTORY, Machine, batch, read_all, topic};

const PARTITIONS: u32 = 30;
/// Number of appends to each partition by the first process. Each takes a block, so that they fill
/// a segment, which is then rewritten without its gaps.
const APPENDS: u64 = 18;
/// Number of descriptors, which are too few to keep a file of each partition open.
const DESCRIPTORS: usize = 60;
const FAULT: &str = "direct writes are lost on this kernel";

fn is_segment(path: &Path) -> bool {
    let name = path.to_string_lossy();
    name.ends_with(".log") || name.ends_with(".log.tmp")
}

/// Returns the writes to segments.
fn segment_writes(storage: &SimStorage) -> Vec<WriteCall> {
    storage.writes().into_iter().filter(|write| is_segment(&write.path)).collect()
}

fn options(machine: &Machine, append: IoModeChoice, read: IoModeChoice) -> LogOptions {
    machine
        .options()
        .with_append_io_mode(append)
        .with_read_io_mode(read)
        .with_descriptor_budget(DescriptorBudget::new(DESCRIPTORS))
}

/// Appends to all partitions of a topic, in turn.
fn append(log: &Log, topic: TopicId, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let partitions = (0..PARTITIONS).map(|id| topic.partition(id));
        let tickets = partitions.map(|id| {
            let partition = log.partition(id).expect("a partition");
            partition.append(&batch(number..number + 1, 900)).expect("an append").ticket
        });
        let tickets: Vec<_> = tickets.collect();
        log.run_pending();
        tickets.into_iter().for_each(|ticket| ticket.wait().expect("an acknowledgement"));
    }
}

fn assert_holds(log: &Log, topic: TopicId, count: u64) {
    let expected: Vec<(u64, u64)> = (0..count).map(|number| (number, number)).collect();
    for id in 0..PARTITIONS {
        let partition = log.partition(topic.partition(id)).expect("a partition");
        assert_eq!(read_all(&partition), expected, "partition {id}");
    }
}

/// Uses the segments of a log in every way: creates, fills, rewrites, continues and polls them, and
/// closes and opens their files to stay within the limit of descriptors. Checks that they are
/// opened and written in the mode `append`, and read in the mode `read`.
fn check_modes(machine: &Machine, options: &LogOptions, [append_mode, read_mode]: [IoMode; 2]) {
    machine.storage.start_recording();
    let log = Log::open(DIRECTORY, options).expect("the log opens");
    assert_eq!(log.open_report().modes.append, append_mode.name());
    assert_eq!(log.open_report().modes.read, read_mode.name());
    let stream = log.create_stream(None, "stream").expect("a stream");
    let topic_options = topic(Durability::Disk, PartialBlocks::Pad);
    let topic = log.create_topic(stream, None, "t", &topic_options, PARTITIONS).expect("a topic");
    append(&log, topic, 0..APPENDS);
    log.close().expect("the log closes");
    drop(log);
    let log = Log::open(DIRECTORY, options).expect("the log opens");
    append(&log, topic, APPENDS..APPENDS + 2);
    assert_holds(&log, topic, APPENDS + 2);
    // A power cut shows whether the acknowledged appends were durable in this mode.
    let storage = Arc::new(machine.storage.crash_image(1));
    let left = Machine { storage, memory: None, boot: 2 };
    assert_holds(&left.open_as(options), topic, APPENDS + 2);

    let (mut written, mut rewritten, mut read) = (0, 0, 0);
    for opening in machine.storage.openings() {
        if !is_segment(&opening.path) {
            // Only the trial of a mode opens another file in that mode.
            let is_trial = opening.purpose == Purpose::Metadata;
            assert!(opening.mode == IoMode::Buffered || is_trial, "{opening:?}");
            continue;
        }
        let is_append = opening.purpose == Purpose::LogAppend;
        assert!(is_append || opening.purpose == Purpose::LogRead, "{opening:?}");
        let mode = if is_append { append_mode } else { read_mode };
        assert_eq!(opening.mode, mode, "{opening:?}");
        read += u32::from(!is_append);
        rewritten += u32::from(opening.path.extension().is_some_and(|it| it == "tmp"));
        written += u32::from(is_append);
    }
    assert!(rewritten > 0, "no segment was rewritten");
    assert!(read > 0, "no segment was read");
    // Two segments of each partition were created, and one was continued.
    assert!(written > 3 * PARTITIONS + rewritten, "no file was closed and opened again: {written}");
    for write in segment_writes(&machine.storage) {
        assert_eq!(write.mode, append_mode, "{write:?}");
    }
}

impl Machine {
    fn open_as(&self, options: &LogOptions) -> Log {
        let options = options.clone().with_storage(Arc::clone(&self.storage) as Arc<_>);
        Log::open(DIRECTORY, &options).expect("the log opens")
    }
}

#[test]
fn segments_are_opened_and_written_in_the_configured_mode() {
    use IoModeChoice::{Auto, Buffered, Direct};
    for (append, read, modes) in [
        (Direct, Direct, [IoMode::Direct, IoMode::Direct]),
        (Auto, Auto, [IoMode::Direct, IoMode::Direct]),
        (Direct, Buffered, [IoMode::Direct, IoMode::Buffered]),
        (Buffered, Direct, [IoMode::Buffered, IoMode::Direct]),
        (Buffered, Buffered, [IoMode::Buffered, IoMode::Buffered]),
    ] {
        let machine = Machine::new(1, false);
        check_modes(&machine, &options(&machine, append, read), modes);
    }
}

#[test]
fn a_filesystem_without_direct_io_is_written_and_read_through_the_page_cache() {
    let machine = Machine::new(2, false);
    machine.storage.refuse_direct(DIRECTORY.as_ref());
    for (append, read, option) in [
        (IoModeChoice::Direct, IoModeChoice::Auto, "append_io_mode=direct"),
        (IoModeChoice::Auto, IoModeChoice::Direct, "read_io_mode=direct"),
    ] {
        let refused = Log::open(DIRECTORY, &options(&machine, append, read));
        let error = refused.expect_err("direct I/O is required");
        assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
        let message = error.to_string();
        assert!(message.contains(option) && message.contains(DIRECTORY), "{message}");
    }
    let options = options(&machine, IoModeChoice::Auto, IoModeChoice::Auto);
    check_modes(&machine, &options, [IoMode::Buffered; 2]);
}

#[test]
fn a_kernel_that_loses_direct_writes_is_asked_for_buffered_ones() {
    let machine = Machine::new(3, false);
    machine.storage.set_direct_write_fault(FAULT);
    let direct = options(&machine, IoModeChoice::Direct, IoModeChoice::Auto);
    let error = Log::open(DIRECTORY, &direct).expect_err("direct writes are required");
    assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
    let message = error.to_string();
    assert!(message.contains(FAULT) && message.contains("append_io_mode=direct"), "{message}");
    // Reads are not affected.
    let auto = options(&machine, IoModeChoice::Auto, IoModeChoice::Direct);
    check_modes(&machine, &auto, [IoMode::Buffered, IoMode::Direct]);
}

#[test]
fn a_fallback_is_reported_with_its_reason() {
    let warnings = |prepare: &dyn Fn(&SimStorage), choice| {
        let machine = Machine::new(4, false);
        prepare(&machine.storage);
        let log = Log::open(DIRECTORY, &options(&machine, choice, choice)).expect("the log opens");
        let report = log.open_report();
        report.warnings.iter().filter(|it| it.contains("page cache")).cloned().collect::<Vec<_>>()
    };
    let refuses = |storage: &SimStorage| storage.refuse_direct(DIRECTORY.as_ref());
    let found = warnings(&refuses, IoModeChoice::Auto);
    assert_eq!(found.len(), 2, "{found:?}");
    for (warning, what) in found.iter().zip(["append", "read"]) {
        let is_complete = [what, DIRECTORY, "simulated", "refuses direct I/O"];
        assert!(is_complete.iter().all(|part| warning.contains(part)), "{warning}");
    }
    let loses = |storage: &SimStorage| storage.set_direct_write_fault(FAULT);
    let found = warnings(&loses, IoModeChoice::Auto);
    assert!(found.len() == 1 && found[0].contains(FAULT), "{found:?}");
    assert!(found[0].contains("append"), "{found:?}");
    assert_eq!(warnings(&refuses, IoModeChoice::Buffered), [""; 0]);
    assert_eq!(warnings(&|_| (), IoModeChoice::Auto), [""; 0]);
}

/// Regression test: direct I/O was tried in the log's directory, so that no segment could be opened
/// in a directory of streams on a filesystem without direct I/O.
#[test]
fn direct_io_is_tried_where_the_segments_are() {
    let machine = Machine::new(6, false);
    let options = options(&machine, IoModeChoice::Auto, IoModeChoice::Auto);
    let log = Log::open(DIRECTORY, &options).expect("the log opens");
    let stream = log.create_stream(None, "stream").expect("a stream");
    let topic = topic(Durability::Disk, PartialBlocks::Pad);
    let id = log.create_topic(stream, None, "t", &topic, PARTITIONS).expect("a topic");
    append(&log, id, 0..5);
    log.close().expect("the log closes");
    drop(log);
    machine.storage.refuse_direct(format!("{DIRECTORY}/streams").as_ref());
    let log = Log::open(DIRECTORY, &options).expect("the log opens");
    let warnings = &log.open_report().warnings;
    assert!(warnings.iter().any(|it| it.contains("streams")), "{warnings:?}");
    append(&log, id, 5..10);
    assert_holds(&log, id, 10);
}

#[test]
fn a_log_continues_in_another_mode() {
    let machine = Machine::new(5, false);
    let mut topic_id = None;
    for round in 0..6_u64 {
        let choice = [IoModeChoice::Direct, IoModeChoice::Buffered][round as usize % 2];
        let read = [IoModeChoice::Buffered, IoModeChoice::Direct][round as usize / 2 % 2];
        let log = Log::open(DIRECTORY, &options(&machine, choice, read)).expect("the log opens");
        let topic = *topic_id.get_or_insert_with(|| {
            let stream = log.create_stream(None, "stream").expect("a stream");
            let options = topic(Durability::Disk, PartialBlocks::Carry);
            log.create_topic(stream, None, "t", &options, PARTITIONS).expect("a topic")
        });
        append(&log, topic, 5 * round..5 * (round + 1));
        assert_holds(&log, topic, 5 * (round + 1));
        log.close().expect("the log closes");
    }
}

/// Appends batches of several sizes, and checks the last write to a segment before each is
/// acknowledged or, on a topic that acknowledges earlier, before a flush that does not sync ends.
fn check_durability(machine: &Machine, log: &Log, partition: &Partition, is_durable: bool) {
    let acknowledges_written = partition.stats().unpersisted_messages == 0;
    assert!(acknowledges_written, "an earlier flush has ended");
    for length in [100, 900, 20_000, 300_000] {
        let seen: Arc<Mutex<Vec<Option<WriteCall>>>> = Arc::default();
        let note = || {
            let (seen, storage) = (Arc::clone(&seen), Arc::clone(&machine.storage));
            move |outcome: tailwater_log::Result<()>| {
                outcome.expect("persisted");
                seen.lock().expect("no panic").push(segment_writes(&storage).pop());
            }
        };
        machine.storage.start_recording();
        let ticket = partition.append(&batch(0..1, length)).expect("an append").ticket;
        if !ticket.is_complete() {
            ticket.on_complete(note());
        }
        partition.flush(false).on_complete(note());
        log.run_pending();
        let seen = std::mem::take(&mut *seen.lock().expect("no panic"));
        assert!(!seen.is_empty());
        for write in seen {
            let write = write.expect("a write before the acknowledgement");
            assert!(write.length >= length as u64, "{write:?}");
            assert_eq!(write.is_durable, is_durable, "{write:?}");
        }
        assert!(partition.poll(Strategy::Last, 1).expect("a poll").count == 1);
    }
}

#[test]
fn a_write_is_durable_exactly_if_the_topic_or_the_log_requires_it() {
    for syncs_appends in [false, true] {
        for durability in [Durability::Memory, Durability::Process, Durability::Disk] {
            for mode in [IoModeChoice::Direct, IoModeChoice::Buffered] {
                let is_durable = syncs_appends || durability == Durability::Disk;
                let machine = Machine::new(6, false);
                let log_options = options(&machine, mode, mode).with_syncs_appends(syncs_appends);
                let open = || Log::open(DIRECTORY, &log_options).expect("the log opens");
                let log = open();
                let expected = if syncs_appends { "dsync" } else { "topic" };
                assert_eq!(log.open_report().modes.append_sync, expected);
                let stream = log.create_stream(None, "stream").expect("a stream");
                let topic_options =
                    topic(durability, PartialBlocks::Pad).with_segment_bytes(1 << 20);
                let topic = log.create_topic(stream, None, "t", &topic_options, 1);
                let topic = topic.expect("a topic");
                let partition = log.partition(topic.partition(0)).expect("a partition");
                check_durability(&machine, &log, &partition, is_durable);
                log.close().expect("the log closes");
                drop((partition, log));
                // Continues the segment.
                let log = open();
                let partition = log.partition(topic.partition(0)).expect("a partition");
                check_durability(&machine, &log, &partition, is_durable);
                // From now on, writes are durable, in this segment and in later ones.
                let disk = topic_options.clone().with_durability(Durability::Disk);
                log.update_topic(topic, "t", &disk).expect("an update");
                for _ in 0..3 {
                    check_durability(&machine, &log, &partition, true);
                }
                assert!(partition.stats().segments > 1);
                log.close().expect("the log closes");
            }
        }
    }
}
