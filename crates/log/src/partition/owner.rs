//! What a partition's owner knows: where the next batch goes, what is not persisted yet, and which
//! commands wait. It does no I/O; [`super::Partition`] has it under a lock that no I/O is done
//! under.

use std::collections::VecDeque;
use std::sync::Arc;

use tailwater_format::message::batch::Batch;
use tailwater_format::message::index::Entry;
use tailwater_format::message::padding::{GAP_MIN, Trailer, gap_end};
use tailwater_format::message::tail::ChunkHeader;
use tailwater_io::buffer::{AlignedBuffer, AppendBuffer, AppendedBytes, AppendedSlice};

use super::Command;
use crate::catalog::PartitionId;
use crate::env::Env;
use crate::options::{Durability, PartialBlocks, TopicOptions};
use crate::tail::{Chunk, ChunkPlace, MemoryKind, SegmentStart};
use crate::ticket::Signal;
use crate::{Error, ErrorKind, Result};

/// Memory of a partition's first chunk, in bytes; each one that fills up makes the next twice as
/// large.
const CHUNK_MIN: usize = 32 << 10;
/// Memory of a chunk that holds several batches, at most.
const CHUNK_MAX: usize = 1 << 20;
/// Bytes that one write to a segment has, about.
const GROUP_BYTES: usize = 4 << 20;
/// How long a persist waits that failed for want of space, the first time and at most, in
/// nanoseconds.
const RETRY_NS: [u64; 2] = [100_000_000, 5_000_000_000];

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

/// What one write to a segment has.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) segment: SegmentStart,
    pub(super) position: u64,
    pub(super) parts: Vec<Part>,
    /// Batches that are persisted with it end here.
    pub(super) data_end: u64,
    /// Whole blocks that need not be written again end here.
    written_end: u64,
    /// Bytes of the batches that are persisted with it.
    pub(super) batch_bytes: u64,
    /// Batches for the segment's index.
    pub(super) entries: Vec<Entry>,
}

/// Bytes of a group.
#[derive(Debug)]
pub(super) enum Part {
    /// Of a chunk.
    Tail(AppendedSlice),
    /// A block that is not full, padded.
    Block(AlignedBuffer),
}

impl Part {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Tail(slice) => slice,
            Self::Block(block) => block,
        }
    }
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
    kind: MemoryKind,
    chunk_bytes: usize,
    active: Option<Active>,
    filled: VecDeque<Filled>,
    marks: VecDeque<Mark>,
    /// Chunks that readers may want, the oldest first.
    pub(super) chunks: Vec<Arc<Chunk>>,
}

