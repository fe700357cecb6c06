//! Rewrites a sealed segment without the gaps between its groups (a group is the batches of one
//! write).
//!
//! # Order
//!
//! 1. The batches are copied into a new file under a temporary name, with direct I/O, and synced.
//! 2. The partition's owner writes the index of the new segment, renames the file to the name of
//!    the next generation and syncs the directory. From here on the new file is the segment, and
//!    the old file is obsolete.
//! 3. The new segment is published to readers, its file and index together. Readers that already
//!    use the old segment continue with it.
//! 4. The old files are removed.
//!
//! A crash before the file is renamed leaves the temporary file and possibly the new index, which
//! is not used without its segment. A crash afterwards leaves the old files. Recovery removes all
//! of them, and compacting a log that is not open removes the temporary file before it begins. The
//! owner executes steps 2 to 4 as one command, so that nothing else removes or replaces the segment
//! meanwhile.
//!
//! The new files have the owner, the group and the permissions of the old segment: root may compact
//! the log of another user.

use std::path::PathBuf;
use std::sync::Arc;

use tailwater_format::message::index::Entry;
use tailwater_format::message::name::{Kind, TEMPORARY};
use tailwater_io::stream::{SequentialWriter, WriterOptions};
use tailwater_io::{Create, Purpose};

use super::files::SegmentFiles;
use super::index::add_entry;
use super::{Scanner, Segment};
use crate::{Error, ErrorKind, Result};

/// A step of copying ends when it has copied this many bytes. Steps are short so that other
/// partitions can be persisted between them.
const STEP_BYTES: u64 = 4 << 20;

/// A complete copy of a segment's batches that is not yet installed. The copy contains no gaps.
#[derive(Debug)]
pub(crate) struct Rewritten {
    /// The segment that is being replaced.
    pub(crate) old: Arc<Segment>,
    /// The segment that replaces `old`.
    pub(crate) new: Arc<Segment>,
    /// Length in bytes that the old segment had when copying began.
    old_length: u64,
    temporary: PathBuf,
}

/// The copying of a segment's batches, in progress (step 1 of the module's list).
#[derive(Debug)]
pub(crate) struct Rewriting {
    rewritten: Rewritten,
    scanner: Scanner,
    writer: SequentialWriter,
    entries: Vec<Entry>,
    /// Number of bytes copied so far, which is the position in the new file.
    position: u64,
}

/// Returns whether a copy that could not be begun may be possible later: too many segments are
/// being rewritten, or no descriptor is left.
pub(crate) fn is_postponed(error: &Error) -> bool {
    let has_no_memory =
        error.io_error().is_some_and(|error| error.kind() == std::io::ErrorKind::OutOfMemory);
    has_no_memory || error.kind() == ErrorKind::OutOfDescriptors
}

/// The result of one step of copying.
#[derive(Debug)]
pub(crate) enum Advanced {
    /// There is more to copy.
    Part(Box<Rewriting>),
    /// Everything has been copied and synced.
    Whole(Rewritten),
}

/// Copies all batches of a sealed segment in a single call, in the calling thread.
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
    /// I/O errors. Those of [`is_postponed`] mean that copying may be possible later.
    pub(crate) fn begin(files: &SegmentFiles, old: &Arc<Segment>) -> Result<Box<Self>> {
        let new =
            Segment::new(old.directory(), old.start(), old.generation() + 1, old.incarnation(), 0);
        let mut temporary = new.path(Kind::Log).into_os_string();
        temporary.push(TEMPORARY);
        let (old, new) = (Arc::clone(old), Arc::new(new));
        let (old_length, temporary) = (old.length(), PathBuf::from(temporary));
        let rewritten = Rewritten { old, new, old_length, temporary };
        let (scanner, writer) = rewritten.open(files)?;
        let entries = Vec::new();
        Ok(Box::new(Self { rewritten, scanner, writer, entries, position: 0 }))
    }

    /// Runs one step of copying.
    ///
    /// # Errors
    /// Corruption, if the segment is damaged; I/O errors. The copy is then removed, and the segment
    /// is unchanged.
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

    /// Copies batches until at least [`STEP_BYTES`] have been copied. Returns false if the end of
    /// the segment was reached.
    fn copy(&mut self) -> Result<bool> {
        let end = self.position + STEP_BYTES;
        while self.position < end {
            let Some(scanned) = self.scanner.read_verified()? else { return Ok(false) };
            add_entry(&mut self.entries, Entry::new(&scanned.header, self.position));
            self.writer.append(&scanned.header.encode())?;
            self.writer.append(scanned.messages)?;
            self.position += scanned.header.length;
        }
        Ok(true)
    }

    /// Stops copying and removes the incomplete copy.
    pub(crate) fn abandon(self: Box<Self>, files: &SegmentFiles) {
        let Self { rewritten, writer, .. } = *self;
        drop(writer);
        rewritten.discard(files);
    }
}

