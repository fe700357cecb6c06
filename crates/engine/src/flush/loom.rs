//! Loom models of the flush jobs of one column family: loom runs the threads in every order of
//! their steps (with at most 3 preemptions). The models check that each memtable is installed once
//! and in order, that no job is left without a thread, and that nothing is installed during a
//! pause.

#![expect(unsafe_code, reason = "loom checks the accesses that pauses exclude")]

use std::sync::Arc;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::thread::{self, JoinHandle};

use super::jobs::{Jobs, State, ToInstall, Work};

/// A column family with memtables 0, 1, and so on, all of which are sealed.
struct Family {
    jobs: Jobs<Flush>,
    memtables: usize,
    /// Number of memtables that were installed: the oldest ones.
    installed: Arc<AtomicUsize>,
    /// Number of memtables of the last job to be installed. An installation changes it; only a
    /// thread that has paused flushes may read it.
    last: UnsafeCell<usize>,
    /// Whether the first attempt to write the table of a memtable is still to fail.
    fails: AtomicBool,
}

// SAFETY: the jobs of a family are installed one after the other, and not during a pause. The
// models test this: loom checks each access to the cell.
unsafe impl Sync for Family {}
// SAFETY: as above.
unsafe impl Send for Family {}

/// A job that flushes some memtables.
struct Flush {
    memtables: Vec<usize>,
    installed: Arc<AtomicUsize>,
}

impl Work for Flush {
    /// A memtable whose records are in the table.
    type Tables = usize;

    fn can_be_installed(&self) -> bool {
        self.memtables.first() == Some(&self.installed.load(Ordering::Acquire))
    }
}

impl Family {
    fn new(memtables: usize, fails: bool) -> Arc<Self> {
        Arc::new(Self {
            jobs: Jobs::new(),
            memtables,
            installed: Arc::new(AtomicUsize::new(0)),
            last: UnsafeCell::new(0),
            fails: AtomicBool::new(fails),
        })
    }

    /// Chooses the oldest memtable that belongs to no job.
    fn choose(&self, jobs: &State<Flush>) -> Option<Flush> {
        let is_claimed =
            |memtable: &usize| jobs.works().any(|work| work.memtables.contains(memtable));
        let sealed = self.installed.load(Ordering::Acquire)..self.memtables;
        let next = sealed.into_iter().find(|memtable| !is_claimed(memtable))?;
        Some(Flush { memtables: vec![next], installed: Arc::clone(&self.installed) })
    }

    /// Flushes until no memtable is left that belongs to no job, as a flush thread does.
    fn flush(&self) {
        while let Some(job) = self.jobs.begin(false, |jobs| self.choose(jobs)) {
            let tables = job.work().memtables.clone();
            let next = match self.fails.swap(false, Ordering::AcqRel) {
                true => job.ended(),
                false => job.written(tables),
            };
            self.install_all(next);
        }
    }

    fn install_all(&self, mut next: Option<ToInstall<'_, Flush>>) {
        while let Some((job, tables)) = next {
            // SAFETY: loom fails the test if another access is not ordered before or after this
            // one.
            self.last.with_mut(|last| unsafe { *last = tables.len() });
            for memtable in tables {
                let installed = self.installed.swap(memtable + 1, Ordering::AcqRel);
                assert_eq!(installed, memtable, "each memtable is installed once, in order");
            }
            next = job.ended();
        }
    }

    /// Pauses flushes, and does what must not happen during an installation.
    fn pause(&self) {
        let _paused = self.jobs.pause();
        // SAFETY: as in `install_all`.
        self.last.with_mut(|last| unsafe { *last = 0 });
    }

    fn check_all_are_installed(&self) {
        assert_eq!(self.installed.load(Ordering::Acquire), self.memtables);
        assert_eq!(self.jobs.lock().works().count(), 0);
    }
}

fn start(family: &Arc<Family>, run: fn(&Family)) -> JoinHandle<()> {
    let family = Arc::clone(family);
    thread::spawn(move || run(&family))
}

fn model(test: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(test);
}

#[test]
fn two_threads_install_each_memtable_once_and_in_order() {
    for fails in [false, true] {
        model(move || {
            let family = Family::new(2, fails);
            let other = start(&family, Family::flush);
            family.flush();
            other.join().expect("no assertion fails");
            family.check_all_are_installed();
        });
    }
}

#[test]
fn nothing_is_installed_during_a_pause() {
    model(|| {
        let family = Family::new(2, false);
        let flushing = [(); 2].map(|()| start(&family, Family::flush));
        family.pause();
        for thread in flushing {
            thread.join().expect("no assertion fails");
        }
        family.check_all_are_installed();
    });
}
