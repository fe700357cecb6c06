//! The state of a partition's owner: the position of the next batch, the unpersisted batches, and
//! the queued commands. The owner does no I/O: [`super::Partition`] keeps the owner under a lock
//! that is never held during I/O.

mod appending;
mod groups;
mod queue;
mod schedule;

use std::collections::VecDeque;
use std::sync::Arc;

use tailwater_format::message::padding::gap_end;
use tailwater_io::buffer::{AppendBuffer, AppendedBytes};

use appending::CHUNK_MIN;
pub(super) use groups::Group;
pub(super) use queue::{Command, Effect};
pub(super) use schedule::{Schedule, Step};

use crate::catalog::PartitionId;
use crate::env::Env;
use crate::options::{Durability, TopicOptions};
use crate::tail::{Chunk, MemoryKind, SegmentStart};
use crate::ticket::Completer;
use crate::{Error, ErrorKind, Result};

/// Shortest and longest interval between two runs of retention, in nanoseconds.
const RETENTION_INTERVALS_NS: [u64; 2] = [1_000_000_000, 60_000_000_000];

/// Delays before a write is retried if the disk is full or no descriptor is left, in nanoseconds:
/// the first, and the longest.
const RETRY_NS: [u64; 2] = [100_000_000, 5_000_000_000];

/// Time without an append after which a partition is idle, in nanoseconds.
const IDLE_NS: u64 = 10_000_000_000;

/// A position in a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SegmentPosition {
    pub(super) segment: SegmentStart,
    pub(super) position: u64,
}

impl SegmentPosition {
    /// Returns the position of a partition's first batch.
    pub(super) fn first() -> Self {
        Self { segment: SegmentStart { base_offset: 0, base_timestamp_us: 0 }, position: 0 }
    }
}

/// Whether appends are accepted.
#[derive(Debug, Clone)]
pub(super) enum Health {
    Good,
    /// The disk is full, or memory or descriptors are lacking: the next persist is tried at time
    /// `retry_ns` of the monotonic clock. Until then, appends are refused. If only descriptors are
    /// lacking, appends are accepted as long as there is memory.
    Short {
        error: Error,
        retry_ns: u64,
        wait_ns: u64,
    },
    /// A write or sync failed, or the partition is damaged: appends are refused until the log is
    /// opened again or the partition is purged.
    Failed(Error),
    /// The log was closed.
    Closed,
    /// The partition was deleted.
    Deleted,
}

impl Health {
    /// Returns the error with which appends are refused; `None` if they are accepted.
    pub(super) fn error(&self, id: PartitionId) -> Option<Error> {
        match self {
            Self::Good => None,
            Self::Short { error, .. } if error.kind() == ErrorKind::OutOfDescriptors => None,
            Self::Short { error, .. } | Self::Failed(error) => Some(error.clone()),
            Self::Closed => Some(Error::closed(id)),
            Self::Deleted => Some(Error::deleted(id)),
        }
    }

    /// Returns whether the log was closed or the partition was deleted, so that it accepts neither
    /// appends nor commands.
    pub(super) fn has_ended(&self) -> bool {
        matches!(self, Self::Closed | Self::Deleted)
    }
}

/// An unpersisted batch.
#[derive(Debug)]
struct PendingBatch {
    segment: SegmentStart,
    /// Position of the batch's end in the segment.
    end_position: u64,
    end_offset: u64,
    bytes: u64,
    messages: u32,
    appended_ns: u64,
    /// Completed when the batch is persisted; `None` if the append was acknowledged immediately.
    completer: Option<Completer>,
}

/// The chunk to which batches are appended.
#[derive(Debug)]
struct Active {
    buffer: AppendBuffer,
    chunk: Arc<Chunk>,
    bytes: AppendedBytes,
    /// Number of bytes of the chunk that are persisted and will not be rewritten.
    persisted: usize,
    /// Position in the chunk at which the current group of batches starts: the end of the last gap.
    group_start: usize,
}

