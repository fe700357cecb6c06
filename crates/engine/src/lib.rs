//! Tailwater.

pub mod memtable;
pub mod range_tombstone;
pub mod cache;
pub mod epoch;
