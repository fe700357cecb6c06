//! Segments: the files that contain a partition's batches.
//!
//! A [`Segment`] is a segment as readers see it. Only the last segment of a partition is written,
//! by the partition's owner through a [`SegmentWriter`]. All earlier segments are sealed, which
//! means that they no longer change, with two exceptions. A truncation may cut a sealed segment,
//! and a copy without gaps may replace it ([`dense`]).

mod cursor;
pub(crate) mod dense;
mod files;
mod index;
mod open_files;
mod part_buffers;
mod scan;
mod writer;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_format::message::batch::Header;
use tailwater_format::message::index::{Entry, Seed};
use tailwater_format::message::name::{Kind, SegmentName};
use tailwater_io::ReadFile;

pub(crate) use cursor::Cursor;
pub(crate) use files::{REWRITES_MAX, ReadAccess, SegmentFiles};
pub(crate) use open_files::OpenFiles;
use open_files::ReadSlot;
pub(crate) use part_buffers::PartBuffer;
pub(crate) use scan::Scanner;
pub(crate) use writer::SegmentWriter;

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::tail::SegmentStart;
use crate::{Error, Result};

/// A segment as readers see it.
#[derive(Debug)]
pub(crate) struct Segment {
    start: SegmentStart,
    generation: u8,
    /// The incarnation of the partition that the segment belongs to.
    incarnation: u64,
    directory: PathBuf,
    /// Number of bytes that readers may read: the whole file of a sealed segment, or the persisted
    /// part of the last segment.
    length: AtomicU64,
    file: Arc<ReadSlot>,
    /// The index, an entry for some of the batches; `None` until it is read.
    index: Mutex<Option<Arc<Vec<Entry>>>>,
    /// Damaged batches that were found while they were read in parts, by their positions: the
    /// header of each, and the error.
    damage: Mutex<BTreeMap<u64, (Header, Error)>>,
}

impl Segment {
    /// Creates a segment with `length` readable bytes. Its file is opened by the first read.
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
            file: Arc::default(),
            index: Mutex::new(None),
            damage: Mutex::default(),
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

    /// Returns the directory of the partition's incarnation, which contains the segment's files.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the path of the segment's log file or index file.
    pub(crate) fn path(&self, kind: Kind) -> PathBuf {
        self.directory.join(self.name().file(kind).to_string())
    }

    /// Returns the number of bytes that readers may read.
    pub(crate) fn length(&self) -> u64 {
        self.length.load(Ordering::Acquire)
    }

    /// Sets the number of bytes that readers may read.
    pub(crate) fn set_length(&self, length: u64) {
        self.length.store(length, Ordering::Release);
    }

    /// Records that the batch with this header at `position` was found to be damaged.
    pub(crate) fn note_damage(&self, position: u64, header: Header, error: &Error) {
        self.damage.lock().insert(position, (header, error.clone()));
    }

    /// Returns the error that was recorded for the batch with this header at `position`. After a
    /// truncation, another batch may be there.
    pub(crate) fn damage_of(&self, position: u64, header: Header) -> Option<Error> {
        let damage = self.damage.lock();
        damage.get(&position).filter(|noted| noted.0 == header).map(|noted| noted.1.clone())
    }

    /// Returns the segment's log file, which is opened for reading if it is not open.
    ///
    /// # Errors
    /// Corruption, if the file is missing; I/O errors.
    pub(crate) fn file(&self, access: &mut ReadAccess<'_>) -> Result<Arc<dyn ReadFile>> {
        self.file.open(|| self.path(Kind::Log), access)
    }

    /// Returns a scanner that starts at a position in the segment, in bytes.
    ///
    /// # Errors
    /// Corruption, if the file is missing; I/O errors.
    pub(crate) fn scan(&self, access: &mut ReadAccess<'_>, position: u64) -> Result<Scanner> {
        let file = self.file(access)?;
        Scanner::new(access, file, position..self.length())
    }

    /// Returns a scanner that starts at the last indexed batch whose base offset is at most
    /// `offset`. If there is none, it starts at the beginning of the segment.
    ///
    /// # Errors
    /// Corruption, if the file is missing, or if the index must be rebuilt and the segment is
    /// damaged; I/O errors.
    pub(crate) fn scan_for_offset(
        &self,
        access: &mut ReadAccess<'_>,
        offset: u64,
    ) -> Result<Scanner> {
        self.scan_from(access, |entry| entry.offset <= offset)
    }

    /// Returns a scanner that starts at the last indexed batch whose timestamp is below
    /// `timestamp_us`. If there is none, it starts at the beginning of the segment.
    ///
    /// # Errors
    /// The errors of [`Self::scan_for_offset`].
    pub(crate) fn scan_for_timestamp(
        &self,
        access: &mut ReadAccess<'_>,
        timestamp_us: u64,
    ) -> Result<Scanner> {
        self.scan_from(access, |entry| entry.timestamp_us < timestamp_us)
    }

    fn scan_from(
        &self,
        access: &mut ReadAccess<'_>,
        is_before: impl Fn(&Entry) -> bool,
    ) -> Result<Scanner> {
        for attempt in 0..2 {
            let entries = self.entries(access)?;
            let end = entries.partition_point(&is_before);
            let Some(entry) = end.checked_sub(1).and_then(|last| entries.get(last)) else {
                break;
            };
            let mut scanner = self.scan(access, entry.position)?;
            if scanner.is_at(entry) {
                return Ok(scanner);
            }
            // Rebuilding needs a scanner too, and this one's memory may be the last.
            drop(scanner);
            if attempt == 0 {
                self.rebuild_index(access)?;
            }
        }
        self.scan(access, 0)
    }
}
