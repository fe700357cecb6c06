//! Decoders and encoders, compared with bytes written by RocksDB.
//!
//! `cfg(test)` on the modules makes Clippy treat their helpers as tests, too.

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
