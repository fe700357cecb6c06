//! The flushes in progress, and those that wait to be installed.
//!
//! A job flushes memtables of one column family or, if flushes are atomic, of all families whose
//! flush is due. Several jobs run at a time, also of the same family.
//!
//! # Invariants
//!
//! - A memtable belongs to at most one job. It belongs to its job until the job is installed, fails
//!   or is discarded.
//! - The jobs of a family are installed in the order of their memtables, oldest first. A job that
//!   is written before an older one is installed waits here, without a thread. The thread that
//!   installs the older job then installs it, too.
//! - If a job fails, its memtables are the next to be flushed, and written jobs of newer memtables
//!   go on waiting.
//! - While flushes are paused, no job runs. Jobs may wait to be installed.

use std::mem;
use std::sync::{Arc, MutexGuard};

use tailwater_io::sync::{Condvar, Mutex};

use super::job::Flushed;
use crate::column_family::{ColumnFamily, SealedMemTable};
use crate::memtable::MemTable;

/// A column family, and its sealed memtables that are to be flushed, the oldest first.
#[derive(Debug, Clone)]
pub(super) struct Due {
    pub(super) family: ColumnFamily,
    pub(super) memtables: Vec<SealedMemTable>,
}

/// The jobs of a database.
#[derive(Default)]
pub(super) struct Jobs {
    state: Mutex<State>,
    /// Notified when a job stops running, and when a pause ends.
    changed: Condvar,
}

#[derive(Default)]
pub(super) struct State {
    jobs: Vec<Job>,
    /// Number of jobs begun so far.
    begun: u64,
    is_paused: bool,
}

struct Job {
    number: u64,
    due: Arc<[Due]>,
    stage: Stage,
}

enum Stage {
    /// A thread writes or installs the tables.
    Running,
    /// The tables wait to be installed.
    Written(Vec<Flushed>),
}

/// A running job. Dropping it ends the job: its memtables no longer belong to it.
pub(super) struct RunningJob<'j> {
    jobs: &'j Jobs,
    number: u64,
    pub(super) due: Arc<[Due]>,
}

/// A pause of flushes, until this value is dropped.
pub(crate) struct Paused<'j> {
    jobs: &'j Jobs,
}

