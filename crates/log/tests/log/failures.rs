//! Tests of a log in which a storage call has failed or memory is exhausted: what the same process
//! can still do, and what is found when the log is opened again.

use std::sync::Arc;
use std::time::Duration;

use tailwater_io::shared_memory::SimSharedMemory;
use tailwater_io::sim::{Fault, FaultPlan, FaultRule};
use tailwater_io::thread::spawn;
use tailwater_io::{Operation, Purpose, SharedMemory};
use tailwater_log::{Durability, ErrorKind, Log, LogOptions, PartialBlocks, Partition, TopicId};

use crate::common::{DIRECTORY, Machine, batch, read_all, topic};

fn create_topic(log: &Log, durability: Durability) -> (TopicId, Arc<Partition>) {
    let stream = log.create_stream(None, "stream").expect("a stream");
    let options = topic(durability, PartialBlocks::Pad);
    let id = log.create_topic(stream, None, "topic", &options, 1).expect("a topic");
    (id, log.partition(id.partition(0)).expect("a partition"))
}

/// Appends batches of one message of `length` bytes, and runs the pending work.
fn append(log: &Log, partition: &Partition, numbers: std::ops::Range<u64>, length: usize) {
    for number in numbers {
        let appended = partition.append(&batch(number..number + 1, length)).expect("an append");
        let flushed = partition.flush(false);
        log.run_pending();
        flushed.wait().expect("a flush");
        appended.ticket.wait().expect("an acknowledgement");
    }
}

fn numbers(partition: &Partition) -> Vec<u64> {
    read_all(partition).into_iter().map(|(_, number)| number).collect()
}

fn fail(machine: &Machine, fault: Fault, operation: Operation, index: u64) {
    let rule = FaultRule::new(fault).operation(operation).at(index);
    machine.storage.set_faults(FaultPlan::none().with(rule));
}

/// Tests that an error says what failed in the same way as an error of the engine: the file and the
/// offset come first, and the cause is available.
#[test]
fn an_error_names_the_file_before_the_message() {
    let machine = Machine::new(1, false);
    let log = machine.open();
    let (_, partition) = create_topic(&log, Durability::Disk);
    append(&log, &partition, 0..1, 100);
    fail(&machine, Fault::InputOutput, Operation::Write, 0);
    let appended = partition.append(&batch(1..2, 100)).expect("an append");
    log.run_pending();
    let error = appended.ticket.wait().expect_err("the write failed");
    assert_eq!(error.kind(), ErrorKind::Io);
    let path = error.path().expect("a file").display();
    let offset = error.offset().expect("an offset");
    let system = error.io_error().expect("a cause");
    assert_eq!(error.message(), format!("cannot write: {system}"));
    assert_eq!(error.to_string(), format!("{path} at offset {offset}: {}", error.message()));
    assert_eq!(error.raw_os_error(), system.raw_os_error());
    let refused = partition.try_append(&batch(2..3, 100)).expect_err("the partition has failed");
    assert_eq!(refused.path(), error.path());
    let message = format!("{} refuses appends: {}", partition.id(), error.message());
    assert_eq!(refused.message(), message);
    machine.storage.set_faults(FaultPlan::none());
    let busy = Log::open(DIRECTORY, &machine.options()).expect_err("the log is open");
    assert_eq!(busy.kind(), ErrorKind::Busy);
    assert!(busy.to_string().starts_with("/log/"), "{busy}");
    assert!(busy.message().starts_with("cannot lock the log in /log: cannot lock: "), "{busy}");
}

