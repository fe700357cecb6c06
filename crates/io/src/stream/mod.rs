//! Reads and writes files from front to back, with requests in flight while the caller works.
//!
//! The system provides neither read-ahead nor write-behind for direct I/O. These streams do, with
//! bounded memory: a stream takes its buffers from a [`crate::buffer::BufferPool`] when it begins
//! and needs no more.
//!
//! A reader's requests are made by the kernel (io_uring) if that is allowed and the file has a
//! descriptor, so that only the stream's own thread works; otherwise by [`Workers`], or by the
//! caller's thread, one at a time ([`RequestPath`]). `TAILWATER_IO_URING=off` in the environment,
//! or a storage without io_uring, disables it. A writer's requests are made by one of [`Workers`]
//! or by the caller: with io_uring, writing past the end of a file also takes a kernel thread, and
//! more than one write in flight gains nothing.
//!
//! # Ownership
//! A request owns its buffer and a reference to its file from its submission until its call has
//! returned. Dropping a stream waits for the calls that run, and cancels the requests whose calls
//! have not begun.

mod reader;
mod requests;
#[cfg_attr(not(target_os = "linux"), path = "no_ring.rs")]
mod ring;
mod span;
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

/// Returns whether streams that read ahead use io_uring here, for files with a descriptor:
/// determined by trying it.
pub fn uses_io_uring() -> bool {
    ring::is_allowed()
}

/// Takes up to `count` buffers from a pool, and at least one. It never waits, so streams that share
/// a pool cannot deadlock.
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
