//! Code shared by the fuzz targets: a bound on memory, and writers and mutations that let inputs
//! pass checks such as checksums.
//!
//! A target asserts more than that nothing panics: that it terminates, that it allocates no
//! more than its input warrants, and further properties of every input, such as that a decoded
//! value can be encoded and decodes to the same value.

pub mod allocation;
pub mod block_writer;
pub mod database;
pub mod walk;

pub use tailwater_fuzz_seeds::Choices;

#[global_allocator]
static ALLOCATOR: allocation::Counting = allocation::Counting;
