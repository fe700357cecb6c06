//! Verifies the segments of a log.

use tailwater_format::message::batch::Header;
use tailwater_format::message::index::Entry;
use tailwater_format::message::name::Kind;

use super::changes::Looks;
use super::{LogDirectory, PartitionFiles, Place, hole};
use crate::partition::recovery;
use crate::segment::{Scanner, Segment};
use crate::{Error, ErrorKind, Result};

/// How serious a finding of a verification is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Harmless: an index is missing or wrong. It is rebuilt from its segment when a reader needs
    /// it.
    Note,
    /// The last segment ends with an incomplete batch, because of a crash or because it is being
    /// written.
    TornTail,
    /// Bytes look damaged or missing, but another process changed the files whenever they were
    /// read. The error has the kind [`ErrorKind::Busy`].
    BeingWritten,
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

impl Finding {
    /// Returns the finding for an error that persists, or of kind [`ErrorKind::Busy`].
    fn of(error: Error) -> Self {
        let severity = match error.kind() {
            ErrorKind::Busy => Severity::BeingWritten,
            _ => Severity::Damage,
        };
        Self { severity, error }
    }
}

impl VerifyReport {
    /// Returns the report of a partition before its segments are verified.
    fn of_partition() -> Self {
        Self { partitions: 1, ..Self::default() }
    }

    fn add(&mut self, other: Self) {
        let Self { findings, partitions, segments, batches, messages, bytes } = other;
        self.findings.extend(findings);
        self.partitions += partitions;
        self.segments += segments;
        self.batches += batches;
        self.messages += messages;
        self.bytes += bytes;
    }
}

impl LogDirectory {
    /// Reads all segments and verifies them: all checksums must be valid, offsets must be
    /// consecutive, and indexes must agree with their segments. Calls `seen` repeatedly with the
    /// number of bytes read so far. Errors from listing and reading files are findings in the
    /// report.
    ///
    /// Another process may change the log meanwhile. Partitions that it deletes, and segments that
    /// it removes, are not in the report.
    pub fn verify(&self, mut seen: impl FnMut(u64)) -> VerifyReport {
        let mut report = VerifyReport::default();
        for (id, _) in self.partitions() {
            match self.partition(id) {
                Ok(partition) => partition.verify(&mut report, &mut seen),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => report.findings.push(Finding::of(error)),
            }
        }
        report
    }
}

