//! The places of client connections: their number is limited.
//!
//! Connections that have not logged in must not keep others from logging in. If all places are
//! taken, a new connection therefore replaces one that has not logged in: of the host with the most
//! such connections, the oldest. A connection whose login is being checked is not replaced. So
//! connections that have not logged in share the places that those that have leave free, and a
//! connection that is about to log in loses its place only to newer ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use tailwater_io::sync::Mutex;
use tokio::task::AbortHandle;

use crate::host::Host;
use crate::session::{Session, SessionId};

/// The places of connections. A clone has the same places.
#[derive(Clone)]
pub(crate) struct Places {
    max: usize,
    taken: Arc<Mutex<BTreeMap<SessionId, Taken>>>,
}

/// A place that is taken.
struct Taken {
    session: Arc<Session>,
    /// The task that serves the connection; `None` until it is known.
    task: Option<AbortHandle>,
}

impl Places {
    /// Creates places for `max` connections.
    pub(crate) fn new(max: usize) -> Self {
        Self { max, taken: Arc::default() }
    }

    /// Makes sure that there is a place for another connection. If all places are taken, ends a
    /// connection that has not logged in. Returns false if there is no such connection.
    pub(crate) fn make_room(&self) -> bool {
        let mut taken = self.taken.lock();
        if taken.len() < self.max {
            return true;
        }
        let Some(oldest) = replaceable(&taken) else { return false };
        if let Some(Taken { task: Some(task), .. }) = taken.remove(&oldest) {
            task.abort();
        }
        true
    }

    /// Takes a place for a connection, until the returned value is dropped.
    pub(crate) fn take(&self, session: &Arc<Session>) -> Place {
        let (id, session) = (session.id, Arc::clone(session));
        self.taken.lock().insert(id, Taken { session, task: None });
        Place { places: self.clone(), id }
    }

    /// Records the task that serves a connection.
    pub(crate) fn set_task(&self, id: SessionId, task: AbortHandle) {
        if let Some(taken) = self.taken.lock().get_mut(&id) {
            taken.task = Some(task);
        }
    }
}

/// Returns the connection to be replaced.
fn replaceable(taken: &BTreeMap<SessionId, Taken>) -> Option<SessionId> {
    // For each host, the number of its connections, and the oldest one.
    let mut hosts: BTreeMap<Host, (usize, SessionId)> = BTreeMap::new();
    for (id, place) in taken {
        if place.task.is_some() && place.session.is_idle_before_login() {
            let host = Host::of(place.session.address.ip());
            hosts.entry(host).or_insert((0, *id)).0 += 1;
        }
    }
    let most = hosts.into_values().max_by_key(|(count, id)| (*count, std::cmp::Reverse(*id)));
    most.map(|(_, oldest)| oldest)
}

/// The place of a connection, which is free when this value is dropped.
pub(crate) struct Place {
    places: Places,
    id: SessionId,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.taken.lock().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::session::Sessions;
    use crate::users::ROOT;

    /// Places, and the connections that have taken them.
    struct Fixture {
        places: Places,
        sessions: Sessions,
        taken: Vec<(Arc<Session>, Place, tokio::task::JoinHandle<()>)>,
    }

    impl Fixture {
        fn new(max: usize) -> Self {
            let (places, sessions) = (Places::new(max), Sessions::new(1));
            Self { places, sessions, taken: Vec::new() }
        }

        /// Connects from a host. Returns whether there was room.
        fn connect(&mut self, host: u8) -> bool {
            if !self.places.make_room() {
                return false;
            }
            let session = self.sessions.open(SocketAddr::from(([127, 0, 0, host], 1)));
            let place = self.places.take(&session);
            let task = tokio::spawn(std::future::pending());
            self.places.set_task(session.id, task.abort_handle());
            self.taken.push((session, place, task));
            true
        }

        fn log_in(&self, at: usize) {
            let session = &self.taken[at].0;
            self.sessions.bind(session, ROOT, at as u128 + 1).expect("an id of its own");
        }

        /// Returns the connections that were ended.
        async fn ended(&self) -> Vec<usize> {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            let all = self.taken.iter().enumerate();
            all.filter(|(_, taken)| taken.2.is_finished()).map(|(at, _)| at).collect()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_connection_replaces_the_oldest_that_has_not_logged_in() {
        let mut fixture = Fixture::new(4);
        for _ in 0..4 {
            assert!(fixture.connect(1));
        }
        fixture.log_in(0);
        let logging_in = Arc::clone(&fixture.taken[1].0);
        let _login = logging_in.begin_login();
        assert!(fixture.connect(1) && fixture.connect(1));
        assert_eq!(fixture.ended().await, [2, 3]);
        fixture.log_in(4);
        fixture.log_in(5);
        assert!(!fixture.connect(1), "all others are logged in, or log in");
        fixture.taken.remove(0);
        assert!(fixture.connect(1), "a place is free");
        assert_eq!(fixture.places.taken.lock().len(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_with_many_connections_replaces_its_own() {
        let mut fixture = Fixture::new(6);
        for host in [2, 3, 1, 1, 1, 1] {
            assert!(fixture.connect(host));
        }
        for _ in 0..20 {
            assert!(fixture.connect(1));
        }
        let ended = fixture.ended().await;
        assert_eq!(ended, (2..22).collect::<Vec<_>>());
    }
}
