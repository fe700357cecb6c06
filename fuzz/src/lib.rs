//! Code that the fuzz targets share. It limits memory. It also writes and edits data, and keeps
//! checksums and similar fields valid.
//!
//! A target checks more than the absence of panics. It also checks that the code under test
//! terminates, that its memory is limited by a function of the input, and further properties that
//! hold for every input. An example is that a decoded value can be encoded, and that the result
//! decodes to the same value.

pub mod allocation;
pub mod block_writer;
pub mod database;
pub mod walk;

pub use tailwater_fuzz_seeds::Choices;

#[global_allocator]
static ALLOCATOR: allocation::Counting = allocation::Counting;
