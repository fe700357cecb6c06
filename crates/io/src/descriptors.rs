//! What is done when the process has as many files open as it may.
//!
//! Descriptors belong to the whole process, so whoever keeps files open for speed alone can say how
//! some of them are closed ([`set_relief`]). A call that needs a descriptor and gets none is made
//! again after that, a few times.

use std::sync::OnceLock;

use rustix::io::{Errno, Result, retry_on_intr};

/// Which limit there is no descriptor below any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exhausted {
    /// The process's own.
    Process,
    /// The whole system's.
    System,
}

/// How often a call is made again.
const ATTEMPTS: usize = 4;

/// Closes files that are open for speed alone; returns whether it closed any.
static RELIEF: OnceLock<fn(Exhausted) -> bool> = OnceLock::new();

/// Has `relief` called whenever there is no descriptor left, in the thread that needs one and
/// whatever that thread is doing. `relief` must not open files, and returns whether it closed any.
/// The first that is set stays.
pub fn set_relief(relief: fn(Exhausted) -> bool) {
    RELIEF.get_or_init(|| relief);
}

/// Makes a call that needs a descriptor.
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
