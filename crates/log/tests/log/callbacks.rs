//! Functions of the user that the log's threads call when a ticket completes. They may drop the
//! last handle of the log, but cannot close it.

use std::io::IoSlice;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use crate::common::{DIRECTORY, Machine, batch, read_all, topic};
use tailwater_io::sim::SimStorage;
use tailwater_io::{Create, IoMode, Purpose, Storage, WriteFile};
use tailwater_log::{
    Consumer, Durability, ErrorKind, Log, LogOptions, PartialBlocks, PartitionId, Result,
    TopicOptions,
};

/// A storage whose writes wait while the test locks `gate`. So the test can register a function
/// before the ticket completes.
#[derive(Debug)]
struct Delaying {
    files: Arc<SimStorage>,
    gate: Arc<Mutex<()>>,
}

impl Storage for Delaying {
    tailwater_io::forward_storage!(
        files: open, rename, remove, remove_directory, link, list, create_directory, metadata,
        identity, canonical_path, capabilities, resident_pages, sync_directory, lock, statistics,
    );

    fn create(
        &self,
        path: &Path,
        create: Create,
        mode: IoMode,
        purpose: Purpose,
    ) -> tailwater_io::Result<Box<dyn WriteFile>> {
        let file = self.files.create(path, create, mode, purpose)?;
        Ok(Box::new(DelayingFile { file, gate: Arc::clone(&self.gate) }))
    }
}

#[derive(Debug)]
struct DelayingFile {
    file: Box<dyn WriteFile>,
    gate: Arc<Mutex<()>>,
}

impl WriteFile for DelayingFile {
    tailwater_io::forward_write_file!(
        file: sync_data, sync_all, truncate, allocate, start_writeback, length, path, mode,
        alignment,
    );

    fn write_at(
        &mut self,
        bytes: &[u8],
        offset: u64,
        purpose: Purpose,
    ) -> tailwater_io::Result<usize> {
        drop(self.gate.lock().expect("no panic"));
        self.file.write_at(bytes, offset, purpose)
    }

    fn write_vectored_at(
        &mut self,
        parts: &[IoSlice<'_>],
        offset: u64,
        is_durable: bool,
        purpose: Purpose,
    ) -> tailwater_io::Result<()> {
        drop(self.gate.lock().expect("no panic"));
        self.file.write_vectored_at(parts, offset, is_durable, purpose)
    }
}

/// An open log with one partition, whose appends are acknowledged when they are durable.
struct Opened {
    machine: Machine,
    gate: Arc<Mutex<()>>,
    log: Arc<Log>,
    id: PartitionId,
    /// The log's storage, which the log and its threads keep alive.
    storage: Weak<Delaying>,
}

impl Opened {
    fn new(persisters: usize) -> Self {
        let machine = Machine::new(1, false);
        let gate = Arc::default();
        let files = Arc::clone(&machine.storage);
        let storage = Arc::new(Delaying { files, gate: Arc::clone(&gate) });
        let ends = Arc::downgrade(&storage);
        let options = machine.options().with_storage(storage).with_persisters(persisters);
        let log = Arc::new(Log::open(DIRECTORY, &options).expect("the log opens"));
        let stream = log.create_stream(None, "s").expect("a stream");
        let options = topic(Durability::Disk, PartialBlocks::Pad);
        let id = log.create_topic(stream, None, "t", &options, 1).expect("a topic").partition(0);
        Self { machine, gate, log, id, storage: ends }
    }

    /// Drops the test's handle of the log, tells the function that waits for this, and opens the
    /// log as soon as it is closed. Checks that its threads end.
    fn drop_and_reopen(self, dropped: &Sender<()>) -> Log {
        drop(self.log);
        dropped.send(()).expect("the function waits");
        wait_until("the log's threads end", || self.storage.strong_count() == 0);
        reopen(&self.machine.options())
    }
}

/// Waits until `is_true` returns true.
fn wait_until(what: &str, mut is_true: impl FnMut() -> bool) {
    for _ in 0..4000 {
        if is_true() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("this never happened: {what}");
}

/// Opens the log as soon as its previous opening is closed.
fn reopen(options: &LogOptions) -> Log {
    let mut opened = None;
    wait_until("the log is closed", || {
        match Log::open(DIRECTORY, options) {
            Ok(log) => opened = Some(log),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Busy, "{error}"),
        }
        opened.is_some()
    });
    opened.expect("the log is open")
}

/// Returns a function for a ticket. The function waits until the test has dropped its handle of the
/// log, and then drops the last one.
fn drop_last(log: &Arc<Log>, is_last: Receiver<()>) -> impl FnOnce(Result<()>) + Send + 'static {
    let last = Arc::clone(log);
    move |outcome| {
        outcome.expect("an acknowledgement");
        is_last.recv().expect("the test drops its handle");
        drop(last);
    }
}

/// Regression test: the function of a ticket dropped the last handle of the log, in the thread that
/// had persisted the append. Closing then waited for its own thread, and never ended.
#[test]
fn the_last_handle_may_be_dropped_when_an_append_completes() {
    for persisters in [1, 2] {
        let opened = Opened::new(persisters);
        let (log, id, consumer) = (&opened.log, opened.id, Consumer::Single(1));
        let options = topic(Durability::Memory, PartialBlocks::Pad);
        let memory = log.create_topic(id.stream, None, "memory", &options, 1).expect("a topic");
        let memory = memory.partition(0);
        let gate = opened.gate.lock().expect("no panic");
        let append = |id, numbers| {
            let partition = log.partition(id).expect("a partition");
            partition.append(&batch(numbers, 100)).expect("an append").ticket
        };
        append(memory, 0..5).wait().expect("an append to memory");
        let stored = log.store_offset(memory, consumer, 4).expect("a valid offset");
        let (dropped, is_last) = channel();
        append(id, 0..3).on_complete(drop_last(log, is_last));
        drop(gate);
        let log = opened.drop_and_reopen(&dropped);
        stored.wait().expect("a stored offset");
        assert_eq!(read_all(&log.partition(id).expect("a partition")).len(), 3);
        assert_eq!(read_all(&log.partition(memory).expect("a partition")).len(), 5);
        assert_eq!(log.offset(memory, consumer).expect("a partition"), Some(4));
    }
}

