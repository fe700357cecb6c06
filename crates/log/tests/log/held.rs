//! A device that delays a write. The tests check which operations continue during the write, that
//! the memory being written does not change, and that no other change of the partition's files
//! begins.

use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use crate::common::{Machine, batch, messages, read_all, topic};
use tailwater_io::sim::SimStorage;
use tailwater_io::thread::spawn;
use tailwater_io::{Create, IoMode, Purpose, Result, Storage, WriteFile};
use tailwater_log::{
    Durability, ErrorKind, Log, PartialBlocks, Partition, Strategy, Ticket, TopicOptions,
};

/// A gate that delays writes to segments while it is closed.
#[derive(Debug, Default)]
struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_closed: bool,
    /// The files of the writes that have begun and not ended.
    held: Vec<PathBuf>,
    /// The length in bytes and the number of buffers of each write.
    writes: Vec<(usize, usize)>,
    /// The changes of a partition's files that began during a write of the partition.
    overtakings: Vec<String>,
}

impl Gate {
    fn close(&self) {
        self.state.lock().expect("no panic").is_closed = true;
    }

    fn open(&self) {
        self.state.lock().expect("no panic").is_closed = false;
        self.changed.notify_all();
    }

    fn wait_until_held(&self) {
        let mut state = self.state.lock().expect("no panic");
        while state.held.is_empty() {
            state = self.changed.wait(state).expect("no panic");
        }
    }

    /// Makes a write with `write`, after a delay until the gate is open. Checks that the buffers of
    /// the write did not change during the delay.
    fn pass(
        &self,
        path: &Path,
        parts: &[IoSlice<'_>],
        write: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        self.begin("write", path);
        let before: Vec<Vec<u8>> = parts.iter().map(|part| part.to_vec()).collect();
        let mut state = self.state.lock().expect("no panic");
        state.writes.push((parts.iter().map(|part| part.len()).sum(), parts.len()));
        state.held.push(path.to_owned());
        self.changed.notify_all();
        while state.is_closed {
            state = self.changed.wait(state).expect("no panic");
        }
        drop(state);
        let after: Vec<Vec<u8>> = parts.iter().map(|part| part.to_vec()).collect();
        assert!(before == after, "a buffer was written while the device had it");
        let written = write();
        let mut state = self.state.lock().expect("no panic");
        let index = state.held.iter().position(|held| held == path).expect("this write");
        state.held.remove(index);
        written
    }

    /// Records the beginning of a change of a partition's files, or of its directory.
    fn begin(&self, what: &str, path: &Path) {
        let mut state = self.state.lock().expect("no panic");
        let is_of_partition = |held: &PathBuf| {
            let directory = held.parent();
            directory == path.parent() || directory == Some(path)
        };
        if state.held.iter().any(is_of_partition) {
            state.overtakings.push(format!("{what} {}", path.display()));
        }
    }

    fn writes(&self) -> Vec<(usize, usize)> {
        std::mem::take(&mut self.state.lock().expect("no panic").writes)
    }

    fn assert_no_overtaking(&self) {
        let overtakings = self.state.lock().expect("no panic").overtakings.clone();
        assert_eq!(overtakings, [""; 0], "during a write of the partition");
    }
}

#[derive(Debug)]
struct Gated {
    files: Arc<SimStorage>,
    gate: Arc<Gate>,
}

impl Storage for Gated {
    tailwater_io::forward_storage!(
        files: open, link, list, create_directory, metadata, identity, canonical_path,
        capabilities, resident_pages, sync_directory, lock, statistics,
    );

    fn create(
        &self,
        path: &Path,
        create: Create,
        mode: IoMode,
        purpose: Purpose,
    ) -> Result<Box<dyn WriteFile>> {
        self.gate.begin("create", path);
        let file = self.files.create(path, create, mode, purpose)?;
        match purpose {
            Purpose::LogAppend => Ok(Box::new(GatedFile { file, gate: Arc::clone(&self.gate) })),
            _ => Ok(file),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.gate.begin("rename", to);
        self.files.rename(from, to)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.gate.begin("remove", path);
        self.files.remove(path)
    }

    fn remove_directory(&self, path: &Path) -> Result<()> {
        self.gate.begin("remove", path);
        self.files.remove_directory(path)
    }
}

#[derive(Debug)]
struct GatedFile {
    file: Box<dyn WriteFile>,
    gate: Arc<Gate>,
}

impl WriteFile for GatedFile {
    tailwater_io::forward_write_file!(
        file: allocate, start_writeback, length, path, mode, alignment,
    );

