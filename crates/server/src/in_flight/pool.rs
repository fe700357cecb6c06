//! One share of the memory, and the reservations in it.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tailwater_io::sync::Mutex;
use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, sleep};

use super::Progress;

/// The unit in which memory is reserved, in bytes.
const UNIT: usize = 1 << 10;
/// Interval at which a waiting reservation checks for holders that have fallen behind.
const RECHECK: Duration = Duration::from_millis(20);
/// Minimum time between two such checks, of all waiting reservations of a share.
const RECHECK_MIN: Duration = Duration::from_millis(5);

/// One of the shares of the memory for requests and replies.
pub(super) struct Pool {
    /// The free units, without those of the lane. Waiting reservations get units in the order in
    /// which they began to wait.
    units: Semaphore,
    units_max: usize,
    /// Has one permit if the lane belongs to no reservation. Has none if there is no lane.
    lane: Semaphore,
    /// Size of the lane in units; 0 if there is no lane.
    lane_units_max: usize,
    /// Number of units that are reserved in the lane.
    lane_units: AtomicUsize,
    /// Number of units that waiting reservations want.
    wanted: AtomicUsize,
    holders: Mutex<Holders>,
}

/// The reservations of a share.
#[derive(Default)]
struct Holders {
    next: u64,
    all: BTreeMap<u64, Arc<Holder>>,
    /// When a waiting reservation last looked for holders that have fallen behind.
    checked: Option<Instant>,
}

/// What the share knows of a reservation.
struct Holder {
    progress: Arc<Progress>,
    /// Number of reserved units.
    units: AtomicUsize,
    is_revoked: AtomicBool,
    /// Notified when the reservation is revoked.
    revoked: Notify,
}

impl Pool {
    /// Creates a share of `bytes_max` bytes. The share has a lane of `lane_bytes` bytes, or of its
    /// whole size if it is smaller. Without a lane, a reservation must not grow while it holds
    /// memory, except by the calls that do not wait.
    pub(super) fn new(bytes_max: usize, lane_bytes: usize) -> Self {
        let all = (bytes_max / UNIT).clamp(1, u32::MAX as usize);
        let lane_units_max = lane_bytes.div_ceil(UNIT).min(all);
        let units_max = all - lane_units_max;
        Self {
            units: Semaphore::new(units_max),
            units_max,
            lane: Semaphore::new(usize::from(lane_units_max > 0)),
            lane_units_max,
            lane_units: AtomicUsize::new(0),
            wanted: AtomicUsize::new(0),
            holders: Mutex::default(),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let used = self.units_max - self.units.available_permits().min(self.units_max);
        (used + self.lane_units.load(Ordering::Relaxed)) * UNIT
    }

    /// Returns the number of [`UNIT`]s in `bytes` bytes, rounded up, but at most the size of this
    /// share.
    fn units_of(&self, bytes: usize) -> usize {
        bytes.div_ceil(UNIT).min(self.units_max + self.lane_units_max)
    }

    /// Reserves `units` without waiting. Returns false if fewer units are free.
    fn try_take(&self, units: usize) -> bool {
        let permit = self.units.try_acquire_many(u32::try_from(units).unwrap_or(u32::MAX));
        permit.map(|permit| permit.forget()).is_ok()
    }

    /// Waits until `units` are reserved, or until the lane belongs to the caller. Returns whether
    /// the caller got the lane. Meanwhile revokes reservations that are behind.
    async fn take(&self, units: usize) -> bool {
        let wanted = u32::try_from(units).unwrap_or(u32::MAX);
        let mut taken = pin!(self.units.acquire_many(wanted));
        let mut lane = pin!(self.lane.acquire());
        let _waiting = Waiting::new(&self.wanted, units);
        let mut pause = Duration::ZERO;
        loop {
            tokio::select! {
                biased;
                permit = &mut taken => {
                    // It cannot fail, because the semaphore is never closed.
                    permit.into_iter().for_each(|permit| permit.forget());
                    return false;
                }
                permit = &mut lane, if self.lane_units_max > 0 => {
                    permit.into_iter().for_each(|permit| permit.forget());
                    return true;
                }
                () = sleep(pause) => {}
            }
            self.revoke(Instant::now());
            pause = RECHECK;
        }
    }

    /// Revokes reservations that are behind, the furthest first, until those that are revoked
    /// suffice for those that wait.
    fn revoke(&self, now: Instant) {
        let mut holders = self.holders.lock();
        if holders.checked.is_some_and(|checked| now < checked + RECHECK_MIN) {
            return;
        }
        holders.checked = Some(now);
        let units = |holder: &Holder| holder.units.load(Ordering::Relaxed);
        let (revoked, others): (Vec<_>, Vec<_>) =
            holders.all.values().partition(|holder| holder.is_revoked.load(Ordering::Relaxed));
        let revoked: usize = revoked.into_iter().map(|holder| units(holder)).sum();
        let mut coming = self.units.available_permits() + revoked;
        let mut behind: Vec<_> = others
            .into_iter()
            .filter(|holder| units(holder) > 0)
            .filter_map(|holder| Some((holder.progress.lag(now)?, holder)))
            .collect();
        behind.sort_by_key(|(lag, _)| *lag);
        while coming < self.wanted.load(Ordering::Relaxed)
            && let Some((_, holder)) = behind.pop()
        {
            coming += units(holder);
            holder.is_revoked.store(true, Ordering::Release);
            holder.revoked.notify_one();
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = (self.units_max + self.lane_units_max) * UNIT;
        write!(f, "Pool({} of {all} bytes)", self.bytes())
    }
}

/// Counts units as wanted until this value is dropped.
struct Waiting<'a>(&'a AtomicUsize, usize);

impl<'a> Waiting<'a> {
    fn new(wanted: &'a AtomicUsize, units: usize) -> Self {
        wanted.fetch_add(units, Ordering::Relaxed);
        Self(wanted, units)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(self.1, Ordering::Relaxed);
    }
}

/// Memory in a share, which stays reserved until this value is dropped.
pub(crate) struct Reservation {
    pool: Arc<Pool>,
    id: u64,
    holder: Arc<Holder>,
    /// Number of reserved units, without those in the lane.
    units: usize,
    /// Number of units that are reserved in the lane; `None` if the lane does not belong to this
    /// reservation.
    lane_units: Option<usize>,
}

impl Reservation {
    /// Creates an empty reservation. `progress` is the progress of the transfer that uses the
    /// memory.
    pub(super) fn new(pool: &Arc<Pool>, progress: Arc<Progress>) -> Self {
        let holder = Arc::new(Holder {
            progress,
            units: AtomicUsize::new(0),
            is_revoked: AtomicBool::new(false),
            revoked: Notify::new(),
        });
        let mut holders = pool.holders.lock();
        let id = holders.next;
        holders.next += 1;
        holders.all.insert(id, Arc::clone(&holder));
        drop(holders);
        Self { pool: Arc::clone(pool), id, holder, units: 0, lane_units: None }
    }

