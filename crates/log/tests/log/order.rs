//! Interactions between commands, on one partition and on several: reused ids, the rewriting of
//! segments, and closing.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};

use tailwater_io::sim::SimStorage;
use tailwater_io::{Create, IoMode, Purpose, ReadFile, Result, Storage, WriteFile};
use tailwater_log::{
    Consumer, Durability, ErrorKind, Log, PartialBlocks, Partition, Polled, Strategy, TopicId,
    TopicOptions,
};

use crate::common::{DIRECTORY, Machine, batch, read_all, topic};

fn create_topic(log: &Log) -> (TopicId, Arc<Partition>) {
    let options = topic(Durability::Disk, PartialBlocks::Pad);
    let id = log.create_topic(0, None, "topic", &options, 1).expect("a topic");
    (id, log.partition(id.partition(0)).expect("a partition"))
}

fn append(log: &Log, partition: &Partition, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let appended = partition.append(&batch(number..number + 1, 900)).expect("an append");
        log.run_pending();
        appended.ticket.wait().expect("an acknowledgement");
    }
}

fn numbers(partition: &Partition) -> Vec<u64> {
    read_all(partition).into_iter().map(|(_, number)| number).collect()
}

#[test]
fn a_purge_of_a_deleted_topic_spares_a_new_topic_with_its_id() {
    let machine = Machine::new(1, false);
    let log = machine.open();
    log.create_stream(Some(0), "stream").expect("a stream");
    let (first, old) = create_topic(&log);
    append(&log, &old, 0..3);
    let purged = old.purge();
    log.delete_topic(first).expect("a deletion");
    let (second, new) = create_topic(&log);
    assert_eq!(second, first, "the id is used again");
    log.run_pending();
    assert_eq!(purged.wait().expect_err("the partition was deleted").kind(), ErrorKind::NotFound);
    append(&log, &new, 10..13);
    log.close().expect("the log closes");
    drop(log);
    let log = machine.open();
    assert_eq!(numbers(&log.partition(second.partition(0)).expect("a partition")), [10, 11, 12]);
}

/// Regression test: a flush that was queued behind a purge or a truncation failed with the error
/// that the partition is closed, because the messages to persist no longer existed.
#[test]
fn a_flush_succeeds_behind_a_command_that_removes_its_messages() {
    for removes_all in [true, false] {
        let machine = Machine::new(1, false);
        let log = machine.open();
        log.create_stream(Some(0), "stream").expect("a stream");
        let (_, partition) = create_topic(&log);
        append(&log, &partition, 0..5);
        let appended = partition.append(&batch(5..6, 900)).expect("an append");
        let removal = if removes_all { partition.purge() } else { partition.truncate(2) };
        let flushed = partition.flush(true);
        log.run_pending();
        removal.wait().expect("messages are removed");
        flushed.wait().expect("nothing is left to persist");
        appended.ticket.wait().expect("an acknowledgement");
        let left: &[u64] = if removes_all { &[] } else { &[0, 1] };
        assert_eq!(numbers(&partition), left);
    }
}

/// Regression test: the offset of a polled message was stored after a purge. It then meant a
/// message of the new incarnation, so the consumer skipped the messages before it.
#[test]
fn an_offset_polled_before_a_purge_is_not_stored_after_it() {
    let machine = Machine::new(1, false);
    let log = machine.open();
    log.create_stream(Some(0), "stream").expect("a stream");
    let (topic, partition) = create_topic(&log);
    let (id, consumer) = (topic.partition(0), Consumer::Single(1));
    append(&log, &partition, 0..3);
    let store = |polled: &Polled| {
        let last = polled.end_offset() - 1;
        let stored = log.store_polled_offset(id, polled.incarnation, consumer, last);
        log.run_pending();
        stored.expect("no error").wait().expect("no error");
        log.offset(id, consumer).expect("the partition exists")
    };
    let polled = partition.poll(Strategy::First, 10).expect("a poll");
    log.purge_topic(topic).expect("a purge");
    append(&log, &partition, 10..15);
    assert_eq!(store(&polled), None);
    let polled = partition.poll(Strategy::First, 2).expect("a poll");
    assert_eq!(store(&polled), Some(1));
}

