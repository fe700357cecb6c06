//! The durability guarantees of single calls: each test cuts the power immediately after a call.
//! Some tests let only the process die before it has synced its writes. They check that the next
//! process syncs the files before it relies on their contents.

use std::path::Path;
use std::sync::Arc;

use tailwater_io::sim::SimStorage;
use tailwater_io::{Create, IoMode, Purpose, Storage};
use tailwater_log::{Consumer, Durability, Log, PartialBlocks, Partition, Result, Ticket, TopicId};

use crate::common::{DIRECTORY, Machine, batch, read_all, topic as topic_options};

/// Number of crash images to check for each point in time. Each image keeps a different random part
/// of the unsynced data.
const IMAGES: u64 = 6;

/// Returns a machine without shared memory.
fn machine(storage: SimStorage, boot: u64) -> Machine {
    Machine { storage: Arc::new(storage), memory: None, boot }
}

/// Calls `check` with [`IMAGES`] machines. Each of them starts with what a power cut at this point
/// in time could leave of `storage`.
fn after_power_cuts(storage: &SimStorage, mut check: impl FnMut(&Machine)) {
    for seed in 0..IMAGES {
        check(&machine(storage.crash_image(seed), 2));
    }
}

/// Creates a stream with a topic of one partition.
fn create_topic(log: &Log, durability: Durability) -> TopicId {
    let stream = log.create_stream(None, "stream").expect("a stream");
    let options = topic_options(durability, PartialBlocks::Pad);
    log.create_topic(stream, None, "topic", &options, 1).expect("a topic")
}

/// Appends one batch for each number, with a single message, and waits until the batch is written.
/// The log syncs a write only if the durability of the topic requires it.
fn append(log: &Log, partition: &Partition, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let appended = partition.append(&batch(number..number + 1, 900)).expect("an append");
        let flushed = partition.flush(false);
        log.run_pending();
        flushed.wait().expect("a flush");
        appended.ticket.wait().expect("an acknowledgement");
    }
}

fn assert_holds(log: &Log, topic: TopicId, numbers: std::ops::Range<u64>, what: &str) {
    let partition = log.partition(topic.partition(0)).expect("a partition");
    let expected: Vec<(u64, u64)> = numbers.map(|number| (number, number)).collect();
    assert_eq!(read_all(&partition), expected, "{what}");
}

#[test]
fn a_log_opens_whenever_its_creation_was_interrupted() {
    let machine = Machine::new(1, false);
    machine.storage.start_recording();
    let log = machine.open();
    let topic = create_topic(&log, Durability::Disk);
    append(&log, &log.partition(topic.partition(0)).expect("a partition"), 0..1);
    let last = machine.storage.call_count();
    let mut replay = machine.storage.replay();
    for call in 0..=last {
        replay.advance_to(call);
        for seed in 0..IMAGES {
            let what = format!("call {call}, seed {seed}");
            let left = self::machine(replay.crash_image(seed), 2);
            let log = Log::open(DIRECTORY, &left.options());
            let log = log.unwrap_or_else(|error| panic!("{what}: {error}"));
            if call == last {
                assert_holds(&log, topic, 0..1, &what);
            }
            if log.streams().is_empty() {
                create_topic(&log, Durability::Disk);
            }
        }
    }
}

#[test]
fn a_syncing_flush_is_durable_in_topics_of_every_durability() {
    for durability in [Durability::Memory, Durability::Process] {
        let machine = Machine::new(2, false);
        let log = machine.open();
        let topic = create_topic(&log, durability);
        let partition = log.partition(topic.partition(0)).expect("a partition");
        append(&log, &partition, 0..5);
        let flushed = partition.flush(true);
        log.run_pending();
        flushed.wait().expect("a flush");
        after_power_cuts(&machine.storage, |left| {
            assert_holds(&left.open(), topic, 0..5, "flushed");
        });
    }
}

