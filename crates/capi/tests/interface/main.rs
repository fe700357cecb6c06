//! Tests of the C interface as a whole: the generated files, the symbols of the library, and
//! programs in C.
//!
//! The modules have the attribute `cfg(test)`, so that Clippy treats their helpers as test code.

#![expect(clippy::disallowed_methods, reason = "reads the checkout and scratch files")]

#[cfg(test)]
mod accessors;
#[cfg(test)]
mod documentation;
#[cfg(test)]
mod files;
#[cfg(test)]
mod header;
#[cfg(test)]
mod library;
#[cfg(test)]
mod missing;
#[cfg(test)]
mod oracle;
#[cfg(test)]
mod programs;
#[cfg(test)]
mod signatures;
#[cfg(test)]
mod symbols;