/// Messages that are read again do not move the consumer back; only a store without a poll does.
#[test]
fn a_polled_offset_is_not_stored_below_a_stored_one() {
    let machine = Machine::new(1, false);
    let log = machine.open();
    log.create_stream(Some(0), "stream").expect("a stream");
    let (topic, partition) = create_topic(&log);
    let (id, consumer) = (topic.partition(0), Consumer::Single(1));
    append(&log, &partition, 0..9);
    let incarnation = partition.stats().incarnation;
    let stored = |ticket: tailwater_log::Result<tailwater_log::Ticket>| {
        log.run_pending();
        ticket.expect("no error").wait().expect("no error");
        log.offset(id, consumer).expect("the partition exists")
    };
    let store_polled = |offset| log.store_polled_offset(id, incarnation, consumer, offset);
    assert_eq!(stored(store_polled(5)), Some(5));
    assert_eq!(stored(store_polled(2)), Some(5));
    assert_eq!(stored(log.store_offset(id, consumer, 1)), Some(1));
    assert_eq!(stored(store_polled(2)), Some(2));
}

/// Regression test: a poll by timestamp returned old messages, if all messages were older than the
/// timestamp and the memory of the partition's first chunk had been given to another partition.
#[test]
fn a_poll_by_a_future_timestamp_finds_nothing_after_eviction() {
    let machine = Machine::new(1, false);
    let log = machine.open();
    log.create_stream(Some(0), "stream").expect("a stream");
    let (_, partition) = create_topic(&log);
    let options = topic(Durability::Disk, PartialBlocks::Pad);
    let others = log.create_topic(0, None, "others", &options, 3).expect("a topic");
    let others = [0, 1, 2].map(|id| log.partition(others.partition(id)).expect("a partition"));
    let append_to_others = || {
        for (number, other) in (0..15).flat_map(|number| others.iter().map(move |it| (number, it)))
        {
            // The memory of all tails may become full.
            let _ = other.try_append(&batch(number..number + 1, 60_000));
        }
    };
    // The chunk is persisted while memory is scarce, so that it is closed, and evicted later.
    drop(partition.append(&batch(0..3, 900)).expect("an append"));
    append_to_others();
    log.run_pending();
    append_to_others();
    log.run_pending();
    assert!(partition.poll_memory(Strategy::First, 1).expect("a poll").is_none(), "evicted");
    let polled = partition.poll(Strategy::Timestamp(u64::MAX), 10).expect("a poll");
    assert_eq!((polled.count, polled.partition_last_offset), (0, Some(2)));
}

#[test]
fn topics_of_one_id_are_deleted_and_created_at_once() {
    let machine = Machine::new(2, false);
    let options = machine.options().with_persisters(1);
    let log = Log::open(DIRECTORY, &options).expect("the log opens");
    log.create_stream(Some(0), "stream").expect("a stream");
    let options = topic(Durability::Disk, PartialBlocks::Pad);
    for round in 0..20 {
        let id = log.create_topic(0, Some(0), "topic", &options, 50).expect("a topic");
        std::thread::scope(|scope| {
            scope.spawn(|| log.delete_topic(id).expect("a deletion"));
            scope.spawn(|| while log.create_topic(0, Some(0), "topic", &options, 50).is_err() {});
        });
        for partition in 0..50 {
            let partition = log.partition(id.partition(partition));
            let partition = partition.unwrap_or_else(|error| panic!("round {round}: {error}"));
            if partition.id().partition == 7 {
                let appended = partition.append(&batch(0..1, 10)).expect("an append");
                appended.ticket.wait().expect("an acknowledgement");
            }
        }
        let storage = Arc::new(machine.storage.process_crash_image(round));
        let left = Machine { storage, memory: None, boot: 1 }.open();
        assert_eq!(numbers(&left.partition(id.partition(7)).expect("a partition")), [0]);
        log.delete_topic(id).expect("a deletion");
    }
}

