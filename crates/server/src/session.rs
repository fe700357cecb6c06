//! Who is connected.
//!
//! A connection is a session from the moment it is accepted. A login binds it to a user, and to the
//! 128-bit id that the client gave itself; at most one session is bound to each of these ids.
//!
//! # Repeated requests
//!
//! A client numbers the requests that change something, and repeats one under its number when it
//! has no answer. A session remembers its last number with the reply, so a repeated request has no
//! further effect. Requests of one session are executed one after the other, in the order of their
//! frames, so that one number is enough. Under a new session after a reconnect nothing is
//! remembered: what the client then repeats may be executed twice.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use iggy_binary_protocol::EvictionReason;
use tokio::sync::Notify;

use crate::status::Status;

/// Number of a connection: unique while the server runs, and never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SessionId(pub(crate) u32);

/// A connection.
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) address: SocketAddr,
    /// When the session was accepted; signs of life count from then.
    since: Instant,
    /// Time of the last request, in milliseconds since `since`.
    last_request_ms: AtomicU64,
    binding: Mutex<Option<Binding>>,
    last: Mutex<Option<Answered>>,
    evicted: Mutex<Option<EvictionReason>>,
    eviction: Notify,
}

/// What a login bound a session to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Binding {
    /// Id of the user.
    pub(crate) user: u32,
    /// The id that the client gave itself.
    pub(crate) client: u128,
    /// Number of the session, which the client sends with its requests.
    pub(crate) session: u64,
}

/// The last request that changed something, and its reply.
struct Answered {
    request: u64,
    code: u32,
    checksum: u128,
    status: u32,
    body: Arc<[u8]>,
}

/// What to do with a request that changes something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It is new.
    Execute,
    /// It was answered with this status and body.
    Repeat(u32, Arc<[u8]>),
    /// It cannot be executed.
    Refuse(Status),
}

impl Session {
    fn new(id: SessionId, address: SocketAddr) -> Self {
        Self {
            id,
            address,
            since: Instant::now(),
            last_request_ms: AtomicU64::new(0),
            binding: Mutex::default(),
            last: Mutex::default(),
            evicted: Mutex::default(),
            eviction: Notify::new(),
        }
    }

    /// Returns what it is bound to; none before a login.
    pub(crate) fn binding(&self) -> Option<Binding> {
        *lock(&self.binding)
    }

    /// Notes a sign of life.
    pub(crate) fn touch(&self) {
        let elapsed = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_request_ms.store(elapsed, Ordering::Relaxed);
    }

    /// Returns the time without a sign of life.
    pub(crate) fn idle(&self) -> Duration {
        let last = Duration::from_millis(self.last_request_ms.load(Ordering::Relaxed));
        self.since.elapsed().saturating_sub(last)
    }

    /// Says whether a request is new.
    pub(crate) fn admit(&self, request: u64, code: u32, checksum: u128) -> Admission {
        match &*lock(&self.last) {
            Some(last) if request < last.request => {
                Admission::Refuse(Status::REQUEST_ALREADY_APPLIED)
            }
            Some(last) if request == last.request => {
                if last.code == code && last.checksum == checksum {
                    Admission::Repeat(last.status, Arc::clone(&last.body))
                } else {
                    Admission::Refuse(Status::INVALID_COMMAND)
                }
            }
            _ => Admission::Execute,
        }
    }

    /// Remembers the reply of a request that was executed.
    pub(crate) fn answered(
        &self,
        request: u64,
        code: u32,
        checksum: u128,
        status: u32,
        body: &[u8],
    ) {
        let body = Arc::from(body);
        *lock(&self.last) = Some(Answered { request, code, checksum, status, body });
    }

    /// Ends the session: its client is told why, and its connection closed.
    pub(crate) fn evict(&self, reason: EvictionReason) {
        lock(&self.evicted).get_or_insert(reason);
        self.eviction.notify_one();
    }

    /// Waits until the session is evicted, and returns why.
    pub(crate) async fn evicted(&self) -> EvictionReason {
        loop {
            if let Some(reason) = *lock(&self.evicted) {
                return reason;
            }
            self.eviction.notified().await;
        }
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Session({} from {})", self.id.0, self.address)
    }
}

/// All sessions.
pub(crate) struct Sessions {
    next_id: AtomicU32,
    /// Number of the next login: above those of earlier runs, because it begins with the time.
    next_session: AtomicU64,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    sessions: HashMap<SessionId, Arc<Session>>,
    by_client: HashMap<u128, SessionId>,
}

impl Sessions {
    /// No sessions. `now_us` is the time, in microseconds since 1970.
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
        lock(&self.inner).sessions.insert(id, Arc::clone(&session));
        session
    }

    /// Binds a session to a user and a client's id. Another session that was bound to this id is
    /// evicted. A second login on one connection keeps the session's number.
    pub(crate) fn bind(&self, session: &Arc<Session>, user: u32, client: u128) -> Binding {
        let mut inner = lock(&self.inner);
        let mut binding = lock(&session.binding);
        if let Some(old) = *binding
            && old.client != client
        {
            inner.by_client.remove(&old.client);
        }
        let number = match *binding {
            Some(old) if old.client == client && old.user == user => old.session,
            _ => self.next_session.fetch_add(1, Ordering::Relaxed),
        };
        let bound = Binding { user, client, session: number };
        *binding = Some(bound);
        // The client numbers its requests from 1 again.
        *lock(&session.last) = None;
        let before = inner.by_client.insert(client, session.id).filter(|old| *old != session.id);
        if let Some(other) = before.and_then(|old| inner.sessions.get(&old)) {
            other.evict(EvictionReason::NoSession);
        }
        bound
    }

    /// Ends a login; the connection may log in again.
    pub(crate) fn unbind(&self, session: &Session) {
        let mut inner = lock(&self.inner);
        if let Some(binding) = lock(&session.binding).take()
            && inner.by_client.get(&binding.client) == Some(&session.id)
        {
            inner.by_client.remove(&binding.client);
        }
        *lock(&session.last) = None;
    }

    /// Forgets a session whose connection is closed.
    pub(crate) fn close(&self, session: &Session) {
        self.unbind(session);
        lock(&self.inner).sessions.remove(&session.id);
    }

    /// Returns a session.
    pub(crate) fn get(&self, id: SessionId) -> Option<Arc<Session>> {
        lock(&self.inner).sessions.get(&id).cloned()
    }

    /// Returns all sessions, by their ids.
    pub(crate) fn all(&self) -> Vec<Arc<Session>> {
        let mut all: Vec<_> = lock(&self.inner).sessions.values().cloned().collect();
        all.sort_by_key(|session| session.id);
        all
    }

    /// Returns the number of sessions.
    pub(crate) fn count(&self) -> usize {
        lock(&self.inner).sessions.len()
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

/// Locks what a panicking thread leaves consistent: each change here is one assignment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
