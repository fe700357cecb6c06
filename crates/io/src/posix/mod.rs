//! The real disk, through plain system calls on the calling thread.
//!
//! Every transfer names its offset, descriptors are not inherited by other programs (`O_CLOEXEC`),
//! and a call that a signal can interrupt is made again when one did.
//!
//! On Linux all of [`crate::Storage`] is there; elsewhere direct I/O is refused, and reserving
//! space and starting writeback do nothing. Linux makes a file before it refuses direct I/O on it:
//! what [`crate::Create::New`] made is removed again, while [`crate::Create::Truncate`] may leave
//! an empty file that was not there before.

mod file;
mod lock;
mod storage;
pub(crate) mod system;

pub use storage::PosixStorage;
