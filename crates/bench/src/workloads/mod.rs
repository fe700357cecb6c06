//! The workloads. Each runs on any store, independently of the commands.

pub mod basket;
pub mod hot_key;
pub mod overwriting;
pub mod puts;
pub mod range_deletions;
