//! Measurements on the disk that a directory is on, by a small file that is removed afterwards.
//!
//! [`probe`] determines whether an I/O mode does there what its name says. [`DeviceProbe`] measures
//! the device without an engine, and [`DurableFile`] as a log would use it.

mod device;
mod durable_file;
mod mode;

pub use device::{DeviceFigures, DeviceProbe, ReadLatency, SyncLatency};
pub use durable_file::{DurableBy, DurableFile};
pub use mode::{Access, Answer, Probe, probe};