/// Tests that the function of a ticket may drop the last handle of the log in the thread that
/// stores consumers' offsets, which is the thread that then closes the log.
#[test]
fn the_last_handle_may_be_dropped_when_an_offset_is_stored() {
    let opened = Opened::new(1);
    let (log, id, consumer) = (&opened.log, opened.id, Consumer::Single(1));
    let partition = log.partition(id).expect("a partition");
    partition.append(&batch(0..3, 100)).expect("an append").ticket.wait().expect("acknowledged");
    drop(partition);
    let gate = opened.gate.lock().expect("no panic");
    let (dropped, is_last) = channel();
    let stored = log.store_offset(id, consumer, 2).expect("a valid offset");
    stored.on_complete(drop_last(log, is_last));
    drop(gate);
    let log = opened.drop_and_reopen(&dropped);
    assert_eq!(log.offset(id, consumer).expect("a partition"), Some(2));
}

/// Regression test: the function of a ticket called `Log::close`, which waited for the thread that
/// had called the function, and never returned.
#[test]
fn the_function_of_a_ticket_cannot_close_the_log() {
    for persisters in [0, 1] {
        let opened = Opened::new(persisters);
        let (log, id) = (&opened.log, opened.id);
        let (sender, outcomes) = channel();
        let close = || {
            let (log, sender) = (Arc::clone(log), sender.clone());
            move |outcome: Result<()>| {
                outcome.expect("an acknowledgement");
                sender.send(log.close()).expect("the test receives");
            }
        };
        let cannot_close = || {
            let error = outcomes.recv().expect("an outcome").expect_err("a callback cannot close");
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        };
        let run_pending = || {
            if persisters == 0 {
                log.run_pending()
            }
        };
        let partition = log.partition(id).expect("a partition");
        let gate = opened.gate.lock().expect("no panic");
        partition.append(&batch(0..3, 100)).expect("an append").ticket.on_complete(close());
        drop(gate);
        run_pending();
        cannot_close();
        let gate = opened.gate.lock().expect("no panic");
        let stored = log.store_offset(id, Consumer::Single(1), 2).expect("a valid offset");
        stored.on_complete(close());
        drop(gate);
        run_pending();
        cannot_close();
        // The thread is not working for the log any more.
        partition.append(&batch(3..4, 100)).expect("the log is open").ticket.on_complete(drop);
        log.close().expect("the log closes");
    }
}

/// Regression test: closing the log called the function of a ticket, and the function called
/// `Log::close`, which waited for its own thread.
#[test]
fn a_function_that_closing_calls_cannot_close_the_log() {
    let opened = Opened::new(0);
    let (log, id) = (&opened.log, opened.id);
    let (sender, outcomes) = channel();
    let closing = Arc::clone(log);
    let partition = log.partition(id).expect("a partition");
    let appended = partition.append(&batch(0..3, 100)).expect("an append");
    appended.ticket.on_complete(move |_| sender.send(closing.close()).expect("the test receives"));
    log.close().expect("the log closes");
    let error = outcomes.recv().expect("an outcome").expect_err("a callback cannot close");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
}

/// Regression test: closing waited for the function of a ticket, and the function, which created a
/// topic, waited for closing.
#[test]
fn a_function_that_closing_calls_cannot_change_topics() {
    let opened = Opened::new(0);
    let (log, id) = (&opened.log, opened.id);
    let (sender, outcomes) = channel();
    let closing = Arc::clone(log);
    let partition = log.partition(id).expect("a partition");
    let appended = partition.append(&batch(0..3, 100)).expect("an append");
    appended.ticket.on_complete(move |_| {
        let options = TopicOptions::new();
        let created = closing.create_topic(id.stream, None, "new", &options, 1).map(drop);
        for outcome in [created, closing.delete_stream(id.stream), closing.truncate(id, 0)] {
            sender.send(outcome).expect("the test receives");
        }
    });
    log.close().expect("the log closes");
    let outcomes: Vec<_> = outcomes.iter().collect();
    assert_eq!(outcomes.len(), 3);
    for outcome in outcomes {
        let error = outcome.expect_err("a callback cannot change the log");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
}

/// Regression test: without threads, closing did not finish the deletion of a partition, so that
/// the tickets of its pending appends were never completed.
#[test]
fn closing_completes_the_appends_to_a_deleted_partition() {
    let opened = Opened::new(0);
    let (log, id) = (&opened.log, opened.id);
    let (sender, outcomes) = channel();
    let partition = log.partition(id).expect("a partition");
    let appended = partition.append(&batch(0..3, 100)).expect("an append");
    appended.ticket.on_complete(move |outcome| sender.send(outcome).expect("the test receives"));
    log.delete_topic(id.topic()).expect("a deletion");
    log.close().expect("the log closes");
    outcomes.try_recv().expect("an outcome").expect_err("the partition was deleted");
}
