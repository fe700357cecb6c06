//! The current stall state of a database. Writers wait here, and flushes and compactions end the
//! wait.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use tailwater_io::sync::{Condvar, Mutex};

use crate::error::{Error, ErrorKind, Result};
use crate::stall::allowance::Allowance;
use crate::stall::delay_rate::{Demand, FamilyChange, next_rate};
use crate::stall::{CompactionPressure, StallCause, StallConditions, StallState};

/// Maximum time that a stopped write sleeps before it checks the state again.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// The current stall state. Shared by writers and by the flushes and compactions that end stalls.
#[derive(Debug)]
pub(crate) struct StallController {
    /// Whether the state is not `Normal`. A copy that can be read without the lock.
    is_stalled: AtomicBool,
    /// The compaction pressure, which [`StallController::update`] sets.
    pressure: Arc<CompactionPressure>,
    /// Bytes that leaders of write groups have written for the followers in their groups, and that
    /// have not been taken from the allowance yet.
    unpaid: AtomicU64,
    /// The time that counts as time zero in calls of `allowance`.
    epoch: Instant,
    stalls: Mutex<Stalls>,
    changed: Condvar,
}

/// The stall state, and the data from which it is derived.
#[derive(Debug, Default)]
struct Stalls {
    state: StallState,
    /// The current rate of delayed writes, and its maximum `rate_max`, in bytes per second.
    rate: u64,
    rate_max: u64,
    /// The bytes that delayed writes may write without waiting.
    allowance: Allowance,
    /// For each column family, by its ID: the stall that it required when its memtables or tables
    /// last changed.
    families: BTreeMap<u32, FamilyStall>,
}

/// The stall that a column family required when its memtables or tables last changed, and its
/// compaction backlog at that time.
#[derive(Debug, Clone, Copy, Default)]
struct FamilyStall {
    demand: Demand,
    pending_bytes: u64,
}

/// The current state of a column family, for [`StallController::update`].
#[derive(Debug)]
pub(crate) struct FamilyConditions {
    pub(crate) id: u32,
    pub(crate) conditions: StallConditions,
    /// Whether the column family's memtables or tables have changed since the last call of
    /// [`StallController::update`].
    pub(crate) has_changed: bool,
}

impl Stalls {
    /// Takes `bytes` from the allowance at the time `now`. `rate` is in bytes per second. Returns
    /// how long the caller must wait before it writes the bytes.
    fn pay(&mut self, bytes: u64, epoch: Instant, now: Instant, rate: u64) -> Duration {
        let now_us = (now - epoch).as_micros() as u64;
        Duration::from_micros(self.allowance.take(bytes, now_us, rate))
    }

    /// Returns the stall state that a column family requires. If its memtables or tables have
    /// changed, also adjusts the delay rate, and records the required stall in `families`.
    fn required_state(&mut self, family: &FamilyConditions) -> StallState {
        let FamilyConditions { id, conditions, has_changed } = family;
        let state = conditions.state(self.rate);
        let demand = state.demand();
        let pending_bytes = conditions.pending_compaction_bytes;
        if *has_changed {
            let demanded =
                |demand: Demand| self.families.values().any(|family| family.demand == demand);
            let change = FamilyChange {
                demand,
                is_near_stop: state.cause().is_some_and(|cause| conditions.is_near_stop(cause)),
                pending_bytes,
                pending_bytes_before: self.families.get(id).map_or(0, |it| it.pending_bytes),
                compacts: conditions.compacts,
                was_delayed: demanded(Demand::Delay),
                was_stopped: demanded(Demand::Stop),
            };
            self.rate = next_rate(self.rate, self.rate_max, &change);
            self.families.insert(*id, FamilyStall { demand, pending_bytes });
        }
        state
    }
}