/// A full chunk that is not completely persisted.
#[derive(Debug)]
struct FullChunk {
    chunk: Arc<Chunk>,
    bytes: AppendedBytes,
    /// Position in the chunk up to which bytes are written from this chunk (exclusive). It is a
    /// block boundary of the segment. With `PartialBlocks::Carry`, the chunk may contain bytes
    /// after `end`. They are copied to the next chunk or, in the last chunk of a segment, written
    /// as a padded block.
    end: usize,
    persisted: usize,
    /// End of the chunk's last batch, as a byte position in the segment.
    data_end: u64,
    /// Offset of the message after the chunk's last batch.
    end_offset: u64,
}

/// Tickets of appends and commands that are to be completed, each with its outcome. Completing them
/// may call functions of the user, so first all locks are released. A ticket that is dropped here
/// without being completed ends with an error, as its [`Completer`] does.
#[must_use = "the tickets must be completed, after all locks are released"]
#[derive(Debug, Default)]
pub(super) struct Completions(Vec<(Completer, Result<()>)>);

impl Completions {
    pub(super) fn add(&mut self, completer: Completer, outcome: Result<()>) {
        self.0.push((completer, outcome));
    }

    pub(super) fn append(&mut self, mut more: Self) {
        self.0.append(&mut more.0);
    }

    pub(super) fn complete(self) {
        for (completer, outcome) in self.0 {
            completer.complete(outcome);
        }
    }
}

impl FromIterator<(Completer, Result<()>)> for Completions {
    fn from_iter<I: IntoIterator<Item = (Completer, Result<()>)>>(completions: I) -> Self {
        Self(completions.into_iter().collect())
    }
}

/// The state of an owner.
#[derive(Debug)]
pub(super) struct Owner {
    pub(super) id: PartitionId,
    pub(super) incarnation: u64,
    pub(super) options: TopicOptions,
    /// Whether all writes are durable, whatever the topic's durability.
    pub(super) is_hardened: bool,
    pub(super) health: Health,
    /// Whether batches that a dead process left in shared memory are still to be appended, because
    /// the disk was full or memory was scarce. Until they are, nothing else is appended.
    pub(super) awaits_survivors: bool,
    /// Whether files that a truncation removes are still to be removed, because no descriptor was
    /// left. Until they are, nothing is appended.
    pub(super) awaits_truncation: bool,
    /// Offset of the next message.
    pub(super) next_offset: u64,
    /// Timestamp of the last batch, in microseconds since 1970.
    pub(super) last_timestamp_us: u64,
    /// When that batch was appended or recovered, by the monotonic clock.
    last_timestamp_ns: u64,
    /// Segment and position of the batch that will be appended next.
    pub(super) place: SegmentPosition,
    pub(super) persisted: Persisted,
    pub(super) tail: Tail,
    pub(super) schedule: Schedule,
}

/// How far the partition is persisted.
#[derive(Debug)]
pub(super) struct Persisted {
    /// Offset below which all messages are persisted.
    pub(super) offset: u64,
    /// Position after the last persisted batch, in the segment to which the partition wrote most
    /// recently.
    pub(super) end: SegmentPosition,
    /// End of the written blocks that are whole and never rewritten.
    blocks_end: SegmentPosition,
}

/// The chunks in memory, and the unpersisted batches in them.
#[derive(Debug)]
pub(super) struct Tail {
    /// Kind of the memory of new chunks.
    pub(super) kind: MemoryKind,
    /// Memory of the next chunk, in bytes, unless one batch needs more.
    chunk_bytes: usize,
    /// With `PartialBlocks::Carry`, the bytes of the segment's last block up to the position of the
    /// next batch. The next chunk begins with these bytes.
    pub(super) carried: Vec<u8>,
    active: Option<Active>,
    filled: VecDeque<FullChunk>,
    pending: VecDeque<PendingBatch>,
    /// Total size of the batches in `pending`, in bytes.
    pub(super) unpersisted_bytes: u64,
    /// Number of messages of the batches in `pending`.
    pub(super) unpersisted_messages: u64,
    /// Time of the last append, by the monotonic clock.
    last_append_ns: u64,
    /// Whether the partition has released its memory and its preallocated space, and nothing was
    /// appended since.
    is_released: bool,
    /// Chunks that readers may poll, the oldest first.
    pub(super) chunks: Vec<Arc<Chunk>>,
}

