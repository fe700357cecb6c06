//! Code shared by the fuzz targets: a bound on memory, and writers and mutations that get an input
//! past what stands in its way.
//!
//! A target asserts more than that nothing panics: that it terminates, that it allocates no
//! more than its input warrants, and whatever else must hold of every input, such as that what was
//! decoded and encoded decodes to the same.

pub mod allocation;
pub mod block_writer;
pub mod database;
pub mod walk;

pub use tailwater_fuzz_seeds::Choices;

#[global_allocator]
static ALLOCATOR: allocation::Counting = allocation::Counting;
