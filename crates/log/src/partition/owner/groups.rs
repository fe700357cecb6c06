//! Persisting batches: the contents of one write to a segment (a *group*), and its outcome.

use tailwater_format::message::index::Entry;
use tailwater_io::buffer::{AlignedBuffer, AppendedBytes, AppendedSlice};

use super::{Completions, FullChunk, Owner, PendingBatch, SegmentPosition};
use crate::env::Env;
use crate::options::PartialBlocks;
use crate::tail::{Chunk, SegmentStart};
use crate::{Error, ErrorKind};

/// Once a group has at least this many bytes, no further chunk is added to it.
const GROUP_BYTES: usize = 4 << 20;

/// The contents of one write to a segment.
#[derive(Debug)]
pub(in crate::partition) struct Group {
    pub(in crate::partition) segment: SegmentStart,
    pub(in crate::partition) position: u64,
    pub(in crate::partition) parts: Vec<Part>,
    /// End of the last batch that this write persists, as a position in the segment, in bytes.
    pub(in crate::partition) data_end: u64,
    /// End of the whole blocks that this write persists and that are never rewritten, as a position
    /// in the segment, in bytes.
    written_end: u64,
    /// Size of the batches that this write persists, in bytes.
    pub(in crate::partition) batch_bytes: u64,
    /// Entries for the segment's index.
    pub(in crate::partition) entries: Vec<Entry>,
}

/// A part of the bytes that one write puts into a segment.
#[derive(Debug)]
pub(in crate::partition) enum Part {
    /// Bytes of a chunk, written from the chunk's memory.
    Tail(AppendedSlice),
    /// A copy of a partial block, padded with zeros.
    Block(AlignedBuffer),
}

impl Part {
    pub(in crate::partition) fn bytes(&self) -> &[u8] {
        match self {
            Self::Tail(slice) => slice,
            Self::Block(block) => block,
        }
    }
}

