//! One client's connection: frames in, replies out.
//!
//! A connection's requests are executed one after the other, and each is answered before the next
//! one is read. A client that does not read its replies therefore stops being read from, and
//! nobody else waits for it.
//!
//! # Limits
//!
//! - A connection must log in within a time, and until then send small frames only.
//! - A frame that has begun must be complete within a time, and a reply be taken within it.
//! - The bodies of all connections together have a bound: a frame is not read before there is
//!   room for it.
//! - A header that is not a request's ends the connection, because the next frame cannot be found.

use std::io::{self, IoSlice};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use iggy_binary_protocol::{EvictionReason, Operation, codes};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::{Instant as Deadline, timeout, timeout_at};
use tracing::{debug, warn};

use crate::command::{self, Body};
use crate::protocol::{self, HEADER_BYTES, Head, HeadError};
use crate::session::{Admission, Session};
use crate::state::State;
use crate::status::Status;

/// Largest frame before a login, in bytes.
const UNAUTHENTICATED_FRAME_BYTES: usize = 16 << 10;
/// Bytes that one read asks for at least.
const READ_BYTES: usize = 16 << 10;
/// Slices that are written with one call.
const SLICES: usize = 64;
/// Replies up to this size are written with one copy instead of several slices, in bytes.
const COPIED_REPLY_BYTES: usize = 8 << 10;

/// Slowest transfer of a body that is waited for, in bytes a second.
const SLOWEST_TRANSFER: usize = 1 << 20;

/// Returns how much longer than a small body one of this length may take.
fn transfer_time(bytes: usize) -> Duration {
    Duration::from_secs((bytes / SLOWEST_TRANSFER) as u64)
}

/// Why a connection ended.
#[derive(Debug)]
pub(crate) enum End {
    /// The client closed it.
    Closed,
    /// The server shuts down.
    Shutdown,
    /// The session was evicted.
    Evicted(EvictionReason),
    /// The client sent what is no frame.
    Garbage,
    /// The client took too long.
    Slow(&'static str),
    /// The socket failed.
    Io(io::Error),
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Closed => f.write_str("closed by the client"),
            Self::Shutdown => f.write_str("the server shuts down"),
            Self::Evicted(reason) => write!(f, "evicted: {reason:?}"),
            Self::Garbage => f.write_str("the client sent what is no frame"),
            Self::Slow(what) => write!(f, "the client took too long {what}"),
            Self::Io(error) => write!(f, "{error}"),
        }
    }
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::UnexpectedEof => Self::Closed,
            _ => Self::Io(error),
        }
    }
}

/// Serves one connection until it ends.
pub(crate) async fn serve<S>(
    state: &Arc<State>,
    session: &Arc<Session>,
    stream: S,
    shutdown: watch::Receiver<bool>,
) -> End
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let login_by = Deadline::now() + state.config.limits.unauthenticated_timeout;
    let mut connection = Connection {
        state,
        session,
        stream,
        buffer: BytesMut::with_capacity(READ_BYTES),
        login_by,
        shutdown,
    };
    let end = loop {
        if let Err(end) = connection.answer_one().await {
            break end;
        }
    };
    if let End::Evicted(reason) = end {
        let client = session.binding().map_or(0, |binding| binding.client);
        // The client may be gone already.
        let _ = connection.evict(client, reason).await;
    }
    let _ = timeout(state.config.limits.stall_timeout, connection.stream.shutdown()).await;
    end
}

