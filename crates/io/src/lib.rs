//! File I/O.
//!
//! Everything above this crate reaches the disk through [`Storage`], and states the reason for
//! every open, read and write ([`Purpose`]); the I/O mode is chosen from it only here. [`Storage`]
//! has two implementations: the real disk ([`posix`]) and a simulated one ([`sim`]) that fails,
//! tears and loses writes on demand.
//!
//! [`stream`] builds on it to read and write files front to back with requests in flight, using
//! aligned memory in bounded pools ([`buffer`]), a rate limit ([`pace`]), and a limit on requests
//! in flight while users wait ([`foreground`]). [`kernel`] reports the effect on page cache, device
//! and processor. The crate is also the only source of time ([`clock`]) and threads ([`thread`]),
//! and decides the capacity of caches that size themselves ([`sizing`]).

pub mod buffer;
pub mod clock;
mod descriptors;
mod error;
pub mod foreground;
mod histogram;
mod host;
pub mod kernel;
pub mod pace;
pub mod posix;
pub mod probe;
pub mod purpose;
mod shards;
pub mod shared_memory;
pub mod sim;
pub mod sizing;
pub mod statistics;
pub mod storage;
pub mod stream;
pub mod sync;
pub mod thread;

pub use clock::Clock;
pub use descriptors::{Exhausted, open_files_max, set_relief};
pub use error::{Error, Operation, Result};
pub use foreground::Foreground;
pub use histogram::Latencies;
pub use host::{boot_id, host_name, release_free_memory};
pub use purpose::{IoMode, Purpose};
pub use shared_memory::SharedMemory;
pub use statistics::Statistics;
pub use storage::{
    Capabilities, Create, DirectIo, DirectoryEntry, FileIdentity, FileLock, FileMetadata,
    ListedEntry, ReadFile, Storage, WriteFile,
};
