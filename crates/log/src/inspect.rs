//! Inspects the directory of a log without opening the log. Nothing is written and no lock is
//! taken, so another process may have the log open. The result is the state of the files at a point
//! in time.
//!
//! Batches that are only in the memory of the process that has the log open are not visible. That
//! process may be writing at the end of a partition's last segment. An incomplete write is
//! distinguished from damage by what follows: after an incomplete write, neither a trailer nor the
//! index shows that later batches were written ([`Severity`]).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_format::message::batch::{Batch, Header, Message};
use tailwater_format::message::index::Entry;
use tailwater_format::message::name::Kind;
use tailwater_io::{DescriptorBudget, FileLock, IoMode, Storage};

use crate::catalog::{self, PartitionId, StreamInfo};
use crate::guard::{GuardedStorage, LockGuard};
use crate::offsets::{self, Consumer};
use crate::partition::recovery;
use crate::segment::{OpenFiles, Scanner, Segment, SegmentFiles, dense};
use crate::{Error, ErrorKind, Result, identity, layout};

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

/// How serious a finding of a verification is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Harmless: an index is missing or wrong. It is rebuilt from its segment when a reader needs
    /// it.
    Note,
    /// The last segment ends with an incomplete batch, because of a crash or because it is being
    /// written.
    TornTail,
    /// Bytes are damaged or missing.
    Damage,
}

/// A problem that a verification found.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Finding {
    /// The finding's severity.
    pub severity: Severity,
    /// A description of the problem.
    pub error: Error,
}

/// The result of a verification: the problems found, and how much was read.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct VerifyReport {
    /// All problems found.
    pub findings: Vec<Finding>,
    /// Number of partitions whose files were found.
    pub partitions: u64,
    /// Number of segments that were read.
    pub segments: u64,
    /// Number of valid batches.
    pub batches: u64,
    /// Number of messages in the valid batches.
    pub messages: u64,
    /// Number of bytes read.
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
        let id = identity::read_existing(&*storage, directory)?;
        let streams = catalog::read(&*storage, directory)?;
        let offsets = offsets::read(&*storage, directory)?;
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
    /// Not found, if the log has no such partition; corruption, if the partition's directory is
    /// missing, for instance because another process has purged the partition since
    /// [`Self::read`]; I/O errors.
    pub fn partition(&self, id: PartitionId) -> Result<PartitionFiles<'_>> {
        let found = self.partitions().find(|(of, _)| *of == id);
        let (_, incarnation) = found.ok_or_else(|| Error::not_found(format!("no {id}")))?;
        let directory = layout::incarnation_directory(&self.directory, id, incarnation);
        let listing = recovery::list(&*self.segment_files.storage, &directory)?;
        let segments = listing.segments(&directory, incarnation).collect();
        Ok(PartitionFiles { log: self, id, incarnation, segments })
    }

    /// Reads all segments and verifies them: all checksums must be valid, offsets must be
    /// consecutive, and indexes must agree with their segments. Calls `seen` repeatedly with the
    /// number of bytes read so far. Errors from listing and reading files are findings in the
    /// report.
    pub fn verify(&self, mut seen: impl FnMut(u64)) -> VerifyReport {
        let mut report = VerifyReport::default();
        for (id, _) in self.partitions() {
            let partition = match self.partition(id) {
                Ok(partition) => partition,
                Err(error) => {
                    report.findings.push(Finding { severity: Severity::Damage, error });
                    continue;
                }
            };
            partition.verify(&mut report, &mut seen);
        }
        report
    }
}