struct Connection<'a, S> {
    state: &'a Arc<State>,
    session: &'a Arc<Session>,
    stream: S,
    /// Bytes that were read and not taken yet.
    buffer: BytesMut,
    login_by: Deadline,
    shutdown: watch::Receiver<bool>,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Connection<'_, S> {
    /// Reads a request, executes it, and writes its reply.
    async fn answer_one(&mut self) -> Result<(), End> {
        self.wait_for_frame().await?;
        let stall = self.state.config.limits.stall_timeout;
        let read_by = Deadline::now() + stall;
        let header = timeout_at(read_by, self.take(HEADER_BYTES))
            .await
            .map_err(|_| End::Slow("sending a header"))??;
        let mut bytes = [0; HEADER_BYTES];
        bytes.copy_from_slice(&header);
        drop(header);

        let is_bound = self.session.binding().is_some();
        let limits = &self.state.config.limits;
        let frame_bytes_max = match is_bound {
            // One request is in memory at a time.
            true => limits.frame_bytes_max.min(limits.connection_bytes_max),
            false => UNAUTHENTICATED_FRAME_BYTES,
        };
        let head = protocol::decode_head(&bytes, frame_bytes_max);
        let body_bytes = match &head {
            Ok(head) => head.body_bytes,
            Err(HeadError::Invalid { body_bytes, .. }) => *body_bytes,
            Err(HeadError::Garbage) => {
                self.state.metrics.refused("garbage");
                return Err(End::Garbage);
            }
        };
        let room = self.state.in_flight.reserve(body_bytes).await;
        let read_by = Deadline::now() + stall + transfer_time(body_bytes);
        let body = timeout_at(read_by, self.take(body_bytes))
            .await
            .map_err(|_| End::Slow("sending a body"))??
            .freeze();
        let head = match head {
            Ok(head) => head,
            Err(HeadError::Invalid { client, reason, .. }) => {
                self.state.metrics.refused("invalid_header");
                return self.evict(client, reason).await;
            }
            Err(HeadError::Garbage) => return Err(End::Garbage),
        };

        let began = Instant::now();
        self.session.touch();
        let answer = self.answer(&head, body).await;
        drop(room);
        let (status, bytes_out) = match answer {
            Answer::Reply(Ok(body)) => (0, self.reply(&head, 0, &body).await?),
            Answer::Reply(Err(status)) => {
                debug!(session = self.session.id.0, code = head.code, %status, "refused");
                (status.0, self.reply(&head, status.0, &Body::default()).await?)
            }
            Answer::Evict(reason) => {
                self.evict(head.client, reason).await?;
                (u32::MAX, HEADER_BYTES)
            }
        };
        let bytes_in = HEADER_BYTES + body_bytes;
        self.state.metrics.request(head.code, began.elapsed(), status, bytes_in, bytes_out);
        Ok(())
    }

    /// Waits for the first byte of the next frame.
    async fn wait_for_frame(&mut self) -> Result<(), End> {
        if !self.buffer.is_empty() {
            return Ok(());
        }
        self.buffer.reserve(READ_BYTES);
        let is_bound = self.session.binding().is_some();
        let login_by = self.login_by;
        tokio::select! {
            biased;
            _ = self.shutdown.wait_for(|is_shutdown| *is_shutdown) => Err(End::Shutdown),
            reason = self.session.evicted() => Err(End::Evicted(reason)),
            () = tokio::time::sleep_until(login_by), if !is_bound => {
                Err(End::Slow("logging in"))
            }
            read = self.stream.read_buf(&mut self.buffer) => match read? {
                0 => Err(End::Closed),
                _ => Ok(()),
            },
        }
    }

    /// Reads until there are `length` bytes, and takes them.
    async fn take(&mut self, length: usize) -> Result<BytesMut, End> {
        if self.buffer.len() < length {
            self.buffer.reserve(length - self.buffer.len());
        }
        while self.buffer.len() < length {
            if self.stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(End::Closed);
            }
        }
        Ok(self.buffer.split_to(length))
    }

    async fn answer(&mut self, head: &Head, body: Bytes) -> Answer {
        if head.operation == Operation::Register {
            return match command::login(self.state, self.session, head, &body).await {
                Ok(body) => Answer::Reply(Ok(Body::Bytes(body))),
                Err(reason) => Answer::Evict(reason),
            };
        }
        if matches!(
            head.code,
            codes::LOGIN_USER_CODE | codes::LOGIN_WITH_PERSONAL_ACCESS_TOKEN_CODE
        ) {
            return Answer::Evict(EvictionReason::MalformedLogin);
        }
        if head.code == codes::PING_CODE {
            return Answer::Reply(Ok(Body::default()));
        }
        let Some(binding) = self.session.binding() else {
            return if head.is_replicated() {
                Answer::Evict(EvictionReason::NoSession)
            } else {
                Answer::Reply(Err(Status::UNAUTHENTICATED))
            };
        };
        if head.operation == Operation::Logout {
            self.state.groups.leave_all(self.session.id);
            self.state.sessions.unbind(self.session);
            self.login_by = Deadline::now() + self.state.config.limits.unauthenticated_timeout;
            return Answer::Reply(Ok(Body::default()));
        }
        if !head.is_replicated() {
            let done = command::execute(self.state, self.session, &binding, head, body).await;
            return Answer::Reply(done);
        }
        if head.session != binding.session || head.client != binding.client {
            return Answer::Evict(EvictionReason::NoSession);
        }
        match self.session.admit(head.request, head.code, head.checksum) {
            Admission::Repeat(0, body) => Answer::Reply(Ok(Body::Bytes(body.to_vec()))),
            Admission::Repeat(status, _) => Answer::Reply(Err(Status(status))),
            Admission::Refuse(status) => Answer::Reply(Err(status)),
            Admission::Execute => {
                let done = command::execute(self.state, self.session, &binding, head, body).await;
                self.remember(head, &done);
                Answer::Reply(done)
            }
        }
    }

    /// Remembers a reply, unless it says that nothing was done and the request is to be repeated.
    fn remember(&self, head: &Head, done: &Result<Body, Status>) {
        let (status, body) = match done {
            Ok(Body::Bytes(body)) => (0, body.as_slice()),
            Ok(Body::Polled { .. }) => return,
            Err(Status::TRANSIENT_NOT_ACCEPTED) => return,
            Err(status) => (status.0, &[][..]),
        };
        self.session.answered(head.request, head.code, head.checksum, status, body);
    }

    /// Writes a reply, and returns its length in bytes.
    async fn reply(&mut self, head: &Head, status: u32, body: &Body) -> Result<usize, End> {
        let length = body.length();
        let start = head.reply(status, length, self.state.commit());
        let total = start.as_ref().len() + length;
        let room = self.state.in_flight.reserve(length).await;
        let limit = self.state.config.limits.stall_timeout + transfer_time(length);
        let written = if total <= COPIED_REPLY_BYTES {
            let mut bytes = Vec::with_capacity(total);
            bytes.extend_from_slice(start.as_ref());
            body.for_each(|slice| bytes.extend_from_slice(slice));
            timeout(limit, self.stream.write_all(&bytes)).await
        } else {
            let mut slices = vec![IoSlice::new(start.as_ref())];
            body.for_each(|slice| slices.push(IoSlice::new(slice)));
            timeout(limit, write_all_vectored(&mut self.stream, &mut slices)).await
        };
        drop(room);
        written.map_err(|_| End::Slow("taking a reply"))??;
        // A stream with a cipher holds back what it has not sent.
        self.stream.flush().await?;
        Ok(total)
    }

    async fn evict(&mut self, client: u128, reason: EvictionReason) -> Result<(), End> {
        warn!(session = self.session.id.0, address = %self.session.address, ?reason, "evicted");
        let frame = protocol::encode_eviction(client, reason);
        let write = async {
            self.stream.write_all(&frame).await?;
            self.stream.flush().await
        };
        timeout(self.state.config.limits.stall_timeout, write)
            .await
            .map_err(|_| End::Slow("taking a reply"))??;
        Ok(())
    }
}

/// What a request is answered with.
enum Answer {
    Reply(Result<Body, Status>),
    Evict(EvictionReason),
}

/// Writes all bytes of all slices.
async fn write_all_vectored<S: AsyncWrite + Unpin>(
    stream: &mut S,
    mut slices: &mut [IoSlice<'_>],
) -> io::Result<()> {
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        let some = slices.len().min(SLICES);
        let written = stream.write_vectored(&slices[..some]).await?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        IoSlice::advance_slices(&mut slices, written);
    }
    Ok(())
}
