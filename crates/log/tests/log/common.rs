//! Helpers for tests of the log: logs on a simulated machine, batches, and the expected content of
//! a partition.

#[cfg(not(shuttle))]
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use tailwater_format::message::batch::{Batch, Builder};
use tailwater_io::shared_memory::SimSharedMemory;
use tailwater_io::sim::SimStorage;
use tailwater_io::{SharedMemory, Storage};
use tailwater_log::{
    Durability, IoModeChoice, Log, LogOptions, PartialBlocks, Partition, Polled, Strategy,
    TailMemory, TopicOptions,
};

/// Path of the log's directory on the simulated disk.
pub(crate) const DIRECTORY: &str = "/log";

/// A simulated machine: a disk, and optionally shared memory, which outlives a process.
#[derive(Debug, Clone)]
pub(crate) struct Machine {
    pub(crate) storage: Arc<SimStorage>,
    pub(crate) memory: Option<SimSharedMemory>,
    /// Number that identifies the current boot of the machine.
    pub(crate) boot: u64,
}

impl Machine {
    pub(crate) fn new(seed: u64, has_memory: bool) -> Self {
        let storage = SimStorage::new(seed);
        storage.create_directory(Path::new("/")).expect("the root");
        let memory = has_memory.then(|| SimSharedMemory::new(1 << 30));
        Self { storage: Arc::new(storage), memory, boot: 1 }
    }

    /// Returns options for a log without background threads. Tests call `run_pending` to do the
    /// work of these threads.
    pub(crate) fn options(&self) -> LogOptions {
        let tail_memory = match &self.memory {
            Some(memory) => TailMemory::Shared(Arc::new(memory.clone()) as Arc<dyn SharedMemory>),
            None => TailMemory::Private,
        };
        LogOptions::new()
            .with_storage(Arc::clone(&self.storage) as Arc<dyn Storage>)
            .with_clock(self.storage.clock())
            .with_tail_memory(tail_memory)
            .with_append_io_mode(IoModeChoice::Direct)
            .with_read_io_mode(IoModeChoice::Direct)
            .with_tail_bytes_max(4 << 20)
            .with_partition_unpersisted_bytes_max(1 << 20)
            .with_persisters(0)
            .with_read_ahead_bytes_max(8 << 20)
            .with_boot_id(format!("boot {}", self.boot))
    }

    /// Returns the regions of shared memory with messages.
    #[cfg(not(shuttle))]
    pub(crate) fn regions(&self) -> Vec<String> {
        let regions = self.memory.iter().flat_map(|memory| memory.list().expect("a list"));
        regions.filter(|region| !region.starts_with("mark-")).collect()
    }

    pub(crate) fn open(&self) -> Log {
        Log::open(DIRECTORY, &self.options()).expect("the log opens")
    }
}

/// Returns options for a topic with small segments, of 64 KiB.
pub(crate) fn topic(durability: Durability, partial_blocks: PartialBlocks) -> TopicOptions {
    TopicOptions::new()
        .with_durability(durability)
        .with_partial_blocks(partial_blocks)
        .with_segment_bytes(64 << 10)
}

/// Returns the payload of message `number`: the number, padded to `length` bytes with a byte that
/// depends on the number.
pub(crate) fn payload(number: u64, length: usize) -> Vec<u8> {
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.resize(length.max(8), (number % 251) as u8);
    bytes
}

/// Builds a batch with one message for each number. `length` is the length of a payload.
pub(crate) fn batch(numbers: std::ops::Range<u64>, length: usize) -> Vec<u8> {
    let mut builder = Builder::new(1000);
    for number in numbers {
        builder.push(u128::from(number), 0, &payload(number, length), b"").expect("a message");
    }
    builder.finish()
}

/// The expected content of a partition: the offset of its first message, and the number in each
/// message, in order.
#[cfg(not(shuttle))]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Model {
    pub(crate) start: u64,
    pub(crate) numbers: VecDeque<u64>,
}

#[cfg(not(shuttle))]
impl Model {
    pub(crate) fn end(&self) -> u64 {
        self.start + self.numbers.len() as u64
    }

    pub(crate) fn at(&self, offset: u64) -> Option<u64> {
        self.numbers.get(usize::try_from(offset.checked_sub(self.start)?).ok()?).copied()
    }
}

/// Returns the offset of each message in a poll's result and the number in its payload. Verifies
/// all checksums and payloads, and that [`Polled::messages`] returns the same messages.
pub(crate) fn messages(polled: &Polled) -> Vec<(u64, u64)> {
    let bytes = polled.to_vec();
    let mut rest = &bytes[..];
    let mut iterated = polled.messages();
    let mut found = Vec::new();
    while !rest.is_empty() {
        let batch = Batch::decode_verified(rest).expect("a whole batch");
        let base = batch.header().base_offset;
        for message in batch.messages() {
            let same = iterated.next().expect("as many messages").expect("a message");
            let (header, delta_us) = (batch.header(), u64::from(message.timestamp_delta_us));
            assert_eq!(same.offset, base + u64::from(message.offset_delta));
            assert_eq!(same.timestamp_us, header.base_timestamp_us);
            assert_eq!(same.origin_timestamp_us, header.origin_timestamp_us + delta_us);
            assert_eq!(
                (same.id, same.payload, same.user_headers),
                (message.id, message.payload, message.user_headers)
            );
            let number = u64::from_le_bytes(message.payload[..8].try_into().expect("8 bytes"));
            assert_eq!(message.payload, payload(number, message.payload.len()));
            found.push((base + u64::from(message.offset_delta), number));
        }
        rest = &rest[batch.header().length as usize..];
    }
    assert_eq!(found.len(), polled.count as usize);
    assert_eq!(iterated.next().map(Result::unwrap), None);
    if let Some((first, _)) = found.first() {
        assert_eq!(*first, polled.first_offset);
    }
    found
}

/// Polls all messages of a partition. Returns the offset of each message and the number in its
/// payload.
pub(crate) fn read_all(partition: &Partition) -> Vec<(u64, u64)> {
    let mut found: Vec<(u64, u64)> = Vec::new();
    let mut strategy = Strategy::First;
    loop {
        let polled = partition.poll(strategy, 100).expect("a poll");
        if polled.count == 0 {
            return found;
        }
        found.extend(messages(&polled));
        strategy = Strategy::Offset(polled.end_offset());
    }
}

/// Checks that a partition has exactly the expected messages at the expected offsets.
#[cfg(not(shuttle))]
pub(crate) fn check(partition: &Partition, model: &Model, what: &str) {
    let expected: Vec<(u64, u64)> = (model.start..).zip(model.numbers.iter().copied()).collect();
    assert_eq!(read_all(partition), expected, "{what}");
}

/// Returns a seed for each round of a random test. If `TAILWATER_ROUND` is set, returns only that
/// seed.
#[cfg(not(shuttle))]
pub(crate) fn rounds(count: usize) -> Vec<u64> {
    if let Ok(seed) = std::env::var("TAILWATER_ROUND") {
        return vec![seed.parse().expect("TAILWATER_ROUND is a number")];
    }
    let mut seed = tailwater_testkit::seed::rng();
    eprintln!("TAILWATER_SEED={}; TAILWATER_ROUND=SEED repeats one round", seed.value());
    (0..count * tailwater_testkit::seed::rounds()).map(|_| seed.rng.u64(..)).collect()
}
