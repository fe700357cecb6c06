//! Workloads that measure Tailwater, and other engines in the same run.
//!
//! A database of an engine is a [`store::Store`]; `snapshot-scans` and `backup` need a
//! [`snapshot_scans::ScanEngine`], `cold` a [`cold::ColdEngine`], `memory` a
//! [`memory::MemoryEngine`], `family-bursts` a [`family_bursts::FamilyEngine`], and `tail` a
//! [`tailwater_latency::tail::TailEngine`].
//!
//! The commands are:
//!
//! - `basket`: the workloads of RocksDB's `db_bench` under their names, on several engines in
//!   turn, so that other load on the machine affects all of them;
//! - [`cold`]: reads of data that is in no cache, compared with raw reads of the device;
//! - `hot_key`: gets of one key by several threads;
//! - `sustained`: overwriting for minutes;
//! - `range_deletions`: overlapping range deletions, and reads while they are in the memtable;
//! - [`snapshot_scans`]: scans of one snapshot, by iterators that refresh themselves and by
//!   iterators that do not;
//! - `backup`: the memory and space that the iterator of a logical backup pins during overwrites;
//! - [`family_bursts`]: bursts of writes to many column families, which wait for flushes;
//! - [`memory`]: the resident memory of databases that share their limits;
//! - `durable`: synced puts, compared with raw writes to the device;
//! - `tail`: the effect of direct I/O on the tail latency of reads during compactions, from
//!   [`tailwater_latency`].
//!
//! A command has its own arguments and the arguments in `subjects`, which all commands share. It
//! measures each [`store::Engine`]. Only [`command`] knows all commands.
//!
//! Benchmarks only report; they do not pass or fail.

mod backup;
mod basket;
pub mod cold;
pub mod command;
mod durable;
pub mod family_bursts;
mod hot_key;
pub mod memory;
mod process;
mod range_deletions;
pub mod snapshot_scans;
pub mod store;
mod subjects;
mod sustained;
pub mod tailwater;
mod workloads;
