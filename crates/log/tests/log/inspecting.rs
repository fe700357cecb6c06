//! Checks that inspecting the directory of a log finds damage, and nothing else that looks like it.

use std::fs::Permissions;
use std::mem::replace;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::sync::Arc;

use tailwater_format::message::name::{FileName, Kind};
use tailwater_io::Storage;
use tailwater_io::posix::PosixStorage;
use tailwater_io::sim::SimStorage;
use tailwater_log::inspect::{self, LogDirectory, Severity, VerifyReport};
use tailwater_log::{Durability, ErrorKind, Log, LogOptions, PartialBlocks, Result, TopicId};
use tailwater_testkit::filesystem::say;

use crate::common::{DIRECTORY, Machine, batch, topic};
use crate::damage::{files, read, write};

/// Bytes of a block, which contains one group of [`filled`] and its gap.
const BLOCK: usize = 4096;
/// Bytes of the batch of a group of [`filled`].
const BATCH: u64 = 256 + 5 * (48 + 700);

/// Opens a log with one partition, and writes groups of 5 messages to it, each of one batch.
fn filled(
    machine: &Machine,
    partial_blocks: PartialBlocks,
    segment_bytes: u64,
    groups: u64,
) -> (Log, TopicId) {
    let log = machine.open();
    let stream = log.create_stream(None, "s").expect("a stream");
    let options = topic(Durability::Disk, partial_blocks)
        .with_messages_required_to_save(1)
        .with_segment_bytes(segment_bytes);
    let topic = log.create_topic(stream, None, "t", &options, 1).expect("a topic");
    let partition = log.partition(topic.partition(0)).expect("a partition");
    for group in 0..groups {
        let numbers = group * 5..group * 5 + 5;
        drop(partition.try_append(&batch(numbers, 700)).expect("an append"));
        log.run_pending();
    }
    (log, topic)
}

/// Opens a log with a topic whose partitions have this many segments, each of one message.
fn with_segments(machine: &Machine, partitions: u32, segments: u64) -> (Log, TopicId) {
    let log = machine.open();
    let stream = log.create_stream(None, "s").expect("a stream");
    let options = topic(Durability::Disk, PartialBlocks::Pad);
    let topic = log.create_topic(stream, None, "t", &options, partitions).expect("a topic");
    for number in 0..partitions {
        let partition = log.partition(topic.partition(number)).expect("a partition");
        for number in 0..segments {
            let appended = partition.append(&batch(number..number + 1, 60_000)).expect("an append");
            log.run_pending();
            appended.ticket.wait().expect("persisted");
        }
        assert_eq!(partition.stats().segments as u64, segments);
    }
    (log, topic)
}

/// Verifies a log, and calls `change` when the first batch was read.
fn verify_during(storage: &Arc<SimStorage>, mut change: impl FnMut()) -> VerifyReport {
    let mut is_changed = false;
    inspected(storage).verify(|_| {
        if !replace(&mut is_changed, true) {
            change();
        }
    })
}

fn inspected(storage: &Arc<SimStorage>) -> LogDirectory {
    let storage = Arc::clone(storage) as Arc<dyn Storage>;
    LogDirectory::read(storage, Path::new(DIRECTORY)).expect("a log")
}

/// Visits the batches of a partition from an offset on. Returns the number of their messages.
fn visit(storage: &Arc<SimStorage>, topic: TopicId, from: u64) -> Result<u64> {
    let mut messages = 0;
    inspected(storage).partition(topic.partition(0))?.visit(from, |header, _| {
        messages += u64::from(header.count);
        true
    })?;
    Ok(messages)
}

/// Returns the severities of the findings of a verification.
fn verify(storage: &Arc<SimStorage>) -> Vec<Severity> {
    let findings = inspected(storage).verify(|_| ()).findings;
    findings.into_iter().map(|finding| finding.severity).collect()
}

