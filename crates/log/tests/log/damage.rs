//! Checks that damaged, truncated, missing and copied files lead to clear errors, and that only the
//! affected partition is impaired.

use std::path::Path;
use std::sync::Arc;

use crate::common::{Machine, batch, messages, read_all, topic};
use tailwater_format::message::name::{FileName, Kind};
use tailwater_io::sim::{Fault, FaultPlan, FaultRule, SimStorage};
use tailwater_io::{Create, IoMode, Operation, Purpose, SharedMemory, Storage};
use tailwater_log::inspect::{self, LogDirectory, Severity};
use tailwater_log::{
    Consumer, Durability, ErrorKind, Log, PartialBlocks, PartitionId, Strategy, TopicId,
    TopicOptions,
};

/// Creates and closes a log with one topic of two partitions, each with several segments.
fn filled(durability: Durability) -> (Machine, TopicId) {
    let machine = Machine::new(1, true);
    let log = machine.open();
    let stream = log.create_stream(None, "s").expect("a stream");
    let options = topic(durability, PartialBlocks::Pad).with_messages_required_to_save(10);
    let topic = log.create_topic(stream, None, "t", &options, 2).expect("a topic");
    for number in 0..2 {
        let partition = log.partition(topic.partition(number)).expect("a partition");
        for round in 0..60 {
            let numbers = round * 5..round * 5 + 5;
            drop(partition.try_append(&batch(numbers, 700)).expect("an append"));
            log.run_pending();
        }
    }
    log.close().expect("the log closes");
    (machine, topic)
}

fn directory(id: PartitionId) -> String {
    format!(
        "/log/streams/{}/topics/{}/partitions/{}.{}",
        id.stream, id.topic, id.partition, id.partition
    )
}

/// Returns the paths of a partition's files of one kind, in ascending order of their offsets.
pub(crate) fn files(storage: &SimStorage, id: PartitionId, kind: Kind) -> Vec<String> {
    let directory = directory(id);
    let entries = storage.list(Path::new(&directory)).expect("a list");
    let names = entries.into_iter().map(|entry| entry.name);
    let of_kind = |name: &String| FileName::parse(name).is_some_and(|name| name.kind == kind);
    names.filter(of_kind).map(|name| format!("{directory}/{name}")).collect()
}

pub(crate) fn read(storage: &SimStorage, path: &str) -> Vec<u8> {
    let file = storage.open(path.as_ref(), IoMode::Buffered, Purpose::LogRead).expect("a file");
    let mut bytes = vec![0; file.length().expect("a length") as usize];
    file.read_full_at(&mut bytes, 0, Purpose::LogRead).expect("bytes");
    bytes
}

pub(crate) fn write(storage: &SimStorage, path: &str, bytes: &[u8]) {
    let mode = IoMode::Buffered;
    let mut file =
        storage.create(path.as_ref(), Create::Truncate, mode, Purpose::LogAppend).expect("a file");
    file.write_all_at(bytes, 0, Purpose::LogAppend).expect("a write");
}

fn expected() -> Vec<(u64, u64)> {
    (0..300).map(|number| (number, number)).collect()
}

