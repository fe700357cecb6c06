//! Tests that options are parsed, adjusted, written and honoured as in RocksDB.
//!
//! The modules have the attribute `cfg(test)`, so that Clippy treats their helpers as test code.

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
