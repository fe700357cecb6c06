//! Checks what a log does when no file descriptor is left: nothing fails for good, nothing
//! acknowledged is lost, and the number of open files is bounded.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use tailwater_io::descriptors::Exhausted;
use tailwater_io::shared_memory::SimSharedMemory;
use tailwater_io::sim::{Fault, FaultPlan, FaultRule};
use tailwater_io::{DescriptorBudget, Operation, Purpose, Storage};
use tailwater_log::{
    Consumer, Durability, ErrorKind, IoModeChoice, Log, LogOptions, PartialBlocks, Partition,
    Result, Strategy, Ticket, TopicId,
};

use crate::common::{DIRECTORY, Machine, batch, messages, read_all, topic};

/// More than the longest pause before a write is retried, in nanoseconds.
const RETRY_NS: u64 = 6_000_000_000;

const EVERY_DURABILITY: [Durability; 3] =
    [Durability::Memory, Durability::Process, Durability::Disk];

fn no_descriptor() -> FaultRule {
    FaultRule::new(Fault::NoDescriptor(Exhausted::Process)).from(0)
}

fn refuse_descriptors(machine: &Machine) {
    machine.storage.set_faults(FaultPlan::none().with(no_descriptor()));
    machine.memory.iter().for_each(|memory| memory.refuse_descriptors(true));
}

fn allow_descriptors(machine: &Machine) {
    machine.storage.set_faults(FaultPlan::none());
    machine.memory.iter().for_each(|memory| memory.refuse_descriptors(false));
}

/// Runs the work that becomes due within a few retries.
fn pass_time(machine: &Machine, log: &Log) {
    for _ in 0..3 {
        machine.storage.clock().advance(RETRY_NS);
        log.run_pending();
    }
}

fn create_topic(log: &Log, durability: Durability, partitions: u32) -> TopicId {
    let stream = match log.streams().keys().next() {
        Some(stream) => *stream,
        None => log.create_stream(None, "stream").expect("a stream"),
    };
    let options = topic(durability, PartialBlocks::Pad);
    let name = format!("{durability:?} {partitions}");
    log.create_topic(stream, None, &name, &options, partitions).expect("a topic")
}

fn numbers(partition: &Partition) -> Vec<u64> {
    read_all(partition).into_iter().map(|(_, number)| number).collect()
}

/// The outcome of a ticket, once it is known.
fn outcome_of(ticket: Ticket) -> Arc<Mutex<Option<Result<()>>>> {
    let outcome = Arc::new(Mutex::new(None));
    let known = Arc::clone(&outcome);
    ticket.on_complete(move |result| *known.lock().expect("no panic") = Some(result));
    outcome
}

fn taken(outcome: &Mutex<Option<Result<()>>>) -> Option<Result<()>> {
    outcome.lock().expect("no panic").clone()
}

/// Returns the machine as the next process finds it. `with_memory` says whether that process has
/// the shared memory.
fn next_process(machine: &Machine, with_memory: bool) -> Machine {
    let storage = Arc::new(machine.storage.process_crash_image(1));
    let memory = match (&machine.memory, with_memory) {
        (Some(memory), true) => Some(memory.snapshot().expect("a copy")),
        (Some(_), false) => Some(SimSharedMemory::new(1 << 30)),
        (None, _) => None,
    };
    Machine { storage, memory, boot: machine.boot }
}

