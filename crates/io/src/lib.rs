//! Files and how bytes reach them.
//!
//! Everything above this crate reaches the disk through [`Storage`], and says of every open, read
//! and write why the bytes move ([`Purpose`]); the I/O mode is chosen from that here and nowhere
//! else. [`Storage`] has two homes: the real disk ([`posix`]) and a simulated one ([`sim`]) that
//! fails, tears and loses on demand.
//!
//! On it stand [`stream`], which reads and writes files front to back with requests in flight, and
//! what that needs: aligned memory in bounded pools ([`buffer`]), a limit on how fast bytes move
//! ([`pace`]), and on how many requests are on their way while users wait ([`foreground`]).
//! [`kernel`] tells what page cache, device and processor made of it. Time ([`clock`]) and threads
//! ([`thread`]) have their one home here too, and so has the capacity of caches that size
//! themselves ([`sizing`]).

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
pub mod shared_memory;
pub mod sim;
pub mod sizing;
pub mod statistics;
pub mod storage;
pub mod stream;
pub mod sync;
pub mod thread;

pub use clock::Clock;
pub use descriptors::{Exhausted, set_relief};
pub use error::{Error, Operation, Result};
pub use foreground::Foreground;
pub use histogram::Latencies;
pub use host::{boot_id, host_name, open_files_max, release_free_memory};
pub use purpose::{IoMode, Purpose};
pub use shared_memory::SharedMemory;
pub use statistics::Statistics;
pub use storage::{
    Capabilities, Create, DirectIo, DirectoryEntry, FileIdentity, FileLock, FileMetadata,
    ListedEntry, ReadFile, Storage, WriteFile,
};