#[test]
fn batches_that_a_full_disk_refused_are_never_read() {
    let machine = Machine::new(1, false);
    let log = machine.open();
    let (_, partition) = create_topic(&log, Durability::Disk);
    append(&log, &partition, 0..1, 100);
    // The disk is full for every write. Each batch of 40,000 bytes that is appended below needs a
    // memory chunk of its own.
    let rule = FaultRule::new(Fault::NoSpace).operation(Operation::Write).from(0);
    machine.storage.set_faults(FaultPlan::none().with(rule));
    let refused: Vec<_> = (100..103)
        .map(|number| partition.append(&batch(number..number + 1, 40_000)).expect("an append"))
        .collect();
    log.run_pending();
    for appended in refused {
        let error = appended.ticket.wait().expect_err("the disk is full");
        assert_eq!(error.kind(), ErrorKind::NoSpace);
    }
    machine.storage.set_faults(FaultPlan::none());
    append(&log, &partition, 1..3, 40_000);
    assert_eq!(numbers(&partition), [0, 1, 2]);
    log.close().expect("the log closes");
    drop(log);
    let log = machine.open();
    assert_eq!(numbers(&log.partitions()[0]), [0, 1, 2]);
}

#[test]
fn a_failed_change_is_not_applied_after_reopening() {
    for change in 0..4 {
        let machine = Machine::new(2, false);
        let log = machine.open();
        let (topic, partition) = create_topic(&log, Durability::Disk);
        append(&log, &partition, 0..3, 100);
        // The journal's record of the change is written, but syncing the journal fails once.
        let rule = FaultRule::new(Fault::InputOutput)
            .operation(Operation::Sync)
            .purpose(Purpose::LogJournal)
            .at(0);
        machine.storage.set_faults(FaultPlan::none().with(rule));
        let changed = match change {
            0 => log.purge_topic(topic),
            1 => log.delete_topic(topic),
            2 => log.delete_stream(topic.stream),
            _ => log.delete_partitions(topic, 1),
        };
        assert_eq!(changed.expect_err("the sync failed").kind(), ErrorKind::Io);
        machine.storage.set_faults(FaultPlan::none());
        append(&log, &partition, 3..5, 100);
        let storage = Arc::new(machine.storage.process_crash_image(1));
        let log = Machine { storage, memory: None, boot: 1 }.open();
        let partition = log.partition(topic.partition(0)).expect("the partition");
        assert_eq!(numbers(&partition), [0, 1, 2, 3, 4], "change {change}");
    }
}

#[test]
fn no_change_is_accepted_after_one_whose_outcome_is_unknown() {
    for change in 0..2 {
        let machine = Machine::new(3, false);
        let log = machine.open();
        let (topic, partition) = create_topic(&log, Durability::Disk);
        append(&log, &partition, 0..3, 100);
        // All syncs of the journal fail. The log therefore also fails to replace the journal by one
        // without the record of the change, and the outcome of the change stays unknown.
        let rule = FaultRule::new(Fault::InputOutput)
            .operation(Operation::Sync)
            .purpose(Purpose::LogJournal)
            .from(0);
        machine.storage.set_faults(FaultPlan::none().with(rule));
        let changed = if change == 0 { log.purge_topic(topic) } else { log.delete_topic(topic) };
        changed.expect_err("the sync failed");
        machine.storage.set_faults(FaultPlan::none());
        let error = partition
            .try_append(&batch(3..4, 100))
            .expect_err("the state of the partition is uncertain");
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        assert_eq!(numbers(&partition), [0, 1, 2]);
    }
}

#[test]
fn no_append_is_accepted_after_a_partial_truncation() {
    for index in 0..6 {
        let machine = Machine::new(4, false);
        let log = machine.open();
        let (topic, partition) = create_topic(&log, Durability::Disk);
        append(&log, &partition, 0..4, 50_000);
        assert_eq!(partition.stats().segments, 4);
        fail(&machine, Fault::InputOutput, Operation::Remove, index);
        let truncated = log.truncate(topic.partition(0), 1);
        machine.storage.set_faults(FaultPlan::none());
        let kept = match truncated {
            Ok(()) => {
                append(&log, &partition, 1..3, 100);
                vec![0, 1, 2]
            }
            Err(_) => {
                partition.try_append(&batch(1..2, 100)).expect_err("a truncation failed halfway");
                numbers(&partition)
            }
        };
        let storage = Arc::new(machine.storage.process_crash_image(index));
        let log = Machine { storage, memory: None, boot: 1 }.open();
        let found = numbers(&log.partitions()[0]);
        assert!(found.starts_with(&kept), "removal {index}: {found:?}, not {kept:?}");
        assert!((0..).zip(&found).all(|(at, number)| at == *number), "a gap: {found:?}");
    }
}

