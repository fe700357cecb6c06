//! Reading and writing files from front to back, with requests on their way while the caller works.
//!
//! Direct I/O gets no read-ahead and no write-behind from the system; these are ours, and bounded:
//! a stream takes its buffers from a [`crate::buffer::BufferPool`] when it begins and makes do with
//! those.
//!
//! A reader's requests are made by the kernel (io_uring) where it allows that and the file has a
//! descriptor, so that only the stream's own thread works; by [`Workers`] where not; or by the
//! caller's thread, one at a time ([`RequestPath`]). `TAILWATER_IO_URING=off` in the environment,
//! or a storage that says so, does without io_uring. A writer's are made by one of [`Workers`] or
//! by the caller: writing past the end of a file takes a thread of the kernel's too, and more than
//! one write in flight brings nothing.
//!
//! # Ownership
//! A request owns its buffer and a share of its file from the moment it is handed out until its
//! call has returned. A stream that is dropped meanwhile waits for the calls that run, and lets
//! those that have not begun do nothing.

mod reader;
mod requests;
#[cfg_attr(not(target_os = "linux"), path = "no_ring.rs")]
mod ring;
mod threads;
mod workers;
mod writer;

pub use reader::{ReaderOptions, SequentialReader};
pub use requests::RequestPath;
pub use workers::Workers;
pub use writer::{SequentialWriter, WriterOptions};

use std::io;
use std::path::Path;

use crate::buffer::{BufferPool, PooledBuffer};
use crate::{Error, Operation, Result};

/// Whether streams that read ahead do so by io_uring here, where their files have descriptors:
/// found out by using it.
pub fn uses_io_uring() -> bool {
    ring::is_allowed()
}

/// Takes up to `count` buffers of a pool without waiting, and at least one. Nobody waits here, so
/// streams that share a pool cannot wait for each other.
fn take_buffers(
    pool: &BufferPool,
    bytes: usize,
    count: usize,
    operation: Operation,
    path: &Path,
) -> Result<Vec<PooledBuffer>> {
    let no_memory = |error| io::Error::new(io::ErrorKind::OutOfMemory, error);
    let first =
        pool.try_acquire(bytes).map_err(|error| Error::new(operation, path, no_memory(error)))?;
    let mut buffers = vec![first];
    while buffers.len() < count {
        let Ok(buffer) = pool.try_acquire(bytes) else { break };
        buffers.push(buffer);
    }
    Ok(buffers)
}