impl Tail {
    /// Creates a tail without chunks. New chunks are in memory of this kind.
    fn new(kind: MemoryKind) -> Self {
        Self {
            kind,
            chunk_bytes: CHUNK_MIN,
            carried: Vec::new(),
            active: None,
            filled: VecDeque::new(),
            pending: VecDeque::new(),
            unpersisted_bytes: 0,
            unpersisted_messages: 0,
            last_append_ns: 0,
            is_released: true,
            chunks: Vec::new(),
        }
    }
}

impl Owner {
    /// Creates the owner of a partition whose next message has `next_offset` and is written at
    /// `place`.
    pub(super) fn new(
        env: &Env,
        id: PartitionId,
        incarnation: u64,
        options: TopicOptions,
        next_offset: u64,
        last_timestamp_us: u64,
        place: SegmentPosition,
    ) -> Self {
        let kind = match options.durability {
            Durability::Process if env.memory.allocates_shared() => MemoryKind::Shared,
            _ => MemoryKind::Private,
        };
        Self {
            id,
            incarnation,
            options,
            is_hardened: false,
            health: Health::Good,
            awaits_survivors: false,
            awaits_truncation: false,
            next_offset,
            last_timestamp_us,
            last_timestamp_ns: env.clock.monotonic_ns(),
            place,
            persisted: Persisted { offset: next_offset, end: place, blocks_end: place },
            tail: Tail::new(kind),
            schedule: Schedule::default(),
        }
    }

    /// Returns whether appends are acknowledged only once they are persisted.
    pub(super) fn acknowledges_persisted(&self) -> bool {
        match self.options.durability {
            Durability::Memory => false,
            Durability::Process => self.tail.kind == MemoryKind::Private,
            Durability::Disk => true,
        }
    }

    /// Returns the offset after the last message that readers may read.
    pub(super) fn visible_end(&self) -> u64 {
        if self.acknowledges_persisted() { self.persisted.offset } else { self.next_offset }
    }

    /// Returns the position at the start of a new segment, for the next batch.
    pub(super) fn next_segment(&self) -> SegmentPosition {
        let segment = SegmentStart {
            base_offset: self.next_offset,
            base_timestamp_us: self.last_timestamp_us,
        };
        SegmentPosition { segment, position: 0 }
    }

    /// Drops all unpersisted batches. `outcome` is the outcome of their appends.
    pub(super) fn forget_unpersisted(&mut self, env: &Env, outcome: &Result<()>) -> Completions {
        let completions = self.tail.pending.drain(..).filter_map(|batch| batch.completer);
        let completions = completions.map(|completer| (completer, outcome.clone())).collect();
        for filled in std::mem::take(&mut self.tail.filled) {
            self.release(env, filled.chunk, &filled.bytes);
        }
        if let Some(active) = self.tail.active.take() {
            self.release(env, active.chunk, &active.bytes);
        }
        self.next_offset = self.persisted.offset;
        self.tail.unpersisted_bytes = 0;
        self.tail.unpersisted_messages = 0;
        self.tail.carried.clear();
        completions
    }

    /// Moves a chunk to the cache, after its batches were persisted or dropped. The chunk's bytes
    /// no longer need to outlive the process.
    fn release(&self, env: &Env, chunk: Arc<Chunk>, bytes: &AppendedBytes) {
        if self.tail.kind == MemoryKind::Shared {
            bytes.clear_header();
        }
        env.memory.cache(chunk);
    }

    /// Refuses appends until the log is opened again or the partition is purged. A closed or
    /// deleted partition stays closed or deleted, and the first of several failures is kept.
    pub(super) fn fail(&mut self, error: &Error) {
        debug_assert!(error.kind() != ErrorKind::OutOfDescriptors, "a lack that ends: {error}");
        if !self.health.has_ended() && !matches!(self.health, Health::Failed(_)) {
            let failed = error.clone().while_doing(format_args!("{} refuses appends", self.id));
            self.health = Health::Failed(failed);
        }
    }

    /// Replaces the partition's state by `fresh`, the state of a new incarnation. Keeps the queued
    /// commands in their order, and the number of barriers. A barrier is a command; until the
    /// command is done, the partition refuses appends.
    pub(super) fn become_incarnation(&mut self, fresh: Self) {
        let schedule = std::mem::take(&mut self.schedule).of_next_incarnation();
        *self = Self { schedule, is_hardened: self.is_hardened, ..fresh };
    }

