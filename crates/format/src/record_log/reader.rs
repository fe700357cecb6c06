//! Reads a log record by record.
//!
//! The reader does not know recovery modes. It reports an event for everything that it finds, and
//! [`super::RecoveryMode::verdict`] decides how to proceed. Only the mode that skips any corruption
//! continues to read after damage; the other modes stop there.
//!
//! If a fragment's checksum or length is wrong, the rest of its block is dropped: the offset of the
//! next header is unknown, and bytes that only resemble a record must not be taken for one. Memory
//! is bounded by one block and the longest record.

use std::fmt;
use std::ops::Range;

use super::block::{BlockCursor, BlockSource};
use super::event::{
    Damage, DamageReason, Event, Record, Skipped, SkippedReason, Stale, TimestampSizes, Torn,
    TornReason,
};
use super::stream::Decompressor;
use super::trace::{self, Header, Traces};
use super::{HEADER_LENGTH, PredecessorWal, ZSTD, fragment_type, mask_crc};
use crate::varint::Reader;

/// Reads a log record by record. Source: `db/log_reader.cc`.
pub struct RecordReader<S> {
    cursor: BlockCursor<S>,
    /// Low half of the log's number, which recyclable fragments carry.
    log_number: u32,
    /// Whether the log is known to be recycled: a recyclable fragment was found that is intact or
    /// that carries this log's number.
    recycled: bool,
    /// Whether a whole record has been read.
    any_record: bool,
    compression_stated: bool,
    /// Whether the log's first fragment is intact. If it is not, it may have stated that the log is
    /// compressed.
    is_start_intact: bool,
    decompressor: Option<Decompressor>,
    /// Payload of the current record, as far as it has been read.
    partial: Vec<u8>,
    /// Offset of the current record in the log; `None` if no record has begun.
    partial_start: Option<u64>,
    /// Number of fragments of the current record that were read.
    fragments: u32,
    /// A fragment that was read and not yet handled, because damage before it had to be reported
    /// first.
    pending: Option<Fragment>,
    /// Whether the last event was a record. If so, `partial` and the decompressor are reset before
    /// the next fragment is read.
    record_done: bool,
}

/// The buffer that contains the payload of a fragment or record: the block, the decompressor's
/// output or `partial`.
#[derive(Debug, Clone)]
enum PayloadLocation {
    Block(Range<usize>),
    Decompressed,
    Partial,
}

/// A fragment with a valid checksum.
#[derive(Debug)]
struct Fragment {
    kind: u8,
    offset: u64,
    payload: PayloadLocation,
}

/// The bytes at the cursor, classified.
enum Physical {
    Fragment(Fragment),
    Zeros { offset: u64, length: u64, lossy: bool },
    Undecompressable { offset: u64, length: u64 },
    Damage { offset: u64, length: u64, traces: Traces, reason: DamageReason },
    Stale { offset: u64, is_older: bool },
    Torn { offset: u64, length: u64, own: bool, reason: TornReason },
    End { offset: u64 },
}

/// An event that locates its payload in the reader's buffers instead of borrowing it.
enum Found {
    Record { payload: PayloadLocation, start: u64, end: u64, recyclable: bool },
    TimestampSizes(PayloadLocation),
    Event(Event<'static>),
}

impl<S: BlockSource> fmt::Debug for RecordReader<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordReader")
            .field("log_number", &self.log_number)
            .field("recycled", &self.recycled)
            .field("offset", &self.offset())
            .finish_non_exhaustive()
    }
}

impl<S: BlockSource> RecordReader<S> {
    /// Creates a reader of the log that `source` provides from its beginning. `log_number` is the
    /// number in the file's name. Records that carry another number are left over from an earlier
    /// use of the file. For a MANIFEST `log_number` has no effect.
    pub fn new(source: S, log_number: u64) -> Self {
        Self::at_block(source, log_number, 0)
    }

