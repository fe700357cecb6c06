//! One client's connection: reads requests and writes replies.
//!
//! A connection executes its requests one after another, and answers each request before it reads
//! the next one. If a client does not read its replies, the server therefore stops reading the
//! requests of that client, and no other client is delayed.
//!
//! # Limits
//!
//! - A client must log in within a time limit, and may send only small frames before the login.
//! - A client must complete a frame that it has begun, and read a reply, within a time limit
//!   ([`pace`]).
//! - The total memory of all connections' requests and replies is bounded ([`crate::in_flight`]). A
//!   request is refused before its body is read where that is possible ([`receiving`]), and a body
//!   is read as memory for it is reserved. A client that is too slow loses the memory while others
//!   wait for it.
//! - A header with an invalid frame size or command ends the connection, because the start of the
//!   next frame is unknown.
//! - A shutdown, or the eviction of the session, ends the connection at any point. A request in
//!   progress is executed first, and its client gets a short time to read the reply.

mod input;
mod output;
mod pace;
mod receiving;
#[cfg(test)]
mod tests;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use iggy_binary_protocol::{EvictionReason, Operation, codes};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::{Instant as Deadline, sleep, sleep_until, timeout, timeout_at};
use tracing::{debug, warn};
use xxhash_rust::xxh3::xxh3_64;

use crate::command::{self, Body, Content};
use crate::in_flight::{InFlight, PATIENCE, Progress, Reservation, UNCOUNTED_BYTES};
use crate::protocol::{self, HEADER_BYTES, Head, START_BYTES};
use crate::session::{Admission, Session, Stamp};
use crate::state::State;
use crate::status::Status;
use input::Input;
use output::Frame;
use pace::Pace;
use receiving::Received;

/// Maximum size of a frame before the login, in bytes.
const UNAUTHENTICATED_FRAME_BYTES: usize = 16 << 10;
/// If the server evicts a session (ends it because of an invalid request) this number of times, it
/// closes the connection. A successful login restarts the count.
const EVICTIONS: u32 = 5;
/// Time without bytes from the client after which a connection releases the memory of its input
/// buffer.
const IDLE: Duration = Duration::from_secs(1);
/// Maximum time that the server waits for a client to read the last reply, before it closes the
/// connection. Also the time limit for closing the connection.
const CLOSING: Duration = Duration::from_secs(1);

/// The reason why a connection ended.
#[derive(Debug)]
pub(crate) enum End {
    /// The client closed the connection.
    Closed,
    /// The server shuts down.
    Shutdown,
    /// The session was evicted, for example because its user was deleted.
    Evicted(EvictionReason),
    /// The client sent a header with an invalid frame size or command.
    Garbage,
    /// The client uses the earlier protocol of Iggy 0.8.
    EarlierProtocol,
    /// The client sent too many invalid requests, each of which evicted its session, without a
    /// successful login between them.
    Refused,
    /// The messages of a reply could not be read again after the reply had begun.
    Unreadable,
    /// The client exceeded a time limit. The text names the action that took too long.
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
            Self::Garbage => f.write_str("the client sent an invalid frame"),
            Self::EarlierProtocol => {
                f.write_str("the client uses the protocol of Iggy 0.8, the server that of 0.9")
            }
            Self::Refused => f.write_str("the client was evicted repeatedly"),
            Self::Unreadable => f.write_str("messages of a reply are gone"),
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

/// Serves one connection until it ends. The client must log in by `login_by`.
pub(crate) async fn serve<S>(
    state: &Arc<State>,
    session: &Arc<Session>,
    stream: S,
    mut shutdown: watch::Receiver<bool>,
    login_by: Deadline,
) -> End
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let ended = async move {
        tokio::select! {
            biased;
            _ = shutdown.wait_for(|is_shutdown| *is_shutdown) => End::Shutdown,
            reason = session.evicted() => End::Evicted(reason),
        }
    };
    let mut connection = Connection {
        state,
        session,
        stream,
        input: Input::new(),
        login_by,
        evictions: 0,
        ended: Box::pin(ended),
    };
    let end = loop {
        if let Err(end) = connection.answer_one().await {
            break end;
        }
    };
    if let End::Evicted(reason) = end {
        let client = session.binding().map_or(0, |binding| binding.client);
        // Errors are ignored, because the client may have disconnected already.
        let _ =
            timeout(CLOSING, write_eviction(&mut connection.stream, session, client, reason)).await;
    }
    let _ = timeout(CLOSING, connection.stream.shutdown()).await;
    end
}

