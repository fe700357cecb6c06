//! Slowing writes down, and stopping them, while flushes and compactions are behind.
//!
//! The conditions are RocksDB's (`ColumnFamilyData::RecalculateWriteStallConditions` in
//! `db/column_family.cc`): too many memtables waiting to be flushed, too many tables in level 0,
//! too many bytes waiting to be compacted. Between the slowdown bound and the stop bound, writes
//! are limited to a rate that follows the compaction backlog ([`delay_rate`]).
//!
//! [`delay_rate`]: super::delay_rate

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tailwater_io::sync::Mutex;

use crate::compaction::Urgency;
use crate::write::allowance::Allowance;
use crate::write::delay_rate::{Demand, Look, next_rate};
use crate::write::queue::Leadership;
use crate::{Error, ErrorKind, Result};

/// Longest wait of a stopped write before it checks the state again.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Whether writes are slowed down or stopped, and why.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum StallState {
    /// Writes are not limited.
    #[default]
    Normal,
    /// Writes are limited to a rate.
    Delayed {
        /// The rate, in bytes per second.
        bytes_per_second: u64,
        /// The exceeded condition.
        cause: StallCause,
        /// A description with numbers: "21 tables in level 0 of 'default'".
        reason: String,
    },
    /// Writes wait.
    Stopped {
        /// The exceeded condition.
        cause: StallCause,
        /// A description with numbers.
        reason: String,
    },
}

impl StallState {
    /// The demand that corresponds to this state.
    fn demand(&self) -> Demand {
        match self {
            Self::Normal => Demand::Nothing,
            Self::Delayed { .. } => Demand::Delay,
            Self::Stopped { .. } => Demand::Stop,
        }
    }

    /// The exceeded condition, if any.
    fn cause(&self) -> Option<StallCause> {
        match self {
            Self::Normal => None,
            Self::Delayed { cause, .. } | Self::Stopped { cause, .. } => Some(*cause),
        }
    }

    /// Replaces the rate of a delay.
    fn at_rate(self, rate: u64) -> Self {
        match self {
            Self::Delayed { cause, reason, .. } => {
                Self::Delayed { bytes_per_second: rate, cause, reason }
            }
            other => other,
        }
    }

    /// The exceeded condition, if writes are stopped.
    pub(crate) fn stopped_by(&self) -> Option<StallCause> {
        match self {
            Self::Stopped { cause, .. } => Some(*cause),
            _ => None,
        }
    }
}

/// The condition that stalls writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StallCause {
    /// Too many memtables that wait to be flushed.
    MemTables,
    /// Too many tables in level 0.
    Level0,
    /// Too many bytes that wait to be compacted.
    PendingCompaction,
}

/// The figures of one column family that decide about stalls.
#[derive(Debug, Clone)]
pub(crate) struct StallConditions {
    pub(crate) family: String,
    /// Whether its options enable automatic compactions; if not, only its memtables can stall
    /// writes.
    pub(crate) compacts: bool,
    /// Whether automatic compactions are enabled and its compaction style is implemented.
    pub(crate) compacts_by_itself: bool,
    /// Whether each sorted run in a deeper level counts as a table of level 0.
    pub(crate) counts_runs: bool,
    /// Number of memtables that wait to be flushed.
    pub(crate) sealed_memtables: usize,
    /// Number of sorted runs, see [`ColumnFamily::stall_conditions`]; 0 where `compacts` is false.
    ///
    /// [`ColumnFamily::stall_conditions`]: crate::db::ColumnFamily::stall_conditions
    pub(crate) level_0_tables: usize,
    /// Number of bytes that wait to be compacted.
    pub(crate) pending_compaction_bytes: u64,
    /// Whether that backlog calls for several concurrent compactions.
    pub(crate) is_behind: bool,
    pub(crate) max_write_buffer_number: usize,
    pub(crate) min_write_buffer_number_to_merge: usize,
    /// Number of level 0 tables that triggers a compaction.
    pub(crate) level_0_trigger: usize,
    pub(crate) level_0_slowdown: usize,
    pub(crate) level_0_stop: usize,
    /// 0 for no bound.
    pub(crate) soft_pending_bytes: u64,
    /// 0 for no bound.
    pub(crate) hard_pending_bytes: u64,
}

