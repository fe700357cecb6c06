//! Checks the content of a log after power cuts, after crashes of the process, and after failed
//! calls.
//!
//! The tests run random operations on several partitions: appends, purges, truncations, removal of
//! segments, retention, flushes, storing offsets, and reopening. Then they open the states that a
//! crash before a storage call may leave. What they find must be allowed by the durability of each
//! topic:
//!
//! - Acknowledged messages exist if the topic's durability guarantees it. Unacknowledged messages
//!   may exist.
//! - Messages are in order, without gaps or duplicates.
//! - Nothing exists that was purged, truncated or removed before the crash.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::common::{Machine, Model, batch, read_all, rounds, topic};
use tailwater_io::shared_memory::SimSharedMemory;
use tailwater_io::sim::{Fault, FaultPlan, FaultRule, SimStorage};
use tailwater_io::{Operation, Purpose, SharedMemory};
use tailwater_log::{Consumer, Durability, ErrorKind, Log, PartialBlocks, PartitionId, Recovered};

/// An operation on a partition, as recorded in its history.
#[derive(Debug, Clone)]
struct Step {
    what: What,
    /// Number of storage calls made before the operation began.
    begun: u64,
    /// Number of storage calls that had been made once the operation had ended and its effect was
    /// durable; `None` if the test has not observed this yet.
    done: Option<u64>,
    /// The expected content of the partition after the operation.
    after: Model,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Create,
    Append,
    Purge,
    Truncate,
    /// Segments at the beginning of the partition were removed.
    Remove,
}

type Acks = Arc<Mutex<BTreeMap<u64, u64>>>;

/// All operations on a partition, in order, and what is known about their durability.
#[derive(Debug, Clone)]
struct History {
    id: PartitionId,
    durability: Durability,
    steps: Vec<Step>,
    /// The acknowledged appends. The key is the index of the append in `steps`, the value the
    /// number of storage calls made before its acknowledgement.
    acks: Acks,
    /// Whether syncs may fail in this test. After a failed sync, the device may lack bytes that it
    /// had accepted.
    loses_synced: bool,
    /// The offsets that a consumer has stored durably, each with the number of storage calls made
    /// by then.
    stored: Vec<(u64, u64)>,
}

/// How the process that had the log open ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Power,
    /// The process crashed. Its shared memory, if it had any, still exists.
    Process,
}

impl History {
    fn model(&self) -> Model {
        self.steps.last().expect("the creation").after.clone()
    }

    fn step(&mut self, what: What, begun: u64, done: Option<u64>, after: Model) {
        self.steps.push(Step { what, begun, done, after });
    }

    /// Returns the index of the last step whose effect must exist after a crash just before storage
    /// call `call`.
    fn lowest(&self, call: u64, end: End) -> usize {
        let acks = self.acks.lock().expect("no test panicked");
        let is_certain = |(index, step): (usize, &Step)| {
            let acked = match step.what {
                What::Append => acks.get(&(index as u64)).copied(),
                // Removing segments concerns only persisted messages at the beginning. That a
                // removal is durable does not imply that earlier appends are.
                What::Remove => None,
                What::Create | What::Purge | What::Truncate => step.done,
            };
            let survives = match (step.what, self.durability, end) {
                (What::Append, Durability::Disk, _) => true,
                (What::Append, Durability::Process, End::Process) => !self.loses_synced,
                (What::Append, _, _) => false,
                _ => true,
            };
            survives && acked.is_some_and(|acked| acked <= call)
        };
        let all = self.steps.iter().enumerate();
        all.filter(|step| is_certain((step.0, step.1))).map(|(index, _)| index).max().unwrap_or(0)
    }

    /// Returns the lowest and the highest offset at which the partition may begin after a crash
    /// just before storage call `call`. The partition contains the messages that existed after step
    /// `index`, but later steps may have removed segments from its beginning. A removal that was
    /// done before the crash must have taken effect. A removal that was in progress may have.
    fn starts(&self, index: usize, call: u64) -> (u64, u64) {
        let start = self.steps[index].after.start;
        let later = self
            .steps
            .iter()
            .skip(index + 1)
            .take_while(|step| step.begun <= call && step.what != What::Purge);
        let removed = later.filter(|step| step.what == What::Remove);
        removed.fold((start, start), |(lowest, highest), step| {
            let start = step.after.start;
            let is_done = step.done.is_some_and(|done| done <= call);
            (if is_done { lowest.max(start) } else { lowest }, highest.max(start))
        })
    }