#[test]
fn a_closed_log_is_durable_with_its_offsets() {
    for durability in [Durability::Memory, Durability::Process, Durability::Disk] {
        let machine = Machine::new(3, false);
        let log = machine.open();
        let topic = create_topic(&log, durability);
        let partition = topic.partition(0);
        append(&log, &log.partition(partition).expect("a partition"), 0..5);
        let stored = log.store_offset(partition, Consumer::Single(7), 3).expect("stored");
        log.run_pending();
        stored.wait().expect("an offset");
        log.close().expect("the log closes");
        after_power_cuts(&machine.storage, |left| {
            let log = left.open();
            assert_holds(&log, topic, 0..5, "closed");
            let offset = log.offset(partition, Consumer::Single(7)).expect("a partition");
            assert_eq!(offset, Some(3));
        });
    }
}

#[test]
fn truncated_messages_do_not_return_after_a_power_cut() {
    for offset in [0, 1, 3, 4] {
        let machine = Machine::new(4, false);
        let log = machine.open();
        let topic = create_topic(&log, Durability::Disk);
        append(&log, &log.partition(topic.partition(0)).expect("a partition"), 0..5);
        log.truncate(topic.partition(0), offset).expect("a truncation");
        after_power_cuts(&machine.storage, |left| {
            let log = left.open();
            assert_holds(&log, topic, 0..offset, "truncated");
            let partition = log.partition(topic.partition(0)).expect("a partition");
            append(&log, &partition, offset..offset + 1);
            assert_holds(&log, topic, 0..offset + 1, "truncated, and appended to");
        });
    }
}

/// Checks the records of the catalog after power cuts during the calls that move the catalog's
/// journal to a new file.
#[test]
fn journals_survive_power_cuts_while_they_are_rewritten() {
    let machine = Machine::new(5, false);
    let log = machine.open();
    machine.storage.start_recording();
    let first = machine.storage.call_count();
    let mut done = Vec::new();
    let large = "x".repeat(20_000);
    for number in 0..8 {
        let value = Some(format!("{number} {large}"));
        log.set_records(&[("record".to_owned(), value)]).expect("a record");
        done.push(machine.storage.call_count());
    }
    let rewritten = machine.storage.list(Path::new(DIRECTORY)).expect("a list");
    let is_second = |name: &str| name.starts_with("catalog-") && !name.contains("000001");
    assert!(rewritten.iter().any(|entry| is_second(&entry.name)), "{rewritten:?}");
    let number_in = |log: &Log| -> Option<usize> {
        let records = log.records("record");
        let value = records.get("record")?;
        value.split(' ').next().expect("a word").parse().ok()
    };
    let mut replay = machine.storage.replay();
    for call in first..=machine.storage.call_count() {
        replay.advance_to(call);
        let least = done.iter().rposition(|end| *end <= call);
        for seed in 0..IMAGES {
            // First case: the power is cut at storage call `call`. All changes that were completed
            // before that call must be found.
            let left = self::machine(replay.crash_image(seed), 2);
            let found = number_in(&left.open());
            let most = least.map_or(0, |least| least + 1);
            assert!(found >= least && found <= Some(most), "call {call}: {found:?}, not {least:?}");
            // Second case: only the process dies at this call. The next process reads the record
            // and makes a durable change, and then the power is cut. The record that it read must
            // still be found.
            let left = self::machine(replay.process_crash_image(seed), 1);
            let log = left.open();
            let seen = number_in(&log);
            log.create_stream(None, "later").expect("a stream");
            after_power_cuts(&left.storage, |left| {
                let log = left.open();
                assert_eq!(log.streams().len(), 1, "call {call}");
                assert_eq!(number_in(&log), seen, "call {call}");
            });
        }
    }
}

/// A process dies before it has synced its writes. The next process must sync these writes before
/// it returns their messages to readers, and before it appends after them.
#[test]
fn state_left_by_a_dead_process_is_synced_before_new_appends() {
    let machine = Machine::new(6, false);
    let log = machine.open();
    machine.storage.start_recording();
    let first = machine.storage.call_count();
    let topic = create_topic(&log, Durability::Disk);
    append(&log, &log.partition(topic.partition(0)).expect("a partition"), 0..3);
    let mut replay = machine.storage.replay();
    let mut seen = 0;
    for call in first..=machine.storage.call_count() {
        replay.advance_to(call);
        let left = self::machine(replay.process_crash_image(call), 1);
        let log = left.open();
        let Ok(partition) = log.partition(topic.partition(0)) else { continue };
        let count = read_all(&partition).len() as u64;
        seen += count;
        after_power_cuts(&left.storage, |left| {
            assert_holds(&left.open(), topic, 0..count, &format!("seen after call {call}"));
        });
        append(&log, &partition, count..count + 2);
        after_power_cuts(&left.storage, |left| {
            assert_holds(&left.open(), topic, 0..count + 2, &format!("call {call}"));
        });
    }
    assert!(seen > 0, "no process saw a message");
}

