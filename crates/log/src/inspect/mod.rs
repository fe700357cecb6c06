//! Inspects the directory of a log without opening the log. Nothing is written and no lock is
//! taken, so another process may have the log open. The result is the state of the files at a point
//! in time.
//!
//! Batches that are only in the memory of the process that has the log open are not visible. That
//! process may be writing at the end of a partition's last segment. A batch that cannot be read is
//! damaged if a trailer or the index shows that it was written; otherwise, its write is incomplete
//! ([`Severity`]).
//!
//! # Changes by another process
//!
//! Between two accesses, another process may remove or replace segments, purge or delete the
//! partition, or rewrite a journal. So after an error, the files are listed again, and the access
//! is repeated. The error counts only if the same error occurs again. If different errors keep
//! occurring, the last one is returned with the kind [`ErrorKind::Busy`](crate::ErrorKind::Busy).

mod changes;
mod compact;
mod verify;
mod visit;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_format::message::batch::Header;
use tailwater_format::message::name::Kind;
use tailwater_io::{DescriptorBudget, IoMode, Storage};

use changes::settled;
pub use compact::{CompactReport, compact};
pub use verify::{Finding, Severity, VerifyReport};

use crate::catalog::{self, PartitionId, StreamInfo};
use crate::guard::{GuardedStorage, LockGuard};
use crate::offsets::{self, Consumer};
use crate::partition::recovery;
use crate::segment::{OpenFiles, Segment, SegmentFiles};
use crate::{Error, Result, identity, layout};

/// Memory for read-ahead while segments are read, in bytes.
const READ_AHEAD_BYTES: usize = 16 << 20;

/// The directory of a log, with the catalog and the consumers' offsets as they were when it was
/// read.
#[derive(Debug)]
pub struct LogDirectory {
    directory: PathBuf,
    id: u128,
    segment_files: SegmentFiles,
    streams: BTreeMap<u32, StreamInfo>,
    offsets: BTreeMap<(PartitionId, u64, Consumer), u64>,
}

/// The files of a partition.
#[derive(Debug)]
pub struct PartitionFiles<'a> {
    log: &'a LogDirectory,
    id: PartitionId,
    incarnation: u64,
    segments: Vec<Segment>,
}

/// The file of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SegmentFile {
    /// The file's path.
    pub path: PathBuf,
    /// Offset of the segment's first message.
    pub base_offset: u64,
    /// Lower bound on the timestamps of the segment's batches, in microseconds since 1970.
    pub base_timestamp_us: u64,
    /// Generation of the file: 0 as first written, 1 if it was rewritten without the gaps between
    /// batches.
    pub generation: u8,
    /// Length of the file in bytes, including space that is preallocated but unused.
    pub bytes: u64,
}

impl LogDirectory {
    /// Reads the catalog and the consumers' offsets of the log in a directory.
    ///
    /// # Errors
    /// Not found, if the directory contains no log; corruption; I/O errors.
    pub fn read(storage: Arc<dyn Storage>, directory: &Path) -> Result<Self> {
        Self::read_with(storage, &LockGuard::refusing(), directory)
    }

    /// Like [`Self::read`]. `lock` decides whether files may be changed.
    fn read_with(
        storage: Arc<dyn Storage>,
        lock: &Arc<LockGuard>,
        directory: &Path,
    ) -> Result<Self> {
        let storage: Arc<dyn Storage> = GuardedStorage::new(storage, lock);
        let (id, streams, offsets) = settled(|| {
            let id = identity::read_existing(&*storage, directory)?;
            let streams = catalog::read(&*storage, directory)?;
            Ok((id, streams, offsets::read(&*storage, directory)?))
        })?;
        let segment_files = SegmentFiles::new(
            storage,
            [IoMode::Buffered; 2],
            false,
            READ_AHEAD_BYTES,
            OpenFiles::new(DescriptorBudget::of_process(), 0),
        );
        Ok(Self { directory: directory.to_owned(), id, segment_files, streams, offsets })
    }

    /// Returns the log's id.
    pub fn id(&self) -> u128 {
        self.id
    }

    /// Returns the log's streams by id.
    pub fn streams(&self) -> &BTreeMap<u32, StreamInfo> {
        &self.streams
    }

    /// Returns the id and the current incarnation of every partition.
    pub fn partitions(&self) -> impl Iterator<Item = (PartitionId, u64)> {
        self.streams.iter().flat_map(|(&stream, info)| {
            info.topics.iter().flat_map(move |(&topic, info)| {
                info.partitions.iter().map(move |(&partition, info)| {
                    (PartitionId { stream, topic, partition }, info.incarnation)
                })
            })
        })
    }

    /// Returns the stored offsets of the consumers and groups of a partition's current incarnation.
    pub fn offsets(&self, id: PartitionId) -> impl Iterator<Item = (Consumer, u64)> {
        let incarnation = self.partitions().find(|(of, _)| *of == id).map(|(_, at)| at);
        let of_it =
            move |key: &(PartitionId, u64, Consumer)| key.0 == id && Some(key.1) == incarnation;
        self.offsets
            .iter()
            .filter(move |(key, _)| of_it(key))
            .map(|((_, _, consumer), offset)| (*consumer, *offset))
    }

