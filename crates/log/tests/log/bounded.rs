//! Polls with a limit on the bytes that they hold in memory.

use tailwater_format::message::name::Kind;
use tailwater_log::{
    Durability, ErrorKind, Log, PartialBlocks, Partition, PartitionId, Polled, Strategy,
    TopicOptions,
};

use crate::common::{Machine, batch};
use crate::damage::{files, read, write};

/// A limit that the batches of these tests exceed, in bytes.
const LIMIT: usize = 10_000;
/// Number of messages in a batch.
const MESSAGES: u64 = 100;
/// Number of batches.
const BATCHES: u64 = 3;

/// Creates a log with a partition of [`BATCHES`] batches, each larger than [`LIMIT`], which are in
/// segments only.
fn filled(partial_blocks: PartialBlocks) -> (Machine, PartitionId) {
    let machine = Machine::new(7, false);
    let log = machine.open();
    let stream = log.create_stream(None, "s").expect("a stream");
    let options = TopicOptions::new()
        .with_durability(Durability::Disk)
        .with_partial_blocks(partial_blocks)
        .with_segment_bytes(1 << 20);
    let topic = log.create_topic(stream, None, "t", &options, 1).expect("a topic");
    let partition = log.partition(topic.partition(0)).expect("a partition");
    for number in 0..BATCHES {
        let numbers = number * MESSAGES..(number + 1) * MESSAGES;
        let appended = partition.append(&batch(numbers, 300)).expect("an append");
        log.run_pending();
        appended.ticket.wait().expect("persisted");
    }
    log.close().expect("closed");
    (machine, topic.partition(0))
}

/// Returns the bytes of a poll: of its pieces, or of its stored batch, read in parts of `part`
/// bytes. Checks that no part is larger.
fn bytes(partition: &Partition, polled: &Polled, part: usize) -> Vec<u8> {
    let Some(stored) = &polled.stored else { return polled.to_vec() };
    assert!(polled.pieces.is_empty());
    assert_eq!(stored.length(), polled.length());
    let mut bytes = Vec::new();
    while bytes.len() < stored.length() {
        let pieces = partition.read_stored(stored, bytes.len(), part).expect("a part");
        let read: Vec<u8> = pieces.iter().flat_map(|piece| piece.to_vec()).collect();
        assert_eq!(read.len(), part.min(stored.length() - bytes.len()));
        bytes.extend(read);
    }
    bytes
}

/// Opens the log again, and calls `test` with its partition, whose tail is empty.
fn with_partition(machine: &Machine, id: PartitionId, test: impl FnOnce(&Log, &Partition)) {
    let log = machine.open();
    let partition = log.partition(id).expect("a partition");
    test(&log, &partition);
    log.close().expect("closed");
}

/// Regression test: a poll of a batch held the batch in memory, however large it was, and more than
/// once.
#[test]
fn a_batch_beyond_the_limit_is_not_held_but_read_in_parts() {
    for partial_blocks in [PartialBlocks::Pad, PartialBlocks::Carry] {
        let (machine, id) = filled(partial_blocks);
        with_partition(&machine, id, |_, partition| {
            for (offset, count) in [(0, 1000), (0, 100), (0, 80), (5, 90), (100, 100), (210, 1000)]
            {
                let strategy = Strategy::Offset(offset);
                // Without a limit, the first batch alone is compared.
                let in_batch = (MESSAGES - offset % MESSAGES).min(count) as u32;
                let whole = partition.poll(strategy, in_batch).expect("a poll");
                let polled = partition.poll_within(strategy, count as u32, LIMIT).expect("a poll");
                assert!(polled.stored.is_some(), "{offset} {count}");
                assert_eq!((polled.first_offset, polled.count), (offset, in_batch));
                assert_eq!(polled.partition_last_offset, Some(BATCHES * MESSAGES - 1));
                for part in [1, 100, 256, 257, 4096, 1 << 20] {
                    assert!(bytes(partition, &polled, part) == whole.to_vec(), "{offset} {part}");
                }
            }
        });
    }
}

