//! Writing the last segment of a partition. Only the partition's owner does.
//!
//! # Order
//!
//! 1. The file is created, and its name made durable.
//! 2. Space is prepared ahead of what is written ([`SegmentWriter::prepare`]): zeros where writes
//!    are small and to be durable, since a durable write into space that was written before needs
//!    no metadata; else only reserved. It is prepared in small pieces between writes, so that no
//!    write waits for much of it.
//! 3. Groups are written one after the other, each in one call.
//! 4. Sealing cuts off what was prepared and not used, syncs, and writes the index.
//!
//! A crash at any of these leaves whole groups, then perhaps a torn one, then zeros.

use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;

use tailwater_format::message::name::Kind;
use tailwater_io::buffer::AlignedBuffer;
use tailwater_io::{Create, Purpose, WriteFile};

use super::Segment;
use crate::Result;
use crate::env::Env;
use crate::options::Durability;
use crate::tail::SegmentStart;

/// Most space that is prepared ahead of what is written, in bytes.
const AHEAD_MAX: u64 = 16 << 20;
/// Space that is prepared in one go, in bytes.
const PIECE: u64 = 1 << 20;
/// From this size on, in bytes, a durable write does not need space that was written before.
const LARGE_GROUP: u64 = 256 << 10;
/// A segment is worth rewriting if its gaps take more than this part of what its batches take.
const GAP_PARTS: u64 = 8;

/// The last segment of a partition, as its owner writes it.
#[derive(Debug)]
pub(crate) struct SegmentWriter {
    segment: Arc<Segment>,
    file: Box<dyn WriteFile>,
    is_durable: bool,
    /// Bytes that were written, whole blocks.
    written: u64,
    /// Bytes that the file has, used or prepared.
    prepared: u64,
    /// How far ahead space is prepared: more for a segment that is written fast.
    ahead: u64,
    /// Most bytes that the segment will have.
    length_max: u64,
    /// Space could not be prepared: writes find out for themselves.
    has_no_space: bool,
    /// Bytes of batches among those that were written by this.
    batch_bytes: u64,
    /// Where this began to write.
    begun: u64,
    /// Length of the last write, in bytes.
    last_group: u64,
}

impl SegmentWriter {
    /// Creates a segment, and makes its name durable.
    ///
    /// # Errors
    /// Those of the system. The file may be there then, and is created anew by the next attempt.
    pub(crate) fn create(
        env: &Env,
        directory: &Path,
        start: SegmentStart,
        incarnation: u64,
        durability: Durability,
        length_max: u64,
    ) -> Result<Self> {
        let segment = Arc::new(Segment::new(directory, start, 0, incarnation, 0));
        segment.set_entries(Vec::new());
        let path = segment.path(Kind::Log);
        let file =
            env.storage.create(&path, Create::Truncate, env.append_mode, Purpose::LogAppend)?;
        env.storage.sync_directory(directory)?;
        Ok(Self {
            segment,
            file,
            is_durable: env.syncs_appends || durability == Durability::Disk,
            written: 0,
            prepared: 0,
            ahead: PIECE,
            length_max,
            has_no_space: false,
            batch_bytes: 0,
            begun: 0,
            last_group: 0,
        })
    }

