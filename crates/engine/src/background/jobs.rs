//! The jobs of a database in the threads of its environment.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Instant;

use super::{Background, IDLE, Running, State};
use crate::env::{Job, Priority, Threads};
use crate::epoch::Collector;
use crate::opening::OpeningId;

/// A kind of background job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobKind {
    /// Flushes due memtables.
    Flush,
    /// Runs one compaction, if one is due.
    Compaction,
    /// Removes obsolete files, and does other work that may take long or wait for writers.
    Cleaning,
    /// Does short periodic work.
    Upkeep,
}

/// A database, as far as its background threads know it.
pub(crate) trait Work: Send + Sync {
    /// Does a job.
    fn run(&self, kind: JobKind);
}

/// Where the jobs of a database run.
pub(super) struct Started {
    threads: Arc<Threads>,
    work: Weak<dyn Work>,
    opening: OpeningId,
    /// When the next alarm rings: a pause before a retry ends.
    alarm: Option<Instant>,
    #[expect(dead_code, reason = "while it lives, objects that take long to drop wait for a job")]
    collector: Collector,
}

/// Numbers of jobs that are scheduled or running.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    flushes: usize,
    /// Those of [`JobKind::Compaction`], and the compactions at the bottom.
    compactions: usize,
    cleanings: usize,
    upkeep: usize,
}

/// A job that is counted until this value is dropped.
struct Scheduled {
    background: Arc<Background>,
    kind: JobKind,
}

impl Background {
    /// Begins to schedule the jobs of a database, with at most so many flushes and compactions at a
    /// time.
    pub(crate) fn start(
        self: &Arc<Self>,
        threads: Arc<Threads>,
        work: Weak<dyn Work>,
        opening: OpeningId,
        collector: Collector,
        (flushes, compactions): (usize, usize),
    ) {
        let mut state = self.lock();
        if !state.closing {
            state.started = Some(Started { threads, work, opening, alarm: None, collector });
            (state.flushes_max, state.compactions_max) = (flushes, compactions);
            state.cleaning_wanted = true;
            self.schedule(&mut state);
            self.schedule_upkeep(&mut state);
        }
    }

    /// Returns the threads that do the work of the database, if any do.
    pub(crate) fn threads(&self) -> Option<Arc<Threads>> {
        self.lock().started.as_ref().map(|started| Arc::clone(&started.threads))
    }