#[test]
fn reading_a_sealed_segment_detects_a_flipped_bit() {
    let (machine, topic) = filled(Durability::Process);
    let logs = files(&machine.storage, topic.partition(0), Kind::Log);
    assert!(logs.len() > 2);
    let whole = read(&machine.storage, &logs[0]);
    let mut detected = 0;
    for at in (0..whole.len()).step_by(whole.len() / 40) {
        let mut damaged = whole.clone();
        damaged[at] ^= 8;
        write(&machine.storage, &logs[0], &damaged);
        let log = machine.open();
        let partition = log.partition(topic.partition(0)).expect("a partition");
        let mut next = Strategy::First;
        let error = loop {
            // Batches before the damage can be read. The poll that begins at the damage fails.
            match partition.poll(next, 30) {
                Ok(polled) if polled.end_offset() > 50 => break None,
                Ok(polled) => {
                    assert_eq!(messages(&polled).len(), polled.count as usize);
                    next = Strategy::Offset(polled.end_offset());
                }
                Err(error) => break Some(error),
            }
        };
        // If the flipped bit is in a gap, no error is expected.
        if let Some(error) = error {
            assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
            assert_eq!(error.path(), Some(Path::new(&logs[0])));
            // The error's offset is the start of the damaged batch, which is about 4,000 bytes
            // long.
            let is_near = error.offset().is_some_and(|offset| offset.abs_diff(at as u64) < 4000);
            assert!(is_near, "{error} {at}");
            detected += 1;
        }
        // Later segments and the other partition can still be read.
        let later = partition.poll(Strategy::Offset(250), 10).expect("a poll");
        assert_eq!(later.first_offset, 250);
        let other = log.partition(topic.partition(1)).expect("a partition");
        assert_eq!(read_all(&other), expected());
        log.close().expect("the log closes");
    }
    assert!(detected > 10, "only {detected} flipped bits were detected");
}

#[test]
fn a_hole_in_the_last_segment_fences_only_its_partition() {
    for durability in [Durability::Disk, Durability::Process] {
        // The log is reopened in the same boot, so no completed write can be missing. A hole is
        // then damage, whatever the topic's durability.
        let (machine, topic) = filled(durability);
        let logs = files(&machine.storage, topic.partition(0), Kind::Log);
        let last = logs.last().expect("a segment").clone();
        // Append batches after those that will be damaged. Without intact batches after the damage,
        // recovery would treat the damage as a torn end and cut it off.
        let log = machine.open();
        let partition = log.partition(topic.partition(0)).expect("a partition");
        for round in 60..64 {
            let numbers = round * 5..round * 5 + 5;
            drop(partition.try_append(&batch(numbers, 700)).expect("an append"));
            log.run_pending();
        }
        let crashed = machine.storage.process_crash_image(1);
        let logs = files(&crashed, topic.partition(0), Kind::Log);
        let last = logs.last().unwrap_or(&last);
        let mut bytes = read(&crashed, last);
        let at = 100;
        bytes[at] ^= 1;
        write(&crashed, last, &bytes);
        let left = Machine { storage: Arc::new(crashed), memory: None, boot: 1 };
        let log = left.open();
        let (id, recovered) = &log.open_report().partitions[0];
        assert_eq!(*id, topic.partition(0));
        let fenced = recovered.fenced.clone().expect("a fenced partition");
        assert_eq!(fenced.kind(), ErrorKind::Corruption);
        assert_eq!(fenced.path(), Some(Path::new(last)), "{fenced}");
        let partition = log.partition(topic.partition(0)).expect("a partition");
        let error = partition.try_append(&batch(0..1, 10)).expect_err("appends are refused");
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        // The messages before the damage can be read.
        let found = read_all(&partition);
        assert!(!found.is_empty() && found == expected()[..found.len()]);
        let other = log.partition(topic.partition(1)).expect("a partition");
        assert_eq!(read_all(&other), expected());
        drop(other.try_append(&batch(0..1, 10)).expect("other partitions accept appends"));
        assert!(log.close().is_err(), "closing reports it");
        drop(log);
        // Opening the log has not changed the file. When the damaged bit is restored, the partition
        // is complete again.
        assert_eq!(read(&left.storage, last).len(), bytes.len());
        bytes[at] ^= 1;
        write(&left.storage, last, &bytes);
        let log = left.open();
        assert!(log.open_report().partitions.iter().all(|(_, found)| found.fenced.is_none()));
        let partition = log.partition(topic.partition(0)).expect("a partition");
        assert_eq!(read_all(&partition).len(), 320);
    }
}

