//! Checks that a log notices when its LOCK is lost, and that it leaves files alone that it did not
//! create.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_io::sim::SimStorage;
use tailwater_io::{Create, IoMode, Purpose, SharedMemory, Storage};
use tailwater_log::{
    Consumer, Durability, ErrorKind, Log, PartialBlocks, Partition, Result, TopicId,
};

use crate::common::{DIRECTORY, Machine, batch, read_all, topic};

/// More than the time after which an append checks the LOCK again, in nanoseconds.
const CHECKED_NS: u64 = 20_000_000;

fn create_topic(log: &Log, durability: Durability) -> (TopicId, Arc<Partition>) {
    let stream = log.create_stream(None, "stream").expect("a stream");
    let options = topic(durability, PartialBlocks::Pad);
    let id = log.create_topic(stream, None, "topic", &options, 1).expect("a topic");
    (id, log.partition(id.partition(0)).expect("a partition"))
}

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

/// Returns the contents of all files below a directory.
fn files(storage: &SimStorage, directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in storage.list(directory).expect("a list") {
        let path = directory.join(entry.name);
        if entry.is_directory {
            found.extend(files(storage, &path));
        } else {
            found.insert(path.clone(), read(storage, &path));
        }
    }
    found
}

fn read(storage: &SimStorage, path: &Path) -> Vec<u8> {
    let file = storage.open(path, IoMode::Buffered, Purpose::Metadata).expect("a file");
    let mut bytes = vec![0; file.length().expect("a length") as usize];
    file.read_full_at(&mut bytes, 0, Purpose::Metadata).expect("a read");
    bytes
}

/// Creates a file that does not belong to the log.
fn put(storage: &SimStorage, path: &Path, bytes: &[u8]) {
    let mode = IoMode::Buffered;
    let mut file = storage.create(path, Create::New, mode, Purpose::Metadata).expect("a new file");
    file.write_all_at(bytes, 0, Purpose::Metadata).expect("a write");
    file.sync_all(Purpose::Metadata).expect("a sync");
    storage.sync_directory(path.parent().expect("a directory")).expect("a sync");
}

fn lock_path() -> PathBuf {
    Path::new(DIRECTORY).join("LOCK")
}

/// Checks that the error says that the LOCK is lost, and what to do.
#[track_caller]
fn assert_lost<T: std::fmt::Debug>(outcome: Result<T>) {
    let error = outcome.expect_err("the LOCK is lost");
    let text = error.to_string();
    assert!(text.contains("LOCK was removed or replaced"), "{text}");
    assert!(text.contains("/log/LOCK") && text.contains("open it again"), "{text}");
    assert_eq!(error.kind(), ErrorKind::Io, "{text}");
}

/// Regression test: a log whose LOCK was removed went on writing, although another process could
/// open the log.
#[test]
fn a_log_without_its_lock_changes_nothing() {
    for durability in [Durability::Memory, Durability::Process, Durability::Disk] {
        for is_replaced in [false, true] {
            let machine = Machine::new(1, true);
            let log = machine.open();
            let (id, partition) = create_topic(&log, durability);
            append(&log, &partition, 0..3, 50_000);
            // These messages are only in memory.
            for number in 3..5 {
                drop(partition.append(&batch(number..number + 1, 100)).expect("an append"));
            }
            let storage = &machine.storage;
            storage.remove(&lock_path()).expect("a removal");
            if is_replaced {
                put(storage, &lock_path(), b"");
            }
            storage.clock().advance(CHECKED_NS);
            let memory = machine.memory.as_ref().expect("memory");
            let (before, regions) = (files(storage, Path::new(DIRECTORY)), memory.list());
            assert_lost(partition.try_append(&batch(5..6, 100)).map(|_| ()));
            let commands = [
                partition.flush(true),
                partition.purge(),
                partition.truncate(1),
                partition.delete_segments(1, u64::MAX),
                partition.retain(),
            ];
            for ticket in commands {
                log.run_pending();
                let _ = ticket.wait();
            }
            assert_lost(log.create_stream(None, "other"));
            assert_lost(log.create_topic(
                0,
                None,
                "other",
                &topic(durability, PartialBlocks::Pad),
                1,
            ));
            assert_lost(log.create_partitions(id, 1));
            assert_lost(log.delete_topic(id));
            assert_lost(log.set_records(&[("key".to_owned(), Some("value".to_owned()))]));
            let stored = log.store_offset(id.partition(0), Consumer::Single(1), 0).expect("stored");
            log.run_pending();
            assert_lost(stored.wait());
            storage.clock().advance(100_000_000_000);
            log.run_pending();
            assert_lost(partition.try_append(&batch(5..6, 100)).map(|_| ()));
            assert!(partition.failure().is_some());
            assert_lost(log.close());
            drop((partition, log));
            assert_eq!(files(storage, Path::new(DIRECTORY)), before, "{durability:?}");
            assert_eq!(memory.list().expect("regions"), regions.expect("regions"));
            // What was acknowledged is there when the log is opened again.
            let expected = match durability {
                Durability::Process => vec![0, 1, 2, 3, 4],
                _ => vec![0, 1, 2],
            };
            let log = machine.open();
            let partition = log.partition(id.partition(0)).expect("a partition");
            assert_eq!(numbers(&partition), expected, "{durability:?}");
        }
    }
}

