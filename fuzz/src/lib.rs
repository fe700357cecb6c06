//! Code shared by the fuzz targets: a bound on memory, and writers and mutations that let inputs
//! pass checks such as checksums.
//!
//! A target does not only check that the code under test does not panic. It also checks that the
//! code terminates, that its memory is bounded by a function of the input, and other properties
//! that hold for every input: for example, that a decoded value can be encoded and decodes to the
//! same value.

pub mod allocation;
pub mod block_writer;
pub mod database;
pub mod walk;

pub use tailwater_fuzz_seeds::Choices;

#[global_allocator]
static ALLOCATOR: allocation::Counting = allocation::Counting;
