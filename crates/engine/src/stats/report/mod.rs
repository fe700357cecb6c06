//! The texts of the property `rocksdb.stats` and its parts, in RocksDB's layout
//! (`db/internal_stats.cc`), so that existing parsers work.
//!
//! The "interval" figures of a report cover the time since statistics were last written to the LOG.
//! The latencies of file reads by level and the numbers of block cache entries by kind are not
//! recorded, so the reports omit them.

mod database;
mod family;
mod human;

pub(crate) use database::database_text;
pub(crate) use family::{FamilyState, LevelState, family_done, family_text, stall_text};
