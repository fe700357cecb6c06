//! The bytes of the message log: batches, and the structures around them in a segment.
//!
//! A batch has the layout of Apache Iggy's protocol 0.11.0 ([`batch`]). It is the same on the wire,
//! in a segment and in the answer to a poll, so answering a poll takes a read and a send. A segment
//! is a sequence of batches with padding between groups of them ([`padding`]). The segment's name
//! contains its base offset ([`name`]). The segment's index contains the positions of some of its
//! batches ([`index`]). Batches that are not yet in a segment may be in shared memory ([`tail`]).
//! All other durable state is stored as records of a journal ([`journal`]).
//!
//! All integers are little-endian.

pub mod batch;
pub mod index;
pub mod journal;
pub mod name;
pub mod padding;
pub mod tail;
pub mod verifier;

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

/// Writes `value` at `offset`, if `bytes` is long enough.
fn put(bytes: &mut [u8], offset: usize, value: &[u8]) {
    if let Some(place) = bytes.get_mut(offset..offset + value.len()) {
        place.copy_from_slice(value);
    }
}
