//! Measurements of the disk on which a directory is stored. They use a small file that is removed
//! afterwards.
//!
//! [`probe`] determines whether an I/O mode works as intended in the directory. [`DeviceProbe`]
//! measures the device without an engine. [`DurableFile`] measures durable overwrites, as a log
//! makes them. [`BlockReader`] reads existing files, several blocks at a time.

mod block_reader;
mod device;
mod durable_file;
mod mode;
mod scratch;

pub use block_reader::BlockReader;
pub use device::{DeviceFigures, DeviceProbe, ReadLatency, SyncLatency};
pub use durable_file::{DurableBy, DurableFile};
pub use mode::{Access, Answer, Probe, probe};
