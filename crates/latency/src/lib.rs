//! Two commands of the program that measure latency on the user's own machine.
//!
//! - [`tail`]: `tailwater tail`, the effect of direct I/O on the tail latency of reads during
//!   compactions; other engines can be measured in the same way, as a [`tail::TailEngine`];
//! - [`log`]: `tailwater log bench`, the effect of persisting on the latency of a message log.
//!
//! The other modules are shared by both commands, and other benchmarks may use them, too:
//! [`memory_limit`] limits the page cache of a measured process, [`entries`] generates keys and
//! values, [`files`] stores reports.

#[macro_use]
pub mod say;

pub mod entries;
mod failure;
pub mod files;
pub mod log;
pub mod memory_limit;
pub mod numbers;
mod own;
pub mod parsing;
pub mod tail;

pub use failure::Failure;
