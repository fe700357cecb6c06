//! The flush jobs that run, and those that wait to be installed.
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
//!   installs the older job then installs it, too: it ends one job and takes the next in one step
//!   ([`RunningJob::installed`]).
//! - If a job fails, its memtables are the next to be flushed, and written jobs of newer memtables
//!   go on waiting.
//! - While flushes are paused, no job runs. Jobs may wait to be installed. A thread that installs
//!   several jobs, one after the other, has a running job all the time.

use std::mem;
use std::sync::Arc;

use super::due::Chosen;
use super::sync::{Condvar, Mutex, MutexGuard};

/// What a job does.
pub(crate) trait Work {
    /// The tables of one column family, written by a job.
    type Tables;

    /// Whether the written tables can be installed: the memtables are the oldest of their families,
    /// or their family was dropped.
    fn can_be_installed(&self) -> bool;
}

/// The jobs of a database.
pub(crate) struct Jobs<W: Work = Chosen> {
    state: Mutex<State<W>>,
    /// Notified when a job stops running, and when a pause ends.
    changed: Condvar,
}

pub(super) struct State<W: Work = Chosen> {
    jobs: Vec<Job<W>>,
    /// Number of jobs begun so far.
    begun: u64,
    is_paused: bool,
}

struct Job<W: Work> {
    number: u64,
    work: Arc<W>,
    stage: Stage<W::Tables>,
}

enum Stage<T> {
    /// A thread writes or installs the tables.
    Running,
    /// The tables wait to be installed.
    Written(Vec<T>),
}

/// A running job. Dropping it ends the job as one that failed: its memtables no longer belong to
/// it.
pub(super) struct RunningJob<'j, W: Work = Chosen> {
    jobs: &'j Jobs<W>,
    number: u64,
    work: Arc<W>,
    /// Whether the thread that ran the job runs it no longer.
    has_ended: bool,
}

/// A running job that is to be installed, and its tables.
pub(super) type ToInstall<'j, W = Chosen> = (RunningJob<'j, W>, Vec<<W as Work>::Tables>);

/// A pause of flushes, until this value is dropped.
pub(crate) struct Paused<'j, W: Work = Chosen> {
    jobs: &'j Jobs<W>,
}

impl<W: Work> Jobs<W> {
    pub(super) fn new() -> Self {
        let state = State { jobs: Vec::new(), begun: 0, is_paused: false };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Begins a job with what `choose` returns. Waits while flushes are paused and, if `one_by_one`
    /// is set, while another job runs.
    pub(super) fn begin(
        &self,
        one_by_one: bool,
        choose: impl FnOnce(&State<W>) -> Option<W>,
    ) -> Option<RunningJob<'_, W>> {
        let waits = |state: &mut State<W>| state.is_paused || (one_by_one && state.running() > 0);
        let state = self.changed.wait_while(self.lock(), waits);
        self.begin_now(state, choose)
    }

