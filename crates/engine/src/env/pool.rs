//! A pool of threads that run jobs in the order in which they were scheduled.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use tailwater_io::sync::{Condvar, Mutex};
use tailwater_io::thread::{self, Thread, Weight};

/// Time after which threads end that the pool need not keep, if no job lacked an idle thread
/// meanwhile.
const SURPLUS_MAX: Duration = Duration::from_secs(10);

/// A job, and the number of its owner. Dropping it without running it must be harmless.
pub(crate) struct Job {
    owner: u64,
    work: Box<dyn FnOnce() + Send>,
}

impl Job {
    /// Creates a job of the owner with this number.
    pub(crate) fn new(owner: u64, work: impl FnOnce() + Send + 'static) -> Self {
        Self { owner, work: Box::new(work) }
    }
}

/// What [`Env`](super::Env) sets for the threads of a pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Settings {
    /// Maximum number of threads.
    pub(super) threads: usize,
    pub(super) lowered: Lowered,
}

/// Which priorities of the threads are lowered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Lowered {
    pub(super) cpu: bool,
    pub(super) io: bool,
}

/// A pool of threads. A job gets a thread at once if one is idle, or if fewer run than allowed.
///
/// Dropping the pool ends its threads after the jobs that run, and drops all others. If one of the
/// threads itself drops it, it does not join itself.
pub(crate) struct Pool {
    shared: Arc<Shared>,
}

struct Shared {
    /// Returns the name of a thread, given the number of threads that were started before.
    name: fn(usize) -> String,
    /// The threads, which are joined on drop. Locked before `state`.
    threads: Mutex<Vec<Thread>>,
    state: Mutex<State>,
    /// Notified when an idle thread may have something to do.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    ready: VecDeque<Job>,
    /// Jobs for later, by the time at which they become ready; the second number distinguishes
    /// equal times.
    delayed: BTreeMap<(Instant, u64), Job>,
    /// Number of delayed jobs so far.
    delays: u64,
    settings: Settings,
    /// Number of threads that stay when they have nothing to do, if no more are allowed.
    kept: usize,
    /// Number of threads that run, idle ones included.
    running: usize,
    idle: usize,
    /// The last time at which no thread was idle.
    exhausted: Option<Instant>,
    closed: bool,
}

/// What a thread of the pool does next.
enum Next {
    Run(Job),
    Wait(Option<Duration>),
    End,
}

impl Pool {
    /// Creates a pool that keeps `kept` threads, however long they are idle. Starts none.
    pub(super) fn new(name: fn(usize) -> String, kept: usize, settings: Settings) -> Self {
        let state = State { kept, settings, ..State::default() };
        let state = Mutex::new(state);
        let shared = Shared { name, threads: Mutex::default(), state, changed: Condvar::new() };
        Self { shared: Arc::new(shared) }
    }

    /// Changes the settings. Threads beyond a lowered number end after the job that they run.
    pub(super) fn set(&self, settings: Settings) {
        self.shared.lock().settings = settings;
        self.shared.changed.notify_all();
    }

    /// Starts the threads that are kept or, if fewer are allowed, those.
    ///
    /// # Errors
    /// Errors from starting a thread. Those that run continue.
    pub(super) fn start(&self) -> io::Result<()> {
        while self.shared.lock().lacks_kept() {
            self.shared.start_thread(State::lacks_kept)?;
        }
        Ok(())
    }

    /// Maximum number of threads.
    pub(crate) fn threads_max(&self) -> usize {
        self.shared.lock().settings.threads
    }

    /// Whether jobs wait for a thread.
    pub(crate) fn is_busy(&self) -> bool {
        !self.shared.lock().ready.is_empty()
    }

    /// Schedules a job. If no thread is allowed, returns it.
    pub(crate) fn schedule(&self, job: Job) -> Result<(), Job> {
        let state = self.shared.lock();
        if state.settings.threads == 0 {
            return Err(job);
        }
        self.queue_in(state, job);
        Ok(())
    }

    /// Schedules a job, which waits if no thread is allowed.
    pub(crate) fn queue(&self, job: Job) {
        self.queue_in(self.shared.lock(), job);
    }

    fn queue_in(&self, mut state: MutexGuard<'_, State>, job: Job) {
        state.ready.push_back(job);
        drop(state);
        self.shared.changed.notify_one();
        self.shared.start_thread_if_wanted();
    }

    /// If no thread is allowed, takes the jobs that no thread has begun.
    pub(super) fn take_stranded(&self) -> VecDeque<Job> {
        let mut state = self.shared.lock();
        if state.settings.threads > 0 { VecDeque::new() } else { mem::take(&mut state.ready) }
    }

    /// Starts a thread if jobs wait for one and more are allowed.
    pub(super) fn start_missing(&self) {
        self.shared.start_thread_if_wanted();
    }

    /// Schedules a job for a later time.
    pub(crate) fn schedule_at(&self, time: Instant, job: Job) {
        let mut state = self.shared.lock();
        state.delays += 1;
        let number = state.delays;
        state.delayed.insert((time, number), job);
        drop(state);
        self.shared.changed.notify_one();
        self.shared.start_thread_if_wanted();
    }