/// A storage that calls `on_rewrite` when the log creates the file of a rewritten segment, and that
/// records the files opened for reading.
struct Watched {
    files: Arc<SimStorage>,
    on_rewrite: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    opened: Mutex<Vec<(PathBuf, Weak<dyn ReadFile>)>>,
}

impl Watched {
    fn new(machine: &Machine) -> Arc<Self> {
        let (on_rewrite, opened) = (Mutex::default(), Mutex::default());
        Arc::new(Self { files: Arc::clone(&machine.storage), on_rewrite, opened })
    }

    /// Opens the log of a machine on this storage.
    fn open_log(self: &Arc<Self>, machine: &Machine) -> Log {
        let storage = Arc::clone(self) as Arc<dyn Storage>;
        Log::open(DIRECTORY, &machine.options().with_storage(storage)).expect("the log opens")
    }

    /// Returns the number of segments open for reading.
    fn open_segments(&self) -> usize {
        let opened = self.opened.lock().expect("no panic");
        let is_open = |(path, file): &&(PathBuf, Weak<dyn ReadFile>)| {
            path.extension().is_some_and(|it| it == "log") && file.strong_count() > 0
        };
        opened.iter().filter(is_open).count()
    }
}

impl std::fmt::Debug for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Watched")
    }
}

impl Storage for Watched {
    tailwater_io::forward_storage!(
        files: rename, remove, remove_directory, link, list, create_directory, metadata,
        identity, canonical_path, capabilities, resident_pages, sync_directory, lock, statistics,
    );

    fn open(&self, path: &Path, mode: IoMode, purpose: Purpose) -> Result<Arc<dyn ReadFile>> {
        let file = self.files.open(path, mode, purpose)?;
        self.opened.lock().expect("no panic").push((path.to_owned(), Arc::downgrade(&file)));
        Ok(file)
    }

    fn create(
        &self,
        path: &Path,
        create: Create,
        mode: IoMode,
        purpose: Purpose,
    ) -> Result<Box<dyn WriteFile>> {
        if path.to_string_lossy().ends_with("-1.log.tmp")
            && let Some(act) = self.on_rewrite.lock().expect("no panic").take()
        {
            act();
        }
        self.files.create(path, create, mode, purpose)
    }
}

#[test]
fn a_rewritten_segment_does_not_bring_back_what_was_truncated_meanwhile() {
    let machine = Machine::new(3, false);
    let watched = Watched::new(&machine);
    let log = watched.open_log(&machine);
    log.create_stream(Some(0), "stream").expect("a stream");
    let (id, partition) = create_topic(&log);
    let truncated: Arc<Mutex<Option<tailwater_log::Ticket>>> = Arc::default();
    let (weak, ticket): (Weak<Partition>, _) = (Arc::downgrade(&partition), Arc::clone(&truncated));
    *watched.on_rewrite.lock().expect("no panic") = Some(Box::new(move || {
        let partition = weak.upgrade().expect("the partition is open");
        *ticket.lock().expect("no panic") = Some(partition.truncate(3));
    }));
    // Each block contains one small message and a gap, so the log rewrites the first segment
    // without gaps when the segment is sealed.
    let mut count = 0;
    while truncated.lock().expect("no panic").is_none() {
        append(&log, &partition, count..count + 1);
        count += 1;
        assert!(count < 1000, "no segment was rewritten");
    }
    log.run_pending();
    let ticket = truncated.lock().expect("no panic").take().expect("a ticket");
    ticket.wait().expect("a truncation");
    assert_eq!(numbers(&partition), [0, 1, 2]);
    let storage = Arc::new(machine.storage.process_crash_image(1));
    let left = Machine { storage, memory: None, boot: 1 }.open();
    assert_eq!(numbers(&left.partition(id.partition(0)).expect("a partition")), [0, 1, 2]);
}

