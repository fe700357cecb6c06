//! What stands in the way of writing.
//!
//! | where | no space | another failure | how it ends |
//! |---|---|---|---|
//! | log | latched | latched | no space: `resume` flushes and begins a new log; else reopening |
//! | flush | tried again, with growing pauses | latched | `resume` |
//! | compaction | tried again later | tried once more, then latched | `resume` |
//! | damage in a compaction's inputs | - | the column family is not compacted any more | `resume` |
//! | MANIFEST | latched | latched | `resume` writes a new one |
//! | memtable | - | latched | reopening |
//!
//! While something is latched nothing more is acknowledged; reads go on.

use std::fmt;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicBool, Ordering};

use tailwater_io::sync::Mutex;

use crate::{Error, ErrorKind, Result};

/// Where a failure was. A later one asks for more before writes can go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FailedPart {
    Compaction,
    Flush,
    Manifest,
    Log,
    MemTable,
    /// Nothing failed: the database is closed.
    Closed,
}

impl fmt::Display for FailedPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Log => "the write-ahead log failed",
            Self::Flush => "a flush failed",
            Self::Compaction => "a compaction failed",
            Self::Manifest => "the MANIFEST failed",
            Self::MemTable => "a memtable failed",
            Self::Closed => "the database was closed",
        })
    }
}

/// What stands in the way of writing.
#[derive(Debug, Default)]
pub(crate) struct ErrorState {
    /// Whether `latched` holds anything, for a look without its lock.
    is_latched: AtomicBool,
    latched: Mutex<Option<(FailedPart, Error)>>,
    /// Why a column family is not compacted any more.
    stopped_compaction: Mutex<Option<Error>>,
    /// Whether whoever waits is to give up, because the database is being closed.
    is_closing: AtomicBool,
}

impl ErrorState {
    /// Refuses, where something is latched.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_latched.load(Ordering::Acquire) { self.refuse() } else { Ok(()) }
    }

    /// Refuses, where something is latched or the database is being closed: for a writer that
    /// waits.
    pub(crate) fn check_waiting(&self) -> Result<()> {
        if self.is_closing.load(Ordering::Acquire) {
            return Err(Error::invalid_argument("the database is being closed"));
        }
        self.check()
    }

    /// Why a column family is not compacted any more, if there is one.
    pub(crate) fn stopped_compaction(&self) -> Option<Error> {
        self.stopped_compaction.lock().clone()
    }

    /// Says why a column family is not compacted any more, or that all are.
    pub(crate) fn set_stopped_compaction(&self, error: Option<Error>) {
        *self.stopped_compaction.lock() = error;
    }

    /// Lets writers that wait give up.
    pub(crate) fn begin_closing(&self) {
        self.is_closing.store(true, Ordering::Release);
    }

    #[cold]
    fn refuse(&self) -> Result<()> {
        match &*self.lock() {
            Some((FailedPart::Closed, error)) => Err(error.clone()),
            Some((_, error)) => Err(error.clone().while_doing("writes are refused after an error")),
            None => Ok(()),
        }
    }

    /// Refuses writes from now on. Of several failures the one stays that asks for most before they
    /// can go on, and of such the first.
    pub(crate) fn latch(&self, part: FailedPart, error: Error) {
        let mut latched = self.lock();
        if latched.as_ref().is_none_or(|(first, _)| *first < part) {
            *latched = Some((part, error));
        }
        self.is_latched.store(true, Ordering::Release);
    }

    /// Refuses writes for good: the database is closed.
    pub(crate) fn close(&self) {
        let error = Error::invalid_argument("the database was closed");
        *self.lock() = Some((FailedPart::Closed, error));
        self.is_latched.store(true, Ordering::Release);
    }

    /// What is latched.
    pub(crate) fn latched(&self) -> Option<(FailedPart, Error)> {
        self.lock().clone()
    }

    /// The failure that is latched, if there is one.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.latched().filter(|(part, _)| *part != FailedPart::Closed).map(|(_, error)| error)
    }

    /// Whether going on is possible without reopening.
    pub(crate) fn can_resume(part: FailedPart, error: &Error) -> bool {
        match part {
            FailedPart::Log => error.kind() == ErrorKind::NoSpace,
            FailedPart::Flush | FailedPart::Compaction | FailedPart::Manifest => true,
            FailedPart::MemTable | FailedPart::Closed => false,
        }
    }

    /// Lets writes go on.
    pub(crate) fn clear(&self) {
        let mut latched = self.lock();
        *latched = None;
        self.is_latched.store(false, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, Option<(FailedPart, Error)>> {
        self.latched.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_failure_stays_that_asks_for_most() {
        let errors = ErrorState::default();
        let latched = || errors.latched().map(|(part, error)| (part, error.to_string()));
        errors.latch(FailedPart::Flush, Error::invalid_argument("a table"));
        errors.latch(FailedPart::Log, Error::invalid_argument("a log"));
        errors.latch(FailedPart::Log, Error::invalid_argument("a log again"));
        errors.latch(FailedPart::Compaction, Error::invalid_argument("another table"));
        let (part, error) = latched().expect("something failed");
        assert_eq!(part, FailedPart::Log);
        assert!(error.ends_with("a log"), "{error}");
    }
}
