//! Replaces `ring` on systems without io_uring.

use std::sync::Arc;

use super::span::{Chunk, Source};
use crate::buffer::PooledBuffer;

/// Never constructed, because [`is_allowed`] returns false.
#[derive(Debug)]
pub(super) enum RingRequests {}

/// Returns false: there is no io_uring here.
pub(super) fn is_allowed() -> bool {
    false
}

impl RingRequests {
    pub(super) fn new() -> Option<Self> {
        None
    }

    pub(super) fn submit(&mut self, _source: &Arc<Source>, _index: u64, _buffer: PooledBuffer) {
        match *self {}
    }

    pub(super) fn ended(&mut self) -> Option<Chunk> {
        match *self {}
    }

    pub(super) fn wait(&mut self) -> Chunk {
        match *self {}
    }
}
