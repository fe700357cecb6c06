//! The failure of a call, in the words of RocksDB's statuses.
//!
//! Source of the words: `util/status.cc` (`Status::ToString`).

use std::ffi::c_char;
use std::fmt;

use tailwater::{Error, ErrorKind, options};

use super::memory::{copy_text, release};

/// The result of the body of a function.
pub(crate) type Outcome<T> = Result<T, Failure>;

/// The class of a failure: a code of RocksDB's `Status`, with its subcode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    NotFound,
    Corruption,
    NotSupported,
    InvalidArgument,
    IoError,
    NoSpace,
    SpaceLimit,
    CompactionTooLarge,
    PathNotFound,
    MergeFailed,
    Incomplete,
    ShutdownInProgress,
    Aborted,
    MemoryLimit,
    TimedOut,
    TryAgain,
}

impl Class {
    /// Returns the beginning of the error string.
    fn words(self) -> &'static str {
        match self {
            Self::NotFound => "NotFound: ",
            Self::Corruption => "Corruption: ",
            Self::NotSupported => "Not implemented: ",
            Self::InvalidArgument => "Invalid argument: ",
            Self::IoError => "IO error: ",
            Self::NoSpace => "IO error: No space left on device: ",
            Self::SpaceLimit => "IO error: Space limit reached: ",
            Self::CompactionTooLarge => "Compaction too large: ",
            Self::PathNotFound => "IO error: No such file or directory: ",
            Self::MergeFailed => "Corruption: Merge operator failed: ",
            Self::Incomplete => "Result incomplete: ",
            Self::ShutdownInProgress => "Shutdown in progress: ",
            Self::Aborted => "Operation aborted: ",
            Self::MemoryLimit => "Operation aborted: Memory limit reached: ",
            Self::TimedOut => "Operation timed out: ",
            Self::TryAgain => "Operation failed. Try again.: ",
        }
    }
}

/// The failure of a call. One pointer wide, so that results stay small.
#[derive(Debug, Clone)]
pub(crate) struct Failure(Box<(Class, String)>);

impl Failure {
    #[cold]
    pub(crate) fn new(class: Class, message: impl Into<String>) -> Self {
        Self(Box::new((class, message.into())))
    }

    #[cold]
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Class::InvalidArgument, message)
    }

    /// Returns the failure of a function, or of the call after a function, that has no
    /// implementation.
    #[cold]
    pub(crate) fn missing(function: &str) -> Self {
        Self::new(Class::NotSupported, format!("{function} is not implemented in Tailwater"))
    }

    /// Returns the same failure with another class.
    pub(crate) fn with_class(mut self, class: Class) -> Self {
        self.0.0 = class;
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (class, message) = &*self.0;
        write!(f, "{}{message}", class.words())
    }
}

impl From<Error> for Failure {
    #[cold]
    fn from(error: Error) -> Self {
        let class = match error.kind() {
            ErrorKind::Corruption => Class::Corruption,
            ErrorKind::InvalidArgument | ErrorKind::LimitReached => Class::InvalidArgument,
            ErrorKind::NotFound if error.raw_os_error().is_some() => Class::PathNotFound,
            ErrorKind::NotFound => Class::NotFound,
            ErrorKind::NotSupported | ErrorKind::ReadOnly => Class::NotSupported,
            ErrorKind::NoSpace => Class::NoSpace,
            ErrorKind::MemoryLimit => Class::MemoryLimit,
            ErrorKind::SpaceLimit => Class::SpaceLimit,
            ErrorKind::CompactionTooLarge => Class::CompactionTooLarge,
            // The lock of a directory that is in use.
            ErrorKind::Busy if error.path().is_some() => Class::IoError,
            // A write that may not wait for the end of a stall.
            ErrorKind::Busy => Class::Incomplete,
            ErrorKind::Io => Class::IoError,
            ErrorKind::UserCode => Class::MergeFailed,
            ErrorKind::Cancelled => Class::Incomplete,
            ErrorKind::Closed => Class::ShutdownInProgress,
            _ => Class::Aborted,
        };
        Self::new(class, error.to_string())
    }
}

impl From<options::Error> for Failure {
    #[cold]
    fn from(error: options::Error) -> Self {
        Error::from(error).into()
    }
}

/// Replaces the error string in `errptr`, and frees the earlier one.
///
/// # Safety
/// `errptr` is null, or points to null or to a string from `malloc`.
#[cold]
pub(crate) unsafe fn replace_error(errptr: *mut *mut c_char, failure: &Failure) {
    if errptr.is_null() {
        return;
    }
    let text = copy_text(&failure.to_string());
    // SAFETY: `errptr` is not null, so it points to null or to a string from `malloc`.
    unsafe {
        release((*errptr).cast());
        *errptr = text;
    }
}
