//! Writes replies.
//!
//! The reply to a poll is written directly from the memory of its batches. It gives back this
//! memory while it is written: bytes that were written at once, the others if the client reads too
//! slowly ([`PollReply::must_release`]). The connection then waits until the client has read the
//! few bytes that are kept, and reads the next ones from the log.

use std::io::{self, IoSlice};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, sleep};

use super::pace::Pace;
use super::{End, revoked};
use crate::command::{Content, PollReply, Release, Unread};
use crate::in_flight::{InFlight, PATIENCE, Progress, Reservation};
use crate::protocol::ReplyStart;

/// Maximum number of slices per write call.
const SLICES: usize = 64;
/// Size up to which a reply is first copied into one slice and then written, in bytes.
const COPIED_BYTES: usize = 8 << 10;
/// Number of bytes after which the memory of the bytes that have been written is given back.
const STEP_BYTES: usize = 1 << 20;
/// First pause before a read is repeated because the process had too many files open. Each pause
/// is twice as long as the last one, up to [`RETRY_MAX`].
const RETRY_MIN: Duration = Duration::from_millis(10);
const RETRY_MAX: Duration = Duration::from_secs(1);

/// A reply.
pub(super) struct Frame {
    pub(super) start: ReplyStart,
    pub(super) content: Content,
    /// The memory reserved for the content. The reply to a poll has a reservation of its own.
    pub(super) reservation: Option<Reservation>,
}

impl Frame {
    /// Returns the reply's length, in bytes.
    pub(super) fn length(&self) -> usize {
        self.start.as_ref().len() + self.content.length()
    }
}

/// Writes a reply.
///
/// # Errors
/// I/O errors on the stream; the client reads too slowly; the messages of a poll cannot be read
/// again.
pub(super) async fn write<S>(
    stream: &mut S,
    frame: Frame,
    pace: Pace,
    in_flight: &InFlight,
) -> Result<(), End>
where
    S: AsyncWrite + Unpin,
{
    let Frame { start, content, reservation } = frame;
    match content {
        Content::Bytes(bytes) => {
            write_bytes(stream, start.as_ref(), &bytes, pace, reservation.as_ref()).await
        }
        Content::Polled { header, reply } => {
            let start = [start.as_ref(), &header].concat();
            write_polled(stream, &start, *reply, pace, in_flight).await
        }
    }
}

/// Writes a reply that is held in memory as a whole. If its memory is revoked because the client
/// reads too slowly, the connection ends.
async fn write_bytes<S>(
    stream: &mut S,
    start: &[u8],
    bytes: &[u8],
    pace: Pace,
    reservation: Option<&Reservation>,
) -> Result<(), End>
where
    S: AsyncWrite + Unpin,
{
    let uncounted = Progress::new(PATIENCE);
    let progress = reservation.map_or(&uncounted, |reservation| reservation.progress());
    let write = async {
        if start.len() + bytes.len() <= COPIED_BYTES {
            stream.write_all(&[start, bytes].concat()).await?;
        } else {
            let mut slices = [IoSlice::new(start), IoSlice::new(bytes)];
            write_slices(stream, &mut slices, progress).await?;
        }
        // An encrypted stream may still buffer bytes, which a flush sends.
        stream.flush().await
    };
    tokio::select! {
        biased;
        written = pace.run(progress, write) => Ok(written.ok_or(SLOW)??),
        () = revoked(reservation) => Err(SLOW),
    }
}

const SLOW: End = End::Slow("reading a reply");

/// Writes the reply to a poll. `start` is the part of the frame before the batches.
async fn write_polled<S>(
    stream: &mut S,
    start: &[u8],
    mut reply: PollReply,
    pace: Pace,
    in_flight: &InFlight,
) -> Result<(), End>
where
    S: AsyncWrite + Unpin,
{
    let progress = Arc::clone(reply.progress());
    let mut start = start;
    while !(start.is_empty() && reply.is_done()) {
        if start.is_empty() && !reply.is_next_held() {
            hold_next(&mut reply, pace.stall, in_flight).await?;
        }
        let before = progress.moved();
        let release = write_held(stream, start, &reply, pace, &progress).await?;
        let written = progress.moved() - before;
        let written_start = written.min(start.len());
        start = start.get(written_start..).unwrap_or_default();
        reply.advance(written - written_start);
        if let Some(release) = release {
            reply.release(in_flight, release).await;
        }
    }
    pace.run(&progress, stream.flush()).await.ok_or(SLOW)??;
    Ok(())
}

