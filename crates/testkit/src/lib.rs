//! What the tests of all crates share.
//!
//! - [`golden`]: databases that the real RocksDB wrote, with what it read back from them.
//! - [`oracle`]: the real RocksDB itself, for databases written on the spot.
//! - [`dump`]: what a database holds, as both of them tell it.
//! - [`model`]: the answers that follow from a dump, to be compared with ours.
//! - [`mutation`]: copies of the sources in which something is left out.
//! - [`directory`]: what stands in a directory, to show that nothing changed it.
//! - [`scenario`]: what becomes of databases that are moved, copied and damaged, by a table.
//! - [`filesystem`]: small filesystems of several kinds, mounted for a test.
//! - [`seed`]: random numbers that a failed test can be repeated with.
#![cfg_attr(
    target_os = "linux",
    doc = "- [`volatile_disk`]: disks that forget what was not flushed when their power is cut."
)]
//!
//! Nothing here is built into what is shipped. A failure here is a failure of the test that called,
//! so these functions panic, with a sentence that says what was wrong, instead of answering errors.

pub mod directory;
pub mod dump;
pub mod filesystem;
mod forward;
pub mod golden;
pub mod model;
pub mod mutation;
pub mod oracle;
pub mod scenario;
pub mod seed;
#[cfg(target_os = "linux")]
pub mod volatile_disk;
