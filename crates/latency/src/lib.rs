//! Latency, measured on the user's own machine: two commands of the program.
//!
//! - [`tail`]: the effect of direct I/O on the tail latency of reads during compactions,
//!   `tailwater tail`; another engine can be measured with the same steps, as a
//!   [`tail::TailEngine`];
//! - [`log`]: the effect of persisting on the latency of a message log, `tailwater log bench`.
//!
//! The other modules are what both need, and other benchmarks may use: [`memory_limit`] limits the
//! page cache of a measured process, [`entries`] makes keys and values, [`files`] stores reports.

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