/// Regression test: when no descriptor was left for a segment, the partition refused appends until
/// the log was opened again.
#[test]
fn a_persist_without_a_descriptor_is_retried() {
    for durability in EVERY_DURABILITY {
        for has_memory in [false, true] {
            let what = format!("{durability:?}, shared memory: {has_memory}");
            let machine = Machine::new(1, has_memory);
            let log = machine.open();
            let id = create_topic(&log, durability, 1);
            let partition = log.partition(id.partition(0)).expect("a partition");
            let first = outcome_of(partition.append(&batch(0..1, 100)).expect("an append").ticket);
            let exhausted = no_descriptor();
            machine.storage.set_faults(FaultPlan::none().with(exhausted));
            machine.storage.clock().advance(1_100_000_000);
            log.run_pending();
            assert!(partition.failure().is_none(), "{what}: {:?}", partition.failure());
            assert!(!matches!(taken(&first), Some(Err(_))), "{what}");
            let second = outcome_of(partition.append(&batch(1..2, 100)).expect("an append").ticket);
            allow_descriptors(&machine);
            pass_time(&machine, &log);
            for outcome in [&first, &second] {
                taken(outcome)
                    .expect("an outcome")
                    .unwrap_or_else(|error| panic!("{what}: {error}"));
            }
            assert_eq!(partition.stats().persisted_offset, 2, "{what}");
            assert_eq!(numbers(&partition), [0, 1], "{what}");
            log.close().expect("the log closes");
        }
    }
}

/// An append that can only be acknowledged after its write fails if the lack lasts long. The
/// partition still accepts the next append.
#[test]
fn an_append_does_not_wait_for_a_descriptor_forever() {
    let machine = Machine::new(2, false);
    let log = machine.open();
    let id = create_topic(&log, Durability::Disk, 1);
    let partition = log.partition(id.partition(0)).expect("a partition");
    refuse_descriptors(&machine);
    let append = |number| partition.append(&batch(number..number + 1, 100)).expect("an append");
    let outcome = outcome_of(append(0).ticket);
    log.run_pending();
    assert!(taken(&outcome).is_none());
    for _ in 0..10 {
        pass_time(&machine, &log);
    }
    let error = taken(&outcome).expect("an outcome").expect_err("no descriptor was left");
    assert_eq!(error.kind(), ErrorKind::OutOfDescriptors, "{error}");
    assert!(error.to_string().contains("RLIMIT_NOFILE"), "{error}");
    let outcome = outcome_of(append(1).ticket);
    allow_descriptors(&machine);
    pass_time(&machine, &log);
    taken(&outcome).expect("an outcome").expect("an acknowledgement");
    assert_eq!(numbers(&partition), [1]);
}

/// Regression test: of 300 acknowledged messages 133 were found after a log was closed without an
/// error, because the others were only in shared memory, which was removed.
#[test]
fn closing_without_descriptors_keeps_the_shared_memory_and_says_so() {
    let machine = Machine::new(3, true);
    let log = machine.open();
    let id = create_topic(&log, Durability::Process, 30);
    for (number, partition) in (0..).zip(log.partitions()) {
        let appended = partition.append(&batch(number..number + 1, 100)).expect("an append");
        appended.ticket.wait().expect("an acknowledgement");
    }
    let opens = no_descriptor().operation(Operation::Create).path_containing("partitions");
    machine.storage.set_faults(FaultPlan::none().with(opens));
    let error = log.close().expect_err("nothing can be persisted");
    assert_eq!(error.kind(), ErrorKind::OutOfDescriptors, "{error}");
    let text = error.to_string();
    assert!(text.contains("30 messages") && text.contains("shared memory"), "{text}");
    drop(log);
    let log = next_process(&machine, true).open();
    for number in 0..30_u32 {
        let partition = log.partition(id.partition(number)).expect("a partition");
        assert_eq!(numbers(&partition), [u64::from(number)]);
    }
}

