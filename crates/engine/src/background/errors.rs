//! Failures that stop writes.
//!
//! | where | a shortage | another failure | how it ends |
//! |---|---|---|---|
//! | log | latched | latched | a shortage: `resume` flushes and begins a new log; else reopening |
//! | flush | retried after growing pauses | latched | `resume` |
//! | compaction | likewise | `Io`: retried once, then latched; else latched | `resume` |
//! | damage in a compaction's inputs | - | the column family is no longer compacted | `resume` |
//! | a violated contract | - | no failure: it is reported, see [`crate::contracts`] | - |
//! | MANIFEST | latched | latched | `resume` writes a new one |
//! | memtable | - | latched | reopening |
//! | upkeep | - | a panic: latched | `resume` |
//! | installation | - | a panic: latched | reopening |
//! | LOCK | - | removed or replaced: latched | reopening |
//!
//! A compaction is retried only if it failed while tables were read or written, not if its outputs
//! cannot be opened.
//!
//! A shortage is a lack of space or of descriptors. What is retried after a shortage is not latched
//! ([`super::Retries`]): its error ends the waits for this work. After a shortage of descriptors
//! that is latched, the database resumes on its own. A failure is not latched if the state on disk
//! is certain: for example, if a new log or MANIFEST cannot be created, the old one is unchanged.
//!
//! Upkeep is background work that nobody waits for: removing files, preallocating logs, writing
//! statistics. Installation is the step in which an edit that is in the MANIFEST becomes visible to
//! readers.
//!
//! A panic in background work is a failure of that work, with its own error kind. It is reported
//! like any other failure. A panic in a manual compaction is reported only to the caller of that
//! compaction. In a compaction, a panic of a merge operator or compaction filter is a violated
//! contract.
//!
//! The log set and the version set also store their own failure. While it is set, nothing is
//! written to a log or MANIFEST whose contents are uncertain, until `resume` begins a new one. The
//! failure stored here refuses writes to the whole database.
//!
//! While a failure is latched, no write is acknowledged; reads continue. Refused callers get the
//! original error, with its kind, file and source. `docs/errors.md` describes all this for users.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicBool, Ordering};

use tailwater_io::sync::Mutex;

use crate::error::{Error, ErrorKind, Result};

/// The part of the database that failed. The variants are ordered: the later a variant, the more is
/// required before writes can resume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FailedPart {
    /// Work that nobody waits for: removing files, preallocating logs, writing statistics.
    Upkeep,
    Compaction,
    Flush,
    Manifest,
    Log,
    /// Installing a version with added or removed files. The MANIFEST may already record the
    /// change, although the version in memory does not have it yet.
    Installation,
    MemTable,
    /// A lock of the database, which was removed or replaced.
    Lock,
}

impl fmt::Display for FailedPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Log => "the write-ahead log failed",
            Self::Flush => "a flush failed",
            Self::Compaction => "a compaction failed",
            Self::Manifest => "the MANIFEST failed",
            Self::MemTable => "a memtable failed",
            Self::Lock => "the database is no longer locked",
            Self::Installation => "a change was only partly installed",
            Self::Upkeep => "upkeep failed",
        })
    }
}

/// The failures that make the database refuse writes.
#[derive(Debug, Default)]
pub(crate) struct ErrorState {
    /// Whether writes are refused, because a failure is latched or the database was closed. Writers
    /// check this flag without taking a lock.
    refuses: AtomicBool,
    latched: Mutex<Latched>,
    is_closed: AtomicBool,
    /// The errors that stopped compactions of column families, by the ID of the column family.
    stopped_compactions: Mutex<BTreeMap<u32, Error>>,
    /// Whether waiting writers must stop waiting, because the database is being closed.
    is_closing: AtomicBool,
}

/// The latched failure.
#[derive(Debug, Default)]
struct Latched {
    failure: Option<(FailedPart, Error)>,
    /// Number of failures latched so far. It identifies the current failure.
    number: u64,
    /// Number of attempts to resume that the database made by itself after this failure.
    tries: i32,
}

