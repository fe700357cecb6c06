//! Decides whether bytes that are not a valid fragment were nevertheless written by the log that is
//! being read. The log is recycled: it overwrites the file of an older log.
//!
//! After the end of a recycled log, its file still contains the old contents, which may be any
//! bytes. So an invalid fragment marks the end of the log, unless there are traces of the log: a
//! header that carries the log's number, a fragment that is valid if one bit of its header is
//! flipped, or a later whole fragment with the log's number.

use super::{HEADER_LENGTH, PADDING_TYPE, RECYCLABLE_HEADER_LENGTH, fragment_type, mask_crc};
use crate::varint::Reader;

/// The bits of a header that contain the length, the type and the log number. The checksum before
/// them is not included.
const MEANING: std::ops::Range<usize> = 32..8 * RECYCLABLE_HEADER_LENGTH;

/// A fragment's header.
pub(super) struct Header {
    pub(super) masked_crc: u32,
    pub(super) length: u16,
    pub(super) kind: u8,
    /// The low half of the log number; `None` if the fragment's type is not recyclable.
    pub(super) log_number: Option<u32>,
}

impl Header {
    /// Returns the header at the start of `bytes`; `None` if it is incomplete.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let masked_crc = reader.fixed32("log record header").ok()?;
        let length = reader.fixed16("log record header").ok()?;
        let kind = reader.u8("log record header").ok()?;
        let log_number = if fragment_type::is_recyclable(kind) {
            Some(reader.fixed32("log record header").ok()?)
        } else {
            None
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

    /// Returns the checksum of the fragment that begins at the start of `bytes` with this header.
    /// Returns `None` if `bytes` ends before the fragment does. The checksum covers the bytes after
    /// the length field, up to the end that the length states.
    pub(super) fn crc_of(&self, bytes: &[u8]) -> Option<u32> {
        Some(crc32c::crc32c(bytes.get(HEADER_LENGTH - 1..self.fragment_length())?))
    }

    /// Returns whether the fragment that begins at the start of `bytes` with this header is
    /// complete and has the checksum that the header states.
    pub(super) fn is_sound(&self, bytes: &[u8]) -> bool {
        self.crc_of(bytes).is_some_and(|crc| mask_crc(crc) == self.masked_crc)
    }

    /// Returns whether the header may belong to log `log_number`: its type is one that a log
    /// contains, and its log number, if any, is `log_number`.
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

/// Returns whether `bytes` begin with a fragment of log `log_number` that is valid except for one
/// flipped bit in its length, type or log number.
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

/// What the bytes at the position of an invalid fragment reveal about the log that is being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Traces {
    /// Whether the invalid fragment belongs to the log that is being read, and not to an earlier
    /// log in the same file. See [`Damage::own`](super::Damage::own).
    pub(super) own: bool,
    /// Whether an intact fragment of this log follows the invalid fragment, see
    /// [`Damage::followed`](super::Damage::followed).
    pub(super) followed: bool,
}

impl Traces {
    /// For a log in a file that is not recycled: all bytes of the file belong to the log.
    pub(super) const OF_ITS_OWN_FILE: Self = Self { own: true, followed: false };

    /// Returns what `bytes` reveal about the recycled log `log_number`. The bytes begin with an
    /// invalid fragment.
    pub(super) fn of(bytes: &[u8], log_number: u32) -> Self {
        let claims =
            Header::parse(bytes).is_some_and(|header| header.log_number == Some(log_number));
        let followed = holds_fragment_of(bytes.get(1..).unwrap_or_default(), log_number);
        Self { own: claims || followed || is_one_bit_off(bytes, log_number), followed }
    }
}

/// Returns the payloads of all whole records in `bytes` that consist of one non-recyclable
/// fragment. They may begin at any offset, so they include records that a reader drops with the
/// rest of a block after an invalid header.
///
/// Bytes in the payload of a record that look like another record are also returned as a record.
pub fn records_within(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    (0..bytes.len()).filter_map(move |at| {
        let fragment = bytes.get(at..)?;
        let header = Header::parse(fragment)?;
        let is_record = header.kind == fragment_type::FULL && header.is_sound(fragment);
        is_record.then(|| fragment.get(HEADER_LENGTH..header.fragment_length()))?
    })
}

/// Returns whether a whole fragment with the log number `log_number` begins at any offset of
/// `bytes`.
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
