//! The workloads of `tailwater-bench` on other engines beside Tailwater, in one run.
//!
//! Engines of RocksDB's kind get the same option string. The others get what comes closest: fjall a
//! cache of the same size, LZ4 and a Bloom filter; redb and LMDB, which are trees and not logs,
//! their own, and put a thousand entries in a transaction that is not synced. Those two are there
//! for their reads.

mod fjall;
mod lmdb;
mod redb;
mod rocksdb;
mod rocksdb_scans;
mod rocksdb_tail;

use std::process::ExitCode;

use clap::Parser;
use tailwater_bench::arguments::Arguments;
use tailwater_bench::engine::{Contender, Engine};
use tailwater_bench::tail::TailwaterEngine;
use tailwater_bench::{Tailwater, TailwaterScans};

/// How many entries a tree takes in one transaction.
const TRANSACTION: usize = 1000;
/// How large the caches of engines are that do not take RocksDB's options, in bytes.
const CACHE_BYTES: usize = 1 << 30;

fn main() -> ExitCode {
    let engines: [&dyn Engine; 5] = [
        &Contender::<Tailwater>::new(),
        &Contender::<rocksdb::RocksDb>::new(),
        &Contender::<fjall::Fjall>::new(),
        &Contender::<redb::Redb>::new(),
        &Contender::<lmdb::Lmdb>::new(),
    ];
    Arguments::parse().run(
        &engines,
        &[&TailwaterScans, &rocksdb_scans::RocksDbScans],
        &[&TailwaterEngine, &rocksdb_tail::RocksDbEngine],
    )
}
