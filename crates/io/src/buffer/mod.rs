//! Memory that direct I/O can use, and a bound on how much of it there is.

mod aligned;
mod pool;

pub use aligned::{ALIGNMENT, AlignedBuffer, MAX_ALIGNMENT, align_down, align_up};
pub use pool::{BufferPool, PoolError, PooledBuffer};
