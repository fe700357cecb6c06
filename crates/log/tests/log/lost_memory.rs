//! Checks what a log says when the shared memory is gone in which its last process may have left
//! acknowledged messages.

use std::path::Path;
use std::sync::Arc;

use tailwater_io::shared_memory::SimSharedMemory;
use tailwater_io::sim::{Fault, FaultPlan, FaultRule};
use tailwater_io::{Purpose, SharedMemory, Storage};
use tailwater_log::{Durability, Log, PartialBlocks, Partition, Strategy};

use crate::common::{DIRECTORY, Machine, batch, topic};

/// How the last process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Killed,
    /// It closed the log and persisted everything.
    Closed,
    /// It closed the log, but the disk was full.
    ClosedOnFullDisk,
    /// It was killed after another process had closed the log completely.
    KilledAfterClose,
}

/// Where the next process looks for the shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Memory {
    Same,
    /// In its place, there is new shared memory.
    Gone,
    /// As [`Self::Gone`], after a restart of the machine.
    GoneByRestart,
    /// The next process has no shared memory.
    None,
}

fn partition(log: &Log) -> Arc<Partition> {
    let stream = log.create_stream(None, "stream").expect("a stream");
    let options = topic(Durability::Process, PartialBlocks::Pad);
    let topic = log.create_topic(stream, None, "topic", &options, 1).expect("a topic");
    log.partition(topic.partition(0)).expect("a partition")
}

/// Lets a process append 7 messages and end. Returns the machine as it leaves it.
fn after(end: End) -> Machine {
    let machine = Machine::new(1, true);
    if end == End::KilledAfterClose {
        machine.open().close().expect("closed");
    }
    let log = machine.open();
    let appended = partition(&log).append(&batch(0..7, 10)).expect("an append");
    appended.ticket.wait().expect("acknowledged");
    match end {
        End::Killed | End::KilledAfterClose => {}
        End::Closed => log.close().expect("closed"),
        End::ClosedOnFullDisk => {
            let full = FaultRule::new(Fault::NoSpace).purpose(Purpose::LogAppend).from(0);
            machine.storage.set_faults(FaultPlan::none().with(full));
            let error = log.close().expect_err("nothing can be persisted").to_string();
            assert!(error.contains("7 messages of 1 partitions"), "{error}");
            machine.storage.set_faults(FaultPlan::none());
        }
    }
    let memory = machine.memory.as_ref().expect("shared memory").snapshot().expect("a copy");
    let storage = Arc::new(machine.storage.process_crash_image(1));
    Machine { storage, memory: Some(memory), boot: machine.boot }
}

/// Regression test: if shared memory was gone without a restart of the machine, a log opened
/// without the acknowledged messages in it, and did not say so.
#[test]
fn missing_shared_memory_is_reported() {
    for end in [End::Killed, End::Closed, End::ClosedOnFullDisk, End::KilledAfterClose] {
        for memory in [Memory::Same, Memory::Gone, Memory::GoneByRestart, Memory::None] {
            let what = format!("{end:?}, then {memory:?}");
            let mut machine = after(end);
            machine.boot += u64::from(memory == Memory::GoneByRestart);
            match memory {
                Memory::Same => {}
                Memory::Gone | Memory::GoneByRestart => {
                    machine.memory = Some(SimSharedMemory::new(1 << 30));
                }
                Memory::None => machine.memory = None,
            }
            let log = machine.open();
            let warnings = log.open_report().warnings.join("\n");
            let partition = log.partitions().pop().expect("the partition");
            log.run_pending();
            let count = partition.poll(Strategy::First, 100).expect("a poll").count;
            let is_lost = end != End::Closed && memory != Memory::Same;
            assert_eq!(count, if is_lost { 0 } else { 7 }, "{what}");
            let says_so = warnings.contains("the shared memory is gone");
            assert_eq!(says_so, is_lost, "{what}: {warnings}");
            let says_how_many = warnings.contains("7 acknowledged messages are lost");
            assert_eq!(
                says_how_many,
                is_lost && end == End::ClosedOnFullDisk,
                "{what}: {warnings}"
            );
            // The loss is reported once.
            log.close().expect("closed");
            let log = machine.open();
            assert!(!log.open_report().warnings.join("\n").contains("is gone"), "{what}");
        }
    }
}

/// If a log cannot record that nothing is left, it keeps its shared memory, so that the next
/// opening finds it.
#[test]
fn the_memory_is_kept_if_the_end_cannot_be_recorded() {
    let machine = Machine::new(1, true);
    let log = machine.open();
    partition(&log).append(&batch(0..7, 10)).expect("an append");
    let fails = FaultRule::new(Fault::InputOutput).path_containing("BOOT").from(0);
    machine.storage.set_faults(FaultPlan::none().with(fails));
    log.close().expect_err("the end is not recorded");
    machine.storage.set_faults(FaultPlan::none());
    let memory = machine.memory.as_ref().expect("shared memory");
    assert!(!memory.list().expect("a list").is_empty());
    let log = machine.open();
    assert_eq!(log.open_report().warnings, [""; 0]);
    log.close().expect("closed");
    assert_eq!(memory.list().expect("a list"), [""; 0]);
}

/// A log opens and closes on a disk that has no space for the record of it, and nothing counts as
/// lost afterwards.
#[test]
fn a_full_disk_does_not_prevent_opening_or_look_like_a_loss() {
    for has_former in [false, true] {
        let machine = if has_former { after(End::Killed) } else { Machine::new(1, true) };
        let full = FaultRule::new(Fault::NoSpace).path_containing("BOOT.tmp").from(0);
        machine.storage.set_faults(FaultPlan::none().with(full));
        let log = machine.open();
        let warnings = log.open_report().warnings.join("\n");
        assert!(warnings.contains("cannot be recorded"), "{warnings}");
        assert!(!warnings.contains("is gone"), "{warnings}");
        let partition = match has_former {
            true => log.partitions().pop().expect("the partition"),
            false => partition(&log),
        };
        let end = partition.stats().end_offset;
        partition.append(&batch(end..end + 5, 10)).expect("an append");
        log.close().expect("closed");
        machine.storage.set_faults(FaultPlan::none());
        let log = machine.open();
        assert_eq!(log.open_report().warnings, [""; 0]);
        let partition = log.partitions().pop().expect("the partition");
        log.run_pending();
        assert_eq!(partition.stats().end_offset, end + 5);
        log.close().expect("closed");
    }
}

/// Regression test: a log with a damaged partition recorded at its close that nothing was left,
/// although batches of the partition were still in shared memory.
#[test]
fn batches_of_a_damaged_partition_count_as_left() {
    let mut machine = after(End::Killed);
    let streams = Path::new(DIRECTORY).join("streams");
    let directory = streams.join("0/topics/0/partitions");
    let listed = machine.storage.list(&directory).expect("partitions");
    let [partition] = &listed[..] else { panic!("{listed:?}") };
    let directory = directory.join(&partition.name);
    for entry in machine.storage.list(&directory).expect("files") {
        machine.storage.remove(&directory.join(entry.name)).expect("removed");
    }
    machine.storage.remove_directory(&directory).expect("removed");
    let log = machine.open();
    assert!(log.open_report().partitions[0].1.fenced.is_some(), "{:?}", log.open_report());
    let error = log.close().expect_err("not everything is persisted").to_string();
    assert!(error.contains("7 messages of 1 partitions"), "{error}");
    machine.memory = Some(SimSharedMemory::new(1 << 30));
    let warnings = machine.open().open_report().warnings.join("\n");
    assert!(warnings.contains("7 acknowledged messages are lost"), "{warnings}");
}
