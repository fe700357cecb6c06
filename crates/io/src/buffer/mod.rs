//! Buffers for I/O: aligned for direct I/O, pooled with a memory limit, or mapped from the system.

mod aligned;
mod append;
mod pages;
pub mod poison;
mod pool;
mod words;

pub use aligned::{
    ALIGNMENT, AlignedBuffer, MAX_ALIGNMENT, align_down, align_up, aligned_buffer_bytes,
};
pub use append::{AppendBuffer, AppendedBytes, AppendedSlice, PageSource};
#[cfg(debug_assertions)]
pub use pages::pages_given_back;
pub use pages::{Pages, page_size};
pub use pool::{BufferPool, PoolError, PooledBuffer};
pub use words::ZeroedWords;
