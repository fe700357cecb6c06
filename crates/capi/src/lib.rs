//! RocksDB's C interface over Tailwater: `librocksdb.so`.
//!
//! Functions are declared with `entry!` (module `boundary`), which converts pointers, catches
//! panics and reports failures. Each group of functions has its own file. Functions that have no
//! implementation are listed in `missing`. The header `include/rocksdb/c.h` and the list in
//! `docs/c-api.md` are generated from these declarations by the tests.
//!
//! # Objects
//!
//! An object of the interface is a `Box` of a struct with the object's name in C. Whatever objects
//! share is reference-counted, so the order in which a program destroys them does not matter.
//!
//! # Safety
//!
//! The functions rely on what the header demands of callers: pointers to live objects, lengths that
//! are right, no concurrent use of an object that is being changed or destroyed.

#![expect(unsafe_code, reason = "C passes raw pointers")]
#![expect(non_camel_case_types, reason = "objects have their names in C")]
#![deny(missing_docs)]

mod accessors;
mod batch;
mod batch_iteration;
mod block_based_options;
mod boundary;
mod cache;
mod callback;
mod checkpoint;
mod compaction;
mod compaction_filter;
mod comparator;
mod database;
mod env;
mod env_options;
mod environment;
mod families;
mod filter_policy;
mod flush;
mod ingestion;
mod iterator;
mod key_may_exist;
mod live_files;
mod load_options;
mod marks;
mod memory_usage;
mod merge_operator;
mod missing;
mod multi_get;
mod older;
mod open;
mod options;
mod pinned_multi_get;
mod pinned_value;
mod presets;
mod properties;
mod rate_limiter;
mod read_options;
mod reading;
mod sizes;
mod slice_transform;
mod snapshot;
mod sst_file_manager;
mod sst_file_writer;
mod statistics;
mod ticker_names;
mod values;
mod wait_for_compact;
mod wal_iterator;
mod write_buffer_manager;
mod write_options;
mod writing;
