//! The directories of a database: their identity, the ownership of their files, and which files may
//! be removed.
//!
//! The *home* is the directory with CURRENT; its LOCK grants the right to write. Tables, blob files
//! and logs may also be in *outside directories*: `wal_dir`, `db_paths` and `cf_paths`. The names
//! of these files are numbers and their contents do not identify the owner, so an outside directory
//! belongs to the database whose claim it contains ([`claim`]).
//!
//! # Invariants
//!
//! - A directory is identified by device and inode, never by the text of its path.
//! - While a database is open for writing, a foreign directory may be put at the path of one of the
//!   database's directories. The database never mistakes the foreign directory for its own
//!   ([`GuardedStorage`]).
//! - A file is identified by number and kind. A needed file is not removed, whichever directory it
//!   is in.
//! - In an outside directory nothing is removed before the database has claimed it, and files that
//!   existed before the claim and did not belong to the database are never removed.
//! - MANIFEST, OPTIONS and temporary files are removed from the home only.
//! - Missing files are reported before anything is written ([`check`]).

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
pub(crate) use found::{Directories, Locks, OutsideDirectory, Ownership};
pub(crate) use guard::GuardedStorage;
pub(crate) use identity::{
    DatabaseIdentity, durable_id, host_id, new_identity, read_identity, write_identity,
};
pub(crate) use left_over::Needed;
