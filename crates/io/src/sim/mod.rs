//! A disk in memory that fails, tears and loses on demand, and always in the same way for the same
//! seed.
//!
//! # What is durable
//! The disk keeps, beside what the process sees, what it has promised to keep: a file's bytes as of
//! its last good sync, and the names of a directory as of its last good sync. Everything since is
//! *pending*, in order. A crash image keeps all that is durable and a random part of what is
//! pending, as ext4, XFS or btrfs might:
//!
//! - **Bytes.** A sector ([`SECTOR`] bytes) is written whole or not at all, and each on its own, so
//!   a write of several sectors can be torn anywhere and writes can arrive in any order. A sector
//!   that was written more than once may hold any of its versions. A sector inside the length that
//!   never arrived reads as what was durable there, or zeros.
//! - **Length.** It may be any that the file had since its last sync, or lie between two of them.
//!   Truncations arrive in order, each whole: what was written before one that arrived is cut by
//!   it, and what was written over the cut part after one that did not arrive is lost with it.
//! - **Names.** Every change of a name arrives whole or not at all: a rename takes the old name
//!   away and gives the new one in one step, so whoever had a durable file by either name still
//!   finds the old one or the new one. Changes of *different* names arrive in any order, since no
//!   filesystem's promises are relied on beyond that; changes of one name arrive in order, so a
//!   change is kept only if all earlier ones of its names are. A sync of a directory makes the
//!   changes of its names durable, with those that they build on. A file's own sync does not make
//!   its name durable, and a name does not make its file's bytes durable: a new file may be left
//!   with length 0.
//! - **After a failed sync** the system takes the bytes for written: they are still read, but a
//!   random part of them is not on disk and no later sync brings it there.
//!
//! A crash of the process alone ([`SimStorage::process_crash_image`]) loses nothing that was
//! written.
//!
//! # Crash at any call
//! A storage that records ([`SimStorage::start_recording`]) keeps a journal of what each call did
//! to the disk, and [`SimStorage::replay`] applies it again to the state at which recording began,
//! up to any call. A journal was chosen over a hook that runs before each call: it needs no code of
//! the caller inside the storage's lock, one run of the engine serves any number of images, and
//! walking forward through all calls costs one application of the journal.
//!
//! # Faults
//! Every call passes one numbered point, where a [`FaultPlan`] can make it fail, cut it short or
//! cut the power.

mod acknowledged;
mod calls;
mod contents;
mod crash;
mod disk;
mod faults;
mod file;
mod namespace;
mod state;
mod storage;

pub use acknowledged::Overwrite;
pub use calls::{Call, Coverage, Opening, path_class};
pub use contents::SECTOR;
pub use crash::Replay;
pub use faults::{Fault, FaultPlan, FaultRule};
pub use state::DeviceTimes;
pub use storage::SimStorage;
