//! Polls of segments while memory for reading is short. A device that delays reads keeps the memory
//! in use.

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use tailwater_io::sim::SimStorage;
use tailwater_io::thread::{Thread, spawn};
use tailwater_io::{Create, IoMode, Purpose, ReadFile, Result, Storage, WriteFile};
use tailwater_log::{Durability, ErrorKind, Log, PartialBlocks, Partition, Strategy};

use crate::common::{DIRECTORY, Machine, batch, messages, topic};

/// Memory of one read, in bytes.
const READ_BYTES: usize = 256 << 10;

/// A gate that delays reads of segments while it is closed.
#[derive(Debug, Default)]
struct Gate {
    /// Whether the gate is closed, and the number of reads that it delays.
    state: Mutex<(bool, usize)>,
    changed: Condvar,
}

impl Gate {
    fn set(&self, is_closed: bool) {
        self.state.lock().expect("no panic").0 = is_closed;
        self.changed.notify_all();
    }

    fn wait_until_held(&self, count: usize) {
        let mut state = self.state.lock().expect("no panic");
        while state.1 < count {
            state = self.changed.wait(state).expect("no panic");
        }
    }

    fn held(&self) -> usize {
        self.state.lock().expect("no panic").1
    }

    fn pass(&self) {
        let mut state = self.state.lock().expect("no panic");
        state.1 += 1;
        self.changed.notify_all();
        while state.0 {
            state = self.changed.wait(state).expect("no panic");
        }
        state.1 -= 1;
    }
}

#[derive(Debug)]
struct Gated {
    files: Arc<SimStorage>,
    gate: Arc<Gate>,
}

impl Storage for Gated {
    tailwater_io::forward_storage!(
        files: rename, remove, remove_directory, link, list, create_directory, metadata,
        identity, canonical_path, capabilities, resident_pages, sync_directory, lock, statistics,
    );

    fn create(
        &self,
        path: &Path,
        create: Create,
        mode: IoMode,
        purpose: Purpose,
    ) -> Result<Box<dyn WriteFile>> {
        self.files.create(path, create, mode, purpose)
    }

    fn open(&self, path: &Path, mode: IoMode, purpose: Purpose) -> Result<Arc<dyn ReadFile>> {
        let file = self.files.open(path, mode, purpose)?;
        Ok(Arc::new(GatedFile { file, gate: Arc::clone(&self.gate) }))
    }
}

#[derive(Debug)]
struct GatedFile {
    file: Arc<dyn ReadFile>,
    gate: Arc<Gate>,
}

impl ReadFile for GatedFile {
    tailwater_io::forward_read_file!(file: length, path, mode, alignment);

    fn read_at(&self, buffer: &mut [u8], offset: u64, purpose: Purpose) -> Result<usize> {
        if purpose == Purpose::LogRead {
            self.gate.pass();
        }
        self.file.read_at(buffer, offset, purpose)
    }
}

/// Opens the gate when a test ends, even if an assertion fails.
struct OpensAtEnd(Arc<Gate>);

