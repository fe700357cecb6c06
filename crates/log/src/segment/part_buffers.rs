//! Buffers for the parts of large batches.
//!
//! A buffer of this size is memory of its own in the system. Requesting and returning it for each
//! part would stop the other threads of the process at each change of its memory map.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use tailwater_io::buffer::AlignedBuffer;

use crate::sync::Mutex;

/// Maximum number of unused buffers that are kept.
const UNUSED_MAX: usize = 16;
/// Maximum capacity of a buffer that is kept, in bytes.
const CAPACITY_MAX: usize = 2 << 20;

/// Returns buffers, which are used again after their users have dropped them. Their number is not
/// limited: the callers that read parts limit their memory.
#[derive(Debug, Default)]
pub(crate) struct PartBuffers(Arc<Mutex<Vec<AlignedBuffer>>>);

/// A buffer for a part of a batch.
#[derive(Debug)]
pub(crate) struct PartBuffer {
    buffer: AlignedBuffer,
    unused: Arc<Mutex<Vec<AlignedBuffer>>>,
}

impl PartBuffers {
    /// Returns a buffer of any capacity and content.
    pub(crate) fn take(&self) -> PartBuffer {
        let unused = self.0.lock().pop();
        let buffer = unused.unwrap_or_else(|| AlignedBuffer::with_capacity(0));
        PartBuffer { buffer, unused: Arc::clone(&self.0) }
    }
}

impl Drop for PartBuffer {
    fn drop(&mut self) {
        let buffer = std::mem::replace(&mut self.buffer, AlignedBuffer::with_capacity(0));
        let mut unused = self.unused.lock();
        if unused.len() < UNUSED_MAX && buffer.capacity() <= CAPACITY_MAX {
            unused.push(buffer);
        }
    }
}

impl Deref for PartBuffer {
    type Target = AlignedBuffer;

    fn deref(&self) -> &AlignedBuffer {
        &self.buffer
    }
}

impl DerefMut for PartBuffer {
    fn deref_mut(&mut self) -> &mut AlignedBuffer {
        &mut self.buffer
    }
}
