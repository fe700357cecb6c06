//! The write-ahead log. A *direct log* is written with direct I/O, which bypasses the page cache.
//!
//! All readers read records through [`crate::record_log`] and check batches with [`batch`].
//! [`findings`] classifies everything else in a log. The readers share no more code, because each
//! treats damaged or unexpected content of a log differently. [`replay`] chooses what to apply by
//! the recovery mode and builds memtables. `tail`, used by `updates`, reads the complete part of a
//! log that is being written, where any unexpected content is damage. [`crate::inspect`] shows
//! every byte, and asks [`replay`] where recovery ends the log. [`crate::verify`] judges unexpected
//! content by what follows it, and applies nothing.

pub(crate) mod batch;
mod blocks;
mod durability;
pub(crate) mod findings;
mod followed;
mod kept;
mod log_file;
mod log_set;
mod pipelined;
mod preallocation;
pub(crate) mod replay;
mod suited_mode;
mod tail;
#[cfg(test)]
mod tests;
pub(crate) mod unwritten;
mod updates;

pub(crate) use durability::LogDurability;
pub(crate) use kept::KeptLogs;
pub(crate) use log_set::{LiveLog, LogOptions, LogSet};
pub(crate) use pipelined::PipelinedWrite;
pub(crate) use preallocation::PreallocationListener;
pub(crate) use suited_mode::LogMode;
pub(crate) use updates::LogsOf;
pub use updates::Updates;