/// An append that was taken.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) base_offset: u64,
    pub(super) timestamp_us: u64,
    pub(super) signal: Option<Arc<Signal>>,
    /// Whether readers have to be given other chunks.
    pub(super) has_new_chunk: bool,
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

    /// Refuses an append that cannot be taken at this moment, or ever.
    pub(super) fn check(&self, env: &Env, length: u64) -> Result<()> {
        match &self.health {
            Health::Good => {}
            Health::NoSpace { error, .. } | Health::Failed(error) => return Err(error.clone()),
            Health::Closed => return Err(Error::closed(self.id)),
        }
        let full =
            |message: &str| Err(Error::new(ErrorKind::Full, format!("{}: {message}", self.id)));
        if self.barriers > 0 {
            return full("a command that changes its files is under way");
        }
        // A batch that is larger than the bound alone is taken where nothing else is unpersisted.
        let after = self.unpersisted_bytes + length;
        if self.unpersisted_bytes > 0 && after > env.partition_unpersisted_bytes_max {
            return full("as much as may be is unpersisted");
        }
        Ok(())
    }

    /// Appends a verified batch.
    ///
    /// # Errors
    /// As [`Self::check`]; full, where there is no memory. Nothing was appended then.
    pub(super) fn append(&mut self, env: &Env, batch: &Batch<'_>, now_us: u64) -> Result<Taken> {
        let length = batch.header().length;
        self.check(env, length)?;
        // Timestamps never go back, whatever the clock does: readers search by them.
        let timestamp_us = now_us.max(self.last_timestamp_us);
        let has_new_chunk = self.make_room(env, length, timestamp_us)?;
        let Some(active) = &mut self.active else {
            return Err(Error::new(ErrorKind::Internal, "there is room and no chunk"));
        };
        let header = batch.stamped(u64::from(self.id.partition), self.next_offset, timestamp_us);
        active.chunk.note(self.next_offset, timestamp_us, active.buffer.length());
        active.buffer.append(&header.encode());
        active.buffer.append(batch.message_bytes());
        active.buffer.publish();
        let base_offset = self.next_offset;
        self.next_offset += u64::from(header.count);
        self.last_timestamp_us = timestamp_us;
        self.place.position += length;
        self.unpersisted_bytes += length;
        self.unpersisted_messages += u64::from(header.count);
        let signal = self.acknowledges_persisted().then(Signal::new);
        self.marks.push_back(Mark {
            segment: self.place.segment,
            end_position: self.place.position,
            end_offset: self.next_offset,
            bytes: length,
            messages: header.count,
            appended_ns: env.clock.monotonic_ns(),
            signal: signal.clone(),
        });
        Ok(Taken { base_offset, timestamp_us, signal, has_new_chunk })
    }

    /// Sees to a chunk with room for a batch, and for the gap behind it. Returns whether it is a
    /// new one.
    fn make_room(&mut self, env: &Env, length: u64, timestamp_us: u64) -> Result<bool> {
        let is_full =
            self.place.position > 0 && self.place.position + length > self.options.segment_bytes;
        let reserve = match self.options.partial_blocks {
            PartialBlocks::Pad => GAP_MIN + env.block,
            PartialBlocks::Carry => env.block,
        };
        let wanted = usize::try_from(length + reserve)
            .map_err(|_| Error::invalid(format!("a batch of {length} bytes")))?;
        let fits = self.active.as_ref().is_some_and(|active| active.buffer.remaining() >= wanted);
        if fits && !is_full {
            return Ok(false);
        }
        // Before anything changes: there may be no memory.
        let buffer = env.memory.allocate(self.kind, wanted.max(self.chunk_bytes))?;
        if self.active.is_some() {
            self.chunk_bytes = (self.chunk_bytes * 2).min(CHUNK_MAX);
        }
        self.close_chunk(env);
        if is_full {
            let segment =
                SegmentStart { base_offset: self.next_offset, base_timestamp_us: timestamp_us };
            self.place = Place { segment, position: 0 };
            self.carried.clear();
        }
        self.begin_chunk(env, buffer);
        Ok(true)
    }

    fn begin_chunk(&mut self, env: &Env, mut buffer: AppendBuffer) {
        let carried = std::mem::take(&mut self.carried);
        let position = self.place.position - carried.len() as u64;
        let place = ChunkPlace {
            segment: self.place.segment,
            position,
            base_offset: self.next_offset,
            first_batch: carried.len(),
        };
        buffer.append(&carried);
        buffer.publish();
        if self.kind == MemoryKind::Shared {
            let header = ChunkHeader {
                log: env.log,
                stream: self.id.stream,
                topic: self.id.topic,
                partition: self.id.partition,
                incarnation: self.incarnation,
                base_offset: place.segment.base_offset,
                base_timestamp_us: place.segment.base_timestamp_us,
                position,
                first_batch: place.first_batch as u32,
            };
            buffer.write_header(&header.encode());
        }
        let bytes = buffer.reader();
        let chunk = Arc::new(Chunk::new(place, bytes.clone()));
        self.chunks.retain(|chunk| chunk.bytes().is_some());
        self.chunks.push(Arc::clone(&chunk));
        self.active = Some(Active { buffer, chunk, bytes, persisted: 0, group_start: 0 });
    }

    /// Ends the chunk that is appended to. What it has goes to the segment up to a block's end;
    /// with carried blocks, the rest goes along with the next chunk.
    fn close_chunk(&mut self, env: &Env) {
        if self.options.partial_blocks == PartialBlocks::Pad {
            self.pad(env);
        }
        let Some(active) = self.active.take() else { return };
        let length = active.buffer.length();
        let position = active.chunk.place().position;
        let mut end = length;
        if self.options.partial_blocks == PartialBlocks::Carry {
            let whole = (position + length as u64) / env.block * env.block;
            let begin = whole.saturating_sub(position) as usize;
            let rest = active.bytes.get(begin..length).unwrap_or_default();
            self.carried = rest.to_vec();
            end = begin;
        }
        let data_end = self.data_end();
        if end > active.persisted
            || self.marks.iter().any(|mark| mark.segment == self.place.segment)
        {
            self.filled.push_back(Filled {
                chunk: active.chunk,
                bytes: active.bytes,
                end,
                persisted: active.persisted,
                data_end,
                end_offset: self.next_offset,
            });
        } else {
            self.release(env, active.chunk, &active.bytes);
        }
    }

    /// Returns where the last batch of the segment ends.
    fn data_end(&self) -> u64 {
        match self.marks.back() {
            Some(mark) if mark.segment == self.place.segment => mark.end_position,
            _ => self.persisted_end.position,
        }
    }

    /// Ends the group of batches that is under way with a gap, so that it is whole blocks.
    fn pad(&mut self, env: &Env) {
        let persisted_end = self.persisted_end;
        let Some(active) = &mut self.active else { return };
        if active.buffer.length() == active.group_start {
            return;
        }
        let position = active.chunk.place().position;
        let end = position + active.buffer.length() as u64;
        let gap = (gap_end(end, env.block) - end) as usize;
        let trailer = Trailer {
            stable: match persisted_end.segment == self.place.segment {
                true => persisted_end.position,
                false => 0,
            },
            segment: self.place.segment.base_offset,
            incarnation: self.incarnation,
        }
        .encode();
        active.buffer.append_zeros(gap - trailer.len());
        active.buffer.append(&trailer);
        active.buffer.publish();
        active.group_start = active.buffer.length();
        self.place.position = end + gap as u64;
    }

    /// Returns what the next write to a segment has; `None` where there is nothing. With `all`,
    /// blocks that are not full are written, too.
    pub(super) fn take_group(&mut self, env: &Env, all: bool) -> Option<Group> {
        let filled: usize = self.filled.iter().map(|filled| filled.end - filled.persisted).sum();
        if self.options.partial_blocks == PartialBlocks::Pad && filled < GROUP_BYTES {
            self.pad(env);
        }
        let first = match (self.filled.front(), &self.active) {
            (Some(filled), _) => *filled.chunk.place(),
            (None, Some(active)) => *active.chunk.place(),
            (None, None) => return None,
        };
        let begun = match self.filled.front() {
            Some(filled) => filled.persisted,
            None => self.active.as_ref().map_or(0, |active| active.persisted),
        };
        let position = first.position + begun as u64;
        let mut group = Group {
            segment: first.segment,
            position,
            parts: Vec::new(),
            data_end: position,
            written_end: position,
            batch_bytes: 0,
            entries: Vec::new(),
        };
        let mut bytes = 0;
        for (index, filled) in self.filled.iter().enumerate() {
            if filled.chunk.place().segment != group.segment {
                return self.finish_segment(env, group, index);
            }
            if bytes >= GROUP_BYTES {
                return self.complete(group);
            }
            group.add(&filled.chunk, &filled.bytes, filled.persisted..filled.end);
            bytes += filled.end - filled.persisted;
        }
        let Some(active) = &self.active else { return self.complete(group) };
        if active.chunk.place().segment != group.segment {
            let count = self.filled.len();
            return self.finish_segment(env, group, count);
        }
        if bytes >= GROUP_BYTES {
            return self.complete(group);
        }
        match self.options.partial_blocks {
            PartialBlocks::Pad => {
                let end = active.group_start;
                if end > active.persisted {
                    group.add(&active.chunk, &active.bytes, active.persisted..end);
                }
            }
            PartialBlocks::Carry => {
                let place = active.chunk.place().position;
                let length = active.buffer.length();
                let whole = ((place + length as u64) / env.block * env.block - place) as usize;
                if whole > active.persisted {
                    group.add(&active.chunk, &active.bytes, active.persisted..whole);
                }
                let begin = whole.max(active.persisted);
                if all && length > begin {
                    group.add_block(env, active.bytes.get(begin..length).unwrap_or_default());
                    group.data_end = place + length as u64;
                    return self.weigh(group);
                }
            }
        }
        self.complete(group)
    }

    /// States where the last batch ends that a group has; `None` for a group without bytes.
    fn complete(&self, mut group: Group) -> Option<Group> {
        group.data_end = self.data_end_within(group.segment, group.written_end);
        self.weigh(group)
    }

    /// States what the batches of a group take; `None` for a group without bytes.
    fn weigh(&self, mut group: Group) -> Option<Group> {
        let is_in =
            |mark: &&Mark| (mark.segment, mark.end_position) <= (group.segment, group.data_end);
        group.batch_bytes = self.marks.iter().take_while(is_in).map(|mark| mark.bytes).sum();
        (!group.parts.is_empty()).then_some(group)
    }

    /// Adds the last block of a segment that goes on in another, where it is not full.
    fn finish_segment(&self, env: &Env, mut group: Group, count: usize) -> Option<Group> {
        let last = count.checked_sub(1).and_then(|last| self.filled.get(last));
        if let (PartialBlocks::Carry, Some(last)) = (self.options.partial_blocks, last) {
            let length = (last.data_end - last.chunk.place().position) as usize;
            if let Some(rest) = last.bytes.get(last.end.max(last.persisted)..length)
                && !rest.is_empty()
            {
                group.add_block(env, rest);
            }
            group.data_end = last.data_end;
            return self.weigh(group);
        }
        self.complete(group)
    }

    /// Returns where the last batch ends that does so within the first `end` bytes of a segment.
    fn data_end_within(&self, segment: SegmentStart, end: u64) -> u64 {
        let is_within = |mark: &Mark| (mark.segment, mark.end_position) <= (segment, end);
        let count = self.marks.partition_point(is_within);
        match count.checked_sub(1).and_then(|last| self.marks.get(last)) {
            Some(mark) if mark.segment == segment => mark.end_position,
            _ if self.persisted_end.segment == segment => self.persisted_end.position,
            _ => 0,
        }
    }

    /// Notes that a group was persisted. Returns who is to be told.
    pub(super) fn persisted(&mut self, env: &Env, group: &Group) -> Told {
        let mut told = Told::new();
        while let Some(mark) = self.marks.front() {
            let is_in = mark.segment == group.segment && mark.end_position <= group.data_end;
            if !is_in {
                break;
            }
            if let Some(mark) = self.marks.pop_front() {
                self.unpersisted_bytes -= mark.bytes;
                self.unpersisted_messages -= u64::from(mark.messages);
                self.persisted_offset = mark.end_offset;
                told.extend(mark.signal.map(|signal| (signal, Ok(()))));
            }
        }
        self.persisted_end = Place { segment: group.segment, position: group.data_end };
        while let Some(filled) = self.filled.front_mut() {
            if filled.chunk.place().segment != group.segment {
                break;
            }
            let reached = group.written_end.saturating_sub(filled.chunk.place().position) as usize;
            filled.persisted = filled.persisted.max(reached.min(filled.end));
            // With carried blocks, the end of its last batch goes to the segment with the next
            // chunk.
            let is_done =
                filled.persisted == filled.end && filled.end_offset <= self.persisted_offset;
            if !is_done {
                break;
            }
            if let Some(filled) = self.filled.pop_front() {
                self.release(env, filled.chunk, &filled.bytes);
            }
        }
        if let Some(active) = &mut self.active
            && active.chunk.place().segment == group.segment
        {
            let reached = group.written_end.saturating_sub(active.chunk.place().position) as usize;
            active.persisted = active.persisted.max(reached.min(active.buffer.length()));
        }
        self.written_end = Place { segment: group.segment, position: group.written_end };
        if matches!(self.health, Health::NoSpace { .. }) {
            self.health = Health::Good;
        }
        if self.marks.is_empty() && env.memory.is_tight() {
            // The next append may take another chunk; others need this one's memory now.
            self.close_chunk(env);
        }
        told
    }

    /// Notes that a group was not persisted. Returns who is to be told.
    pub(super) fn not_persisted(&mut self, env: &Env, error: &Error) -> Told {
        if error.kind() != ErrorKind::NoSpace {
            let failed = error.clone().while_doing(format_args!("{} takes no more", self.id));
            self.health = Health::Failed(failed);
            return self.drop_unacknowledged(env, error);
        }
        if self.acknowledges_persisted() {
            // Nothing of it was acknowledged: it is as if it had never come.
            return self.drop_unacknowledged(env, error);
        }
        let wait_ns = match &self.health {
            Health::NoSpace { wait_ns, .. } => (wait_ns * 2).min(RETRY_NS[1]),
            _ => RETRY_NS[0],
        };
        let retry_ns = env.clock.monotonic_ns() + wait_ns;
        self.health = Health::NoSpace { error: error.clone(), retry_ns, wait_ns };
        Told::new()
    }

    /// Drops the batches that nobody was told are there, if appends are acknowledged only when they
    /// are persisted.
    fn drop_unacknowledged(&mut self, env: &Env, error: &Error) -> Told {
        if !self.acknowledges_persisted() {
            return Told::new();
        }
        let first = self.filled.front().map(|filled| filled.chunk.place().segment);
        let first = first.or(self.active.as_ref().map(|active| active.chunk.place().segment));
        let told = self.forget_unpersisted(env, &Err(error.clone()));
        let goes_on = first.is_none_or(|first| first == self.written_end.segment);
        self.place = match (goes_on, self.options.partial_blocks) {
            (true, PartialBlocks::Pad) => self.written_end,
            // What the last block had is not in memory any more.
            _ => self.next_segment(),
        };
        told
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

    /// Returns whether there is more to persist than a block that is carried on.
    fn has_whole_block(&self, block: u64) -> bool {
        let segment = self.place.segment;
        let is_left = |filled: &Filled| {
            filled.persisted < filled.end || filled.chunk.place().segment != segment
        };
        if self.options.partial_blocks == PartialBlocks::Pad || self.filled.iter().any(is_left) {
            return true;
        }
        self.active.as_ref().is_some_and(|active| {
            let position = active.chunk.place().position;
            let whole = (position + active.buffer.length() as u64) / block * block;
            whole > position + active.persisted as u64
        })
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

impl Group {
    fn add(&mut self, chunk: &Chunk, bytes: &AppendedBytes, range: std::ops::Range<usize>) {
        if range.is_empty() {
            return;
        }
        let position = chunk.place().position;
        self.entries.extend(chunk.entries_within(range.clone()));
        self.written_end = position + range.end as u64;
        self.parts.extend(bytes.slice(range).map(Part::Tail));
    }

    /// Adds a block that is not full. It is written again when it is.
    fn add_block(&mut self, env: &Env, bytes: &[u8]) {
        let mut block = AlignedBuffer::with_capacity(env.block as usize);
        block.append(bytes);
        block.pad(env.block as usize);
        self.parts.push(Part::Block(block));
    }
}

/// Returns where the next group begins in a segment that was cut behind its last batch, at
/// `position`.
pub(super) fn resume_position(position: u64, block: u64) -> u64 {
    if position.is_multiple_of(block) { position } else { gap_end(position, block) }
}