    /// Checks that the content found after a crash just before storage call `call` is allowed by
    /// the history.
    fn check(&self, found: &Model, call: u64, end: End, what: &str) {
        let lowest = self.lowest(call, end);
        let highest = self.steps.iter().rposition(|step| step.begun <= call).unwrap_or(0);
        // Whether the partition must contain all messages that existed after a step. If not, the
        // last of these messages may be lost if they were not synced.
        let keeps_all = match (self.durability, end) {
            (Durability::Disk, _) => true,
            (Durability::Process, End::Process) => !self.loses_synced,
            _ => false,
        };
        for index in lowest..=highest {
            let step = &self.steps[index];
            let (first, last) = self.starts(index, call);
            // A truncation removes one segment after another, from the end. A crash during it may
            // leave a prefix of the messages to be removed.
            let before = index.checked_sub(1).map(|before| &self.steps[before].after);
            let full = match (step.what, before) {
                (What::Truncate, Some(before)) => before,
                _ => &step.after,
            };
            let shortest = if keeps_all { step.after.end() } else { first };
            let is_allowed = (first..=last).contains(&found.start)
                && (shortest..=full.end()).contains(&found.end())
                && (found.start..found.end()).all(|offset| found.at(offset) == full.at(offset));
            // If no message has survived, the partition may begin at any offset, even at 0.
            let is_lost = !keeps_all && found.numbers.is_empty();
            if is_allowed || is_lost {
                return;
            }
        }
        let allowed: String =
            self.steps[lowest..=highest].iter().map(|step| format!("\n{step:?}")).collect();
        panic!(
            "{what}: {:?} after {end:?} at call {call}, steps {lowest} to {highest} allowed:\n\
             found {found:?}{allowed}",
            self.id,
        );
    }
}

/// A log on a simulated machine, to which random operations are applied, and the histories of its
/// partitions.
struct Work {
    rng: fastrand::Rng,
    machine: Machine,
    log: Option<Log>,
    histories: Vec<History>,
    number: u64,
    name: String,
    /// Whether the test injects failures of storage calls, other than a power cut.
    may_fail: bool,
    /// Whether an append was accepted but failed before its acknowledgement.
    has_failed: Arc<AtomicBool>,
}