/// A log that is closed while descriptors are short for a moment persists everything.
#[test]
fn closing_waits_for_a_descriptor_for_a_moment() {
    let machine = Machine::new(4, true);
    let log = machine.open();
    let id = create_topic(&log, Durability::Process, 8);
    for (number, partition) in (0..).zip(log.partitions()) {
        let appended = partition.append(&batch(number..number + 1, 100)).expect("an append");
        appended.ticket.wait().expect("an acknowledgement");
    }
    let rule = FaultRule::new(Fault::NoDescriptor(Exhausted::System));
    let rules = (0..3).map(|index| rule.clone().operation(Operation::Create).at(index));
    machine.storage.set_faults(rules.fold(FaultPlan::none(), FaultPlan::with));
    log.close().expect("the log closes");
    drop(log);
    let log = next_process(&machine, false).open();
    for number in 0..8_u32 {
        let partition = log.partition(id.partition(number)).expect("a partition");
        assert_eq!(numbers(&partition), [u64::from(number)]);
    }
}

/// Regression test: an append that found no descriptor for a region of shared memory failed, and
/// did not wait until one was free.
#[test]
fn an_append_waits_for_a_descriptor_for_shared_memory() {
    let machine = Machine::new(5, true);
    let log = machine.open();
    let id = create_topic(&log, Durability::Process, 1);
    let partition = log.partition(id.partition(0)).expect("a partition");
    refuse_descriptors(&machine);
    let error = partition.try_append(&batch(0..1, 100)).expect_err("there is no region");
    assert_eq!(error.kind(), ErrorKind::Full, "{error}");
    let woken = Arc::new(AtomicU32::new(0));
    let verified = batch(0..1, 100);
    let verified = partition.verify(&verified).expect("a batch");
    let counter = Arc::clone(&woken);
    let wake = move || {
        counter.fetch_add(1, Ordering::Relaxed);
    };
    partition.try_append_or(&verified, wake).expect_err("there is no region");
    allow_descriptors(&machine);
    pass_time(&machine, &log);
    assert_eq!(woken.load(Ordering::Relaxed), 1);
    let appended = partition.try_append_verified(&verified).expect("an append");
    appended.ticket.wait().expect("an acknowledgement");
    log.close().expect("the log closes");
}

/// Regression test: the catalog's journal was to be moved to a new file when no descriptor was
/// left. Then the change failed, or all partitions of the topic refused appends.
#[test]
fn a_journal_goes_on_in_its_file_if_no_other_can_be_created() {
    let machine = Machine::new(6, false);
    let log = machine.open();
    let id = create_topic(&log, Durability::Memory, 1);
    let partition = log.partition(id.partition(0)).expect("a partition");
    let long = "x".repeat(2000);
    let creations = no_descriptor().operation(Operation::Create);
    machine.storage.set_faults(FaultPlan::none().with(creations));
    for number in 0..100 {
        let record = [(format!("key {}", number % 3), Some(format!("{number} {long}")))];
        log.set_records(&record).unwrap_or_else(|error| panic!("record {number}: {error}"));
    }
    partition.append(&batch(0..1, 100)).expect("an append");
    log.purge_topic(id).expect("a purge");
    partition.append(&batch(1..2, 100)).expect("an append");
    for _ in 0..3000 {
        let stored = log.store_offset(id.partition(0), Consumer::Single(1), 0).expect("stored");
        log.run_pending();
        stored.wait().expect("an offset");
    }
    allow_descriptors(&machine);
    let record = [("key 0".to_owned(), Some("last".to_owned()))];
    log.set_records(&record).expect("a record");
    assert_eq!(numbers(&partition), [1]);
    log.close().expect("the log closes");
    drop(log);
    let log = machine.open();
    let records = log.records("");
    assert_eq!(records.len(), 3);
    assert_eq!(records["key 0"], "last");
    assert!(records["key 1"].starts_with("97 ") && records["key 2"].starts_with("98 "));
    assert_eq!(log.offset(id.partition(0), Consumer::Single(1)).expect("a partition"), Some(0));
}

/// The number of files that a small log may have open in the tests below.
const LIMIT: usize = 48;

/// Options of a log on a machine whose processes may have [`LIMIT`] files open.
fn limited_options(machine: &Machine) -> LogOptions {
    let budget = DescriptorBudget::new(LIMIT);
    machine.storage.limit_open_files(LIMIT, &budget);
    // Every call that finds no descriptor is an error of the budget: the log must close files
    // before it opens others.
    machine.options().with_descriptor_budget(budget)
}