/// Regression test: a visit ended without an error at a damaged batch of the last segment, and
/// failed at a torn header if the segment had no index.
#[test]
fn a_visit_ends_at_a_torn_batch_and_reports_a_damaged_one() {
    let machine = Machine::new(1, false);
    // The last segment of an open log has no index, and preallocated space at its end.
    let (_log, topic) = filled(&machine, PartialBlocks::Pad, 1 << 20, 20);
    let storage = Arc::new(machine.storage.process_crash_image(1));
    let path = files(&storage, topic.partition(0), Kind::Log).pop().expect("a segment");
    let whole = read(&storage, &path);
    let end = whole.iter().rposition(|&byte| byte != 0).expect("a trailer") + 1;
    let end = end.next_multiple_of(BLOCK);
    assert_eq!(visit(&storage, topic, 0).expect("a whole segment"), 100);
    // In the last group: a byte of the batch's header, and one of a message.
    for at in [end - BLOCK + 60, end - BLOCK + 1000] {
        let mut torn = whole.clone();
        torn[at] ^= 1;
        write(&storage, &path, &torn);
        assert_eq!(visit(&storage, topic, 0).expect("a torn end"), 95, "{at}");
        assert_eq!(verify(&storage), [Severity::TornTail], "{at}");
    }
    for at in [5 * BLOCK + 60, 5 * BLOCK + 1000] {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        write(&storage, &path, &damaged);
        let error = visit(&storage, topic, 0).expect_err("damage");
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        assert_eq!(error.path(), Some(Path::new(&path)), "{error}");
        let offset = error.offset().expect("an offset") as usize;
        assert!((5 * BLOCK..6 * BLOCK).contains(&offset), "{error}");
        assert_eq!(verify(&storage), [Severity::Damage], "{at}");
    }
}

/// Regression test: damage before the last indexed batch of the last segment counted as the effect
/// of an interrupted write.
#[test]
fn batches_in_the_index_show_that_an_earlier_one_is_damaged() {
    for partial_blocks in [PartialBlocks::Pad, PartialBlocks::Carry] {
        let machine = Machine::new(1, false);
        let (log, topic) = filled(&machine, partial_blocks, 1 << 20, 60);
        log.close().expect("the log closes");
        let storage = &machine.storage;
        let path = files(storage, topic.partition(0), Kind::Log).pop().expect("a segment");
        let mut bytes = read(storage, &path);
        bytes[10_000] ^= 1;
        write(storage, &path, &bytes);
        assert_eq!(verify(storage), [Severity::Damage], "{partial_blocks:?}");
        let error = visit(storage, topic, 0).expect_err("damage");
        assert_eq!(error.path(), Some(Path::new(&path)), "{error}");
        // Later batches can be visited.
        assert_eq!(visit(storage, topic, 100).expect("whole batches"), 200, "{partial_blocks:?}");
    }
}

/// Regression test: damage in the last batch that the index of a closed log has counted as the
/// effect of an interrupted write, although the index is written after the segment was synced.
#[test]
fn the_index_shows_that_the_last_batch_was_whole() {
    // The index does not have batches that begin in a partial block at the end.
    for (partial_blocks, groups) in [(PartialBlocks::Pad, 1), (PartialBlocks::Carry, 2)] {
        let machine = Machine::new(1, false);
        let (log, topic) = filled(&machine, partial_blocks, 1 << 20, groups);
        log.close().expect("the log closes");
        let storage = &machine.storage;
        let path = files(storage, topic.partition(0), Kind::Log).pop().expect("a segment");
        let mut bytes = read(storage, &path);
        bytes[1000] ^= 1;
        write(storage, &path, &bytes);
        assert_eq!(verify(storage), [Severity::Damage], "{partial_blocks:?}");
        visit(storage, topic, 0).expect_err("damage");
    }
}

/// Regression test: if the first batch of a group had not reached the device, but a later one had,
/// the end of the segment counted as damaged.
#[test]
fn a_group_without_its_first_batch_is_torn() {
    let machine = Machine::new(1, false);
    let (log, topic) = filled(&machine, PartialBlocks::Pad, 1 << 20, 3);
    let partition = log.partition(topic.partition(0)).expect("a partition");
    // One group of two batches: the first fills one block, so that the second begins at a block.
    drop(partition.try_append(&batch(15..16, BLOCK - 256 - 48)).expect("an append"));
    drop(partition.try_append(&batch(16..17, 700)).expect("an append"));
    log.run_pending();
    let storage = Arc::new(machine.storage.process_crash_image(1));
    let path = files(&storage, topic.partition(0), Kind::Log).pop().expect("a segment");
    assert_eq!(visit(&storage, topic, 0).expect("a whole segment"), 17);
    let mut bytes = read(&storage, &path);
    bytes[3 * BLOCK..4 * BLOCK].fill(0);
    write(&storage, &path, &bytes);
    assert_eq!(verify(&storage), [Severity::TornTail]);
    assert_eq!(visit(&storage, topic, 0).expect("a torn end"), 15);
}

