//! Memory from the system: that direct I/O can use, a bound on how much of it there is, and pages.

mod aligned;
mod append;
mod pages;
pub mod poison;
mod pool;

pub use aligned::{
    ALIGNMENT, AlignedBuffer, MAX_ALIGNMENT, align_down, align_up, aligned_buffer_bytes,
};
pub use append::{AppendBuffer, AppendedBytes, AppendedSlice, PageSource};
#[cfg(debug_assertions)]
pub use pages::pages_given_back;
pub use pages::{Pages, page_size};
pub use pool::{BufferPool, PoolError, PooledBuffer};