#[test]
fn a_segment_that_could_not_be_removed_does_not_come_back() {
    for operation in [Operation::Remove, Operation::SyncDirectory] {
        for index in 0..5 {
            let machine = Machine::new(5, false);
            let log = machine.open();
            let (_, partition) = create_topic(&log, Durability::Disk);
            append(&log, &partition, 0..6, 50_000);
            fail(&machine, Fault::InputOutput, operation, index);
            for _ in 0..3 {
                let deleted = partition.delete_segments(1, u64::MAX);
                log.run_pending();
                let _ = deleted.wait();
            }
            machine.storage.set_faults(FaultPlan::none());
            let storage = Arc::new(machine.storage.process_crash_image(index));
            let log = Machine { storage, memory: None, boot: 1 }.open();
            let found = numbers(&log.partitions()[0]);
            let first = found.first().copied().unwrap_or(6);
            assert_eq!(found, (first..6).collect::<Vec<_>>(), "{operation:?} {index}: a gap");
            assert!(first >= 2, "{operation:?} {index}: two were removed: {found:?}");
        }
    }
}

#[test]
fn a_failed_sync_is_not_retried() {
    let machine = Machine::new(6, false);
    let log = machine.open();
    let (_, partition) = create_topic(&log, Durability::Process);
    append(&log, &partition, 0..2, 100);
    fail(&machine, Fault::InputOutput, Operation::Sync, 0);
    for _ in 0..2 {
        let flushed = partition.flush(true);
        log.run_pending();
        assert_eq!(flushed.wait().expect_err("the first sync failed").kind(), ErrorKind::Io);
        machine.storage.set_faults(FaultPlan::none());
    }
    partition.try_append(&batch(2..3, 100)).expect_err("written bytes may be lost");
}

/// The batches that a dead process left fill the shared memory completely, and recovery needs
/// memory to persist them.
#[test]
fn a_log_opens_although_leftovers_fill_shared_memory() {
    let memory = SimSharedMemory::new(600_000);
    let machine = Machine { memory: Some(memory), ..Machine::new(7, false) };
    let options = machine.options().with_tail_bytes_max(64 << 20);
    let log = Log::open(DIRECTORY, &options).expect("the log opens");
    let (topic, partition) = create_topic(&log, Durability::Process);
    let mut count = 0;
    while let Ok(appended) = partition.try_append(&batch(count..count + 1, 30_000)) {
        appended.ticket.wait().expect("an acknowledgement");
        count += 1;
        assert!(count < 1000, "shared memory has no bound");
    }
    let storage = Arc::new(machine.storage.process_crash_image(1));
    let memory = machine.memory.as_ref().map(|memory| memory.snapshot().expect("a copy"));
    let left = Machine { storage, memory, boot: 1 };
    let options = left.options().with_tail_bytes_max(64 << 20);
    let log = Log::open(DIRECTORY, &options).expect("the log opens");
    let partition = log.partition(topic.partition(0)).expect("a partition");
    assert_eq!(numbers(&partition), (0..count).collect::<Vec<_>>());
    assert_eq!(left.regions(), [""; 0], "regions are left over");
}

/// The system has no shared memory left for an append. The system does not notify the log when
/// memory becomes free again, so the log must retry, and the waiting append must succeed.
#[test]
fn an_append_waits_until_the_system_has_memory_again() {
    let memory = SimSharedMemory::new(1 << 30);
    let machine = Machine { memory: Some(memory.clone()), ..Machine::new(8, false) };
    let options = machine.options().with_persisters(1).with_clock(LogOptions::default().clock);
    let log = Arc::new(Log::open(DIRECTORY, &options).expect("the log opens"));
    let (_, partition) = create_topic(&log, Durability::Process);
    // Another user of the shared memory takes all of it.
    let others = memory.create("other", 1 << 30).expect("all of it");
    let error = partition.try_append(&batch(0..1, 100)).expect_err("there is no memory");
    assert_eq!(error.kind(), ErrorKind::Full);
    let (sender, receiver) = std::sync::mpsc::channel();
    let waiting = Arc::clone(&partition);
    let thread = spawn("waiting", move || {
        let appended = waiting.append(&batch(0..1, 100));
        sender.send(appended.is_ok()).expect("a receiver");
    });
    assert!(receiver.recv_timeout(Duration::from_millis(300)).is_err(), "there is no memory");
    drop(others);
    memory.remove("other").expect("a removal");
    assert!(receiver.recv_timeout(Duration::from_secs(60)).expect("a result in time"));
    drop(thread);
    assert_eq!(numbers(&partition), [0]);
}