/// A process appends to a topic with the durability `process`, which does not survive power cuts,
/// and dies. A second process changes the topic's durability to `disk`, and dies too. A third
/// process lets readers see the messages, so they must survive power cuts.
#[test]
fn a_topic_made_durable_keeps_the_messages_that_readers_saw() {
    let machine = Machine::new(7, false);
    let log = machine.open();
    let topic = create_topic(&log, Durability::Process);
    append(&log, &log.partition(topic.partition(0)).expect("a partition"), 0..5);
    let left = self::machine(machine.storage.process_crash_image(1), 1);
    let log = left.open();
    let options = topic_options(Durability::Disk, PartialBlocks::Pad);
    log.update_topic(topic, "topic", &options).expect("an update");
    let left = self::machine(left.storage.process_crash_image(2), 1);
    let log = left.open();
    // Readers of a topic with durability `disk` must see only durable messages.
    assert_holds(&log, topic, 0..5, "before the power cut");
    after_power_cuts(&left.storage, |left| {
        assert_holds(&left.open(), topic, 0..5, "seen by readers");
    });
    append(&log, &log.partition(topic.partition(0)).expect("a partition"), 5..7);
    after_power_cuts(&left.storage, |left| {
        assert_holds(&left.open(), topic, 0..7, "durable since it was opened");
    });
}

/// After a power cut that destroyed messages in the middle of a segment, recovery copies the bytes
/// after the damage to another file, and then truncates the segment where the damage begins. A
/// second power cut at any call of the recovery must leave either the whole segment or the copy.
#[test]
fn bytes_after_a_gap_survive_another_power_cut() {
    let machine = Machine::new(8, false);
    let log = machine.open();
    let topic = create_topic(&log, Durability::Process);
    append(&log, &log.partition(topic.partition(0)).expect("a partition"), 0..5);
    let left = machine.storage.process_crash_image(1);
    let directory = format!("{DIRECTORY}/streams/0/topics/0/partitions/0.0");
    let segment = left.list(directory.as_ref()).expect("a list").into_iter();
    let name = segment.map(|entry| entry.name).find(|name| name.ends_with(".log"));
    let path = format!("{directory}/{}", name.expect("a segment"));
    let before = read(&left, &path).expect("the segment");
    let mut file = left
        .create(path.as_ref(), Create::Existing, IoMode::Buffered, Purpose::LogAppend)
        .expect("the segment");
    file.write_all_at(&[!before[1000]], 1000, Purpose::LogAppend).expect("the damage");
    file.sync_all(Purpose::LogAppend).expect("a sync");
    drop(file);
    left.sync_directory(directory.as_ref()).expect("a sync");
    let before = read(&left, &path).expect("the segment");

    let left = self::machine(left, 2);
    left.storage.start_recording();
    let first = left.storage.call_count();
    let log = left.open();
    let notes = &log.open_report().partitions[0].1.notes;
    assert!(notes.iter().any(|note| note.contains("are kept in")), "{notes:?}");
    let mut replay = left.storage.replay();
    for call in first..=left.storage.call_count() {
        replay.advance_to(call);
        for seed in 0..IMAGES {
            let image = replay.crash_image(seed);
            let is_whole = read(&image, &path).is_some_and(|bytes| bytes == before);
            let entries = image.list(directory.as_ref()).expect("a list");
            let is_kept = entries.iter().filter(|entry| entry.name.contains(".cut-")).any(|kept| {
                let at: usize =
                    kept.name.rsplit('-').next().expect("a position").parse().expect("it");
                read(&image, &format!("{directory}/{}", kept.name))
                    .is_some_and(|bytes| bytes == before[at..])
            });
            assert!(is_whole || is_kept, "call {call}, seed {seed}: {entries:?}");
        }
    }
}