/// Regression test: a verification and a visit beside a running log reported damage if segments had
/// been removed since they listed the files.
#[test]
fn segments_that_are_removed_meanwhile_are_no_damage() {
    let machine = Machine::new(1, false);
    let (log, topic) = with_segments(&machine, 1, 10);
    let partition = log.partition(topic.partition(0)).expect("a partition");
    let remove = |count| {
        let removed = partition.delete_segments(count, u64::MAX);
        log.run_pending();
        removed.wait().expect("a removal");
    };
    let report = verify_during(&machine.storage, || remove(5));
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    // The first segment was being read, and the next four were gone.
    assert_eq!((report.partitions, report.segments, report.messages), (1, 6, 6));

    let directory = inspected(&machine.storage);
    let mut offsets = Vec::new();
    let files = directory.partition(topic.partition(0)).expect("files");
    let visited = files.visit(0, |header, _| {
        if offsets.is_empty() {
            remove(2);
        }
        offsets.push(header.base_offset);
        true
    });
    visited.expect("no damage");
    assert_eq!(offsets, [5, 7, 8, 9]);
}

/// Regression test: a verification reported damage if segments had been replaced by copies without
/// gaps since it listed the files.
#[test]
fn segments_that_are_rewritten_meanwhile_are_no_damage() {
    let machine = Machine::new(1, false);
    let (log, _) = filled(&machine, PartialBlocks::Pad, 64 << 10, 60);
    log.close().expect("the log closes");
    drop(log);
    let storage = Arc::clone(&machine.storage) as Arc<dyn Storage>;
    let mut rewritten = 0;
    let report = verify_during(&machine.storage, || {
        let compacted = inspect::compact(Arc::clone(&storage), Path::new(DIRECTORY));
        rewritten = compacted.expect("a log that is not open").segments;
    });
    assert!(rewritten > 1, "{rewritten}");
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    assert_eq!((report.partitions, report.messages), (1, 300));
}

/// Regression test: a verification reported damage in partitions that had been purged or deleted
/// since it read the catalog or listed the files.
#[test]
fn partitions_that_are_purged_or_deleted_meanwhile_are_no_damage() {
    for is_deleted in [false, true] {
        let machine = Machine::new(1, false);
        let (log, topic) = with_segments(&machine, 2, 4);
        let report = verify_during(&machine.storage, || {
            if is_deleted {
                log.delete_topic(topic).expect("a deletion");
                return log.run_pending();
            }
            for number in 0..2 {
                let partition = log.partition(topic.partition(number)).expect("a partition");
                let purged = partition.purge();
                log.run_pending();
                purged.wait().expect("a purge");
                drop(partition.append(&batch(0..1, 100)).expect("an append"));
                log.run_pending();
            }
        });
        assert!(report.findings.is_empty(), "{:?}", report.findings);
        let expected = if is_deleted { (0, 0) } else { (2, 2) };
        assert_eq!((report.partitions, report.messages), expected);
    }
}

#[test]
fn a_visit_of_a_partition_that_is_purged_meanwhile_ends() {
    let machine = Machine::new(1, false);
    let (log, topic) = with_segments(&machine, 1, 4);
    let directory = inspected(&machine.storage);
    let mut files = directory.partition(topic.partition(0)).expect("files");
    let incarnation = files.incarnation();
    let partition = log.partition(topic.partition(0)).expect("a partition");
    let mut visited = 0;
    let result = files.visit(0, |_, _| {
        visited += 1;
        let purged = partition.purge();
        log.run_pending();
        purged.wait().expect("a purge");
        true
    });
    let error = result.expect_err("a purge");
    assert_eq!((visited, error.kind()), (1, ErrorKind::Busy), "{error}");
    drop(partition.append(&batch(0..3, 100)).expect("an append"));
    log.run_pending();
    assert_eq!(files.offsets().expect("the new incarnation"), (0, 3));
    assert_ne!(files.incarnation(), incarnation);
    log.delete_topic(topic).expect("a deletion");
    log.run_pending();
    let error = directory.partition(topic.partition(0)).expect_err("a deletion");
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
}

/// A new listing must not hide that a segment in the middle is lost, and must not make anything
/// count twice.
#[test]
fn a_segment_that_is_lost_meanwhile_is_damage() {
    let machine = Machine::new(1, false);
    let (_log, topic) = with_segments(&machine, 1, 6);
    let path = files(&machine.storage, topic.partition(0), Kind::Log)[2].clone();
    let lose = || machine.storage.remove(path.as_ref()).expect("a removal");
    let report = verify_during(&machine.storage, lose);
    let [finding] = &report.findings[..] else { panic!("{:?}", report.findings) };
    assert_eq!(finding.severity, Severity::Damage);
    let text = finding.error.to_string();
    assert!(text.contains("it ends at offset 2, and the next segment begins at 3"), "{text}");
    assert_eq!((report.partitions, report.segments, report.messages), (1, 5, 5));
}