impl Work {
    fn new(seed: u64, has_memory: bool) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let machine = Machine::new(seed, has_memory);
        if rng.u32(..6) == 0 {
            machine.storage.set_alignment(16_384);
        }
        let log = machine.open();
        let stream = log.create_stream(None, "stream").expect("a stream");
        let mut histories = Vec::new();
        let mut name = String::new();
        for durability in [Durability::Disk, Durability::Process, Durability::Memory] {
            let partial = if rng.bool() { PartialBlocks::Pad } else { PartialBlocks::Carry };
            let options = topic(durability, partial)
                .with_messages_required_to_save(rng.u32(1..100))
                .with_partition_bytes_max(200_000)
                .with_are_offsets_durable(true);
            let topic_name = format!("{durability:?}");
            let topic = log.create_topic(stream, None, &topic_name, &options, 1).expect("a topic");
            name.push_str(&format!("{durability:?} {partial:?} "));
            let mut history = History {
                id: topic.partition(0),
                durability,
                steps: Vec::new(),
                acks: Acks::default(),
                loses_synced: false,
                stored: Vec::new(),
            };
            history.step(What::Create, 0, Some(0), Model::default());
            histories.push(history);
        }
        let has_failed = Arc::default();
        Self {
            rng,
            machine,
            log: Some(log),
            histories,
            number: 0,
            name,
            may_fail: false,
            has_failed,
        }
    }

    fn calls(&self) -> u64 {
        self.machine.storage.call_count()
    }

    fn log(&self) -> &Log {
        self.log.as_ref().expect("an open log")
    }

    /// Runs one random operation. Returns false if a call or an append has failed, so that the test
    /// must stop.
    fn step(&mut self) -> bool {
        let begun = self.calls();
        let goes_on = self.draw();
        self.note_retention(begun);
        goes_on
    }

    /// If retention has removed segments, adds a step to the partition's history. If storage calls
    /// may fail, the removal does not count as done: removing the files may have failed, so the
    /// segments may exist after a crash.
    fn note_retention(&mut self, begun: u64) {
        let Some(log) = &self.log else { return };
        let done = (!self.may_fail).then(|| self.machine.storage.call_count());
        note_retention(log, &mut self.histories, begun, done);
    }

    fn draw(&mut self) -> bool {
        let index = self.rng.usize(..self.histories.len());
        let id = self.histories[index].id;
        let Ok(partition) = self.log().partition(id) else { return false };
        let begun = self.calls();
        match self.rng.u32(..24) {
            0..12 => {
                let count = self.rng.u64(1..8);
                let length = match self.rng.u32(..8) {
                    0 => self.rng.usize(..9000),
                    _ => self.rng.usize(..400),
                };
                let numbers = self.number..self.number + count;
                let appended = match partition.try_append(&batch(numbers.clone(), length)) {
                    Ok(appended) => appended,
                    Err(error) if error.kind() == ErrorKind::Full => {
                        self.log().run_pending();
                        return !self.has_failed.load(Ordering::Relaxed);
                    }
                    Err(_) => return false,
                };
                self.number += count;
                let history = &mut self.histories[index];
                let mut after = history.model();
                assert_eq!(appended.base_offset, after.end());
                after.numbers.extend(numbers);
                let step = history.steps.len() as u64;
                history.step(What::Append, begun, None, after);
                let (acks, storage) =
                    (Arc::clone(&history.acks), Arc::clone(&self.machine.storage));
                let has_failed = Arc::clone(&self.has_failed);
                appended.ticket.on_complete(move |outcome| match outcome {
                    Ok(()) => {
                        acks.lock().expect("no test panicked").insert(step, storage.call_count());
                    }
                    Err(_) => has_failed.store(true, Ordering::Relaxed),
                });
                if self.rng.bool() {
                    self.log().run_pending();
                }
            }
            12 => {
                let ticket = partition.flush(self.rng.bool());
                self.log().run_pending();
                // Even if this flush succeeded, an append to another partition may have failed.
                return ticket.wait().is_ok() && !self.has_failed.load(Ordering::Relaxed);
            }
            13 if self.rng.bool() => {
                self.histories[index].step(What::Purge, begun, None, Model::default());
                let topic = id.topic();
                if self.log().purge_topic(topic).is_err() {
                    return false;
                }
                self.finish(index);
            }
            14 => {
                let model = self.histories[index].model();
                if model.numbers.is_empty() {
                    return true;
                }
                let offset = self.rng.u64(model.start..=model.end());
                let mut after = model.clone();
                after.numbers.truncate((offset - model.start) as usize);
                self.histories[index].step(What::Truncate, begun, None, after);
                match self.log().truncate(id, offset) {
                    Ok(()) => self.finish(index),
                    Err(error) if error.kind() == ErrorKind::InvalidArgument => {
                        // The truncation persisted all messages, and then failed with invalid
                        // argument. It removed nothing.
                        self.histories[index].steps.pop();
                    }
                    Err(_) => return false,
                }
            }
            15 | 16 => {
                let model = self.histories[index].model();
                // How many segments will be removed is not known yet. Until it is, the recorded
                // step allows any number.
                let all = Model { start: model.end(), numbers: Default::default() };
                self.histories[index].step(What::Remove, begun, None, all);
                let ticket = if self.rng.bool() {
                    partition.delete_segments(self.rng.usize(1..3), u64::MAX)
                } else {
                    partition.retain()
                };
                self.log().run_pending();
                if ticket.wait().is_err() {
                    return false;
                }
                let start = partition.stats().start_offset;
                let mut after = model;
                while after.start < start {
                    after.numbers.pop_front();
                    after.start += 1;
                }
                self.histories[index].steps.last_mut().expect("just put").after = after;
                self.finish(index);
            }
            17 => {
                self.machine.storage.clock().advance(self.rng.u64(..1_500_000_000));
                self.log().run_pending();
            }
            18 => {
                let model = self.histories[index].model();
                let persisted = partition.stats().persisted_offset;
                if model.numbers.is_empty() || persisted <= model.start {
                    return true;
                }
                let offset = persisted - 1;
                let stored = self.log().store_offset(id, Consumer::Single(1), offset);
                self.log().run_pending();
                if stored.is_ok_and(|ticket| ticket.wait().is_ok()) {
                    let calls = self.calls();
                    self.histories[index].stored.push((offset, calls));
                }
            }
            19 if self.rng.bool() => {
                if self.log().close().is_err() {
                    return false;
                }
                self.log = None;
                let Ok(log) = Log::open(crate::common::DIRECTORY, &self.machine.options()) else {
                    return false;
                };
                self.log = Some(log);
            }
            _ => self.log().run_pending(),
        }
        !self.has_failed.load(Ordering::Relaxed)
    }

    fn finish(&mut self, index: usize) {
        let calls = self.calls();
        self.histories[index].steps.last_mut().expect("a step in progress").done = Some(calls);
    }
}

