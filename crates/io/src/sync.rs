//! Locks and condition variables that ignore poisoning, and debugging aids that record which
//! threads take which locks.
//!
//! A panic while a lock is held does not poison it. This is safe because every critical section
//! keeps its data consistent between any two statements, so other threads may continue.
//!
//! In builds with debug assertions [`locks_taken`] reports which locks a piece of work takes in its
//! thread, so that a test can assert that a code path takes none.

use std::collections::VecDeque;
use std::sync::{self, MutexGuard, PoisonError, TryLockError};
use std::thread::{self, Thread};
use std::time::Duration;

use crate::sections::{self, Section};

/// A mutual-exclusion lock that contains the value it guards.
#[derive(Debug, Default)]
pub struct Mutex<T: ?Sized> {
    #[cfg(debug_assertions)]
    takers: recording::LockUsers,
    inner: sync::Mutex<T>,
}

impl<T> Mutex<T> {
    /// Creates a lock on this value.
    pub const fn new(value: T) -> Self {
        Self {
            #[cfg(debug_assertions)]
            takers: recording::LockUsers::new(),
            inner: sync::Mutex::new(value),
        }
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits until the lock is free, and takes it.
    #[inline]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        #[cfg(debug_assertions)]
        recording::note(&self.takers);
        match self.inner.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => self.wait(),
        }
    }

    #[cold]
    fn wait(&self) -> MutexGuard<'_, T> {
        let _waiting = sections::enter(Section::Lock);
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the value without locking: `&mut self` proves that nothing else holds the lock.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lock if it is free; otherwise returns `None` without waiting.
    #[inline]
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        #[cfg(debug_assertions)]
        recording::note(&self.takers);
        match self.inner.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// A condition variable for [`Mutex`].
#[derive(Debug, Default)]
pub struct Condvar(sync::Condvar);

impl Condvar {
    /// Creates a condition variable.
    pub const fn new() -> Self {
        Self(sync::Condvar::new())
    }

    /// Releases the lock, waits until this is notified, and takes the lock again. May also return
    /// without a notification.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        let _waiting = sections::enter(Section::Lock);
        self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits as [`Self::wait`] does, for at most `limit`.
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        limit: Duration,
    ) -> MutexGuard<'a, T> {
        let _waiting = sections::enter(Section::Lock);
        self.0.wait_timeout(guard, limit).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Waits while `waits` returns true.
    pub fn wait_while<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        waits: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        let _waiting = sections::enter(Section::Lock);
        self.0.wait_while(guard, waits).unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for at most `limit` while `waits` returns true.
    pub fn wait_timeout_while<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        limit: Duration,
        waits: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        let _waiting = sections::enter(Section::Lock);
        self.0.wait_timeout_while(guard, limit, waits).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Wakes one waiting thread.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all waiting threads.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// Time after which a thread that waits for its turn tries again without being woken. What it waits
/// for can become available without a call of [`Turns::changed`].
const TURN_RETRY: Duration = Duration::from_millis(20);

/// Threads that wait for something of which there is a limited amount. They get it in the order of
/// their arrival.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    queue: Mutex<VecDeque<Thread>>,
}

impl Turns {
    /// Whether any thread waits. A caller that does not wait should then not take anything, because
    /// it would overtake the threads that wait.
    pub(crate) fn are_awaited(&self) -> bool {
        !self.queue.lock().is_empty()
    }

    /// Calls `attempt` until it succeeds, and waits between the calls. While threads that came
    /// earlier wait, waits for them first. A thread must not call this inside `attempt`.
    pub(crate) fn take<T>(&self, mut attempt: impl FnMut() -> Option<T>) -> T {
        if !self.are_awaited()
            && let Some(taken) = attempt()
        {
            return taken;
        }
        let place = Place::last_of(self);
        loop {
            if place.is_first()
                && let Some(taken) = attempt()
            {
                return taken;
            }
            let _waiting = sections::enter(Section::Lock);
            thread::park_timeout(TURN_RETRY);
        }
    }

    /// To be called when an attempt that failed may succeed. Wakes the thread whose turn it is.
    pub(crate) fn changed(&self) {
        let first = self.queue.lock().front().cloned();
        if let Some(first) = first {
            first.unpark();
        }
    }
}

/// The place of the calling thread among those that wait. The thread leaves when this is dropped.
struct Place<'a>(&'a Turns);

impl<'a> Place<'a> {
    fn last_of(turns: &'a Turns) -> Self {
        turns.queue.lock().push_back(thread::current());
        Self(turns)
    }

    fn is_first(&self) -> bool {
        let own = thread::current().id();
        self.0.queue.lock().front().is_some_and(|first| first.id() == own)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let own = thread::current().id();
        self.0.queue.lock().retain(|thread| thread.id() != own);
        self.0.changed();
    }
}