#[test]
fn a_file_that_changes_whenever_it_is_read_is_not_certainly_damaged() {
    let machine = Machine::new(1, false);
    let (log, topic) = filled(&machine, PartialBlocks::Pad, 64 << 10, 40);
    log.close().expect("the log closes");
    let storage = &machine.storage;
    let path = files(storage, topic.partition(0), Kind::Log)[0].clone();
    let whole = read(storage, &path);
    let damage = |group: usize| {
        let mut bytes = whole.clone();
        bytes[group * BLOCK + 1000] ^= 1;
        write(storage, &path, &bytes);
    };
    damage(8);
    let mut looks = 0;
    let report = inspected(storage).verify(|bytes| {
        // The first batch was read. The file is in memory, so the change affects only the next
        // look at it.
        if bytes == BATCH {
            looks += 1;
            damage(8 + looks % 2);
        }
    });
    let [finding] = &report.findings[..] else { panic!("{:?}", report.findings) };
    assert_eq!(finding.severity, Severity::BeingWritten);
    assert_eq!(finding.error.kind(), ErrorKind::Busy, "{}", finding.error);
    assert_eq!(finding.error.path(), Some(Path::new(&path)), "{}", finding.error);
    assert!(looks > 2, "{looks}");
    assert_eq!(verify(storage), [Severity::Damage]);
}

/// Regression test: compacting failed after an interrupted run, because the file of its incomplete
/// copy existed.
#[test]
fn compacting_removes_the_incomplete_copies_of_an_interrupted_run() {
    let machine = Machine::new(1, false);
    let (log, topic) = filled(&machine, PartialBlocks::Pad, 64 << 10, 60);
    log.close().expect("the log closes");
    drop(log);
    let storage = &machine.storage;
    let logs = files(storage, topic.partition(0), Kind::Log);
    let last = logs.last().expect("a segment");
    // The last segment is not rewritten, so its copy is not replaced.
    let copies = [&logs[0], last].map(|path| path.replace("-0.log", "-1.log.tmp"));
    let foreign = logs[0].replace("-0.log", "-1.log.old.tmp");
    for path in copies.iter().chain([&foreign]) {
        write(storage, path, b"incomplete");
    }
    let shared = Arc::clone(storage) as Arc<dyn Storage>;
    let report = inspect::compact(shared, Path::new(DIRECTORY)).expect("a repeated run");
    assert_eq!(report.segments as usize, logs.len() - 1);
    for path in &copies {
        storage.metadata(path.as_ref()).expect_err("the copy was removed or renamed");
    }
    assert_eq!(read(storage, &foreign), b"incomplete");
    assert!(verify(storage).is_empty());
    assert_eq!(visit(storage, topic, 0).expect("whole segments"), 300);
}

/// Regression test: compacting gave the segments to the user who ran it, and took permissions away,
/// so that a server could not read them any more.
#[test]
fn compacted_segments_keep_their_owner_and_permissions() {
    let scratch = tempfile::tempdir().expect("a directory");
    let log = Log::open(scratch.path(), &LogOptions::default()).expect("the log opens");
    let stream = log.create_stream(None, "s").expect("a stream");
    let options = topic(Durability::Process, PartialBlocks::Pad);
    let topic = log.create_topic(stream, None, "t", &options, 1).expect("a topic");
    let partition = log.partition(topic.partition(0)).expect("a partition");
    for group in 0..40 {
        drop(partition.append(&batch(group * 5..group * 5 + 5, 700)).expect("an append"));
        partition.flush(false).wait().expect("a flush");
    }
    log.close().expect("the log closes");
    drop((partition, log));
    let storage = Arc::new(PosixStorage::private());
    let directory = scratch.path().join("streams/0/topics/0/partitions/0.0");
    let mut names = storage.list(&directory).expect("a list").into_iter().map(|entry| entry.name);
    let is_log = |name: &String| FileName::parse(name).is_some_and(|name| name.kind == Kind::Log);
    let first = names.find(is_log).expect("a segment");
    let old = directory.join(&first);
    std::fs::set_permissions(&old, Permissions::from_mode(0o640)).expect("permissions");
    let own = old.metadata().expect("metadata");
    if chown(&old, Some(own.uid() + 1), Some(own.gid() + 2)).is_err() {
        say("LEFT OUT: a segment of another user, which only root can make");
    }
    let access = |path: &Path| {
        let metadata = path.metadata().expect("metadata");
        (metadata.mode() & 0o7777, metadata.uid(), metadata.gid())
    };
    let before = access(&old);
    assert_eq!(before.0, 0o640);
    let report = inspect::compact(storage, scratch.path()).expect("a log that is not open");
    assert!(report.segments > 0);
    for name in ["-1.log", "-1.index"] {
        let new = directory.join(first.replace("-0.log", name));
        assert_eq!(access(&new), before, "{}", new.display());
    }
}
