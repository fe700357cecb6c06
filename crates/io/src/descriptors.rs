//! What is done when the process has as many files open as it may.
//!
//! Descriptors belong to the whole process, so whoever keeps files open for speed alone can say how
//! some of them are closed ([`set_relief`]). A call that needs a descriptor and gets none is made
//! again after that, as often as something was closed.

use std::sync::OnceLock;

use rustix::io::{Errno, Result, retry_on_intr};

/// Closes files that are open for speed alone; returns whether it closed any.
static RELIEF: OnceLock<fn() -> bool> = OnceLock::new();

/// Has `relief` called whenever the process has no descriptor left, in the thread that needs one
/// and whatever that thread is doing. `relief` must not open files, and returns whether it closed
/// any. The first that is set stays.
pub fn set_relief(relief: fn() -> bool) {
    RELIEF.get_or_init(|| relief);
}

/// Makes a call that needs a descriptor.
pub(crate) fn with_relief<T>(mut call: impl FnMut() -> Result<T>) -> Result<T> {
    loop {
        match retry_on_intr(&mut call) {
            Err(Errno::MFILE | Errno::NFILE) if RELIEF.get().is_some_and(|relief| relief()) => {}
            done => return done,
        }
    }
}
