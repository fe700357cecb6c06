//! Runs the workloads of `tailwater-bench` on other engines and on Tailwater in turn, in a single
//! process.
//!
//! Engines that accept RocksDB's options get the same option string. The other engines get the
//! closest equivalent. fjall gets a cache of the same size, LZ4 and a Bloom filter. redb and LMDB
//! are B-trees rather than LSM trees; they get their defaults, and put a thousand entries in each
//! unsynced transaction. redb and LMDB are included to compare reads.

mod fjall;
mod lmdb;
mod redb;
mod rocksdb;
mod rocksdb_families;
mod rocksdb_memory;
mod rocksdb_scans;
mod rocksdb_slow_reads;

use std::process::ExitCode;

use clap::Parser;
use tailwater_bench::command::{Arguments, Engines};
use tailwater_bench::tailwater;
use tailwater_latency::tail::TAILWATER;

/// Number of entries per transaction of redb and LMDB.
const TRANSACTION: usize = 1000;
/// Cache size of engines that do not accept RocksDB's options, in bytes.
const CACHE_BYTES: usize = 1 << 30;

fn main() -> ExitCode {
    tailwater_io::descriptors::raise_open_files_max();
    Arguments::parse().run(&Engines {
        stores: &[tailwater::ENGINE, rocksdb::ENGINE, fjall::ENGINE, redb::ENGINE, lmdb::ENGINE],
        scans: &[tailwater::SCANS, rocksdb_scans::ENGINE],
        cold: &[tailwater::COLD, rocksdb::COLD],
        memory: &[tailwater::MEMORY, rocksdb_memory::ENGINE],
        families: &[tailwater::FAMILIES, rocksdb_families::ENGINE],
        tail: &[TAILWATER, rocksdb::TAIL],
    })
}