    /// Runs `work` in a thread of the environment; returns it if there is none. Closing the
    /// database does not wait for it.
    pub(crate) fn run_elsewhere<W: FnOnce() + Send + 'static>(&self, work: W) -> Option<W> {
        match &self.lock().started {
            Some(started) => {
                started.threads.upkeep().queue(Job::new(started.opening.number(), work));
                None
            }
            None => Some(work),
        }
    }

    /// Changes what is requested, and schedules what is.
    pub(super) fn request(self: &Arc<Self>, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        self.schedule(&mut state);
    }

    /// Schedules the jobs that are requested, as far as the limits allow.
    fn schedule(self: &Arc<Self>, state: &mut State) {
        let Some(started) = &state.started else { return };
        if state.flush_wanted && state.jobs.flushes < state.flushes_max {
            state.flush_wanted = false;
            state.jobs.flushes += 1;
            started.schedule(Priority::High, self.job(JobKind::Flush));
        }
        let compactions_max = if self.pressure.is_behind() { state.compactions_max } else { 1 };
        if state.compaction_wanted && state.pauses == 0 && state.jobs.compactions < compactions_max
        {
            state.compaction_wanted = false;
            state.jobs.compactions += 1;
            started.schedule(Priority::Low, self.job(JobKind::Compaction));
        }
        if state.cleaning_wanted && state.jobs.cleanings == 0 {
            state.cleaning_wanted = false;
            state.jobs.cleanings += 1;
            started.threads.upkeep().queue(started.job(self.job(JobKind::Cleaning)));
        }
        self.set_alarm(state);
    }

    fn job(self: &Arc<Self>, kind: JobKind) -> Scheduled {
        Scheduled { background: Arc::clone(self), kind }
    }

    fn schedule_upkeep(self: &Arc<Self>, state: &mut State) {
        let Some(started) = &state.started else { return };
        started.threads.start_missing();
        state.jobs.upkeep += 1;
        let job = started.job(self.job(JobKind::Upkeep));
        started.threads.upkeep().schedule_at(Instant::now() + IDLE, job);
    }

    /// Makes an alarm ring when the pause before the next retry ends.
    fn set_alarm(self: &Arc<Self>, state: &mut State) {
        let Some(started) = &mut state.started else { return };
        let retries = [&self.flush_retries, &self.compaction_retries];
        let pause = retries.into_iter().filter_map(super::Retries::pause_left).min();
        let Some(at) = pause.map(|pause| Instant::now() + pause) else { return };
        if started.alarm.is_none_or(|alarm| at < alarm) {
            started.alarm = Some(at);
            let background = Arc::downgrade(self);
            let ring = move || {
                if let Some(background) = background.upgrade() {
                    background.retry_what_is_due();
                }
            };
            let job = Job::new(started.opening.number(), ring);
            started.threads.upkeep().schedule_at(at, job);
        }
    }

    /// Requests the work whose pause before a retry has ended.
    fn retry_what_is_due(self: &Arc<Self>) {
        self.request(|state| {
            if let Some(started) = &mut state.started {
                started.alarm = None;
            }
            state.flush_wanted |= self.flush_retries.take_ended_pause();
            state.compaction_wanted |= self.compaction_retries.take_ended_pause();
        });
    }

    /// Whether a flush of another database waits for the thread of the calling one.
    pub(crate) fn others_wait_to_flush(&self) -> bool {
        let state = self.lock();
        state.started.as_ref().is_some_and(|started| started.threads.flushes_wait())
    }

    /// Registers a compaction that a background job is about to begin. While compactions are
    /// paused, or after closing, returns `None`; it is then requested again later.
    pub(crate) fn begin_own_compaction(self: &Arc<Self>) -> Option<Running> {
        let mut state = self.lock();
        if state.closing || state.pauses > 0 {
            state.compaction_wanted = true;
            return None;
        }
        state.compactions += 1;
        Some(Running { background: Arc::clone(self) })
    }

    /// Runs a compaction in a thread for those into the last level; returns it if the environment
    /// has none.
    pub(crate) fn run_at_bottom<T, W>(self: &Arc<Self>, compaction: W) -> Option<W>
    where
        W: FnOnce() -> T + Send + 'static,
    {
        let mut state = self.lock();
        let State { started: Some(started), jobs, .. } = &mut *state else {
            return Some(compaction);
        };
        if started.threads.pool(Priority::Bottom).threads_max() == 0 {
            return Some(compaction);
        }
        jobs.compactions += 1;
        let counted = self.job(JobKind::Compaction);
        let work = move || {
            let _counted = counted;
            drop(compaction());
        };
        // While the state is locked, so that closing cancels the job or prevents it.
        let job = Job::new(started.opening.number(), work);
        started.threads.schedule(Priority::Bottom, job);
        None
    }

    fn job_ended(self: &Arc<Self>, kind: JobKind) {
        let mut state = self.lock();
        *state.jobs.of(kind) -= 1;
        if kind == JobKind::Upkeep {
            self.schedule_upkeep(&mut state);
        }
        self.schedule(&mut state);
        drop(state);
        self.done.notify_all();
    }
}

impl Started {
    fn schedule(&self, priority: Priority, scheduled: Scheduled) {
        self.threads.schedule(priority, self.job(scheduled));
    }

    fn job(&self, scheduled: Scheduled) -> Job {
        let work = Weak::clone(&self.work);
        Job::new(self.opening.number(), move || {
            // Dropped last, so that the database is not in use any more when the job has ended.
            let scheduled = scheduled;
            if let Some(work) = work.upgrade() {
                work.run(scheduled.kind);
            }
        })
    }

    /// Drops the jobs that no thread has begun, and returns the threads.
    pub(super) fn cancel_jobs(self) -> Arc<Threads> {
        self.threads.cancel(self.opening.number());
        self.threads
    }
}

impl fmt::Debug for Started {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Started").field("threads", &self.threads).finish_non_exhaustive()
    }
}

impl Jobs {
    fn of(&mut self, kind: JobKind) -> &mut usize {
        match kind {
            JobKind::Flush => &mut self.flushes,
            JobKind::Compaction => &mut self.compactions,
            JobKind::Cleaning => &mut self.cleanings,
            JobKind::Upkeep => &mut self.upkeep,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.flushes + self.compactions + self.cleanings + self.upkeep == 0
    }
}

impl Drop for Scheduled {
    fn drop(&mut self) {
        self.background.job_ended(self.kind);
    }
}