#[test]
fn a_log_that_could_not_be_closed_gives_back_its_memory() {
    let machine = Machine::new(9, true);
    let log = machine.open();
    let (_, partition) = create_topic(&log, Durability::Process);
    append(&log, &partition, 0..3, 100);
    let slice = partition.poll(tailwater_log::Strategy::First, 10).expect("a poll");
    fail(&machine, Fault::InputOutput, Operation::Sync, 0);
    log.close().expect_err("the segment cannot be sealed");
    machine.storage.set_faults(FaultPlan::none());
    drop((log, partition));
    // The next process gives its regions of shared memory the same names as the closed log. A
    // reader still holds a slice of a region of the closed log. Dropping that slice must not remove
    // the new regions.
    let storage = Arc::new(machine.storage.process_crash_image(1));
    let next = Machine { storage, memory: machine.memory.clone(), boot: 1 };
    let log = next.open();
    let partition = &log.partitions()[0];
    drop(partition.append(&batch(3..4, 100)).expect("an append"));
    let before = next.memory.as_ref().expect("memory").list().expect("a list");
    drop(slice);
    let after = next.memory.as_ref().expect("memory").list().expect("a list");
    assert_eq!(before, after);
    assert_eq!(numbers(partition), [0, 1, 2, 3]);
}

/// Regression test: a partition could not recover the batches of a dead process, because another
/// partition held all memory. The partition then refused appends until the log was opened again,
/// even after the memory had become free.
#[test]
fn recovery_waits_for_memory_that_another_partition_holds() {
    let machine = Machine::new(10, true);
    let log = machine.open();
    let stream = log.create_stream(None, "stream").expect("a stream");
    let options = topic(Durability::Process, PartialBlocks::Pad);
    let id = log.create_topic(stream, None, "topic", &options, 2).expect("a topic");
    let first = log.partition(id.partition(0)).expect("a partition");
    for number in 0..3 {
        let appended = first.append(&batch(number..number + 1, 30_000)).expect("an append");
        appended.ticket.wait().expect("an acknowledgement");
    }
    let storage = Arc::new(machine.storage.process_crash_image(1));
    let memory = machine.memory.as_ref().map(|memory| memory.snapshot().expect("a copy"));
    let left = Machine { storage, memory, boot: 1 };
    let full = FaultRule::new(Fault::NoSpace).operation(Operation::Write).from(0);
    left.storage.set_faults(FaultPlan::none().with(full.purpose(Purpose::LogAppend)));
    let options = left.options().with_tail_bytes_max(512 << 10);
    let log = Log::open(DIRECTORY, &options).expect("the log opens");
    let first = log.partition(id.partition(0)).expect("a partition");
    let second = log.partition(id.partition(1)).expect("a partition");
    assert_eq!(first.failure().map(|error| error.kind()), Some(ErrorKind::NoSpace));
    let mut count = 0;
    while second.try_append(&batch(count..count + 1, 30_000)).is_ok() {
        count += 1;
    }
    left.storage.clock().advance(10_000_000_000);
    log.run_pending();
    assert_eq!(first.failure().map(|error| error.kind()), Some(ErrorKind::Full));
    left.storage.set_faults(FaultPlan::none());
    for _ in 0..3 {
        left.storage.clock().advance(10_000_000_000);
        log.run_pending();
    }
    drop(first.try_append(&batch(3..4, 100)).expect("an append"));
    assert_eq!(numbers(&first), [0, 1, 2, 3]);
    assert_eq!(numbers(&second), (0..count).collect::<Vec<_>>());
}

