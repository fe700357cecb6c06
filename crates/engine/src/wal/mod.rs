//! The write-ahead log.

pub(crate) mod batch;
mod blocks;
mod flight;
mod followed;
mod log_file;
mod log_set;
mod quicker;
pub(crate) mod replay;
mod space;
mod suited_mode;
mod tail;
#[cfg(test)]
mod tests;
pub(crate) mod unwritten;
mod updates;

pub(crate) use flight::LogFlight;
pub(crate) use log_set::{LiveLog, LogMode, LogOptions, LogSet};
pub(crate) use updates::LogsOf;
pub use updates::Updates;
