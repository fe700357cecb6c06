//! Errors from storage calls, with the path and the offset of the call.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::descriptors::open_files_max;

/// The operation of a storage call that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Operation {
    /// The call opens an existing file.
    Open,
    /// The call creates a file.
    Create,
    /// The call reads.
    Read,
    /// The call writes.
    Write,
    /// The call reserves space for a file.
    Allocate,
    /// The call changes a file's length.
    Truncate,
    /// The call makes a file's bytes durable.
    Sync,
    /// The call starts the writeback of cached bytes without waiting for its end.
    StartWriteback,
    /// The call makes a directory's entries durable.
    SyncDirectory,
    /// The call renames a file or directory.
    Rename,
    /// The call removes a file or directory.
    Remove,
    /// The call creates a hard link to a file.
    Link,
    /// The call lists a directory.
    List,
    /// The call creates a directory.
    CreateDirectory,
    /// The call reads a file's length and kind.
    Metadata,
    /// The call changes a file's owner, group or permissions.
    ChangeOwner,
    /// The call takes the lock on a file.
    Lock,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "open",
            Self::Create => "create",
            Self::Read => "read",
            Self::Write => "write",
            Self::Allocate => "allocate",
            Self::Truncate => "truncate",
            Self::Sync => "sync",
            Self::StartWriteback => "start writing back",
            Self::SyncDirectory => "sync directory",
            Self::Rename => "rename",
            Self::Remove => "remove",
            Self::Link => "link",
            Self::List => "list",
            Self::CreateDirectory => "create directory",
            Self::Metadata => "stat",
            Self::ChangeOwner => "chown",
            Self::Lock => "lock",
        })
    }
}

/// A failed storage call: the operation, the file, the offset and the system's error.
#[derive(Debug)]
#[non_exhaustive]
pub struct Error {
    /// The operation that failed.
    pub operation: Operation,
    /// The path of the file or directory.
    pub path: PathBuf,
    /// The offset in the file, in bytes; `None` if the operation has no offset.
    pub offset: Option<u64>,
    /// The system's error.
    pub source: io::Error,
}

/// The source of an [`Error`] that reports a panic of the thread that made the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Panicked;

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the thread that made the call panicked")
    }
}

impl std::error::Error for Panicked {}

/// The result of a call to storage.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Creates the error of a failed call. The error has no file offset.
    #[cold]
    pub fn new(operation: Operation, path: &Path, source: impl Into<io::Error>) -> Self {
        Self { operation, path: path.to_owned(), offset: None, source: source.into() }
    }

    /// Creates the error of a failed call at an offset, in bytes.
    #[cold]
    pub fn at(
        operation: Operation,
        path: &Path,
        offset: u64,
        source: impl Into<io::Error>,
    ) -> Self {
        Self { operation, path: path.to_owned(), offset: Some(offset), source: source.into() }
    }

    /// Creates the error of a call whose thread panicked. `offset` is `None` if the call has no
    /// offset.
    #[cold]
    pub(crate) fn panicked(operation: Operation, path: &Path, offset: Option<u64>) -> Self {
        Self { operation, path: path.to_owned(), offset, source: io::Error::other(Panicked) }
    }

    /// Returns a copy of this error. If a failure leaves an object unusable, later calls on the
    /// object return copies of the first error.
    #[cold]
    #[must_use]
    pub fn duplicate(&self) -> Self {
        let source = match self.source.raw_os_error() {
            Some(code) => io::Error::from_raw_os_error(code),
            None if self.is_panic() => io::Error::other(Panicked),
            None => io::Error::new(self.source.kind(), self.source.to_string()),
        };
        Self { operation: self.operation, path: self.path.clone(), offset: self.offset, source }
    }

    /// Returns whether the call failed because its thread panicked, and not because of the system.
    pub fn is_panic(&self) -> bool {
        self.source.get_ref().is_some_and(|source| source.is::<Panicked>())
    }

    /// Returns whether the filesystem does not support the operation. Usually the operation is
    /// direct I/O.
    pub fn is_unsupported(&self) -> bool {
        self.source.kind() == io::ErrorKind::Unsupported
    }

    /// Returns whether the file or directory does not exist.
    pub fn is_not_found(&self) -> bool {
        self.source.kind() == io::ErrorKind::NotFound
    }

    /// Returns whether another lock on the file is held.
    pub fn is_locked(&self) -> bool {
        self.operation == Operation::Lock && self.source.kind() == io::ErrorKind::WouldBlock
    }

    /// Returns whether the process, or the whole system, has reached its limit on open files.
    pub fn is_out_of_descriptors(&self) -> bool {
        let errors = [Errno::MFILE, Errno::NFILE].map(|error| Some(error.raw_os_error()));
        errors.contains(&self.source.raw_os_error())
    }

    /// Returns the text of this error without the file's path and the offset.
    pub fn message(&self) -> String {
        let limit = self.limit().map_or_else(String::new, |limit| format!(": {limit}"));
        format!("cannot {}: {}{limit}", self.operation, self.source)
    }

    /// Returns a description of the limit on open files that made the call fail; `None` if the call
    /// failed for another reason.
    pub fn limit(&self) -> Option<String> {
        match Errno::from_io_error(&self.source) {
            Some(Errno::MFILE) => Some(format!(
                "this process may have at most {} open files (RLIMIT_NOFILE, `ulimit -n`)",
                open_files_max()
            )),
            Some(Errno::NFILE) => {
                Some("the system has reached its limit on open files (fs.file-max)".to_owned())
            }
            _ => None,
        }
    }

    /// Returns whether the disk or the quota is full. If so, a retry may succeed after space is
    /// freed.
    pub fn is_no_space(&self) -> bool {
        matches!(self.source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {}", self.operation, self.path.display())?;
        if let Some(offset) = self.offset {
            write!(f, " at offset {offset}")?;
        }
        write!(f, ": {}", self.source)?;
        self.limit().map_or(Ok(()), |limit| write!(f, ": {limit}"))
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_out_of_open_files_names_the_limit() {
        let path = Path::new("/file");
        let failed = |errno: Errno| Error::new(Operation::Open, path, errno);
        for (errno, limit) in [(Errno::MFILE, "RLIMIT_NOFILE"), (Errno::NFILE, "fs.file-max")] {
            let error = failed(errno);
            assert!(error.is_out_of_descriptors() && error.to_string().contains(limit), "{error}");
        }
        let other = failed(Errno::NOENT);
        assert!(!other.is_out_of_descriptors() && other.limit().is_none());
    }

    #[test]
    fn a_duplicate_has_the_same_kind() {
        let path = Path::new("/file");
        let full = Error::new(Operation::Write, path, io::ErrorKind::StorageFull);
        assert!(full.duplicate().is_no_space() && !full.duplicate().is_panic());
        let refused = Error::at(Operation::Write, path, 7, io::Error::from_raw_os_error(28));
        assert_eq!(refused.duplicate().source.raw_os_error(), Some(28));
        let panicked = Error::panicked(Operation::Write, path, None);
        assert!(panicked.duplicate().is_panic());
        assert_eq!(panicked.duplicate().to_string(), panicked.to_string());
    }
}