impl StallController {
    /// Creates a controller whose state is `Normal`. It sets `pressure` at each update.
    pub(crate) fn new(pressure: Arc<CompactionPressure>) -> Self {
        Self {
            is_stalled: AtomicBool::new(false),
            pressure,
            unpaid: AtomicU64::new(0),
            epoch: Instant::now(),
            stalls: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Returns the current state.
    pub(crate) fn state(&self) -> StallState {
        self.lock().state.clone()
    }

    /// Returns the compaction pressure, by which compactions decide whether to hurry.
    pub(crate) fn pressure(&self) -> &Arc<CompactionPressure> {
        &self.pressure
    }

    /// Whether writes are delayed or stopped.
    #[inline]
    pub(crate) fn is_stalled(&self) -> bool {
        self.is_stalled.load(Ordering::Acquire)
    }

    /// Reads the state of all column families and adopts the strictest stall state that one of them
    /// requires. For each column family whose memtables or tables have changed, calls `record` with
    /// the stall state that this family requires. Returns the new state if writes are stalled
    /// differently from before: to another degree, or at another rate.
    ///
    /// `families` is read while the controller's lock is held, so that an older state never
    /// overwrites a newer one. `rate_max` is the maximum rate of delayed writes in bytes per
    /// second.
    pub(crate) fn update(
        &self,
        rate_max: u64,
        families: impl Iterator<Item = FamilyConditions>,
        mut record: impl FnMut(u32, &StallState),
    ) -> Option<StallState> {
        let mut stalls = self.lock();
        if stalls.rate_max != rate_max {
            (stalls.rate_max, stalls.rate) = (rate_max, rate_max);
        }
        let mut known = Vec::new();
        let mut strictest = StallState::Normal;
        let (mut is_near, mut is_behind, mut is_crowded) = (false, false, false);
        for family in families {
            is_near |= family.conditions.is_near();
            is_behind |= family.conditions.is_behind;
            is_crowded |= family.conditions.is_crowded();
            let state = stalls.required_state(&family);
            if family.has_changed {
                record(family.id, &state);
            }
            known.push(family.id);
            if state.demand() >= strictest.demand() {
                strictest = state;
            }
        }
        stalls.families.retain(|id, _| known.contains(id));
        self.pressure.set_near_stall(is_near);
        self.pressure.set_crowded(is_crowded);
        self.pressure.set_stalled(strictest != StallState::Normal);
        self.pressure.set_behind(is_behind || strictest != StallState::Normal);
        let strictest = strictest.at_rate(stalls.rate);
        let rate = |state: &StallState| match state {
            StallState::Delayed { bytes_per_second, .. } => *bytes_per_second,
            _ => 0,
        };
        let has_changed =
            stalls.state.demand() != strictest.demand() || rate(&stalls.state) != rate(&strictest);
        let changed = has_changed.then(|| strictest.clone());
        self.is_stalled.store(strictest != StallState::Normal, Ordering::Release);
        if strictest == StallState::Normal {
            stalls.allowance = Allowance::default();
        }
        stalls.state = strictest;
        self.changed.notify_all();
        changed
    }

    /// Wakes waiting writers although the stall state has not changed, so that they call `check`.
    pub(crate) fn wake(&self) {
        let _stalls = self.lock();
        self.changed.notify_all();
    }

    /// Waits as long as writes are stopped; if they are delayed, for the time that `bytes` take at
    /// the current rate.
    ///
    /// Calls `check` before the wait and repeatedly during it. If writes are stopped, the argument
    /// of `check` is the cause. If `check` returns an error, the wait ends with that error.
    ///
    /// If the caller must wait, calls `refuse` once, with an error. From this call until the value
    /// that `refuse` returned is dropped, queued writers that set `no_slowdown` fail with the
    /// error.
    ///
    /// # Errors
    /// Busy, if the caller would have to wait and `no_slowdown` is set; the errors of `check`.
    #[inline]
    pub(crate) fn wait<R>(
        &self,
        refuse: impl FnMut(Error) -> R,
        bytes: u64,
        no_slowdown: bool,
        check: impl FnMut(Option<StallCause>) -> Result<()>,
    ) -> Result<()> {
        if self.is_stalled() {
            return self.wait_out(refuse, bytes, no_slowdown, check);
        }
        Ok(())
    }

    #[cold]
    fn wait_out<R>(
        &self,
        mut refuse: impl FnMut(Error) -> R,
        bytes: u64,
        no_slowdown: bool,
        mut check: impl FnMut(Option<StallCause>) -> Result<()>,
    ) -> Result<()> {
        let unpaid = self.unpaid.swap(0, Ordering::Relaxed);
        let owes_again = || self.unpaid.fetch_add(unpaid, Ordering::Relaxed);
        let began = Instant::now();
        let mut stalls = self.lock();
        let mut refusing = None;
        let mut paid_until = None;
        loop {
            check(stalls.state.stopped_by()).inspect_err(|_| {
                if paid_until.is_none() {
                    owes_again();
                }
            })?;
            let (pause, reason) = match &stalls.state {
                StallState::Normal => return Ok(()),
                StallState::Stopped { reason, .. } => (LOOK_AGAIN, reason.clone()),
                StallState::Delayed { bytes_per_second, reason, .. } => {
                    let (rate, reason) = (*bytes_per_second, reason.clone());
                    let until = *paid_until.get_or_insert_with(|| {
                        began + stalls.pay(bytes + unpaid, self.epoch, began, rate)
                    });
                    (until.saturating_duration_since(Instant::now()), reason)
                }
            };
            if pause.is_zero() {
                return Ok(());
            }
            let error = || Error::new(ErrorKind::Busy, format!("writes are stalled: {reason}"));
            if no_slowdown {
                // The caller writes nothing. The followers' bytes were written.
                if paid_until.is_some() {
                    stalls.allowance.give_back(bytes);
                } else {
                    owes_again();
                }
                return Err(error());
            }
            refusing.get_or_insert_with(|| refuse(error()));
            stalls = self.changed.wait_timeout(stalls, pause);
        }
    }

    /// Makes the next delayed leader wait longer. `bytes` is the number of bytes that a leader
    /// wrote for the followers in its group. The wait of the next leader is computed from its own
    /// bytes plus these bytes.
    #[inline]
    pub(crate) fn charge(&self, bytes: impl FnOnce() -> u64) {
        if self.is_stalled() {
            self.unpaid.fetch_add(bytes(), Ordering::Relaxed);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Stalls> {
        self.stalls.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: bytes that a leader had written for its followers were never charged to the
    /// delay budget if the next write failed instead of waiting.
    #[test]
    fn a_refused_write_leaves_the_unpaid_bytes_to_the_next_leader() {
        let controller = StallController::new(Arc::default());
        controller.is_stalled.store(true, Ordering::Relaxed);
        let (cause, reason) = (StallCause::Level0, "tables".to_owned());
        controller.lock().state = StallState::Stopped { cause, reason };
        controller.charge(|| 1000);
        let refused = controller.wait(drop, 1, true, |_| Ok(()));
        assert_eq!(refused.map_err(|error| error.kind()), Err(ErrorKind::Busy));
        let closed = controller.wait(drop, 1, false, |_| Err(Error::closed()));
        assert_eq!(closed.map_err(|error| error.kind()), Err(ErrorKind::Closed));
        assert_eq!(controller.unpaid.load(Ordering::Relaxed), 1000);
    }
}
