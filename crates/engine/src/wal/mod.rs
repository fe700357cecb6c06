//! The write-ahead log.

pub(crate) mod batch;
mod blocks;
mod durability;
mod flight;
mod followed;
mod log_file;
mod log_set;
pub(crate) mod replay;
mod space;
mod suited_mode;
mod tail;
#[cfg(test)]
mod tests;
pub(crate) mod unwritten;
mod updates;

pub(crate) use durability::LogDurability;
pub(crate) use flight::LogFlight;
pub(crate) use log_set::{LiveLog, LogMode, LogOptions, LogSet};
pub(crate) use space::SpaceListener;
pub(crate) use updates::LogsOf;
pub use updates::Updates;