/// For each partition whose first offset has advanced, records a removal of segments by retention.
/// The removal happened during an operation that began at storage call `begun`.
fn note_retention(log: &Log, histories: &mut [History], begun: u64, done: Option<u64>) {
    for history in histories {
        let Ok(partition) = log.partition(history.id) else { continue };
        let mut after = history.model();
        let start = partition.stats().start_offset;
        if start <= after.start {
            continue;
        }
        while after.start < start && after.numbers.pop_front().is_some() {
            after.start += 1;
        }
        history.step(What::Remove, begun, done, after);
    }
}

/// Opens the log as a crash left it, and checks every partition. Returns false if a partition is
/// damaged; that is allowed only if failed syncs may have lost bytes.
fn check(machine: &Machine, histories: &[History], call: u64, end: End, what: &str) -> bool {
    let log = match Log::open(crate::common::DIRECTORY, &machine.options()) {
        Ok(log) => log,
        Err(error) => panic!("{what}: after {end:?} at call {call}: {error:?}"),
    };
    for history in histories {
        let found = log.open_report().partitions.iter().find(|(id, _)| *id == history.id);
        if let Some((_, Recovered { fenced: Some(error), .. })) = found {
            assert!(history.loses_synced, "{what}: after {end:?} at call {call}: {error}");
            return false;
        }
    }
    // Read all partitions before any pending work is run, because retention may remove messages.
    let contents: Vec<_> = histories
        .iter()
        .map(|history| {
            let partition = log.partition(history.id).expect("the catalog is durable");
            let found = read_all(&partition);
            (history, partition, found)
        })
        .collect();
    for (history, partition, found) in contents {
        let start = found.first().map_or(partition.stats().start_offset, |(offset, _)| *offset);
        for (index, (offset, _)) in found.iter().enumerate() {
            assert_eq!(*offset, start + index as u64, "{what}: a gap or a duplicate");
        }
        let numbers = found.iter().map(|(_, number)| *number).collect();
        history.check(&Model { start, numbers }, call, end, what);
        // The partition must accept an append that follows the messages found.
        let before = partition.stats().end_offset;
        let appended = partition.append(&batch(0..3, 100)).expect("the partition accepts appends");
        assert_eq!(appended.base_offset, before);
        let flushed = partition.flush(true);
        log.run_pending();
        flushed.wait().expect("a flush");
        appended.ticket.wait().expect("an acknowledgement");
        let found = read_all(&partition);
        assert_eq!(
            &found[found.len() - 3..],
            [(before, 0), (before + 1, 1), (before + 2, 2)],
            "{what}"
        );
        let offset = log.offset(history.id, Consumer::Single(1)).expect("an offset");
        assert!(offset.is_none_or(|offset| offset < before), "{what}: {offset:?} of {before}");
    }
    log.close().expect("the log closes");
    drop(log);
    let log = machine.open();
    assert!(log.open_report().partitions.is_empty(), "{what}: {:?}", log.open_report());
    true
}