/// Runs a test on a machine whose processes may have [`LIMIT`] files open, and checks that no call
/// found the limit reached.
fn within_limit(seed: u64, has_memory: bool, test: impl FnOnce(&Machine)) {
    let machine = Machine::new(seed, has_memory);
    machine.storage.start_recording();
    test(&machine);
    let most = machine.storage.open_files_peak();
    assert!(most <= LIMIT, "{most} files were open");
    assert_eq!(machine.storage.refused_descriptors(), 0, "the limit was reached");
}

/// Regression test: every segment that was read stayed open.
#[test]
fn more_segments_are_read_than_files_may_be_open() {
    within_limit(7, false, |machine| {
        let log = Log::open(DIRECTORY, &limited_options(machine)).expect("the log opens");
        let id = create_topic(&log, Durability::Disk, 1);
        let partition = log.partition(id.partition(0)).expect("a partition");
        for number in 0..150 {
            let appended = partition.append(&batch(number..number + 1, 50_000)).expect("an append");
            log.run_pending();
            appended.ticket.wait().expect("an acknowledgement");
        }
        assert_eq!(partition.stats().segments, 150);
        for round in 0..2 {
            for number in 0..150 {
                // In the second round, backwards.
                let number = if round == 0 { number } else { 149 - number };
                let polled = partition.poll(Strategy::Offset(number), 1).expect("a poll");
                assert_eq!(messages(&polled), [(number, number)]);
            }
        }
        let expected: Vec<u64> = (0..150).collect();
        assert_eq!(numbers(&partition), expected);
        let timestamp = partition.poll(Strategy::Timestamp(1), 1).expect("a poll");
        assert_eq!(messages(&timestamp), [(0, 0)]);
        log.close().expect("the log closes");
    });
}

/// Regression test: every partition that was appended to kept a file open, and opening the log
/// opened two files for each partition.
#[test]
fn more_partitions_are_appended_to_than_files_may_be_open() {
    for (durability, has_memory) in [
        (Durability::Memory, false),
        (Durability::Process, false),
        (Durability::Process, true),
        (Durability::Disk, false),
    ] {
        within_limit(8, has_memory, |machine| {
            let mut expected = vec![Vec::new(); 120];
            let mut id = None;
            for process in 0..3_u64 {
                let options = limited_options(machine).with_tail_bytes_max(32 << 20);
                let log = Log::open(DIRECTORY, &options).expect("the log opens");
                let id = *id.get_or_insert_with(|| create_topic(&log, durability, 120));
                for round in 0..3 {
                    let number = process * 3 + round;
                    for (partition, expected) in (0..).zip(&mut expected) {
                        let partition =
                            log.partition(id.partition(partition)).expect("a partition");
                        // Some rounds begin a segment.
                        let length = if round == 1 { 50_000 } else { 100 };
                        let appended = partition.append(&batch(number..number + 1, length));
                        let ticket = appended.expect("an append").ticket;
                        let flushed = partition.flush(round == 2);
                        log.run_pending();
                        ticket.wait().expect("an acknowledgement");
                        flushed.wait().expect("a flush");
                        expected.push(number);
                    }
                    pass_time(machine, &log);
                }
                for (partition, expected) in (0..).zip(&expected) {
                    let partition = log.partition(id.partition(partition)).expect("a partition");
                    assert_eq!(&numbers(&partition), expected);
                    assert!(partition.failure().is_none());
                }
                if process == 1 {
                    // The next process finds the files of a process that died.
                    drop(log);
                } else {
                    log.close().expect("the log closes");
                }
            }
        });
    }
}