impl ErrorState {
    /// Returns the error if a failure is latched or the database was closed.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        if self.refuses.load(Ordering::Acquire) { self.refuse() } else { Ok(()) }
    }

    /// Returns the error if a failure is latched after which the current log is never continued. A
    /// write whose batch is already in the log must not fail for another reason: after
    /// [`Self::clear`], the next write in this log would get the same sequence numbers.
    pub(crate) fn check_log(&self) -> Result<()> {
        if !self.refuses.load(Ordering::Acquire) {
            return Ok(());
        }
        match &self.lock().failure {
            Some((part, error)) if *part >= FailedPart::Log => {
                Err(error.clone().while_doing("writes are refused after an error"))
            }
            _ => Ok(()),
        }
    }

    /// Like [`Self::check`], for a waiting writer: returns an error as soon as the database begins
    /// to close.
    pub(crate) fn check_waiting(&self) -> Result<()> {
        if self.is_closing() {
            return Err(Error::closed());
        }
        self.check()
    }

    /// Returns the error that stopped the compactions of the column family with this ID; `None` if
    /// they are not stopped.
    pub(crate) fn stopped_compactions(&self, family: u32) -> Option<Error> {
        self.stopped_compactions.lock().get(&family).cloned()
    }

    /// Stops the compactions of the column family with this ID after an error. If they are already
    /// stopped, the first error is kept.
    pub(crate) fn stop_compactions(&self, family: u32, error: Error) {
        self.stopped_compactions.lock().entry(family).or_insert(error);
    }

    /// Allows the compactions of all column families again. Returns whether any were stopped.
    pub(crate) fn allow_compactions(&self) -> bool {
        !std::mem::take(&mut *self.stopped_compactions.lock()).is_empty()
    }

    /// Whether the database is being closed, or was.
    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Acquire)
    }

    /// Makes waiting writers return with an error, because the database is being closed.
    pub(crate) fn begin_closing(&self) {
        self.is_closing.store(true, Ordering::Release);
    }

    #[cold]
    fn refuse(&self) -> Result<()> {
        if self.is_closed.load(Ordering::Acquire) {
            return Err(Error::closed());
        }
        match &self.lock().failure {
            Some((_, error)) => Err(error.clone().while_doing("writes are refused after an error")),
            None => Ok(()),
        }
    }

    /// Refuses writes from now on, because of `error`. If another failure is already latched, the
    /// one that requires more before writes can resume is kept; if both require the same, the first
    /// one is kept. The limit of space requires the least, because writes resume by themselves when
    /// the files take up less. Returns whether `error` is kept.
    pub(crate) fn latch(&self, part: FailedPart, error: Error) -> bool {
        let mut latched = self.lock();
        let requires =
            |part: FailedPart, error: &Error| (error.kind() != ErrorKind::SpaceLimit, part);
        let stays = latched
            .failure
            .as_ref()
            .is_none_or(|(first, latched)| requires(*first, latched) < requires(part, &error));
        if stays {
            let number = latched.number + 1;
            *latched = Latched { failure: Some((part, error)), number, tries: 0 };
        }
        self.refuses.store(true, Ordering::Release);
        stays
    }

    /// Refuses writes permanently, because the database was closed. A latched failure is kept.
    pub(crate) fn close(&self) {
        // A concurrent `clear` could otherwise see the database open and permit writes afterwards.
        let _latched = self.lock();
        self.is_closed.store(true, Ordering::Release);
        self.refuses.store(true, Ordering::Release);
    }

    /// Whether the database was closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// Returns the latched failure.
    pub(crate) fn latched(&self) -> Option<(FailedPart, Error)> {
        self.lock().failure.clone()
    }

    /// Returns the latched failure, and its number for [`ErrorState::clear`].
    pub(crate) fn numbered(&self) -> Option<(FailedPart, Error, u64)> {
        let latched = self.lock();
        latched.failure.clone().map(|(part, error)| (part, error, latched.number))
    }

    /// Whether the database should try to resume by itself after the latched failure. It does so
    /// only if file descriptors were exhausted, and at most `most` times for each failure. If so,
    /// counts an attempt and returns its number, counted from 1.
    pub(crate) fn take_try(&self, most: i32) -> Option<i32> {
        let mut latched = self.lock();
        let is_due = latched.tries < most
            && latched.failure.as_ref().is_some_and(|(part, error)| {
                error.is_out_of_descriptors() && Self::can_resume(*part, error)
            });
        latched.tries += i32::from(is_due);
        is_due.then_some(latched.tries)
    }

    /// Returns the latched error, if there is one.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.latched().map(|(_, error)| error)
    }

    /// Whether writes can resume after this failure without reopening the database.
    pub(crate) fn can_resume(part: FailedPart, error: &Error) -> bool {
        match part {
            FailedPart::Log => error.is_shortage(),
            FailedPart::Upkeep
            | FailedPart::Compaction
            | FailedPart::Flush
            | FailedPart::Manifest => true,
            FailedPart::Installation | FailedPart::MemTable | FailedPart::Lock => false,
        }
    }

    /// Clears the failure with this number. Does nothing if a more severe failure was latched after
    /// it. Returns whether the failure was cleared.
    pub(crate) fn clear(&self, number: u64) -> bool {
        let mut latched = self.lock();
        if latched.number != number {
            return false;
        }
        latched.failure = None;
        self.refuses.store(self.is_closed(), Ordering::Release);
        true
    }

    fn lock(&self) -> MutexGuard<'_, Latched> {
        self.latched.lock()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tailwater_io::Operation;

    use super::*;

    #[test]
    fn the_most_severe_failure_is_kept() {
        let errors = ErrorState::default();
        let latched = || errors.latched().map(|(part, error)| (part, error.to_string()));
        let latches = [
            (FailedPart::Flush, "a table"),
            (FailedPart::Log, "a log"),
            (FailedPart::Log, "a log again"),
            (FailedPart::Compaction, "another table"),
        ]
        .map(|(part, what)| errors.latch(part, Error::invalid_argument(what)));
        assert_eq!(latches, [true, true, false, false]);
        let (part, error) = latched().expect("something failed");
        assert_eq!(part, FailedPart::Log);
        assert!(error.ends_with("a log"), "{error}");
    }

    /// Regression test: after a compaction with an I/O error, writes resumed by themselves if a
    /// flush then reached the limit of space.
    #[test]
    fn the_limit_of_space_replaces_no_failure() {
        let limit = || Error::new(ErrorKind::SpaceLimit, "no space is left");
        let io = || Error::new(ErrorKind::Io, "a broken disk");
        for first_is_limit in [false, true] {
            let errors = ErrorState::default();
            if first_is_limit {
                assert!(errors.latch(FailedPart::Flush, limit()));
            }
            assert!(errors.latch(FailedPart::Compaction, io()));
            assert!(!errors.latch(FailedPart::Flush, limit()));
            let (part, error) = errors.latched().expect("a failure");
            assert_eq!((part, error.kind()), (FailedPart::Compaction, ErrorKind::Io));
        }
    }

    #[test]
    fn a_failure_latched_during_a_repair_is_not_cleared() {
        let errors = ErrorState::default();
        errors.latch(FailedPart::Flush, Error::invalid_argument("a table"));
        let (_, _, number) = errors.numbered().expect("a failure");
        errors.latch(FailedPart::Log, Error::invalid_argument("a log"));
        assert!(!errors.clear(number));
        assert!(errors.check().is_err());
        let (part, _, number) = errors.numbered().expect("a failure");
        assert_eq!(part, FailedPart::Log);
        assert!(errors.clear(number));
        errors.check().expect("nothing is latched");
    }

    #[test]
    fn automatic_resumes_follow_only_descriptor_shortages_and_are_limited() {
        let errors = ErrorState::default();
        assert_eq!(errors.take_try(5), None);
        errors.latch(FailedPart::Flush, Error::new(ErrorKind::NoSpace, "a full disk"));
        assert_eq!(errors.take_try(5), None);
        let shortage = || {
            let cause = std::io::Error::from_raw_os_error(rustix::io::Errno::MFILE.raw_os_error());
            Error::from(tailwater_io::Error::new(Operation::Open, Path::new("/file"), cause))
        };
        errors.latch(FailedPart::Manifest, shortage());
        assert_eq!(errors.take_try(0), None);
        assert_eq!([(); 3].map(|()| errors.take_try(2)), [Some(1), Some(2), None]);
        errors.latch(FailedPart::Log, shortage());
        assert_eq!(errors.take_try(1), Some(1), "another failure is counted anew");
    }

    #[test]
    fn a_closed_database_fails_with_closed_and_keeps_its_failure() {
        let errors = ErrorState::default();
        errors.latch(FailedPart::Flush, Error::new(ErrorKind::NoSpace, "a table"));
        errors.close();
        assert_eq!(errors.check().expect_err("it is closed").kind(), ErrorKind::Closed);
        assert_eq!(errors.failure().map(|error| error.kind()), Some(ErrorKind::NoSpace));
        assert!(errors.clear(1));
        assert_eq!(errors.check().expect_err("it is closed").kind(), ErrorKind::Closed);
        assert!(errors.failure().is_none());
    }
}