/// Checks that a fenced (damaged) partition is left alone: retention does not remove its segments,
/// because the damaged file may still be restored.
#[test]
fn a_fenced_partition_is_not_trimmed() {
    let (machine, topic) = filled(Durability::Disk);
    let log = machine.open();
    let options = crate::common::topic(Durability::Disk, PartialBlocks::Pad)
        .with_message_expiry_us(1_000_000);
    log.update_topic(topic, "t", &options).expect("an update");
    let partition = log.partition(topic.partition(0)).expect("a partition");
    for round in 60..64 {
        drop(partition.try_append(&batch(round * 5..round * 5 + 5, 700)).expect("an append"));
        log.run_pending();
    }
    let crashed = machine.storage.process_crash_image(1);
    let logs = files(&crashed, topic.partition(0), Kind::Log);
    let last = logs.last().expect("a segment");
    let mut bytes = read(&crashed, last);
    bytes[100] ^= 1;
    write(&crashed, last, &bytes);
    let left = Machine { storage: Arc::new(crashed), memory: None, boot: 1 };
    for _ in 0..2 {
        let log = left.open();
        let partition = log.partition(topic.partition(0)).expect("a partition");
        assert!(partition.failure().is_some(), "a fenced partition");
        for _ in 0..5 {
            left.storage.clock().advance(100_000_000_000);
            log.run_pending();
            partition.retain().on_complete(|_| ());
            log.run_pending();
        }
        assert_eq!(files(&left.storage, topic.partition(0), Kind::Log), logs);
        let _ = log.close();
    }
}

/// Checks that recovery keeps a copy of the bytes after damage if partial blocks are carried, which
/// means that they are written again with later batches. Carried blocks have no trailers. Recovery
/// can therefore not distinguish damage in the middle from a torn end, and cuts the file at the
/// damage.
#[test]
fn bytes_after_damage_in_carried_blocks_are_kept() {
    let machine = Machine::new(1, false);
    let log = machine.open();
    let stream = log.create_stream(None, "s").expect("a stream");
    let options = crate::common::topic(Durability::Disk, PartialBlocks::Carry);
    let topic = log.create_topic(stream, None, "t", &options, 1).expect("a topic");
    let partition = log.partition(topic.partition(0)).expect("a partition");
    for round in 0..6 {
        drop(partition.try_append(&batch(round * 5..round * 5 + 5, 700)).expect("an append"));
        log.run_pending();
    }
    let crashed = machine.storage.process_crash_image(1);
    let logs = files(&crashed, topic.partition(0), Kind::Log);
    let mut bytes = read(&crashed, &logs[0]);
    bytes[10_000] ^= 1;
    write(&crashed, &logs[0], &bytes);
    let left = Machine { storage: Arc::new(crashed), memory: None, boot: 1 };
    let log = left.open();
    let (_, recovered) = &log.open_report().partitions[0];
    assert!(recovered.notes[0].contains("are kept in"), "{recovered:?}");
    let partition = log.partition(topic.partition(0)).expect("a partition");
    let count = read_all(&partition).len();
    assert!(count > 0 && count < 30, "{count}");
    let directory = directory(topic.partition(0));
    let entries = left.storage.list(Path::new(&directory)).expect("a list");
    let kept = entries.iter().find(|entry| entry.name.contains(".cut-")).expect("a copy");
    let at: usize = kept.name.rsplit('-').next().expect("a position").parse().expect("a number");
    assert_eq!(read(&left.storage, &format!("{directory}/{}", kept.name)), bytes[at..]);
}

/// Checks that only one partition is fenced (refuses appends) if the device cannot read its files.
#[test]
fn an_unreadable_partition_alone_is_fenced() {
    let (machine, topic) = filled(Durability::Process);
    let rule = FaultRule::new(Fault::InputOutput)
        .operation(Operation::Read)
        .path_containing(&directory(topic.partition(0)))
        .from(0);
    machine.storage.set_faults(FaultPlan::none().with(rule));
    let log = machine.open();
    let consumer = Consumer::Single(1);
    let broken = log.partition(topic.partition(0)).expect("a partition");
    assert_eq!(broken.failure().expect("a fenced partition").kind(), ErrorKind::Io);
    broken.try_append(&batch(0..1, 10)).expect_err("appends are refused");
    let other = log.partition(topic.partition(1)).expect("a partition");
    assert_eq!(read_all(&other), expected());
    log.store_offset(topic.partition(1), consumer, 7).expect("an offset").on_complete(|_| ());
    let _ = log.close();
    drop(log);
    machine.storage.set_faults(FaultPlan::none());
    let log = machine.open();
    assert_eq!(read_all(&log.partition(topic.partition(0)).expect("a partition")), expected());
    assert_eq!(log.offset(topic.partition(1), consumer).expect("a partition"), Some(7));
}