/// Even if the LOCK returns, another process may have used the log in the meantime.
#[test]
fn a_lost_lock_stays_lost() {
    let machine = Machine::new(2, false);
    let log = machine.open();
    let (_, partition) = create_topic(&log, Durability::Disk);
    append(&log, &partition, 0..1, 100);
    let hidden = Path::new("/hidden");
    machine.storage.rename(&lock_path(), hidden).expect("a rename");
    machine.storage.clock().advance(CHECKED_NS);
    assert_lost(partition.try_append(&batch(1..2, 100)).map(|_| ()));
    machine.storage.rename(hidden, &lock_path()).expect("a rename");
    machine.storage.clock().advance(CHECKED_NS);
    assert_lost(partition.try_append(&batch(1..2, 100)).map(|_| ()));
    assert_eq!(numbers(&partition), [0]);
}

/// Regression test: after the LOCK of an open log was removed, another process opened the log, and
/// each of the two destroyed what the other had acknowledged.
#[test]
fn two_processes_on_one_directory_destroy_nothing_of_each_other() {
    for durability in [Durability::Process, Durability::Disk] {
        let machine = Machine::new(3, true);
        let first = machine.open();
        let (id, partition) = create_topic(&first, durability);
        append(&first, &partition, 0..3, 30_000);
        if durability == Durability::Process {
            drop(partition.append(&batch(3..4, 100)).expect("an append"));
        } else {
            append(&first, &partition, 3..4, 100);
        }
        let stored = first.store_offset(id.partition(0), Consumer::Single(1), 2).expect("stored");
        first.run_pending();
        stored.wait().expect("an offset");
        machine.storage.remove(&lock_path()).expect("a removal");
        let second = machine.open();
        let others = second.partition(id.partition(0)).expect("a partition");
        append(&second, &others, 4..6, 30_000);
        if durability == Durability::Process {
            drop(others.append(&batch(6..7, 100)).expect("an append"));
        } else {
            append(&second, &others, 6..7, 100);
        }
        second.set_records(&[("key".to_owned(), Some("second".to_owned()))]).expect("a record");
        // The first process does all that it would have done.
        machine.storage.clock().advance(CHECKED_NS);
        assert_lost(partition.try_append(&batch(7..8, 100)).map(|_| ()));
        assert_lost(first.set_records(&[("key".to_owned(), Some("first".to_owned()))]));
        let purged = partition.purge();
        first.run_pending();
        assert_lost(purged.wait());
        machine.storage.clock().advance(100_000_000_000);
        first.run_pending();
        assert_lost(first.close());
        drop((partition, first));
        append(&second, &others, 7..8, 30_000);
        assert_eq!(numbers(&others), (0..8).collect::<Vec<_>>());
        second.close().expect("the log closes");
        drop((others, second));
        let log = machine.open();
        let partition = log.partition(id.partition(0)).expect("a partition");
        assert_eq!(numbers(&partition), (0..8).collect::<Vec<_>>(), "{durability:?}");
        assert_eq!(log.records("key")["key"], "second");
        assert_eq!(log.offset(id.partition(0), Consumer::Single(1)).expect("stored"), Some(2));
    }
}

/// The directory of the only partition of the first topic.
fn partition_directory(incarnation: u64) -> PathBuf {
    Path::new(DIRECTORY).join(format!("streams/0/topics/0/partitions/0.{incarnation}"))
}

/// Regression test: files that the log did not create, but whose names it was about to use, were
/// truncated, replaced or removed.
#[test]
fn files_in_the_way_are_left_alone() {
    let machine = Machine::new(4, false);
    let storage = &machine.storage;
    let log = machine.open();
    let (id, partition) = create_topic(&log, Durability::Disk);
    append(&log, &partition, 0..1, 50_000);
    let directory = Path::new(DIRECTORY);
    let in_the_way = [
        directory.join("catalog-000002.journal"),
        directory.join("catalog-000003.journal.tmp"),
        directory.join("offsets-1.journal"),
        directory.join("notes.tmp"),
        partition_directory(0).join("notes.tmp"),
        partition_directory(0).join("notes.log"),
    ];
    for path in &in_the_way {
        put(storage, path, path.as_os_str().as_encoded_bytes());
    }
    // The next incarnation's directory exists, and contains a file.
    let occupied = partition_directory(1);
    storage.create_directory(&occupied).expect("a directory");
    put(storage, &occupied.join("notes"), b"notes");
    let long = "x".repeat(3000);
    for number in 0..60 {
        let record = [("key".to_owned(), Some(format!("{number} {long}")))];
        log.set_records(&record).expect("a record");
    }
    append(&log, &partition, 1..3, 50_000);
    let purged = partition.purge();
    log.run_pending();
    purged.wait().expect("a purge");
    append(&log, &partition, 3..4, 50_000);
    log.close().expect("the log closes");
    drop((partition, log));
    let log = machine.open();
    let partition = log.partition(id.partition(0)).expect("a partition");
    assert_eq!(numbers(&partition), [3]);
    assert!(log.records("key")["key"].starts_with("59 "));
    for path in &in_the_way {
        // A temporary file in the log's directory is what an interrupted rewrite leaves. The purge
        // removes the directory of the old incarnation, if nothing else is in it.
        if !path.ends_with("catalog-000003.journal.tmp") {
            assert_eq!(read(storage, path), path.as_os_str().as_encoded_bytes(), "{path:?}");
        }
    }
    assert_eq!(read(storage, &occupied.join("notes")), b"notes");
}

