//! Storage calls that panic in the log's threads. Tickets that wait for these calls must complete
//! with an error, and everything else must continue.

use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{DIRECTORY, Machine, batch, read_all, topic};
use tailwater_io::sim::SimStorage;
use tailwater_io::{Create, IoMode, Purpose, Result, Storage, WriteFile};
use tailwater_log::{Consumer, Durability, ErrorKind, Log, PartialBlocks};

/// Flags that make the next storage call of one kind panic. The kinds are writes of segments,
/// writes of the journal, and removals of files.
#[derive(Debug, Default)]
struct Armed {
    append: AtomicBool,
    journal: AtomicBool,
    removal: AtomicBool,
}

fn panic_once(is_armed: &AtomicBool) {
    assert!(!is_armed.swap(false, Ordering::SeqCst), "on purpose");
}

#[derive(Debug)]
struct Panicking {
    files: Arc<SimStorage>,
    armed: Arc<Armed>,
}

impl Storage for Panicking {
    tailwater_io::forward_storage!(
        files: open, rename, remove_directory, link, list, create_directory, metadata, identity,
        canonical_path, capabilities, resident_pages, sync_directory, lock, statistics,
    );

    fn remove(&self, path: &Path) -> Result<()> {
        panic_once(&self.armed.removal);
        self.files.remove(path)
    }

    fn create(
        &self,
        path: &Path,
        create: Create,
        mode: IoMode,
        purpose: Purpose,
    ) -> Result<Box<dyn WriteFile>> {
        let file = self.files.create(path, create, mode, purpose)?;
        Ok(Box::new(PanickingFile { file, armed: Arc::clone(&self.armed) }))
    }
}

#[derive(Debug)]
struct PanickingFile {
    file: Box<dyn WriteFile>,
    armed: Arc<Armed>,
}

impl WriteFile for PanickingFile {
    tailwater_io::forward_write_file!(
        file: sync_data, sync_all, truncate, allocate, start_writeback, length, path, mode,
        alignment,
    );

    fn write_at(&mut self, bytes: &[u8], offset: u64, purpose: Purpose) -> Result<usize> {
        if purpose == Purpose::LogJournal {
            panic_once(&self.armed.journal);
        }
        self.file.write_at(bytes, offset, purpose)
    }

