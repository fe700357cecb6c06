//! Marks threads that work for a database: its own threads, and callers that flush or compact.
//!
//! User code that is called in a marked thread is part of the thread's work. Such code must not
//! wait for that work to end, for instance by closing the database.

use std::cell::Cell;
use std::marker::PhantomData;

use crate::opening::OpeningId;

thread_local! {
    /// The database for which this thread works. The cell has no destructor, so that it can still
    /// be read while the thread ends.
    static WORKS_FOR: Cell<Option<OpeningId>> = const { Cell::new(None) };
}

/// While this value lives, its thread is marked as working for a database.
#[derive(Debug)]
pub(crate) struct WorkingThread {
    /// The database for which the thread was already marked as working when this value was created,
    /// if any. Dropping this value restores that mark.
    before: Option<OpeningId>,
    not_send: PhantomData<*mut ()>,
}

impl WorkingThread {
    /// Marks the calling thread as working for this database.
    pub(crate) fn begin(opening: OpeningId) -> Self {
        Self { before: WORKS_FOR.replace(Some(opening)), not_send: PhantomData }
    }
}

impl Drop for WorkingThread {
    fn drop(&mut self) {
        WORKS_FOR.set(self.before);
    }
}

/// Whether the calling thread works for this database.
pub(crate) fn is_working_for(opening: OpeningId) -> bool {
    WORKS_FOR.get() == Some(opening)
}
