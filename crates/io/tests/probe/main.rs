//! Tests of measurements on disks: what I/O modes do on a filesystem, the speed of the device
//! itself without an engine, and durable overwrites.

mod device;
mod modes;
