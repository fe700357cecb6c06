//! A disk in memory that fails, tears and loses writes on demand, deterministically for a given
//! seed.
//!
//! # What is durable
//! Besides the state that the process sees, the disk keeps the state that is durable: a file's
//! bytes as of its last successful sync, and the names of a directory as of its last successful
//! sync. All later changes are *pending*, in order. A crash image keeps everything durable and a
//! random part of what is pending, as ext4, XFS or btrfs might:
//!
//! - **Bytes.** A sector ([`SECTOR`] bytes) is written atomically and independently of others, so a
//!   write of several sectors can be torn anywhere and writes can arrive in any order. A sector
//!   that was written more than once may hold any of its versions. If none of the writes to a
//!   sector arrived, but the file's length includes the sector, it holds what was durable there, or
//!   zeros.
//! - **Length.** The length may be any that the file had since its last sync, or lie between two of
//!   them. Truncations arrive in order, each whole. A truncation that arrived cuts what was written
//!   earlier. If a truncation did not arrive, later writes to the part that it would have cut did
//!   not arrive either.
//! - **Names.** Every change of a name is atomic: a rename removes the old name and sets the new
//!   one in one step, so a file that was durable under either name is still found under the old or
//!   the new one. Changes of *different* names arrive in any order, since no stronger guarantee is
//!   assumed of filesystems. Changes of one name arrive in order, so a change is kept only if all
//!   earlier changes of its names are kept. A sync of a directory makes the changes of its names
//!   durable, with those that they depend on. A file's own sync does not make its name durable, and
//!   a durable name does not make its file's bytes durable: a new file may be left with length 0.
//! - **After a failed sync** the system treats the bytes as written: they can still be read, but a
//!   random part of them is not on disk and no later sync writes it.
//!
//! A crash of the process alone ([`SimStorage::process_crash_image`]) loses nothing that was
//! written.
//!
//! # Crash at any call
//! A storage that records ([`SimStorage::start_recording`]) keeps a journal of the effects of each
//! call on the disk. [`SimStorage::replay`] applies the journal, up to any call, to the disk as it
//! was when recording began. A journal has advantages over a hook that is called before each call.
//! No code of the caller runs while the storage is locked, one run of the engine provides any
//! number of images, and stepping through all calls costs no more than applying the journal once.
//!
//! # Faults
//! Every call gets a number when it begins. A [`FaultPlan`] can make calls with certain numbers
//! fail, cut them short or cut the power.

mod acknowledged;
mod calls;
mod contents;
mod crash;
mod disk;
mod faults;
mod file;
mod namespace;
mod recording;
mod state;
mod storage;

pub use acknowledged::Overwrite;
pub use calls::{Call, Coverage, Opening, WriteCall, path_class};
pub use contents::SECTOR;
pub use crash::Replay;
pub use faults::{Fault, FaultPlan, FaultRule};
pub use state::DeviceTimes;
pub use storage::SimStorage;