impl Rewritten {
    /// Opens the segment, and creates the file of the copy.
    fn open(&self, files: &SegmentFiles) -> Result<(Scanner, SequentialWriter)> {
        let memory = files.rewrite_memory(&self.temporary)?;
        let from = self.old.file(&mut files.access_now())?;
        let scanner = Scanner::with_buffers(from, 0..self.old_length, memory)?;
        let (mode, purpose) = (files.append_mode, Purpose::LogAppend);
        // A file that an earlier rewrite has left was removed when the log was opened, or before
        // compacting began.
        let file = files.storage.create(&self.temporary, Create::New, mode, purpose)?;
        let options = WriterOptions::new(purpose);
        let owned = files.storage.copy_ownership(&self.old.path(Kind::Log), &self.temporary);
        let writer =
            owned.and_then(|()| SequentialWriter::new(file, options, &files.rewrite_buffers, None));
        if writer.is_err() {
            self.discard(files);
        }
        Ok((scanner, writer?))
    }

    /// Returns whether the old segment still has the length that it had when copying began. A
    /// truncation may have cut it since.
    pub(crate) fn is_current(&self) -> bool {
        self.old.length() == self.old_length
    }

    /// Checks that the name of the new segment is free. If it is not, the copy's file is removed.
    ///
    /// # Errors
    /// Already exists; I/O errors.
    pub(crate) fn check_name_is_free(&self, files: &SegmentFiles) -> Result<()> {
        let path = self.new.path(Kind::Log);
        let error = match files.storage.metadata(&path) {
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) => error.into(),
            Ok(_) => Error::in_the_way(&path),
        };
        self.discard(files);
        Err(error)
    }

    /// Writes the index of the new file, and makes the file the segment (step 2 of the module's
    /// list). No file of its name may exist ([`Self::check_name_is_free`]).
    ///
    /// # Errors
    /// I/O errors. After an error, a crash of the machine may leave either segment; both contain
    /// the same batches.
    pub(crate) fn install(&self, files: &SegmentFiles) -> Result<()> {
        // Without its file, the index is rebuilt. But a file that the log's process may not read
        // would make its reads fail. So until the file has its owner, the segment is not in use.
        if self.write_index(files).is_err() {
            let _ = files.storage.remove(&self.new.path(Kind::Index));
        }
        files.storage.rename(&self.temporary, &self.new.path(Kind::Log))?;
        Ok(files.storage.sync_directory(self.new.directory())?)
    }

    fn write_index(&self, files: &SegmentFiles) -> Result<()> {
        self.new.write_index(files)?;
        Ok(files.storage.copy_ownership(&self.temporary, &self.new.path(Kind::Index))?)
    }

    /// Removes the copy's temporary file. Called if the copy will not be installed.
    pub(crate) fn discard(&self, files: &SegmentFiles) {
        let _ = files.storage.remove(&self.temporary);
    }

    /// Removes the files of the old segment (step 4 of the module's list). If the process dies
    /// before this, recovery removes them.
    pub(crate) fn remove_old(&self, files: &SegmentFiles) {
        for kind in [Kind::Index, Kind::Log] {
            let _ = files.storage.remove(&self.old.path(kind));
        }
    }
}
