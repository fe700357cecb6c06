//! What engines are measured with: each workload runs on any store and knows no command.

pub mod basket;
pub mod hot_key;
pub mod overwriting;
pub mod puts;
pub mod range_deletions;
