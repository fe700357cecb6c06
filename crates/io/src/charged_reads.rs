//! The priority at which the reads of the current thread are charged to a rate limiter.

use std::cell::Cell;
use std::marker::PhantomData;

use crate::pace::Priority;

thread_local! {
    static PRIORITY: Cell<Option<Priority>> = const { Cell::new(None) };
}

/// While this value lives, reads for users that the current thread makes or requests are charged.
#[derive(Debug)]
pub struct ChargedReads {
    before: Option<Priority>,
    /// The value belongs to the thread that created it.
    _thread: PhantomData<*const ()>,
}

/// Charges the reads for users that the current thread makes or requests to the rate limiter of
/// their files ([`LimitedReads`](crate::LimitedReads)), if there is one, until the returned value
/// is dropped. With `None`, does nothing.
#[inline]
pub fn charge_reads(priority: Option<Priority>) -> Option<ChargedReads> {
    priority.map(|priority| ChargedReads {
        before: PRIORITY.replace(Some(priority)),
        _thread: PhantomData,
    })
}

/// Returns the priority of the current thread's reads for users; `None` if they are not charged.
pub(crate) fn priority() -> Option<Priority> {
    // While the thread exits, the value may already have been dropped.
    PRIORITY.try_with(Cell::get).ok().flatten()
}

impl Drop for ChargedReads {
    fn drop(&mut self) {
        let _ = PRIORITY.try_with(|priority| priority.set(self.before));
    }
}
