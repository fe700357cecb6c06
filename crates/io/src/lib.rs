//! Files and how bytes reach them.
//!
//! Everything above this crate reaches the disk through [`Storage`], and says of every open, read and write why the
//! bytes move ([`Purpose`]); the I/O mode is chosen from that here and nowhere else. [`Storage`] has two homes: the
//! real disk ([`posix`]) and a simulated one ([`sim`]) that fails, tears and loses on demand.

mod error;
pub mod purpose;
pub mod storage;

pub use error::{Error, Operation, Result};
pub use purpose::{IoMode, Purpose};
pub use storage::{Create, DirectoryEntry, FileLock, FileMetadata, ReadFile, Storage, WriteFile};
