//! Workloads that measure Tailwater, and other engines in the same run.
//!
//! An engine is a [`store::Store`], but a [`snapshot_scans::ScanEngine`] and a
//! [`tail::TailEngine`] for the commands of these names:
//!
//! - [`basket`]: the workloads of RocksDB's `db_bench` under their names, on several engines by
//!   turns, so that what else the machine does meets all of them;
//! - [`hot_key`]: one key that several threads get;
//! - [`sustained`]: overwriting for minutes;
//! - [`range_deletions`]: range deletions that overlap, and reads among them;
//! - [`snapshot_scans`]: scans by iterators that refresh themselves, and by others;
//! - [`backup`]: what the iterator of a logical backup keeps beside overwrites;
//! - [`durable`]: puts that are synced, beside the device itself;
//! - [`log`]: what persisting does to the latency of a message log;
//! - [`tail`]: what direct I/O does to the tail of reads while compactions go on.
//!
//! Benchmarks report; nothing passes or fails by them.

#[macro_use]
mod say;

pub mod arguments;
pub mod backup;
pub mod basket;
pub mod durable;
pub mod engine;
mod entries;
mod files;
pub mod hot_key;
pub mod log;
pub mod memory_limit;
mod own;
mod process;
pub mod range_deletions;
mod report;
pub mod snapshot_scans;
pub mod store;
pub mod sustained;
pub mod tail;
mod tailwater;

pub use tailwater::{Tailwater, TailwaterScans};
