//! Whether a thread is at work for a database: in one of its own threads, or in a caller's that
//! flushes or compacts.
//!
//! Code of the user's that is called there is part of that work. It cannot wait for the work to
//! end, as closing does.

use std::cell::Cell;
use std::marker::PhantomData;

use crate::db::OpeningId;

thread_local! {
    /// Without a destructor, so that it can be asked while the thread ends.
    static WORKS_FOR: Cell<Option<OpeningId>> = const { Cell::new(None) };
}

/// While it lives, its thread is at work for a database.
#[derive(Debug)]
pub(crate) struct OwnWork {
    /// What the thread was at work for before.
    before: Option<OpeningId>,
    not_send: PhantomData<*mut ()>,
}

impl OwnWork {
    /// The calling thread is at work for this database.
    pub(crate) fn begin(opening: OpeningId) -> Self {
        Self { before: WORKS_FOR.replace(Some(opening)), not_send: PhantomData }
    }
}

impl Drop for OwnWork {
    fn drop(&mut self) {
        WORKS_FOR.set(self.before);
    }
}

/// Whether the calling thread is at work for this database.
pub(crate) fn is_at_work_for(opening: OpeningId) -> bool {
    WORKS_FOR.get() == Some(opening)
}
