//! The directories of a database: which they are, whose files are in them, and what may be removed.
//!
//! The *home* is the directory with CURRENT, and its LOCK says who may write there. Tables, blob
//! files and logs may also be in *outside directories*: `wal_dir`, `db_paths` and `cf_paths`. The
//! names of these files are numbers and their bytes do not say whose they are, so an outside
//! directory belongs to the database whose claim is in it ([`claim`]).
//!
//! # Invariants
//!
//! - A directory is told by device and inode, never by the text of its path.
//! - While a database is open for writing, none of its directories is mistaken for one that got its
//!   name ([`GuardedStorage`]).
//! - A file is told by number and kind. One that a version or the logs need is not removed, in
//!   whichever directory it is.
//! - In an outside directory nothing is removed before the database's claim is there, and what was
//!   there before the claim and did not belong to the database is never removed.
//! - MANIFEST, OPTIONS and temporary files are removed from the home only.
//! - Whatever could not be found is reported before anything is written ([`check`]).

mod check;
mod claim;
mod create;
mod files;
mod found;
mod guard;
mod identity;
mod left_over;

pub(crate) use check::NeededLogs;
pub(crate) use claim::{Home, remove_claim};
pub(crate) use create::{create_directory, sync_parent};
pub(crate) use files::{Files, holds_data};
pub(crate) use found::{Directories, Locks, Outside, Ownership};
pub(crate) use guard::GuardedStorage;
pub(crate) use identity::{
    DatabaseIdentity, durable_id, host_id, new_identity, read_identity, write_identity,
};
pub(crate) use left_over::Needed;
