//! The real disk, through plain system calls on the calling thread.
//!
//! Every transfer names its offset, descriptors are not inherited by other programs (`O_CLOEXEC`),
//! and a call that was interrupted by a signal is repeated.
//!
//! Linux supports all of [`crate::Storage`]; elsewhere direct I/O is refused, and reserving space
//! and starting writeback do nothing. Linux creates a file before it refuses direct I/O on it: a
//! file created by [`crate::Create::New`] is removed again, while [`crate::Create::Truncate`] may
//! leave a new empty file.

mod file;
mod lock;
mod storage;
pub(crate) mod system;

pub use storage::PosixStorage;
