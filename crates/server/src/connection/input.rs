//! The input buffer of a connection.

use std::io;

use bytes::{Buf, BufMut, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::revoked;
use crate::in_flight::{Progress, Reservation, UNCOUNTED_BYTES};

/// Number of bytes for which a read from the connection has space, and which it returns at most,
/// unless more bytes are wanted.
const READ_BYTES: usize = UNCOUNTED_BYTES;
/// Size of a body above which its memory is released as soon as the body is dropped, in bytes. The
/// memory of a smaller body is reused for the next body.
const REUSED_BYTES: usize = 2 << 20;

/// The bytes that have been read from a connection but not yet taken.
///
/// A body that is taken shares its memory with the buffer. After the body is dropped, the buffer
/// reuses that memory for the next body. Meanwhile the buffer also keeps the reservation of that
/// memory, which anybody who waits for memory can revoke. Each wait for the connection gives both
/// back when that happens: the reads of this buffer do so themselves, and other waits call
/// [`Self::revoked`] and then [`Self::release`].
#[derive(Debug)]
pub(super) struct Input {
    buffer: BytesMut,
    /// The reservation of the memory that the buffer keeps of the last body; `None` if it keeps
    /// none.
    kept: Option<Reservation>,
}

impl Input {
    pub(super) fn new() -> Self {
        Self { buffer: BytesMut::with_capacity(READ_BYTES), kept: None }
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
        Ok(self.read_some(stream, READ_BYTES, READ_BYTES).await? > 0)
    }

    /// Reads at most `bytes_max` bytes, and returns their number; 0 at the end of the stream.
    /// Memory for `bytes` bytes is allocated before.
    ///
    /// While the call waits, the kept memory can be revoked.
    async fn read_some<S>(
        &mut self,
        stream: &mut S,
        bytes: usize,
        bytes_max: usize,
    ) -> io::Result<usize>
    where
        S: AsyncRead + Unpin,
    {
        loop {
            self.buffer.reserve(bytes);
            let mut most = (&mut self.buffer).limit(bytes_max);
            tokio::select! {
                biased;
                read = stream.read_buf(&mut most) => return read,
                () = revoked(self.kept.as_ref()) => {}
            }
            self.shrink();
        }
    }

    /// Reads until the buffer contains `length` bytes. May read a little more if it is available.
    /// Adds the bytes of each read to `progress`.
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
        while self.buffer.len() < length {
            let bytes = length - self.buffer.len();
            let read = self.read_some(stream, bytes, bytes.max(READ_BYTES)).await?;
            progress.add(expect_bytes(read)?);
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
        while self.buffer.len() < bytes {
            let arrived = self.buffer.len();
            // Memory that has not been written to takes only addresses, so the buffer need not be
            // moved when more of the body arrives.
            let read = self.read_some(stream, length - arrived, bytes - arrived).await?;
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
            progress.add(expect_bytes(self.read_some(stream, READ_BYTES, READ_BYTES).await?)?);
        }
    }

    /// Discards the first bytes of a body of `length` bytes, as far as they have been read, and
    /// releases their memory. Returns the number of bytes that are missing.
    pub(super) fn discard(&mut self, length: usize) -> usize {
        let arrived = length.min(self.buffer.len());
        self.buffer.advance(arrived);
        self.shrink();
        length - arrived
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
    ///
    /// If the body is counted, its memory stays in the buffer until a call of [`Self::keep`] or
    /// [`Self::shrink`], one of which must follow.
    pub(super) fn take_body(&mut self, length: usize) -> BytesMut {
        if length <= UNCOUNTED_BYTES {
            // The body must not share the kept memory, which it would hold without a reservation.
            self.release();
        }
        self.buffer.split_to(length)
    }

    /// Returns the reservation of the next body, which is the one of the kept memory if it is in
    /// the same share as the empty reservation `other`. If it is in another share, or is revoked,
    /// gives it back with its memory.
    pub(super) fn reservation(&mut self, other: Reservation) -> Reservation {
        let is_usable = |kept: &Reservation| kept.is_in_share_of(&other) && !kept.is_revoked();
        if !self.kept.as_ref().is_some_and(is_usable) {
            self.release();
        }
        self.kept.take().unwrap_or(other)
    }

    /// Keeps the memory of the last body, which had `length` bytes, and its reservation. Gives both
    /// back if the body was very large.
    pub(super) fn keep(&mut self, reservation: Reservation, length: usize) {
        reservation.progress().idle();
        self.kept = Some(reservation);
        if length > REUSED_BYTES {
            self.release();
        }
    }

    /// Returns whether the buffer keeps memory of the last body.
    pub(super) fn is_large(&self) -> bool {
        self.kept.is_some()
    }

    /// Waits until the reservation of the kept memory is revoked; forever, if no memory is kept.
    pub(super) async fn revoked(&self) {
        revoked(self.kept.as_ref()).await;
    }

    /// Gives back the kept memory and its reservation, if there are any.
    pub(super) fn release(&mut self) {
        if self.kept.is_some() {
            self.shrink();
        }
    }

    /// Replaces the buffer by a small one that contains only the bytes that have not been taken,
    /// and gives back the reservation of its memory.
    pub(super) fn shrink(&mut self) {
        let mut small = BytesMut::with_capacity(READ_BYTES.max(self.buffer.len()));
        small.extend_from_slice(&self.buffer);
        self.buffer = small;
        self.kept = None;
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
    use tokio::io::AsyncWriteExt;

    use super::*;
    use crate::in_flight::{InFlight, PATIENCE};

    const MIB: usize = 1 << 20;

    /// A limit with shares of 4 MiB and 1 MiB for requests.
    fn in_flight() -> InFlight {
        InFlight::new(16 * MIB, MIB)
    }

    /// Passes a body of `length` bytes through the buffer: reads the body, takes it, and drops it.
    async fn pass(input: &mut Input, in_flight: &InFlight, length: usize) {
        let bytes = vec![7; length + 3];
        let mut stream = bytes.as_slice();
        let progress = Progress::new(PATIENCE);
        let mut reservation = in_flight.request(length).map(|other| input.reservation(other));
        if let Some(reservation) = &mut reservation {
            reservation.grow(length).await;
        }
        input.fill(&mut stream, length, &progress).await.expect("the bytes");
        assert!(progress.moved() >= length);
        assert_eq!(input.take_body(length).len(), length);
        if let Some(reservation) = reservation {
            input.keep(reservation, length);
        }
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
        let in_flight = InFlight::new(128 * MIB, MIB);
        let mut input = Input::new();
        pass(&mut input, &in_flight, MIB).await;
        assert!(input.is_large() && in_flight.bytes() == MIB);
        assert!(memory(&mut input) >= MIB, "it is used again for the next body");
        pass(&mut input, &in_flight, MIB).await;
        input.release();
        let is_freed = |input: &mut Input| {
            !input.is_large() && memory(input) <= 2 * READ_BYTES && in_flight.bytes() == 0
        };
        assert!(is_freed(&mut input));

        pass(&mut input, &in_flight, MIB).await;
        pass(&mut input, &in_flight, 10).await;
        assert!(is_freed(&mut input), "a small body came");
        pass(&mut input, &in_flight, 8 << 20).await;
        assert!(is_freed(&mut input), "a very large body");
    }

    /// Regression test: the memory of a body stayed in the buffer when its reservation was dropped
    /// because the next body belonged to another share.
    #[tokio::test]
    async fn memory_is_given_back_with_its_reservation() {
        let in_flight = in_flight();
        let mut input = Input::new();
        pass(&mut input, &in_flight, MIB).await;
        let large = input.reservation(in_flight.request(2 * MIB).expect("counted"));
        assert!(in_flight.bytes() == 0 && memory(&mut input) <= 2 * READ_BYTES);
        drop(large);
        pass(&mut input, &in_flight, MIB).await;
        assert!(in_flight.bytes() == MIB && memory(&mut input) >= MIB);
    }

    /// Regression test: memory that was revoked was used for the next body, if that arrived at
    /// once, although others counted on it.
    #[tokio::test(start_paused = true)]
    async fn revoked_memory_is_not_used_again() {
        let in_flight = in_flight();
        let mut input = Input::new();
        pass(&mut input, &in_flight, MIB).await;
        let mut other = in_flight.request(MIB).expect("counted");
        assert!(tokio::time::timeout(PATIENCE, other.grow(MIB)).await.is_err());
        let next = input.reservation(in_flight.request(MIB).expect("counted"));
        assert!(!next.is_revoked() && in_flight.bytes() == 0);
        assert!(memory(&mut input) <= 2 * READ_BYTES);
    }

    #[tokio::test]
    async fn only_the_bytes_of_a_discarded_body_are_lost() {
        let mut input = Input::new();
        assert!(input.read(&mut [1_u8, 2, 3].as_slice()).await.expect("bytes"));
        assert_eq!(input.discard(2), 0);
        assert_eq!(input.arrived(), [3]);
        assert_eq!(input.discard(5), 4);
    }

    /// Regression test: the memory of a body could be revoked until the first byte of the next
    /// frame had arrived. A client that sent only that byte kept the memory from others.
    #[tokio::test(start_paused = true)]
    async fn kept_memory_is_revoked_in_the_middle_of_a_header_and_of_a_skipped_body() {
        for is_skipped in [false, true] {
            let in_flight = in_flight();
            let mut input = Input::new();
            pass(&mut input, &in_flight, MIB).await;
            let (mut client, mut stream) = tokio::io::duplex(64);
            client.write_all(&[1]).await.expect("a write");
            assert!(input.read(&mut stream).await.expect("a byte"));
            let progress = Progress::new(PATIENCE);
            let mut other = in_flight.request(MIB).expect("counted");
            let waiting = async {
                match is_skipped {
                    true => input.skip(&mut stream, 2, &progress).await,
                    false => input.fill(&mut stream, 2, &progress).await,
                }
            };
            tokio::select! {
                biased;
                _ = waiting => panic!("there is only one byte"),
                grown = tokio::time::timeout(PATIENCE, other.grow(MIB)) => {
                    assert_eq!(grown, Ok(true));
                }
            }
            assert!(!input.is_large() && memory(&mut input) <= 2 * READ_BYTES);
            assert_eq!(in_flight.bytes(), MIB, "that of the other client");
            // Nothing that arrived is lost.
            assert_eq!(input.length(), usize::from(!is_skipped));
        }
    }

    /// Bytes beyond a frame must not fill the memory that is kept of the last body, because that
    /// memory can be revoked, but not the bytes.
    #[tokio::test]
    async fn little_more_than_a_frame_is_read() {
        let in_flight = in_flight();
        let mut input = Input::new();
        pass(&mut input, &in_flight, MIB).await;
        let bytes = vec![7; MIB];
        let mut stream = bytes.as_slice();
        assert!(input.read(&mut stream).await.expect("bytes"));
        assert!(input.length() <= READ_BYTES);
        let length = input.length() + 1;
        input.fill(&mut stream, length, &Progress::new(PATIENCE)).await.expect("bytes");
        assert!(input.length() <= 2 * READ_BYTES);
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
