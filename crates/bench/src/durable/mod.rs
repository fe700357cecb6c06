//! Puts that are on the device when they return.
//!
//! | part | what is done |
//! |---|---|
//! | `synced` | several writers put keys by chance, each put synced; beside them raw writes |
//! | `fillseq` | one writer puts keys in order, each put synced |
//! | `unsynced` | the puts of `synced` without a sync, by one writer and by four |
//!
//! A raw write overwrites 4 KiB of a file of zeros past the page cache, durably: what the device
//! does for a log at best. As many threads write as there are writers, each in a region of its own.
//!
//! Everything is measured once in each run. What is compared takes turns within it: engines,
//! configurations of Tailwater (`configuration`) and raw writes. Ratios are of one run, since what
//! a device does changes from minute to minute. Each measurement has a new database in a new
//! directory, which is removed before the next one begins.

mod arguments;
mod configuration;
mod experiment;
mod figures;
mod length;
mod neighbour;
mod puts;
mod raw;
mod report;

pub use arguments::DurableArguments;
pub use figures::Figures;
pub use length::Length;
pub use puts::{Order, Putting};

pub(crate) use neighbour::{NEIGHBOUR_COMMAND, compute};
pub(crate) use puts::put;
