//! Helpers that the tests of all crates share.
//!
//! - [`golden`]: databases written by RocksDB, with the contents that RocksDB read from them.
//! - [`oracle`]: the real RocksDB, for databases written during a test.
//! - [`dump`]: the format of a database's contents, which [`golden`] and [`oracle`] share.
//! - [`model`]: the expected results that follow from a dump.
//! - [`mutation`]: copies of the source code with deliberate errors that tests must detect.
//! - [`directory`]: snapshots of a directory, to verify that nothing changed it.
//! - [`scenario`]: tests of databases that are moved, copied and damaged. They are defined by
//!   tables in a document.
//! - [`filesystem`]: small filesystems of several kinds, mounted for a test.
//! - [`report`]: checks of the HTML reports of experiments.
//! - [`seed`]: random numbers from seeds, so that a failed test can be repeated.
//! - [`volatile_disk`]: disks that lose unflushed writes when their power is cut.
//!
//! Nothing here is part of a release. A failure in these functions is a failure of the calling
//! test, so they panic with a description instead of returning errors.

pub mod directory;
pub mod dump;
pub mod filesystem;
pub mod golden;
pub mod model;
pub mod mutation;
pub mod oracle;
pub mod report;
pub mod scenario;
pub mod seed;
pub mod volatile_disk;
