//! What `rocksdb.stats` and its parts say, in the layout of RocksDB (`db/internal_stats.cc`), so
//! that what reads them there reads them here.
//!
//! Figures of an interval are those since statistics were last written to the LOG. Latencies of
//! files by level and the kinds of entries in the block cache are not kept, and so left out.

mod database;
mod family;
mod human;

pub(crate) use database::database_text;
pub(crate) use family::{FamilyState, LevelState, family_done, family_text, stall_text};
