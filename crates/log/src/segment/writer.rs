//! Writing the last segment of a partition; only the partition's owner does so.
//!
//! # Order
//!
//! 1. The file is created, and its name made durable.
//! 2. Space is preallocated ahead of the writes ([`SegmentWriter::prepare`]). If writes are small
//!    and durable, the space is filled with zeros, because a durable write into written space
//!    changes no metadata; otherwise it is only reserved. Space is preallocated in small pieces
//!    between writes, so that no write waits long.
//! 3. Groups are written one after the other, each with one call.
//! 4. Sealing cuts off unused space, syncs, and writes the index.
//!
//! A crash at any step leaves whole groups, possibly followed by a torn group, then zeros.

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
/// Size from which a durable write does not benefit from zeroed space, in bytes.
const LARGE_GROUP: u64 = 256 << 10;
/// Share of gaps above which a segment is rewritten, as a fraction of the bytes of batches:
/// 1/GAP_PARTS.
const GAP_PARTS: u64 = 8;

/// The owner's writer of the last segment of a partition.
#[derive(Debug)]
pub(crate) struct SegmentWriter {
    segment: Arc<Segment>,
    file: Box<dyn WriteFile>,
    is_durable: bool,
    /// End of the written blocks.
    written: u64,
    /// Length of the file, used or preallocated.
    prepared: u64,
    /// Space to preallocate ahead, in bytes: it grows with the rate of writes.
    ahead: u64,
    /// Upper bound on the length of the segment, in bytes.
    length_max: u64,
    /// Whether preallocation failed; writes then run without it.
    has_no_space: bool,
    /// Bytes of batches written by this writer.
    batch_bytes: u64,
    /// Position of this writer's first write.
    begun: u64,
    /// Length of the last write, in bytes.
    last_group: u64,
    /// The error from a failed sync. Syncs are never retried: the system may have dropped the
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
            failed: None,
        })
    }

    /// Continues a segment with `length` bytes of batches, whose file is cut to that length.
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
        // Readers see the recovered batches, and later appends follow them: a later crash must
        // neither lose these batches nor bring back the bytes that were cut off.
        file.sync_all(Purpose::LogAppend)?;
        // The process that created the segment may have died before it synced the name.
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
            failed: None,
        })
    }

    pub(crate) fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// Returns whether the gaps take more than an eighth of the bytes of batches.
    pub(crate) fn is_padded(&self) -> bool {
        self.written - self.begun > self.batch_bytes + self.batch_bytes / GAP_PARTS
    }

    /// Writes a group with `batch_bytes` of batches at a position, durably if required.
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
        self.file.write_vectored_at(parts, position, self.is_durable, Purpose::LogAppend)?;
        if end > self.prepared {
            // The writes outran the preallocation.
            self.ahead = (self.ahead * 2).min(AHEAD_MAX);
            self.prepared = end;
        }
        self.written = self.written.max(end);
        self.batch_bytes += batch_bytes;
        self.last_group = length as u64;
        Ok(())
    }

    /// Publishes the segment up to a position.
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
            // A write within the length of the file needs no exclusive access to it.
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
        // Space that cannot be cut off stays for later writes.
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

    /// Runs `call`, which syncs, unless an earlier sync failed. A failure is final, even if the
    /// disk was full: it is not an error that the log retries.
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

    /// Cuts the segment after its last batch. A sealed segment is durable whatever the topic's
    /// durability, since recovery never reads it.
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