impl PartitionFiles<'_> {
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
    /// that is in a segment. Reads only the end of the last segment.
    ///
    /// # Errors
    /// Corruption; I/O errors.
    pub fn offsets(&self) -> Result<(u64, u64)> {
        let (Some(first), Some(last)) = (self.segments.first(), self.segments.last()) else {
            return Ok((0, 0));
        };
        let end = recovery::find_end(&self.log.segment_files, last)?;
        Ok((first.base_offset(), end.next_offset))
    }

    /// Calls `visit` with each batch in order, and stops when `visit` returns false. Begins with
    /// the batch that contains the offset `from`. Batches before it are not verified.
    ///
    /// # Errors
    /// Corruption, with file and offset; I/O errors. An incomplete batch at the end of the last
    /// segment ([`Severity::TornTail`]) is not an error but ends the visit.
    pub fn visit(
        &self,
        from: u64,
        mut visit: impl FnMut(&Header, &mut dyn Iterator<Item = Message<'_>>) -> bool,
    ) -> Result<()> {
        let first = self.segments.partition_point(|segment| segment.base_offset() <= from);
        for (index, segment) in self.segments.iter().enumerate().skip(first.saturating_sub(1)) {
            let next = self.segments.get(index + 1).map(|next| next.base_offset());
            if !self.visit_segment(segment, next, from, &mut visit)? {
                break;
            }
        }
        Ok(())
    }

    /// Visits the batches of a segment that end beyond the offset `from`. The next segment begins
    /// at the offset `next`, which is `None` for the last segment. Returns whether `visit` wants
    /// more batches.
    fn visit_segment(
        &self,
        segment: &Segment,
        next: Option<u64>,
        from: u64,
        visit: &mut impl FnMut(&Header, &mut dyn Iterator<Item = Message<'_>>) -> bool,
    ) -> Result<bool> {
        let (mut scanner, mut place) = self.scan_near(segment, from)?;
        loop {
            match visit_next(&mut scanner, segment, &mut place, from, visit) {
                Ok(Step::Next) => {}
                Ok(Step::Stop) => return Ok(false),
                Ok(Step::End) => break,
                Ok(Step::Contradiction(error)) => return Err(error),
                Err(error) => match self.judge(segment, next.is_none(), place.position, error) {
                    Ok(again) => scanner = again,
                    Err(Finding { severity: Severity::TornTail, .. }) => break,
                    Err(Finding { error, .. }) => return Err(error),
                },
            }
        }
        match next.filter(|next| *next != place.offset) {
            Some(next) => Err(hole(segment, place.offset, next)),
            None => Ok(true),
        }
    }

    /// Returns a scanner at the last indexed batch whose base offset is at most `from`, or at the
    /// beginning of the segment if there is none. A missing index is not rebuilt.
    fn scan_near(&self, segment: &Segment, from: u64) -> Result<(Scanner, Place)> {
        let files = &self.log.segment_files;
        let mut access = files.access_now();
        let entries = segment.read_index(files).unwrap_or_default();
        let end = entries.partition_point(|entry| entry.offset <= from);
        if let Some(entry) = end.checked_sub(1).and_then(|last| entries.get(last)) {
            let mut scanner = segment.scan(&mut access, entry.position)?;
            if scanner.is_at(entry) {
                return Ok((scanner, Place { position: entry.position, offset: entry.offset }));
            }
        }
        let scanner = segment.scan(&mut access, 0)?;
        Ok((scanner, Place { position: 0, offset: segment.base_offset() }))
    }

    fn verify(&self, report: &mut VerifyReport, seen: &mut dyn FnMut(u64)) {
        report.partitions += 1;
        for (index, segment) in self.segments.iter().enumerate() {
            let next = self.segments.get(index + 1).map(|next| next.base_offset());
            self.verify_segment(segment, next, report, seen);
        }
    }

    fn verify_segment(
        &self,
        segment: &Segment,
        next: Option<u64>,
        report: &mut VerifyReport,
        seen: &mut dyn FnMut(u64),
    ) {
        report.segments += 1;
        let mut note = |severity, error| report.findings.push(Finding { severity, error });
        let mut index = match segment.read_index(&self.log.segment_files) {
            Ok(entries) => entries.into_iter().peekable(),
            Err(error) => {
                note(Severity::Note, error);
                Vec::new().into_iter().peekable()
            }
        };
        let mut wrong = None;
        let mut access = self.log.segment_files.access_now();
        let mut scanner = match segment.scan(&mut access, 0) {
            Ok(scanner) => scanner,
            Err(error) => return note(Severity::Damage, error),
        };
        let (mut offset, mut end) = (segment.base_offset(), 0);
        loop {
            let read = scanner.read_verified();
            let (position, header) = match read.map(|it| it.map(|it| (it.position, it.header))) {
                Ok(Some(read)) => read,
                Ok(None) => break,
                Err(error) => match self.judge(segment, next.is_none(), end, error) {
                    Ok(again) => {
                        scanner = again;
                        continue;
                    }
                    Err(Finding { severity, error }) => return note(severity, error),
                },
            };
            if header.base_offset != offset {
                return note(Severity::Damage, misplaced(segment, position, &header, offset));
            }
            end = position + header.length;
            let here = Entry::new(&header, position);
            while let Some(entry) = index.next_if(|entry| entry.position <= position) {
                wrong = wrong.or((entry != here).then_some(entry));
            }
            offset += u64::from(header.count);
            report.batches += 1;
            report.messages += u64::from(header.count);
            report.bytes += header.length;
            seen(report.bytes);
        }
        if let Some(Entry { offset, position, .. }) = wrong.or(index.next()) {
            let message = format!(
                "the index places offset {offset} at position {position}, where the segment has no \
                 such batch; it will be rebuilt"
            );
            note(Severity::Note, Error::corruption(&segment.path(Kind::Index), 0, message));
        }
        if let Some(next) = next.filter(|next| *next != offset) {
            let error = hole(segment, offset, next);
            report.findings.push(Finding { severity: Severity::Damage, error });
        }
    }

    /// Judges `error`, which occurred when the batch at `position` was read. If it is the effect of
    /// a write that has completed since, returns a scanner that starts at `position`.
    fn judge(
        &self,
        segment: &Segment,
        is_last: bool,
        position: u64,
        error: Error,
    ) -> std::result::Result<Scanner, Finding> {
        let damage = |error| Finding { severity: Severity::Damage, error };
        if !is_last || error.kind() != ErrorKind::Corruption {
            return Err(damage(error));
        }
        let files = &self.log.segment_files;
        // This must be determined before the batch is read again. Otherwise, writes in between
        // could complete this batch and add others.
        let is_written_beyond = recovery::is_written_beyond(files, segment, position);
        let scan = || segment.scan(&mut files.access_now(), position);
        let is_whole = scan().is_ok_and(|mut scanner| scanner.read_verified().is_ok());
        match is_written_beyond {
            _ if is_whole => scan().map_err(damage),
            Ok(false) => Err(Finding { severity: Severity::TornTail, error }),
            Ok(true) | Err(_) => Err(damage(error)),
        }
    }
}

/// Where the next batch of a segment is expected.
struct Place {
    /// Position of the batch, or of a gap before it, in bytes.
    position: u64,
    /// Base offset of the batch.
    offset: u64,
}

/// The result of [`visit_next`].
enum Step {
    /// The batch was visited or skipped.
    Next,
    /// The visitor wants no more batches.
    Stop,
    /// The segment has no more batches.
    End,
    /// The batch is whole, but contradicts the others.
    Contradiction(Error),
}

/// Visits the next batch of a segment, or skips it if it ends at or before the offset `from`.
///
/// # Errors
/// The errors of [`Scanner::read_verified`].
fn visit_next(
    scanner: &mut Scanner,
    segment: &Segment,
    place: &mut Place,
    from: u64,
    visit: &mut impl FnMut(&Header, &mut dyn Iterator<Item = Message<'_>>) -> bool,
) -> Result<Step> {
    let Some((position, header)) = scanner.peek()? else { return Ok(Step::End) };
    let offset = header.base_offset.saturating_add(u64::from(header.count));
    let after = Place { position: position + header.length, offset };
    if header.base_offset == place.offset && offset <= from {
        scanner.skip();
        *place = after;
        return Ok(Step::Next);
    }
    let Some(scanned) = scanner.read_verified()? else { return Ok(Step::End) };
    if header.base_offset != place.offset {
        return Ok(Step::Contradiction(misplaced(segment, position, &header, place.offset)));
    }
    *place = after;
    Ok(match Batch::from_parts(header, scanned.messages) {
        Ok(batch) if visit(&header, &mut batch.messages()) => Step::Next,
        Ok(_) => Step::Stop,
        Err(error) => {
            Step::Contradiction(Error::decoding(&segment.path(Kind::Log), position, error))
        }
    })
}

/// Creates the error for a batch with another base offset than `expected`.
fn misplaced(segment: &Segment, position: u64, header: &Header, expected: u64) -> Error {
    let message = format!("found offset {}, expected {expected}", header.base_offset);
    Error::corruption(&segment.path(Kind::Log), position, message)
}

/// Creates the error for a segment that ends at `offset`, although the next one begins at `next`.
fn hole(segment: &Segment, offset: u64, next: u64) -> Error {
    let message = format!("it ends at offset {offset}, and the next segment begins at {next}");
    Error::corruption(&segment.path(Kind::Log), segment.length(), message)
}

/// The outcome of [`compact`]: the number of rewritten segments, and their total size before and
/// after.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactReport {
    /// Number of segments rewritten.
    pub segments: u64,
    /// Total size in bytes of the rewritten segments, before and after.
    pub bytes: [u64; 2],
}

/// Rewrites the sealed segments of a log that have gaps between their batches, so that the gaps
/// disappear. The log must not be open.
///
/// # Errors
/// Not found, if the directory contains no log; busy, if the log is open (its process then rewrites
/// sealed segments itself); corruption, if a segment is damaged, which is then left unchanged; I/O
/// errors.
pub fn compact(storage: Arc<dyn Storage>, directory: &Path) -> Result<CompactReport> {
    // Locking creates a file, so first check that the directory contains a log.
    identity::read_existing(&*storage, directory)?;
    let lock_path = directory.join(layout::LOCK);
    let lock = storage.lock(&lock_path).map_err(|error| {
        Error::from(error).while_doing(format_args!(
            "cannot lock the log in {}: while it is open, its owner rewrites padded segments itself",
            directory.display()
        ))
    })?;
    let lock: Arc<dyn FileLock> = Arc::from(lock);
    let log = LogDirectory::read_with(storage, &LockGuard::new(&lock, lock_path), directory)?;
    let mut report = CompactReport::default();
    for (id, _) in log.partitions().collect::<Vec<_>>() {
        let PartitionFiles { segments, .. } = log.partition(id)?;
        let sealed = segments.len().saturating_sub(1);
        for segment in segments.into_iter().take(sealed) {
            if segment.generation() > 0 || !has_gaps(&log.segment_files, &segment)? {
                continue;
            }
            let rewritten = dense::rewrite(&log.segment_files, &Arc::new(segment))?;
            rewritten.check_name_is_free(&log.segment_files)?;
            rewritten.install(&log.segment_files)?;
            rewritten.remove_old(&log.segment_files);
            report.segments += 1;
            report.bytes[0] += rewritten.old.length();
            report.bytes[1] += rewritten.new.length();
        }
    }
    Ok(report)
}

fn has_gaps(files: &SegmentFiles, segment: &Segment) -> Result<bool> {
    let mut access = files.access_now();
    let mut scanner = segment.scan(&mut access, 0)?;
    let mut end = 0;
    while let Some((position, header)) = scanner.peek()? {
        if position != end {
            return Ok(true);
        }
        end = position + header.length;
        scanner.skip();
    }
    Ok(segment.length() > end)
}