    fn write_vectored_at(
        &mut self,
        parts: &[IoSlice<'_>],
        offset: u64,
        is_durable: bool,
        purpose: Purpose,
    ) -> Result<()> {
        let (gate, path) = (Arc::clone(&self.gate), self.file.path().to_owned());
        let write = || self.file.write_vectored_at(parts, offset, is_durable, purpose);
        gate.pass(&path, parts, write)
    }

    fn write_at(&mut self, bytes: &[u8], offset: u64, purpose: Purpose) -> Result<usize> {
        self.gate.begin("write", self.file.path());
        self.file.write_at(bytes, offset, purpose)
    }

    fn sync_data(&mut self, purpose: Purpose) -> Result<()> {
        self.gate.begin("sync", self.file.path());
        self.file.sync_data(purpose)
    }

    fn sync_all(&mut self, purpose: Purpose) -> Result<()> {
        self.gate.begin("sync", self.file.path());
        self.file.sync_all(purpose)
    }

    fn truncate(&mut self, length: u64) -> Result<()> {
        self.gate.begin("truncate", self.file.path());
        self.file.truncate(length)
    }
}

/// Opens the gate when a test ends, even if an assertion fails. Otherwise closing the log would
/// wait for the delayed write forever.
struct OpensAtEnd(Arc<Gate>);

impl Drop for OpensAtEnd {
    fn drop(&mut self) {
        self.0.open();
    }
}

struct Held {
    gate: Arc<Gate>,
    machine: Machine,
    log: Log,
    partition: Arc<Partition>,
}

fn held(durability: Durability, partial: PartialBlocks) -> Held {
    held_with(&topic(durability, partial).with_segment_bytes(1 << 20))
}

fn held_with(options: &TopicOptions) -> Held {
    let machine = Machine::new(1, true);
    let gate = Arc::new(Gate::default());
    let storage = Gated { files: Arc::clone(&machine.storage), gate: Arc::clone(&gate) };
    let log_options = machine.options().with_storage(Arc::new(storage)).with_persisters(2);
    let log = Log::open(crate::common::DIRECTORY, &log_options).expect("the log opens");
    let stream = log.create_stream(None, "s").expect("a stream");
    let options = options.clone().with_messages_required_to_save(1);
    let topic = log.create_topic(stream, None, "t", &options, 1).expect("a topic");
    let partition = log.partition(topic.partition(0)).expect("a partition");
    Held { gate, machine, log, partition }
}

/// Returns the names of the segments in a directory.
fn segments(machine: &Machine, directory: &str) -> Vec<String> {
    let entries = machine.storage.list(directory.as_ref()).expect("a list").into_iter();
    entries.map(|entry| entry.name).filter(|name| name.ends_with(".log")).collect()
}

/// Gives other threads time to do what they must not do.
fn pause() {
    thread::sleep(Duration::from_millis(20));
}

fn append(partition: &Partition, number: u64) -> Ticket {
    partition.try_append(&batch(number..number + 1, 5000)).expect("an append").ticket
}

#[test]
fn appends_and_polls_continue_during_a_held_write() {
    for partial in [PartialBlocks::Pad, PartialBlocks::Carry] {
        let Held { gate, log, partition, .. } = held(Durability::Process, partial);
        let _opens = OpensAtEnd(Arc::clone(&gate));
        gate.close();
        append(&partition, 0).wait().expect("an acknowledgement");
        gate.wait_until_held();
        // These batches fill more than one chunk.
        for number in 1..100 {
            append(&partition, number).wait().expect("an acknowledgement");
            let polled = partition.poll_memory(Strategy::Offset(number), 1).expect("a poll");
            assert_eq!(messages(&polled.expect("a poll from memory")), [(number, number)]);
        }
        let flushed = partition.flush(false);
        pause();
        assert!(!flushed.is_complete(), "a flush covers pending batches");
        gate.open();
        flushed.wait().expect("a flush");
        assert_eq!(partition.stats().persisted_offset, 100);
        assert_eq!(read_all(&partition).len(), 100);
        log.close().expect("the log closes");
    }
}

#[test]
fn appends_queued_during_a_write_share_the_next_write() {
    let Held { gate, log, partition, .. } = held(Durability::Disk, PartialBlocks::Pad);
    let _opens = OpensAtEnd(Arc::clone(&gate));
    gate.close();
    let first = append(&partition, 0);
    gate.wait_until_held();
    let rest: Vec<Ticket> = (1..50).map(|number| append(&partition, number)).collect();
    // No message is durable yet, so readers must see none.
    assert_eq!(partition.poll(Strategy::First, 100).expect("a poll").count, 0);
    gate.open();
    first.wait().expect("an acknowledgement");
    for ticket in rest {
        ticket.wait().expect("an acknowledgement");
    }
    let writes = gate.writes();
    assert_eq!(writes.len(), 2, "{writes:?}");
    assert_eq!(read_all(&partition).len(), 50);
    log.close().expect("the log closes");
}

#[test]
fn a_purge_waits_for_the_write_in_flight_and_appends_wait_for_the_purge() {
    let Held { gate, log, partition, .. } = held(Durability::Process, PartialBlocks::Pad);
    let _opens = OpensAtEnd(Arc::clone(&gate));
    gate.close();
    append(&partition, 0).wait().expect("an acknowledgement");
    gate.wait_until_held();
    let purged = partition.purge();
    let later = {
        let partition = Arc::clone(&partition);
        spawn("appends", move || {
            let appended = partition.append(&batch(7..8, 100)).expect("an append");
            appended.ticket.wait().expect("an acknowledgement");
            appended.base_offset
        })
        .expect("a thread")
    };
    pause();
    assert!(!purged.is_complete() && !later.is_finished(), "nothing overtakes the write");
    gate.open();
    purged.wait().expect("a purge");
    assert_eq!(later.join().expect("an append"), 0);
    assert_eq!(read_all(&partition), [(0, 7)]);
    log.close().expect("the log closes");
    gate.assert_no_overtaking();
}

const DIRECTORY_OF_PARTITION: &str = "/log/streams/0/topics/0/partitions/0.0";

#[test]
fn a_deletion_waits_for_the_write_in_flight_and_spares_a_new_topic_of_the_id() {
    for durability in [Durability::Process, Durability::Disk] {
        let Held { gate, machine, log, partition } = held(durability, PartialBlocks::Pad);
        let _opens = OpensAtEnd(Arc::clone(&gate));
        let id = partition.id().topic();
        gate.close();
        let in_flight = append(&partition, 0);
        gate.wait_until_held();
        let queued = append(&partition, 1);
        log.delete_topic(id).expect("a deletion");
        let options = topic(durability, PartialBlocks::Pad);
        let again = log.create_topic(id.stream, Some(id.topic), "t", &options, 1);
        assert_eq!(again.expect("a topic"), id);
        let new = log.partition(id.partition(0)).expect("a partition");
        let appended = append(&new, 7);
        pause();
        let refused = partition.try_append(&batch(2..3, 100)).expect_err("it is being deleted");
        assert_eq!(refused.kind(), ErrorKind::Full, "{refused}");
        assert_eq!(segments(&machine, DIRECTORY_OF_PARTITION).len(), 1);
        gate.open();
        // The write has ended before the partition is deleted.
        in_flight.wait().expect("an acknowledgement");
        match durability {
            Durability::Disk => {
                let error = queued.wait().expect_err("the partition was deleted");
                assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
            }
            _ => queued.wait().expect("an acknowledgement"),
        }
        appended.wait().expect("an acknowledgement");
        log.close().expect("the log closes");
        gate.assert_no_overtaking();
        let gone = machine.storage.metadata(DIRECTORY_OF_PARTITION.as_ref());
        assert!(gone.expect_err("it was removed").is_not_found());
        assert_eq!(machine.regions(), [""; 0]);
        drop((log, partition, new));
        let log = machine.open();
        let new = log.partition(id.partition(0)).expect("a partition");
        assert_eq!(read_all(&new), [(0, 7)]);
    }
}

#[test]
fn no_segment_is_sealed_or_begun_during_a_write() {
    for durability in [Durability::Process, Durability::Disk] {
        for partial in [PartialBlocks::Pad, PartialBlocks::Carry] {
            let Held { gate, machine, log, partition } = held_with(&topic(durability, partial));
            let _opens = OpensAtEnd(Arc::clone(&gate));
            gate.close();
            let first = append(&partition, 0);
            gate.wait_until_held();
            // These batches fill several segments.
            let rest: Vec<Ticket> = (1..40).map(|number| append(&partition, number)).collect();
            pause();
            assert_eq!(segments(&machine, DIRECTORY_OF_PARTITION).len(), 1);
            let is_early = rest.iter().any(Ticket::is_complete);
            assert_eq!(is_early, durability == Durability::Process);
            gate.assert_no_overtaking();
            gate.open();
            first.wait().expect("an acknowledgement");
            rest.into_iter().for_each(|ticket| ticket.wait().expect("an acknowledgement"));
            partition.flush(true).wait().expect("a flush");
            assert!(partition.stats().segments > 3);
            let expected: Vec<(u64, u64)> = (0..40).map(|number| (number, number)).collect();
            assert_eq!(read_all(&partition), expected);
            let id = partition.id();
            log.close().expect("the log closes");
            gate.assert_no_overtaking();
            drop((log, partition));
            let log = machine.open();
            assert_eq!(read_all(&log.partition(id).expect("a partition")), expected);
        }
    }
}

/// Time after which messages expire, in microseconds.
const EXPIRY_US: u64 = 60_000_000;

#[test]
fn segments_are_removed_after_the_write_in_flight() {
    type Remove = fn(&Partition) -> Ticket;
    let removals: [(Remove, u64, u64); 3] = [
        (|partition| partition.delete_segments(1, u64::MAX), 8, 0),
        (|partition| partition.delete_segments(2, u64::MAX), 16, 0),
        // Even the message in flight has expired, but not the one that is queued behind it.
        (Partition::retain, 16, 2 * EXPIRY_US),
    ];
    for (remove, first, age_us) in removals {
        let options =
            topic(Durability::Disk, PartialBlocks::Pad).with_message_expiry_us(Some(EXPIRY_US));
        let Held { gate, machine, log, partition } = held_with(&options);
        let _opens = OpensAtEnd(Arc::clone(&gate));
        // A batch takes two blocks, so a segment has eight of them.
        (0..20).for_each(|number| append(&partition, number).wait().expect("an acknowledgement"));
        partition.flush(true).wait().expect("a flush");
        let before = segments(&machine, DIRECTORY_OF_PARTITION).len();
        gate.close();
        let in_flight = append(&partition, 20);
        gate.wait_until_held();
        machine.storage.clock().advance(age_us * 1000);
        let queued = append(&partition, 21);
        let removed = remove(&partition);
        pause();
        assert!(!removed.is_complete() && !in_flight.is_complete() && !queued.is_complete());
        assert_eq!(segments(&machine, DIRECTORY_OF_PARTITION).len(), before);
        gate.open();
        for ticket in [removed, in_flight, queued] {
            ticket.wait().expect("success");
        }
        let expected: Vec<(u64, u64)> = (first..22).map(|number| (number, number)).collect();
        assert_eq!(read_all(&partition), expected);
        log.close().expect("the log closes");
        gate.assert_no_overtaking();
    }
}

#[test]
fn a_held_write_of_one_partition_delays_no_other() {
    let Held { gate, log, partition, .. } = held(Durability::Memory, PartialBlocks::Pad);
    let _opens = OpensAtEnd(Arc::clone(&gate));
    let id = partition.id().topic();
    let other = log.create_partitions(id, 1).expect("another partition");
    let other = log.partition(id.partition(other[0])).expect("a partition");
    gate.close();
    append(&partition, 0).wait().expect("an acknowledgement");
    gate.wait_until_held();
    for number in 0..50 {
        append(&other, number).wait().expect("an acknowledgement");
    }
    assert_eq!(read_all(&other).len(), 50);
    gate.open();
    log.close().expect("the log closes");
}

#[test]
fn retention_begins_no_segment_before_the_queued_batches_are_persisted() {
    let options =
        topic(Durability::Disk, PartialBlocks::Pad).with_message_expiry_us(Some(EXPIRY_US));
    let Held { gate, machine, log, partition } = held_with(&options);
    let _opens = OpensAtEnd(Arc::clone(&gate));
    gate.close();
    let in_flight = append(&partition, 0);
    gate.wait_until_held();
    let queued = append(&partition, 1);
    // All messages have expired, and some are not persisted.
    machine.storage.clock().advance(2 * EXPIRY_US * 1000);
    let retained = partition.retain();
    pause();
    assert!(!retained.is_complete());
    assert_eq!(segments(&machine, DIRECTORY_OF_PARTITION).len(), 1);
    gate.open();
    for ticket in [retained, in_flight, queued] {
        ticket.wait().expect("success");
    }
    append(&partition, 2).wait().expect("an acknowledgement");
    let found = read_all(&partition);
    assert!(found == [(2, 2)] || found == [(0, 0), (1, 1), (2, 2)], "{found:?}");
    log.close().expect("the log closes");
    gate.assert_no_overtaking();
}
