//! Turns records into the bytes of a log.
//!
//! The writer appends to the caller's buffer and keeps only the length of the log, so that the
//! caller can write several records to disk in one request. It allocates nothing once its buffers
//! have grown.
//!
//! # Padding
//!
//! A log that is written with direct I/O is padded to a multiple of 4 KiB after each synced group
//! of records. So a 4 KiB block of the file that contains acknowledged bytes is never rewritten.
//! The padding is one record of [`PADDING_TYPE`], which readers ignore. It is placed only between
//! whole records, because readers drop a record that padding interrupts. If the space up to the
//! boundary is too short for a padding record, the padding extends to the next boundary 4 KiB
//! later. The exception is the end of a log block, where a short space is filled with zeros, which
//! readers skip. In a compressed log readers also decompress the padding, so its payload is empty
//! or one skippable zstd frame.

use std::fmt;

use super::stream::Compressor;
use super::{
    BLOCK_LENGTH, HEADER_LENGTH, PADDING_TYPE, PredecessorWal, RECYCLABLE_HEADER_LENGTH, ZSTD,
    fragment_type, mask_crc,
};
use crate::Result;
use crate::varint::put_fixed32;

/// The boundary that [`Writer::pad`] fills up to, in bytes: the alignment of direct I/O.
const PADDING_ALIGNMENT: usize = 4096;

/// Length of a skippable zstd frame's header, in bytes: its magic number and the length of its
/// contents.
const SKIPPABLE_HEADER_LENGTH: usize = 8;

/// The magic number of a skippable zstd frame.
const SKIPPABLE_MAGIC: u32 = 0x184d_2a50;

/// Encodes records into the bytes of a log. Source: `db/log_writer.cc`.
pub struct Writer {
    log_number: u32,
    recyclable: bool,
    /// The length of the log so far, in bytes.
    offset: u64,
    compressor: Option<Compressor>,
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("log_number", &self.log_number)
            .field("recyclable", &self.recyclable)
            .field("offset", &self.offset)
            .field("is_compressed", &self.compressor.is_some())
            .finish_non_exhaustive()
    }
}

impl Writer {
    /// Begins a log. `log_number` is the number in the file's name. If `recyclable` is true, every
    /// record carries the log number; this is required in a file that still contains an older log.
    pub fn new(log_number: u64, recyclable: bool) -> Self {
        Self::resume(log_number, recyclable, 0)
    }

    /// Continues a log that is `offset` bytes long and not compressed.
    pub fn resume(log_number: u64, recyclable: bool, offset: u64) -> Self {
        Self { log_number: log_number as u32, recyclable, offset, compressor: None }
    }

    /// Begins a log of compressed records and appends the record that states the compression.
    ///
    /// # Errors
    /// Unsupported, if zstd cannot be initialised.
    pub fn new_compressed(log_number: u64, recyclable: bool, out: &mut Vec<u8>) -> Result<Self> {
        let mut writer = Self::new(log_number, recyclable);
        writer.put_fragment(fragment_type::SET_COMPRESSION, &ZSTD.to_le_bytes(), out);
        writer.compressor = Some(Compressor::new()?);
        Ok(writer)
    }

    /// Returns the length of the log so far, in bytes.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Appends a record to `out`.
    ///
    /// # Errors
    /// Unsupported, if zstd cannot compress it, in which case nothing is appended.
    pub fn add_record(&mut self, payload: &[u8], out: &mut Vec<u8>) -> Result<()> {
        match self.compressor.take() {
            None => self.put_record(payload, out),
            Some(mut compressor) => {
                let compressed = compressor.compress(payload);
                let result = compressed.map(|compressed| self.put_record(compressed, out));
                self.compressor = Some(compressor);
                result?;
            }
        }
        Ok(())
    }

    /// Appends the record that describes this log's predecessor. It must precede all data records.
    pub fn add_predecessor(&mut self, predecessor: PredecessorWal, out: &mut Vec<u8>) {
        // This record is never fragmented: if it does not fit in the block, it begins the next
        // block.
        if self.room() < self.header_length() + PredecessorWal::LENGTH {
            self.put_zeros(self.room(), out);
        }
        let kind = if self.recyclable {
            fragment_type::RECYCLABLE_PREDECESSOR
        } else {
            fragment_type::PREDECESSOR
        };
        let start = out.len();
        self.begin_fragment(kind, out);
        predecessor.encode(out);
        self.end_fragment(start, out);
    }

    /// Appends padding, so that the log's length becomes a multiple of 4096 bytes. Does nothing if
    /// it already is. See the module documentation.
    pub fn pad(&mut self, out: &mut Vec<u8>) {
        let zeros = self.pad_but_zeros(out);
        out.resize(out.len() + zeros, 0);
    }

