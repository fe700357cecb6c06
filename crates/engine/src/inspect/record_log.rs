//! What a record log, that is, a write-ahead log or a MANIFEST, contains: records, and bytes that
//! are not a record.

use tailwater_format::record_log::{Damage, Event, Record, Skipped, SkippedReason, Stale, Torn};

/// The reason reported for the remains of an earlier log in a recycled file.
const LEFT_BEHIND: &str = "remains of an earlier use of the file: the log ends before it";

/// The location of a record in a log, and the way in which the record is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Placement {
    /// Offset of the record's first header in the file.
    pub offset: u64,
    /// Length of the record in the file, with the headers of all fragments, in bytes.
    pub length: u64,
    /// Number of fragments of the record; more than one if the record crosses a block boundary.
    pub fragments: u32,
    /// Whether the fragments carry the log's number. In a recycled file, this number distinguishes
    /// them from remains of an earlier log.
    pub recyclable: bool,
    /// Whether the record is compressed with zstd.
    pub compressed: bool,
}

impl Placement {
    pub(super) fn of(record: &Record<'_>, compressed: bool) -> Self {
        let Record { start: offset, end, fragments, recyclable, .. } = *record;
        Self { offset, length: end - offset, fragments, recyclable, compressed }
    }
}

/// Kinds of bytes that are not a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum IrregularityKind {
    /// Bytes that contradict the format.
    Damage,
    /// The file ends inside a record or fragment.
    Torn,
    /// Preallocated space that was never written.
    Unwritten,
    /// A record of a type that readers ignore, which pads a log to a boundary.
    Padding,
    /// Remains of an earlier log in a recycled file: whole records or part of one.
    Stale,
    /// A fragment that does not decompress although its checksum is valid.
    Undecompressable,
}

impl IrregularityKind {
    /// Returns the name of the kind for summaries, such as `damage`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Damage => "damage",
            Self::Torn => "torn",
            Self::Unwritten => "unwritten",
            Self::Padding => "padding",
            Self::Stale => "stale",
            Self::Undecompressable => "undecompressable",
        }
    }
}

/// Bytes of a record log that are not a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Irregularity {
    /// The kind of irregularity.
    pub kind: IrregularityKind,
    /// Offset of the bytes in the file, or the offset at which it was detected that they are not a
    /// record.
    pub offset: u64,
    /// Number of bytes skipped. If an unfinished record is before them, its bytes are counted, too.
    pub length: u64,
    /// Number of consecutive irregularities of the same kind merged into this one.
    pub count: u64,
    /// A text for human readers that explains why the bytes are not a record.
    pub reason: String,
    /// Whether these bytes may have held data of this log that can no longer be read. False for
    /// bytes that were never written as data of this log.
    pub loses_data: bool,
}

impl Irregularity {
    /// Merges `next` into this irregularity, if both are unwritten space or both are stale, and
    /// `loses_data` is false for both. `next` is the next stretch of bytes that are
    /// not a record. Returns whether the two were merged.
    pub fn merge(&mut self, next: &Self) -> bool {
        let mergeable = matches!(self.kind, IrregularityKind::Unwritten | IrregularityKind::Stale);
        if !mergeable || self.kind != next.kind || self.loses_data || next.loses_data {
            return false;
        }
        self.length = (next.offset + next.length).saturating_sub(self.offset);
        self.count += 1;
        true
    }

    /// Returns the irregularity that an event reports; `None` if it reports none.
    pub(super) fn of(event: &Event<'_>) -> Option<Self> {
        match event {
            Event::Damage(damage) => Some(Self::damage(*damage)),
            Event::Torn(torn) => Some(Self::torn(*torn)),
            Event::Stale(stale) => Some(Self::stale(*stale)),
            Event::Skipped(skipped) => Some(Self::skipped(*skipped)),
            _ => None,
        }
    }

    fn new(
        kind: IrregularityKind,
        loses_data: bool,
        offset: u64,
        length: u64,
        reason: impl Into<String>,
    ) -> Self {
        Self { kind, offset, length, count: 1, reason: reason.into(), loses_data }
    }

    fn damage(damage: Damage) -> Self {
        let (kind, reason) = match (damage.may_end_log(), damage.own) {
            (false, _) => (IrregularityKind::Damage, damage.reason.to_string()),
            // If a write to a recycled file was interrupted, remains of an earlier log follow the
            // part that was written. So a damaged fragment of this log counts as a torn write, if
            // no valid fragment of this log comes after it.
            (true, true) => (IrregularityKind::Torn, damage.reason.to_string()),
            (true, false) => (IrregularityKind::Stale, LEFT_BEHIND.to_owned()),
        };
        let loses_data = kind != IrregularityKind::Stale;
        Self::new(kind, loses_data, damage.offset, damage.dropped, reason)
    }

    fn torn(torn: Torn) -> Self {
        let (kind, reason) = if torn.own {
            (IrregularityKind::Torn, torn.reason.to_string())
        } else {
            (IrregularityKind::Stale, LEFT_BEHIND.to_owned())
        };
        Self::new(kind, torn.own, torn.offset, torn.dropped, reason)
    }

    fn stale(stale: Stale) -> Self {
        let reason = if stale.in_record {
            "the log ends inside a record, before remains of an earlier use of the file"
        } else {
            LEFT_BEHIND
        };
        Self::new(IrregularityKind::Stale, stale.in_record, stale.offset, stale.dropped, reason)
    }

    fn skipped(skipped: Skipped) -> Self {
        let (kind, reason) = match (skipped.reason, skipped.lossy) {
            (reason @ SkippedReason::Decompression, _) => {
                (IrregularityKind::Undecompressable, reason.to_string())
            }
            (reason @ SkippedReason::Zeros, true) => (IrregularityKind::Torn, reason.to_string()),
            (reason @ SkippedReason::Ignorable(_), true) => {
                (IrregularityKind::Damage, reason.to_string())
            }
            (SkippedReason::Zeros, false) => {
                (IrregularityKind::Unwritten, "allocated and never written".to_owned())
            }
            (SkippedReason::Ignorable(kind), false) => {
                (IrregularityKind::Padding, format!("an ignorable record of type {kind}"))
            }
        };
        Self::new(kind, skipped.lossy, skipped.offset, skipped.dropped, reason)
    }
}