struct Connection<'a, S> {
    state: &'a Arc<State>,
    session: &'a Arc<Session>,
    stream: S,
    input: Input,
    login_by: Deadline,
    /// Number of evictions on this connection since the last successful login. An eviction ends the
    /// session because of an invalid request.
    evictions: u32,
    ended: Ended<'a>,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Connection<'_, S> {
    /// Reads a request, executes it, and writes its reply.
    async fn answer_one(&mut self) -> Result<(), End> {
        self.wait_for_frame().await?;
        if self.session.binding().is_none() {
            self.refuse_earlier_protocol().await?;
        }
        self.fill(HEADER_BYTES, "sending a header").await?;
        let mut header = [0; HEADER_BYTES];
        header.copy_from_slice(&self.input.take_header(HEADER_BYTES));

        let limits = &self.state.config.limits;
        let frame_bytes_max = match self.session.binding() {
            // A connection has only one request in memory at a time, so the limit on the memory of
            // a connection limits each request.
            Some(_) => limits.frame_bytes_max.min(limits.connection_bytes_max),
            None => UNAUTHENTICATED_FRAME_BYTES,
        };
        let Some(body_bytes) = protocol::body_bytes(&header, frame_bytes_max) else {
            self.state.metrics.refused("garbage");
            return Err(End::Garbage);
        };
        let head = match protocol::decode_head(&header) {
            Ok(head) => head,
            Err(invalid) => {
                self.state.metrics.refused("invalid_header");
                self.input.release();
                self.evict(invalid.client, invalid.reason).await?;
                return self.skip(body_bytes).await;
            }
        };
        let (body, reservation) = match self.receive_body(&head, body_bytes).await? {
            Received::Body(body, reservation) => (body, reservation),
            Received::Refused { status, bytes } => {
                return self.refuse(&head, status, body_bytes, bytes).await;
            }
        };

        let began = Instant::now();
        self.session.touch();
        let done = match self.answer(&head, body.freeze(), reservation.as_ref()).await? {
            Answer::Reply(done) => done,
            Answer::Evict(reason) => {
                self.input.shrink();
                drop(reservation);
                return self.evict(head.client, reason).await;
            }
        };
        match reservation {
            Some(reservation) if reservation.is_revoked() => {
                self.input.shrink();
                drop(reservation);
            }
            Some(reservation) => self.input.keep(reservation, body_bytes),
            None => {}
        }
        self.finish(&head, done, body_bytes, began).await
    }

    /// Writes the reply to a request, and counts the request. `body_bytes` is the length of its
    /// body.
    async fn finish(
        &mut self,
        head: &Head,
        done: Result<Body, Status>,
        body_bytes: usize,
        began: Instant,
    ) -> Result<(), End> {
        let (status, body) = match done {
            Ok(body) => (0, body),
            Err(status) => {
                debug!(session = self.session.id.0, code = head.code, %status, "refused");
                (status.0, Body::default())
            }
        };
        let bytes_out = self.reply(head, status, body).await?;
        let bytes_in = HEADER_BYTES + body_bytes;
        self.state.metrics.request(head.code, began.elapsed(), status, bytes_in, bytes_out);
        Ok(())
    }

    /// Refuses a request whose body has not been read completely: `rest` bytes of it are missing,
    /// which are then read and discarded. The reply does not wait for them.
    async fn refuse(
        &mut self,
        head: &Head,
        status: Status,
        body_bytes: usize,
        rest: usize,
    ) -> Result<(), End> {
        let began = Instant::now();
        self.session.touch();
        if status == Status::TRANSIENT_NOT_ACCEPTED && head.is_replicated() {
            self.session.expect_again(head);
        }
        self.finish(head, Err(status), body_bytes, began).await?;
        self.skip(rest).await
    }

    /// Closes the connection if its client uses the earlier protocol. The first frame of such a
    /// client is shorter than a header of this protocol. Without this check, the server would wait
    /// for the rest of the header, and the client for a reply.
    async fn refuse_earlier_protocol(&mut self) -> Result<(), End> {
        self.fill(START_BYTES, "sending a header").await?;
        if !protocol::is_earlier_protocol(self.input.start()) {
            return Ok(());
        }
        self.state.metrics.refused("earlier_protocol");
        let refusal = protocol::encode_earlier_refusal(Status::FEATURE_UNAVAILABLE.0);
        let (pace, progress) = (self.pace(), Progress::new(PATIENCE));
        let write = async {
            self.stream.write_all(&refusal).await?;
            self.stream.flush().await
        };
        let written = unless(&mut self.ended, pace.run(&progress, write)).await?;
        written.ok_or(End::Slow("reading a reply"))??;
        Err(End::EarlierProtocol)
    }

    /// Waits for the first byte of the next frame.
    async fn wait_for_frame(&mut self) -> Result<(), End> {
        let login_by = self.login_by();
        let late = || End::Slow("logging in");
        if self.input.length() > 0 {
            // Whether the connection must end is checked here, too. If the client always sends its
            // next request before it receives a reply, the loop below never runs.
            if let Some(end) = now_or_never(&mut self.ended).await {
                return Err(end);
            }
            return match login_by {
                Some(by) if by <= Deadline::now() => Err(late()),
                _ => Ok(()),
            };
        }
        loop {
            let is_large = self.input.is_large();
            let read = tokio::select! {
                biased;
                end = &mut self.ended => return Err(end),
                () = sleep_until(self.login_by), if login_by.is_some() => return Err(late()),
                read = self.input.read(&mut self.stream) => Some(read?),
                () = sleep(IDLE), if is_large => None,
            };
            match read {
                Some(true) => return Ok(()),
                Some(false) => return Err(End::Closed),
                None => self.input.release(),
            }
        }
    }

    /// Returns the time by which the client must log in; `None` after the login.
    fn login_by(&self) -> Option<Deadline> {
        self.session.binding().is_none().then_some(self.login_by)
    }

    fn pace(&self) -> Pace {
        Pace { stall: self.state.config.limits.stall_timeout, end: self.login_by() }
    }

    async fn answer(
        &mut self,
        head: &Head,
        body: Bytes,
        reservation: Option<&Reservation>,
    ) -> Result<Answer, End> {
        if head.checksum != 0 && head.checksum != u128::from(xxh3_64(&body)) {
            return Ok(Answer::Reply(Err(Status::INVALID_FORMAT)));
        }
        if head.operation == Operation::Register {
            return self.log_in(head, &body).await;
        }
        if matches!(
            head.code,
            codes::LOGIN_USER_CODE | codes::LOGIN_WITH_PERSONAL_ACCESS_TOKEN_CODE
        ) {
            return Ok(Answer::Evict(EvictionReason::MalformedLogin));
        }
        if head.code == codes::PING_CODE {
            return Ok(Answer::Reply(Ok(Body::default())));
        }
        let Some(binding) = self.session.binding() else {
            return Ok(if head.is_replicated() {
                Answer::Evict(EvictionReason::NoSession)
            } else {
                Answer::Reply(Err(Status::UNAUTHENTICATED))
            });
        };
        if head.operation == Operation::Logout {
            self.state.groups.leave_all(self.session.id);
            self.state.sessions.unbind(self.session);
            self.login_by = Deadline::now() + self.state.config.limits.unauthenticated_timeout;
            return Ok(Answer::Reply(Ok(Body::default())));
        }
        let (state, session) = (self.state, self.session);
        let stamp = Stamp::of(head, &body);
        let execute = command::execute(state, session, &binding, head, body, reservation);
        if !head.is_replicated() {
            return Ok(Answer::Reply(execute.await));
        }
        if head.session != binding.session || head.client != binding.client {
            return Ok(Answer::Evict(EvictionReason::NoSession));
        }
        Ok(match session.admit(head, stamp) {
            Admission::Repeat(0, body) => Answer::Reply(Ok(Body::from(body.to_vec()))),
            Admission::Repeat(status, _) => Answer::Reply(Err(Status(status))),
            Admission::Refuse(status) => Answer::Reply(Err(status)),
            Admission::Execute => {
                let done = execute.await;
                self.remember(head, stamp, &done);
                Answer::Reply(done)
            }
        })
    }

    async fn log_in(&mut self, head: &Head, body: &[u8]) -> Result<Answer, End> {
        // After failed logins from the same address, the server may delay this login for a long
        // time. Therefore the login has a deadline.
        let stall = self.state.config.limits.stall_timeout;
        let end = self.login_by().unwrap_or_else(|| Deadline::now() + stall);
        let login = timeout_at(end, command::login(self.state, self.session, head, body));
        match unless(&mut self.ended, login).await? {
            Ok(Ok(body)) => {
                self.evictions = 0;
                Ok(Answer::Reply(Ok(Body::from(body))))
            }
            Ok(Err(reason)) => Ok(Answer::Evict(reason)),
            Err(_) => Err(End::Slow("logging in")),
        }
    }

    /// Remembers the reply to a request, in case the client repeats the request. If the request was
    /// not accepted, records that the client will repeat it.
    fn remember(&self, head: &Head, stamp: Stamp, done: &Result<Body, Status>) {
        match done {
            Ok(body) => self.session.remember_reply(head, stamp, 0, body.bytes()),
            Err(Status::TRANSIENT_NOT_ACCEPTED) => self.session.expect_again(head),
            Err(status) => self.session.remember_reply(head, stamp, status.0, &[]),
        }
    }

    /// Writes a reply. Returns the length of the whole frame in bytes.
    async fn reply(&mut self, head: &Head, status: u32, body: Body) -> Result<usize, End> {
        let Body { content, reservation } = body;
        let length = content.length();
        if length > UNCOUNTED_BYTES {
            self.input.release();
        }
        let reservation = match &content {
            Content::Bytes(_) => {
                let reserve = reserve_reply(&self.state.in_flight, reservation, length);
                unless(&mut self.ended, reserve).await?
            }
            Content::Polled { .. } => None,
        };
        let start = head.reply(status, length, self.state.commit());
        let frame = Frame { start, content, reservation };
        let total = frame.length();
        let pace = self.pace();
        let write = output::write(&mut self.stream, frame, pace, &self.state.in_flight);
        let mut write = std::pin::pin!(write);
        loop {
            tokio::select! {
                biased;
                written = &mut write => return written.map(|()| total),
                end = &mut self.ended => {
                    // The request has been executed, so the client gets a short time to read the
                    // reply before the connection ends.
                    let _ = timeout(CLOSING, write).await;
                    return Err(end);
                }
                () = self.input.revoked() => {}
            }
            self.input.release();
        }
    }

    /// Notifies the client that its session was ended because of an invalid request. The client may
    /// log in again on the same connection.
    async fn evict(&mut self, client: u128, reason: EvictionReason) -> Result<(), End> {
        self.state.metrics.refused("evicted");
        let (pace, progress) = (self.pace(), Progress::new(PATIENCE));
        let write = write_eviction(&mut self.stream, self.session, client, reason);
        let written = unless(&mut self.ended, pace.run(&progress, write)).await?;
        written.ok_or(End::Slow("reading a reply"))??;
        self.evictions += 1;
        if self.evictions >= EVICTIONS {
            return Err(End::Refused);
        }
        Ok(())
    }
}

