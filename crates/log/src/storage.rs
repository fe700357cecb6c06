//! The files, the shared memory and the clock of a log.
//!
//! [`PosixStorage`] is the system's file system, and the default. To keep the files elsewhere, or
//! to observe or limit what the log does with them, implement [`Storage`] and set
//! [`LogOptions::storage`](crate::LogOptions::storage).
//!
//! The tails of topics with durability `process` are in [`SharedMemory`], by default in files on a
//! tmpfs ([`PosixSharedMemory`]). Such memory consists of [`Pages`].
//! [`LogOptions::tail_memory`](crate::LogOptions::tail_memory) selects it. The time is that of a
//! [`Clock`], by default [`SystemClock`].
//!
//! ```
//! use std::sync::Arc;
//!
//! use tailwater_log::storage::{Clock, SystemClock};
//! use tailwater_log::{Log, LogOptions};
//!
//! /// The system's time, with a wall clock that is an hour ahead.
//! #[derive(Debug)]
//! struct Ahead;
//!
//! impl Clock for Ahead {
//!     fn monotonic_ns(&self) -> u64 {
//!         SystemClock.monotonic_ns()
//!     }
//!
//!     fn wall_us(&self) -> u64 {
//!         SystemClock.wall_us() + 3600 * 1_000_000
//!     }
//!
//!     fn sleep_until(&self, deadline_ns: u64) {
//!         SystemClock.sleep_until(deadline_ns);
//!     }
//! }
//!
//! # let directory = tempfile::tempdir()?;
//! # let directory = directory.path();
//! let options = LogOptions::new().with_clock(Arc::new(Ahead) as Arc<dyn Clock>);
//! Log::open(directory, &options)?.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A [`DescriptorBudget`] limits the number of open files of all logs in a process, see
//! [`LogOptions::descriptor_budget`](crate::LogOptions::descriptor_budget).
//!
//! The types are those of crate `tailwater-io`. Its feature `sim` adds a simulated disk and
//! simulated shared memory. With them and [`ManualClock`], an application can test what a crash
//! leaves of its log.

#[doc(inline)]
pub use tailwater_io::buffer::{AlignedBuffer, Pages};
#[doc(inline)]
pub use tailwater_io::clock::{ManualClock, SystemClock};
#[doc(inline)]
pub use tailwater_io::posix::PosixStorage;
#[doc(inline)]
pub use tailwater_io::shared_memory::PosixSharedMemory;
#[doc(inline)]
pub use tailwater_io::{
    Capabilities, Clock, Create, DescriptorBudget, DirectIo, DirectoryEntry, Error, FileIdentity,
    FileLock, FileMetadata, IoMode, ListedEntry, Operation, Purpose, ReadFile, Result,
    SharedMemory, Statistics, Storage, WriteFile,
};