impl StallConditions {
    /// Returns the stall state that these conditions require.
    pub(crate) fn state(&self, bytes_per_second: u64) -> StallState {
        let memtables = self.sealed_memtables;
        let over = |bound: u64| bound > 0 && self.pending_compaction_bytes >= bound;
        let stopped = |cause| StallState::Stopped { cause, reason: self.reason(cause) };
        if memtables >= self.max_write_buffer_number {
            return stopped(StallCause::MemTables);
        }
        if self.level_0_tables > 0 && self.level_0_tables >= self.level_0_stop {
            return stopped(StallCause::Level0);
        }
        if over(self.hard_pending_bytes) {
            return stopped(StallCause::PendingCompaction);
        }
        let delayed =
            |cause| StallState::Delayed { bytes_per_second, cause, reason: self.reason(cause) };
        if self.max_write_buffer_number > 3
            && memtables >= self.max_write_buffer_number - 1
            && memtables > self.min_write_buffer_number_to_merge
        {
            return delayed(StallCause::MemTables);
        }
        if self.level_0_tables > 0 && self.level_0_tables >= self.level_0_slowdown {
            return delayed(StallCause::Level0);
        }
        if over(self.soft_pending_bytes) {
            return delayed(StallCause::PendingCompaction);
        }
        StallState::Normal
    }

    /// Whether writes will soon be delayed unless compactions progress: level 0 is more than
    /// halfway from its compaction trigger to its slowdown bound, or the backlog more than halfway
    /// to its soft bound.
    fn is_near(&self) -> bool {
        let halfway = self.level_0_trigger.midpoint(self.level_0_slowdown);
        let soft = self.soft_pending_bytes;
        self.compacts
            && (self.level_0_tables > halfway
                || (soft > 0 && self.pending_compaction_bytes > soft / 2))
    }

    /// Whether level 0 has so many tables that reads get slower: twice its compaction trigger, or,
    /// if that is fewer tables, a quarter of the way from the trigger to the slowdown bound.
    fn is_crowded(&self) -> bool {
        let (trigger, slowdown) = (self.level_0_trigger, self.level_0_slowdown);
        let part_of_way = slowdown.saturating_sub(trigger) / 4;
        let many = trigger.saturating_mul(2).min(trigger.saturating_add(part_of_way));
        self.compacts && self.level_0_tables >= many.max(1)
    }

    /// Whether `cause` is close to the bound that stops writes.
    fn is_near_stop(&self, cause: StallCause) -> bool {
        let gap = self.hard_pending_bytes.saturating_sub(self.soft_pending_bytes);
        match cause {
            StallCause::MemTables => false,
            StallCause::Level0 => self.level_0_tables >= self.level_0_stop.saturating_sub(2),
            StallCause::PendingCompaction => {
                let over = self.pending_compaction_bytes.saturating_sub(self.soft_pending_bytes);
                self.hard_pending_bytes > 0 && over > gap.saturating_mul(3) / 4
            }
        }
    }

    /// Describes the amount of `cause`.
    pub(crate) fn reason(&self, cause: StallCause) -> String {
        let family = &self.family;
        match cause {
            StallCause::MemTables => {
                format!("{} memtables of '{family}' wait to be flushed", self.sealed_memtables)
            }
            StallCause::Level0 => match self.counts_runs {
                true => format!("{} sorted runs of '{family}'", self.level_0_tables),
                false => format!("{} tables in level 0 of '{family}'", self.level_0_tables),
            },
            StallCause::PendingCompaction => {
                let bytes = self.pending_compaction_bytes;
                format!("{bytes} bytes of '{family}' wait to be compacted")
            }
        }
    }
}

/// The current stall state, shared by writers and by the flushes and compactions that end stalls.
#[derive(Debug)]
pub(crate) struct StallController {
    /// Whether `state` is not `Normal`, readable without the lock.
    is_stalled: AtomicBool,
    /// Notified when writes will soon be delayed.
    urgency: Arc<Urgency>,
    /// Bytes that leaders wrote for followers, not yet charged to the delay budget.
    unpaid: AtomicU64,
    /// Start of the clock that `allowance` uses.
    epoch: Instant,
    stalls: Mutex<Stalls>,
    changed: Condvar,
}

/// The stall state, and the data it is derived from.
#[derive(Debug, Default)]
struct Stalls {
    state: StallState,
    /// The rate of delayed writes and its maximum, in bytes per second.
    rate: u64,
    rate_max: u64,
    /// Bytes that delayed writes may write without waiting.
    allowance: Allowance,
    /// The last look at each column family, by its ID.
    families: BTreeMap<u32, FamilyStall>,
}

/// A column family's demand and compaction backlog at the last look.
#[derive(Debug, Clone, Copy, Default)]
struct FamilyStall {
    demand: Demand,
    pending_bytes: u64,
}

