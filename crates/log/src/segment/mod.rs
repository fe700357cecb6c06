//! Segments: the files that hold a partition's batches.
//!
//! A [`Segment`] is a reader's view of a segment. Only the partition's last segment is written, by
//! the partition's owner through a [`SegmentWriter`]. All earlier segments are sealed: they no
//! longer change, with two exceptions. A truncation may cut a sealed segment, and a copy without
//! gaps may replace a sealed segment ([`dense`]).

mod cursor;
pub(crate) mod dense;
mod files;
mod index;
mod scan;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use tailwater_format::message::index::{Entry, Seed};
use tailwater_format::message::name::{Kind, SegmentName};
use tailwater_io::{Purpose, ReadFile};

pub(crate) use cursor::{Cursor, Cursors};
pub(crate) use files::SegmentFiles;
pub(crate) use scan::Scanner;
pub(crate) use writer::SegmentWriter;

use crate::Result;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::tail::SegmentStart;

/// A reader's view of a segment.
#[derive(Debug)]
pub(crate) struct Segment {
    start: SegmentStart,
    generation: u8,
    /// Incarnation of the segment's partition.
    incarnation: u64,
    directory: PathBuf,
    /// Number of readable bytes: all of a sealed segment, or the persisted part of the last
    /// segment.
    length: AtomicU64,
    file: OnceLock<Arc<dyn ReadFile>>,
    /// Positions of some batches; `None` until the index is read.
    index: Mutex<Option<Arc<Vec<Entry>>>>,
}

impl Segment {
    /// Creates a view of a segment of `length` bytes, whose file is opened by the first read.
    pub(crate) fn new(
        directory: &Path,
        start: SegmentStart,
        generation: u8,
        incarnation: u64,
        length: u64,
    ) -> Self {
        Self {
            start,
            generation,
            incarnation,
            directory: directory.to_owned(),
            length: AtomicU64::new(length),
            file: OnceLock::new(),
            index: Mutex::new(None),
        }
    }

    pub(crate) fn start(&self) -> SegmentStart {
        self.start
    }

    pub(crate) fn base_offset(&self) -> u64 {
        self.start.base_offset
    }

    pub(crate) fn incarnation(&self) -> u64 {
        self.incarnation
    }

    pub(crate) fn generation(&self) -> u8 {
        self.generation
    }

    fn name(&self) -> SegmentName {
        SegmentName {
            base_offset: self.start.base_offset,
            base_timestamp_us: self.start.base_timestamp_us,
            generation: self.generation,
        }
    }

    fn seed(&self) -> Seed {
        Seed::new(self.start.base_offset, self.incarnation)
    }

    /// Returns the directory of the partition's incarnation.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the path of the segment's file of the given kind.
    pub(crate) fn path(&self, kind: Kind) -> PathBuf {
        self.directory.join(self.name().file(kind).to_string())
    }

    /// Returns the number of readable bytes.
    pub(crate) fn length(&self) -> u64 {
        self.length.load(Ordering::Acquire)
    }

    /// Sets the number of readable bytes.
    pub(crate) fn set_length(&self, length: u64) {
        self.length.store(length, Ordering::Release);
    }

    /// Returns the segment's file, open for reading.
    ///
    /// # Errors
    /// I/O errors.
    pub(crate) fn file(&self, files: &SegmentFiles) -> Result<Arc<dyn ReadFile>> {
        if let Some(file) = self.file.get() {
            return Ok(Arc::clone(file));
        }
        let file = files.storage.open(&self.path(Kind::Log), files.read_mode, Purpose::LogRead)?;
        Ok(Arc::clone(self.file.get_or_init(|| file)))
    }

    /// Returns a scanner that starts at a position.
    ///
    /// # Errors
    /// I/O errors.
    pub(crate) fn scan(&self, files: &SegmentFiles, position: u64) -> Result<Scanner> {
        Scanner::new(files, self.file(files)?, position..self.length())
    }

    /// Returns a scanner that starts at the last indexed batch that begins at or before an offset.
    ///
    /// # Errors
    /// I/O errors; corruption, if the segment must be scanned to rebuild the index.
    pub(crate) fn scan_for_offset(&self, files: &SegmentFiles, offset: u64) -> Result<Scanner> {
        self.scan_from(files, |entry| entry.offset <= offset)
    }

    /// Returns a scanner that starts at the last indexed batch that is older than a timestamp.
    ///
    /// # Errors
    /// The errors of [`Self::scan_for_offset`].
    pub(crate) fn scan_for_timestamp(
        &self,
        files: &SegmentFiles,
        timestamp_us: u64,
    ) -> Result<Scanner> {
        self.scan_from(files, |entry| entry.timestamp_us < timestamp_us)
    }

    fn scan_from(
        &self,
        files: &SegmentFiles,
        is_before: impl Fn(&Entry) -> bool,
    ) -> Result<Scanner> {
        for attempt in 0..2 {
            let entries = self.entries(files)?;
            let end = entries.partition_point(&is_before);
            let Some(entry) = end.checked_sub(1).and_then(|last| entries.get(last)) else {
                break;
            };
            let mut scanner = self.scan(files, entry.position)?;
            if scanner.is_at(entry) {
                return Ok(scanner);
            }
            if attempt == 0 {
                self.rebuild_index(files)?;
            }
        }
        self.scan(files, 0)
    }
}
