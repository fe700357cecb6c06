//! What a partition's owner knows: where the next batch goes, what is not persisted yet, and which
//! commands wait. It does no I/O; [`super::Partition`] has it under a lock that no I/O is done
//! under.

mod appending;
mod groups;

use std::collections::VecDeque;
use std::sync::Arc;

use tailwater_format::message::padding::gap_end;
use tailwater_io::buffer::{AppendBuffer, AppendedBytes};

use appending::CHUNK_MIN;
pub(super) use groups::Group;

use super::Command;
use crate::catalog::PartitionId;
use crate::env::Env;
use crate::options::{Durability, TopicOptions};
use crate::tail::{Chunk, MemoryKind, SegmentStart};
use crate::ticket::Signal;
use crate::{Error, Result};

/// Shortest and longest time between two looks for old segments, in nanoseconds.
const RETENTION_INTERVALS_NS: [u64; 2] = [1_000_000_000, 60_000_000_000];

/// Where the next byte goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) segment: SegmentStart,
    pub(super) position: u64,
}

impl Place {
    /// That of a partition's first batch.
    pub(super) fn first() -> Self {
        Self { segment: SegmentStart { base_offset: 0, base_timestamp_us: 0 }, position: 0 }
    }
}

/// Whether appends are taken.
#[derive(Debug, Clone)]
pub(super) enum Health {
    Good,
    /// There was no space: the next persist is tried at a time of the monotonic clock.
    NoSpace {
        error: Error,
        retry_ns: u64,
        wait_ns: u64,
    },
    /// A write or sync failed, or the partition is damaged: nothing is appended before it is opened
    /// again.
    Failed(Error),
    Closed,
}

/// Appended batches that are not persisted.
#[derive(Debug)]
struct Mark {
    segment: SegmentStart,
    /// Where the batch ends in the segment.
    end_position: u64,
    end_offset: u64,
    bytes: u64,
    messages: u32,
    appended_ns: u64,
    /// Who waits for it to be persisted.
    signal: Option<Arc<Signal>>,
}

/// The chunk that is appended to.
#[derive(Debug)]
struct Active {
    buffer: AppendBuffer,
    chunk: Arc<Chunk>,
    bytes: AppendedBytes,
    /// Bytes that are persisted.
    persisted: usize,
    /// Where the group that is under way began: behind the last gap.
    group_start: usize,
}

/// A chunk that nothing is appended to any more, and that is not persisted.
#[derive(Debug)]
struct Filled {
    chunk: Arc<Chunk>,
    bytes: AppendedBytes,
    /// Bytes that go to the segment from here: up to a block's end, but for the segment's last
    /// chunk.
    end: usize,
    persisted: usize,
    /// Where its last batch ends in the segment, and the offset behind it.
    data_end: u64,
    end_offset: u64,
}

/// Who is to be told that something was persisted, or was not.
pub(super) type Told = Vec<(Arc<Signal>, Result<()>)>;

/// What an owner knows.
#[derive(Debug)]
pub(super) struct Owner {
    pub(super) id: PartitionId,
    pub(super) incarnation: u64,
    pub(super) next_offset: u64,
    pub(super) last_timestamp_us: u64,
    pub(super) place: Place,
    /// With carried blocks, what the segment's last block has in front of `place`.
    pub(super) carried: Vec<u8>,
    pub(super) options: TopicOptions,
    pub(super) health: Health,
    pub(super) commands: VecDeque<Command>,
    /// Commands that appends have to wait for: queued or under way.
    pub(super) barriers: usize,
    /// Whether the partition is in the scheduler's queue, or a thread works for it.
    pub(super) is_scheduled: bool,
    /// Offset up to which everything is persisted.
    pub(super) persisted_offset: u64,
    /// Where the persisted batches of the last segment end.
    pub(super) persisted_end: Place,
    /// Where the blocks end that were written and are not written again.
    written_end: Place,
    pub(super) unpersisted_bytes: u64,
    pub(super) unpersisted_messages: u64,
    /// Whether space should be prepared for the last segment.
    pub(super) wants_space: bool,
    /// Whether there are sealed segments to be rewritten.
    pub(super) wants_rewrite: bool,
    /// When the partition is woken, in the monotonic clock's time.
    pub(super) wakes_ns: Option<u64>,
    /// When old segments are looked for next, in the monotonic clock's time.
    pub(super) retains_ns: Option<u64>,
    kind: MemoryKind,
    chunk_bytes: usize,
    active: Option<Active>,
    filled: VecDeque<Filled>,
    marks: VecDeque<Mark>,
    /// Chunks that readers may want, the oldest first.
    pub(super) chunks: Vec<Arc<Chunk>>,
}

