//! Writing the last segment of a partition; only the partition's owner writes it.
//!
//! # Order
//!
//! 1. The file is created, and its name is made durable.
//! 2. Space is preallocated ahead of the writes ([`SegmentWriter::prepare`]). If writes are small
//!    and durable, the space is filled with zeros, because a durable write to space that was
//!    written before changes no metadata. Otherwise the space is only reserved. Space is
//!    preallocated in small pieces between writes, so that no write waits long.
//! 3. Groups of batches are written one after the other, each with one call.
//! 4. Sealing the segment cuts off its unused space, syncs it, and writes its index.
//!
//! A crash at any step leaves whole groups, possibly followed by a partly written group, and then
//! zeros.

use std::io::IoSlice;
use std::path::Path;
use std::sync::Arc;

use tailwater_format::message::name::Kind;
use tailwater_io::buffer::AlignedBuffer;
use tailwater_io::{Create, Purpose, WriteFile};

use super::Segment;
use super::files::SegmentFiles;
use crate::options::Durability;
use crate::tail::SegmentStart;
use crate::{Error, Result};

/// Upper bound on the space that is preallocated ahead of the writes, in bytes.
const AHEAD_MAX: u64 = 16 << 20;
/// Space that is preallocated for a segment without writes, in bytes.
const AHEAD_MIN: u64 = 64 << 10;
/// Upper bound on the space that is preallocated in one step, in bytes.
const PIECE: u64 = 1 << 20;
/// Size of a write, in bytes, from which zeroed space no longer makes a durable write faster.
const LARGE_GROUP: u64 = 256 << 10;
/// Fraction of the bytes of batches that gaps must exceed for a segment to be rewritten:
/// 1/GAP_PARTS.
const GAP_PARTS: u64 = 8;

/// The owner's writer of the last segment of a partition.
#[derive(Debug)]
pub(crate) struct SegmentWriter {
    segment: Arc<Segment>,
    file: Box<dyn WriteFile>,
    is_durable: bool,
    /// Position of the end of the written blocks.
    written: u64,
    /// Length of the file in bytes, including preallocated space.
    prepared: u64,
    /// Space to preallocate beyond `written`, in bytes. It grows when writes are faster than
    /// preallocation.
    ahead: u64,
    /// Upper bound on the length of the segment, in bytes.
    length_max: u64,
    /// Whether preallocation failed or reached the segment's maximum length; writes continue
    /// without it.
    has_no_space: bool,
    /// Bytes of batches written by this writer.
    batch_bytes: u64,
    /// Position of this writer's first write.
    begun: u64,
    /// Length of the last write, in bytes.
    last_group: u64,
    /// Length to which the file of a resumed segment is cut again before the first write, in bytes.
    uncertain_cut: Option<u64>,
    /// The error of a failed sync. A failed sync is never retried: the system may have dropped the
    /// bytes.
    failed: Option<Error>,
}

impl SegmentWriter {
    /// Creates a segment, and makes its name durable.
    ///
    /// # Errors
    /// I/O errors. On an error the file may exist; the next attempt truncates it.
    pub(crate) fn create(
        files: &SegmentFiles,
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
            files.storage.create(&path, Create::Truncate, files.append_mode, Purpose::LogAppend)?;
        files.storage.sync_directory(directory)?;
        Ok(Self {
            segment,
            file,
            is_durable: files.syncs_appends || durability == Durability::Disk,
            written: 0,
            prepared: 0,
            ahead: AHEAD_MIN,
            length_max,
            has_no_space: false,
            batch_bytes: 0,
            begun: 0,
            last_group: 0,
            uncertain_cut: None,
            failed: None,
        })
    }

    /// Continues writing a segment. Its file is cut to `length` bytes, after which only batches
    /// remain.
    ///
    /// # Errors
    /// I/O errors.
    pub(crate) fn resume(
        files: &SegmentFiles,
        segment: &Arc<Segment>,
        length: u64,
        durability: Durability,
        length_max: u64,
    ) -> Result<Self> {
        let path = segment.path(Kind::Log);
        let mode = files.append_mode;
        let mut file = files.storage.create(&path, Create::Existing, mode, Purpose::LogAppend)?;
        if file.length()? != length {
            file.truncate(length)?;
        }
        // Readers will see the recovered batches, and later appends follow them. A later crash must
        // therefore neither lose these batches nor restore the bytes that were cut off.
        file.sync_all(Purpose::LogAppend)?;
        // The process that created the segment may have died before it synced the file's name.
        files.storage.sync_directory(segment.directory())?;
        segment.set_length(length);
        Ok(Self {
            segment: Arc::clone(segment),
            file,
            is_durable: files.syncs_appends || durability == Durability::Disk,
            written: length,
            prepared: length,
            ahead: AHEAD_MIN,
            length_max,
            has_no_space: false,
            batch_bytes: 0,
            begun: length,
            last_group: 0,
            uncertain_cut: Some(length),
            failed: None,
        })
    }

    pub(crate) fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// Returns whether the total size of the gaps exceeds an eighth of the size of the batches.
    pub(crate) fn is_padded(&self) -> bool {
        self.written - self.begun > self.batch_bytes + self.batch_bytes / GAP_PARTS
    }

