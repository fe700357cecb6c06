//! Tests of decoders and encoders on bytes that RocksDB wrote.
//!
//! The modules have `cfg(test)`, so that Clippy also treats their helper functions as test code.

#[cfg(test)]
mod log;
#[cfg(test)]
mod log_recovery;
#[cfg(test)]
mod options_text;
#[cfg(test)]
mod support;
#[cfg(test)]
mod version_edit;
#[cfg(test)]
mod write_batch;
