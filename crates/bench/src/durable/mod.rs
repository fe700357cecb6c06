//! Puts that are durable when they return.
//!
//! | part | operations |
//! |---|---|
//! | `synced` | several writers put random keys, each put synced; also raw writes |
//! | `fillseq` | one writer puts keys in order, each put synced |
//! | `unsynced` | the puts of `synced` without a sync, by one writer and by four |
//!
//! A raw write overwrites 4 KiB of a file of zeros with direct I/O, durably: the upper bound of the
//! device for a log. There are as many threads as writers, each in its own region.
//!
//! Everything is measured once in each run. The subjects take turns within it: engines,
//! configurations of Tailwater (`configuration`) and raw writes. Ratios are within one run, since a
//! device's speed changes from minute to minute. Each measurement has a new database in a new
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