    /// Writes a group at a position, durably if required. `batch_bytes` is the size of its batches.
    ///
    /// # Errors
    /// I/O errors. On an error the bytes at and after `position` are unknown.
    pub(crate) fn write(
        &mut self,
        parts: &[IoSlice<'_>],
        position: u64,
        batch_bytes: u64,
    ) -> Result<()> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let end = position + length as u64;
        self.repeat_cut()?;
        self.file.write_vectored_at(parts, position, self.is_durable, Purpose::LogAppend)?;
        if end > self.prepared {
            // The write went beyond the preallocated space: more space is preallocated from now on.
            self.ahead = (self.ahead * 2).min(AHEAD_MAX);
            self.prepared = end;
        }
        self.written = self.written.max(end);
        self.batch_bytes += batch_bytes;
        self.last_group = length as u64;
        Ok(())
    }

    /// Before the first write to a resumed segment, cuts the file at its present length. The last
    /// process may have cut it there, and died after the sync of that cut had failed. The bytes
    /// after the cut are then still on the device, and would reappear when the write extends the
    /// file.
    fn repeat_cut(&mut self) -> Result<()> {
        let Some(length) = self.uncertain_cut else { return Ok(()) };
        self.file.truncate(length)?;
        if self.is_durable {
            self.sync()?;
        }
        self.uncertain_cut = None;
        Ok(())
    }

    /// Makes the segment readable up to a position.
    pub(crate) fn publish(&self, length: u64) {
        self.segment.set_length(length);
    }

    /// Returns whether space should be preallocated.
    pub(crate) fn wants_space(&self) -> bool {
        let wanted = (self.written + self.ahead / 2).min(self.length_max);
        !self.has_no_space && self.written > 0 && self.prepared < wanted
    }

    /// Preallocates a piece of space. If that fails, writes continue without it.
    pub(crate) fn prepare(&mut self) {
        let block = self.file.alignment() as u64;
        let begin = self.prepared.next_multiple_of(block);
        let end = (begin + PIECE.min(self.ahead)).min(self.length_max.next_multiple_of(block));
        if end <= begin {
            self.has_no_space = true;
            return;
        }
        // Writing zeros first would double the cost of a large durable write.
        let is_small = self.last_group < LARGE_GROUP;
        let prepared = match self.is_durable && is_small {
            true => self.write_zeros(begin, end - begin),
            // The file's length is extended too: a write within that length needs no exclusive
            // access to the file.
            false => self.file.allocate(begin, end - begin).and_then(|()| self.file.truncate(end)),
        };
        match prepared {
            Ok(()) => {
                self.prepared = end;
                self.ahead = self.ahead.max((self.ahead * 2).min(PIECE));
            }
            Err(_) => self.has_no_space = true,
        }
    }

    /// Cuts off unused space, because the partition is idle.
    pub(crate) fn release_space(&mut self) {
        // If the space cannot be cut off, it stays for later writes.
        if self.prepared > self.written && self.file.truncate(self.written).is_ok() {
            self.prepared = self.written;
        }
        self.ahead = AHEAD_MIN;
    }

    fn write_zeros(&mut self, offset: u64, length: u64) -> tailwater_io::Result<()> {
        let mut zeros = AlignedBuffer::with_capacity(length as usize);
        zeros.set_length(length as usize);
        self.file.write_all_at(&zeros, offset, Purpose::LogAppend)?;
        self.file.sync_data(Purpose::LogAppend)
    }

    /// Makes all writes durable.
    ///
    /// # Errors
    /// I/O errors.
    pub(crate) fn sync(&mut self) -> Result<()> {
        self.attempt(|file| file.sync_data(Purpose::LogAppend))
    }

    /// Makes all earlier and later writes durable.
    ///
    /// # Errors
    /// I/O errors.
    pub(crate) fn harden(&mut self) -> Result<()> {
        self.is_durable = true;
        self.sync()
    }

    /// Runs `call`, which includes a sync, unless an earlier sync failed. A failure is final, even
    /// if the disk was full: the error is one that the log does not retry.
    fn attempt(
        &mut self,
        call: impl FnOnce(&mut dyn WriteFile) -> tailwater_io::Result<()>,
    ) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        call(&mut *self.file).map_err(|error| {
            let error = Error::from(error).into_final();
            self.failed = Some(error.clone());
            error
        })
    }

    /// Cuts the segment after its last batch, and syncs it. A sealed segment must be durable
    /// whatever the topic's durability, since recovery never reads sealed segments.
    ///
    /// # Errors
    /// I/O errors.
    pub(crate) fn seal(&mut self, files: &SegmentFiles, data_end: u64) -> Result<()> {
        self.cut(data_end)?;
        // A crash here is safe: a missing index is rebuilt.
        let _ = self.segment.write_index(files);
        Ok(())
    }

    /// Cuts the file after the last batch, and syncs it.
    fn cut(&mut self, data_end: u64) -> Result<()> {
        if self.file.length()? != data_end {
            self.file.truncate(data_end)?;
        }
        self.attempt(|file| file.sync_all(Purpose::LogAppend))?;
        self.segment.set_length(data_end);
        Ok(())
    }
}
