//! The kernel's counters of the page cache, reclaim, devices and processors, for reports.
//!
//! A [`Target`] is what a report is about: the device of a directory, a memory cgroup and a
//! process. A [`Snapshot`] contains the target's counters at a point in time. The difference
//! between two snapshots is [`Figures`], as rates per second. A [`Sampler`] takes snapshots
//! periodically in its own thread. So its figures of current amounts, such as the number of dirty
//! pages, are means over all snapshots. It also computes the figures of each second. A value that
//! the kernel does not report is `None`, never zero.
//!
//! An [`Environment`] describes the system on which figures were measured. It should be reported
//! with them.
//!
//! Each file of the kernel has a parser that receives the text of the file and reads nothing else:
//! [`page_cache`], [`pressure`], [`disk`], [`sched`], [`mounts`].

pub mod device;
pub mod disk;
mod environment;
mod figures;
pub mod group;
mod memory;
pub mod mounts;
pub mod page_cache;
pub mod pressure;
mod sampler;
pub mod sched;
mod snapshot;
mod system;
mod text;

pub use device::Device;
pub use environment::{Environment, Filesystem, IoUring};
pub use figures::{Figures, Named};
pub use group::MemoryGroup;
pub use memory::{Memory, MemoryLeft};
pub use sampler::{Sampled, Sampler};
pub use sched::RunQueue;
pub use snapshot::{Scope, Snapshot, Target};
pub use system::System;
