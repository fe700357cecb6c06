//! One read of a span of a file, and its result.

use std::sync::Arc;

use crate::Error;
use crate::buffer::PooledBuffer;
use crate::charged_reads::{ChargedReads, charge_reads};
use crate::pace::Priority;
use crate::purpose::Purpose;
use crate::storage::{ReadFile, read_on_as_far_as_possible};

/// A read of a span of a file. In direct mode, offset and length must be multiples of the file's
/// alignment.
#[derive(Debug, Clone)]
pub(crate) struct ReadRequest {
    /// Identifies the request among those of its queue.
    pub(crate) number: u64,
    pub(crate) file: Arc<dyn ReadFile>,
    /// Offset of the span in the file, in bytes.
    pub(crate) offset: u64,
    /// Length of the span in bytes.
    pub(crate) length: usize,
    /// Number of bytes after which the read may stop. The span may extend beyond what is needed,
    /// and beyond the end of the file, to an aligned offset.
    pub(crate) enough: usize,
    pub(crate) purpose: Purpose,
    /// Whether other requests of the same caller are in flight, so that the duration of this one
    /// says little about the device.
    pub(crate) in_batch: bool,
    /// The priority at which the read is charged, whichever thread makes it. See
    /// [`charge_reads`].
    pub(crate) charged: Option<Priority>,
}

impl ReadRequest {
    /// Makes the request with read calls on this thread. Afterwards `buffer` holds the bytes read,
    /// up to the end of the file or to the returned error.
    pub(super) fn read(&self, buffer: &mut PooledBuffer) -> Option<Error> {
        self.read_on(buffer, 0)
    }

    /// Continues the request on this thread, after `done` of its bytes have been read into
    /// `buffer`.
    pub(super) fn read_on(&self, buffer: &mut PooledBuffer, done: usize) -> Option<Error> {
        let _charged = self.charge();
        buffer.set_length(self.length);
        let (enough, offset) = (self.enough.min(self.length), self.offset);
        let read_at = |part: &mut [u8], at| match self.in_batch {
            true => self.file.read_in_batch_at(part, at, self.purpose),
            false => self.file.read_at(part, at, self.purpose),
        };
        let (count, error) =
            read_on_as_far_as_possible(&*self.file, buffer, done, enough, offset, read_at);
        buffer.set_length(count);
        error
    }

    /// Charges reads of the current thread as this request's, until the returned value is dropped.
    pub(super) fn charge(&self) -> Option<ChargedReads> {
        charge_reads(self.charged)
    }

    /// Completes the request with the result of reading it on this thread.
    pub(super) fn complete(self, mut buffer: PooledBuffer) -> CompletedRead {
        let error = self.read(&mut buffer);
        CompletedRead { number: self.number, buffer, error }
    }
}

/// The result of a request. `buffer` holds the bytes up to the end of the file, or up to the error.
#[derive(Debug)]
pub(crate) struct CompletedRead {
    pub(crate) number: u64,
    pub(crate) buffer: PooledBuffer,
    pub(crate) error: Option<Error>,
}
