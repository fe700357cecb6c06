//! What all connections and handlers share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tailwater_log::Log;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::command::Balancer;
use crate::config::Config;
use crate::groups::Groups;
use crate::metrics::Metrics;
use crate::session::Sessions;
use crate::users::Users;

/// The state of a running server. Every part has its own lock, or none.
pub(crate) struct State {
    pub(crate) config: Config,
    pub(crate) log: Log,
    pub(crate) users: Users,
    pub(crate) groups: Groups,
    pub(crate) sessions: Sessions,
    pub(crate) balancer: Balancer,
    pub(crate) metrics: Metrics,
    pub(crate) in_flight: InFlight,
    /// Number of changes of metadata, which replies carry.
    pub(crate) commits: AtomicU64,
    /// When the server started.
    pub(crate) started: Instant,
    /// The same, in microseconds since 1970.
    pub(crate) started_us: u64,
    /// Port that TCP clients connect to.
    pub(crate) port: u16,
}

impl State {
    /// Returns the number of changes of metadata.
    pub(crate) fn commit(&self) -> u64 {
        self.commits.load(Ordering::Acquire)
    }

    /// Notes a change of metadata.
    pub(crate) fn changed(&self) {
        self.commits.fetch_add(1, Ordering::AcqRel);
    }
}

/// Unit of the bound on bytes in memory, in bytes.
const UNIT: usize = 1 << 10;

/// The bound on the bytes of requests and replies in memory.
#[derive(Debug, Clone)]
pub(crate) struct InFlight {
    units: Arc<Semaphore>,
    units_max: usize,
}

impl InFlight {
    /// A bound, in bytes.
    pub(crate) fn new(bytes_max: usize) -> Self {
        let units_max = (bytes_max / UNIT).clamp(1, u32::MAX as usize);
        Self { units: Arc::new(Semaphore::new(units_max)), units_max }
    }

    /// Waits until there is room for `bytes`, which is taken until the permit is dropped. One that
    /// needs more than all of it has all of it.
    pub(crate) async fn reserve(&self, bytes: usize) -> Option<SemaphorePermit<'_>> {
        let units = bytes.div_ceil(UNIT).min(self.units_max);
        if units == 0 {
            return None;
        }
        self.units.acquire_many(u32::try_from(units).unwrap_or(u32::MAX)).await.ok()
    }

    /// Returns the bytes that are taken.
    pub(crate) fn bytes(&self) -> usize {
        (self.units_max - self.units.available_permits().min(self.units_max)) * UNIT
    }
}
