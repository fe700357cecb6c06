//! What the kernel tells of page cache, reclaim, device and processor, for reports.
//!
//! A [`Snapshot`] is what its counters say at one moment of a [`Target`]: the device behind a
//! directory, a memory cgroup, a process. Two of them make [`Figures`], per second; a [`Sampler`]
//! takes them in a thread of its own, and so has means of what goes up and down, too. What the
//! kernel does not tell is `None` throughout, and never zero.
//!
//! [`Environment`] is what should stand beside any such figures, and [`DeviceProbe`] what the
//! device does without an engine; [`DurableFile`] what it does for a log.
//!
//! Each file of the kernel has a parser that takes its text and touches nothing: [`page_cache`],
//! [`pressure`], [`disk`], [`sched`], [`mounts`].

pub mod device;
mod device_probe;
pub mod disk;
mod durable_file;
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
pub use device_probe::{DeviceFigures, DeviceProbe, ReadLatency, SyncLatency};
pub use durable_file::{DurableBy, DurableFile};
pub use environment::{Environment, Filesystem, IoUring};
pub use figures::{Figures, Named};
pub use group::MemoryGroup;
pub use memory::{Memory, MemoryLeft};
pub use sampler::Sampler;
pub use sched::RunQueue;
pub use snapshot::{Scope, Snapshot, Target};
pub use system::System;