    /// Goes on with a segment that has `length` bytes of batches, whose file is cut to that.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn resume(
        env: &Env,
        segment: &Arc<Segment>,
        length: u64,
        durability: Durability,
        length_max: u64,
    ) -> Result<Self> {
        let path = segment.path(Kind::Log);
        let mode = env.append_mode;
        let mut file = env.storage.create(&path, Create::Existing, mode, Purpose::LogAppend)?;
        if file.length()? != length {
            file.truncate(length)?;
        }
        // What was recovered is what readers see and later appends build on: it must not be lost to
        // a crash that comes later. Nor may what was cut off come back.
        file.sync_all(Purpose::LogAppend)?;
        segment.set_length(length);
        Ok(Self {
            segment: Arc::clone(segment),
            file,
            is_durable: env.syncs_appends || durability == Durability::Disk,
            written: length,
            prepared: length,
            ahead: PIECE,
            length_max,
            has_no_space: false,
            batch_bytes: 0,
            begun: length,
            last_group: 0,
        })
    }

    pub(crate) fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// Returns whether gaps take more than an eighth of what was written.
    pub(crate) fn is_padded(&self) -> bool {
        self.written - self.begun > self.batch_bytes + self.batch_bytes / GAP_PARTS
    }

    /// Writes a group at a position, durably if the topic asks for that. It has `batch_bytes` of
    /// batches.
    ///
    /// # Errors
    /// Those of the system. Nothing is known then of the bytes from `position` on.
    pub(crate) fn write(
        &mut self,
        parts: &[IoSlice<'_>],
        position: u64,
        batch_bytes: u64,
    ) -> Result<()> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let end = position + length as u64;
        self.file.write_vectored_at(parts, position, self.is_durable, Purpose::LogAppend)?;
        if end > self.prepared {
            // It was faster than its space.
            self.ahead = (self.ahead * 2).min(AHEAD_MAX);
            self.prepared = end;
        }
        self.written = self.written.max(end);
        self.batch_bytes += batch_bytes;
        self.last_group = length as u64;
        Ok(())
    }

    /// Lets readers see the segment up to a position.
    pub(crate) fn publish(&self, length: u64) {
        self.segment.set_length(length);
    }

    /// Returns whether space should be prepared.
    pub(crate) fn wants_space(&self) -> bool {
        let wanted = (self.written + self.ahead / 2).min(self.length_max);
        !self.has_no_space && self.written > 0 && self.prepared < wanted
    }

    /// Prepares a piece of space. Where that fails, writes go on without.
    pub(crate) fn prepare(&mut self) {
        let block = self.file.alignment() as u64;
        let begin = self.prepared.next_multiple_of(block);
        let end = (begin + PIECE.min(self.ahead)).min(self.length_max.next_multiple_of(block));
        if end <= begin {
            self.has_no_space = true;
            return;
        }
        // A large durable write pays for its metadata; zeros in front of it would cost as much
        // again.
        let is_small = self.last_group < LARGE_GROUP;
        let prepared = match self.is_durable && is_small {
            true => self.write_zeros(begin, end - begin),
            // A write inside the length needs no exclusive access to the file.
            false => self.file.allocate(begin, end - begin).and_then(|()| self.file.truncate(end)),
        };
        match prepared {
            Ok(()) => self.prepared = end,
            Err(_) => self.has_no_space = true,
        }
    }

    fn write_zeros(&mut self, offset: u64, length: u64) -> tailwater_io::Result<()> {
        let mut zeros = AlignedBuffer::with_capacity(length as usize);
        zeros.set_length(length as usize);
        self.file.write_all_at(&zeros, offset, Purpose::LogAppend)?;
        self.file.sync_data(Purpose::LogAppend)
    }

    /// Makes all that was written durable.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn sync(&mut self) -> Result<()> {
        Ok(self.file.sync_data(Purpose::LogAppend)?)
    }

    /// Ends the segment behind its last batch. Whatever the topic's durability, a sealed segment is
    /// durable: recovery never reads it.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn seal(&mut self, env: &Env, data_end: u64) -> Result<()> {
        self.cut(data_end)?;
        // A crash here is safe: a missing index is made anew.
        let _ = self.segment.write_index(env);
        Ok(())
    }

    /// Cuts off what is behind the last batch, and syncs.
    fn cut(&mut self, data_end: u64) -> Result<()> {
        if self.file.length()? != data_end {
            self.file.truncate(data_end)?;
        }
        self.file.sync_all(Purpose::LogAppend)?;
        self.segment.set_length(data_end);
        Ok(())
    }
}
