//! Databases with directories outside their homes. The databases are moved and copied, and their
//! directories are shared, added and removed.
//!
//! - `scenarios`: the scenarios of `docs/directories.md`, on a simulated disk.
//! - `claims`: wrong claims on directories outside a home. A claim is a file that names the
//!   database that owns the directory. The claims here name another home or device, or cannot be
//!   read.
//! - `in_use`: directories outside the home of a database, while the database is open.
//! - `random`: random operations on several databases on one disk. They are copied, moved, adopted
//!   and destroyed, opened with options that name the right or the wrong directories, and
//!   interrupted by crashes. A model holds the expected contents of each database, and the files
//!   that each database needs.
//!
//! A failure prints the seed. `TAILWATER_SEED` repeats the run with that seed, and
//! `TAILWATER_ROUNDS` multiplies the number of runs.

#[path = "directories/claims.rs"]
mod claims;
#[path = "directories/database.rs"]
mod database;
#[path = "directories/in_use.rs"]
mod in_use;
#[path = "common/scenario/library.rs"]
mod library;
#[path = "directories/openings.rs"]
mod openings;
#[path = "directories/random.rs"]
mod random;
#[path = "directories/scenarios.rs"]
mod scenarios;
#[path = "directories/session.rs"]
mod session;
#[path = "common/scenario/sim_files.rs"]
mod sim_files;
#[path = "directories/steps.rs"]
mod steps;
#[path = "directories/world.rs"]
mod world;

/// The result of a check. An error describes what is wrong with a database.
type Checked<T> = Result<T, String>;