impl Jobs {
    /// Begins a job with what `choose` returns. Waits while flushes are paused and, if `one_by_one`
    /// is set, while another job runs.
    pub(super) fn begin(
        &self,
        one_by_one: bool,
        choose: impl FnOnce(&State) -> Vec<Due>,
    ) -> Option<RunningJob<'_>> {
        let waits =
            |state: &mut State| state.is_paused || (one_by_one && state.running().count() > 0);
        let state = self.changed.wait_while(self.lock(), waits);
        self.begin_now(state, choose)
    }

    /// Like [`Self::begin`], for the thread that has paused flushes.
    pub(super) fn begin_paused(
        &self,
        _paused: &Paused<'_>,
        choose: impl FnOnce(&State) -> Vec<Due>,
    ) -> Option<RunningJob<'_>> {
        self.begin_now(self.lock(), choose)
    }

    fn begin_now(
        &self,
        mut state: MutexGuard<'_, State>,
        choose: impl FnOnce(&State) -> Vec<Due>,
    ) -> Option<RunningJob<'_>> {
        let due: Arc<[Due]> = choose(&state).into();
        if due.is_empty() {
            return None;
        }
        state.begun += 1;
        let number = state.begun;
        state.jobs.push(Job { number, due: Arc::clone(&due), stage: Stage::Running });
        Some(RunningJob { jobs: self, number, due })
    }

    /// Returns a job that is written and can be installed: its memtables are the oldest of their
    /// families, or its family was dropped.
    pub(super) fn take_installable(&self) -> Option<(RunningJob<'_>, Vec<Flushed>)> {
        let mut state = self.lock();
        let is_oldest =
            |due: &Due| due.family.is_dropped() || due.family.begins_with(&due.memtables);
        let next = state
            .jobs
            .iter_mut()
            .find(|job| matches!(job.stage, Stage::Written(_)) && job.due.iter().all(is_oldest))?;
        let Stage::Written(flushed) = mem::replace(&mut next.stage, Stage::Running) else {
            return None;
        };
        let (number, due) = (next.number, Arc::clone(&next.due));
        Some((RunningJob { jobs: self, number, due }, flushed))
    }

    /// Takes the tables of all jobs that wait to be installed, and ends these jobs.
    pub(super) fn take_written(&self) -> Vec<Flushed> {
        let mut state = self.lock();
        let is_written = |job: &mut Job| matches!(job.stage, Stage::Written(_));
        let written = state.jobs.extract_if(.., is_written);
        let tables = written.filter_map(|job| match job.stage {
            Stage::Written(flushed) => Some(flushed),
            Stage::Running => None,
        });
        tables.flatten().collect()
    }

    /// Pauses flushes, and waits until no job runs.
    pub(super) fn pause(&self) -> Paused<'_> {
        let mut state = self.changed.wait_while(self.lock(), |state| state.is_paused);
        state.is_paused = true;
        drop(self.changed.wait_while(state, |state| state.running().count() > 0));
        Paused { jobs: self }
    }

    /// Locks the jobs, to read which memtables belong to them.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    fn running(&self) -> impl Iterator<Item = &Job> {
        self.jobs.iter().filter(|job| matches!(job.stage, Stage::Running))
    }

    /// Whether a memtable belongs to a job.
    fn holds(&self, memtable: &Arc<MemTable>) -> bool {
        let mut held = self.jobs.iter().flat_map(|job| &*job.due).flat_map(|due| &due.memtables);
        held.any(|held| Arc::ptr_eq(&held.memtable, memtable))
    }

    /// Whether any memtable of the column family belongs to a job.
    pub(super) fn flushes(&self, family: &ColumnFamily) -> bool {
        self.jobs.iter().flat_map(|job| &*job.due).any(|due| due.family.is_same(family))
    }

    /// Whether a flush of the column family should begin.
    pub(super) fn is_due(&self, family: &ColumnFamily) -> bool {
        family.wants_flush(self.unclaimed(family).len())
    }

    /// Returns the sealed memtables of a column family that belong to no job.
    pub(super) fn unclaimed(&self, family: &ColumnFamily) -> Vec<SealedMemTable> {
        let mut sealed = family.sealed();
        sealed.retain(|sealed| !self.holds(&sealed.memtable));
        sealed
    }

    /// Returns the memtables of a column family that its next job flushes: the oldest of those that
    /// belong to no job, up to the next one that does.
    pub(super) fn next_of(&self, family: &ColumnFamily) -> Vec<SealedMemTable> {
        let is_claimed = |sealed: &SealedMemTable| self.holds(&sealed.memtable);
        let unclaimed = family.sealed().into_iter().skip_while(is_claimed);
        unclaimed.take_while(|sealed| !is_claimed(sealed)).collect()
    }
}

impl RunningJob<'_> {
    /// Leaves the tables of the job to the thread that installs them ([`Jobs::take_installable`]).
    pub(super) fn wait_to_be_installed(self, flushed: Vec<Flushed>) {
        if let Some(job) = self.jobs.lock().jobs.iter_mut().find(|job| job.number == self.number) {
            job.stage = Stage::Written(flushed);
        }
    }
}

impl Drop for RunningJob<'_> {
    fn drop(&mut self) {
        let has_ended =
            |job: &Job| job.number == self.number && matches!(job.stage, Stage::Running);
        self.jobs.lock().jobs.retain(|job| !has_ended(job));
        self.jobs.changed.notify_all();
    }
}

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        self.jobs.lock().is_paused = false;
        self.jobs.changed.notify_all();
    }
}