#[test]
fn a_truncated_sealed_segment_is_reported_with_the_missing_offset() {
    let (machine, topic) = filled(Durability::Process);
    let logs = files(&machine.storage, topic.partition(0), Kind::Log);
    let whole = read(&machine.storage, &logs[0]);
    write(&machine.storage, &logs[0], &whole[..whole.len() / 2]);
    let log = machine.open();
    let partition = log.partition(topic.partition(0)).expect("a partition");
    let mut next = 0;
    let error = loop {
        match partition.poll(Strategy::Offset(next), 100) {
            Ok(polled) => next = polled.end_offset(),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert_eq!(error.path(), Some(Path::new(&logs[0])), "{error}");
    assert!(next > 0 && next < 100, "{next}");
}

/// Regression test: if a segment file was lost while the log was open, a poll and a truncation
/// reported that the partition did not exist.
#[test]
fn a_segment_lost_while_the_log_is_open_is_damage() {
    let (machine, topic) = filled(Durability::Process);
    let logs = files(&machine.storage, topic.partition(0), Kind::Log);
    let log = machine.open();
    let partition = log.partition(topic.partition(0)).expect("a partition");
    machine.storage.remove(logs[0].as_ref()).expect("a removal");
    let error = partition.poll(Strategy::First, 1).expect_err("a lost segment");
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert_eq!(error.path(), Some(Path::new(&logs[0])), "{error}");
    // The next segment is opened for reading before it is lost.
    let offset = FileName::parse(logs[1].rsplit('/').next().expect("a name")).expect("a segment");
    let offset = offset.segment.base_offset;
    partition.poll(Strategy::Offset(offset), 1).expect("a poll");
    machine.storage.remove(logs[1].as_ref()).expect("a removal");
    let error = log.truncate(topic.partition(0), offset + 5).expect_err("a lost segment");
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    assert_eq!(error.path(), Some(Path::new(&logs[1])), "{error}");
}

/// Regression test: an append to a partition whose directory was lost while the log was open
/// reported that the partition did not exist.
#[test]
fn a_partition_whose_directory_is_lost_fails_with_an_io_error() {
    let (machine, topic) = filled(Durability::Process);
    let log = machine.open();
    let partition = log.partition(topic.partition(0)).expect("a partition");
    let directory = directory(topic.partition(0));
    for entry in machine.storage.list(directory.as_ref()).expect("a list") {
        machine.storage.remove(&Path::new(&directory).join(entry.name)).expect("a removal");
    }
    machine.storage.remove_directory(directory.as_ref()).expect("a removal");
    let refused = (0..100).find_map(|number| {
        log.run_pending();
        partition.try_append(&batch(number..number + 1, 9000)).err()
    });
    assert_eq!(refused.expect("the next segment cannot be created").kind(), ErrorKind::Io);
    let _ = log.close();
    drop((partition, log));
    let log = machine.open();
    let failure = log.partition(topic.partition(0)).expect("a partition").failure();
    assert_eq!(failure.expect("a missing directory").kind(), ErrorKind::Corruption);
}

#[test]
fn inspecting_a_directory_without_a_log_finds_none_and_creates_nothing() {
    let machine = Machine::new(1, false);
    let storage = || Arc::clone(&machine.storage) as Arc<dyn Storage>;
    machine.storage.create_directory("/empty".as_ref()).expect("a directory");
    for directory in ["/missing", "/empty"].map(Path::new) {
        let read = LogDirectory::read(storage(), directory).expect_err("there is no log");
        let compacted = inspect::compact(storage(), directory).expect_err("there is no log");
        for error in [read, compacted] {
            assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
            assert!(error.to_string().contains("has no message log"), "{error}");
        }
    }
    assert!(machine.storage.list("/empty".as_ref()).expect("a list").is_empty());
    machine.storage.list("/missing".as_ref()).expect_err("nothing was created");
}

#[test]
fn a_missing_or_damaged_index_is_rebuilt() {
    let (machine, topic) = filled(Durability::Process);
    let indexes = files(&machine.storage, topic.partition(0), Kind::Index);
    let original: Vec<Vec<u8>> = indexes.iter().map(|path| read(&machine.storage, path)).collect();
    let other = files(&machine.storage, topic.partition(1), Kind::Index);
    for change in 0..4 {
        for (path, bytes) in indexes.iter().zip(&original) {
            match change {
                0 => machine.storage.remove(path.as_ref()).expect("a removal"),
                1 => write(&machine.storage, path, &bytes[..bytes.len() / 2]),
                2 => write(&machine.storage, path, &vec![0xff; bytes.len()]),
                // Use an index of another partition. It does not fit, because the two partitions
                // have different incarnations.
                _ => write(&machine.storage, path, &read(&machine.storage, &other[0])),
            }
        }
        let log = machine.open();
        let partition = log.partition(topic.partition(0)).expect("a partition");
        assert_eq!(read_all(&partition), expected(), "change {change}");
        for offset in (0..300).step_by(17) {
            let polled = partition.poll(Strategy::Offset(offset), 1).expect("a poll");
            assert_eq!(polled.first_offset, offset);
        }
        log.close().expect("the log closes");
    }
}

#[test]
fn verification_names_damaged_files() {
    let (machine, topic) = filled(Durability::Process);
    let storage = Arc::clone(&machine.storage) as Arc<dyn Storage>;
    let verify = || {
        let log = LogDirectory::read(Arc::clone(&storage), Path::new("/log")).expect("a log");
        log.verify(|_| ())
    };
    let report = verify();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    assert_eq!((report.partitions, report.messages), (2, 600));
    let logs = files(&machine.storage, topic.partition(1), Kind::Log);
    let mut bytes = read(&machine.storage, &logs[1]);
    bytes[300] ^= 1;
    write(&machine.storage, &logs[1], &bytes);
    let report = verify();
    let damage: Vec<_> = report
        .findings
        .iter()
        .filter(|finding| finding.severity == Severity::Damage)
        .map(|finding| finding.error.path().map(Path::to_owned))
        .collect();
    assert_eq!(damage, [Some(Path::new(&logs[1]).to_owned())]);
    machine.storage.remove(logs[1].as_ref()).expect("a removal");
    let report = verify();
    let missing = report.findings.iter().any(|finding| {
        finding.severity == Severity::Damage && finding.error.to_string().contains("next segment")
    });
    assert!(missing, "{:?}", report.findings);
}

#[test]
fn opening_reads_no_message_of_sealed_segments() {
    let (machine, topic) = filled(Durability::Process);
    let logs = files(&machine.storage, topic.partition(0), Kind::Log);
    let last = files(&machine.storage, topic.partition(1), Kind::Log).pop();
    machine.storage.start_recording();
    let log = machine.open();
    let openings = machine.storage.openings();
    assert!(openings.iter().any(|opening| opening.path.to_string_lossy().ends_with(".log")));
    for opening in openings {
        let path = opening.path.to_string_lossy().into_owned();
        if path.ends_with(".log") && opening.purpose == Purpose::LogRead {
            let is_last = Some(&path) == logs.last() || Some(&path) == last.as_ref();
            assert!(is_last, "{path} was opened");
        }
    }
    let read = machine.storage.statistics().snapshot(Purpose::LogRead);
    let lengths: u64 = logs
        .iter()
        .map(|path| machine.storage.metadata(path.as_ref()).expect("a file").length)
        .sum();
    assert!(read.read_bytes < lengths, "{} of {lengths}", read.read_bytes);
    log.close().expect("the log closes");
}

#[test]
fn a_full_disk_refuses_appends_and_service_resumes() {
    use tailwater_io::sim::{Fault, FaultPlan, FaultRule};
    for durability in [Durability::Memory, Durability::Process, Durability::Disk] {
        let machine = Machine::new(1, true);
        let log = machine.open();
        let stream = log.create_stream(None, "s").expect("a stream");
        let options = topic(durability, PartialBlocks::Pad).with_messages_required_to_save(1);
        let topic = log.create_topic(stream, None, "t", &options, 1).expect("a topic");
        let partition = log.partition(topic.partition(0)).expect("a partition");
        drop(partition.try_append(&batch(0..5, 100)).expect("an append"));
        log.run_pending();
        let full = FaultRule::new(Fault::NoSpace).purpose(Purpose::LogAppend);
        machine.storage.set_faults(FaultPlan::none().with(full.from(0)));
        let appended = partition.try_append(&batch(5..10, 100)).expect("an append");
        log.run_pending();
        let is_there = durability != Durability::Disk;
        if is_there {
            appended.ticket.wait().expect("an acknowledgement");
            let error = partition.try_append(&batch(10..11, 100)).expect_err("there is no space");
            assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
            assert!(error.path().is_some(), "{error}");
        } else {
            let error = appended.ticket.wait().expect_err("no acknowledgement");
            assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
        }
        // Messages can still be read while the disk is full.
        assert_eq!(read_all(&partition).len(), if is_there { 10 } else { 5 });
        machine.storage.set_faults(FaultPlan::none());
        machine.storage.clock().advance(10_000_000_000);
        log.run_pending();
        let next = partition.stats().end_offset;
        assert_eq!(next, if is_there { 10 } else { 5 });
        let appended = partition.try_append(&batch(next..next + 5, 100)).expect("there is space");
        log.run_pending();
        appended.ticket.wait().expect("an acknowledgement");
        log.close().expect("the log closes");
        drop(log);
        let log = machine.open();
        let partition = log.partition(topic.partition(0)).expect("a partition");
        let found = read_all(&partition);
        assert_eq!(found, (0..next + 5).map(|number| (number, number)).collect::<Vec<_>>());
    }
}

/// Checks that the batches a dead process left in shared memory, which are acknowledged, stay there
/// until the disk has space. Later processes that die or close the log must not lose them, and
/// their offsets must not be reused.
#[test]
fn a_log_opened_on_a_full_disk_recovers_when_there_is_space() {
    let full = || FaultRule::new(Fault::NoSpace).operation(Operation::Write);
    for (durability, partial_blocks, after) in [
        (Durability::Process, PartialBlocks::Pad, 0),
        (Durability::Process, PartialBlocks::Pad, 1),
        (Durability::Process, PartialBlocks::Carry, 0),
        (Durability::Memory, PartialBlocks::Pad, 0),
        (Durability::Disk, PartialBlocks::Pad, 0),
    ] {
        let what = format!("{durability:?}, {partial_blocks:?}, full after {after} writes");
        let (mut machine, topic) = died_with_batches(partial_blocks, durability);
        let faults = || FaultPlan::none().with(full().purpose(Purpose::LogAppend).from(after));
        for is_closed in [false, true] {
            machine.storage.set_faults(faults());
            let log = machine.open();
            let partition = log.partition(topic.partition(0)).expect("a partition");
            let appended = partition.try_append(&batch(90..95, 100));
            let kind = appended.as_ref().err().map(|error| error.kind());
            assert_eq!(
                kind,
                Some(ErrorKind::NoSpace),
                "{what}: {appended:?}, {:?}",
                log.open_report()
            );
            // At least 200 of the 600 messages are in segments and can be read. The messages that
            // are not in segments are not visible.
            let found = read_all(&partition).len();
            assert!((200..600).contains(&found) || durability == Durability::Memory, "{what}");
            for ticket in [partition.flush(true), partition.truncate(550)] {
                log.run_pending();
                let error = ticket.wait().expect_err("not everything is persisted");
                assert_eq!(error.kind(), ErrorKind::NoSpace, "{what}: {error}");
            }
            assert_eq!(log.offset(topic.partition(0), Consumer::Single(1)).ok(), Some(Some(599)));
            if is_closed {
                log.close().expect_err("not everything is persisted");
            } else {
                let storage = Arc::new(machine.storage.process_crash_image(after));
                let memory = machine.memory.as_ref().map(|it| it.snapshot().expect("a copy"));
                machine = Machine { storage, memory, boot: 1 };
            }
        }
        machine.storage.set_faults(faults());
        let log = machine.open();
        machine.storage.set_faults(FaultPlan::none());
        machine.storage.clock().advance(10_000_000_000);
        log.run_pending();
        let partition = log.partition(topic.partition(0)).expect("a partition");
        assert_eq!(partition.failure().map(|error| error.to_string()), None, "{what}");
        let appended = partition.try_append(&batch(600..605, 100)).expect("there is space");
        log.run_pending();
        appended.ticket.wait().expect("an acknowledgement");
        assert!(machine.regions().len() <= 1, "{what}");
        log.close().expect("the log closes");
        drop(log);
        let log = machine.open();
        let partition = log.partition(topic.partition(0)).expect("a partition");
        let found = read_all(&partition);
        assert_eq!(found, (0..605).map(|number| (number, number)).collect::<Vec<_>>(), "{what}");
    }
}

/// Returns a machine whose process died with 200 messages in segments and 400 in shared memory. The
/// topic's durability was `process` when they were appended, and was changed to `then` just before
/// the process died.
fn died_with_batches(partial_blocks: PartialBlocks, then: Durability) -> (Machine, TopicId) {
    let machine = Machine::new(1, true);
    let log = machine.open();
    let stream = log.create_stream(None, "s").expect("a stream");
    let options = topic(Durability::Process, partial_blocks);
    let topic = log.create_topic(stream, None, "t", &options, 1).expect("a topic");
    let partition = log.partition(topic.partition(0)).expect("a partition");
    for first in (0..600).step_by(5) {
        drop(partition.try_append(&batch(first..first + 5, 700)).expect("an append"));
        if first == 195 {
            let flushed = partition.flush(true);
            log.run_pending();
            flushed.wait().expect("a flush");
        }
    }
    let id = topic.partition(0);
    drop(log.store_offset(id, Consumer::Single(1), 599).expect("an offset"));
    log.run_pending();
    let options = options.with_durability(then);
    log.update_topic(topic, "t", &options).expect("an update");
    let storage = Arc::new(machine.storage.process_crash_image(1));
    let memory = machine.memory.as_ref().map(|memory| memory.snapshot().expect("a copy"));
    (Machine { storage, memory, boot: 1 }, topic)
}

/// Regression test: batches that a dead process had left in shared memory were not recovered if the
/// device's blocks had become too large for chunks in shared memory.
#[test]
fn batches_of_a_dead_process_survive_a_change_of_the_block_size() {
    for partial in [PartialBlocks::Pad, PartialBlocks::Carry] {
        let (machine, topic) = died_with_batches(partial, Durability::Process);
        machine.storage.set_alignment(16_384);
        let log = machine.open();
        assert_eq!(log.open_report().modes.tail, "private memory");
        let partition = log.partition(topic.partition(0)).expect("a partition");
        let expected: Vec<_> = (0..600).map(|number| (number, number)).collect();
        assert_eq!(read_all(&partition), expected);
        let memory = machine.memory.as_ref().expect("shared memory");
        assert_eq!(memory.list().expect("a list"), [""; 0]);
        let appended = partition.try_append(&batch(600..605, 100)).expect("an append");
        assert!(!appended.ticket.is_complete(), "the append waits for the write");
    }
}

/// Checks that a purge also discards batches of a dead process that are waiting in shared memory
/// for space on the disk.
#[test]
fn a_purge_on_a_full_disk_removes_batches_of_the_last_process() {
    let (machine, topic) = died_with_batches(PartialBlocks::Pad, Durability::Process);
    let full = FaultRule::new(Fault::NoSpace).operation(Operation::Write).from(0);
    machine.storage.set_faults(FaultPlan::none().with(full.purpose(Purpose::LogAppend)));
    let log = machine.open();
    let partition = log.partition(topic.partition(0)).expect("a partition");
    let purged = partition.purge();
    log.run_pending();
    purged.wait().expect("a purge");
    assert_eq!(machine.regions(), [""; 0]);
    let appended = partition.try_append(&batch(0..5, 100)).expect("an append");
    assert_eq!(appended.base_offset, 0);
    assert_eq!(read_all(&partition).len(), 5);
}

#[test]
fn full_shared_memory_causes_no_sigbus() {
    let machine = Machine::new(1, true);
    machine.memory.as_ref().expect("shared memory").set_limit(200 << 10);
    let log = machine.open();
    let stream = log.create_stream(None, "s").expect("a stream");
    let options = topic(Durability::Process, PartialBlocks::Pad);
    let topic = log.create_topic(stream, None, "t", &options, 1).expect("a topic");
    let partition = log.partition(topic.partition(0)).expect("a partition");
    let mut appended = 0;
    for _ in 0..200 {
        match partition.try_append(&batch(appended..appended + 1, 5000)) {
            Ok(_) => appended += 1,
            Err(error) => {
                assert!(matches!(error.kind(), ErrorKind::NoSpace | ErrorKind::Full), "{error}");
                log.run_pending();
                machine.storage.clock().advance(2_000_000_000);
                log.run_pending();
            }
        }
    }
    assert!(appended > 100, "{appended}");
    let ticket = partition.flush(false);
    log.run_pending();
    ticket.wait().expect("a flush");
    assert_eq!(read_all(&partition).len() as u64, appended);
}

#[test]
fn a_copied_log_does_not_take_the_originals_shared_memory() {
    let parent = tempfile::tempdir().expect("a directory");
    let original = parent.path().join("original");
    let copy = parent.path().join("copy");
    let log = Log::open(&original, &Default::default()).expect("the log opens");
    let stream = log.create_stream(None, "s").expect("a stream");
    let topic = log.create_topic(stream, None, "t", &TopicOptions::default(), 1).expect("a topic");
    let partition = log.partition(topic.partition(0)).expect("a partition");
    drop(partition.append(&batch(0..5, 100)).expect("an append"));
    partition.flush(true).wait().expect("a flush");
    // This batch is in memory only.
    drop(partition.append(&batch(5..10, 100)).expect("an append"));
    let copied = std::process::Command::new("cp").arg("-r").arg(&original).arg(&copy).status();
    assert!(copied.expect("cp").success());
    {
        let log = Log::open(&copy, &Default::default()).expect("the copy opens");
        let partition = log.partition(topic.partition(0)).expect("a partition");
        assert_eq!(read_all(&partition).len(), 5);
    }
    assert_eq!(read_all(&partition).len(), 10);
    log.close().expect("the log closes");
    // Opening the log through a symbolic link to its directory finds the same log and its shared
    // memory.
    let link = parent.path().join("link");
    std::os::unix::fs::symlink(&original, &link).expect("a link");
    let log = Log::open(&link, &Default::default()).expect("the log opens");
    let partition = log.partition(topic.partition(0)).expect("a partition");
    assert_eq!(read_all(&partition).len(), 10);
    let error = Log::open(&original, &Default::default()).expect_err("the log is open");
    assert_eq!(error.kind(), ErrorKind::Busy);
}
