//! A device that delays a write. The tests check which operations continue during the write, and
//! that the memory being written does not change.

use std::io::IoSlice;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use crate::common::{Machine, batch, messages, read_all, topic};
use tailwater_io::sim::SimStorage;
use tailwater_io::thread::spawn;
use tailwater_io::{Create, IoMode, Purpose, Result, Storage, WriteFile};
use tailwater_log::{Durability, Log, PartialBlocks, Partition, Strategy, Ticket};

/// A gate that delays writes to segments while it is closed.
#[derive(Debug, Default)]
struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_closed: bool,
    held: usize,
    /// The length in bytes and the number of buffers of each write.
    writes: Vec<(usize, usize)>,
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
        while state.held == 0 {
            state = self.changed.wait(state).expect("no panic");
        }
    }

    /// Delays a write until the gate is open. Checks that the buffers of the write did not change
    /// during the delay.
    fn pass(&self, parts: &[IoSlice<'_>]) {
        let before: Vec<Vec<u8>> = parts.iter().map(|part| part.to_vec()).collect();
        let mut state = self.state.lock().expect("no panic");
        state.writes.push((parts.iter().map(|part| part.len()).sum(), parts.len()));
        state.held += 1;
        self.changed.notify_all();
        while state.is_closed {
            state = self.changed.wait(state).expect("no panic");
        }
        state.held -= 1;
        let after: Vec<Vec<u8>> = parts.iter().map(|part| part.to_vec()).collect();
        assert!(before == after, "a buffer was written while the device had it");
    }

    fn writes(&self) -> Vec<(usize, usize)> {
        std::mem::take(&mut self.state.lock().expect("no panic").writes)
    }
}

#[derive(Debug)]
struct Gated {
    files: Arc<SimStorage>,
    gate: Arc<Gate>,
}

impl Storage for Gated {
    tailwater_testkit::forward_storage!(
        files: open, rename, remove, remove_directory, link, list, create_directory, metadata,
        identity, canonical_path, capabilities, resident_pages, sync_directory, lock, statistics,
    );

    fn create(
        &self,
        path: &Path,
        create: Create,
        mode: IoMode,
        purpose: Purpose,
    ) -> Result<Box<dyn WriteFile>> {
        let file = self.files.create(path, create, mode, purpose)?;
        match purpose {
            Purpose::LogAppend => Ok(Box::new(GatedFile { file, gate: Arc::clone(&self.gate) })),
            _ => Ok(file),
        }
    }
}

#[derive(Debug)]
struct GatedFile {
    file: Box<dyn WriteFile>,
    gate: Arc<Gate>,
}

impl WriteFile for GatedFile {
    tailwater_testkit::forward_write_file!(
        file: write_at, sync_data, sync_all, truncate, allocate, start_writeback, length, path, mode,
        alignment,
    );

    fn write_vectored_at(
        &mut self,
        parts: &[IoSlice<'_>],
        offset: u64,
        is_durable: bool,
        purpose: Purpose,
    ) -> Result<()> {
        self.gate.pass(parts);
        self.file.write_vectored_at(parts, offset, is_durable, purpose)
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
    log: Log,
    partition: Arc<Partition>,
}

fn held(durability: Durability, partial: PartialBlocks) -> Held {
    let machine = Machine::new(1, true);
    let gate = Arc::new(Gate::default());
    let storage = Gated { files: Arc::clone(&machine.storage), gate: Arc::clone(&gate) };
    let options = machine.options().with_storage(Arc::new(storage)).with_persisters(2);
    let log = Log::open(crate::common::DIRECTORY, &options).expect("the log opens");
    let stream = log.create_stream(None, "s").expect("a stream");
    let options =
        topic(durability, partial).with_messages_required_to_save(1).with_segment_bytes(1 << 20);
    let topic = log.create_topic(stream, None, "t", &options, 1).expect("a topic");
    let partition = log.partition(topic.partition(0)).expect("a partition");
    Held { gate, log, partition }
}

fn append(partition: &Partition, number: u64) -> Ticket {
    partition.try_append(&batch(number..number + 1, 5000)).expect("an append").ticket
}

#[test]
fn appends_and_polls_continue_during_a_held_write() {
    for partial in [PartialBlocks::Pad, PartialBlocks::Carry] {
        let Held { gate, log, partition } = held(Durability::Process, partial);
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
        thread::sleep(Duration::from_millis(20));
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
    let Held { gate, log, partition } = held(Durability::Disk, PartialBlocks::Pad);
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
    let Held { gate, log, partition } = held(Durability::Process, PartialBlocks::Pad);
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
    thread::sleep(Duration::from_millis(20));
    assert!(!purged.is_complete() && !later.is_finished(), "nothing overtakes the write");
    gate.open();
    purged.wait().expect("a purge");
    assert_eq!(later.join().expect("an append"), 0);
    assert_eq!(read_all(&partition), [(0, 7)]);
    log.close().expect("the log closes");
}

#[test]
fn a_held_write_of_one_partition_delays_no_other() {
    let Held { gate, log, partition } = held(Durability::Memory, PartialBlocks::Pad);
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
