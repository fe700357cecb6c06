//! The storage of a database's files.
//!
//! [`PosixStorage`] is the system's file system, and the default. To keep the files elsewhere, or
//! to observe or limit what the engine does with them, implement [`Storage`] and pass it to
//! [`OpenOptions::with_storage`](crate::OpenOptions::with_storage). `examples/quota.rs` shows a
//! storage that limits the bytes written.
//!
//! A [`DescriptorBudget`] limits the number of open files of all databases in a process, see
//! [`OpenOptions::set_descriptor_budget`](crate::OpenOptions::set_descriptor_budget).
//!
//! The types are those of crate `tailwater-io`. Its feature `sim` adds a simulated disk, with which
//! an application can test what a power cut leaves of its database.

#[doc(inline)]
pub use tailwater_io::buffer::AlignedBuffer;
#[doc(inline)]
pub use tailwater_io::pace::{OpType, Priority};
#[doc(inline)]
pub use tailwater_io::posix::PosixStorage;
#[doc(inline)]
pub use tailwater_io::{
    Capabilities, Create, DescriptorBudget, DirectIo, DirectoryEntry, Error, FileIdentity,
    FileLock, FileMetadata, IoMode, ListedEntry, Operation, Purpose, ReadFile, Result, Statistics,
    Storage, WriteFile,
};
