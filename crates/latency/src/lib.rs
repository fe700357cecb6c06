//! Two commands of the `tailwater` program that measure latency on the user's own machine.
//!
//! - [`tail`] implements `tailwater tail`, which measures the effect of direct I/O on the tail
//!   latency of reads during compactions. Other engines can be measured in the same way: see
//!   [`tail::TailEngine`].
//! - [`log`] implements `tailwater log bench`, which measures how the way of persisting messages
//!   affects the latency of a message log.
//!
//! Both commands share the other modules, which other benchmarks may use too: [`experiment`] has
//! what all experiments have in common, [`live`] shows a running measurement, [`memory_limit`]
//! limits the memory of a measured process, page cache included, [`entries`] generates keys and
//! values, and [`files`] stores results, which [`report`] makes visible.

#[macro_use]
pub mod say;

pub mod engine;
pub mod entries;
pub mod experiment;
mod failure;
pub mod files;
pub mod latencies;
pub mod live;
pub mod log;
pub mod memory_limit;
pub mod numbers;
mod own;
pub mod parsing;
pub mod report;
pub mod tail;

pub use failure::Failure;
