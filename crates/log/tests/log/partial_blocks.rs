//! Checks, byte by byte, how the log handles partial blocks. A block is partial if the batches that
//! are written together do not fill it. Each of the eight scenarios runs with both settings: a
//! partial block is padded, or it is carried, which means that it is written again with the next
//! batches.

use std::sync::Arc;

use crate::common::{Machine, payload, read_all, topic};
use tailwater_format::message::batch::{Builder, HEADER_BYTES, MESSAGE_HEADER_BYTES};
use tailwater_format::message::name::{FileName, Kind};
use tailwater_io::{IoMode, Purpose, Storage};
use tailwater_log::{Durability, Log, PartialBlocks, Partition};

const BLOCK: u64 = 4096;
const PARTITION: &str = "/log/streams/0/topics/0/partitions/0.0";

/// Returns a batch of one message whose total size is `bytes`.
fn batch_of(bytes: usize, number: u64) -> Vec<u8> {
    let length = bytes - HEADER_BYTES - MESSAGE_HEADER_BYTES;
    let mut builder = Builder::new(0);
    builder.push(1, 0, &payload(number, length), b"").expect("a message");
    let batch = builder.finish();
    assert_eq!(batch.len(), bytes);
    batch
}

struct Scenario {
    machine: Machine,
    log: Option<Log>,
    partition: Arc<Partition>,
    next: u64,
}

impl Scenario {
    /// Opens a log with one partition that persists every batch immediately.
    fn new(partial: PartialBlocks, durability: Durability) -> Self {
        let machine = Machine::new(1, false);
        let log = machine.open();
        let stream = log.create_stream(None, "s").expect("a stream");
        let options = topic(durability, partial).with_size_of_messages_required_to_save(1);
        let topic = log.create_topic(stream, None, "t", &options, 1).expect("a topic");
        let partition = log.partition(topic.partition(0)).expect("a partition");
        Self { machine, log: Some(log), partition, next: 0 }
    }

    fn log(&self) -> &Log {
        self.log.as_ref().expect("an open log")
    }

    /// Appends a batch of `bytes` bytes and runs the pending work. Returns the number of bytes that
    /// the pending work wrote to segments.
    fn append(&mut self, bytes: usize) -> u64 {
        let before = self.written();
        drop(self.partition.try_append(&batch_of(bytes, self.next)).expect("an append"));
        self.next += 1;
        self.log().run_pending();
        self.written() - before
    }

    fn flush(&self) -> u64 {
        let before = self.written();
        let ticket = self.partition.flush(false);
        self.log().run_pending();
        ticket.wait().expect("a flush");
        self.written() - before
    }

    /// Returns the number of bytes written to segments since the log was created. Preallocated
    /// space does not count.
    fn written(&self) -> u64 {
        self.machine.storage.statistics().snapshot(Purpose::LogAppend).written_bytes
    }

    fn unpersisted(&self) -> u64 {
        self.partition.stats().unpersisted_bytes
    }

    /// Returns the base offset and the length of each segment's file.
    fn segments(&self) -> Vec<(u64, u64)> {
        let storage = &self.machine.storage;
        let names = storage.list(PARTITION.as_ref()).expect("a list");
        let names = names.iter().filter_map(|entry| {
            let name = FileName::parse(&entry.name).filter(|name| name.kind == Kind::Log)?;
            let path = format!("{PARTITION}/{}", entry.name);
            let metadata = storage.metadata(path.as_ref()).expect("a file");
            Some((name.segment.base_offset, metadata.length))
        });
        names.collect()
    }

    /// Returns the bytes of the first segment's file in the range `span`, cut at the end of the
    /// file.
    fn bytes(&self, span: std::ops::Range<u64>) -> Vec<u8> {
        let storage = &self.machine.storage;
        let names = storage.list(PARTITION.as_ref()).expect("a list");
        let name = &names.iter().find(|entry| entry.name.ends_with(".log")).expect("one").name;
        let path = format!("{PARTITION}/{name}");
        let file = storage.open(path.as_ref(), IoMode::Buffered, Purpose::LogRead).expect("a file");
        let mut bytes = vec![0; (span.end - span.start) as usize];
        let count = file.read_full_at(&mut bytes, span.start, Purpose::LogRead).expect("bytes");
        bytes.truncate(count);
        bytes
    }

    fn reopen(&mut self) {
        let id = self.partition.id();
        self.log().close().expect("the log closes");
        self.log = None;
        self.log = Some(self.machine.open());
        self.partition = self.log().partition(id).expect("a partition");
    }

    fn check(&self) {
        let expected: Vec<(u64, u64)> = (0..self.next).map(|number| (number, number)).collect();
        assert_eq!(read_all(&self.partition), expected);
    }
}

