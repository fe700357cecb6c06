//! Directories of databases that are moved, copied, shared, added and removed.
//!
//! - `scenarios`: the scenarios of `docs/directories.md`, on a simulated disk.
//! - `claims`: claims that name another home or device, or are unreadable.
//! - `in_use`: directories of a database that is open.
//! - `random`: several databases on one disk, whose options name the right directories or wrong
//!   ones, and which are copied, moved, adopted, destroyed and interrupted by crashes. A model
//!   knows the contents of each, and the files that each needs.
//!
//! A failure names the seed; `TAILWATER_SEED` repeats it, and `TAILWATER_ROUNDS` multiplies the
//! number of runs.

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

/// A result, or what is wrong with a database.
type Checked<T> = Result<T, String>;
