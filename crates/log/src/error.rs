//! Errors, classified by what the caller must do.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_format as format;
use tailwater_io as io;

/// The kind of an [`Error`], which says what the caller must do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Bytes on disk do not match their checksum, or contradict other bytes, or a file that the log
    /// needs is missing. Restore the file.
    Corruption,
    /// The call, an option or a batch is invalid. Fix the call.
    InvalidArgument,
    /// The stream, topic, partition or offset does not exist, or was deleted.
    NotFound,
    /// The name or id is already in use, or a file that the log did not create has the name of a
    /// file that the log needs.
    AlreadyExists,
    /// The directory or file needs a feature that this version does not have.
    NotSupported,
    /// The disk or a quota is full. Free space; the log then resumes on its own.
    NoSpace,
    /// The process or the system has no free file descriptor. Close files, or raise the limit; the
    /// log then resumes on its own.
    OutOfDescriptors,
    /// The data not yet persisted has reached its limit, or a command that changes files is in
    /// progress. Wait until data has been persisted or the command has ended, then repeat the call.
    Full,
    /// Another process or another handle has the log open. Try again later.
    Busy,
    /// A system call failed for another reason. Open the log again.
    Io,
    /// The log has been closed.
    Closed,
    /// Code panicked, either the user's or the log's own. If a partition's error has this kind, the
    /// partition refuses appends until the log is opened again or the partition is purged. Unless
    /// the user's code panicked, for example a storage, the panic is a bug: report it.
    Panicked,
    /// An invariant was violated, which is a bug. Report it.
    Internal,
}

/// A failed operation: its kind, a message and, if known, the file and the offset in it.
///
/// Errors are cheap to clone, because one failure can fail many appends.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

