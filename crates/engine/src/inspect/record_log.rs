//! The record format shared by MANIFEST files and write-ahead logs: records in 32 KiB blocks.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use tailwater_format::record_log::{
    BLOCK_LENGTH, Damage, DamageReason, Event, HEADER_LENGTH, PredecessorWal,
    RECYCLABLE_HEADER_LENGTH, RecordReader, RecoveryMode, Skipped, SkippedReason, Stale, Torn,
    Verdict, ZSTD,
};
use tailwater_format::varint::Reader;
use tailwater_io::{Purpose, ReadFile};

use crate::error::Result;
use crate::record_log::{self, FileSource};

/// The type of the record that states how all later records are compressed.
const COMPRESSION_TYPE: u8 = 9;

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
    event: Event<'static>,
}

impl Irregularity {
    /// Returns what recovery in the mode `mode` does at these bytes, if no earlier irregularity has
    /// ended the log.
    pub fn verdict(&self, mode: RecoveryMode) -> Verdict {
        mode.verdict(&self.event)
    }

    /// Whether these bytes may have held data of this log that can no longer be read. False for
    /// bytes that were never written as data of this log.
    pub fn loses_data(&self) -> bool {
        match &self.event {
            Event::Stale(stale) => stale.in_record,
            _ => !matches!(
                self.kind,
                IrregularityKind::Unwritten | IrregularityKind::Padding | IrregularityKind::Stale
            ),
        }
    }

    /// Merges `next` into this irregularity, if both are unwritten space or both are stale, and
    /// [`Irregularity::loses_data`] is false for both. `next` is the next stretch of bytes that are
    /// not a record. Returns whether the two were merged.
    pub fn merge(&mut self, next: &Self) -> bool {
        let mergeable = matches!(self.kind, IrregularityKind::Unwritten | IrregularityKind::Stale);
        if !mergeable || self.kind != next.kind || self.loses_data() || next.loses_data() {
            return false;
        }
        self.length = (next.offset + next.length).saturating_sub(self.offset);
        self.count += 1;
        true
    }

    fn new(
        kind: IrregularityKind,
        event: Event<'static>,
        offset: u64,
        length: u64,
        reason: impl Into<String>,
    ) -> Self {
        Self { kind, offset, length, count: 1, reason: reason.into(), event }
    }

    fn damage(damage: Damage) -> Self {
        let may_end_log = damage.recycled
            && !damage.followed
            && matches!(
                damage.reason,
                DamageReason::Checksum { .. } | DamageReason::Length { .. } | DamageReason::Zeros
            );
        let (kind, reason) = match (may_end_log, damage.own) {
            (false, _) => (IrregularityKind::Damage, damage.reason.to_string()),
            // If a write to a recycled file was interrupted, remains of an earlier log follow the
            // part that was written. So a damaged fragment of this log counts as a torn write, if
            // no valid fragment of this log comes after it.
            (true, true) => (IrregularityKind::Torn, damage.reason.to_string()),
            (true, false) => (IrregularityKind::Stale, LEFT_BEHIND.to_owned()),
        };
        Self::new(kind, Event::Damage(damage), damage.offset, damage.dropped, reason)
    }

    fn torn(torn: Torn) -> Self {
        let (kind, reason) = if torn.own {
            (IrregularityKind::Torn, torn.reason.to_string())
        } else {
            (IrregularityKind::Stale, LEFT_BEHIND.to_owned())
        };
        Self::new(kind, Event::Torn(torn), torn.offset, torn.dropped, reason)
    }

    fn stale(stale: Stale) -> Self {
        let reason = if stale.in_record {
            "the log ends inside a record, before remains of an earlier use of the file"
        } else {
            LEFT_BEHIND
        };
        let event = Event::Stale(stale);
        Self::new(IrregularityKind::Stale, event, stale.offset, stale.dropped, reason)
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
        Self::new(kind, Event::Skipped(skipped), skipped.offset, skipped.dropped, reason)
    }
}

/// An item of a record log.
pub(super) enum Item<'a> {
    Record { placement: Placement, payload: &'a [u8] },
    TimestampSizes { offset: u64, sizes: Vec<(u32, u16)> },
    Predecessor { offset: u64, predecessor: PredecessorWal },
    Irregularity(Irregularity),
}

/// A reader of the items of a record log.
pub(super) struct Items {
    file: Arc<dyn ReadFile>,
    reader: RecordReader<FileSource>,
    purpose: Purpose,
    compression: Option<u32>,
    length: u64,
}