impl Owner {
    /// A partition that goes on behind `next_offset`, at a place of its last segment.
    pub(super) fn new(
        env: &Env,
        id: PartitionId,
        incarnation: u64,
        options: TopicOptions,
        next_offset: u64,
        last_timestamp_us: u64,
        place: Place,
    ) -> Self {
        let kind = match options.durability {
            Durability::Process if env.memory.has_shared() => MemoryKind::Shared,
            _ => MemoryKind::Private,
        };
        Self {
            id,
            incarnation,
            next_offset,
            last_timestamp_us,
            place,
            carried: Vec::new(),
            options,
            health: Health::Good,
            commands: VecDeque::new(),
            barriers: 0,
            is_scheduled: false,
            persisted_offset: next_offset,
            persisted_end: place,
            written_end: place,
            unpersisted_bytes: 0,
            unpersisted_messages: 0,
            wants_space: false,
            wants_rewrite: false,
            wakes_ns: None,
            retains_ns: None,
            kind,
            chunk_bytes: CHUNK_MIN,
            active: None,
            filled: VecDeque::new(),
            marks: VecDeque::new(),
            chunks: Vec::new(),
        }
    }

    /// Returns whether an append is acknowledged only when it is persisted.
    pub(super) fn acknowledges_persisted(&self) -> bool {
        match self.options.durability {
            Durability::Memory => false,
            Durability::Process => self.kind == MemoryKind::Private,
            Durability::Disk => true,
        }
    }

    /// Returns the offset up to which readers may read.
    pub(super) fn visible_end(&self) -> u64 {
        if self.acknowledges_persisted() { self.persisted_offset } else { self.next_offset }
    }

    /// Returns the beginning of a segment for what comes next.
    pub(super) fn next_segment(&self) -> Place {
        let segment = SegmentStart {
            base_offset: self.next_offset,
            base_timestamp_us: self.last_timestamp_us,
        };
        Place { segment, position: 0 }
    }

    /// Forgets all that is not persisted, and everything that readers have in memory. Returns who
    /// is to be told `outcome`.
    pub(super) fn forget_unpersisted(&mut self, env: &Env, outcome: &Result<()>) -> Told {
        let told = self.marks.drain(..).filter_map(|mark| mark.signal);
        let told = told.map(|signal| (signal, outcome.clone())).collect();
        for filled in std::mem::take(&mut self.filled) {
            self.release(env, filled.chunk, &filled.bytes);
        }
        if let Some(active) = self.active.take() {
            self.release(env, active.chunk, &active.bytes);
        }
        self.next_offset = self.persisted_offset;
        self.unpersisted_bytes = 0;
        self.unpersisted_messages = 0;
        self.carried.clear();
        told
    }

    /// Lets go of a chunk that need not outlive the process any more.
    fn release(&self, env: &Env, chunk: Arc<Chunk>, bytes: &AppendedBytes) {
        if self.kind == MemoryKind::Shared {
            bytes.clear_header();
        }
        env.memory.cache(chunk);
    }

    /// Ends the chunk that is appended to, so that the next append begins another one.
    pub(super) fn end_chunk(&mut self, env: &Env) {
        self.close_chunk(env);
    }

