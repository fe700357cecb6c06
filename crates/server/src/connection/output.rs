//! Writes replies.
//!
//! The reply to a poll is written directly from the memory of its batches, which is usually a part
//! of the log's tail. The log cannot release this memory before the reply is written. If a client
//! reads slowly, the unwritten rest of the reply is therefore copied after `COPY_AFTER`, and the
//! log's memory is released.

use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::task::yield_now;
use tokio::time::timeout;

use crate::command::Content;
use crate::protocol::ReplyStart;

/// Maximum number of slices per write call.
const SLICES: usize = 64;
/// Size up to which a reply is first copied into one slice and then written, in bytes.
const COPIED_BYTES: usize = 8 << 10;
/// Duration of a write after which the server copies the unwritten rest of a reply, so that the
/// reply no longer occupies the log's memory.
const COPY_AFTER: Duration = Duration::from_secs(1);
/// Number of bytes after which a copy yields to other tasks.
const COPIED_AT_ONCE: usize = 1 << 20;

/// A reply.
pub(super) struct Frame {
    pub(super) start: ReplyStart,
    pub(super) content: Content,
}

impl Frame {
    /// Returns the reply's length, in bytes.
    pub(super) fn length(&self) -> usize {
        self.start.as_ref().len() + self.content.length()
    }

    fn slices(&self) -> Vec<IoSlice<'_>> {
        let mut slices = vec![IoSlice::new(self.start.as_ref())];
        self.content.for_each(|slice| slices.push(IoSlice::new(slice)));
        slices
    }

    /// Copies all bytes of the reply except for the first `skipped`. Yields to other tasks about
    /// every `COPIED_AT_ONCE` bytes.
    async fn copy_from(&self, mut skipped: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.length().saturating_sub(skipped));
        for slice in self.slices() {
            let (_, rest) = slice.split_at(skipped.min(slice.len()));
            skipped -= slice.len() - rest.len();
            for part in rest.chunks(COPIED_AT_ONCE) {
                if bytes.len() / COPIED_AT_ONCE != (bytes.len() + part.len()) / COPIED_AT_ONCE {
                    yield_now().await;
                }
                bytes.extend_from_slice(part);
            }
        }
        bytes
    }
}

/// Writes a reply. During a long write, `moved` contains the number of bytes that were written so
/// far.
///
/// # Errors
/// I/O errors on the stream.
pub(super) async fn write<S>(stream: &mut S, frame: Frame, moved: &AtomicUsize) -> io::Result<()>
where
    S: AsyncWrite + Unpin,
{
    if frame.length() <= COPIED_BYTES {
        stream.write_all(&frame.copy_from(0).await).await?;
    } else if !frame.content.is_in_tail() {
        write_slices(stream, &mut frame.slices(), moved).await?;
    } else {
        let written = timeout(COPY_AFTER, write_slices(stream, &mut frame.slices(), moved)).await;
        if let Ok(written) = written {
            written?;
        } else {
            let rest = frame.copy_from(moved.load(Ordering::Relaxed)).await;
            drop(frame);
            write_slices(stream, &mut [IoSlice::new(&rest)], moved).await?;
        }
    }
    // An encrypted stream may still buffer bytes, which a flush sends.
    stream.flush().await
}

/// Writes all bytes of all slices.
async fn write_slices<S>(
    stream: &mut S,
    mut slices: &mut [IoSlice<'_>],
    moved: &AtomicUsize,
) -> io::Result<()>
where
    S: AsyncWrite + Unpin,
{
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        let some = slices.len().min(SLICES);
        let written = stream.write_vectored(&slices[..some]).await?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        moved.fetch_add(written, Ordering::Relaxed);
        IoSlice::advance_slices(&mut slices, written);
    }
    Ok(())
}