/// Reads the next bytes of a reply. If the process has too many files open, the read is repeated,
/// but not longer than `patience`: the reply has begun, so giving up ends the connection.
async fn hold_next(
    reply: &mut PollReply,
    patience: Duration,
    in_flight: &InFlight,
) -> Result<(), End> {
    let mut retries = Retries { end: Instant::now() + patience, pause: RETRY_MIN };
    loop {
        match reply.hold_next(in_flight).await {
            Ok(()) => return Ok(()),
            Err(error) => retries.pause_after(error).await?,
        }
    }
}

/// When a read is repeated.
struct Retries {
    /// Time after which it is not repeated again.
    end: Instant,
    pause: Duration,
}

impl Retries {
    /// Waits until a read that ended with `error` can be repeated.
    ///
    /// # Errors
    /// It must not be repeated.
    async fn pause_after(&mut self, error: Unread) -> Result<(), End> {
        if error == Unread::Unreadable || Instant::now() >= self.end {
            return Err(End::Unreadable);
        }
        sleep(self.pause).await;
        self.pause = RETRY_MAX.min(2 * self.pause);
        Ok(())
    }
}

/// Writes `start` and then bytes of the reply that are held, about [`STEP_BYTES`]. Ends earlier,
/// and returns the reason, if the reply must give back memory.
async fn write_held<S>(
    stream: &mut S,
    start: &[u8],
    reply: &PollReply,
    pace: Pace,
    progress: &Progress,
) -> Result<Option<Release>, End>
where
    S: AsyncWrite + Unpin,
{
    let must_release = reply.must_release();
    let mut slices = vec![IoSlice::new(start)];
    let mut bytes = start.len();
    slices.extend(reply.held().map(IoSlice::new).take_while(|slice| {
        let fits = bytes < STEP_BYTES;
        bytes += slice.len();
        fits
    }));
    let write = async {
        if bytes <= COPIED_BYTES {
            let copy: Vec<u8> = slices.iter().flat_map(|slice| slice.iter()).copied().collect();
            write_slices(stream, &mut [IoSlice::new(&copy)], progress).await
        } else {
            write_slices(stream, &mut slices, progress).await
        }
    };
    tokio::select! {
        biased;
        written = pace.run(progress, write) => {
            written.ok_or(SLOW)??;
            Ok(None)
        }
        release = must_release => Ok(Some(release)),
    }
}

/// Writes all bytes of all slices, and adds them to `progress`.
async fn write_slices<S>(
    stream: &mut S,
    mut slices: &mut [IoSlice<'_>],
    progress: &Progress,
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
        progress.add(written);
        IoSlice::advance_slices(&mut slices, written);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: when the process had too many files open for a moment, a reply that had to
    /// read messages again ended its connection, after its offset had been committed.
    #[tokio::test(start_paused = true)]
    async fn a_read_without_descriptors_is_repeated_for_a_limited_time() {
        const PATIENCE: Duration = Duration::from_secs(30);
        let began = Instant::now();
        let mut retries = Retries { end: began + PATIENCE, pause: RETRY_MIN };
        let mut count = 0;
        while retries.pause_after(Unread::OutOfDescriptors).await.is_ok() {
            count += 1;
        }
        assert!((30..50).contains(&count), "{count}");
        assert!((PATIENCE..=PATIENCE + RETRY_MAX).contains(&began.elapsed()));
        let mut retries = Retries { end: Instant::now() + PATIENCE, pause: RETRY_MIN };
        let ended = retries.pause_after(Unread::Unreadable).await;
        assert!(matches!(ended, Err(End::Unreadable)));
    }
}
