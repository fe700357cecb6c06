//! Options, compared with what RocksDB reads, writes and derives from them.
//!
//! `cfg(test)` on the modules makes Clippy treat their helpers as tests, too.

#[cfg(test)]
mod catalogue;
#[cfg(test)]
mod checks;
#[cfg(test)]
mod document;
#[cfg(test)]
mod effects;
#[cfg(test)]
mod tables;
#[cfg(test)]
mod unmet;
#[cfg(test)]
mod values;
