//! Tests of databases through the public API: calls that succeed, and the errors of calls that
//! Tailwater refuses.
#![cfg(not(loom))]

mod basics;
mod beside_a_writer;
mod blob_files;
mod callbacks_and_thread_exit;
mod changed_options;
#[path = "../common/check.rs"]
mod check;
mod checkpoints;
mod compactions;
mod comparators;
mod concurrent_ingestion;
mod contracts;
mod creating_families;
#[path = "../common/database.rs"]
mod database;
mod direct_logs;
mod directories;
mod environment;
mod errors;
mod families;
mod flushes;
mod foreign_files;
mod full_disk;
mod fuse;
mod gate;
mod groups_in_flight;
mod idle;
mod ingested_records;
mod ingestion;
mod installations;
mod logs;
mod lost_locks;
mod manual_compactions;
mod opening;
mod owners;
mod panics;
mod places;
mod rate_limiter;
mod recoveries;
mod refusals;
mod removals;
mod retries;
mod several_flushes;
mod shortages;
mod sst_file_manager;
mod stalls;
mod support;
mod thread_starts;
mod timed_values;
mod unchanged_blocks;
mod write_buffer_manager;