/// A file that was written through the page cache is synced before its descriptor is used for
/// another file, because the kernel reports a failed write to open files only. The failure of that
/// sync is final. Direct writes report their own failures.
#[test]
fn a_file_written_through_the_page_cache_is_synced_before_it_is_closed() {
    for mode in [IoModeChoice::Buffered, IoModeChoice::Direct] {
        let machine = Machine::new(12, false);
        let options = limited_options(&machine).with_append_io_mode(mode);
        let log = Log::open(DIRECTORY, &options.with_tail_bytes_max(32 << 20)).expect("the log");
        let id = create_topic(&log, Durability::Process, 120);
        let rule = FaultRule::new(Fault::InputOutput)
            .operation(Operation::Sync)
            .purpose(Purpose::LogAppend)
            .from(0);
        machine.storage.set_faults(FaultPlan::none().with(rule));
        for number in 0..2 {
            for partition in log.partitions() {
                if let Ok(appended) = partition.append(&batch(number..number + 1, 100)) {
                    log.run_pending();
                    // Fails if an earlier sync has failed.
                    let _ = appended.ticket.wait();
                }
            }
        }
        let failures: Vec<_> = log.partitions().iter().filter_map(|it| it.failure()).collect();
        let expected = if mode == IoModeChoice::Buffered { 120 - LIMIT } else { 0 };
        assert!(failures.len() >= expected, "{mode:?}: {} failures", failures.len());
        assert!(failures.iter().all(|error| error.kind() == ErrorKind::Io), "{failures:?}");
        if mode == IoModeChoice::Direct {
            assert_eq!(failures.len(), 0);
            let last = log.partition(id.partition(119)).expect("a partition");
            assert_eq!(numbers(&last), [0, 1]);
        }
    }
}

/// Does one of the operations of the workload below. `outcome` is that of the operation's call or
/// ticket; the operation may be repeated after an error.
fn operation(log: &Log, number: u64) -> std::result::Result<Option<Ticket>, tailwater_log::Error> {
    let partition =
        |topic, partition| log.partition(TopicId { stream: 0, topic }.partition(partition));
    match number {
        0 => log.create_stream(Some(0), "stream").map(|_| None),
        1..=3 => {
            let options = topic(EVERY_DURABILITY[number as usize - 1], PartialBlocks::Pad);
            log.create_topic(0, Some(number as u32), &format!("{number}"), &options, 2)?;
            Ok(None)
        }
        4..=30 => {
            let topic = 1 + (number % 3) as u32;
            let appended = partition(topic, 0)?.try_append(&batch(number..number + 1, 20_000))?;
            Ok(Some(appended.ticket))
        }
        31..=33 => Ok(Some(partition(1 + (number % 3) as u32, 0)?.flush(number == 32))),
        34..=36 => {
            let polled =
                partition(1 + (number % 3) as u32, 0)?.poll(Strategy::Timestamp(1), 100)?;
            assert!(polled.count > 0);
            Ok(None)
        }
        37 => Ok(Some(log.store_offset(
            TopicId { stream: 0, topic: 1 }.partition(0),
            Consumer::Single(1),
            0,
        )?)),
        38 => Ok(Some(partition(1, 0)?.truncate(3))),
        // Does nothing if it is repeated.
        39 => Ok(Some(partition(2, 0)?.delete_segments(1, 3))),
        40 => Ok(Some(partition(3, 0)?.purge())),
        41..=43 => {
            let topic = 1 + (number % 3) as u32;
            let appended = partition(topic, 0)?.try_append(&batch(number..number + 1, 20_000))?;
            Ok(Some(appended.ticket))
        }
        44 => log.create_partitions(TopicId { stream: 0, topic: 1 }, 1).map(|_| None),
        45 => {
            let options = topic(Durability::Disk, PartialBlocks::Pad);
            log.update_topic(TopicId { stream: 0, topic: 2 }, "hardened", &options)?;
            Ok(None)
        }
        46 => Ok(Some(partition(2, 0)?.truncate(partition(2, 0)?.stats().start_offset))),
        47 => log.delete_partitions(TopicId { stream: 0, topic: 1 }, 1).map(|()| None),
        48..=50 => {
            let topic = 1 + (number % 3) as u32;
            let appended = partition(topic, 0)?.try_append(&batch(number..number + 1, 20_000))?;
            Ok(Some(appended.ticket))
        }
        _ => unreachable!("no operation {number}"),
    }
}