#[test]
fn a_closed_log_changes_nothing_on_disk() {
    let machine = Machine::new(4, false);
    let log = machine.open();
    log.create_stream(Some(0), "stream").expect("a stream");
    let (id, partition) = create_topic(&log);
    append(&log, &partition, 0..2);
    log.close().expect("the log closes");
    let before = machine.storage.call_count();
    let options = TopicOptions::default();
    for changed in [
        log.create_stream(None, "more").map(|_| ()),
        log.rename_stream(0, "other"),
        log.create_topic(0, None, "more", &options, 1).map(|_| ()),
        log.update_topic(id, "other", &options),
        log.create_partitions(id, 1).map(|_| ()),
        log.set_records(&[("key".to_owned(), Some("value".to_owned()))]),
        partition.purge().wait(),
        partition.append(&batch(2..3, 900)).map(|_| ()),
        log.partition(id.partition(0)).map(|_| ()),
        log.store_offset(id.partition(0), Consumer::Single(1), 0).map(|_| ()),
        log.offset(id.partition(0), Consumer::Single(1)).map(|_| ()),
        log.truncate(id.partition(0), 1),
        log.purge_topic(id),
        log.delete_partitions(id, 1),
        log.delete_topic(id),
        log.delete_stream(0),
    ] {
        assert_eq!(changed.expect_err("the log is closed").kind(), ErrorKind::Closed);
    }
    assert_eq!(machine.storage.call_count(), before, "files were touched");
}

/// Regression test: once the last check of the LOCK was 10 ms ago, an append to a closed log failed
/// with an I/O error that named the LOCK, because the log had released it.
#[test]
fn an_append_long_after_closing_reports_that_the_log_was_closed() {
    let machine = Machine::new(4, false);
    let log = machine.open();
    log.create_stream(Some(0), "stream").expect("a stream");
    let (_, partition) = create_topic(&log);
    append(&log, &partition, 0..2);
    log.close().expect("the log closes");
    machine.storage.clock().advance(1_000_000_000);
    for error in [
        partition.append(&batch(2..3, 900)).expect_err("the log is closed"),
        partition.try_append(&batch(2..3, 900)).expect_err("the log is closed"),
        partition.failure().expect("appends are refused"),
    ] {
        assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    }
}

/// Regression test: calls on a deleted partition failed as if the log had been closed, so a caller
/// could not tell the two apart.
#[test]
fn calls_on_a_deleted_partition_do_not_find_it() {
    let machine = Machine::new(1, false);
    let log = machine.open();
    log.create_stream(Some(0), "stream").expect("a stream");
    let (id, partition) = create_topic(&log);
    append(&log, &partition, 0..2);
    let unacknowledged = partition.append(&batch(2..3, 900)).expect("an append").ticket;
    log.delete_topic(id).expect("a deletion");
    let flushed = partition.flush(true);
    log.run_pending();
    for call in [
        unacknowledged.wait(),
        flushed.wait(),
        partition.append(&batch(3..4, 900)).map(|_| ()),
        partition.try_append(&batch(3..4, 900)).map(|_| ()),
        partition.purge().wait(),
        log.partition(id.partition(0)).map(|_| ()),
        Err(partition.failure().expect("appends are refused")),
    ] {
        let error = call.expect_err("the partition was deleted");
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    }
    log.close().expect("the log closes");
    let error = partition.try_append(&batch(3..4, 900)).expect_err("the partition was deleted");
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
}

#[test]
fn a_removed_segment_is_not_kept_open_for_a_consumer() {
    let machine = Machine::new(5, false);
    let log = machine.open();
    log.create_stream(Some(0), "stream").expect("a stream");
    let (_, partition) = create_topic(&log);
    append(&log, &partition, 0..60);
    assert!(partition.stats().segments > 3);
    drop(log.close());
    drop((log, partition));
    let watched = Watched::new(&machine);
    let log = watched.open_log(&machine);
    let partition = &log.partitions()[0];
    let held = watched.open_segments();
    // The consumer polls only a part of the first segment. The log keeps that segment open for the
    // consumer's next poll.
    assert_eq!(partition.poll(Strategy::First, 3).expect("a poll").count, 3);
    assert_eq!(watched.open_segments(), held + 1);
    let deleted = partition.delete_segments(1, u64::MAX);
    log.run_pending();
    deleted.wait().expect("a deletion");
    assert_eq!(watched.open_segments(), held, "the removed segment is still open");
}