#[test]
fn carry_1_a_whole_block_leaves_no_tail() {
    let mut scenario = Scenario::new(PartialBlocks::Carry, Durability::Memory);
    assert_eq!(scenario.append(4096), 4096);
    assert_eq!(scenario.unpersisted(), 0);
    scenario.check();
}

#[test]
fn carry_2_half_a_block_is_kept() {
    let mut scenario = Scenario::new(PartialBlocks::Carry, Durability::Memory);
    assert_eq!(scenario.append(2048), 0);
    assert_eq!(scenario.unpersisted(), 2048);
    scenario.check();
}

#[test]
fn carry_3_two_halves_are_one_block() {
    let mut scenario = Scenario::new(PartialBlocks::Carry, Durability::Memory);
    assert_eq!(scenario.append(2048), 0);
    assert_eq!(scenario.append(2048), 4096);
    assert_eq!(scenario.unpersisted(), 0);
    scenario.check();
}

#[test]
fn carry_4_bytes_beyond_a_block_are_carried() {
    let mut scenario = Scenario::new(PartialBlocks::Carry, Durability::Memory);
    scenario.append(2048);
    assert_eq!(scenario.append(4712), 4096);
    // The last 2,664 bytes of the second batch do not fill a block, and stay in memory. The whole
    // batch of 4,712 bytes therefore counts as unpersisted.
    assert_eq!(scenario.unpersisted(), 4712);
    assert_eq!(scenario.partition.stats().persisted_offset, 1);
    scenario.check();
}

#[test]
fn carry_5_a_flush_pads_and_the_block_is_written_again() {
    let mut scenario = Scenario::new(PartialBlocks::Carry, Durability::Memory);
    scenario.append(2048);
    scenario.append(4712);
    assert_eq!(scenario.flush(), 4096);
    assert_eq!(scenario.unpersisted(), 0);
    assert_eq!(scenario.bytes(6760..8192), vec![0; 8192 - 6760]);
    // This batch fills the second block: 6,760 + 1,432 bytes are two blocks.
    assert_eq!(scenario.append(1432), 4096);
    assert_ne!(scenario.bytes(6760..6824), vec![0; 64]);
    assert_eq!(scenario.unpersisted(), 0);
    scenario.check();
}

#[test]
fn carry_6_a_sealed_segment_has_its_exact_size_and_the_next_begins_at_0() {
    let mut scenario = Scenario::new(PartialBlocks::Carry, Durability::Memory);
    for _ in 0..10 {
        scenario.append(6760);
    }
    scenario.flush();
    let segments = scenario.segments();
    // 9 batches of 6,760 bytes fit into a segment of 64 KiB.
    assert_eq!(segments[0], (0, 9 * 6760));
    assert_eq!(segments[1].0, 9);
    scenario.check();
}

#[test]
fn carry_7_a_restart_takes_the_length_and_rebuilds_the_block() {
    let mut scenario = Scenario::new(PartialBlocks::Carry, Durability::Memory);
    scenario.append(2048);
    scenario.append(4712);
    scenario.reopen();
    assert_eq!(scenario.segments(), [(0, 6760)]);
    let before = scenario.bytes(4096..6760);
    assert_eq!(scenario.append(1432), 4096);
    assert_eq!(scenario.bytes(4096..6760), before);
    scenario.check();
}

/// Of the bytes that were appended, those that were not written are lost: less than a block,
/// whatever the sizes of the batches. A batch that is not whole is cut off.
#[test]
fn carry_8_a_crash_loses_less_than_a_block() {
    for bytes in [500, 1024, 1500, 2048, 2664, 4095, 4096, 4097, 4712, 9000, 12_000] {
        let mut scenario = Scenario::new(PartialBlocks::Carry, Durability::Memory);
        // The bytes of message 0 are zeros, like those that were not written.
        scenario.next = 1;
        let mut written = 0;
        for count in 1..=5 {
            written += scenario.append(bytes);
            let appended = count * bytes as u64;
            let lost = appended - written;
            assert!(lost < BLOCK, "{lost} of {appended} bytes are lost, in batches of {bytes}");
            let storage = Arc::new(scenario.machine.storage.process_crash_image(1));
            let left = Machine { storage, memory: None, boot: 1 };
            let log = left.open();
            let partition = log.partition(scenario.partition.id()).expect("a partition");
            // Every batch that was written as a whole is found.
            let whole = written / bytes as u64;
            let expected: Vec<(u64, u64)> = (0..whole).map(|offset| (offset, offset + 1)).collect();
            assert_eq!(read_all(&partition), expected);
            assert_eq!(scenario.partition.stats().persisted_offset, whole);
        }
    }
}

