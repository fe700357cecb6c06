//! Detects traces of a recycled log in bytes that are not a valid fragment of it.
//!
//! A recycled log is followed by the old contents of its file, which may be any bytes. So an
//! invalid fragment ends the log, unless the log left traces there: a header that carries the log's
//! number, possibly with one flipped bit, or a later whole fragment with that number.

use super::{HEADER_LENGTH, PADDING_TYPE, RECYCLABLE_HEADER_LENGTH, fragment_type, mask_crc};
use crate::varint::Reader;

/// Range of the bits of length, type and log number in a header.
const MEANING: std::ops::Range<usize> = 32..8 * RECYCLABLE_HEADER_LENGTH;

/// A fragment's header.
pub(super) struct Header {
    pub(super) masked_crc: u32,
    pub(super) length: u16,
    pub(super) kind: u8,
    /// The log number; only recyclable types have one.
    pub(super) log_number: Option<u32>,
}

impl Header {
    /// Returns the header at the start of `bytes`; `None` if it is incomplete.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let masked_crc = reader.fixed32("log record header").ok()?;
        let length = reader.fixed16("log record header").ok()?;
        let kind = reader.u8("log record header").ok()?;
        let log_number = match fragment_type::is_recyclable(kind) {
            true => Some(reader.fixed32("log record header").ok()?),
            false => None,
        };
        Some(Self { masked_crc, length, kind, log_number })
    }

    /// Returns the header's own length, in bytes.
    pub(super) fn header_length(&self) -> usize {
        match self.log_number {
            Some(_) => RECYCLABLE_HEADER_LENGTH,
            None => HEADER_LENGTH,
        }
    }

    /// Returns the length of the fragment, header included, in bytes.
    pub(super) fn fragment_length(&self) -> usize {
        self.header_length() + usize::from(self.length)
    }

    /// Returns the checksum of the fragment at the start of `bytes`, which has this header; `None`
    /// if the fragment is incomplete. The checksum does not cover the length, but the length
    /// determines what the checksum covers.
    pub(super) fn crc_of(&self, bytes: &[u8]) -> Option<u32> {
        Some(crc32c::crc32c(bytes.get(HEADER_LENGTH - 1..self.fragment_length())?))
    }

    /// Returns whether the fragment at the start of `bytes`, which has this header, is complete and
    /// unchanged.
    pub(super) fn is_sound(&self, bytes: &[u8]) -> bool {
        self.crc_of(bytes).is_some_and(|crc| mask_crc(crc) == self.masked_crc)
    }

    /// Returns whether the writer of log `log_number` may have written this header.
    fn is_of(&self, log_number: u32) -> bool {
        let written = matches!(
            self.kind,
            fragment_type::FULL
                ..=fragment_type::RECYCLABLE_TIMESTAMP_SIZES
                    | fragment_type::PREDECESSOR
                    | fragment_type::RECYCLABLE_PREDECESSOR
                    | PADDING_TYPE
        );
        written && self.log_number.is_none_or(|number| number == log_number)
    }
}

/// Returns whether `bytes` begin with a fragment of log `log_number` in which one bit of length,
/// type or log number is flipped.
pub(super) fn is_one_bit_off(bytes: &[u8], log_number: u32) -> bool {
    let mut mended = bytes.to_vec();
    let flip = |bytes: &mut [u8], bit: usize| {
        if let Some(byte) = bytes.get_mut(bit / 8) {
            *byte ^= 1 << (bit % 8);
        }
    };
    MEANING.into_iter().any(|bit| {
        flip(&mut mended, bit);
        let is_sound = Header::parse(&mended).is_some_and(|header| {
            let is_in_header = bit < 8 * header.header_length();
            is_in_header && header.is_of(log_number) && header.is_sound(&mended)
        });
        flip(&mut mended, bit);
        is_sound
    })
}

/// The traces of a log at the position where its next fragment should begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Traces {
    /// Whether a fragment of this log is damaged, as defined for
    /// [`Damage::own`](super::Damage::own).
    pub(super) own: bool,
    /// Whether a whole fragment of this log follows, as defined for
    /// [`Damage::followed`](super::Damage::followed).
    pub(super) followed: bool,
}

impl Traces {
    /// The traces of a log that is not recycled: its file contains nothing but the log.
    pub(super) const OF_ITS_OWN_FILE: Self = Self { own: true, followed: false };

    /// Returns the traces of the recycled log `log_number` in `bytes`.
    pub(super) fn of(bytes: &[u8], log_number: u32) -> Self {
        let claims =
            Header::parse(bytes).is_some_and(|header| header.log_number == Some(log_number));
        let followed = holds_fragment_of(bytes.get(1..).unwrap_or_default(), log_number);
        Self { own: claims || followed || is_one_bit_off(bytes, log_number), followed }
    }
}

/// Returns the payloads of all whole, non-recyclable, single-fragment records in `bytes`, at any
/// offset. They include those that a reader drops with the rest of a block after an invalid header.
///
/// Records embedded in another record's payload are also found.
pub fn records_within(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    (0..bytes.len()).filter_map(move |at| {
        let fragment = bytes.get(at..)?;
        let header = Header::parse(fragment)?;
        let is_record = header.kind == fragment_type::FULL && header.is_sound(fragment);
        is_record.then(|| fragment.get(HEADER_LENGTH..header.fragment_length()))?
    })
}

/// Returns whether a whole fragment that carries `log_number` begins anywhere in `bytes`.
pub(super) fn holds_fragment_of(bytes: &[u8], log_number: u32) -> bool {
    let number = log_number.to_le_bytes();
    let headers = bytes.windows(RECYCLABLE_HEADER_LENGTH).enumerate();
    let claiming = headers.filter(|(_, header)| header.ends_with(&number));
    claiming.into_iter().any(|(at, _)| {
        let fragment = bytes.get(at..).unwrap_or_default();
        Header::parse(fragment)
            .is_some_and(|header| header.log_number.is_some() && header.is_sound(fragment))
    })
}
