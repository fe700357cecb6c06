//! The state that all connections and handlers share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tailwater_io::sync::Mutex;
use tailwater_log::Log;

use crate::balancer::Balancer;
use crate::config::Config;
use crate::consumers::Consumers;
use crate::descriptors::DescriptorShares;
use crate::groups::Groups;
use crate::in_flight::InFlight;
use crate::metrics::Metrics;
use crate::session::Sessions;
use crate::users::Users;

/// The state of a running server. Its parts can be used from several threads, without a common
/// lock.
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
    pub(crate) descriptors: DescriptorShares,
    /// Held by a command that creates, changes or deletes streams, topics or partitions, from its
    /// first read of the state until its last update. A thread that also takes other locks takes
    /// this one first.
    pub(crate) changing: Mutex<()>,
    /// Number of metadata changes since the start of the server, plus 1. Every reply contains it.
    pub(crate) commits: AtomicU64,
    /// Start time of the server.
    pub(crate) started: Instant,
    /// Start time in microseconds since 1970.
    pub(crate) started_us: u64,
    /// Port on which the server accepts TCP clients.
    pub(crate) port: u16,
}

impl State {
    /// Returns the value of `commits`, for a reply.
    pub(crate) fn commit(&self) -> u64 {
        self.commits.load(Ordering::Acquire)
    }

    /// Removes the state in memory that belongs to topics and partitions that no longer exist.
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
