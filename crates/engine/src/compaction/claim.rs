//! Claims: the assignment of inputs to running compactions.
//!
//! The thread that picks the inputs also claims them, under the version lock, so that no two
//! compactions use the same table or write to overlapping key ranges of a level. The thread then
//! releases the lock. The claim ends when the compaction is installed or abandoned.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tailwater_format::version_edit::CompactCursor;

use super::picker::{self, PickContext};
use super::scheduler::CompactionScheduler;
use crate::column_family::{ColumnFamily, FamilySettings};
use crate::version::{Compaction, Version, VersionSet, Versions};

/// A picked compaction, and the round-robin cursor that its input level gets when the compaction is
/// installed.
pub(super) struct Picked {
    compaction: Compaction,
    cursor: Option<CompactCursor>,
}

/// When a column family needs a compaction.
enum Due {
    /// This compaction is due.
    Now(Picked),
    /// No compaction is due, or it waits for a retry. The next table becomes due because of its age
    /// at this time, in seconds since 1970; `u64::MAX` if none does.
    At(u64),
}

/// A compaction with claimed inputs. Dropping it releases them.
pub(super) struct Claim {
    versions: Arc<Versions>,
    pub(super) family: ColumnFamily,
    pub(super) compaction: Arc<Compaction>,
    /// The version from which the compaction was picked.
    pub(super) version: Arc<Version>,
    /// The settings of the column family when the compaction was picked.
    pub(super) settings: Arc<FamilySettings>,
    /// The round-robin cursor that the input level gets when the compaction is installed; `None` if
    /// the compaction does not move the cursor.
    pub(super) cursor: Option<CompactCursor>,
    /// Time of the claim, in nanoseconds of the database's clock.
    pub(super) begun_ns: u64,
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut versions = self.versions.lock();
        self.compaction.mark_inputs(false);
        if let Some(state) = versions.compactions(self.family.id()) {
            state.end(&self.compaction);
        }
    }
}

impl Picked {
    /// Creates a `Picked` from a compaction that was picked in `context`. Computes the position of
    /// the round-robin cursor after the compaction: the key at which the next compaction of the
    /// level starts.
    pub(super) fn new(context: &PickContext<'_>, compaction: Compaction) -> Self {
        let cursor = picker::next_cursor(context, &compaction);
        Self { compaction, cursor }
    }
}

impl CompactionScheduler {
    /// Whether a column family needs a compaction. This may be so even if no compaction can be
    /// claimed, because the tables are already being compacted.
    pub(crate) fn needs_compaction(&self, family: &ColumnFamily) -> bool {
        let versions = self.versions.lock();
        self.with_context(&versions, family, picker::needs_compaction).unwrap_or(false)
    }

    /// Picks and claims a compaction of the first column family that has one due and does not wait
    /// for a retry. Each call starts with the next column family in turn. If there is none,
    /// computes when the next compaction becomes due by time.
    pub(super) fn claim_next(&self) -> Option<Claim> {
        self.last_check_ns.store(self.context.clock.monotonic_ns(), Ordering::Relaxed);
        let families = self.context.shared.family_set();
        let retries = self.context.background.compaction_retries();
        retries.retain(|id| families.by_id(id).is_some_and(ColumnFamily::compacts_by_itself));
        let count = families.iter().count();
        let first = self.next_compacted.fetch_add(1, Ordering::Relaxed);
        let mut next_due_s = u64::MAX;
        let mut versions = self.versions.lock_to_claim();
        for turn in 0..count {
            let Some(family) = families.iter().nth((first + turn) % count.max(1)) else { continue };
            if !family.compacts_by_itself() {
                continue;
            }
            let due = |context: &PickContext<'_>| self.due(family, context);
            match self.with_context(&versions, family, due) {
                Some(Due::Now(picked)) => return self.claim(&mut versions, family, picked),
                Some(Due::At(time_s)) => next_due_s = next_due_s.min(time_s),
                None => {}
            }
        }
        // Stored while the versions are locked, so that an older time never overwrites a newer one.
        self.next_due_s.store(next_due_s, Ordering::Relaxed);
        None
    }

    /// Picks a compaction of a column family, unless none is due or it waits for a retry.
    fn due(&self, family: &ColumnFamily, context: &PickContext<'_>) -> Due {
        let retries = self.context.background.compaction_retries();
        if retries.may_try(family.id()) {
            if let Some(compaction) = picker::pick(context) {
                return Due::Now(Picked::new(context, compaction));
            }
            if retries.error_of(family.id()).is_some() && !picker::needs_compaction(context) {
                retries.retain(|id| id != family.id());
            }
        }
        Due::At(picker::next_due_s(context).unwrap_or(u64::MAX))
    }

    /// Claims a picked compaction. The caller must have held the version lock since the compaction
    /// was picked.
    pub(super) fn claim(
        &self,
        versions: &mut VersionSet,
        family: &ColumnFamily,
        picked: Picked,
    ) -> Option<Claim> {
        let Picked { compaction, cursor } = picked;
        let version = Arc::clone(&versions.families().get(&family.id())?.version);
        let compaction = Arc::new(compaction);
        compaction.mark_inputs(true);
        let state = versions.compactions(family.id())?;
        state.begin(Arc::clone(&compaction));
        let settings = family.settings();
        Some(Claim {
            versions: Arc::clone(&self.versions),
            family: family.clone(),
            compaction,
            version,
            settings,
            cursor,
            begun_ns: self.context.clock.monotonic_ns(),
        })
    }

    /// Calls `call` with the picker's context. Does not call it, and returns `None`, for a column
    /// family that was dropped or that is no longer compacted after an error.
    pub(super) fn with_context<T>(
        &self,
        versions: &VersionSet,
        family: &ColumnFamily,
        call: impl FnOnce(&PickContext<'_>) -> T,
    ) -> Option<T> {
        let known = versions.families().get(&family.id())?;
        if self.context.errors.stopped_compactions(family.id()).is_some() {
            return None;
        }
        Some(call(&PickContext {
            version: &known.version,
            options: &family.options(),
            database: &self.context.options.now(),
            comparator: family.comparator(),
            now_s: self.context.clock.wall_us() / 1_000_000,
            oldest_snapshot: self.context.shared.snapshots.oldest_at_release(),
            cursors: known.compactions.cursors(),
            running: known.compactions.running(),
            level_0_fan_in: self.level_0_fan_in(family),
        }))
    }

    /// Returns the maximum number of level-0 tables in a compaction. A compaction keeps all its
    /// level-0 tables open at the same time, so the budget of open files limits their number.
    fn level_0_fan_in(&self, family: &ColumnFamily) -> usize {
        let reads_ahead = family.readers().tables.compactions_read_otherwise();
        let options = self.context.options.now();
        let parts = options.subcompactions_max();
        let budget = &self.context.open_files.compactions;
        budget.fan_in(options.compactions_max() * parts, reads_ahead)
    }
}
