//! The engine's errors, classified by what the caller must do about them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tailwater_format as format;
use tailwater_io as io;

use crate::options;

/// The kind of an [`Error`], which determines what the caller must do.
///
/// ```
/// # fn main() -> tailwater::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// # let directory = directory.path();
/// use tailwater::{Db, ErrorKind, OpenOptions};
///
/// match Db::open_read_only(directory.join("nothing"), &OpenOptions::default()) {
///     Err(error) if error.kind() == ErrorKind::NotFound => println!("create it first: {error}"),
///     Err(error) if error.kind() == ErrorKind::Corruption => println!("restore it: {error}"),
///     other => drop(other?),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Bytes on disk do not match their checksum or contradict each other: restore the file, from a
    /// copy.
    Corruption,
    /// The call or an option is wrong: correct it.
    InvalidArgument,
    /// A database, column family or file does not exist.
    NotFound,
    /// The data or an option needs a feature that this version lacks: the call was refused before
    /// it changed anything.
    NotSupported,
    /// The disk or quota is full: free space, then try again.
    NoSpace,
    /// The space that the [`SstFileManager`](crate::SstFileManager) allows is taken up: raise its
    /// limit, or remove data. Writes resume by themselves.
    SpaceLimit,
    /// A compaction was not started, because it could exceed the space that the
    /// [`SstFileManager`](crate::SstFileManager) allows: raise its limit, or remove data.
    CompactionTooLarge,
    /// A limit of the file format is reached, and nothing was changed. If it is the highest
    /// sequence number, reads continue: copy the data into a new database to write more. If it is
    /// the length of the value to which the operands of one key merge, only reads of this key fail:
    /// overwrite or delete the key.
    LimitReached,
    /// A cache with a strict capacity limit has no room for what the call needs: close iterators,
    /// or release values that are held without a copy, then try again, or give the cache more
    /// capacity.
    MemoryLimit,
    /// Another process or handle holds a resource that the call needs: try again later.
    Busy,
    /// A system call failed for a reason that no other kind of error covers.
    Io,
    /// A merge operator reported a failure, so the key that was read has no value.
    UserCode,
    /// The work was cancelled on request: nothing is wrong.
    Cancelled,
    /// Code panicked, either the user's or the database's own. If the message names an object of
    /// the user, fix the object's code, then resume or reopen as the message says. If the message
    /// names none, the panic is a bug: report it.
    Panicked,
    /// The database was closed or is being closed: open it again.
    Closed,
    /// The handle is read-only: open the database for writing.
    ReadOnly,
    /// The engine found a state that its own invariants exclude, which is a bug: report it. Whether
    /// the call took effect is unknown.
    Internal,
}

