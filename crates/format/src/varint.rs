//! Little-endian fixed-width and variable-length integers, and length-prefixed slices.
//!
//! A varint stores 7 bits per byte, the least significant group first, with bit 7 set on every byte
//! but the last: at most 5 bytes for 32 bits and 10 for 64. Source: Protocol Buffers' base-128
//! varints, which RocksDB and LevelDB use.

use crate::{Error, Result};

/// The longest encoding of a 32-bit varint, in bytes.
pub const MAX_VARINT32_LENGTH: usize = 5;
/// The longest encoding of a 64-bit varint, in bytes.
pub const MAX_VARINT64_LENGTH: usize = 10;

/// Reads values one after the other from a slice, and tracks the position of the next value in the
/// slice.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    length: usize,
}

impl<'a> Reader<'a> {
    /// Creates a reader at the first byte of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, length: bytes.len() }
    }

    /// Returns the number of bytes read so far.
    pub fn offset(&self) -> usize {
        self.length - self.bytes.len()
    }

    /// Returns the unread bytes.
    pub fn remaining(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns whether everything has been read.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the next `length` bytes. `what` names the structure being decoded, for the error.
    pub fn bytes(&mut self, length: usize, what: &'static str) -> Result<&'a [u8]> {
        let (head, tail) = self
            .bytes
            .split_at_checked(length)
            .ok_or_else(|| Error::truncated(what, self.offset()))?;
        self.bytes = tail;
        Ok(head)
    }

    /// Returns the next byte.
    pub fn u8(&mut self, what: &'static str) -> Result<u8> {
        let (&first, rest) =
            self.bytes.split_first().ok_or_else(|| Error::truncated(what, self.offset()))?;
        self.bytes = rest;
        Ok(first)
    }

    /// Returns the next two bytes, little-endian.
    pub fn fixed16(&mut self, what: &'static str) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array(what)?))
    }

    /// Returns the next four bytes, little-endian.
    pub fn fixed32(&mut self, what: &'static str) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    /// Returns the next eight bytes, little-endian.
    pub fn fixed64(&mut self, what: &'static str) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// Returns the next varint of at most 32 bits.
    #[inline]
    pub fn varint32(&mut self, what: &'static str) -> Result<u32> {
        if let Some((&byte, rest)) = self.bytes.split_first()
            && byte < 0x80
        {
            self.bytes = rest;
            return Ok(u32::from(byte));
        }
        self.long_varint32(what)
    }

    fn long_varint32(&mut self, what: &'static str) -> Result<u32> {
        let start = self.offset();
        let value = self.varint64(what)?;
        u32::try_from(value)
            .map_err(|_| Error::corruption(what, start, "a 32-bit varint", format!("{value}")))
    }

    /// Returns the next varint of at most 64 bits.
    pub fn varint64(&mut self, what: &'static str) -> Result<u64> {
        match decode_varint64(self.bytes) {
            Some((value, length)) => {
                self.bytes = self.bytes.get(length..).unwrap_or_default();
                Ok(value)
            }
            None => Err(Error::corruption(what, self.offset(), "a varint", "an unterminated one")),
        }
    }

    /// Returns the next zigzag-encoded signed varint.
    pub fn varsigned64(&mut self, what: &'static str) -> Result<i64> {
        let value = self.varint64(what)?;
        Ok(((value >> 1) as i64) ^ -((value & 1) as i64))
    }

    /// Returns the next slice that is preceded by its length as a 32-bit varint.
    #[inline]
    pub fn length_prefixed(&mut self, what: &'static str) -> Result<&'a [u8]> {
        let length = self.varint32(what)?;
        self.bytes(length as usize, what)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N]> {
        let (head, tail) = self
            .bytes
            .split_first_chunk::<N>()
            .ok_or_else(|| Error::truncated(what, self.offset()))?;
        self.bytes = tail;
        Ok(*head)
    }
}

/// Returns the varint at the start of `bytes` and its length in bytes; `None` if no varint ends
/// within the first ten bytes, or if its value exceeds 64 bits.
#[inline]
pub fn decode_varint64(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0u64;
    for (index, &byte) in bytes.iter().take(MAX_VARINT64_LENGTH).enumerate() {
        let group = u64::from(byte & 0x7f);
        // The first nine bytes hold 63 bits, so only one bit of the tenth byte belongs to the
        // value.
        if index == 9 && group > 1 {
            return None;
        }
        value |= group << (7 * index);
        if byte < 0x80 {
            return Some((value, index + 1));
        }
    }
    None
}

/// Returns the varint at the start of `bytes` and its length in bytes; `None` if it is invalid or
/// its value exceeds 32 bits.
#[inline(always)]
pub fn decode_varint32(bytes: &[u8]) -> Option<(u32, usize)> {
    match bytes.first() {
        Some(&byte) if byte < 0x80 => Some((u32::from(byte), 1)),
        _ => {
            let (value, length) = decode_varint64(bytes)?;
            Some((u32::try_from(value).ok()?, length))
        }
    }
}

/// Appends `value` as a varint.
#[inline]
pub fn put_varint64(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends `value` as a varint.
#[inline]
pub fn put_varint32(out: &mut Vec<u8>, value: u32) {
    put_varint64(out, u64::from(value));
}

/// Appends `value` as a zigzag-encoded varint, in which numbers close to 0 of either sign are
/// short.
pub fn put_varsigned64(out: &mut Vec<u8>, value: i64) {
    put_varint64(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// Appends `value` in four bytes, little-endian.
#[inline]
pub fn put_fixed32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends `value` in eight bytes, little-endian.
#[inline]
pub fn put_fixed64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends the length of `bytes` as a varint, then `bytes`.
#[inline]
pub fn put_length_prefixed(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint64(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Returns the length of `value` encoded as a varint, in bytes.
pub fn varint_length(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip_at_every_width() {
        for shift in 0..64 {
            for value in [1u64 << shift, (1u64 << shift) - 1, u64::MAX >> shift] {
                let mut out = Vec::new();
                put_varint64(&mut out, value);
                assert_eq!(out.len(), varint_length(value));
                assert_eq!(decode_varint64(&out), Some((value, out.len())));
                assert_eq!(decode_varint64(&out[..out.len() - 1]), None);
                let mut signed = Vec::new();
                put_varsigned64(&mut signed, value as i64);
                assert_eq!(Reader::new(&signed).varsigned64("n"), Ok(value as i64));
            }
        }
    }

    #[test]
    fn a_varint_longer_than_its_width_is_refused() {
        assert_eq!(decode_varint64(&[0xff; 10]), None);
        assert!(Reader::new(&[0xff, 0xff, 0xff, 0xff, 0x7f]).varint32("n").is_err());
    }
}