impl Owner {
    /// Returns the contents of the next write to a segment; `None` if there is nothing to write.
    /// With `all`, a partial block at the end is also written.
    pub(in crate::partition) fn take_group(&mut self, env: &Env, all: bool) -> Option<Group> {
        let filled: usize =
            self.tail.filled.iter().map(|filled| filled.end - filled.persisted).sum();
        if self.options.partial_blocks == PartialBlocks::Pad && filled < GROUP_BYTES {
            self.pad(env);
        }
        let first = match (self.tail.filled.front(), &self.tail.active) {
            (Some(filled), _) => *filled.chunk.place(),
            (None, Some(active)) => *active.chunk.place(),
            (None, None) => return None,
        };
        let begun = match self.tail.filled.front() {
            Some(filled) => filled.persisted,
            None => self.tail.active.as_ref().map_or(0, |active| active.persisted),
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
        for (index, filled) in self.tail.filled.iter().enumerate() {
            if filled.chunk.place().segment != group.segment {
                return self.finish_segment(env, group, index);
            }
            if bytes >= GROUP_BYTES {
                return self.complete(group);
            }
            group.add(&filled.chunk, &filled.bytes, filled.persisted..filled.end);
            bytes += filled.end - filled.persisted;
        }
        let Some(active) = &self.tail.active else { return self.complete(group) };
        if active.chunk.place().segment != group.segment {
            let count = self.tail.filled.len();
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

    /// Sets `data_end` and `batch_bytes` of `group`, and returns the group. Returns `None` if the
    /// group has no bytes to write.
    pub(super) fn complete(&self, mut group: Group) -> Option<Group> {
        group.data_end = self.data_end_within(group.segment, group.written_end);
        self.weigh(group)
    }

    /// Sets `batch_bytes` of `group`, and returns the group. Returns `None` if the group has no
    /// bytes to write.
    pub(super) fn weigh(&self, mut group: Group) -> Option<Group> {
        let is_in = |batch: &&PendingBatch| {
            (batch.segment, batch.end_position) <= (group.segment, group.data_end)
        };
        group.batch_bytes =
            self.tail.pending.iter().take_while(is_in).map(|batch| batch.bytes).sum();
        (!group.parts.is_empty()).then_some(group)
    }

    /// Completes `group`, whose segment is followed by another segment. With
    /// `PartialBlocks::Carry`, first adds the segment's partial last block to the group. `count` is
    /// the number of full chunks in the group's segment.
    pub(super) fn finish_segment(
        &self,
        env: &Env,
        mut group: Group,
        count: usize,
    ) -> Option<Group> {
        let last = count.checked_sub(1).and_then(|last| self.tail.filled.get(last));
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

    /// Returns the end of the last batch that ends at or before position `end` in a segment.
    pub(super) fn data_end_within(&self, segment: SegmentStart, end: u64) -> u64 {
        let is_within =
            |batch: &PendingBatch| (batch.segment, batch.end_position) <= (segment, end);
        let count = self.tail.pending.partition_point(is_within);
        match count.checked_sub(1).and_then(|last| self.tail.pending.get(last)) {
            Some(batch) if batch.segment == segment => batch.end_position,
            _ if self.persisted.end.segment == segment => self.persisted.end.position,
            _ => 0,
        }
    }

    /// Records that a group of batches was persisted.
    pub(in crate::partition) fn persisted(&mut self, env: &Env, group: &Group) -> Completions {
        let mut completions = Completions::default();
        while let Some(batch) = self.tail.pending.front() {
            let is_in = batch.segment == group.segment && batch.end_position <= group.data_end;
            if !is_in {
                break;
            }
            if let Some(batch) = self.tail.pending.pop_front() {
                self.tail.unpersisted_bytes -= batch.bytes;
                self.tail.unpersisted_messages -= u64::from(batch.messages);
                self.persisted.offset = batch.end_offset;
                completions.0.extend(batch.completer.map(|completer| (completer, Ok(()))));
            }
        }
        self.persisted.end = SegmentPosition { segment: group.segment, position: group.data_end };
        while let Some(filled) = self.tail.filled.front_mut() {
            if filled.chunk.place().segment != group.segment {
                break;
            }
            let reached = group.written_end.saturating_sub(filled.chunk.place().position) as usize;
            filled.persisted = filled.persisted.max(reached.min(filled.end));
            // With `PartialBlocks::Carry`, the last batch may end in a block that is copied to the
            // next chunk. The batch is then persisted only when that block is written.
            let is_done =
                filled.persisted == filled.end && filled.end_offset <= self.persisted.offset;
            if !is_done {
                break;
            }
            if let Some(filled) = self.tail.filled.pop_front() {
                self.release(env, filled.chunk, &filled.bytes);
            }
        }
        if let Some(active) = &mut self.tail.active
            && active.chunk.place().segment == group.segment
        {
            let reached = group.written_end.saturating_sub(active.chunk.place().position) as usize;
            active.persisted = active.persisted.max(reached.min(active.buffer.length()));
        }
        self.persisted.blocks_end =
            SegmentPosition { segment: group.segment, position: group.written_end };
        self.has_resources();

        if self.tail.pending.is_empty() && env.memory.is_tight() {
            // Memory is scarce: other partitions need this chunk's memory, and the next append
            // allocates a new chunk.
            self.close_chunk(env);
        }
        completions
    }

    /// Records that a group of batches could not be persisted.
    pub(in crate::partition) fn not_persisted(&mut self, env: &Env, error: &Error) -> Completions {
        if error.kind() == ErrorKind::OutOfDescriptors {
            // Appends that wait for the write wait longer, but not forever.
            let is_long = self.wait_for_resources(env, error);
            return if is_long {
                self.drop_unacknowledged(env, error)
            } else {
                Completions::default()
            };
        }
        if error.kind() != ErrorKind::NoSpace {
            self.fail(error);
            return self.drop_unacknowledged(env, error);
        }
        if self.acknowledges_persisted() {
            // On this topic, batches are acknowledged only once they are persisted. No unpersisted
            // batch was acknowledged, so all of them may be dropped.
            return self.drop_unacknowledged(env, error);
        }
        self.wait_for_resources(env, error);
        Completions::default()
    }

    /// Drops all unpersisted batches if the topic acknowledges batches only once they are
    /// persisted; otherwise does nothing.
    pub(in crate::partition) fn drop_unacknowledged(
        &mut self,
        env: &Env,
        error: &Error,
    ) -> Completions {
        if !self.acknowledges_persisted() {
            return Completions::default();
        }
        let first = self.tail.filled.front().map(|filled| filled.chunk.place().segment);
        let first = first.or(self.tail.active.as_ref().map(|active| active.chunk.place().segment));
        let completions = self.forget_unpersisted(env, &Err(error.clone()));
        // Readers must not find the dropped batches, whose offsets are reused.
        env.memory.release_chunks(&self.take_chunks());
        let goes_on = first.is_none_or(|first| first == self.persisted.blocks_end.segment);
        self.place = match (goes_on, self.options.partial_blocks) {
            (true, PartialBlocks::Pad) => self.persisted.blocks_end,
            // With `PartialBlocks::Carry`, the bytes of the partial last block are no longer in
            // memory, so the block cannot be continued.
            _ => self.next_segment(),
        };
        completions
    }

    /// Returns whether at least one whole block can be persisted. With `PartialBlocks::Pad`, always
    /// returns true, because padding completes the last block. With `PartialBlocks::Carry`, the
    /// partial last block of the current segment does not count.
    pub(super) fn has_whole_block(&self, block: u64) -> bool {
        let segment = self.place.segment;
        let is_left = |filled: &FullChunk| {
            filled.persisted < filled.end || filled.chunk.place().segment != segment
        };
        if self.options.partial_blocks == PartialBlocks::Pad || self.tail.filled.iter().any(is_left)
        {
            return true;
        }
        self.tail.active.as_ref().is_some_and(|active| {
            let position = active.chunk.place().position;
            let whole = (position + active.buffer.length() as u64) / block * block;
            whole > position + active.persisted as u64
        })
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

    /// Adds a padded copy of a partial block to the group. If later batches continue the block, a
    /// later group writes the block again, at the same position.
    fn add_block(&mut self, env: &Env, bytes: &[u8]) {
        let mut block = AlignedBuffer::with_capacity(env.block as usize);
        block.append(bytes);
        block.pad(env.block as usize);
        self.parts.push(Part::Block(block));
    }
}
