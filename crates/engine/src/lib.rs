//! Tailwater.

pub mod range_tombstone;
pub mod epoch;
