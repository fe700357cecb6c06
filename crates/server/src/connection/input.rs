//! The input buffer of a connection.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Minimum space that the buffer has for each read from the connection, in bytes.
const READ_BYTES: usize = 16 << 10;
/// Size of a body above which an idle connection releases the body's memory, in bytes.
const KEPT_BYTES: usize = 256 << 10;
/// Size of a body above which its memory is released as soon as the body is dropped, in bytes. The
/// memory of a smaller body is reused for the next body.
const REUSED_BYTES: usize = 2 << 20;

/// The bytes that have been read from a connection but not yet taken.
///
/// A body that is taken shares its memory with the buffer. After the body is dropped, the buffer
/// reuses that memory for the next body. The buffer of an idle connection must not keep the memory
/// of a large body: if [`Self::is_large`] returns true, the connection calls [`Self::shrink`].
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

    /// Reads available bytes. Returns false at the end of the stream.
    pub(super) async fn read<S>(&mut self, stream: &mut S) -> io::Result<bool>
    where
        S: AsyncRead + Unpin,
    {
        self.buffer.reserve(READ_BYTES);
        Ok(stream.read_buf(&mut self.buffer).await? > 0)
    }

    /// Reads until the buffer contains `length` bytes. After each read, stores the buffer's length
    /// in `moved`.
    ///
    /// # Errors
    /// I/O errors of the stream; an error if the stream ends.
    pub(super) async fn fill<S>(
        &mut self,
        stream: &mut S,
        length: usize,
        moved: &AtomicUsize,
    ) -> io::Result<()>
    where
        S: AsyncRead + Unpin,
    {
        self.buffer.reserve(length.saturating_sub(self.buffer.len()));
        while self.buffer.len() < length {
            if stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            moved.store(self.buffer.len(), Ordering::Relaxed);
        }
        Ok(())
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
        if length > REUSED_BYTES || (self.is_large && length <= KEPT_BYTES) {
            self.shrink();
        } else if length > KEPT_BYTES {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Passes a body of `length` bytes through the buffer: reads the body, takes it, and drops it.
    async fn pass(input: &mut Input, length: usize) {
        let bytes = vec![7; length + 3];
        let mut stream = bytes.as_slice();
        let moved = AtomicUsize::new(0);
        input.fill(&mut stream, length, &moved).await.expect("the bytes");
        assert!(moved.load(Ordering::Relaxed) >= length);
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
        assert!(!input.is_large() && memory(&mut input) <= 64 << 10);

        pass(&mut input, 1 << 20).await;
        pass(&mut input, 10).await;
        assert!(!input.is_large() && memory(&mut input) <= 64 << 10, "a small body came");
        pass(&mut input, 8 << 20).await;
        assert!(!input.is_large() && memory(&mut input) <= 64 << 10, "a very large body");
    }

    #[tokio::test]
    async fn shrinking_keeps_the_bytes_that_are_there() {
        let mut input = Input::new();
        let mut stream = [1_u8, 2, 3].as_slice();
        assert!(input.read(&mut stream).await.expect("bytes"));
        input.shrink();
        assert_eq!(&input.take_header(3)[..], [1, 2, 3]);
        assert!(!input.read(&mut stream).await.expect("the end"));
        let moved = AtomicUsize::new(0);
        let error = input.fill(&mut stream, 1, &moved).await.expect_err("the end");
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