const OPERATIONS: u64 = 51;

/// Runs the workload. If an operation fails, descriptors become available, and the operation is
/// repeated.
fn run(machine: &Machine, log: &Log) {
    for number in 0..OPERATIONS {
        let mut attempts = 0;
        loop {
            let outcome = operation(log, number).and_then(|ticket| {
                let Some(ticket) = ticket else { return Ok(()) };
                let outcome = outcome_of(ticket);
                log.run_pending();
                if taken(&outcome).is_none() {
                    machine.storage.clock().advance(1_100_000_000);
                    log.run_pending();
                }
                if taken(&outcome).is_none() {
                    allow_descriptors(machine);
                    pass_time(machine, log);
                }
                taken(&outcome).expect("an outcome")
            });
            let Err(error) = outcome else { break };
            let is_repeated = attempts > 0 && error.kind() == ErrorKind::AlreadyExists;
            if is_repeated {
                break;
            }
            let may_fail = matches!(error.kind(), ErrorKind::OutOfDescriptors | ErrorKind::Full);
            assert!(may_fail && attempts < 3, "operation {number}, attempt {attempts}: {error:?}");
            attempts += 1;
            allow_descriptors(machine);
            pass_time(machine, log);
        }
    }
}

/// Returns the messages of all partitions.
fn contents(log: &Log) -> Contents {
    let partitions = log.partitions();
    partitions.iter().map(|it| (it.id().to_string(), read_all(it))).collect()
}

/// Every call that needs a descriptor finds none for a while, one call after the other. Whatever
/// the log was doing, it goes on when descriptors are available again.
#[test]
fn no_shortage_of_descriptors_is_final() {
    for has_memory in [false, true] {
        let whole = Machine::new(9, has_memory);
        whole.storage.start_recording();
        let log = whole.open();
        run(&whole, &log);
        let expected = contents(&log);
        log.close().expect("the log closes");
        let opens: Vec<u64> = whole
            .storage
            .calls()
            .iter()
            .filter(|call| needs_descriptor(call.operation))
            .map(|call| call.number)
            .collect();
        assert!(opens.len() > 60, "{} calls", opens.len());
        // Most of the time is spent in pauses.
        std::thread::scope(|scope| {
            for opens in opens.chunks(opens.len().div_ceil(16)) {
                let expected = &expected;
                scope.spawn(move || {
                    for first in opens {
                        check_shortage(*first, 1, has_memory, expected);
                        check_shortage(*first, 12, has_memory, expected);
                    }
                });
            }
        });
    }
}

type Contents = Vec<(String, Vec<(u64, u64)>)>;

/// Runs the workload while `count` calls, from the call with the number `first` on, find no
/// descriptor. Checks that the log contains `expected` then.
fn check_shortage(first: u64, count: u64, has_memory: bool, expected: &Contents) {
    let machine = Machine::new(9, has_memory);
    let what = format!("{count} calls from {first}, shared memory: {has_memory}");
    let fault = Fault::NoDescriptor(Exhausted::Process);
    let rules = (first..first + count).map(|call| FaultRule::new(fault).at(call));
    machine.storage.set_faults(rules.fold(FaultPlan::none(), FaultPlan::with));
    let log = Log::open(DIRECTORY, &machine.options())
        .or_else(|error| {
            assert_eq!(error.kind(), ErrorKind::OutOfDescriptors, "{what}: {error}");
            allow_descriptors(&machine);
            Log::open(DIRECTORY, &machine.options())
        })
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    run(&machine, &log);
    allow_descriptors(&machine);
    pass_time(&machine, &log);
    for partition in log.partitions() {
        assert!(partition.failure().is_none(), "{what}: {:?}", partition.failure());
    }
    assert_eq!(&contents(&log), expected, "{what}");
    log.close().unwrap_or_else(|error| panic!("{what}: {error}"));
    drop(log);
    let log = next_process(&machine, false).open();
    assert_eq!(&contents(&log), expected, "{what}, opened again");
}