impl PartitionFiles<'_> {
    /// Verifies the segments in order. A segment that looks damaged is verified again after the
    /// files were listed again. If the new listing shows that earlier segments have changed, too,
    /// the partition is verified again from its beginning.
    fn verify(mut self, report: &mut VerifyReport, seen: &mut dyn FnMut(u64)) {
        let mut looks = Looks::default();
        let mut total = VerifyReport::of_partition();
        // Offset with which the next segment begins, unless it is the first.
        let mut due = 0;
        loop {
            let index = self.segments.partition_point(|segment| segment.base_offset() < due);
            let Some(segment) = self.segments.get(index) else { break };
            let next = self.segments.get(index + 1).map(Segment::base_offset);
            let mut found = VerifyReport::default();
            let before = report.bytes + total.bytes;
            self.verify_segment(segment, next, &mut found, &mut |bytes| seen(before + bytes));
            let damage =
                found.findings.iter_mut().find(|finding| finding.severity == Severity::Damage);
            if let Some(damage) = damage {
                match looks.failed(damage.error.clone()) {
                    Ok(()) => {
                        let newer = match self.list_again() {
                            Ok(newer) => newer,
                            Err(error) if error.kind() == ErrorKind::NotFound => return,
                            Err(error) => {
                                total.findings.push(Finding::of(error));
                                break;
                            }
                        };
                        if newer.incarnation != self.incarnation || !newer.continues_at(due) {
                            (total, due) = (VerifyReport::of_partition(), 0);
                        }
                        self = newer;
                        continue;
                    }
                    Err(error) => *damage = Finding::of(error),
                }
            }
            total.add(found);
            match next {
                Some(next) => due = next,
                None => break,
            }
        }
        report.add(total);
    }

    /// Returns whether a segment begins at `due`, or all segments begin beyond it.
    fn continues_at(&self, due: u64) -> bool {
        let index = self.segments.partition_point(|segment| segment.base_offset() < due);
        index == 0 || self.segments.get(index).is_some_and(|segment| segment.base_offset() == due)
    }

    /// Verifies a segment. The next one begins at the offset `next`, which is `None` for the last
    /// segment.
    fn verify_segment(
        &self,
        segment: &Segment,
        next: Option<u64>,
        report: &mut VerifyReport,
        seen: &mut dyn FnMut(u64),
    ) {
        report.segments += 1;
        let note = |error| Finding { severity: Severity::Note, error };
        let entries = segment.read_index(&self.log.segment_files).unwrap_or_else(|error| {
            report.findings.push(note(error));
            Vec::new()
        });
        let mut index = entries.into_iter().peekable();
        let mut wrong = None;
        let verified = self.verify_batches(segment, next.is_none(), |header, position| {
            let here = Entry::new(header, position);
            while let Some(entry) = index.next_if(|entry| entry.position <= position) {
                wrong = wrong.or((entry != here).then_some(entry));
            }
            report.batches += 1;
            report.messages += u64::from(header.count);
            report.bytes += header.length;
            seen(report.bytes);
        });
        let end = match verified {
            Ok(end) => end,
            Err(finding) => return report.findings.push(finding),
        };
        if let Some(Entry { offset, position, .. }) = wrong.or(index.next()) {
            let message = format!(
                "the index places offset {offset} at position {position}, where the segment has no \
                 such batch; it will be rebuilt"
            );
            let error = Error::corruption(&segment.path(Kind::Index), 0, message);
            report.findings.push(note(error));
        }
        if let Some(next) = next.filter(|next| *next != end) {
            report.findings.push(Finding::of(hole(segment, end, next)));
        }
    }

    /// Calls `visit` with the header and the position of each batch of a segment. Returns the
    /// offset after the last batch.
    fn verify_batches(
        &self,
        segment: &Segment,
        is_last: bool,
        mut visit: impl FnMut(&Header, u64),
    ) -> std::result::Result<u64, Finding> {
        let mut access = self.log.segment_files.access_now();
        let mut scanner = segment.scan(&mut access, 0).map_err(Finding::of)?;
        let mut place = Place::first(segment);
        loop {
            match read_next(&mut scanner, segment, place) {
                Ok(Some((position, header))) => {
                    place = Place::after(position, &header);
                    visit(&header, position);
                }
                Ok(None) => return Ok(place.offset),
                Err(error) => scanner = self.judge(segment, is_last, place, error)?,
            }
        }
    }

    /// Judges `error`, which occurred when the batch at `place` was read. If it is the effect of a
    /// write that has completed since, returns a scanner that starts at `place`.
    pub(super) fn judge(
        &self,
        segment: &Segment,
        is_last: bool,
        place: Place,
        error: Error,
    ) -> std::result::Result<Scanner, Finding> {
        if !is_last || error.kind() != ErrorKind::Corruption {
            return Err(Finding::of(error));
        }
        let files = &self.log.segment_files;
        // This must be determined before the batch is read again. Otherwise, writes in between
        // could complete this batch and add others.
        let was_whole = recovery::was_whole(files, segment, place.position);
        let scan = || segment.scan(&mut files.access_now(), place.position);
        let is_whole =
            scan().is_ok_and(|mut scanner| read_next(&mut scanner, segment, place).is_ok());
        match was_whole {
            _ if is_whole => scan().map_err(Finding::of),
            Ok(false) => Err(Finding { severity: Severity::TornTail, error }),
            Ok(true) | Err(_) => Err(Finding::of(error)),
        }
    }
}

/// Reads the next batch of a segment, which must be whole and at `place`. Returns its position and
/// its header; `None` at the end of the segment.
///
/// # Errors
/// The errors of [`Scanner::read_verified`] and [`Place::check`].
fn read_next(
    scanner: &mut Scanner,
    segment: &Segment,
    place: Place,
) -> Result<Option<(u64, Header)>> {
    let Some(read) = scanner.read_verified()? else { return Ok(None) };
    place.check(segment, read.position, &read.header)?;
    Ok(Some((read.position, read.header)))
}
