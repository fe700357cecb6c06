//! The state that all connections and handlers share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tailwater_io::sync::Mutex;
use tailwater_log::Log;

use crate::balancer::Balancer;
use crate::config::Config;
use crate::consumers::Consumers;
use crate::groups::Groups;
use crate::in_flight::InFlight;
use crate::metrics::Metrics;
use crate::session::Sessions;
use crate::users::Users;

/// The state of a running server. Each part has a separate lock, or needs none.
pub(crate) struct State {
    pub(crate) config: Config,
    pub(crate) log: Log,
    pub(crate) users: Users,
    pub(crate) groups: Groups,
    pub(crate) sessions: Sessions,
    pub(crate) balancer: Balancer,
    pub(crate) metrics: Metrics,
    pub(crate) in_flight: InFlight,
    pub(crate) consumers: Consumers,
    /// Held while streams, topics or partitions are created, changed or deleted: from the first
    /// read of the current state to the last update. Taken before any other lock.
    pub(crate) changing: Mutex<()>,
    /// Number of metadata changes since the start. Every reply contains it.
    pub(crate) commits: AtomicU64,
    /// Start time of the server.
    pub(crate) started: Instant,
    /// Start time in microseconds since 1970.
    pub(crate) started_us: u64,
    /// Port on which the server accepts TCP clients.
    pub(crate) port: u16,
}

impl State {
    /// Returns the number of changes of metadata.
    pub(crate) fn commit(&self) -> u64 {
        self.commits.load(Ordering::Acquire)
    }

    /// Removes the state of topics and partitions that no longer exist.
    pub(crate) fn forget_deleted(&self) {
        let catalog = self.log.catalog();
        self.balancer.retain(&catalog);
        self.consumers.retain(&catalog);
    }

    /// Counts a change of metadata.
    pub(crate) fn changed(&self) {
        self.commits.fetch_add(1, Ordering::AcqRel);
    }
}
