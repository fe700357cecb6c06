//! The real disk. Each operation is a plain system call on the calling thread.
//!
//! Every read and write names its offset. Descriptors are not inherited by other programs
//! (`O_CLOEXEC`). A call that is interrupted by a signal is repeated.
//!
//! When Linux refuses direct I/O on a new file, it has already created the file. With
//! [`crate::Create::New`] the file is removed again; with [`crate::Create::Truncate`] an empty file
//! may remain.

mod file;
mod lock;
mod storage;
pub(crate) mod system;

pub use storage::PosixStorage;
