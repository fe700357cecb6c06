//! Appending batches: the chunks that contain them, and their positions in the chunks.

use std::sync::Arc;

use tailwater_format::message::batch::Batch;
use tailwater_format::message::padding::{GAP_MIN, Trailer, gap_end};
use tailwater_format::message::tail::ChunkHeader;
use tailwater_io::buffer::AppendBuffer;

use super::{Active, FullChunk, Owner, PendingBatch, SegmentPosition};
use crate::env::Env;
use crate::options::PartialBlocks;
use crate::tail::{Chunk, ChunkPlace, MemoryKind, SegmentStart};
use crate::ticket::Ticket;
use crate::timestamps::{self, Now};
use crate::{Error, ErrorKind, Result};

/// Memory of a partition's first chunk, in bytes. Each full chunk doubles the size of the next.
pub(super) const CHUNK_MIN: usize = 32 << 10;
/// Upper bound on the memory of a chunk, in bytes. Only a chunk for one larger batch may exceed it.
const CHUNK_MAX: usize = 1 << 20;

/// An accepted append.
#[derive(Debug)]
pub(in crate::partition) struct Accepted {
    pub(in crate::partition) base_offset: u64,
    pub(in crate::partition) timestamp_us: u64,
    pub(in crate::partition) ticket: Ticket,
    /// Whether the append began a chunk, so that the list of chunks must be published to readers.
    pub(in crate::partition) has_new_chunk: bool,
}

impl Owner {
    /// Checks that an append can be accepted.
    pub(in crate::partition) fn check(&self, env: &Env, length: u64) -> Result<()> {
        if let Some(error) = self.health.error(self.id) {
            return Err(error);
        }
        let full =
            |message: &str| Err(Error::new(ErrorKind::Full, format!("{}: {message}", self.id)));
        if self.schedule.barriers > 0 {
            return full("a command that changes its files is in progress");
        }
        if self.awaits_survivors {
            return full("batches of the last process are still being recovered");
        }
        if self.awaits_truncation {
            return full("a truncation is still in progress");
        }
        // If nothing else is unpersisted, a batch is accepted even if it is larger than the limit
        // of unpersisted bytes.
        let after = self.tail.unpersisted_bytes + length;
        if self.tail.unpersisted_bytes > 0 && after > env.partition_unpersisted_bytes_max {
            return full("the limit of unpersisted bytes is reached");
        }
        Ok(())
    }

    /// Appends a verified batch.
    ///
    /// # Errors
    /// The errors of [`Self::check`]; full, if there is no memory. On an error nothing was
    /// appended.
    pub(in crate::partition) fn append(
        &mut self,
        env: &Env,
        batch: &Batch<'_>,
        now: Now,
    ) -> Result<Accepted> {
        self.check(env, batch.header().length)?;
        let timestamp_us = self.time_us(now);
        self.append_at(env, batch, Now { wall_us: timestamp_us, ..now })
    }

    /// Returns the partition's time at `now`, in microseconds since 1970: the timestamp of a batch
    /// that is appended then. It is higher than all earlier ones, even if the clock was set back,
    /// because readers search by timestamp.
    pub(in crate::partition) fn time_us(&self, now: Now) -> u64 {
        timestamps::after(self.last_timestamp_us, self.last_timestamp_ns, now)
    }

    /// Like [`Self::append`], but does not check whether appends are refused. The batch's timestamp
    /// is `now`, or that of the previous batch if it is higher.
    ///
    /// # Errors
    /// Full, if there is no memory. On an error nothing was appended.
    pub(in crate::partition) fn append_at(
        &mut self,
        env: &Env,
        batch: &Batch<'_>,
        now: Now,
    ) -> Result<Accepted> {
        let length = batch.header().length;
        let timestamp_us = now.wall_us.max(self.last_timestamp_us);
        let has_new_chunk = self.provide_chunk(env, length, timestamp_us)?;
        let Some(active) = &mut self.tail.active else {
            return Err(Error::new(ErrorKind::Internal, "there is room but no chunk"));
        };
        let header = batch.stamped(u64::from(self.id.partition), self.next_offset, timestamp_us);
        active.chunk.note(self.next_offset, timestamp_us, active.buffer.length());
        active.buffer.append(&header.encode());
        active.buffer.append(batch.message_bytes());
        active.buffer.publish();
        let base_offset = self.next_offset;
        self.next_offset += u64::from(header.count);
        (self.last_timestamp_us, self.last_timestamp_ns) = (timestamp_us, now.monotonic_ns);
        self.place.position += length;
        self.tail.unpersisted_bytes += length;
        self.tail.unpersisted_messages += u64::from(header.count);
        let (completer, ticket) = match self.acknowledges_persisted() {
            true => {
                let (completer, ticket) = Ticket::pending();
                (Some(completer), ticket)
            }
            false => (None, Ticket::complete(Ok(()))),
        };
        let appended_ns = now.monotonic_ns;
        (self.tail.last_append_ns, self.tail.is_released) = (appended_ns, false);
        self.tail.pending.push_back(PendingBatch {
            segment: self.place.segment,
            end_position: self.place.position,
            end_offset: self.next_offset,
            bytes: length,
            messages: header.count,
            appended_ns,
            completer,
        });
        Ok(Accepted { base_offset, timestamp_us, ticket, has_new_chunk })
    }

