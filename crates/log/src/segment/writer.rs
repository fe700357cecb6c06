//! Writes the last segment of a partition. Only the partition's owner does this.
//!
//! # Order
//!
//! 1. The file is created. Its name is made durable before anything is written to it.
//! 2. Space is preallocated ahead of the writes ([`SegmentWriter::prepare`]). If writes are small
//!    and durable, the space is filled with zeros, because a durable write is faster if it
//!    overwrites existing bytes and so changes no metadata. Otherwise the space is only reserved.
//!    Space is preallocated in small pieces between writes, so that no write waits long for it.
//! 3. Groups (the batches that are persisted together) are written one after the other, each
//!    with one call. Before the first group in a recovered segment, the file is truncated once more
//!    at its present length. A crash in between leaves the file as it was.
//! 4. When the segment is sealed, its unused space is cut off, its file is synced, and its index is
//!    written.
//!
//! A crash at any step leaves whole groups, possibly followed by one partly written group, and
//! after that only zeros.
//!
//! Between two steps the file may be closed, if its descriptor is needed for another file
//! ([`super::open_files`]).

use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_format::message::name::Kind;
use tailwater_io::buffer::AlignedBuffer;
use tailwater_io::descriptors::Share;
use tailwater_io::{Create, Purpose, WriteFile};

use super::Segment;
use super::files::SegmentFiles;
use super::open_files::{OpenWriteFile, WriteSlot};
use crate::options::Durability;
use crate::tail::SegmentStart;
use crate::{Error, ErrorKind, Result};

/// Maximum space that is preallocated after the end of the last write, in bytes.
const AHEAD_MAX: u64 = 16 << 20;
/// Initial target for the space that is preallocated after the end of the last write, in bytes.
const AHEAD_MIN: u64 = 64 << 10;
/// Maximum space that is preallocated in one step, in bytes.
const PIECE: u64 = 1 << 20;
/// Durable writes of at least this many bytes do not become faster if the preallocated space was
/// filled with zeros.
const LARGE_GROUP: u64 = 256 << 10;
/// A segment is worth rewriting if the size of its gaps exceeds 1/GAP_PARTS of the size of its
/// batches.
const GAP_PARTS: u64 = 8;

/// The writer of a partition's last segment, used by the partition's owner only.
#[derive(Debug)]
pub(crate) struct SegmentWriter {
    files: Arc<SegmentFiles>,
    segment: Arc<Segment>,
    file: Arc<WriteSlot>,
    /// Whether the name of the file is durable.
    is_named: bool,
    is_durable: bool,
    /// Position after the last byte written.
    written: u64,
    /// Length of the file in bytes, which includes preallocated space.
    prepared: u64,
    /// Target for the space to preallocate ahead of `written`, in bytes. It grows if writes catch
    /// up with preallocation.
    ahead: u64,
    /// Maximum length of the segment, in bytes. No space is preallocated beyond it.
    length_max: u64,
    /// Whether preallocation has stopped, because it failed or has reached `length_max`. Writes go
    /// on without it.
    has_no_space: bool,
    /// Total size of the batches written by this writer, in bytes, without gaps.
    batch_bytes: u64,
    /// Position at which this writer began: 0, or the end of the recovered batches.
    begun: u64,
    /// Length of the last write, in bytes.
    last_group: u64,
    /// If set, the file must be truncated to this length again before the first write (see
    /// [`Self::repeat_cut`]).
    uncertain_cut: Option<u64>,
}

impl SegmentWriter {
    /// Creates the file of a new segment.
    ///
    /// # Errors
    /// Already exists, if there is a file of its name; I/O errors. The file was then not created.
    pub(crate) fn create(
        files: &Arc<SegmentFiles>,
        directory: &Path,
        start: SegmentStart,
        incarnation: u64,
        durability: Durability,
        length_max: u64,
    ) -> Result<Self> {
        let segment = Arc::new(Segment::new(directory, start, 0, incarnation, 0));
        segment.set_entries(Vec::new());
        let path = segment.path(Kind::Log);
        let claim = files.open.budget.claim_now(Share::Writing, 1);
        let mode = files.append_mode;
        let created = files.storage.create(&path, Create::New, mode, Purpose::LogAppend);
        let file = created.map_err(|error| {
            let error = Error::from(error);
            if error.is_about_existing() { Error::in_the_way(&path) } else { error }
        })?;
        Ok(Self {
            files: Arc::clone(files),
            segment,
            file: WriteSlot::new(files, file, claim),
            is_named: false,
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
        })
    }

