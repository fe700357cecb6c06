//! The limit on file descriptors, and recovery from reaching it.
//!
//! Descriptors are a limit of the whole process, so the owner of files that are kept open only for
//! speed can register a callback that closes some of them ([`set_relief`]). A call that gets no
//! descriptor runs the callback and is retried a few times.

use std::sync::OnceLock;

use rustix::io::{Errno, Result, retry_on_intr};

/// The limit on descriptors that was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exhausted {
    /// The process's limit on open files.
    Process,
    /// The system's limit.
    System,
}

/// Maximum number of retries.
const ATTEMPTS: usize = 4;

/// The callback that closes files kept open only for speed; it returns whether it closed any.
static RELIEF: OnceLock<fn(Exhausted) -> bool> = OnceLock::new();

/// Registers `relief`, which is called whenever no descriptor is left, in the thread that needs
/// one, whatever locks it holds. It must not open files, and returns whether it closed any. Only
/// the first registration counts.
pub fn set_relief(relief: fn(Exhausted) -> bool) {
    RELIEF.get_or_init(|| relief);
}

/// Makes a call that needs a descriptor, and retries it after relief.
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
