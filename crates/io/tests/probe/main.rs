//! Tests of measurements on disks: what I/O modes do on a filesystem, the speed of the device
//! itself without an engine, durable overwrites, and reads of several blocks at a time.

mod block_reader;
mod device;
mod modes;
