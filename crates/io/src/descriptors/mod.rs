//! The limit on open file descriptors, its division among those who open files, and what happens
//! when it is reached.
//!
//! The limit (`RLIMIT_NOFILE`) applies to the whole process. A [`DescriptorBudget`] divides it.
//! Logs and databases get a budget when they are opened, by default that of the process
//! ([`DescriptorBudget::of_process`]).
//!
//! # Who gets descriptors
//!
//! - Connections of a server are [reserved](DescriptorBudget::reserve) as a whole when the server
//!   starts, so that neither clients nor files can take what belongs to the other.
//! - A log's lock, its journals, and what a thread of the log opens for one call (an index, a
//!   region of shared memory, a directory to be synced or listed) are reserved when the log is
//!   opened. The number of such threads is bounded.
//! - Segments that are read are [claimed](DescriptorBudget::claim) with [`Share::Reading`], each
//!   with a descriptor for its index or for reading ahead. A file stays open until another claim
//!   needs its descriptor.
//! - Segments that are appended to are claimed with [`Share::Writing`], likewise.
//! - Tables and blob files of a database are not claimed. The database bounds them itself, with
//!   `max_open_files` and the capacity of its budget.
//!
//! The limit minus the reservations is the *capacity* for claims.
//!
//! # Who gives back
//!
//! A claim that exceeds the capacity first closes files that are open but not in use, one at a
//! time, the least recently used first. They belong to the claim's own share if that share has at
//! least half of the capacity, otherwise to the other share. So neither reading nor appending can
//! take more than half of the capacity from the other. If that share has no idle file, the other
//! share is asked.
//!
//! If no file can be closed, [`DescriptorBudget::claim`] waits, and
//! [`DescriptorBudget::claim_now`] exceeds the capacity. Threads that persist use the latter: their
//! number is bounded, and their descriptors are part of the log's reservation.
//!
//! If a system call fails nevertheless because no descriptor is left, because code outside the
//! budgets has opened files, every budget of the process is asked for relief: all caches of open
//! files, including those of databases, close some files, and the call is retried, up to a few
//! times ([`KeepsFilesOpen::close_some`]).
//!
//! # Why waiting does not deadlock
//!
//! - A thread that waits in [`DescriptorBudget::claim`] has no other claim. It claims everything
//!   that one operation needs at once, and returns it when the operation ends.
//! - The holder of a claim never waits for another descriptor. It may wait for the device, and for
//!   memory that other holders of claims return without waiting for descriptors.
//! - No lock is held while files are closed. A cache that closes files takes only locks that are
//!   never held while a file is opened, or skips files whose lock is taken.
//!
//! Threads that wait are served in the order of their arrival.

mod budget;

use rustix::io::{Errno, Result, retry_on_intr};
use rustix::process::{Resource, getrlimit, setrlimit};

pub use budget::{Claim, DescriptorBudget, KeepsFilesOpen, Reservation, Share};

/// The limit on open files that was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exhausted {
    /// The limit of this process (`EMFILE`).
    Process,
    /// The limit of the whole system (`ENFILE`).
    System,
}

/// Maximum number of times that relief is requested for one call.
pub(crate) const RELIEFS_MAX: usize = 4;

/// Makes the system call `call`, which needs a descriptor. If no descriptor is left, asks all
/// budgets of the process to close files, and retries `call`.
pub(crate) fn with_relief<T>(mut call: impl FnMut() -> Result<T>) -> Result<T> {
    for _ in 0..RELIEFS_MAX {
        let exhausted = match retry_on_intr(&mut call) {
            Err(Errno::MFILE) => Exhausted::Process,
            Err(Errno::NFILE) => Exhausted::System,
            done => return done,
        };
        if !budget::relieve_process(exhausted) {
            break;
        }
    }
    retry_on_intr(&mut call)
}

/// Returns the number of files that this process may have open at a time (the soft
/// `RLIMIT_NOFILE`); `usize::MAX` if there is no limit.
pub fn open_files_max() -> usize {
    let limit = getrlimit(Resource::Nofile).current;
    limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
}

/// Raises the soft limit on open files to the hard limit, and returns the limit in effect. For
/// programs only: a library must not change the limits of its process.
pub fn raise_open_files_max() -> usize {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If this fails, the limit stays unchanged, and the result says so.
    let _ = setrlimit(Resource::Nofile, limit);
    open_files_max()
}
