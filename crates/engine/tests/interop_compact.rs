//! Tests that RocksDB can read and continue databases that Tailwater has compacted, and that both
//! engines can compact one database in turns.
//!
//! Tailwater compacts golden databases, which RocksDB wrote, completely, and RocksDB then compacts
//! them again. Both engines must read the original contents after each of these compactions. In
//! other tests both engines write to one database and compact it in turns. After every turn, both
//! engines must read the contents that a model expects. A failure prints the seed and the options.
//! `TAILWATER_SEED` repeats the run with that seed, and `TAILWATER_ROUNDS` multiplies the number of
//! runs, with different random choices.

#[path = "interop_compact/blob_files.rs"]
mod blob_files;
#[path = "interop_compact/blobs.rs"]
mod blobs;
#[path = "common/check.rs"]
mod check;
#[path = "interop_compact/fixtures.rs"]
mod fixtures;
#[path = "common/io_modes.rs"]
#[expect(dead_code, reason = "other tests simulate disks")]
mod io_modes;
#[path = "common/interop/laboratory.rs"]
mod laboratory;
#[path = "common/interop/model.rs"]
#[expect(dead_code, reason = "other tests take single steps")]
mod model;
#[path = "common/interop/place.rs"]
#[expect(dead_code, reason = "other tests look at all files of a place")]
mod place;
#[path = "common/random.rs"]
mod random;
#[path = "interop_compact/scores.rs"]
mod scores;
#[path = "common/interop/shape.rs"]
mod shape;
#[path = "interop_compact/single_deletions.rs"]
mod single_deletions;
#[path = "common/interop/step.rs"]
mod step;
#[path = "interop_compact/turns.rs"]
mod turns;