    /// Takes the jobs of an owner that no thread has begun.
    pub(super) fn take_jobs(&self, owner: u64) -> Vec<Job> {
        let mut state = self.shared.lock();
        let (ready, delayed) = (mem::take(&mut state.ready), mem::take(&mut state.delayed));
        let (taken, ready): (VecDeque<_>, _) =
            ready.into_iter().partition(|job| job.owner == owner);
        let (later, delayed): (BTreeMap<_, _>, _) =
            delayed.into_iter().partition(|(_, job)| job.owner == owner);
        (state.ready, state.delayed) = (ready, delayed);
        taken.into_iter().chain(later.into_values()).collect()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.closed = true;
        let jobs = (mem::take(&mut state.ready), mem::take(&mut state.delayed));
        drop(state);
        self.shared.changed.notify_all();
        let threads = mem::take(&mut *self.shared.threads.lock());
        drop((jobs, threads));
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.lock();
        f.debug_struct("Pool")
            .field("settings", &state.settings)
            .field("running", &state.running)
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Starts a thread if a job may have to wait for one and more are allowed. If the system
    /// refuses, the job waits for another thread.
    ///
    /// A new thread has the priorities of the one that starts it. So a thread whose priorities are
    /// lowered starts none of a pool whose priorities are not, unless that has none.
    fn start_thread_if_wanted(self: &Arc<Self>) {
        let state = self.lock();
        let is_left_to_others =
            !state.settings.lowered.includes(LOWERED.get()) && state.running > 0;
        if state.wants_thread() && !is_left_to_others {
            drop(state);
            let _ = self.start_thread(State::wants_thread);
        }
    }

    /// Starts a thread if it is wanted.
    fn start_thread(self: &Arc<Self>, is_wanted: fn(&State) -> bool) -> io::Result<()> {
        // Locked until the thread is in the list, so that dropping the pool joins it.
        let mut threads = self.threads.lock();
        threads.retain(|thread| !thread.is_finished());
        let mut state = self.lock();
        if !is_wanted(&state) {
            return Ok(());
        }
        let name = (self.name)(state.running);
        state.running += 1;
        drop(state);
        let own = Arc::clone(self);
        match thread::spawn_with(Weight::Background, &name, move || own.run()) {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                self.lock().running -= 1;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Runs jobs until the thread is not needed any more.
    fn run(self: Arc<Self>) {
        let mut state = self.lock();
        loop {
            match state.next() {
                Next::Run(job) => {
                    let wanted = state.settings.lowered;
                    // If this thread waited until a delayed job is ready, another one does now.
                    let is_any_delayed = !state.delayed.is_empty();
                    drop(state);
                    if is_any_delayed {
                        self.changed.notify_one();
                    }
                    self.start_thread_if_wanted();
                    wanted.apply();
                    // The panic hook has already reported a panic, and what the job held was
                    // dropped.
                    let _ = catch_unwind(AssertUnwindSafe(job.work));
                    state = self.lock();
                }
                Next::Wait(longest) => {
                    state.idle += 1;
                    state = match longest {
                        Some(longest) => self.changed.wait_timeout(state, longest),
                        None => self.changed.wait(state),
                    };
                    state.idle -= 1;
                }
                Next::End => {
                    state.running -= 1;
                    // If this thread was woken for a job, another one does it.
                    drop(state);
                    self.changed.notify_one();
                    return;
                }
            }
        }
    }
}

impl State {
    fn lacks_kept(&self) -> bool {
        !self.closed && self.running < self.kept.min(self.settings.threads)
    }

    /// Whether another thread should be started: there are more jobs than idle threads, or none is
    /// left that waits until a delayed job is ready.
    fn wants_thread(&self) -> bool {
        let watches = usize::from(!self.delayed.is_empty());
        !self.closed
            && self.running < self.settings.threads
            && self.ready.len() + watches > self.idle
    }

    /// Takes what a thread does next that is not idle now.
    fn next(&mut self) -> Next {
        if self.closed || self.running > self.settings.threads {
            return Next::End;
        }
        let now = Instant::now();
        if self.idle == 0 {
            self.exhausted = Some(now);
        }
        while let Some(due) = self.delayed.first_entry()
            && due.key().0 <= now
        {
            self.ready.push_back(due.remove());
        }
        if let Some(job) = self.ready.pop_front() {
            return Next::Run(job);
        }
        let until_due = self.delayed.keys().next().map(|(time, _)| *time - now);
        let is_surplus = self.running > self.kept && self.idle >= self.kept;
        let needed = self.exhausted.map_or(SURPLUS_MAX, |at| now.duration_since(at));
        match is_surplus.then(|| SURPLUS_MAX.saturating_sub(needed)) {
            Some(Duration::ZERO) => Next::End,
            until_end => Next::Wait(until_due.into_iter().chain(until_end).min()),
        }
    }
}

thread_local! {
    /// The priorities of this thread that are lowered.
    static LOWERED: Cell<Lowered> = const { Cell::new(Lowered { cpu: false, io: false }) };
}

impl Lowered {
    fn includes(self, other: Self) -> bool {
        (self.cpu || !other.cpu) && (self.io || !other.io)
    }

    /// Lowers these priorities of the calling thread, unless they are.
    fn apply(self) {
        let before = LOWERED.get();
        if self.cpu && !before.cpu {
            thread::lower_cpu_priority();
        }
        if self.io && !before.io {
            thread::lower_io_priority();
        }
        LOWERED.set(Self { cpu: self.cpu || before.cpu, io: self.io || before.io });
    }
}
