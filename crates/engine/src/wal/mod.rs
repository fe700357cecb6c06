//! The write-ahead log.

pub(crate) mod replay;