/// A failed operation: its kind, a message, and the file and the offset in it if known.
///
/// It is one pointer wide, so that results stay small.
///
/// ```
/// # fn main() -> tailwater::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// # let directory = directory.path();
/// use std::error::Error as _;
/// use tailwater::{Db, ErrorKind};
///
/// // A directory cannot be created below a file.
/// let file = directory.join("file");
/// std::fs::write(&file, "").expect("a file");
/// let error = Db::open_default(file.join("db")).expect_err("no directory");
/// assert_eq!(error.kind(), ErrorKind::Io);
/// assert!(error.raw_os_error().is_some() && error.source().is_some());
/// assert!(error.path().is_some_and(|path| path.starts_with(&file)));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Debug, Clone)]
struct Inner {
    kind: ErrorKind,
    message: String,
    path: Option<PathBuf>,
    offset: Option<u64>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

/// The result of an engine call.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Creates an error of the given kind that is not about a file.
    #[cold]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let message = message.into();
        Self(Box::new(Inner { kind, message, path: None, offset: None, source: None }))
    }

    /// Creates the error for a wrong call or option.
    #[cold]
    pub fn invalid_argument(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgument, message)
    }

    /// Creates the error for a request for an unsupported feature.
    #[cold]
    pub fn not_supported(feature: impl fmt::Display) -> Self {
        Self::new(ErrorKind::NotSupported, format!("not supported: {feature}"))
    }

    /// Creates the error for a call on a closed database.
    #[cold]
    pub(crate) fn closed() -> Self {
        Self::new(ErrorKind::Closed, "the database was closed")
    }

    /// Creates the error for a write on a read-only handle.
    #[cold]
    pub(crate) fn read_only() -> Self {
        Self::new(ErrorKind::ReadOnly, "the database was opened for reading only")
    }

    /// Creates the error for a write that fails because no sequence number is left.
    #[cold]
    pub(crate) fn no_sequence_left() -> Self {
        let message = "every sequence number has been used: copy the data into a new database";
        Self::new(ErrorKind::LimitReached, message)
    }

    /// Creates the error for a read of a block for which a cache with a strict capacity limit has
    /// no room. The message is RocksDB's.
    #[cold]
    pub(crate) fn cache_full() -> Self {
        Self::new(ErrorKind::MemoryLimit, "Insert failed due to LRU cache being full.")
    }

    /// Creates the error for a violated invariant of the engine.
    #[cold]
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }

    /// Creates the error for a column family that is missing from the set of current versions.
    #[cold]
    pub(crate) fn lost_version(family: &str) -> Self {
        Self::internal(format!("column family '{family}' has no version"))
    }

    /// Creates the error for a thread that the system failed to start.
    #[cold]
    pub(crate) fn no_thread(error: std::io::Error) -> Self {
        Self::new(ErrorKind::Io, error.to_string()).caused_by(error)
    }

    /// Creates the error for damage to a file, if the damage has no particular offset in the file.
    #[cold]
    pub fn corruption(path: &Path, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corruption, message).in_file(path)
    }

    /// Creates the error for damage at an offset in a file, in bytes.
    #[cold]
    pub(crate) fn corruption_at(path: &Path, offset: u64, message: impl Into<String>) -> Self {
        let mut error = Self::corruption(path, message);
        error.0.offset = Some(offset);
        error
    }

    /// Converts a decoder's error. The decoded bytes begin at offset `base` of the file `path`.
    #[cold]
    pub(crate) fn decoding(path: &Path, base: u64, error: format::Error) -> Self {
        match error.at(base) {
            format::Error::Corruption { what, offset, expected, found } => Self::corruption_at(
                path,
                offset,
                format!("corrupt {what}: expected {expected}, found {found}"),
            ),
            error @ format::Error::Unsupported { .. } => {
                Self::new(ErrorKind::NotSupported, error.to_string()).in_file(path)
            }
        }
    }

    /// Attaches a file's path to the error, unless the error already has one.
    #[must_use]
    pub(crate) fn in_file(mut self, path: &Path) -> Self {
        self.0.path.get_or_insert_with(|| path.to_owned());
        self
    }

    /// Prefixes the message with a description of the operation that failed.
    #[must_use]
    pub(crate) fn while_doing(mut self, what: impl fmt::Display) -> Self {
        self.0.message = format!("{what}: {}", self.0.message);
        self
    }

    /// Appends `more` to the message.
    #[must_use]
    pub(crate) fn followed_by(mut self, more: &str) -> Self {
        self.0.message.push_str(": ");
        self.0.message.push_str(more);
        self
    }

    /// Attaches the error that caused this one.
    #[must_use]
    pub(crate) fn caused_by(
        mut self,
        source: impl std::error::Error + Send + Sync + 'static,
    ) -> Self {
        self.0.source = Some(Arc::new(source));
        self
    }

    /// Returns the kind, which determines what the caller must do.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the message, without the file's path.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the path of the file, if the error concerns one.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// Returns the offset in the file, in bytes, if known.
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
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

    /// Whether bytes on disk are damaged.
    pub fn is_corruption(&self) -> bool {
        self.0.kind == ErrorKind::Corruption
    }

    /// Whether a database, column family or file did not exist.
    pub fn is_not_found(&self) -> bool {
        self.0.kind == ErrorKind::NotFound
    }

    /// Whether the disk was full or no file descriptor was left. After such an error, the database
    /// retries its own work.
    pub(crate) fn is_shortage(&self) -> bool {
        self.kind() == ErrorKind::NoSpace || self.is_out_of_descriptors()
    }

    /// Returns the name of the resource that was lacking, for messages. To be used only if
    /// [`Error::is_shortage`] returns true.
    pub(crate) fn lacking(&self) -> &'static str {
        if self.is_out_of_descriptors() { "descriptor for another file" } else { "space" }
    }

    /// Whether the process or the system is at its limit of open files. Nothing is damaged: retry
    /// the call once files are closed or the limit is raised.
    pub fn is_out_of_descriptors(&self) -> bool {
        let source = self.0.source.as_deref();
        source
            .and_then(|source| source.downcast_ref::<io::Error>())
            .is_some_and(io::Error::is_out_of_descriptors)
    }

    /// Whether the system refused access to a file.
    pub(crate) fn is_permission_denied(&self) -> bool {
        self.io_error().is_some_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
    }
}

/// Returns a key for a message, with escapes. The end of a long key is left out.
#[cold]
pub(crate) fn key_text(user_key: &[u8]) -> String {
    /// Number of bytes of a key that are shown.
    const SHOWN: usize = 128;
    match user_key.split_at_checked(SHOWN) {
        Some((shown, rest)) if !rest.is_empty() => {
            format!("{}... ({} bytes)", shown.escape_ascii(), user_key.len())
        }
        _ => user_key.escape_ascii().to_string(),
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
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

impl std::error::Error for Error {
    /// Returns the error that caused this one, if any. For a failed storage call it is a
    /// [`tailwater_io::Error`], whose own source is the operating system's error.
    /// [`Error::message`] includes the text of the returned error.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

impl From<format::Error> for Error {
    /// Converts an error of a [`WriteBatch`](crate::WriteBatch). A record that the batch refuses is
    /// an invalid argument. Errors from decoding a file are converted elsewhere, so that they name
    /// the file.
    fn from(error: format::Error) -> Self {
        let kind = match &error {
            format::Error::Corruption { .. } => ErrorKind::Corruption,
            format::Error::Unsupported { .. } => ErrorKind::InvalidArgument,
        };
        Self::new(kind, error.to_string()).caused_by(error)
    }
}

impl From<options::Error> for Error {
    /// Converts an error about an option: an option that needs a missing feature is not supported,
    /// any other is an invalid argument.
    fn from(error: options::Error) -> Self {
        let kind = match &error.problem {
            options::Problem::Refused { .. } => ErrorKind::NotSupported,
            _ => ErrorKind::InvalidArgument,
        };
        Self::new(kind, error.to_string()).caused_by(error)
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        let kind = if error.is_panic() {
            ErrorKind::Panicked
        } else if error.is_not_found() {
            ErrorKind::NotFound
        } else if error.is_no_space() {
            ErrorKind::NoSpace
        } else if error.is_locked() {
            ErrorKind::Busy
        } else {
            ErrorKind::Io
        };
        Self(Box::new(Inner {
            kind,
            message: error.message(),
            path: Some(error.path.clone()),
            offset: error.offset,
            source: Some(Arc::new(error)),
        }))
    }
}