#[test]
fn pad_1_to_4_each_group_takes_whole_blocks_with_a_gap() {
    for (appends, written) in [
        (&[4096][..], &[8192][..]),
        (&[2048], &[4096]),
        (&[2048, 2048], &[4096, 4096]),
        (&[2048, 4712], &[4096, 8192]),
        // A gap takes at least 80 bytes, so 4,016 bytes is the largest batch that fits into one
        // block.
        (&[4016], &[4096]),
        (&[4017], &[8192]),
    ] {
        let mut scenario = Scenario::new(PartialBlocks::Pad, Durability::Memory);
        let found: Vec<u64> = appends.iter().map(|bytes| scenario.append(*bytes)).collect();
        assert_eq!(found, written, "{appends:?}");
        assert_eq!(scenario.unpersisted(), 0);
        scenario.check();
    }
}

#[test]
fn pad_5_a_flush_has_nothing_left_to_write() {
    let mut scenario = Scenario::new(PartialBlocks::Pad, Durability::Memory);
    scenario.append(2048);
    let first = scenario.bytes(0..BLOCK);
    assert_eq!(scenario.flush(), 0);
    scenario.append(1000);
    // With padded blocks, a block that contains a batch is never rewritten.
    assert_eq!(scenario.bytes(0..BLOCK), first);
    scenario.check();
}

#[test]
fn pad_6_a_sealed_segment_ends_with_its_last_batch_and_becomes_dense() {
    let mut scenario = Scenario::new(PartialBlocks::Pad, Durability::Memory);
    for _ in 0..10 {
        // A batch of 5,000 bytes takes two blocks (8,192 bytes), so 8 batches fill a segment of 64
        // KiB.
        scenario.append(5000);
    }
    scenario.flush();
    scenario.log().run_pending();
    let segments = scenario.segments();
    // After the first segment was sealed, the log rewrote it without gaps.
    assert_eq!(segments[0], (0, 8 * 5000));
    assert_eq!(segments[1].0, 8);
    scenario.check();
    scenario.reopen();
    scenario.check();
}

#[test]
fn pad_7_a_restart_goes_on_at_the_next_block() {
    let mut scenario = Scenario::new(PartialBlocks::Pad, Durability::Memory);
    scenario.append(2048);
    scenario.reopen();
    assert_eq!(scenario.segments(), [(0, 2048)]);
    assert_eq!(scenario.append(1000), 4096);
    assert_eq!(scenario.bytes(2048..BLOCK), vec![0; 2048]);
    assert_ne!(scenario.bytes(BLOCK..BLOCK + 64), vec![0; 64]);
    scenario.check();
}

#[test]
fn pad_8_a_crash_loses_nothing_that_was_persisted() {
    let mut scenario = Scenario::new(PartialBlocks::Pad, Durability::Disk);
    for _ in 0..5 {
        scenario.append(1500);
    }
    let storage = Arc::new(scenario.machine.storage.crash_image(1));
    let left = Machine { storage, memory: None, boot: 2 };
    let log = left.open();
    let partition = log.partition(scenario.partition.id()).expect("a partition");
    assert_eq!(read_all(&partition).len(), 5);
}

/// Regression test: the sealed segments of a partition were rewritten without their gaps even after
/// the partition was closed, so that closing took long, and another process could already own the
/// files.
#[test]
fn pad_9_closing_rewrites_no_segment() {
    let mut scenario = Scenario::new(PartialBlocks::Pad, Durability::Memory);
    for _ in 0..7 {
        scenario.append(5000);
    }
    // The next batch fills the segment. The batch after it begins another segment, when it is
    // persisted.
    for number in 7..10 {
        drop(scenario.partition.try_append(&batch_of(5000, number)).expect("an append"));
    }
    scenario.log().close().expect("the log closes");
    assert_eq!(scenario.segments()[0], (0, 7 * 2 * BLOCK + 5000));
    scenario.log = None;
    scenario.next = 10;
    scenario.log = Some(scenario.machine.open());
    scenario.partition = scenario.log().partition(scenario.partition.id()).expect("a partition");
    scenario.check();
}

#[test]
fn block_size_follows_the_device_alignment() {
    for partial in [PartialBlocks::Pad, PartialBlocks::Carry] {
        let machine = Machine::new(1, false);
        machine.storage.set_alignment(16_384);
        let log = machine.open();
        assert_eq!(log.open_report().modes.block, 16_384);
        let stream = log.create_stream(None, "s").expect("a stream");
        let options = topic(Durability::Memory, partial).with_size_of_messages_required_to_save(1);
        let topic = log.create_topic(stream, None, "t", &options, 1).expect("a topic");
        let partition = log.partition(topic.partition(0)).expect("a partition");
        drop(partition.try_append(&batch_of(16_384, 0)).expect("an append"));
        log.run_pending();
        let written = machine.storage.statistics().snapshot(Purpose::LogAppend).written_bytes;
        let expected = if partial == PartialBlocks::Pad { 2 * 16_384 } else { 16_384 };
        assert_eq!(written, expected);
    }
}