/// What is looked at in a column family.
#[derive(Debug)]
pub(crate) struct FamilyLook {
    pub(crate) id: u32,
    pub(crate) conditions: StallConditions,
    /// Whether its memtables or tables have changed.
    pub(crate) has_changed: bool,
}

impl Stalls {
    /// Takes `bytes` from the allowance. Returns how long to wait before writing them.
    fn pay(&mut self, bytes: u64, epoch: Instant, now: Instant, rate: u64) -> Duration {
        let now_us = (now - epoch).as_micros() as u64;
        Duration::from_micros(self.allowance.take(bytes, now_us, rate))
    }

    /// Looks at a column family. Returns the state that it demands.
    fn look(&mut self, family: &FamilyLook) -> StallState {
        let FamilyLook { id, conditions, has_changed } = family;
        let state = conditions.state(self.rate);
        let demand = state.demand();
        let pending_bytes = conditions.pending_compaction_bytes;
        if *has_changed {
            let demanded =
                |demand: Demand| self.families.values().any(|family| family.demand == demand);
            let look = Look {
                demand,
                is_near_stop: state.cause().is_some_and(|cause| conditions.is_near_stop(cause)),
                pending_bytes,
                pending_bytes_before: self.families.get(id).map_or(0, |it| it.pending_bytes),
                compacts: conditions.compacts,
                was_delayed: demanded(Demand::Delay),
                was_stopped: demanded(Demand::Stop),
            };
            self.rate = next_rate(self.rate, self.rate_max, &look);
            self.families.insert(*id, FamilyStall { demand, pending_bytes });
        }
        state
    }
}