/// Regression test: a segment that was begun truncated the file of the same name, which another
/// process had put there.
#[test]
fn a_segment_file_of_another_process_is_not_truncated() {
    let machine = Machine::new(5, false);
    let storage = &machine.storage;
    let log = machine.open();
    let (id, partition) = create_topic(&log, Durability::Disk);
    let path = partition_directory(0).join("00000000000000000000-00000000000000000000-0.log");
    put(storage, &path, b"not of this log");
    let appended = partition.append(&batch(0..1, 100)).expect("an append");
    log.run_pending();
    let error = appended.ticket.wait().expect_err("the file exists");
    let text = error.to_string();
    assert!(text.contains(&path.display().to_string()) && text.contains("exists"), "{text}");
    assert!(text.contains("did not create"), "{text}");
    assert_eq!(read(storage, &path), b"not of this log");
    // The log goes on where the file is moved away, and the log is opened again.
    storage.rename(&path, Path::new("/moved")).expect("a rename");
    drop((partition, log));
    let log = machine.open();
    let partition = log.partition(id.partition(0)).expect("a partition");
    append(&log, &partition, 0..1, 100);
    assert_eq!(numbers(&partition), [0]);
}

/// Regression test: the bytes after damage, which recovery keeps in a file, replaced those of an
/// earlier recovery.
#[test]
fn bytes_that_were_cut_off_earlier_are_kept() {
    let machine = Machine::new(6, false);
    let log = machine.open();
    let options = topic(Durability::Memory, PartialBlocks::Carry);
    let stream = log.create_stream(None, "stream").expect("a stream");
    let id = log.create_topic(stream, None, "topic", &options, 1).expect("a topic");
    let partition = log.partition(id.partition(0)).expect("a partition");
    append(&log, &partition, 0..1, 100);
    log.close().expect("the log closes");
    drop((partition, log));
    let storage = &machine.storage;
    let name = |name: &String| name.ends_with(".log");
    let names = || -> Vec<String> {
        let entries = storage.list(&partition_directory(0)).expect("a list");
        entries.into_iter().map(|entry| entry.name).collect()
    };
    let segment = partition_directory(0).join(names().into_iter().find(name).expect("a segment"));
    let mut kept = Vec::new();
    for round in 0..3_u8 {
        let mut file = storage
            .create(&segment, Create::Existing, IoMode::Buffered, Purpose::Metadata)
            .expect("the segment");
        let end = file.length().expect("a length");
        file.write_all_at(&[round + 1; 700], end, Purpose::Metadata).expect("a write");
        drop(file);
        drop(machine.open());
        kept = names().into_iter().filter(|name| name.contains(".log.cut-")).collect();
        assert_eq!(kept.len(), usize::from(round) + 1, "{kept:?}");
    }
    let mut contents: Vec<u8> =
        kept.iter().map(|name| read(storage, &partition_directory(0).join(name))[0]).collect();
    contents.sort_unstable();
    assert_eq!(contents, [1, 2, 3]);
}

/// Regression test: inspecting a log wrote an index, although inspections write nothing.
#[test]
fn inspecting_a_log_changes_nothing() {
    let machine = Machine::new(7, false);
    let log = machine.open();
    let (id, partition) = create_topic(&log, Durability::Disk);
    append(&log, &partition, 0..1, 100);
    append(&log, &partition, 1..4, 60_000);
    log.close().expect("the log closes");
    drop((partition, log));
    let storage = Arc::clone(&machine.storage);
    for (path, _) in files(&storage, Path::new(DIRECTORY)) {
        if path.extension().is_some_and(|extension| extension == "index") {
            storage.remove(&path).expect("a removal");
        }
    }
    let before = files(&storage, Path::new(DIRECTORY));
    let directory = tailwater_log::inspect::LogDirectory::read(
        Arc::clone(&storage) as Arc<dyn Storage>,
        Path::new(DIRECTORY),
    )
    .expect("a log");
    let mut seen = 0;
    let found = directory.partition(id.partition(0)).expect("a partition");
    found
        .visit(1, |header, _| {
            seen += header.count;
            true
        })
        .expect("a visit");
    assert_eq!(seen, 3);
    assert!(directory.verify(|_| ()).findings.len() < 10);
    assert_eq!(files(&storage, Path::new(DIRECTORY)), before);
}