#[test]
fn acknowledged_messages_survive_power_cuts() {
    for seed in rounds(25) {
        let mut work = Work::new(seed, true);
        work.machine.storage.start_recording();
        let first = work.calls();
        for _ in 0..60 {
            assert!(work.step(), "nothing fails");
        }
        let last = work.calls();
        let mut replay = work.machine.storage.replay();
        let mut call = first;
        while call <= last {
            replay.advance_to(call);
            let storage = Arc::new(replay.crash_image(seed ^ call));
            // A power cut also clears shared memory.
            let memory = Some(SimSharedMemory::new(1 << 30));
            let machine = Machine { storage, memory, boot: 2 };
            let what = format!("seed {seed}, {}", work.name);
            check(&machine, &work.histories, call, End::Power, &what);
            call += work.rng.u64(1..=12);
        }
    }
}

#[test]
fn acknowledged_messages_survive_the_process() {
    for seed in rounds(40) {
        let has_memory = seed % 4 != 0;
        let mut work = Work::new(seed, has_memory);
        let after = work.rng.u64(1..400);
        // From storage call `after` on, all calls fail, as if the process had died then.
        work.machine.storage.set_faults(FaultPlan::from(after, Fault::PowerCut));
        for _ in 0..80 {
            if !work.step() {
                break;
            }
            if work.rng.u32(..10) == 0 {
                die(&work, seed);
            }
        }
        work.machine.storage.set_faults(FaultPlan::none());
        die(&work, seed);
    }
}

/// Opens a copy of the log, in the state in which the death of its process would leave it now.
/// Checks that the copy's contents are allowed.
fn die(work: &Work, seed: u64) {
    let storage: SimStorage = work.machine.storage.process_crash_image(seed);
    let memory = work.machine.memory.as_ref().map(|memory| memory.snapshot().expect("a copy"));
    let machine = Machine { storage: Arc::new(storage), memory, boot: 1 };
    let mut histories = work.histories.clone();
    if work.calls().is_multiple_of(3) {
        // Before the check, let another process open the log, find the disk full, and die soon.
        let full = FaultRule::new(Fault::NoSpace).operation(Operation::Write).from(seed % 5);
        machine.storage.set_faults(FaultPlan::none().with(full.purpose(Purpose::LogAppend)));
        let log = machine.open();
        log.run_pending();
        note_retention(&log, &mut histories, work.calls(), None);
        drop(log);
        machine.storage.set_faults(FaultPlan::none());
    }
    let what = format!("seed {seed}, {}", work.name);
    let is_whole = check(&machine, &histories, work.calls(), End::Process, &what);
    // If a partition is damaged, its regions of shared memory may be kept. Otherwise none may be
    // left.
    if let (true, Some(memory)) = (is_whole, &machine.memory) {
        assert_eq!(memory.list().expect("a list"), [""; 0], "regions are left over: {what}");
    }
}

/// Injects a full disk or I/O errors, and then checks that everything that was acknowledged exists.
#[test]
fn failing_calls_acknowledge_nothing_falsely() {
    for seed in rounds(60) {
        let mut work = Work::new(seed, seed % 3 != 0);
        work.may_fail = true;
        let fault = if work.rng.bool() { Fault::NoSpace } else { Fault::InputOutput };
        let operation = [
            Operation::Write,
            Operation::Sync,
            Operation::Create,
            Operation::SyncDirectory,
            Operation::Truncate,
            Operation::Rename,
            Operation::Remove,
        ][work.rng.usize(..7)];
        let rule = FaultRule::new(fault).operation(operation);
        let index = work.rng.u64(..30);
        let rule = if work.rng.bool() { rule.at(index) } else { rule.from(index) };
        for history in &mut work.histories {
            history.loses_synced = operation == Operation::Sync;
        }
        work.name.push_str(&format!("{fault:?} at {operation:?} {index}"));
        work.machine.storage.set_faults(FaultPlan::none().with(rule));
        for _ in 0..60 {
            if !work.step() {
                break;
            }
        }
        work.machine.storage.set_faults(FaultPlan::none());
        die(&work, seed);
    }
}