    fn write_vectored_at(
        &mut self,
        parts: &[IoSlice<'_>],
        offset: u64,
        is_durable: bool,
        purpose: Purpose,
    ) -> Result<()> {
        panic_once(&self.armed.append);
        self.file.write_vectored_at(parts, offset, is_durable, purpose)
    }
}

/// Opens a log with one persister, on a storage whose calls can panic.
fn open() -> (Machine, Arc<Armed>, Log) {
    let machine = Machine::new(1, false);
    let armed = Arc::new(Armed::default());
    let storage = Panicking { files: Arc::clone(&machine.storage), armed: Arc::clone(&armed) };
    let options = machine.options().with_storage(Arc::new(storage)).with_persisters(1);
    let log = Log::open(DIRECTORY, &options).expect("the log opens");
    (machine, armed, log)
}

/// Regression test: a panic during a persist ended the thread, and the tickets of the partition
/// never completed.
#[test]
fn a_persist_that_panics_fails_its_appends_and_no_others() {
    let (machine, armed, log) = open();
    let stream = log.create_stream(None, "s").expect("a stream");
    let options = topic(Durability::Disk, PartialBlocks::Pad);
    let id = log.create_topic(stream, None, "t", &options, 2).expect("a topic");
    let first = log.partition(id.partition(0)).expect("a partition");
    let second = log.partition(id.partition(1)).expect("a partition");
    first.append(&batch(0..1, 100)).expect("an append").ticket.wait().expect("acknowledged");
    armed.append.store(true, Ordering::SeqCst);
    let error = first.append(&batch(1..2, 100)).expect("an append").ticket.wait();
    let error = error.expect_err("the persist panics");
    assert_eq!(error.kind(), ErrorKind::Panicked);
    assert!(error.to_string().contains("a persist panicked: on purpose"), "{error}");
    let refused = first.try_append(&batch(2..3, 100)).expect_err("the partition has failed");
    assert_eq!(refused.kind(), ErrorKind::Panicked);
    second.append(&batch(0..1, 100)).expect("an append").ticket.wait().expect("acknowledged");
    log.close().expect_err("a partition has failed");
    drop(log);
    let log = machine.open();
    let first = log.partition(id.partition(0)).expect("a partition");
    assert_eq!(read_all(&first), [(0, 0)]);
}

/// Regression test: if a command of a partition panicked, the ticket of the command never
/// completed.
#[test]
fn a_command_that_panics_fails_and_appends_that_wait_fail() {
    let (machine, armed, log) = open();
    let stream = log.create_stream(None, "s").expect("a stream");
    let options = topic(Durability::Disk, PartialBlocks::Pad);
    let id = log.create_topic(stream, None, "t", &options, 1).expect("a topic");
    let partition = log.partition(id.partition(0)).expect("a partition");
    for number in 0..4 {
        let appended = partition.append(&batch(number..number + 1, 40_000)).expect("an append");
        appended.ticket.wait().expect("acknowledged");
    }
    armed.removal.store(true, Ordering::SeqCst);
    let error = partition.delete_segments(1, u64::MAX).wait().expect_err("the removal panics");
    assert_eq!(error.kind(), ErrorKind::Panicked);
    partition.try_append(&batch(4..5, 100)).expect_err("the partition has failed");
    // A purge makes the failed partition usable again, because it replaces the partition's
    // segments.
    partition.purge().wait().expect("a purge");
    partition.append(&batch(4..5, 100)).expect("an append").ticket.wait().expect("acknowledged");
    log.close().expect("the log closes");
    drop(log);
    let log = machine.open();
    assert_eq!(read_all(&log.partition(id.partition(0)).expect("a partition")), [(0, 4)]);
}

#[test]
fn offsets_are_stored_after_a_write_of_them_panicked() {
    let (machine, armed, log) = open();
    let stream = log.create_stream(None, "s").expect("a stream");
    let options = topic(Durability::Disk, PartialBlocks::Pad);
    let id = log.create_topic(stream, None, "t", &options, 1).expect("a topic").partition(0);
    let partition = log.partition(id).expect("a partition");
    partition.append(&batch(0..3, 100)).expect("an append").ticket.wait().expect("acknowledged");
    armed.journal.store(true, Ordering::SeqCst);
    let store = |offset| log.store_offset(id, Consumer::Single(1), offset);
    let error = store(1).expect("a valid offset").wait().expect_err("the write panics");
    assert_eq!(error.kind(), ErrorKind::Panicked);
    store(2).expect("a valid offset").wait().expect("a stored offset");
    log.close().expect("the log closes");
    drop((partition, log));
    let log = machine.open();
    assert_eq!(log.offset(id, Consumer::Single(1)).expect("a partition"), Some(2));
}

/// Regression test: two producers waited for memory, and the wake function of the first one
/// panicked when memory became free. The panic failed the partition, and the second producer was
/// not woken.
#[test]
fn a_waker_that_panics_keeps_no_other_from_waking() {
    let machine = Machine::new(1, false);
    let options = machine.options().with_partition_unpersisted_bytes_max(64 << 10);
    let log = Log::open(DIRECTORY, &options).expect("the log opens");
    let stream = log.create_stream(None, "s").expect("a stream");
    let options = topic(Durability::Disk, PartialBlocks::Pad);
    let id = log.create_topic(stream, None, "t", &options, 1).expect("a topic");
    let partition = log.partition(id.partition(0)).expect("a partition");
    let first = partition.try_append(&batch(0..1, 50_000)).expect("an append");
    let bytes = batch(1..2, 50_000);
    let next = partition.verify(&bytes).expect("a batch");
    partition.try_append_or(&next, || panic!("on purpose")).expect_err("there is no room");
    let is_woken = Arc::new(AtomicBool::new(false));
    let woken = Arc::clone(&is_woken);
    let wake = move || woken.store(true, Ordering::SeqCst);
    partition.try_append_or(&next, wake).expect_err("there is no room");
    log.run_pending();
    first.ticket.wait().expect("acknowledged");
    assert!(is_woken.load(Ordering::SeqCst));
    assert!(partition.failure().is_none());
}
