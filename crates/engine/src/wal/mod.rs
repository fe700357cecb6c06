//! The write-ahead log.

pub(crate) mod batch;
mod log_file;
mod log_set;
mod quicker;
pub(crate) mod replay;
mod space;
mod suited_mode;
pub(crate) mod unwritten;

pub(crate) use log_set::{LiveLog, LogMode, LogOptions, LogSet};