    /// Like [`Self::begin`], for the thread that has paused flushes.
    pub(super) fn begin_paused(
        &self,
        _paused: &Paused<'_, W>,
        choose: impl FnOnce(&State<W>) -> Option<W>,
    ) -> Option<RunningJob<'_, W>> {
        self.begin_now(self.lock(), choose)
    }

    fn begin_now(
        &self,
        mut state: MutexGuard<'_, State<W>>,
        choose: impl FnOnce(&State<W>) -> Option<W>,
    ) -> Option<RunningJob<'_, W>> {
        let work = Arc::new(choose(&state)?);
        state.begun += 1;
        let number = state.begun;
        state.jobs.push(Job { number, work: Arc::clone(&work), stage: Stage::Running });
        Some(RunningJob { jobs: self, number, work, has_ended: false })
    }

    /// Takes a job that can be installed, for a thread that runs none. There is one if its column
    /// family was dropped, or if the thread that installed an older one has not taken it yet. Waits
    /// while flushes are paused.
    pub(super) fn take_installable(&self) -> Option<ToInstall<'_, W>> {
        let mut state = self.changed.wait_while(self.lock(), |state| state.is_paused);
        self.take_next(&mut state)
    }

    fn take_next(&self, state: &mut State<W>) -> Option<ToInstall<'_, W>> {
        let can_be_installed =
            |job: &&mut Job<W>| job.stage.is_written() && job.work.can_be_installed();
        let next = state.jobs.iter_mut().find(can_be_installed)?;
        let Stage::Written(tables) = mem::replace(&mut next.stage, Stage::Running) else {
            return None;
        };
        let (number, work) = (next.number, Arc::clone(&next.work));
        Some((RunningJob { jobs: self, number, work, has_ended: false }, tables))
    }

    /// Takes the tables of all jobs that wait to be installed, and ends these jobs.
    pub(super) fn take_written(&self) -> Vec<W::Tables> {
        let mut state = self.lock();
        let written = state.jobs.extract_if(.., |job| job.stage.is_written());
        let tables = written.filter_map(|job| match job.stage {
            Stage::Written(tables) => Some(tables),
            Stage::Running => None,
        });
        tables.flatten().collect()
    }

    /// Pauses flushes, and waits until no job runs.
    pub(super) fn pause(&self) -> Paused<'_, W> {
        let mut state = self.changed.wait_while(self.lock(), |state| state.is_paused);
        state.is_paused = true;
        drop(self.changed.wait_while(state, |state| state.running() > 0));
        Paused { jobs: self }
    }

    /// Locks the jobs, to read which memtables belong to them.
    pub(super) fn lock(&self) -> MutexGuard<'_, State<W>> {
        self.state.lock()
    }
}

impl<W: Work> State<W> {
    /// Returns the number of jobs that run.
    pub(super) fn running(&self) -> usize {
        self.jobs.iter().filter(|job| !job.stage.is_written()).count()
    }

    /// Returns the work of all jobs.
    pub(super) fn works(&self) -> impl Iterator<Item = &W> {
        self.jobs.iter().map(|job| &*job.work)
    }
}

impl<T> Stage<T> {
    fn is_written(&self) -> bool {
        matches!(self, Self::Written(_))
    }
}

impl<'j, W: Work> RunningJob<'j, W> {
    /// Returns what the job does.
    pub(super) fn work(&self) -> &Arc<W> {
        &self.work
    }

    /// Ends writing the tables. The result is the next job that the thread installs: this one, or
    /// another; `None` if this one waits for an older one that another thread will install.
    pub(super) fn written(self, tables: Vec<W::Tables>) -> Option<ToInstall<'j, W>> {
        self.end(Some(tables))
    }

    /// Ends the job, which was installed or has failed. The result is the next job that the thread
    /// installs.
    pub(super) fn ended(self) -> Option<ToInstall<'j, W>> {
        self.end(None)
    }

    /// Ends the job, or leaves it with its tables, and takes the next one. This is one step.
    /// Otherwise a pause could begin between the two, although the thread goes on. And another
    /// thread could take this job before this thread has left it.
    fn end(mut self, written: Option<Vec<W::Tables>>) -> Option<ToInstall<'j, W>> {
        let jobs = self.jobs;
        self.has_ended = true;
        let mut state = jobs.lock();
        state.end(self.number, written);
        let next = jobs.take_next(&mut state);
        drop(state);
        jobs.changed.notify_all();
        next
    }
}

impl<W: Work> State<W> {
    fn end(&mut self, number: u64, written: Option<Vec<W::Tables>>) {
        let Some(index) = self.jobs.iter().position(|job| job.number == number) else { return };
        match written {
            Some(tables) => self.jobs[index].stage = Stage::Written(tables),
            None => drop(self.jobs.remove(index)),
        }
    }
}

impl<W: Work> Drop for RunningJob<'_, W> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.jobs.lock().end(self.number, None);
            self.jobs.changed.notify_all();
        }
    }
}

impl<W: Work> Drop for Paused<'_, W> {
    fn drop(&mut self) {
        self.jobs.lock().is_paused = false;
        self.jobs.changed.notify_all();
    }
}