#[derive(Debug, Clone)]
struct Inner {
    kind: ErrorKind,
    message: String,
    path: Option<PathBuf>,
    offset: Option<u64>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

/// The result of a call to the log.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Creates an error that concerns no file.
    #[cold]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let message = message.into();
        Self(Arc::new(Inner { kind, message, path: None, offset: None, source: None }))
    }

    /// Creates the error for an invalid call, option or batch.
    #[cold]
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgument, message)
    }

    /// Creates the error for something that does not exist.
    #[cold]
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    /// Creates the error for a call on a partition that was deleted.
    #[cold]
    pub(crate) fn deleted(partition: impl fmt::Display) -> Self {
        Self::not_found(format!("{partition} was deleted"))
    }

    /// Creates the error for a call on something that has been closed.
    #[cold]
    pub(crate) fn closed(what: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Closed, format!("{what} was closed"))
    }

    /// Creates the error for a file that would have to be replaced, although the log did not create
    /// it.
    #[cold]
    pub(crate) fn in_the_way(path: &Path) -> Self {
        let message = "the file exists, although this log did not create it: make sure that no \
                       other process uses the directory, move the file away, and open the log again";
        let mut error = Self::new(ErrorKind::AlreadyExists, message);
        Arc::make_mut(&mut error.0).path = Some(path.to_owned());
        error
    }

    /// Creates the error for damage in a file, at an offset in bytes.
    #[cold]
    pub(crate) fn corruption(path: &Path, offset: u64, message: impl Into<String>) -> Self {
        Self(Arc::new(Inner {
            kind: ErrorKind::Corruption,
            message: message.into(),
            path: Some(path.to_owned()),
            offset: Some(offset),
            source: None,
        }))
    }

    /// Creates the error for a thread that the system did not start.
    #[cold]
    pub(crate) fn no_thread(error: std::io::Error) -> Self {
        let mut failed = Self::new(ErrorKind::Io, error.to_string());
        Arc::make_mut(&mut failed.0).source = Some(Arc::new(error));
        failed
    }

    /// Converts the error of a decoder. The decoded bytes begin at offset `base` of the file
    /// `path`.
    #[cold]
    pub(crate) fn decoding(path: &Path, base: u64, error: format::Error) -> Self {
        match error.at(base) {
            format::Error::Corruption { what, offset, expected, found } => Self::corruption(
                path,
                offset,
                format!("corrupt {what}: expected {expected}, found {found}"),
            ),
            error @ format::Error::Unsupported { .. } => {
                let mut inner = Self::new(ErrorKind::NotSupported, error.to_string());
                Arc::make_mut(&mut inner.0).path = Some(path.to_owned());
                inner
            }
        }
    }

    /// Converts the error of a storage call on a file or directory that must exist: if it is
    /// missing, the kind is [`ErrorKind::Corruption`].
    #[cold]
    pub(crate) fn on_required(error: io::Error) -> Self {
        let is_missing = error.is_not_found();
        let mut converted = Self::from(error);
        if is_missing {
            Arc::make_mut(&mut converted.0).kind = ErrorKind::Corruption;
            return converted.while_doing("the file is missing");
        }
        converted
    }

    /// Puts a description of the operation that failed in front of the message.
    #[must_use]
    pub(crate) fn while_doing(mut self, what: impl fmt::Display) -> Self {
        let inner = Arc::make_mut(&mut self.0);
        inner.message = format!("{what}: {}", inner.message);
        self
    }

    /// Returns the error with a kind that says that the log does not retry. The kinds
    /// [`ErrorKind::NoSpace`] and [`ErrorKind::OutOfDescriptors`] become [`ErrorKind::Io`], because
    /// they tell callers that the log resumes on its own. Other kinds do not change.
    #[must_use]
    pub(crate) fn into_final(mut self) -> Self {
        if matches!(self.kind(), ErrorKind::NoSpace | ErrorKind::OutOfDescriptors) {
            Arc::make_mut(&mut self.0).kind = ErrorKind::Io;
        }
        self
    }

    /// Returns the error with the kind [`ErrorKind::Busy`], because another process may have caused
    /// it by changing files.
    #[must_use]
    pub(crate) fn into_busy(mut self) -> Self {
        Arc::make_mut(&mut self.0).kind = ErrorKind::Busy;
        self.while_doing("another process changed the files whenever they were read")
    }

    /// Returns the error's kind.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the message, without the file's path.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the file that the error concerns; `None` if it concerns none.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// Returns the offset of the failure in the file [`Self::path`], in bytes; `None` if unknown.
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }

    /// Returns whether a file could not be created because it exists.
    pub(crate) fn is_about_existing(&self) -> bool {
        self.io_error().is_some_and(|error| error.kind() == std::io::ErrorKind::AlreadyExists)
    }

    /// Returns the operating system's error that caused this one, if a system call failed.
    pub fn io_error(&self) -> Option<&std::io::Error> {
        let source = self.0.source.as_deref()?;
        match source.downcast_ref::<io::Error>() {
            Some(error) => Some(&error.source),
            None => source.downcast_ref(),
        }
    }

    /// Returns the number (`errno`) of the operating system's error that caused this one, if a
    /// system call failed.
    pub fn raw_os_error(&self) -> Option<i32> {
        self.io_error()?.raw_os_error()
    }
}

impl From<io::Error> for Error {
    /// Converts the error of a storage call. A missing file does not become
    /// [`ErrorKind::NotFound`]: that kind concerns what a caller names, such as a partition, and
    /// not the log's own files.
    #[cold]
    fn from(error: io::Error) -> Self {
        let kind = match () {
            () if error.is_panic() => ErrorKind::Panicked,
            () if error.is_no_space() => ErrorKind::NoSpace,
            () if error.is_out_of_descriptors() => ErrorKind::OutOfDescriptors,
            () if error.is_unsupported() => ErrorKind::NotSupported,
            () if error.is_locked() => ErrorKind::Busy,
            () => ErrorKind::Io,
        };
        Self(Arc::new(Inner {
            kind,
            message: error.message(),
            path: Some(error.path.clone()),
            offset: error.offset,
            source: Some(Arc::new(error)),
        }))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.0.path {
            write!(f, "{}", path.display())?;
            if let Some(offset) = self.0.offset {
                write!(f, " at offset {offset}")?;
            }
            f.write_str(": ")?;
        }
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl std::error::Error for Error {
    /// Returns the error that caused this one, if any. For a failed storage call it is a
    /// [`tailwater_io::Error`], whose own source is the operating system's error.
    /// [`Error::message`] includes the text of the returned error.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}
