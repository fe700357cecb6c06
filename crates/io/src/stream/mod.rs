//! Reads and writes files from front to back, with requests in flight while the caller works.
//!
//! The system provides neither read-ahead nor write-behind for direct I/O. These streams provide
//! both. The memory of a stream is bounded: its number of buffers is limited, and all of them come
//! from a [`crate::buffer::BufferPool`].
//!
//! A reader's requests are [in flight](crate::in_flight) while the caller works. A writer's
//! requests are made by a thread of [`Workers`] or by the caller. Writers do not use io_uring: the
//! kernel hands a write past the end of a file to a kernel thread, and more than one write in
//! flight gains nothing.
//!
//! # Ownership
//! A request owns its buffer and a reference to its file from its submission until its call has
//! returned. Dropping a stream cancels the requests whose calls have not begun and waits for the
//! calls that are running.

mod reader;
mod span;
mod writer;

pub use crate::in_flight::{RequestPath, Workers};
pub use reader::{ReaderOptions, SequentialReader};
pub use writer::{SequentialWriter, WriterOptions};

use std::io;
use std::path::Path;

use crate::buffer::{BufferPool, PooledBuffer};
use crate::{Error, Operation, Result};

/// Takes up to `count` buffers from a pool: as many as are free now. This function fails if no
/// buffer is free. It never waits, so streams that share a pool cannot deadlock.
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
