//! Checks that inspecting the directory of a log finds damage, and nothing else that looks like it.

use std::path::Path;
use std::sync::Arc;

use tailwater_format::message::name::Kind;
use tailwater_io::Storage;
use tailwater_io::sim::SimStorage;
use tailwater_log::inspect::{LogDirectory, Severity};
use tailwater_log::{Durability, ErrorKind, Log, PartialBlocks, Result, TopicId};

use crate::common::{DIRECTORY, Machine, batch, topic};
use crate::damage::{files, read, write};

/// Bytes of a block, which contains one group of [`filled`] and its gap.
const BLOCK: usize = 4096;

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
