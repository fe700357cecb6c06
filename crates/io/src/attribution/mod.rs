//! Where the time of an operation goes: working, waiting for the device, for a lock or for a
//! processor.
//!
//! A thread is in one [`Section`] at a time. Calls that may wait for the device or for a lock, and
//! those that unpack what was read, [`enter`] theirs; they cost a branch in a thread that
//! attributes nothing. Between [`Attribution::begin`] and [`Attribution::end`], the time between
//! two boundaries of sections, a *span*, is added to the section. Waits for a processor are taken
//! out of the spans: `sections` says how, and how accurately.
//!
//! Each thread that attributes its time keeps a file open. The files of all threads use up to a
//! sixteenth of the limit on open files; of any further threads, the wait for a processor is
//! unknown, and unexplained.

mod files;
#[cfg(test)]
mod tests;

use std::marker::PhantomData;

use crate::sections;
pub use crate::sections::{Entered, Section, Spent, enter, is_active, last_boundary_ns};

/// The attribution of an operation of the calling thread. It ends when this is dropped.
#[derive(Debug)]
pub struct Attribution {
    /// The operation belongs to the thread.
    thread: PhantomData<*const ()>,
}

impl Attribution {
    /// Begins to attribute the time of an operation, which is slow if it takes at least
    /// `threshold_ns`. Returns `None` if the thread's operation is being attributed already: then
    /// this one is a part of it.
    #[inline]
    pub fn begin(threshold_ns: u64) -> Option<Self> {
        if !sections::begin(threshold_ns, files::open_for_this_thread) {
            return None;
        }
        Some(Self { thread: PhantomData })
    }

    /// Ends the operation. Returns where its time went, if it was slow.
    #[inline]
    pub fn end(self) -> Option<Spent> {
        let spent = sections::end();
        // It has ended: `drop` would end it again.
        std::mem::forget(self);
        spent
    }
}

impl Drop for Attribution {
    #[inline]
    fn drop(&mut self) {
        sections::abandon();
    }
}
