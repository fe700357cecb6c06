//! Tests that RocksDB can read databases that Tailwater writes, and that both engines can write to
//! one database in turns.
//!
//! Tailwater makes random writes of every kind. The options of the databases are chosen so that
//! every pair of option values occurs in some database. RocksDB must find exactly the contents that
//! a model expects, after a clean close and after a kill of Tailwater's process, and again after it
//! has compacted everything. Tailwater must find what RocksDB then writes. A failure prints the
//! seed and the options. `TAILWATER_SEED` repeats the run with that seed, and `TAILWATER_ROUNDS`
//! multiplies the number of runs, with different random choices.

#[path = "interop_write/catalogue.rs"]
mod catalogue;
#[path = "common/check.rs"]
mod check;
#[path = "interop_write/copies.rs"]
mod copies;
#[path = "interop_write/direct_logs.rs"]
mod direct_logs;
#[path = "interop_write/families.rs"]
mod families;
#[path = "interop_write/foreign_options.rs"]
mod foreign_options;
#[path = "interop_write/groups.rs"]
mod groups;
#[path = "common/io_modes.rs"]
#[expect(dead_code, reason = "other tests simulate disks")]
mod io_modes;
#[path = "common/interop/laboratory.rs"]
mod laboratory;
#[path = "interop_write/locks.rs"]
mod locks;
#[path = "interop_write/logs.rs"]
mod logs;
#[path = "common/interop/model.rs"]
mod model;
#[path = "interop_write/options_file.rs"]
mod options_file;
#[path = "common/pairwise.rs"]
mod pairwise;
#[path = "common/interop/place.rs"]
mod place;
#[path = "common/random.rs"]
mod random;
#[path = "common/interop/shape.rs"]
mod shape;
#[path = "interop_write/shapes.rs"]
mod shapes;
#[path = "common/interop/step.rs"]
mod step;
#[path = "interop_write/turns.rs"]
mod turns;
#[path = "interop_write/updates.rs"]
mod updates;
