//! The kernel's counters of page cache, reclaim, device and processor, for reports.
//!
//! A [`Snapshot`] holds the counters of a [`Target`] at a point in time: the device behind a
//! directory, a memory cgroup, a process. The difference of two snapshots is [`Figures`], as rates
//! per second. A [`Sampler`] takes snapshots periodically in its own thread, and therefore also
//! returns means of levels over all of them. Whatever the kernel does not report is `None`, never
//! zero.
//!
//! [`Environment`] describes the system that such figures were measured on, and should be reported
//! with them.
//!
//! Each kernel file has a parser that takes its text and accesses nothing else: [`page_cache`],
//! [`pressure`], [`disk`], [`sched`], [`mounts`].

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
pub use sampler::Sampler;
pub use sched::RunQueue;
pub use snapshot::{Scope, Snapshot, Target};
pub use system::System;