    /// Ensures that the active chunk has space for a batch and for the gap after the batch, which
    /// extends to a block boundary. Returns whether a new chunk was begun.
    pub(super) fn provide_chunk(
        &mut self,
        env: &Env,
        length: u64,
        timestamp_us: u64,
    ) -> Result<bool> {
        let is_full =
            self.place.position > 0 && self.place.position + length > self.options.segment_bytes;
        let reserve = match self.options.partial_blocks {
            PartialBlocks::Pad => GAP_MIN + env.block,
            PartialBlocks::Carry => env.block,
        };
        let wanted = usize::try_from(length + reserve)
            .map_err(|_| Error::invalid(format!("a batch of {length} bytes")))?;
        let fits =
            self.tail.active.as_ref().is_some_and(|active| active.buffer.remaining() >= wanted);
        if fits && !is_full {
            return Ok(false);
        }
        if env.memory.is_tight() {
            self.tail.chunk_bytes = CHUNK_MIN;
        }
        // Allocated before any state changes, because the allocation may fail.
        let buffer = env.memory.allocate(self.tail.kind, wanted.max(self.tail.chunk_bytes))?;
        if self.tail.active.is_some() {
            self.tail.chunk_bytes = (self.tail.chunk_bytes * 2).min(CHUNK_MAX);
        }
        self.close_chunk(env);
        if is_full {
            let segment =
                SegmentStart { base_offset: self.next_offset, base_timestamp_us: timestamp_us };
            self.place = SegmentPosition { segment, position: 0 };
            self.tail.carried.clear();
        }
        self.begin_chunk(env, buffer);
        Ok(true)
    }

    pub(super) fn begin_chunk(&mut self, env: &Env, mut buffer: AppendBuffer) {
        let carried = std::mem::take(&mut self.tail.carried);
        let position = self.place.position - carried.len() as u64;
        let place = ChunkPlace {
            segment: self.place.segment,
            position,
            base_offset: self.next_offset,
            first_batch: carried.len(),
        };
        buffer.append(&carried);
        buffer.publish();
        if self.tail.kind == MemoryKind::Shared {
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
        self.tail.chunks.retain(|chunk| chunk.bytes().is_some());
        self.tail.chunks.push(Arc::clone(&chunk));
        self.tail.active = Some(Active { buffer, chunk, bytes, persisted: 0, group_start: 0 });
    }

    /// Closes the active chunk. With `PartialBlocks::Carry`, the chunk's last block may be partial.
    /// Then the bytes of that block are copied to the next chunk, and later written from there. All
    /// bytes before them are later written from the closed chunk.
    pub(in crate::partition) fn close_chunk(&mut self, env: &Env) {
        if self.options.partial_blocks == PartialBlocks::Pad {
            self.pad(env);
        }
        let Some(active) = self.tail.active.take() else { return };
        let length = active.buffer.length();
        let position = active.chunk.place().position;
        let mut end = length;
        if self.options.partial_blocks == PartialBlocks::Carry {
            let whole = (position + length as u64) / env.block * env.block;
            let begin = whole.saturating_sub(position) as usize;
            let rest = active.bytes.get(begin..length).unwrap_or_default();
            self.tail.carried = rest.to_vec();
            end = begin;
        }
        let data_end = self.data_end();
        if end > active.persisted
            || self.tail.pending.iter().any(|batch| batch.segment == self.place.segment)
        {
            self.tail.filled.push_back(FullChunk {
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

    /// Returns the end of the last batch in the segment.
    pub(super) fn data_end(&self) -> u64 {
        match self.tail.pending.back() {
            Some(batch) if batch.segment == self.place.segment => batch.end_position,
            _ => self.persisted.end.position,
        }
    }

    /// Ends the current group of batches with a gap, so that the group consists of whole blocks.
    pub(super) fn pad(&mut self, env: &Env) {
        let persisted_end = self.persisted.end;
        let Some(active) = &mut self.tail.active else { return };
        if active.buffer.length() == active.group_start {
            return;
        }
        let position = active.chunk.place().position;
        let end = position + active.buffer.length() as u64;
        let gap = (gap_end(end, env.block) - end) as usize;
        let trailer = Trailer {
            stable: if persisted_end.segment == self.place.segment {
                persisted_end.position
            } else {
                0
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
}