/// Two fields of the first header in a log: the type, and the four bytes after it.
struct Head {
    kind: u8,
    /// The four bytes after the type. In a recyclable fragment they are the log's number. In a
    /// compression record they are the number of the compression algorithm.
    word: u32,
}

impl Items {
    /// Opens a log. If `number` is `None`, because the file's name has no number, the number in the
    /// first recyclable fragment is used.
    pub(super) fn open(
        file: Arc<dyn ReadFile>,
        number: Option<u64>,
        purpose: Purpose,
    ) -> Result<Self> {
        let length = file.length()?;
        let head = Head::read(&*file, purpose)?;
        let stated = |kind| head.as_ref().filter(|head| head.kind == kind).map(|head| head.word);
        let first = head.as_ref().filter(|head| is_recyclable(head.kind)).map(|head| head.word);
        let number = number.or(first.map(u64::from)).unwrap_or(0);
        let reader = record_log::reader(Arc::clone(&file), number, purpose);
        let compression = stated(COMPRESSION_TYPE);
        Ok(Self { file, reader, purpose, compression, length })
    }

    pub(super) fn path(&self) -> &Path {
        self.file.path()
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Returns the number of the compression algorithm, if the log's first record states one.
    pub(super) fn compression(&self) -> Option<u32> {
        self.compression
    }

    /// Returns the next item; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Item<'_>>> {
        let next_header = self.next_header();
        Ok(Some(match self.reader.next_event()? {
            Event::End => return Ok(None),
            Event::Record(record) => {
                let compressed = self.compression == Some(ZSTD);
                let range = record.start..record.end;
                let placement = placement(&*self.file, range, compressed, self.purpose)?;
                Item::Record { placement, payload: record.payload }
            }
            Event::TimestampSizes(sizes) => {
                Item::TimestampSizes { offset: next_header, sizes: sizes.iter().collect() }
            }
            Event::Predecessor(predecessor) => {
                Item::Predecessor { offset: next_header, predecessor }
            }
            Event::Damage(damage) => Item::Irregularity(Irregularity::damage(damage)),
            Event::Torn(torn) => Item::Irregularity(Irregularity::torn(torn)),
            Event::Stale(stale) => Item::Irregularity(Irregularity::stale(stale)),
            Event::Skipped(skipped) => Item::Irregularity(Irregularity::skipped(skipped)),
        }))
    }

    /// Returns the offset of the next header. The bytes at the end of a block that are too few for
    /// a header are skipped. A compression record is skipped too, since the reader returns no event
    /// for it.
    fn next_header(&self) -> u64 {
        match (self.reader.offset(), self.compression) {
            (0, Some(_)) => RECYCLABLE_HEADER_LENGTH as u64,
            (position, _) => header_at(position),
        }
    }
}

impl Head {
    fn read(file: &dyn ReadFile, purpose: Purpose) -> Result<Option<Self>> {
        let mut bytes = [0; RECYCLABLE_HEADER_LENGTH];
        let count = file.read_full_at(&mut bytes, 0, purpose)?;
        let mut reader = Reader::new(&bytes[HEADER_LENGTH - 1..]);
        if count < bytes.len() {
            return Ok(None);
        }
        let (kind, word) = (reader.u8("log record header"), reader.fixed32("log record header"));
        Ok(kind.ok().zip(word.ok()).map(|(kind, word)| Self { kind, word }))
    }
}

fn is_recyclable(kind: u8) -> bool {
    matches!(kind, 5..=8 | 11 | 131)
}

/// Returns the offset of the first header at or after `position`. If too few bytes for a header are
/// left in the block, that is the start of the next block.
fn header_at(position: u64) -> u64 {
    let block = BLOCK_LENGTH as u64;
    let left = block - position % block;
    if left < HEADER_LENGTH as u64 { position + left } else { position }
}

/// Returns the location and form of a complete record, by reading the headers of its fragments.
fn placement(
    file: &dyn ReadFile,
    Range { start, end }: Range<u64>,
    compressed: bool,
    purpose: Purpose,
) -> Result<Placement> {
    let (mut fragments, mut recyclable) = (0, false);
    let mut position = start;
    while position < end {
        position = header_at(position);
        let mut header = [0; HEADER_LENGTH];
        if file.read_full_at(&mut header, position, purpose)? < header.len() {
            break;
        }
        let [_, _, _, _, low, high, kind] = header;
        recyclable = is_recyclable(kind);
        fragments += 1;
        let header_length = if recyclable { RECYCLABLE_HEADER_LENGTH } else { HEADER_LENGTH };
        position += header_length as u64 + u64::from(u16::from_le_bytes([low, high]));
    }
    Ok(Placement { offset: start, length: end - start, fragments, recyclable, compressed })
}