    /// Returns the progress of the transfer that uses the memory.
    pub(crate) fn progress(&self) -> &Arc<Progress> {
        &self.holder.progress
    }

    /// Returns whether `other` is in the same share.
    pub(crate) fn is_in_share_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.pool, &other.pool)
    }

    /// Returns the number of reserved bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.held() * UNIT
    }

    fn held(&self) -> usize {
        self.units + self.lane_units.unwrap_or(0)
    }

    /// Returns the number of units that are missing for `bytes` bytes.
    fn missing(&self, bytes: usize) -> usize {
        self.pool.units_of(bytes).saturating_sub(self.held())
    }

    fn note(&self) {
        self.holder.units.store(self.held(), Ordering::Relaxed);
    }

    /// Grows the reservation to `bytes`; waits until the memory is free. A reservation that is
    /// larger stays as it is.
    ///
    /// Returns false if the reservation is revoked, which the caller must then release. Others
    /// count on its memory, so it must not wait for more.
    pub(crate) async fn grow(&mut self, bytes: usize) -> bool {
        if self.is_revoked() {
            return false;
        }
        let more = self.missing(bytes);
        if more == 0 || self.grow_in_lane(more) || self.try_grow(bytes) {
            return true;
        }
        let is_lane = tokio::select! {
            biased;
            is_lane = self.pool.take(more) => is_lane,
            () = self.revoked() => return false,
        };
        if is_lane {
            self.lane_units = Some(0);
            self.grow_in_lane(more);
        } else {
            self.units += more;
            self.note();
        }
        true
    }

    /// Takes `more` units from the lane. Returns false if the lane does not belong to this
    /// reservation.
    fn grow_in_lane(&mut self, more: usize) -> bool {
        let Some(lane_units) = &mut self.lane_units else { return false };
        *lane_units += more;
        self.pool.lane_units.fetch_add(more, Ordering::Relaxed);
        self.note();
        true
    }

    /// Grows the reservation to `bytes` without waiting. If too little memory is free, changes
    /// nothing and returns false.
    pub(crate) fn try_grow(&mut self, bytes: usize) -> bool {
        let more = self.missing(bytes);
        let is_taken = more == 0 || self.pool.try_take(more);
        if is_taken {
            self.units += more;
            self.note();
        }
        is_taken
    }

    /// Grows the reservation to `bytes`, without waiting, if a quarter of the share is still free
    /// afterwards. Otherwise changes nothing and returns false. The growth of large replies is
    /// optional, so it leaves memory for other replies.
    pub(crate) fn try_grow_within_reason(&mut self, bytes: usize) -> bool {
        let more = self.missing(bytes);
        let free = self.pool.units.available_permits();
        free >= more + self.pool.units_max / 4 && self.try_grow(bytes)
    }

    /// Shrinks the reservation to `bytes`. A reservation that is smaller stays as it is. Memory in
    /// the lane is kept.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        let surplus = self.held().saturating_sub(self.pool.units_of(bytes)).min(self.units);
        self.units -= surplus;
        self.note();
        self.pool.units.add_permits(surplus);
    }

    /// Releases all memory. If the reservation was revoked, it can be used again.
    pub(crate) fn release(&mut self) {
        self.pool.units.add_permits(std::mem::take(&mut self.units));
        if let Some(lane_units) = self.lane_units.take() {
            self.pool.lane_units.fetch_sub(lane_units, Ordering::Relaxed);
            self.pool.lane.add_permits(1);
        }
        self.note();
        self.holder.is_revoked.store(false, Ordering::Release);
    }

    /// Returns whether the reservation is revoked. The caller must then release it.
    pub(crate) fn is_revoked(&self) -> bool {
        self.holder.is_revoked.load(Ordering::Acquire)
    }

    /// Waits until the reservation is revoked. The caller must then release it.
    pub(crate) async fn revoked(&self) {
        loop {
            let revoked = self.holder.revoked.notified();
            if self.is_revoked() {
                return;
            }
            revoked.await;
        }
    }
}

impl fmt::Debug for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reservation({} bytes)", self.bytes())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.release();
        self.pool.holders.lock().all.remove(&self.id);
    }
}