    /// Sets the position in the last segment at which the next batch will be appended. `carried`
    /// contains the existing bytes from the start of the block at `position` up to `position`
    /// (exclusive).
    pub(super) fn resume_at(&mut self, position: u64, carried: Vec<u8>) {
        let block = position - carried.len() as u64;
        self.place.position = position;
        self.persisted.blocks_end = SegmentPosition { position: block, ..self.place };
        self.tail.carried = carried;
    }

    /// Moves the position of the next batch to a new segment, unless the current segment is still
    /// empty. Returns the start of the segment of the next batch. If there are unpersisted batches,
    /// returns `None` and changes nothing: these batches belong to the current segment and must be
    /// written first.
    pub(super) fn begin_segment(&mut self, env: &Env) -> Option<SegmentStart> {
        if self.has_unpersisted() {
            return None;
        }
        if self.place.position > 0 {
            self.close_chunk(env);
            self.tail.carried.clear();
            self.place = self.next_segment();
        }
        Some(self.place.segment)
    }

    /// Sets the persisted ends to the start of `segment`, a new and empty segment for the next
    /// batch.
    pub(super) fn begun_segment(&mut self, segment: SegmentStart) {
        self.persisted.end = SegmentPosition { segment, position: 0 };
        self.persisted.blocks_end = self.persisted.end;
    }

    /// Empties the list of chunks that readers may poll. Returns the chunks that were in the list.
    pub(super) fn take_chunks(&mut self) -> Vec<Arc<Chunk>> {
        std::mem::take(&mut self.tail.chunks)
    }

    /// Returns whether there are unpersisted batches.
    pub(super) fn has_unpersisted(&self) -> bool {
        !self.tail.pending.is_empty() || self.awaits_survivors
    }

    /// Returns whether all messages below an offset are persisted.
    pub(super) fn is_persisted(&self, offset: u64) -> bool {
        self.persisted.offset >= offset && !self.awaits_files()
    }

    /// Returns whether files are still to be changed before anything is appended.
    pub(super) fn awaits_files(&self) -> bool {
        self.awaits_survivors || self.awaits_truncation
    }

    /// Returns the error that delays persists; `None` if nothing is delayed.
    pub(super) fn delay_error(&self) -> Option<Error> {
        match &self.health {
            Health::Short { error, .. }
                if error.kind() == ErrorKind::OutOfDescriptors
                    && (self.has_unpersisted() || self.awaits_truncation) =>
            {
                Some(error.clone())
            }
            _ => None,
        }
    }

    /// Records that a write or another change of files is impossible at present, and retries it
    /// after a delay. A failed, closed or deleted partition stays as it is. Returns whether
    /// descriptors have been lacking for a long time.
    pub(super) fn wait_for_resources(&mut self, env: &Env, error: &Error) -> bool {
        let wait_ns = match &self.health {
            Health::Good => RETRY_NS[0],
            Health::Short { wait_ns, .. } => (wait_ns * 2).min(RETRY_NS[1]),
            Health::Failed(_) | Health::Closed | Health::Deleted => return false,
        };
        let retry_ns = env.clock.monotonic_ns() + wait_ns;
        self.health = Health::Short { error: error.clone(), retry_ns, wait_ns };
        error.kind() == ErrorKind::OutOfDescriptors && wait_ns == RETRY_NS[1]
    }

    /// Records that a write or another change of files has succeeded after it was retried.
    pub(super) fn has_resources(&mut self) {
        if matches!(self.health, Health::Short { .. }) {
            self.health = Health::Good;
        }
    }

    /// Returns the time, by the monotonic clock, at which the oldest unpersisted batch was
    /// appended.
    pub(super) fn unpersisted_since_ns(&self) -> Option<u64> {
        self.tail.pending.front().map(|batch| batch.appended_ns)
    }

