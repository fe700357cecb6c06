//! Files and how bytes reach them.
//!
//! Everything above this crate reaches the disk through [`Storage`], and says of every open, read and write why the
//! bytes move ([`Purpose`]); the I/O mode is chosen from that here and nowhere else. [`Storage`] has two homes: the
//! real disk ([`posix`]) and a simulated one ([`sim`]) that fails, tears and loses on demand.

pub mod buffer;
pub mod clock;
mod error;
mod histogram;
pub mod posix;
pub mod purpose;
pub mod sim;
pub mod statistics;
pub mod storage;
pub mod stream;
mod sync;
pub mod thread;

pub use clock::Clock;
pub use error::{Error, Operation, Result};
pub use histogram::Latencies;
pub use purpose::{IoMode, Purpose};
pub use statistics::Statistics;
pub use storage::{Create, DirectoryEntry, FileLock, FileMetadata, ReadFile, Storage, WriteFile};
