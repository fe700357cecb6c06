//! The input buffer of a connection.

use std::io;

use bytes::{Buf, BufMut, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::in_flight::{Progress, UNCOUNTED_BYTES};

/// Minimum space that the buffer has for each read from the connection, in bytes.
const READ_BYTES: usize = UNCOUNTED_BYTES;
/// Size of a body above which its memory is released as soon as the body is dropped, in bytes. The
/// memory of a smaller body is reused for the next body.
const REUSED_BYTES: usize = 2 << 20;

/// The bytes that have been read from a connection but not yet taken.
///
/// A body that is taken shares its memory with the buffer. After the body is dropped, the buffer
/// reuses that memory for the next body. The buffer of an idle connection must not keep the memory
/// of a counted body: if [`Self::is_large`] returns true, the connection keeps the reservation of
/// that memory, and calls [`Self::shrink`] before it drops the reservation.
#[derive(Debug)]
pub(super) struct Input {
    buffer: BytesMut,
    is_large: bool,
}

impl Input {
    pub(super) fn new() -> Self {
        Self { buffer: BytesMut::with_capacity(READ_BYTES), is_large: false }
    }

    pub(super) fn length(&self) -> usize {
        self.buffer.len()
    }

    /// Returns the bytes that have been read.
    pub(super) fn arrived(&self) -> &[u8] {
        &self.buffer
    }

    /// Reads available bytes. Returns false at the end of the stream.
    pub(super) async fn read<S>(&mut self, stream: &mut S) -> io::Result<bool>
    where
        S: AsyncRead + Unpin,
    {
        self.buffer.reserve(READ_BYTES);
        Ok(stream.read_buf(&mut self.buffer).await? > 0)
    }

    /// Reads until the buffer contains `length` bytes. May read more if they are available. Adds
    /// the bytes of each read to `progress`.
    ///
    /// # Errors
    /// I/O errors of the stream; an error if the stream ends.
    pub(super) async fn fill<S>(
        &mut self,
        stream: &mut S,
        length: usize,
        progress: &Progress,
    ) -> io::Result<()>
    where
        S: AsyncRead + Unpin,
    {
        self.buffer.reserve(length.saturating_sub(self.buffer.len()));
        while self.buffer.len() < length {
            progress.add(expect_bytes(stream.read_buf(&mut self.buffer).await?)?);
        }
        Ok(())
    }

    /// Reads the first bytes of a body of `length` bytes, until the buffer contains `bytes` of
    /// them, but not more. Adds the bytes of each read to `progress`.
    ///
    /// # Errors
    /// The errors of [`Self::fill`].
    pub(super) async fn fill_part<S>(
        &mut self,
        stream: &mut S,
        bytes: usize,
        length: usize,
        progress: &Progress,
    ) -> io::Result<()>
    where
        S: AsyncRead + Unpin,
    {
        // Memory that has not been written to takes only addresses, so the buffer need not be moved
        // when more of the body arrives.
        self.buffer.reserve(length.saturating_sub(self.buffer.len()));
        while self.buffer.len() < bytes {
            let most = bytes - self.buffer.len();
            let read = stream.read_buf(&mut (&mut self.buffer).limit(most)).await?;
            progress.add(expect_bytes(read)?);
        }
        Ok(())
    }

    /// Reads and discards `bytes` bytes. Adds the bytes of each read to `progress`.
    ///
    /// # Errors
    /// The errors of [`Self::fill`].
    pub(super) async fn skip<S>(
        &mut self,
        stream: &mut S,
        mut bytes: usize,
        progress: &Progress,
    ) -> io::Result<()>
    where
        S: AsyncRead + Unpin,
    {
        loop {
            let skipped = bytes.min(self.buffer.len());
            self.buffer.advance(skipped);
            bytes -= skipped;
            if bytes == 0 {
                return Ok(());
            }
            self.buffer.reserve(READ_BYTES);
            progress.add(expect_bytes(stream.read_buf(&mut self.buffer).await?)?);
        }
    }

    /// Discards all bytes, and releases their memory.
    pub(super) fn clear(&mut self) {
        self.buffer.clear();
        self.shrink();
    }

    /// Returns the first `LENGTH` bytes. Bytes that have not been read yet are returned as zeros.
    pub(super) fn start<const LENGTH: usize>(&self) -> [u8; LENGTH] {
        let mut start = [0; LENGTH];
        for (to, from) in start.iter_mut().zip(&self.buffer) {
            *to = *from;
        }
        start
    }

    /// Takes a header of `length` bytes, all of which must have been read.
    pub(super) fn take_header(&mut self, length: usize) -> BytesMut {
        self.buffer.split_to(length)
    }

    /// Takes a body of `length` bytes, all of which must have been read.
    pub(super) fn take_body(&mut self, length: usize) -> BytesMut {
        let body = self.buffer.split_to(length);
        if length > REUSED_BYTES || (self.is_large && length <= UNCOUNTED_BYTES) {
            self.shrink();
        } else if length > UNCOUNTED_BYTES {
            self.is_large = true;
        }
        body
    }

    /// Returns whether the buffer possibly has more memory than the buffer of an idle connection
    /// should keep.
    pub(super) fn is_large(&self) -> bool {
        self.is_large
    }

    /// Replaces the buffer by a small one that contains only the bytes that have not been taken.
    pub(super) fn shrink(&mut self) {
        let mut small = BytesMut::with_capacity(READ_BYTES.max(self.buffer.len()));
        small.extend_from_slice(&self.buffer);
        self.buffer = small;
        self.is_large = false;
    }
}

/// Returns the number of bytes that were read.
///
/// # Errors
/// The stream has ended.
fn expect_bytes(read: usize) -> io::Result<usize> {
    if read == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(read) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::in_flight::PATIENCE;

    /// Passes a body of `length` bytes through the buffer: reads the body, takes it, and drops it.
    async fn pass(input: &mut Input, length: usize) {
        let bytes = vec![7; length + 3];
        let mut stream = bytes.as_slice();
        let progress = Progress::new(PATIENCE);
        input.fill(&mut stream, length, &progress).await.expect("the bytes");
        assert!(progress.moved() >= length);
        assert_eq!(input.take_body(length).len(), length);
        let rest = input.length();
        input.take_header(rest);
    }

    /// Returns the capacity of the buffer, in bytes.
    fn memory(input: &mut Input) -> usize {
        input.buffer.reserve(1);
        input.buffer.capacity()
    }

    #[tokio::test]
    async fn the_buffer_of_a_large_body_is_reused_and_then_freed() {
        let mut input = Input::new();
        pass(&mut input, 1 << 20).await;
        assert!(input.is_large());
        assert!(memory(&mut input) >= 1 << 20, "it is used again for the next body");
        pass(&mut input, 1 << 20).await;
        input.shrink();
        assert!(!input.is_large() && memory(&mut input) <= 2 * READ_BYTES);

        pass(&mut input, 1 << 20).await;
        pass(&mut input, 10).await;
        assert!(!input.is_large() && memory(&mut input) <= 2 * READ_BYTES, "a small body came");
        pass(&mut input, 8 << 20).await;
        assert!(!input.is_large() && memory(&mut input) <= 2 * READ_BYTES, "a very large body");
    }

    #[tokio::test]
    async fn shrinking_keeps_the_bytes_that_are_there() {
        let mut input = Input::new();
        let mut stream = [1_u8, 2, 3].as_slice();
        assert!(input.read(&mut stream).await.expect("bytes"));
        input.shrink();
        assert_eq!(&input.take_header(3)[..], [1, 2, 3]);
        assert!(!input.read(&mut stream).await.expect("the end"));
        let progress = Progress::new(PATIENCE);
        let error = input.fill(&mut stream, 1, &progress).await.expect_err("the end");
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
