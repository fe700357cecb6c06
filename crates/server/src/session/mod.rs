//! The sessions of connected clients.
//!
//! A connection has a session from the time when it is accepted. A login binds the session to a
//! user, and to the 128-bit id that the client chose for itself. At most one session is bound to
//! each client id.
//!
//! # Repeated requests
//!
//! A client numbers the requests that change state. If it gets no reply to a request, it repeats
//! the request with the same number. A session remembers recent numbers and the replies
//! ([`replies`]), so a repeated request has no further effect. The requests of a session are
//! executed in the order in which they arrive. After a reconnect, the new session remembers no
//! requests. A request that was executed before the reconnect and is repeated after it is therefore
//! executed twice.

mod replies;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use iggy_binary_protocol::EvictionReason;
use tailwater_io::sync::Mutex;
use tokio::sync::Notify;

use self::replies::Replies;
pub(crate) use self::replies::{Admission, Stamp};
use crate::protocol::Head;

/// Id of a session, unique while the server runs. It is not the session number of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SessionId(pub(crate) u32);

/// A session: the state of a connection and its login.
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) address: SocketAddr,
    /// Time when the connection was accepted.
    since: Instant,
    /// Time of the last request, in milliseconds after `since`.
    last_request_ms: AtomicU64,
    binding: Mutex<Option<Binding>>,
    /// Whether the credentials of a login are being checked.
    is_logging_in: AtomicBool,
    /// Recent requests and their replies. A client has two separate sequences of request numbers:
    /// index 1 is for requests that change messages and offsets, index 0 for all other requests.
    replies: Mutex<[Replies; 2]>,
    evicted: Mutex<Option<EvictionReason>>,
    eviction: Notify,
}

/// The result of a login: the user and the client to which the session is bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Binding {
    /// Id of the user.
    pub(crate) user: u32,
    /// The id that the client chose for itself.
    pub(crate) client: u128,
    /// Number of the session in the protocol. The client sends it with its requests.
    pub(crate) session: u64,
}

impl Session {
    fn new(id: SessionId, address: SocketAddr) -> Self {
        Self {
            id,
            address,
            since: Instant::now(),
            last_request_ms: AtomicU64::new(0),
            binding: Mutex::default(),
            is_logging_in: AtomicBool::new(false),
            replies: Mutex::default(),
            evicted: Mutex::default(),
            eviction: Notify::new(),
        }
    }

    /// Returns the user and the client to which a login has bound the session; `None` if the
    /// session is not logged in.
    pub(crate) fn binding(&self) -> Option<Binding> {
        *self.binding.lock()
    }

    /// Marks the session as logging in, until the returned value is dropped.
    pub(crate) fn begin_login(&self) -> LoginInProgress<'_> {
        self.is_logging_in.store(true, Ordering::Relaxed);
        LoginInProgress(self)
    }

    /// Returns whether the session is not logged in, and is not logging in either.
    pub(crate) fn is_idle_before_login(&self) -> bool {
        !self.is_logging_in.load(Ordering::Relaxed) && self.binding().is_none()
    }

    /// Records that the client sent a request.
    pub(crate) fn touch(&self) {
        let elapsed = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_request_ms.store(elapsed, Ordering::Relaxed);
    }

    /// Returns the time since the last request; without any request, the time since the connection
    /// was accepted.
    pub(crate) fn idle(&self) -> Duration {
        let last = Duration::from_millis(self.last_request_ms.load(Ordering::Relaxed));
        self.since.elapsed().saturating_sub(last)
    }

    /// Decides about a request that changes state: whether to execute it, to answer it with the
    /// remembered reply, or to refuse it.
    pub(crate) fn admit(&self, head: &Head, stamp: Stamp) -> Admission {
        self.replies.lock()[sequence(head)].admit(head, stamp)
    }

    /// Returns whether a request with this number and command was executed with success, and its
    /// reply is remembered.
    pub(crate) fn has_executed(&self, head: &Head) -> bool {
        self.replies.lock()[sequence(head)].has_executed(head)
    }

    /// Remembers the reply to a request that was executed.
    pub(crate) fn remember_reply(&self, head: &Head, stamp: Stamp, status: u32, body: &[u8]) {
        self.replies.lock()[sequence(head)].remember(head, stamp, status, body);
    }

    /// Remembers the number of a request that was not accepted, because the client will send the
    /// request again under this number.
    pub(crate) fn expect_again(&self, head: &Head) {
        self.replies.lock()[sequence(head)].expect_again(head);
    }

    /// Ends the session. Its connection then notifies the client of the reason and is closed.
    pub(crate) fn evict(&self, reason: EvictionReason) {
        self.evicted.lock().get_or_insert(reason);
        self.eviction.notify_one();
    }

    /// Waits until the session is evicted. Returns the reason.
    pub(crate) async fn evicted(&self) -> EvictionReason {
        loop {
            if let Some(reason) = *self.evicted.lock() {
                return reason;
            }
            self.eviction.notified().await;
        }
    }
}