    /// Returns whether a persist is due at the time `now_ns` of the monotonic clock.
    pub(super) fn is_persist_due(&self, env: &Env, now_ns: u64) -> bool {
        if !self.has_unpersisted() && !self.awaits_truncation {
            return false;
        }
        match &self.health {
            Health::Good if self.awaits_files() => return true,
            Health::Good => {}
            Health::Short { retry_ns, .. } => return now_ns >= *retry_ns,
            Health::Failed(_) | Health::Closed | Health::Deleted => return false,
        }
        let Some(since_ns) = self.unpersisted_since_ns() else { return false };
        let options = &self.options;
        let is_much = self.tail.unpersisted_messages
            >= u64::from(options.messages_required_to_save)
            || self.tail.unpersisted_bytes >= options.size_of_messages_required_to_save;
        self.acknowledges_persisted()
            || (is_much && self.has_whole_block(env.block))
            // Memory is scarce: other partitions need the memory of the unpersisted batches.
            || env.memory.is_tight()
            || now_ns.saturating_sub(since_ns) / 1000 >= options.save_interval_us
    }

    /// Returns the time, by the monotonic clock, at which a persist becomes due even if nothing is
    /// appended until then.
    pub(super) fn next_due_ns(&self) -> Option<u64> {
        match &self.health {
            Health::Good => {
                let interval_ns = self.options.save_interval_us.saturating_mul(1000);
                Some(self.unpersisted_since_ns()?.saturating_add(interval_ns))
            }
            Health::Short { retry_ns, .. } => {
                (self.has_unpersisted() || self.awaits_truncation).then_some(*retry_ns)
            }
            Health::Failed(_) | Health::Closed | Health::Deleted => None,
        }
    }

    /// Returns whether the partition is idle at the time `now_ns` of the monotonic clock, and has
    /// memory or preallocated space to release.
    pub(super) fn is_release_due(&self, now_ns: u64) -> bool {
        self.release_ns().is_some_and(|release_ns| release_ns <= now_ns)
    }

    /// Returns the time, by the monotonic clock, at which the partition counts as idle and releases
    /// its memory and preallocated space, unless a batch is appended before then. Returns `None` if
    /// the partition has nothing to release, has unpersisted batches, or refuses appends.
    pub(super) fn release_ns(&self) -> Option<u64> {
        let holds = !self.tail.is_released && self.tail.pending.is_empty();
        let may_release = holds && self.health.error(self.id).is_none();
        may_release.then(|| self.tail.last_append_ns.saturating_add(IDLE_NS))
    }

    /// Releases the chunks of an idle partition and evicts them from the cache. If the partition
    /// has unpersisted batches, does nothing and returns false.
    pub(super) fn release_memory(&mut self, env: &Env) -> bool {
        if !self.tail.pending.is_empty() {
            return false;
        }
        self.close_chunk(env);
        self.tail.chunk_bytes = CHUNK_MIN;
        env.memory.release_chunks(&self.take_chunks());
        self.tail.is_released = true;
        true
    }

    /// Returns the interval between two runs of retention, in nanoseconds; `None` if the topic
    /// keeps everything.
    pub(super) fn retention_interval_ns(&self) -> Option<u64> {
        let [shortest, longest] = RETENTION_INTERVALS_NS;
        match (self.options.message_expiry_us, self.options.partition_bytes_max) {
            (None, None) => None,
            // The interval is a tenth of the expiry time, limited to the range from `shortest` to
            // `longest`. Messages therefore outlive a long expiry time only by a small part of it.
            (Some(expiry_us), _) => {
                Some(expiry_us.saturating_mul(1000 / 10).clamp(shortest, longest))
            }
            (None, Some(_)) => Some(longest),
        }
    }

    /// Returns whether a persist operation also writes a partial block. It does if appends wait for
    /// the operation, if the oldest unpersisted batch has waited for the save interval, if a
    /// command is queued, or if memory is scarce.
    pub(super) fn writes_partial_blocks(&self, env: &Env, now_ns: u64) -> bool {
        let options = &self.options;
        let waited_ns =
            self.unpersisted_since_ns().map_or(0, |since_ns| now_ns.saturating_sub(since_ns));
        self.acknowledges_persisted()
            || !self.schedule.commands.is_empty()
            || env.memory.is_tight()
            || waited_ns / 1000 >= options.save_interval_us
    }
}

/// Returns the position at which the next group of batches begins in a segment. `position` is the
/// end of the segment's last batch. If `position` is not a block boundary, a gap separates the last
/// batch from the next group.
pub(super) fn resume_position(position: u64, block: u64) -> u64 {
    if position.is_multiple_of(block) { position } else { gap_end(position, block) }
}