    /// Continues to write a recovered segment. First truncates its file to `length` bytes, which
    /// removes everything after the recovered batches.
    ///
    /// # Errors
    /// Corruption, if the file is missing; I/O errors.
    pub(crate) fn resume(
        files: &Arc<SegmentFiles>,
        segment: &Arc<Segment>,
        length: u64,
        durability: Durability,
        length_max: u64,
    ) -> Result<Self> {
        let path = segment.path(Kind::Log);
        let mode = files.append_mode;
        let claim = files.open.budget.claim_now(Share::Writing, 1);
        let mut file = files
            .storage
            .create(&path, Create::Existing, mode, Purpose::LogAppend)
            .map_err(Error::on_required)?;
        if file.length()? != length {
            file.truncate(length)?;
        }
        // From now on readers see the recovered batches, and appends follow them. So make them and
        // the truncation durable: a later crash must neither lose the batches nor bring back the
        // removed bytes.
        file.sync_all(Purpose::LogAppend)?;
        // The process that created the segment may have died before it synced the name of the file.
        files.storage.sync_directory(segment.directory())?;
        segment.set_length(length);
        Ok(Self {
            files: Arc::clone(files),
            segment: Arc::clone(segment),
            file: WriteSlot::new(files, file, claim),
            is_named: true,
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
        })
    }

    pub(crate) fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// Returns whether the gaps that this writer has left exceed 1/[`GAP_PARTS`] of the size of its
    /// batches.
    pub(crate) fn is_padded(&self) -> bool {
        self.written - self.begun > self.batch_bytes + self.batch_bytes / GAP_PARTS
    }

    /// Writes a group of batches at a position. The write is durable if the topic's durability
    /// requires it. `batch_bytes` is the size of the batches without padding.
    ///
    /// # Errors
    /// I/O errors. After an error, the content of the file at and after `position` is unknown.
    pub(crate) fn write(
        &mut self,
        parts: &[IoSlice<'_>],
        position: u64,
        batch_bytes: u64,
    ) -> Result<()> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let end = position + length as u64;
        self.sync_name()?;
        self.repeat_cut()?;
        let is_durable = self.is_durable;
        self.open()?.change(is_durable, |file| {
            file.write_vectored_at(parts, position, is_durable, Purpose::LogAppend)
        })?;
        if end > self.prepared {
            // The write has caught up with preallocation, so preallocate more from now on.
            self.ahead = (self.ahead * 2).min(AHEAD_MAX);
            self.prepared = end;
        }
        self.written = self.written.max(end);
        self.batch_bytes += batch_bytes;
        self.last_group = length as u64;
        Ok(())
    }