    /// Appends padding as [`Writer::pad`] does, except for the zeros at its end, and returns the
    /// number of these zeros. The caller must write them to the file.
    pub fn pad_but_zeros(&mut self, out: &mut Vec<u8>) -> usize {
        let mut gap = self.room() % PADDING_ALIGNMENT;
        if gap == 0 {
            return 0;
        }
        if !self.padding_fits(gap) {
            if gap == self.room() {
                self.offset += gap as u64;
                return gap;
            }
            gap += PADDING_ALIGNMENT;
        }
        let (start, payload_length) = (out.len(), gap - HEADER_LENGTH);
        self.begin_fragment(PADDING_TYPE, out);
        if let (Some(_), Some(length)) =
            (&self.compressor, payload_length.checked_sub(SKIPPABLE_HEADER_LENGTH))
        {
            put_fixed32(out, SKIPPABLE_MAGIC);
            put_fixed32(out, length as u32);
        }
        let zeros = start + gap - out.len();
        self.end_fragment_with_zeros(start, out, zeros);
        zeros
    }

    /// Returns whether one padding record can fill `gap` bytes.
    fn padding_fits(&self, gap: usize) -> bool {
        let shortest_frame = HEADER_LENGTH + SKIPPABLE_HEADER_LENGTH;
        gap >= HEADER_LENGTH
            && (self.compressor.is_none() || gap == HEADER_LENGTH || gap >= shortest_frame)
    }

    fn header_length(&self) -> usize {
        if self.recyclable { RECYCLABLE_HEADER_LENGTH } else { HEADER_LENGTH }
    }

    /// Returns the number of bytes left in the block.
    fn room(&self) -> usize {
        BLOCK_LENGTH - self.position()
    }

    /// Returns the number of bytes that the log has in its last block; 0 if this block is full.
    fn position(&self) -> usize {
        (self.offset % BLOCK_LENGTH as u64) as usize
    }

    fn put_zeros(&mut self, length: usize, out: &mut Vec<u8>) {
        out.resize(out.len() + length, 0);
        self.offset += length as u64;
    }

    /// Appends a record in as many fragments as needed to not cross the end of a block. An empty
    /// record is one empty fragment.
    fn put_record(&mut self, payload: &[u8], out: &mut Vec<u8>) {
        let recyclable = if self.recyclable { fragment_type::RECYCLABLE_FULL - 1 } else { 0 };
        let mut rest = payload;
        let mut is_first = true;
        loop {
            if self.room() < self.header_length() {
                self.put_zeros(self.room(), out);
            }
            let room = self.room() - self.header_length();
            let (fragment, after) = rest.split_at_checked(room).unwrap_or((rest, &[]));
            let kind = match (is_first, after.is_empty()) {
                (true, true) => fragment_type::FULL,
                (true, false) => fragment_type::FIRST,
                (false, false) => fragment_type::MIDDLE,
                (false, true) => fragment_type::LAST,
            };
            self.put_fragment(recyclable + kind, fragment, out);
            if after.is_empty() {
                return;
            }
            (rest, is_first) = (after, false);
        }
    }

    fn put_fragment(&mut self, kind: u8, payload: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        self.begin_fragment(kind, out);
        out.extend_from_slice(payload);
        self.end_fragment(start, out);
    }

    /// Appends a fragment's header. [`Writer::end_fragment`] later fills in the checksum and the
    /// length fields of the header.
    fn begin_fragment(&self, kind: u8, out: &mut Vec<u8>) {
        out.extend_from_slice(&[0, 0, 0, 0, 0, 0, kind]);
        if fragment_type::is_recyclable(kind) {
            put_fixed32(out, self.log_number);
        }
    }

    /// Fills in the checksum and the length of the fragment that begins at `start` and ends at the
    /// end of `out`.
    fn end_fragment(&mut self, start: usize, out: &mut [u8]) {
        self.end_fragment_with_zeros(start, out, 0);
    }

    /// Fills in the checksum and the length as [`Writer::end_fragment`] does. The payload
    /// additionally ends with `zeros` zeros that are not in `out`.
    fn end_fragment_with_zeros(&mut self, start: usize, out: &mut [u8], zeros: usize) {
        let Some((header, covered)) =
            out.get_mut(start..).and_then(|fragment| fragment.split_at_mut_checked(6))
        else {
            return;
        };
        let header_length = match covered.first() {
            Some(&kind) if fragment_type::is_recyclable(kind) => RECYCLABLE_HEADER_LENGTH,
            _ => HEADER_LENGTH,
        };
        let payload_length = (6 + covered.len() + zeros).saturating_sub(header_length);
        let crc = mask_crc(append_zeros(crc32c::crc32c(covered), zeros)).to_le_bytes();
        let length = (payload_length as u16).to_le_bytes();
        for (target, byte) in header.iter_mut().zip(crc.into_iter().chain(length)) {
            *target = byte;
        }
        self.offset += (6 + covered.len() + zeros) as u64;
    }
}

/// Returns the checksum of the bytes covered by `crc`, followed by `zeros` zeros.
fn append_zeros(mut crc: u32, mut zeros: usize) -> u32 {
    // Each step extends the checksum by at most this many zeros.
    static ZEROS: [u8; 512] = [0; 512];
    while let Some(some) = ZEROS.get(..zeros.min(ZEROS.len()))
        && !some.is_empty()
    {
        crc = crc32c::crc32c_append(crc, some);
        zeros -= some.len();
    }
    crc
}