/// A check of credentials, which ends when this value is dropped.
pub(crate) struct LoginInProgress<'a>(&'a Session);

impl Drop for LoginInProgress<'_> {
    fn drop(&mut self) {
        self.0.is_logging_in.store(false, Ordering::Relaxed);
    }
}

/// Returns the index of the number sequence to which a request belongs: 1 for requests that change
/// messages and offsets, otherwise 0. There are two sequences because Iggy's Java client numbers
/// the two kinds of requests separately.
fn sequence(head: &Head) -> usize {
    usize::from(head.operation.is_partition())
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Session({} from {})", self.id.0, self.address)
    }
}

/// All sessions.
pub(crate) struct Sessions {
    next_id: AtomicU32,
    /// Number for the session of the next login. The first number is the time of the server's start
    /// in microseconds, so that numbers are higher than those of earlier runs of the server.
    next_session: AtomicU64,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    sessions: HashMap<SessionId, Arc<Session>>,
    by_client: HashMap<u128, SessionId>,
}

impl Sessions {
    /// Creates an empty set of sessions. `now_us` is the current time, in microseconds since 1970.
    pub(crate) fn new(now_us: u64) -> Self {
        Self {
            next_id: AtomicU32::new(1),
            next_session: AtomicU64::new(now_us.max(1)),
            inner: Mutex::default(),
        }
    }

    /// Begins a session for a connection.
    pub(crate) fn open(&self, address: SocketAddr) -> Arc<Session> {
        let id = SessionId(self.next_id.fetch_add(1, Ordering::Relaxed));
        let session = Arc::new(Session::new(id, address));
        self.inner.lock().sessions.insert(id, Arc::clone(&session));
        session
    }

    /// Binds a session to a user and a client id, after a login. If another session of the same
    /// user is bound to this client id, that session is evicted. If the session was already bound
    /// to the same user and client id, it keeps its number.
    ///
    /// # Errors
    /// The reason to evict `session`: a session of another user is bound to the client id.
    pub(crate) fn bind(
        &self,
        session: &Arc<Session>,
        user: u32,
        client: u128,
    ) -> Result<Binding, EvictionReason> {
        let mut inner = self.inner.lock();
        let other = inner.by_client.get(&client).filter(|other| **other != session.id);
        let other = other.and_then(|other| inner.sessions.get(other)).cloned();
        if let Some(other) = other {
            if other.binding().is_some_and(|bound| bound.user != user) {
                return Err(EvictionReason::SessionError);
            }
            other.evict(EvictionReason::NoSession);
        }
        let mut binding = session.binding.lock();
        if let Some(old) = *binding
            && inner.by_client.get(&old.client) == Some(&session.id)
        {
            inner.by_client.remove(&old.client);
        }
        let number = match *binding {
            Some(old) if old.client == client && old.user == user => old.session,
            _ => self.next_session.fetch_add(1, Ordering::Relaxed),
        };
        let bound = Binding { user, client, session: number };
        *binding = Some(bound);
        // A client numbers its requests from 1 again after a login.
        *session.replies.lock() = Default::default();
        inner.by_client.insert(client, session.id);
        Ok(bound)
    }

    /// Ends the login of a session. The client may log in again on the same connection.
    pub(crate) fn unbind(&self, session: &Session) {
        let mut inner = self.inner.lock();
        if let Some(binding) = session.binding.lock().take()
            && inner.by_client.get(&binding.client) == Some(&session.id)
        {
            inner.by_client.remove(&binding.client);
        }
        *session.replies.lock() = Default::default();
    }

    /// Removes a session whose connection is closed.
    pub(crate) fn close(&self, session: &Session) {
        self.unbind(session);
        self.inner.lock().sessions.remove(&session.id);
    }

    /// Returns the session with this id; `None` if its connection has ended.
    pub(crate) fn get(&self, id: SessionId) -> Option<Arc<Session>> {
        self.inner.lock().sessions.get(&id).cloned()
    }

    /// Returns all sessions, ordered by id.
    pub(crate) fn all(&self) -> Vec<Arc<Session>> {
        let mut all: Vec<_> = self.inner.lock().sessions.values().cloned().collect();
        all.sort_by_key(|session| session.id);
        all
    }

    /// Returns the number of sessions.
    pub(crate) fn count(&self) -> usize {
        self.inner.lock().sessions.len()
    }

    /// Evicts all sessions of a user.
    pub(crate) fn evict_user(&self, user: u32) {
        for session in self.all() {
            if session.binding().is_some_and(|binding| binding.user == user) {
                session.evict(EvictionReason::NoSession);
            }
        }
    }
}

#[cfg(test)]
mod tests;
