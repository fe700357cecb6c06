//! The write-ahead log.

pub(crate) mod batch;
pub(crate) mod replay;