    /// Creates a reader that begins at `offset`, the beginning of a block: a multiple of
    /// [`BLOCK_LENGTH`](super::BLOCK_LENGTH). `source` provides the bytes from there on. If a
    /// record extends into the block from an earlier one, its end is reported as damage.
    ///
    /// Only for logs that are neither compressed nor recycled, such as MANIFESTs: what a reader
    /// learns from the beginning of other logs is missing.
    pub fn at_block(source: S, log_number: u64, offset: u64) -> Self {
        Self {
            cursor: BlockCursor::new(source, offset),
            log_number: log_number as u32,
            recycled: false,
            any_record: false,
            compression_stated: false,
            // A log that is not read from its start must not be compressed.
            is_start_intact: offset > 0,
            decompressor: None,
            partial: Vec::new(),
            partial_start: None,
            fragments: 0,
            pending: None,
            record_done: false,
        }
    }

    /// Returns the offset of the next unread byte, from the start of the log. After a record event
    /// this is the end of the record.
    pub fn offset(&self) -> u64 {
        self.cursor.offset()
    }

    /// Whether the log is known to be recycled: it has recyclable fragments.
    pub fn is_recycled(&self) -> bool {
        self.recycled
    }

    /// Continues after [`Event::End`], once the log has grown: `source` provides the bytes at and
    /// after [`RecordReader::offset`]. Earlier bytes are not read again, even in a compressed log.
    pub fn resume(&mut self, source: S) {
        self.cursor.resume(source);
    }