/// Marks this thread as one that users wait for. A lock that it shares with a low-priority thread
/// could delay users, so `locks_shared_with_low_priority_threads` reports such locks. Has no effect
/// without debug assertions.
pub fn serve_users() {
    #[cfg(debug_assertions)]
    recording::become_foreground();
}

#[cfg(debug_assertions)]
pub(crate) use recording::become_low_priority;
#[cfg(debug_assertions)]
pub use recording::{
    SharedLock, in_foreground, locks_shared_with_low_priority_threads, locks_taken,
};

#[cfg(debug_assertions)]
mod recording {
    use std::cell::{Cell, RefCell};
    use std::panic::Location;
    use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
    use std::sync::{Mutex, PoisonError};

    thread_local! {
        static TAKEN: RefCell<Option<Vec<&'static Location<'static>>>> = const { RefCell::new(None) };
    }

    /// Runs `work` on this thread and returns the source locations at which it took locks.
    pub fn locks_taken(work: impl FnOnce()) -> Vec<&'static Location<'static>> {
        TAKEN.set(Some(Vec::new()));
        work();
        TAKEN.take().unwrap_or_default()
    }

    /// A source location at which a thread took a shared lock. A lock is shared if both
    /// low-priority threads and threads that users wait for have taken it.
    pub type SharedLock = &'static Location<'static>;

    static SHARED: Mutex<Vec<SharedLock>> = Mutex::new(Vec::new());

    thread_local! {
        static LOW_PRIORITY: Cell<bool> = const { Cell::new(false) };
        static FOREGROUND: Cell<bool> = const { Cell::new(false) };
    }

    /// A bit set that says which kinds of threads have taken a lock: low-priority ones and those
    /// that users wait for.
    #[derive(Debug, Default)]
    pub(super) struct LockUsers(AtomicU8);

    impl LockUsers {
        pub(super) const fn new() -> Self {
            Self(AtomicU8::new(0))
        }

        const LOW_PRIORITY: u8 = 1;
        const FOREGROUND: u8 = 2;

        fn note(&self, caller: SharedLock) {
            let is_low_priority = LOW_PRIORITY.try_with(Cell::get).unwrap_or(false);
            let is_foreground = FOREGROUND.try_with(Cell::get).unwrap_or(false);
            let bits = u8::from(is_low_priority) * Self::LOW_PRIORITY
                + u8::from(is_foreground) * Self::FOREGROUND;
            let all = Self::LOW_PRIORITY | Self::FOREGROUND;
            if bits != 0 && self.0.fetch_or(bits, Relaxed) | bits == all {
                SHARED.lock().unwrap_or_else(PoisonError::into_inner).push(caller);
            }
        }
    }

    /// Marks this thread as a low-priority thread. The mark is used to record which locks are taken
    /// by which kind of thread.
    pub(crate) fn become_low_priority() {
        LOW_PRIORITY.set(true);
    }

    pub(super) fn become_foreground() {
        FOREGROUND.set(true);
    }

    /// Runs `work`, and during it marks this thread as one that users wait for.
    pub fn in_foreground<T>(work: impl FnOnce() -> T) -> T {
        FOREGROUND.set(true);
        let answer = work();
        FOREGROUND.set(false);
        answer
    }

    /// Returns the source locations at which shared locks were taken, so far and in all threads. A
    /// lock is shared if it was taken both by a low-priority thread and by a thread marked by
    /// [`in_foreground`] or [`serve_users`](super::serve_users).
    pub fn locks_shared_with_low_priority_threads() -> Vec<SharedLock> {
        SHARED.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    #[track_caller]
    pub(super) fn note(takers: &LockUsers) {
        let caller = Location::caller();
        takers.note(caller);
        // While a thread exits, its thread-local list may already be destroyed. Locks that the
        // thread takes after that need not be recorded.
        let _ = TAKEN.try_with(|taken| {
            if let Some(taken) = taken.borrow_mut().as_mut() {
                taken.push(caller);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_stays_usable_after_a_panic() {
        let lock = Mutex::new(1);
        let panicked = std::thread::scope(|scope| {
            let work = scope.spawn(|| {
                let _guard = lock.lock();
                panic!("while it holds the lock");
            });
            work.join()
        });
        assert!(panicked.is_err());
        assert_eq!(*lock.lock(), 1);
        assert!(lock.try_lock().is_some());
    }

    #[test]
    #[cfg(debug_assertions)]
    fn taken_locks_are_recorded() {
        let lock = Mutex::new(1);
        drop(lock.lock());
        let taken = locks_taken(|| drop((lock.lock(), lock.try_lock())));
        assert_eq!(taken.len(), 2);
        assert!(taken.iter().all(|place| place.file().ends_with("sync.rs")));
        drop(lock.lock());
        assert!(locks_taken(|| ()).is_empty());
    }
}
