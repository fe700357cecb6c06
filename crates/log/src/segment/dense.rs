//! Rewriting a sealed segment without the gaps between its groups.
//!
//! # Order
//!
//! 1. The batches are copied into a new file under a temporary name, with direct I/O, and synced.
//! 2. The owner renames the file to the name of the next generation and syncs the directory: from
//!    here on the new file is the segment, and the old file is obsolete.
//! 3. The new segment is published, with its file and index together. Readers that hold the old
//!    segment continue with it.
//! 4. The old files are removed.
//!
//! A crash before step 2 leaves the temporary file; a crash after step 2 leaves the old generation.
//! Recovery removes either. The owner executes steps 2 to 4 as one command, so that nothing else
//! removes or replaces the segment meanwhile.

use std::path::PathBuf;
use std::sync::Arc;

use tailwater_format::message::index::Entry;
use tailwater_format::message::name::{Kind, TEMPORARY};
use tailwater_io::stream::{SequentialWriter, WriterOptions};
use tailwater_io::{Create, Purpose};

use super::files::SegmentFiles;
use super::index::INTERVAL;
use super::{Scanner, Segment};
use crate::Result;

/// Number of bytes of batches that one step copies. It is bounded, so that other partitions are
/// persisted between two steps.
const STEP_BYTES: u64 = 4 << 20;

/// A rewritten segment not yet installed.
#[derive(Debug)]
pub(crate) struct Rewritten {
    /// The segment that the rewritten segment replaces.
    pub(crate) old: Arc<Segment>,
    /// The new segment.
    pub(crate) new: Arc<Segment>,
    /// Length of the old segment when it was copied, in bytes.
    old_length: u64,
    temporary: PathBuf,
}

/// A copy of a segment's batches in progress (step 1 of the module's list).
#[derive(Debug)]
pub(crate) struct Rewriting {
    rewritten: Rewritten,
    scanner: Scanner,
    writer: SequentialWriter,
    entries: Vec<Entry>,
    /// Number of bytes copied.
    position: u64,
}

/// The outcome of one step of copying.
#[derive(Debug)]
pub(crate) enum Advanced {
    /// There is more to copy.
    Part(Box<Rewriting>),
    /// Everything was copied and synced.
    Whole(Rewritten),
}

/// Copies the batches of a sealed segment in the calling thread.
///
/// # Errors
/// The errors of [`Rewriting::advance`].
pub(crate) fn rewrite(files: &SegmentFiles, old: &Arc<Segment>) -> Result<Rewritten> {
    let mut rewriting = Rewriting::begin(files, old)?;
    loop {
        match rewriting.advance(files)? {
            Advanced::Part(rest) => rewriting = rest,
            Advanced::Whole(rewritten) => return Ok(rewritten),
        }
    }
}

impl Rewriting {
    /// Begins copying the batches of a sealed segment.
    ///
    /// # Errors
    /// I/O errors.
    pub(crate) fn begin(files: &SegmentFiles, old: &Arc<Segment>) -> Result<Box<Self>> {
        let new =
            Segment::new(old.directory(), old.start(), old.generation() + 1, old.incarnation(), 0);
        let mut temporary = new.path(Kind::Log).into_os_string();
        temporary.push(TEMPORARY);
        let (old, new) = (Arc::clone(old), Arc::new(new));
        let (old_length, temporary) = (old.length(), PathBuf::from(temporary));
        let rewritten = Rewritten { old, new, old_length, temporary };
        let begun = rewritten.open(files);
        if begun.is_err() {
            rewritten.discard(files);
        }
        let (scanner, writer) = begun?;
        let entries = Vec::new();
        Ok(Box::new(Self { rewritten, scanner, writer, entries, position: 0 }))
    }

    /// Copies more batches.
    ///
    /// # Errors
    /// Corruption, if the segment is damaged: it stays unchanged; I/O errors.
    pub(crate) fn advance(mut self: Box<Self>, files: &SegmentFiles) -> Result<Advanced> {
        match self.copy() {
            Ok(true) => return Ok(Advanced::Part(self)),
            Ok(false) => {}
            Err(error) => {
                self.abandon(files);
                return Err(error);
            }
        }
        let Self { rewritten, mut writer, entries, position, .. } = *self;
        let finished = writer.sync().and_then(|()| writer.close());
        if finished.is_err() {
            rewritten.discard(files);
        }
        finished?;
        rewritten.new.set_length(position);
        rewritten.new.set_entries(entries);
        Ok(Advanced::Whole(rewritten))
    }

    /// Copies up to [`STEP_BYTES`]. Returns false at the end of the segment.
    fn copy(&mut self) -> Result<bool> {
        let end = self.position + STEP_BYTES;
        while self.position < end {
            let Some(scanned) = self.scanner.read_verified()? else { return Ok(false) };
            let last = self.entries.last();
            if last.is_none_or(|last| self.position >= last.position + INTERVAL) {
                self.entries.push(Entry {
                    offset: scanned.header.base_offset,
                    timestamp_us: scanned.header.base_timestamp_us,
                    position: self.position,
                });
            }
            self.writer.append(&scanned.header.encode())?;
            self.writer.append(scanned.messages)?;
            self.position += scanned.header.length;
        }
        Ok(true)
    }

    /// Abandons the rewrite, and removes the copy.
    pub(crate) fn abandon(self: Box<Self>, files: &SegmentFiles) {
        let Self { rewritten, writer, .. } = *self;
        drop(writer);
        rewritten.discard(files);
    }
}

impl Rewritten {
    fn open(&self, files: &SegmentFiles) -> Result<(Scanner, SequentialWriter)> {
        let (mode, purpose) = (files.append_mode, Purpose::LogAppend);
        let file = files.storage.create(&self.temporary, Create::Truncate, mode, purpose)?;
        let options = WriterOptions::new(purpose);
        let writer = SequentialWriter::new(file, options, &files.read_buffers, None)?;
        Ok((self.old.scan(files, 0)?, writer))
    }

    /// Returns whether the old segment is unchanged since it was copied.
    pub(crate) fn is_current(&self) -> bool {
        self.old.length() == self.old_length
    }

    /// Installs the new segment (step 2 of the module's list), and writes its index.
    ///
    /// # Errors
    /// I/O errors. If the machine crashes after an error, either segment may be found; both contain
    /// the same batches.
    pub(crate) fn install(&self, files: &SegmentFiles) -> Result<()> {
        files.storage.rename(&self.temporary, &self.new.path(Kind::Log))?;
        files.storage.sync_directory(self.new.directory())?;
        let _ = self.new.write_index(files);
        Ok(())
    }

    /// Removes the new segment.
    pub(crate) fn discard(&self, files: &SegmentFiles) {
        let _ = files.storage.remove(&self.temporary);
    }

    /// Removes the replaced segment (step 4 of the module's list). If the process dies before this,
    /// recovery removes the replaced segment.
    pub(crate) fn remove_old(&self, files: &SegmentFiles) {
        for kind in [Kind::Index, Kind::Log] {
            let _ = files.storage.remove(&self.old.path(kind));
        }
    }
}