fn read(storage: &SimStorage, path: &str) -> Option<Vec<u8>> {
    let file = storage.open(path.as_ref(), IoMode::Buffered, Purpose::LogRead).ok()?;
    let mut bytes = vec![0; file.length().expect("a length") as usize];
    file.read_full_at(&mut bytes, 0, Purpose::LogRead).expect("a read");
    Some(bytes)
}

/// A topic loses unpersisted messages when the process of its log dies. If the stored offset of a
/// consumer is then higher than the offset of the last message, recovery lowers the stored offset
/// to the offset of the last message. The stored offset must keep the lowered value when new
/// messages extend the topic beyond the original offset and the process dies again.
#[test]
fn an_offset_clamped_to_the_end_stays_clamped() {
    let machine = Machine::new(9, false);
    let log = machine.open();
    let topic = create_topic(&log, Durability::Memory);
    let id = topic.partition(0);
    let partition = log.partition(id).expect("a partition");
    append(&log, &partition, 0..3);
    drop(partition.append(&batch(3..10, 100)).expect("an append"));
    let stored = log.store_offset(id, Consumer::Single(1), 8).expect("an offset");
    log.run_pending();
    stored.wait().expect("an offset");
    let mut storage = machine.storage.process_crash_image(1);
    for round in 0..2 {
        let left = self::machine(storage, 1);
        let log = left.open();
        assert_eq!(log.offset(id, Consumer::Single(1)).expect("a partition"), Some(2), "{round}");
        let partition = log.partition(id).expect("a partition");
        append(&log, &partition, 3 + 10 * round..13 + 10 * round);
        storage = left.storage.process_crash_image(2 + round);
    }
}

/// Regression test: the log did not apply a topic's option `are_offsets_durable`. A stored offset
/// was only durable if the caller also passed an argument.
#[test]
fn offsets_are_durable_if_the_topic_requires_it() {
    let machine = Machine::new(12, false);
    let log = machine.open();
    let topic = create_topic(&log, Durability::Disk);
    let options =
        topic_options(Durability::Disk, PartialBlocks::Pad).with_are_offsets_durable(true);
    log.update_topic(topic, "topic", &options).expect("an update");
    let (id, consumer) = (topic.partition(0), Consumer::Single(1));
    let partition = log.partition(id).expect("a partition");
    append(&log, &partition, 0..10);
    let incarnation = partition.stats().incarnation;
    let store = || log.store_offset(id, consumer, 3);
    let store_polled = || log.store_polled_offset(id, incarnation, consumer, 5);
    let delete = || log.delete_offset(id, consumer);
    let changes: [(&dyn Fn() -> Result<Ticket>, _); 3] =
        [(&store, Some(3)), (&store_polled, Some(5)), (&delete, None)];
    for (change, expected) in changes {
        let ticket = change().expect("an offset");
        log.run_pending();
        ticket.wait().expect("a change of the offset");
        after_power_cuts(&machine.storage, |left| {
            assert_eq!(left.open().offset(id, consumer).expect("a partition"), expected);
        });
    }
}

#[test]
fn offsets_beyond_a_truncation_are_set_back_durably() {
    let machine = Machine::new(10, false);
    let log = machine.open();
    let topic = create_topic(&log, Durability::Disk);
    let id = topic.partition(0);
    let partition = log.partition(id).expect("a partition");
    append(&log, &partition, 0..10);
    let stored = log.store_offset(id, Consumer::Single(1), 8).expect("an offset");
    log.run_pending();
    stored.wait().expect("an offset");
    log.truncate(id, 5).expect("a truncation");
    append(&log, &partition, 5..15);
    after_power_cuts(&machine.storage, |left| {
        let offset = left.open().offset(id, Consumer::Single(1)).expect("a partition");
        assert_eq!(offset, Some(4));
    });
}