impl Drop for OpensAtEnd {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// Returns a log whose only partition has `count` segments of one message each, and of which no
/// message is in memory. It may use `read_bytes` bytes for reading.
fn log_with_segments(gate: &Arc<Gate>, read_bytes: usize, count: u64) -> (Log, Arc<Partition>) {
    let machine = Machine::new(1, false);
    let storage = Gated { files: Arc::clone(&machine.storage), gate: Arc::clone(gate) };
    let storage: Arc<dyn Storage> = Arc::new(storage);
    let options = machine.options().with_storage(storage);
    let log = Log::open(DIRECTORY, &options).expect("the log opens");
    let stream = log.create_stream(None, "s").expect("a stream");
    let options_of_topic = topic(Durability::Disk, PartialBlocks::Pad);
    let topic = log.create_topic(stream, None, "t", &options_of_topic, 1).expect("a topic");
    let partition = log.partition(topic.partition(0)).expect("a partition");
    for number in 0..count {
        let appended = partition.append(&batch(number..number + 1, 50_000)).expect("an append");
        log.run_pending();
        appended.ticket.wait().expect("an acknowledgement");
    }
    log.close().expect("the log closes");
    let options = options.with_read_ahead_bytes_max(read_bytes);
    let log = Log::open(DIRECTORY, &options).expect("the log opens");
    let partition = log.partition(topic.partition(0)).expect("a partition");
    (log, partition)
}

fn poll(partition: &Arc<Partition>, number: u64) -> Thread {
    let partition = Arc::clone(partition);
    spawn("poll", move || {
        let polled = partition.poll(Strategy::Offset(number), 1).expect("a poll");
        assert_eq!(messages(&polled), [(number, number)]);
    })
    .expect("a thread")
}

/// Regression test: a poll failed while others used all memory for reading.
#[test]
fn a_poll_waits_for_memory() {
    let gate = Arc::new(Gate::default());
    let (_log, partition) = log_with_segments(&gate, 2 * READ_BYTES, 12);
    gate.set(true);
    let opens = OpensAtEnd(Arc::clone(&gate));
    let mut polls: Vec<Thread> = (0..2).map(|number| poll(&partition, number)).collect();
    gate.wait_until_held(2);
    polls.extend((2..12).map(|number| poll(&partition, number)));
    std::thread::sleep(Duration::from_millis(50));
    assert!(polls.iter().all(|poll| !poll.is_finished()));
    assert_eq!(gate.held(), 2, "more memory is in use than permitted");
    drop(opens);
    for poll in polls {
        poll.join().expect("a poll");
    }
}

/// Regression test: a poll of a segment whose file had become too short never returned.
#[test]
fn a_poll_of_a_file_that_is_too_short_fails() {
    for left in [0, 4096] {
        let machine = Machine::new(2, false);
        let log = machine.open();
        let stream = log.create_stream(None, "s").expect("a stream");
        let options = topic(Durability::Disk, PartialBlocks::Pad);
        let topic = log.create_topic(stream, None, "t", &options, 1).expect("a topic");
        let partition = log.partition(topic.partition(0)).expect("a partition");
        for number in 0..3 {
            let appended = partition.append(&batch(number..number + 1, 50_000));
            let appended = appended.expect("an append");
            log.run_pending();
            appended.ticket.wait().expect("an acknowledgement");
        }
        log.close().expect("the log closes");
        drop((partition, log));
        let log = machine.open();
        let partition = log.partition(topic.partition(0)).expect("a partition");
        let directory = Path::new("/log/streams/0/topics/0/partitions/0.0");
        let entries = machine.storage.list(directory).expect("a list");
        let first = entries.iter().find(|entry| entry.name.ends_with(".log")).expect("a segment");
        let (path, mode) = (directory.join(&first.name), IoMode::Buffered);
        let file = machine.storage.create(&path, Create::Existing, mode, Purpose::Metadata);
        file.expect("the segment").truncate(left).expect("a truncation");
        let error = partition.poll(Strategy::First, 1).expect_err("the file is too short");
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        assert_eq!(error.path(), Some(&*path));
    }
}

/// Regression test: polls failed because cursors, which polls leave for later polls, held all
/// memory for reading.
#[test]
fn cursors_give_their_memory_to_polls() {
    for read_bytes in [0, READ_BYTES, 2 * READ_BYTES, 4 * READ_BYTES, 16 * READ_BYTES] {
        let gate = Arc::new(Gate::default());
        let (_log, partition) = log_with_segments(&gate, read_bytes, 12);
        for _ in 0..2 {
            for number in 0..12 {
                poll(&partition, number).join().expect("a poll");
            }
        }
        let polled = partition.poll(Strategy::Timestamp(1), 1).expect("a poll");
        assert_eq!(messages(&polled), [(0, 0)]);
    }
}
