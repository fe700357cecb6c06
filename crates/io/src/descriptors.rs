//! The limit on open file descriptors, and what happens when it is reached.
//!
//! The limit applies to the whole process. A component that keeps files open only for speed can
//! register a callback that closes some of them ([`set_relief`]). If a system call fails because no
//! descriptor is left, the callback runs and the call is retried, up to a few times.

use std::sync::OnceLock;

use rustix::io::{Errno, Result, retry_on_intr};

/// The limit on open files that was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exhausted {
    /// The limit of this process (`EMFILE`).
    Process,
    /// The limit of the whole system (`ENFILE`).
    System,
}

/// Maximum number of times that the registered callback runs for one call of [`with_relief`].
const ATTEMPTS: usize = 4;

/// The registered callback. It closes files that are kept open only for speed, and returns whether
/// it closed any.
static RELIEF: OnceLock<fn(Exhausted) -> bool> = OnceLock::new();

/// Registers the callback that runs when no descriptor is left. It runs in the thread whose call
/// failed, while that thread may hold any of its locks. It must not open files. It returns whether
/// it closed any. If a callback is already registered, the new one is ignored.
pub fn set_relief(relief: fn(Exhausted) -> bool) {
    RELIEF.get_or_init(|| relief);
}

/// Makes the system call `call`, which needs a descriptor. If no descriptor is left, runs the
/// registered callback, which closes files, and retries `call`.
pub(crate) fn with_relief<T>(mut call: impl FnMut() -> Result<T>) -> Result<T> {
    for _ in 0..ATTEMPTS {
        let exhausted = match retry_on_intr(&mut call) {
            Err(Errno::MFILE) => Exhausted::Process,
            Err(Errno::NFILE) => Exhausted::System,
            done => return done,
        };
        if !RELIEF.get().is_some_and(|relief| relief(exhausted)) {
            break;
        }
    }
    retry_on_intr(&mut call)
}

/// Returns the number of files that this process may have open at a time (the soft
/// `RLIMIT_NOFILE`); `usize::MAX` if there is no limit.
pub fn open_files_max() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
}
