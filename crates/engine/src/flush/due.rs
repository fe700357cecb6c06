//! Chooses which memtables a flush job flushes.

use std::sync::Arc;

use super::job::Flushed;
use super::jobs::{State, Work};
use super::scheduler::FlushScheduler;
use crate::background::Attempt;
use crate::column_family::{ColumnFamily, SealedMemTable};
use crate::memtable::MemTable;

/// A column family, and its sealed memtables that are to be flushed, the oldest first.
#[derive(Debug, Clone)]
pub(crate) struct Due {
    pub(super) family: ColumnFamily,
    pub(super) memtables: Vec<SealedMemTable>,
}

/// What a job flushes; never empty.
#[derive(Debug)]
pub(crate) struct Chosen {
    pub(super) due: Vec<Due>,
    /// The attempt that began when the memtables were chosen.
    pub(super) attempt: Attempt,
}

impl Work for Chosen {
    type Tables = Flushed;

    fn can_be_installed(&self) -> bool {
        self.due
            .iter()
            .all(|Due { family, memtables }| family.is_dropped() || family.begins_with(memtables))
    }
}

impl Due {
    /// Returns all sealed memtables of a column family, and clears the request to flush them.
    pub(super) fn all_of(family: &ColumnFamily) -> Self {
        family.request_flush(false);
        Self { family: family.clone(), memtables: family.sealed() }
    }

    /// Returns when the oldest of these memtables was sealed, as the number of the log that was
    /// current then.
    fn sealed_at(&self) -> u64 {
        self.memtables.first().map_or(u64::MAX, |sealed| sealed.next_log_number)
    }
}

impl State {
    /// Whether a memtable belongs to a job.
    fn holds(&self, memtable: &Arc<MemTable>) -> bool {
        let mut held = self.works().flat_map(|work| &work.due).flat_map(|due| &due.memtables);
        held.any(|held| Arc::ptr_eq(&held.memtable, memtable))
    }

    /// Whether any memtable of the column family belongs to a job.
    pub(super) fn flushes(&self, family: &ColumnFamily) -> bool {
        self.works().flat_map(|work| &work.due).any(|due| due.family.is_same(family))
    }

    /// Whether a flush of the column family should begin.
    pub(super) fn is_due(&self, family: &ColumnFamily) -> bool {
        family.wants_flush(self.unclaimed(family))
    }

    /// Returns the number of sealed memtables of a column family that belong to no job.
    pub(super) fn unclaimed(&self, family: &ColumnFamily) -> usize {
        family.sealed().iter().filter(|sealed| !self.holds(&sealed.memtable)).count()
    }

    /// Returns the memtables of a column family that its next job flushes: the oldest of those that
    /// belong to no job, up to the next one that does.
    fn next_of(&self, family: &ColumnFamily) -> Due {
        let is_claimed = |sealed: &SealedMemTable| self.holds(&sealed.memtable);
        let unclaimed = family.sealed().into_iter().skip_while(is_claimed);
        let memtables = unclaimed.take_while(|sealed| !is_claimed(sealed)).collect();
        Due { family: family.clone(), memtables }
    }
}

impl FlushScheduler {
    /// Chooses what the next job flushes, among the column families for which `may_flush` returns
    /// true: the family whose memtable has waited longest. If flushes are atomic, chooses all
    /// families whose flush is due, or none if one of them may not be flushed.
    ///
    /// Takes the sealing lock. So if memtables were sealed together, an atomic flush includes
    /// either all or none of them.
    pub(super) fn choose(
        &self,
        jobs: &State,
        may_flush: impl Fn(&ColumnFamily) -> bool,
    ) -> Option<Chosen> {
        let attempt = self.context.background.flush_retries().begin();
        let _sealing = self.sealing();
        let families = self.context.shared.family_set();
        let (due, waiting): (Vec<_>, Vec<_>) =
            families.iter().filter(|family| jobs.is_due(family)).partition(|it| may_flush(it));
        let mut due: Vec<Due> = due.into_iter().map(|family| jobs.next_of(family)).collect();
        if !self.context.options.fixed().atomic_flush {
            due = due.into_iter().min_by_key(Due::sealed_at).into_iter().collect();
        } else if !waiting.is_empty() {
            due.clear();
        }
        for Due { family, memtables } in &due {
            // Any others are newer than those of another job. The request was also for them.
            family.request_flush(jobs.unclaimed(family) > memtables.len());
        }
        (!due.is_empty()).then_some(Chosen { due, attempt })
    }
}