/// A truncation to the first offset of the partition truncates the file of the first segment
/// instead of removing it, because the new segment has the same file name.
#[test]
fn a_truncation_to_the_first_offset_is_durable_in_the_same_file() {
    let machine = Machine::new(11, false);
    let log = machine.open();
    let topic = create_topic(&log, Durability::Disk);
    let id = topic.partition(0);
    let partition = log.partition(id).expect("a partition");
    for number in 0..2 {
        // Each batch is larger than a segment.
        let appended = partition.append(&batch(number..number + 1, 70_000)).expect("an append");
        log.run_pending();
        appended.ticket.wait().expect("an acknowledgement");
    }
    let deleted = partition.delete_segments(1, u64::MAX);
    log.run_pending();
    deleted.wait().expect("a deletion");
    log.truncate(id, 1).expect("a truncation");
    after_power_cuts(&machine.storage, |left| assert_holds(&left.open(), topic, 0..0, "truncated"));
}

/// After a segment is sealed, the log copies it without gaps to a new file, renames the copy to its
/// final name, and removes the original. Checks that the original is removed only after the rename
/// is durable.
#[test]
fn a_segment_is_removed_only_after_its_dense_copy_is_durable() {
    let machine = Machine::new(12, false);
    let log = machine.open();
    let topic = create_topic(&log, Durability::Disk);
    let partition = log.partition(topic.partition(0)).expect("a partition");
    // Each batch takes a block of 4 KiB. The 17th batch seals a segment of 64 KiB, which is then
    // copied without gaps.
    append(&log, &partition, 0..16);
    machine.storage.start_recording();
    append(&log, &partition, 16..17);
    let mut replay = machine.storage.replay();
    for call in machine.storage.calls().iter().map(|call| call.number) {
        replay.advance_to(call);
        // If the removal of the original could become durable before the rename of the copy, about
        // one crash image in eight would contain the removal without the rename.
        for seed in 0..8 * IMAGES {
            let left = self::machine(replay.crash_image(seed), 2).open();
            let partition = left.partition(topic.partition(0)).expect("a partition");
            let found = read_all(&partition);
            let expected: Vec<(u64, u64)> = (0..16).map(|number| (number, number)).collect();
            assert!(found.starts_with(&expected), "call {call}, seed {seed}: {found:?}");
        }
    }
}

/// After a power cut, the process that opens the log dies during recovery. The process that opens
/// the log next must still know of the power cut. Otherwise it would treat the loss of messages as
/// corruption, and fence the partition.
#[test]
fn an_interrupted_opening_fences_nothing() {
    let machine = Machine::new(12, false);
    let log = machine.open();
    let topic = create_topic(&log, Durability::Process);
    let partition = log.partition(topic.partition(0)).expect("a partition");
    append(&log, &partition, 0..8);
    drop(partition);
    let mut holes = 0;
    for seed in 0..40 {
        let left = self::machine(machine.storage.crash_image(seed), 2);
        left.storage.start_recording();
        let first = left.storage.call_count();
        let whole = left.open();
        holes += usize::from(!whole.open_report().partitions.is_empty());
        let mut replay = left.storage.replay();
        for call in first..=left.storage.call_count() {
            replay.advance_to(call);
            let again = self::machine(replay.process_crash_image(seed), 2).open();
            for (id, recovered) in &again.open_report().partitions {
                assert!(recovered.fenced.is_none(), "{id}, seed {seed}, call {call}");
            }
        }
    }
    assert!(holes > 0, "no power cut left anything to recover");
}

/// The durability of a topic is raised to `disk` while the topic is open, and the power is cut
/// later. Recovery knows only the new durability, and would take a missing message for damage and
/// fence the partition. The messages from before the change must therefore be durable, too.
#[test]
fn a_topic_that_becomes_durable_while_it_is_open_is_not_fenced() {
    let machine = Machine::new(13, false);
    let log = machine.open();
    let topic = create_topic(&log, Durability::Process);
    let partition = log.partition(topic.partition(0)).expect("a partition");
    append(&log, &partition, 0..4);
    let options = topic_options(Durability::Disk, PartialBlocks::Pad);
    log.update_topic(topic, "topic", &options).expect("an update");
    append(&log, &partition, 4..12);
    for seed in 0..30 {
        let log = self::machine(machine.storage.crash_image(seed), 2).open();
        for (id, recovered) in &log.open_report().partitions {
            assert!(recovered.fenced.is_none(), "{id}, seed {seed}: {:?}", recovered.fenced);
        }
        assert_holds(&log, topic, 0..12, "written durably since the update");
    }
}
