//! Workloads that measure Tailwater, and other engines in the same run.
//!
//! An engine is a [`Store`]; [`basket`] has the workloads, which are those of RocksDB's `db_bench`
//! under their names, and runs them on several engines by turns, so that what else the machine does
//! meets all of them. [`report`] says what came of it: every run, medians, and how the first engine
//! compares with each other one.
//!
//! Benchmarks report; nothing passes or fails by them.

pub mod arguments;
pub mod basket;
mod entries;
pub mod report;
pub mod store;
mod tailwater;

pub use tailwater::Tailwater;