    /// Returns the open file.
    fn open(&self) -> Result<OpenWriteFile<'_>> {
        let path = || -> PathBuf { self.segment.path(Kind::Log) };
        self.file.open(&self.files, path, self.written)
    }

    /// Makes the name of the file durable.
    ///
    /// # Errors
    /// I/O errors.
    pub(crate) fn sync_name(&mut self) -> Result<()> {
        if !self.is_named {
            self.files.storage.sync_directory(self.segment.directory())?;
            self.is_named = true;
        }
        Ok(())
    }

    /// Before the first write to a recovered segment, truncates the file at its present length once
    /// more.
    ///
    /// An earlier process may have truncated the file there, and died after the sync of that
    /// truncation failed. Then the removed bytes are still on the device, although the file appears
    /// to be shorter. Without a new truncation they could reappear when the write extends the file.
    fn repeat_cut(&mut self) -> Result<()> {
        let Some(length) = self.uncertain_cut else { return Ok(()) };
        let mut open = self.open()?;
        open.change(false, |file| file.truncate(length))?;
        if self.is_durable {
            open.make_durable(|file| file.sync_data(Purpose::LogAppend))?;
        }
        drop(open);
        self.uncertain_cut = None;
        Ok(())
    }

    /// Lets readers read the segment up to `length`.
    pub(crate) fn publish(&self, length: u64) {
        self.segment.set_length(length);
    }

    /// Returns whether a piece of space should be preallocated now.
    pub(crate) fn wants_space(&self) -> bool {
        let wanted = (self.written + self.ahead / 2).min(self.length_max);
        !self.has_no_space && self.written > 0 && self.prepared < wanted
    }

    /// Preallocates the next piece of space at the end of the file. If that fails, later writes go
    /// on without preallocation. Returns whether another piece should be preallocated now.
    pub(crate) fn prepare(&mut self) -> bool {
        match self.prepare_piece() {
            Ok(Some(end)) => {
                self.prepared = end;
                self.ahead = self.ahead.max((self.ahead * 2).min(PIECE));
            }
            // The next write tries again.
            Err(error) if error.kind() == ErrorKind::OutOfDescriptors => return false,
            Ok(None) | Err(_) => self.has_no_space = true,
        }
        self.wants_space()
    }

    /// Preallocates a piece of space and returns its end; `None` if the segment may not be longer.
    fn prepare_piece(&self) -> Result<Option<u64>> {
        let mut open = self.open()?;
        let block = open.alignment()?;
        let begin = self.prepared.next_multiple_of(block);
        let end = (begin + PIECE.min(self.ahead)).min(self.length_max.next_multiple_of(block));
        if end <= begin {
            return Ok(None);
        }
        // For large durable writes, filling the preallocated space with zeros would double the
        // bytes written for little gain.
        let is_small = self.last_group < LARGE_GROUP;
        if self.is_durable && is_small {
            // The zeros are synced, and a sync that fails loses nothing else.
            open.change(true, |file| write_zeros(file, begin, end - begin))?;
        } else {
            // Extend the file's length too: a direct write within the length does not need
            // exclusive access to the file.
            open.change(self.is_durable, |file| {
                file.allocate(begin, end - begin).and_then(|()| file.truncate(end))
            })?;
        }
        Ok(Some(end))
    }

    /// Truncates the file after its last written byte, so that it loses its preallocated space.
    /// Called when the partition is idle.
    pub(crate) fn release_space(&mut self) {
        let written = self.written;
        let truncate = |mut open: OpenWriteFile<'_>| {
            open.change(self.is_durable, |file| file.truncate(written))
        };
        // If truncating fails, keep the space for later writes.
        if self.prepared > written && self.open().and_then(truncate).is_ok() {
            self.prepared = written;
        }
        self.ahead = AHEAD_MIN;
    }

    /// Makes all earlier writes durable.
    ///
    /// # Errors
    /// I/O errors.
    pub(crate) fn sync(&mut self) -> Result<()> {
        self.sync_name()?;
        if !self.file.is_unsynced()? {
            return Ok(());
        }
        self.open()?.make_durable(|file| file.sync_data(Purpose::LogAppend))
    }

    /// Makes all earlier writes durable. From then on, every write is durable by the time that
    /// write returns.
    ///
    /// # Errors
    /// I/O errors.
    pub(crate) fn harden(&mut self) -> Result<()> {
        self.is_durable = true;
        self.sync()
    }

    /// Truncates the file at `data_end`, the end of the last batch, and syncs it. Recovery never
    /// reads sealed segments. Therefore a sealed segment must be durable even if the topic's
    /// durability does not require it.
    ///
    /// # Errors
    /// I/O errors.
    pub(crate) fn seal(&mut self, data_end: u64) -> Result<()> {
        self.sync_name()?;
        let mut open = self.open()?;
        if self.uncertain_cut.is_some() || open.length()? != data_end {
            open.change(false, |file| file.truncate(data_end))?;
        }
        open.make_durable(|file| file.sync_all(Purpose::LogAppend))?;
        drop(open);
        self.segment.set_length(data_end);
        // A crash here is safe: a missing index is rebuilt.
        let _ = self.segment.write_index(&self.files);
        Ok(())
    }
}

fn write_zeros(zeroed: &mut dyn WriteFile, offset: u64, length: u64) -> tailwater_io::Result<()> {
    let mut zeros = AlignedBuffer::with_capacity(length as usize);
    zeros.set_length(length as usize);
    zeroed.write_all_at(&zeros, offset, Purpose::LogAppend)?;
    zeroed.sync_data(Purpose::LogAppend)
}