fn needs_descriptor(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::Open
            | Operation::Create
            | Operation::Lock
            | Operation::List
            | Operation::SyncDirectory
    )
}

/// Regression test: a partition whose files could not be opened for lack of a descriptor was
/// fenced as if it were damaged.
#[test]
fn opening_without_descriptors_fails_and_fences_no_partition() {
    let machine = Machine::new(10, true);
    let log = machine.open();
    let id = create_topic(&log, Durability::Process, 3);
    for partition in log.partitions() {
        for number in 0..3 {
            let appended = partition.append(&batch(number..number + 1, 30_000));
            let flushed = partition.flush(false);
            log.run_pending();
            appended.expect("an append").ticket.wait().expect("an acknowledgement");
            flushed.wait().expect("a flush");
        }
        let appended = partition.append(&batch(3..4, 100)).expect("an append");
        appended.ticket.wait().expect("an acknowledgement");
    }
    let count = {
        let next = next_process(&machine, true);
        next.storage.start_recording();
        let before = next.storage.call_count();
        drop(next.open());
        next.storage.call_count() - before
    };
    for first in 0..count {
        let next = next_process(&machine, true);
        next.storage.set_faults(FaultPlan::none().with(no_descriptor().from(first)));
        match Log::open(DIRECTORY, &next.options()) {
            Ok(log) => {
                allow_descriptors(&next);
                pass_time(&next, &log);
                check_whole(&log, id, first);
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::OutOfDescriptors, "call {first}: {error}");
                assert!(error.to_string().contains("RLIMIT_NOFILE"), "call {first}: {error}");
                allow_descriptors(&next);
                check_whole(&next.open(), id, first);
            }
        }
    }
}

fn check_whole(log: &Log, id: TopicId, call: u64) {
    for partition in 0..3 {
        let partition = log.partition(id.partition(partition)).expect("a partition");
        assert!(partition.failure().is_none(), "call {call}: {:?}", partition.failure());
        assert_eq!(numbers(&partition), [0, 1, 2, 3], "call {call}");
    }
}

/// Regression test: a poll failed if no descriptor was free at this moment.
#[test]
fn a_poll_waits_for_a_descriptor_for_a_moment() {
    let machine = Machine::new(11, false);
    let log = machine.open();
    let id = create_topic(&log, Durability::Disk, 1);
    let partition = log.partition(id.partition(0)).expect("a partition");
    for number in 0..4 {
        let appended = partition.append(&batch(number..number + 1, 50_000)).expect("an append");
        log.run_pending();
        appended.ticket.wait().expect("an acknowledgement");
    }
    log.close().expect("the log closes");
    drop((log, partition));
    let log = machine.open();
    let partition = log.partition(id.partition(0)).expect("a partition");
    for number in 0..4 {
        let rule = FaultRule::new(Fault::NoDescriptor(Exhausted::System));
        let rules = (0..2).map(|index| rule.clone().operation(Operation::Open).at(index));
        machine.storage.set_faults(rules.fold(FaultPlan::none(), FaultPlan::with));
        let polled = partition.poll(Strategy::Offset(number), 1).expect("a poll");
        assert_eq!(messages(&polled), [(number, number)]);
    }
    // Files that are missing are still reported at once.
    assert!(machine.storage.list(Path::new(DIRECTORY)).is_ok());
}