/// Regression test: a truncation failed, and a repetition of it reported success although segments
/// beyond the new end were left. Their messages reappeared when the log was opened again.
#[test]
fn a_failed_truncation_is_not_reported_as_done_when_it_is_repeated() {
    let machine = Machine::new(11, false);
    let log = machine.open();
    let (topic, partition) = create_topic(&log, Durability::Disk);
    append(&log, &partition, 0..6, 50_000);
    let segments = partition.stats().segments;
    assert!(segments > 4, "{segments} segments");
    fail(&machine, Fault::InputOutput, Operation::Remove, 2);
    log.truncate(topic.partition(0), 1).expect_err("a file cannot be removed");
    machine.storage.set_faults(FaultPlan::none());
    log.truncate(topic.partition(0), 1).expect_err("segments may be left");
}

/// Regression test: a truncation shortened the file of a segment, syncing the file failed, and the
/// process died. When the next process appended, the old bytes beyond the truncation reappeared in
/// place of the new messages.
#[test]
fn messages_after_a_cut_that_was_not_synced_do_not_reappear() {
    for seed in 0..20 {
        let machine = Machine::new(seed, true);
        let log = machine.open();
        let (topic, partition) = create_topic(&log, Durability::Memory);
        drop(partition.append(&batch(0..1, 300)).expect("an append"));
        drop(partition.append(&batch(100..103, 300)).expect("an append"));
        let flushed = partition.flush(true);
        log.run_pending();
        flushed.wait().expect("a flush");
        // The first sync seals the segment. The second sync, which fails, follows the truncation of
        // the file.
        fail(&machine, Fault::InputOutput, Operation::Sync, 1);
        log.truncate(topic.partition(0), 1).expect_err("the sync fails");
        let storage = Arc::new(machine.storage.process_crash_image(seed));
        let machine = Machine { storage, ..machine };
        let log = machine.open();
        let partition = log.partition(topic.partition(0)).expect("a partition");
        assert_eq!(numbers(&partition), [0]);
        append(&log, &partition, 1..2, 300);
        assert_eq!(numbers(&partition), [0, 1], "seed {seed}");
        log.close().expect("the log closes");
        drop(log);
        assert_eq!(numbers(&machine.open().partitions()[0]), [0, 1], "seed {seed}");
    }
}

/// Regression test: a failed sync dropped batches that were not acknowledged. A flush of these
/// batches, which was queued before, then succeeded, because there was nothing left to persist.
#[test]
fn a_flush_of_batches_that_a_failure_dropped_fails() {
    let machine = Machine::new(13, false);
    let log = machine.open();
    let (_, partition) = create_topic(&log, Durability::Process);
    append(&log, &partition, 0..1, 100);
    fail(&machine, Fault::InputOutput, Operation::Sync, 0);
    let first = partition.flush(true);
    let appended = partition.try_append(&batch(1..2, 100)).expect("an append");
    let second = partition.flush(false);
    log.run_pending();
    first.wait().expect_err("the sync fails");
    second.wait().expect_err("its batch was dropped");
    appended.ticket.wait().expect_err("it was dropped");
}

/// Regression test: a sync of a complete segment failed because the disk was full. The log took
/// this for a temporary failure, and waited for space in order to retry. Since the log never
/// repeats a failed sync, every retry returned the same error. A failed sync must fail the
/// partition permanently.
#[test]
fn a_full_disk_at_a_sync_is_final() {
    let machine = Machine::new(12, true);
    let log = machine.open();
    let (_, partition) = create_topic(&log, Durability::Process);
    append(&log, &partition, 0..1, 50_000);
    fail(&machine, Fault::NoSpace, Operation::Sync, 0);
    let appended = partition.try_append(&batch(1..2, 50_000)).expect("an append");
    appended.ticket.wait().expect("shared memory outlives the process");
    let flushed = partition.flush(false);
    log.run_pending();
    flushed.wait().expect_err("the first segment cannot be sealed");
    let failure = partition.failure().expect("a failed partition");
    assert_eq!(failure.kind(), ErrorKind::Io, "{failure}");
}