impl StallController {
    /// Creates a controller in state `Normal` that will notify `urgency`.
    pub(crate) fn new(urgency: Arc<Urgency>) -> Self {
        Self {
            is_stalled: AtomicBool::new(false),
            urgency,
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

    /// Returns what compactions consult to decide whether to hurry.
    pub(crate) fn urgency(&self) -> &Arc<Urgency> {
        &self.urgency
    }

    /// Whether writes are delayed or stopped.
    #[inline]
    pub(crate) fn is_stalled(&self) -> bool {
        self.is_stalled.load(Ordering::Acquire)
    }

    /// Looks at all column families and adopts the strictest of their demands. Calls `record` with
    /// the demand of each family that has changed. Returns the new state if it or the rate differs
    /// from the previous one.
    ///
    /// The families are read under the lock, so that an older look never overwrites a newer one.
    /// `rate_max` is in bytes per second.
    pub(crate) fn update(
        &self,
        rate_max: u64,
        families: impl Iterator<Item = FamilyLook>,
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
            let state = stalls.look(&family);
            if family.has_changed {
                record(family.id, &state);
            }
            known.push(family.id);
            if state.demand() >= strictest.demand() {
                strictest = state;
            }
        }
        stalls.families.retain(|id, _| known.contains(id));
        self.urgency.set_near_stall(is_near);
        self.urgency.set_crowded(is_crowded);
        self.urgency.set_behind(is_behind || strictest != StallState::Normal);
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

    /// Wakes waiting writers for a reason other than the stall.
    pub(crate) fn wake(&self) {
        let _stalls = self.lock();
        self.changed.notify_all();
    }

    /// Waits while writes are stopped, or for the time that `bytes` take while they are delayed. In
    /// between, calls `go_on` with the cause for which writes are stopped; it decides whether to
    /// wait on. Queued writers with `no_slowdown` are refused meanwhile.
    ///
    /// # Errors
    /// Busy, where `no_slowdown` is set; that of `go_on`.
    #[inline]
    pub(crate) fn wait(
        &self,
        leadership: &Leadership<'_>,
        bytes: u64,
        no_slowdown: bool,
        go_on: impl FnMut(Option<StallCause>) -> Result<()>,
    ) -> Result<()> {
        if self.is_stalled() {
            return self.wait_out(leadership, bytes, no_slowdown, go_on);
        }
        Ok(())
    }

    #[cold]
    fn wait_out(
        &self,
        leadership: &Leadership<'_>,
        bytes: u64,
        no_slowdown: bool,
        mut go_on: impl FnMut(Option<StallCause>) -> Result<()>,
    ) -> Result<()> {
        let bytes = bytes + self.unpaid.swap(0, Ordering::Relaxed);
        let began = Instant::now();
        let mut stalls = self.lock();
        let mut refusing = None;
        let mut paid_until = None;
        loop {
            go_on(stalls.state.stopped_by())?;
            let (pause, reason) = match &stalls.state {
                StallState::Normal => return Ok(()),
                StallState::Stopped { reason, .. } => (LOOK_AGAIN, reason.clone()),
                StallState::Delayed { bytes_per_second, reason, .. } => {
                    let (rate, reason) = (*bytes_per_second, reason.clone());
                    let until = *paid_until
                        .get_or_insert_with(|| began + stalls.pay(bytes, self.epoch, began, rate));
                    (until.saturating_duration_since(Instant::now()), reason)
                }
            };
            if pause.is_zero() {
                return Ok(());
            }
            let error = || Error::new(ErrorKind::Busy, format!("writes are stalled: {reason}"));
            if no_slowdown {
                if paid_until.is_some() {
                    stalls.allowance.give_back(bytes);
                }
                return Err(error());
            }
            refusing.get_or_insert_with(|| leadership.refuse_impatient(error()));
            let waited = self.changed.wait_timeout(stalls, pause);
            stalls = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Notes that a leader wrote `bytes` more for its followers: the next leader waits for them.
    #[inline]
    pub(crate) fn owe(&self, bytes: impl FnOnce() -> u64) {
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
    use super::{StallCause, StallConditions, StallState};

    fn quiet() -> StallConditions {
        StallConditions {
            family: "default".to_owned(),
            compacts: true,
            compacts_by_itself: true,
            counts_runs: false,
            sealed_memtables: 0,
            level_0_tables: 0,
            pending_compaction_bytes: 0,
            is_behind: false,
            max_write_buffer_number: 2,
            min_write_buffer_number_to_merge: 1,
            level_0_trigger: 4,
            level_0_slowdown: 20,
            level_0_stop: 36,
            soft_pending_bytes: 64,
            hard_pending_bytes: 256,
        }
    }

    fn summary(conditions: &StallConditions) -> (u8, Option<StallCause>) {
        match conditions.state(1) {
            StallState::Normal => (0, None),
            StallState::Delayed { cause, .. } => (1, Some(cause)),
            StallState::Stopped { cause, .. } => (2, Some(cause)),
        }
    }

    #[test]
    fn the_conditions_are_those_of_rocksdb() {
        use StallCause::{Level0, MemTables, PendingCompaction};
        let with = |change: fn(&mut StallConditions)| {
            let mut conditions = quiet();
            change(&mut conditions);
            summary(&conditions)
        };
        assert_eq!(summary(&quiet()), (0, None));
        assert_eq!(with(|it| it.sealed_memtables = 1), (0, None));
        assert_eq!(with(|it| it.sealed_memtables = 2), (2, Some(MemTables)));
        assert_eq!(with(|it| it.level_0_tables = 19), (0, None));
        assert_eq!(with(|it| it.level_0_tables = 20), (1, Some(Level0)));
        assert_eq!(with(|it| it.level_0_tables = 36), (2, Some(Level0)));
        assert_eq!(with(|it| it.pending_compaction_bytes = 64), (1, Some(PendingCompaction)));
        assert_eq!(with(|it| it.pending_compaction_bytes = 256), (2, Some(PendingCompaction)));
        let four = |sealed| {
            summary(&StallConditions {
                max_write_buffer_number: 4,
                sealed_memtables: sealed,
                ..quiet()
            })
        };
        let near = |tables, bytes| {
            StallConditions { level_0_tables: tables, pending_compaction_bytes: bytes, ..quiet() }
                .is_near()
        };
        assert_eq!([near(12, 32), near(13, 0), near(0, 33)], [false, true, true]);
        let crowded = |tables| StallConditions { level_0_tables: tables, ..quiet() }.is_crowded();
        assert_eq!([0, 7, 8].map(crowded), [false, false, true]);
        let never = StallConditions {
            level_0_trigger: usize::MAX,
            level_0_tables: 1000,
            level_0_slowdown: usize::MAX,
            level_0_stop: usize::MAX,
            ..quiet()
        };
        assert!(!never.is_crowded() && !never.is_near(), "a trigger below 0");
        assert_eq!([2, 3, 4].map(four), [(0, None), (1, Some(MemTables)), (2, Some(MemTables))]);
        let merging = StallConditions {
            max_write_buffer_number: 4,
            min_write_buffer_number_to_merge: 3,
            sealed_memtables: 3,
            ..quiet()
        };
        assert_eq!(summary(&merging), (0, None), "three memtables that become one table");
    }
}