    /// Goes on as a fresh incarnation. Commands and barriers stay in the order.
    pub(super) fn become_incarnation(&mut self, fresh: Self) {
        let commands = std::mem::take(&mut self.commands);
        let (barriers, is_scheduled) = (self.barriers, self.is_scheduled);
        let wakes_ns = self.wakes_ns;
        *self = Self { commands, barriers, is_scheduled, wakes_ns, ..fresh };
    }

    /// Has the next batch go to a position of the last segment, behind what its block has already.
    pub(super) fn resume_at(&mut self, position: u64, carried: Vec<u8>) {
        let block = position - carried.len() as u64;
        self.place.position = position;
        self.written_end = Place { position: block, ..self.place };
        self.carried = carried;
    }

    /// Notes that the segment of the next batch is there and empty.
    pub(super) fn begun_segment(&mut self, segment: SegmentStart) {
        self.persisted_end = Place { segment, position: 0 };
        self.written_end = self.persisted_end;
    }

    /// Returns the chunks that readers have, and forgets them.
    pub(super) fn take_chunks(&mut self) -> Vec<Arc<Chunk>> {
        std::mem::take(&mut self.chunks)
    }

    /// Returns whether there is anything to persist.
    pub(super) fn has_unpersisted(&self) -> bool {
        !self.marks.is_empty()
    }

    /// Returns when the oldest unpersisted batch was appended, in the monotonic clock's time.
    pub(super) fn unpersisted_since_ns(&self) -> Option<u64> {
        self.marks.front().map(|mark| mark.appended_ns)
    }

    /// Returns whether a persist is due, at a time of the monotonic clock.
    pub(super) fn is_persist_due(&self, now_ns: u64, block: u64) -> bool {
        let Some(since_ns) = self.unpersisted_since_ns() else { return false };
        match &self.health {
            Health::Good => {}
            Health::NoSpace { retry_ns, .. } => return now_ns >= *retry_ns,
            Health::Failed(_) | Health::Closed => return false,
        }
        let options = &self.options;
        let is_much = self.unpersisted_messages >= u64::from(options.messages_required_to_save)
            || self.unpersisted_bytes >= options.size_of_messages_required_to_save;
        self.acknowledges_persisted()
            || (is_much && self.has_whole_block(block))
            || now_ns.saturating_sub(since_ns) / 1000 >= options.save_interval_us
    }

    /// Returns when a persist may be due that is not due by now, in the monotonic clock's time.
    pub(super) fn next_due_ns(&self) -> Option<u64> {
        let since_ns = self.unpersisted_since_ns()?;
        match &self.health {
            Health::Good => {
                Some(since_ns.saturating_add(self.options.save_interval_us.saturating_mul(1000)))
            }
            Health::NoSpace { retry_ns, .. } => Some(*retry_ns),
            Health::Failed(_) | Health::Closed => None,
        }
    }

    /// Returns how long after each other old segments are looked for, in nanoseconds; `None` where
    /// the topic keeps everything.
    pub(super) fn retention_interval_ns(&self) -> Option<u64> {
        let [shortest, longest] = RETENTION_INTERVALS_NS;
        match (self.options.message_expiry_us, self.options.partition_bytes_max) {
            (None, None) => None,
            // A tenth of their age may pass before messages go that may.
            (Some(expiry_us), _) => {
                Some(expiry_us.saturating_mul(1000 / 10).clamp(shortest, longest))
            }
            (None, Some(_)) => Some(longest),
        }
    }

    /// Returns whether the oldest unpersisted batch has waited long enough, or a command waits:
    /// then blocks that are not full are written, too.
    pub(super) fn writes_partial_blocks(&self, now_ns: u64) -> bool {
        let options = &self.options;
        let waited_ns =
            self.unpersisted_since_ns().map_or(0, |since_ns| now_ns.saturating_sub(since_ns));
        self.acknowledges_persisted()
            || !self.commands.is_empty()
            || waited_ns / 1000 >= options.save_interval_us
    }
}

/// Returns where the next group begins in a segment that was cut behind its last batch, at
/// `position`.
pub(super) fn resume_position(position: u64, block: u64) -> u64 {
    if position.is_multiple_of(block) { position } else { gap_end(position, block) }
}