    /// Returns the next event. After [`Event::End`], every call returns [`Event::End`].
    ///
    /// # Errors
    /// Errors from the source.
    pub fn next_event(&mut self) -> Result<Event<'_>, S::Error> {
        Ok(match self.find()? {
            Found::Event(event) => event,
            Found::Record { payload, start, end, recyclable } => Event::Record(Record {
                payload: self.bytes(&payload),
                start,
                end,
                fragments: self.fragments,
                recyclable,
            }),
            Found::TimestampSizes(payload) => match TimestampSizes::decode(self.bytes(&payload)) {
                Some(sizes) => Event::TimestampSizes(sizes),
                None => {
                    let dropped = self.bytes(&payload).len() as u64;
                    let offset = self.offset() - dropped;
                    let (recycled, own, followed) = (self.recycled, true, false);
                    let reason = DamageReason::TimestampSizesMalformed;
                    Event::Damage(Damage { offset, dropped, recycled, own, followed, reason })
                }
            },
        })
    }

    fn find(&mut self) -> Result<Found, S::Error> {
        if std::mem::take(&mut self.record_done) {
            self.drop_partial();
            if let Some(decompressor) = &mut self.decompressor {
                decompressor.reset();
            }
        }
        loop {
            let physical = match self.pending.take() {
                Some(fragment) => Physical::Fragment(fragment),
                None => self.read_physical()?,
            };
            let found = match physical {
                Physical::Fragment(fragment) => match self.take(fragment) {
                    Some(found) => found,
                    None => continue,
                },
                Physical::Zeros { offset, length, .. } if self.partial_start.is_some() => {
                    self.damage(offset, length, DamageReason::Zeros)
                }
                Physical::Zeros { offset, length: dropped, lossy } => {
                    let reason = SkippedReason::Zeros;
                    Found::Event(Event::Skipped(Skipped { offset, dropped, lossy, reason }))
                }
                Physical::Undecompressable { offset, length } if self.partial_start.is_some() => {
                    self.damage(offset, length, DamageReason::Decompression)
                }
                Physical::Undecompressable { offset, length: dropped } => {
                    let (lossy, reason) = (true, SkippedReason::Decompression);
                    Found::Event(Event::Skipped(Skipped { offset, dropped, lossy, reason }))
                }
                Physical::Damage { offset, length, traces, reason } => {
                    self.damage_of(offset, length, traces, reason)
                }
                Physical::Stale { offset, is_older } => {
                    let in_record = self.partial_start.is_some();
                    let dropped = self.drop_partial();
                    Found::Event(Event::Stale(Stale { offset, dropped, in_record, is_older }))
                }
                Physical::Torn { offset, length, own, reason } => {
                    let own = own || self.partial_start.is_some();
                    let dropped = length + self.drop_partial();
                    Found::Event(Event::Torn(Torn { offset, dropped, own, reason }))
                }
                Physical::End { offset } => Found::Event(match self.partial_start {
                    Some(_) => {
                        let (own, reason) = (true, TornReason::Record);
                        let dropped = self.drop_partial();
                        Event::Torn(Torn { offset, dropped, own, reason })
                    }
                    None => Event::End,
                }),
            };
            return Ok(found);
        }
    }

    /// Adds a fragment to the current record; `None` while the record is incomplete.
    fn take(&mut self, fragment: Fragment) -> Option<Found> {
        use fragment_type::*;
        let begins = matches!(fragment.kind, FULL | FIRST | RECYCLABLE_FULL | RECYCLABLE_FIRST);
        // A new record begins before the previous one is complete. This is damage only if the
        // previous record has payload bytes: old writers put an empty first fragment at the end of
        // a block, and dropping that fragment loses nothing.
        if begins && !self.partial.is_empty() {
            let offset = fragment.offset;
            self.pending = Some(fragment);
            return Some(self.damage(offset, 0, DamageReason::MissingEnd));
        }
        match fragment.kind {
            FULL | RECYCLABLE_FULL => {
                self.partial_start = None;
                self.fragments = 1;
                Some(self.record(fragment.payload, fragment.offset, fragment.kind))
            }
            FIRST | RECYCLABLE_FIRST => {
                self.partial_start = Some(fragment.offset);
                self.fragments = 1;
                self.append(&fragment.payload);
                None
            }
            MIDDLE | LAST | RECYCLABLE_MIDDLE | RECYCLABLE_LAST => {
                let Some(start) = self.partial_start else {
                    let length = self.bytes(&fragment.payload).len() as u64;
                    return Some(self.damage(fragment.offset, length, DamageReason::MissingStart));
                };
                self.append(&fragment.payload);
                self.fragments += 1;
                let is_last = matches!(fragment.kind, LAST | RECYCLABLE_LAST);
                is_last.then(|| self.record(PayloadLocation::Partial, start, fragment.kind))
            }
            _ => self.take_other(fragment),
        }
    }

    /// Handles a fragment that is not part of a data record.
    fn take_other(&mut self, fragment: Fragment) -> Option<Found> {
        use fragment_type::*;
        let length = self.bytes(&fragment.payload).len() as u64;
        let known = is_never_compressed(fragment.kind);
        if known && self.partial_start.is_some() {
            let reason = DamageReason::Interrupted(fragment.kind);
            let offset = fragment.offset;
            self.pending = Some(fragment);
            return Some(self.damage(offset, 0, reason));
        }
        match fragment.kind {
            SET_COMPRESSION => {
                let reason = self.set_compression(&fragment.payload)?;
                Some(self.damage(fragment.offset, length, reason))
            }
            PREDECESSOR | RECYCLABLE_PREDECESSOR => {
                Some(match PredecessorWal::decode(self.bytes(&fragment.payload)) {
                    Ok(predecessor) => Found::Event(Event::Predecessor(predecessor)),
                    Err(_) => {
                        self.damage(fragment.offset, length, DamageReason::PredecessorMalformed)
                    }
                })
            }
            TIMESTAMP_SIZES | RECYCLABLE_TIMESTAMP_SIZES => {
                Some(Found::TimestampSizes(fragment.payload))
            }
            kind if kind & IGNORABLE != 0 => {
                let lossy = self.partial_start.is_some();
                let (offset, dropped) = (fragment.offset, length + self.drop_partial());
                let reason = SkippedReason::Ignorable(kind);
                Some(Found::Event(Event::Skipped(Skipped { offset, dropped, lossy, reason })))
            }
            kind => Some(self.damage(fragment.offset, length, DamageReason::UnknownType(kind))),
        }
    }

    /// Enables decompression. Returns a reason if the record that requests it is invalid or
    /// misplaced.
    fn set_compression(&mut self, payload: &PayloadLocation) -> Option<DamageReason> {
        let kind = Reader::new(self.bytes(payload)).fixed32("compression type").unwrap_or(0);
        if kind != ZSTD {
            return Some(DamageReason::CompressionUnsupported(kind));
        }
        self.decompressor = Some(Decompressor::new());
        if std::mem::replace(&mut self.compression_stated, true) {
            return Some(DamageReason::CompressionRepeated);
        }
        self.any_record.then_some(DamageReason::CompressionNotFirst)
    }

    /// Returns the record that ends with a fragment of type `kind`.
    fn record(&mut self, payload: PayloadLocation, start: u64, kind: u8) -> Found {
        self.record_done = true;
        self.any_record = true;
        let recyclable = fragment_type::is_recyclable(kind);
        Found::Record { payload, start, end: self.cursor.offset(), recyclable }
    }

    /// Drops the unfinished record, if there is one, and returns damage that includes it and the
    /// `length` bytes after it. The bytes are known to belong to this log.
    fn damage(&mut self, offset: u64, length: u64, reason: DamageReason) -> Found {
        self.damage_of(offset, length, Traces::OF_ITS_OWN_FILE, reason)
    }

    /// Drops the unfinished record, if there is one, and returns damage that includes it and the
    /// `length` bytes after it. `traces` states whether the bytes belong to this log.
    fn damage_of(
        &mut self,
        offset: u64,
        length: u64,
        traces: Traces,
        reason: DamageReason,
    ) -> Found {
        let own = traces.own || self.partial_start.is_some();
        let dropped = length + self.drop_partial();
        let (recycled, followed) = (self.recycled, traces.followed);
        Found::Event(Event::Damage(Damage { offset, dropped, recycled, own, followed, reason }))
    }

    /// Drops the unfinished record and returns the number of payload bytes that were read of it; 0
    /// if there is none.
    fn drop_partial(&mut self) -> u64 {
        let dropped = self.partial.len() as u64;
        self.partial.clear();
        self.partial_start = None;
        dropped
    }

    fn append(&mut self, payload: &PayloadLocation) {
        match (payload, &self.decompressor) {
            (PayloadLocation::Block(range), _) => {
                self.partial.extend_from_slice(self.cursor.bytes(range.start, range.end));
            }
            (PayloadLocation::Decompressed, Some(decompressor)) => {
                self.partial.extend_from_slice(decompressor.output());
            }
            (PayloadLocation::Decompressed, None) | (PayloadLocation::Partial, _) => {}
        }
    }

    fn bytes(&self, place: &PayloadLocation) -> &[u8] {
        match (place, &self.decompressor) {
            (PayloadLocation::Block(range), _) => self.cursor.bytes(range.start, range.end),
            (PayloadLocation::Decompressed, Some(decompressor)) => decompressor.output(),
            (PayloadLocation::Decompressed, None) => &[],
            (PayloadLocation::Partial, _) => &self.partial,
        }
    }

    /// Reads and classifies the bytes at the cursor, and moves the cursor past them.
    fn read_physical(&mut self) -> Result<Physical, S::Error> {
        loop {
            // If too few bytes are left in the block for a header, they are the block's trailer. A
            // header's length depends on its type.
            let kind = self.cursor.rest().get(HEADER_LENGTH - 1).copied();
            let recyclable = kind.is_some_and(fragment_type::is_recyclable);
            if recyclable && self.any_record && !self.recycled {
                let (offset, length) = (self.offset(), self.cursor.skip_block());
                let reason = DamageReason::UnexpectedRecyclable;
                let traces = Traces::OF_ITS_OWN_FILE;
                return Ok(Physical::Damage { offset, length, traces, reason });
            }
            if let Some(header) = Header::parse(self.cursor.rest()) {
                return Ok(self.read_fragment(&header));
            }
            let rest = self.cursor.rest();
            let (offset, length) = (self.offset(), rest.len() as u64);
            let is_zero = rest.iter().all(|&byte| byte == 0);
            if self.cursor.next_block()? {
                continue;
            }
            self.cursor.skip_block();
            // The bytes are too few to contain a log number. In a recycled log they may be left
            // over from an earlier log.
            let own = !self.recycled;
            return Ok(match (length, is_zero) {
                (0, _) => Physical::End { offset },
                (_, true) => {
                    Physical::Torn { offset, length, own, reason: TornReason::ZeroPadding }
                }
                (_, false) => Physical::Torn { offset, length, own, reason: TornReason::Header },
            });
        }
    }

    /// Reads the fragment at the cursor, whose header is complete.
    fn read_fragment(&mut self, header: &Header) -> Physical {
        let offset = self.cursor.offset();
        self.recycled |= header.log_number == Some(self.log_number);
        let Some(found) = header.crc_of(self.cursor.rest()) else {
            return self.reach_past_block(header);
        };
        if header.kind == fragment_type::ZERO && header.length == 0 {
            let lossy = self.loses_behind_zeros();
            return Physical::Zeros { offset, length: self.cursor.skip_block(), lossy };
        }
        if mask_crc(found) != header.masked_crc {
            let traces = self.traces();
            let expected = unmask_crc(header.masked_crc);
            let reason = DamageReason::Checksum { expected, found };
            return Physical::Damage { offset, length: self.cursor.skip_block(), traces, reason };
        }
        let length = header.fragment_length();
        let end = self.cursor.position() + length;
        self.cursor.skip(length);
        if let Some(number) = header.log_number.filter(|number| *number != self.log_number) {
            self.recycled = true;
            // Headers contain only the low 32 bits of log numbers, which may wrap around.
            let is_older = self.log_number.wrapping_sub(number) < 1 << 31;
            return Physical::Stale { offset, is_older };
        }
        let range = end - usize::from(header.length)..end;
        self.decompress(header.kind, offset, range)
    }

    /// Classifies the bytes at the cursor. Their header states a length that reaches beyond the end
    /// of the block.
    fn reach_past_block(&mut self, header: &Header) -> Physical {
        let (offset, traces) = (self.cursor.offset(), self.traces());
        // The log was truncated inside this fragment if three conditions hold: this is the last
        // block, no intact fragment follows in it, and no bit of the header is flipped. Otherwise
        // the length in the header is wrong.
        let is_cut = self.cursor.is_last()
            && !traces.followed
            && !trace::is_one_bit_off(self.cursor.rest(), self.log_number);
        let length = self.cursor.skip_block();
        if is_cut {
            let reason = TornReason::Payload;
            return Physical::Torn { offset, length, own: traces.own, reason };
        }
        let reason = DamageReason::Length { stated: header.length };
        Physical::Damage { offset, length, traces, reason }
    }

    /// Returns whether the invalid fragment at the cursor belongs to this log and, in a recycled
    /// log, whether an intact fragment of this log follows it in the block.
    fn traces(&self) -> Traces {
        if self.recycled {
            Traces::of(self.cursor.rest(), self.log_number)
        } else {
            Traces::OF_ITS_OWN_FILE
        }
    }

    /// Returns whether a fragment may be lost if the rest of the block is skipped. The caller has
    /// found a header of type 0 and length 0 at the cursor, which marks space that was never
    /// written.
    fn loses_behind_zeros(&self) -> bool {
        if self.recycled {
            trace::holds_fragment_of(self.cursor.rest(), self.log_number)
        } else {
            self.cursor.rest().iter().any(|&byte| byte != 0)
        }
    }

    fn decompress(&mut self, kind: u8, offset: u64, range: Range<usize>) -> Physical {
        self.is_start_intact |= offset == 0;
        let may_be_compressed = !self.is_start_intact && self.decompressor.is_none();
        if may_be_compressed && is_zstd(self.cursor.bytes(range.start, range.end)) {
            self.decompressor = Some(Decompressor::new());
        }
        let payload = match &mut self.decompressor {
            Some(decompressor) if !fragment_type::is_never_compressed(kind) => {
                if !decompressor.decompress(self.cursor.bytes(range.start, range.end)) {
                    let length = self.cursor.offset() - offset + self.cursor.skip_block();
                    return Physical::Undecompressable { offset, length };
                }
                PayloadLocation::Decompressed
            }
            _ => PayloadLocation::Block(range),
        };
        Physical::Fragment(Fragment { kind, offset, payload })
    }
}

/// Returns whether the bytes begin with a zstd frame.
fn is_zstd(bytes: &[u8]) -> bool {
    bytes.starts_with(&zstd::zstd_safe::MAGICNUMBER.to_le_bytes())
}

/// Returns the unmasked checksum.
fn unmask_crc(masked: u32) -> u32 {
    masked.wrapping_sub(0xa282_ead8).rotate_left(15)
}