    /// Lists the files of a partition.
    ///
    /// # Errors
    /// Not found, if the log has no such partition, or another process has deleted it since
    /// [`Self::read`]; corruption, if the partition's directory is missing; busy, if another
    /// process changes the files whenever they are listed; I/O errors.
    pub fn partition(&self, id: PartitionId) -> Result<PartitionFiles<'_>> {
        let found = self.partitions().find(|(of, _)| *of == id);
        let (_, incarnation) = found.ok_or_else(|| Error::not_found(format!("no {id}")))?;
        // Another process may have purged the partition, or removed a file during the listing.
        self.list(id, incarnation).or_else(|_| self.list_current(id))
    }

    /// Lists the files of the incarnation that a partition has now.
    ///
    /// # Errors
    /// The errors of [`Self::partition`].
    fn list_current(&self, id: PartitionId) -> Result<PartitionFiles<'_>> {
        settled(|| {
            let streams = catalog::read(&*self.segment_files.storage, &self.directory)?;
            let topic = streams.get(&id.stream).and_then(|stream| stream.topics.get(&id.topic));
            let partition = topic.and_then(|topic| topic.partitions.get(&id.partition));
            let partition = partition.ok_or_else(|| Error::deleted(id))?;
            self.list(id, partition.incarnation)
        })
    }

    fn list(&self, id: PartitionId, incarnation: u64) -> Result<PartitionFiles<'_>> {
        let directory = layout::incarnation_directory(&self.directory, id, incarnation);
        let listing = recovery::list(&*self.segment_files.storage, &directory)?;
        let segments = listing.segments(&directory, incarnation).collect();
        Ok(PartitionFiles { log: self, id, incarnation, segments })
    }
}

impl<'a> PartitionFiles<'a> {
    /// Returns the partition's id.
    pub fn id(&self) -> PartitionId {
        self.id
    }

    /// Returns the partition's current incarnation.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// Returns the partition's segments in ascending order of their offsets.
    pub fn segments(&self) -> impl Iterator<Item = SegmentFile> {
        self.segments.iter().map(|segment| SegmentFile {
            path: segment.path(Kind::Log),
            base_offset: segment.start().base_offset,
            base_timestamp_us: segment.start().base_timestamp_us,
            generation: segment.generation(),
            bytes: segment.length(),
        })
    }

    /// Returns the offset of the partition's first message, and the offset after the last message
    /// that is in a segment. Reads only the end of the last segment. If another process has removed
    /// that segment, lists the files again.
    ///
    /// # Errors
    /// Corruption; not found, if another process deletes the partition meanwhile; busy, if it
    /// changes the files whenever they are read; I/O errors.
    pub fn offsets(&mut self) -> Result<(u64, u64)> {
        settled(|| {
            let found = self.listed_offsets();
            if found.is_err() {
                *self = self.list_again()?;
            }
            found
        })
    }

    fn listed_offsets(&self) -> Result<(u64, u64)> {
        let (Some(first), Some(last)) = (self.segments.first(), self.segments.last()) else {
            return Ok((0, 0));
        };
        let end = recovery::find_end(&self.log.segment_files, last)?;
        Ok((first.base_offset(), end.next_offset))
    }

    /// Lists the files of the incarnation that the partition has now.
    ///
    /// # Errors
    /// The errors of [`LogDirectory::partition`].
    fn list_again(&self) -> Result<PartitionFiles<'a>> {
        let log: &'a LogDirectory = self.log;
        log.list_current(self.id)
    }
}

/// Where the next batch of a segment is expected.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// Position of the batch, or of a gap before it, in bytes.
    position: u64,
    /// Base offset of the batch.
    offset: u64,
}

impl Place {
    /// Returns the place of a segment's first batch.
    fn first(segment: &Segment) -> Self {
        Self { position: 0, offset: segment.base_offset() }
    }

    /// Returns the place that follows the batch with this header at `position`.
    fn after(position: u64, header: &Header) -> Self {
        let offset = header.base_offset.saturating_add(u64::from(header.count));
        Self { position: position + header.length, offset }
    }

    /// Checks that the batch with this header at `position` has the expected base offset.
    ///
    /// # Errors
    /// Corruption.
    fn check(self, segment: &Segment, position: u64, header: &Header) -> Result<()> {
        if header.base_offset == self.offset {
            return Ok(());
        }
        let message = format!("found offset {}, expected {}", header.base_offset, self.offset);
        Err(Error::corruption(&segment.path(Kind::Log), position, message))
    }
}

/// Creates the error for a segment that ends at `offset`, although the next one begins at `next`.
fn hole(segment: &Segment, offset: u64, next: u64) -> Error {
    let message = format!("it ends at offset {offset}, and the next segment begins at {next}");
    Error::corruption(&segment.path(Kind::Log), segment.length(), message)
}
