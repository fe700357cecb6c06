//! The texts of `rocksdb.stats` and its parts, in RocksDB's layout (`db/internal_stats.cc`), so
//! that existing parsers work.
//!
//! An interval begins when statistics were last written to the LOG. File latencies by level and the
//! numbers of block cache entries by kind are not recorded, so they are omitted.

mod database;
mod family;
mod human;

pub(crate) use database::database_text;
pub(crate) use family::{FamilyState, LevelState, family_done, family_text, stall_text};
