//! Measurements on disks: the effect of I/O modes, the device without an engine, durable
//! overwrites.

mod device;
mod modes;