/// Reserves memory for a reply of `bytes` bytes that is not the reply to a poll. `reservation` is
/// the memory that was reserved before the reply was built.
async fn reserve_reply(
    in_flight: &InFlight,
    reservation: Option<Reservation>,
    bytes: usize,
) -> Option<Reservation> {
    if bytes <= UNCOUNTED_BYTES {
        return None;
    }
    let mut reserved = in_flight.bulk_reply(bytes);
    if let Some(mut same) = reservation.filter(|same| same.is_in_share_of(&reserved)) {
        same.shrink(bytes);
        if same.try_grow(bytes) {
            return Some(same);
        }
        // The reservation is released before a larger one is requested. Replies that hold memory
        // while they wait for more could wait for each other forever.
    }
    reserved.grow(bytes).await;
    Some(reserved)
}

/// Waits until the reservation is revoked; forever, if there is none.
async fn revoked(reservation: Option<&Reservation>) {
    match reservation {
        Some(reservation) => reservation.revoked().await,
        None => std::future::pending().await,
    }
}

async fn write_eviction<S: AsyncWrite + Unpin>(
    stream: &mut S,
    session: &Session,
    client: u128,
    reason: EvictionReason,
) -> io::Result<()> {
    let (id, address) = (session.id.0, session.address);
    match session.binding() {
        Some(_) => warn!(session = id, %address, ?reason, "evicted"),
        // Logged only at debug level, because clients can cause any number of these lines without
        // logging in.
        None => debug!(session = id, %address, ?reason, "evicted"),
    }
    stream.write_all(&protocol::encode_eviction(client, reason)).await?;
    stream.flush().await
}

/// A future that completes when the connection must end, with the reason. It must not be polled
/// after it has completed.
type Ended<'a> = Pin<Box<dyn Future<Output = End> + Send + 'a>>;

/// Returns immediately: the reason why the connection must end, or `None` if it may continue.
async fn now_or_never(ended: &mut Ended<'_>) -> Option<End> {
    std::future::poll_fn(|context| match ended.as_mut().poll(context) {
        Poll::Ready(end) => Poll::Ready(Some(end)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Waits for the future `wanted`. Returns an error if the connection must end first.
async fn unless<T>(ended: &mut Ended<'_>, wanted: impl Future<Output = T>) -> Result<T, End> {
    tokio::select! {
        biased;
        wanted = wanted => Ok(wanted),
        end = ended => Err(end),
    }
}

/// The answer to a request.
enum Answer {
    Reply(Result<Body, Status>),
    Evict(EvictionReason),
}
