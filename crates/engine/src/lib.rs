//! Tailwater.

pub mod range_tombstone;
