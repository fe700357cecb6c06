//! The write-ahead log.

pub(crate) mod batch;
mod log_file;
mod log_set;
pub(crate) mod replay;

pub(crate) use log_set::{LiveLog, LogOptions, LogSet};
