//! File I/O on Linux.
//!
//! Everything above this crate accesses the disk through [`Storage`]. The caller opens each file in
//! an [`IoMode`]. Each open, read and write also states its reason, a [`Purpose`], which
//! statistics, limits and simulated faults distinguish. [`Storage`] has two implementations: the
//! real disk ([`posix`]) and, with the feature `sim`, a simulated one (module `sim`), which fails,
//! tears and loses writes on demand.
//!
//! [`in_flight`] makes reads that complete later. [`stream`] reads and writes files from beginning
//! to end with several requests in flight. It uses aligned memory from bounded pools ([`buffer`]),
//! a rate limit ([`pace`]), and a limit on its requests in flight while users wait for the device
//! ([`foreground`]). [`kernel`] reports the effects on the page cache, the device and the
//! processors, [`attribution`] tells where the time of an operation goes. Time ([`clock`]) and
//! threads ([`thread`]) also come only from this crate. [`sizing`] decides the capacity of caches
//! that adapt their size, and [`descriptors`] divides the process's file descriptors.

#[cfg(not(target_os = "linux"))]
compile_error!("tailwater-io supports Linux only");

pub mod attribution;
pub mod buffer;
mod charged_reads;
pub mod clock;
pub mod descriptors;
mod error;
pub mod foreground;
mod forward;
mod histogram;
mod host;
pub mod in_flight;
pub mod kernel;
mod limited_reads;
mod monotonic;
pub mod pace;
pub mod posix;
pub mod probe;
pub mod purpose;
pub mod rings;
mod sections;
mod shards;
pub mod shared_memory;
#[cfg(any(test, feature = "sim"))]
pub mod sim;
pub mod sizing;
pub mod statistics;
pub mod storage;
pub mod stream;
pub mod sync;
pub mod thread;

pub use charged_reads::{ChargedReads, charge_reads};
pub use clock::Clock;
pub use descriptors::{DescriptorBudget, open_files_max};
pub use error::{Error, Operation, Result};
pub use foreground::Foreground;
pub use histogram::Latencies;
pub use host::{boot_id, host_name, release_free_memory};
pub use limited_reads::LimitedReads;
pub use purpose::{IoMode, Purpose};
pub use shared_memory::SharedMemory;
pub use statistics::{ReadTime, Statistics};
pub use storage::{
    Capabilities, Create, DirectIo, DirectoryEntry, FileIdentity, FileLock, FileMetadata,
    ListedEntry, ReadFile, RingAccess, Storage, WriteFile,
};
