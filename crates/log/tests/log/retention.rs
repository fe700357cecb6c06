//! Checks the removal of many segments at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tailwater_io::Operation;
use tailwater_io::sim::{Fault, FaultPlan, FaultRule, SimStorage};
use tailwater_log::{Durability, Log, PartialBlocks, Partition};

use crate::common::{Machine, batch, read_all, topic};

const SEGMENTS: u64 = 200;
/// Time after which messages expire, in microseconds.
const EXPIRY_US: u64 = 60_000_000;

/// Opens a log with one partition of [`SEGMENTS`] segments, of one message each.
fn partition_with_segments(machine: &Machine) -> (Log, Arc<Partition>) {
    let log = machine.open();
    let stream = log.create_stream(None, "stream").expect("a stream");
    let options = topic(Durability::Disk, PartialBlocks::Pad)
        .with_segment_bytes(64 << 10)
        .with_message_expiry_us(Some(EXPIRY_US));
    let topic = log.create_topic(stream, None, "topic", &options, 1).expect("a topic");
    let partition = log.partition(topic.partition(0)).expect("a partition");
    for number in 0..SEGMENTS {
        let appended = partition.append(&batch(number..number + 1, 60_000)).expect("an append");
        log.run_pending();
        appended.ticket.wait().expect("persisted");
    }
    assert_eq!(partition.stats().segments as u64, SEGMENTS);
    (log, partition)
}

fn count(disk: &SimStorage, operation: Operation) -> usize {
    disk.calls().iter().filter(|call| call.operation == operation).count()
}

/// Regression test: the directory was synced once for each removed segment, and durable appends
/// waited for all of it.
#[test]
fn expired_segments_are_removed_together_and_between_appends() {
    let machine = Machine::new(1, false);
    let (log, partition) = partition_with_segments(&machine);
    let disk = &machine.storage;
    disk.start_recording();
    disk.clock().advance(2 * EXPIRY_US * 1000);
    let retained = partition.retain();
    let appended = partition.append(&batch(SEGMENTS..SEGMENTS + 1, 10)).expect("an append");
    let removed_before = Arc::new(AtomicUsize::new(usize::MAX));
    let (seen, recorded) = (Arc::clone(&removed_before), Arc::clone(disk));
    appended.ticket.on_complete(move |outcome| {
        outcome.expect("persisted");
        seen.store(count(&recorded, Operation::Remove), Ordering::Relaxed);
    });
    log.run_pending();
    retained.wait().expect("retention");
    let removed = count(disk, Operation::Remove);
    assert!(removed as u64 >= 2 * (SEGMENTS - 1), "{removed} files");
    let before = removed_before.load(Ordering::Relaxed);
    assert!(before < removed / 2, "the append waited for the removal of {before} files");
    let syncs = count(disk, Operation::SyncDirectory);
    assert!(syncs <= 5, "{syncs} syncs of directories");
    // The last segment stays, because a batch was appended to it.
    let stay = [(SEGMENTS - 1, SEGMENTS - 1), (SEGMENTS, SEGMENTS)];
    assert_eq!(read_all(&partition), stay);
    log.close().expect("closed");
}

/// A removal whose files could not be removed goes on with the next run of retention.
#[test]
fn a_failed_removal_is_continued() {
    let machine = Machine::new(1, false);
    let (log, partition) = partition_with_segments(&machine);
    let disk = &machine.storage;
    disk.start_recording();
    let fails = FaultRule::new(Fault::InputOutput).operation(Operation::Remove).from(70);
    disk.set_faults(FaultPlan::none().with(fails));
    let removed = partition.delete_segments(150, u64::MAX);
    log.run_pending();
    removed.wait().expect_err("files cannot be removed");
    assert_eq!(partition.stats().start_offset, 150);
    disk.set_faults(FaultPlan::none());
    let retained = partition.retain();
    log.run_pending();
    retained.wait().expect("the removal goes on");
    assert!(count(disk, Operation::Remove) >= 300);
    let expected: Vec<_> = (150..SEGMENTS).map(|it| (it, it)).collect();
    assert_eq!(read_all(&partition), expected);
    log.close().expect("closed");
}

/// After a crash at any time, the partition has all messages from some offset on.
#[test]
fn a_crash_during_a_removal_leaves_no_hole() {
    let machine = Machine::new(1, false);
    let (log, partition) = partition_with_segments(&machine);
    let disk = &machine.storage;
    disk.start_recording();
    let first = disk.call_count();
    let removed = partition.delete_segments(150, u64::MAX);
    log.run_pending();
    removed.wait().expect("removed");
    let removed_at = disk.call_count();
    let mut replay = disk.replay();
    for call in (first..=removed_at).step_by(3).chain([removed_at]) {
        replay.advance_to(call);
        for (storage, boot) in
            [(replay.crash_image(call), 2), (replay.process_crash_image(call), 1)]
        {
            let left = Machine { storage: Arc::new(storage), memory: None, boot };
            for life in 0..2 {
                let log = left.open();
                let partition = log.partitions().pop().expect("the partition");
                let start = partition.stats().start_offset;
                assert!(start == 0 || start == 150, "call {call}, life {life}: start {start}");
                assert!(call < removed_at || start == 150, "call {call}: start {start}");
                let expected: Vec<_> = (start..SEGMENTS).map(|it| (it, it)).collect();
                assert_eq!(read_all(&partition), expected, "call {call}, life {life}");
                log.close().expect("closed");
            }
        }
    }
}
