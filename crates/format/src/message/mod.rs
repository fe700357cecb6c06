//! The bytes of the message log: batches, and what surrounds them in a segment.
//!
//! A batch has the layout of Apache Iggy's protocol 0.11.0. It is the same on the wire, in a
//! segment and in a poll, so that a poll is a read and a send ([`batch`]). A segment is a sequence
//! of batches with padding between groups of them ([`padding`]); its name states where it begins
//! ([`name`]), and its index where some of its batches stand ([`index`]). Batches that no segment
//! has yet may stand in shared memory ([`tail`]). Everything else that is durable is a record of a
//! journal ([`journal`]).
//!
//! All integers are little-endian.

pub mod batch;
pub mod index;
pub mod journal;
pub mod name;
pub mod padding;
pub mod tail;

use crate::{Error, Result};

/// Returns the fixed-size field at `offset`.
fn field<const N: usize>(bytes: &[u8], offset: usize, what: &'static str) -> Result<[u8; N]> {
    bytes
        .get(offset..)
        .and_then(|rest| rest.first_chunk::<N>())
        .copied()
        .ok_or_else(|| Error::truncated(what, bytes.len()))
}

/// Returns the `u32` at `offset`.
fn u32_at(bytes: &[u8], offset: usize, what: &'static str) -> Result<u32> {
    Ok(u32::from_le_bytes(field(bytes, offset, what)?))
}

/// Returns the `u64` at `offset`.
fn u64_at(bytes: &[u8], offset: usize, what: &'static str) -> Result<u64> {
    Ok(u64::from_le_bytes(field(bytes, offset, what)?))
}

/// Puts `value` at `offset`, where `bytes` has room for it.
fn put(bytes: &mut [u8], offset: usize, value: &[u8]) {
    if let Some(place) = bytes.get_mut(offset..offset + value.len()) {
        place.copy_from_slice(value);
    }
}