#[test]
fn no_poll_returns_more_bytes_than_its_limit() {
    let (machine, id) = filled(PartialBlocks::Pad);
    with_partition(&machine, id, |_, partition| {
        for bytes_max in [400, 1000, LIMIT, 40_000, 80_000, 1 << 20] {
            let mut offset = 0;
            while offset < BATCHES * MESSAGES {
                // Batches that fit are returned whole, so that the poll after them begins at a
                // batch.
                let strategy = Strategy::Offset(offset);
                let polled = partition.poll_within(strategy, u32::MAX, bytes_max).expect("a poll");
                assert!(polled.stored.is_some() || polled.length() <= bytes_max);
                assert!(polled.count > 0 && polled.first_offset == offset);
                offset = polled.end_offset();
                // A part that fits is returned, even if its batch does not fit.
                let polled = partition.poll_within(strategy, 1, bytes_max).expect("a poll");
                let fits = polled.length() <= bytes_max;
                assert_eq!((polled.count, polled.stored.is_none()), (1, fits));
                let tried = partition.try_poll_within(strategy, 1, bytes_max).expect("a poll");
                let is_whole_batch_within = bytes_max >= 40_000;
                assert_eq!(tried.is_some(), is_whole_batch_within, "{bytes_max}");
                assert!(tried.is_none_or(|tried| tried.to_vec() == polled.to_vec()));
            }
            assert_eq!(offset, BATCHES * MESSAGES);
        }
    });
}

/// Messages in memory take no further memory, so the limit does not apply to a first batch there.
#[test]
fn a_batch_in_the_tail_is_never_stored() {
    let (machine, id) = filled(PartialBlocks::Pad);
    with_partition(&machine, id, |log, partition| {
        let numbers = BATCHES * MESSAGES..(BATCHES + 1) * MESSAGES;
        drop(partition.append(&batch(numbers, 300)).expect("an append"));
        log.run_pending();
        let strategy = Strategy::Offset(BATCHES * MESSAGES);
        let polled = partition.poll_within(strategy, 100, 1000).expect("a poll");
        assert!(polled.stored.is_none() && polled.count == 100);
    });
}

/// A large batch is verified while it is read in parts. After that, polls of it fail at once.
#[test]
fn damage_in_a_large_batch_is_found_and_remembered() {
    const AT: usize = 20_000;
    let (machine, id) = filled(PartialBlocks::Pad);
    let segment = &files(&machine.storage, id, Kind::Log)[0];
    let mut bytes = read(&machine.storage, segment);
    bytes[AT] ^= 8;
    write(&machine.storage, segment, &bytes);
    with_partition(&machine, id, |_, partition| {
        // A part of the batch is verified by the poll.
        for count in [1, 80] {
            let error = partition.poll_within(Strategy::First, count, LIMIT).expect_err("damage");
            assert_eq!(error.kind(), ErrorKind::Corruption);
        }
        let whole = partition.poll_within(Strategy::First, 1000, LIMIT).expect("a poll");
        let stored = whole.stored.expect("a stored batch");
        let mut from = 0;
        let error = loop {
            match partition.read_stored(&stored, from, 1000) {
                Ok(_) => from += 1000,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert!((AT - 1000..AT + 1000).contains(&from), "{from}");
        let error = partition.poll_within(Strategy::First, 1000, LIMIT).expect_err("damage");
        assert_eq!(error.kind(), ErrorKind::Corruption);
        partition.poll_within(Strategy::Offset(MESSAGES), 1000, LIMIT).expect("the next batch");
    });
    // A batch that is not read from its start is verified as a whole.
    with_partition(&machine, id, |_, partition| {
        let whole = partition.poll_within(Strategy::First, 1000, LIMIT).expect("a poll");
        let stored = whole.stored.expect("a stored batch");
        let error = partition.read_stored(&stored, AT + 2000, 10).expect_err("damage");
        assert_eq!(error.kind(), ErrorKind::Corruption);
    });
}
