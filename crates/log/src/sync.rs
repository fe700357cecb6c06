//! Locks, condition variables, atomics and published values (values that readers load without
//! waiting for a writer) for this crate. Normally they are the usual ones. With `--cfg shuttle`
//! they are those of the model checker `shuttle`, which controls the order in which threads run.

#[cfg(not(shuttle))]
pub(crate) use std::sync::atomic;
#[cfg(not(shuttle))]
pub(crate) use tailwater_io::sync::{Condvar, Mutex};

#[cfg(shuttle)]
pub(crate) use shuttle::sync::atomic;
#[cfg(shuttle)]
pub(crate) use shuttled::{Condvar, Mutex};

use std::sync::Arc;

/// Returns a number that identifies the calling thread.
#[cfg(not(shuttle))]
pub(crate) fn thread_number() -> usize {
    tailwater_io::thread::ordinal()
}

/// Returns a number that identifies the calling thread of the model checker.
#[cfg(shuttle)]
pub(crate) fn thread_number() -> usize {
    shuttle::thread::current().id().into()
}

#[cfg(not(shuttle))]
pub(crate) type Guard<'a, T> = std::sync::MutexGuard<'a, T>;
#[cfg(shuttle)]
pub(crate) type Guard<'a, T> = shuttle::sync::MutexGuard<'a, T>;

/// An optional value that is replaced as a whole. Readers get the old or the new value, and never
/// wait for a writer.
#[cfg(not(shuttle))]
#[derive(Debug)]
pub(crate) struct Published<T>(arc_swap::ArcSwapOption<T>);

#[cfg(not(shuttle))]
impl<T> Published<T> {
    pub(crate) fn new(value: Option<Arc<T>>) -> Self {
        Self(arc_swap::ArcSwapOption::new(value))
    }

    /// Returns the current value; `None` if there is none.
    pub(crate) fn load(&self) -> Option<Arc<T>> {
        self.0.load_full()
    }

    pub(crate) fn store(&self, value: Option<Arc<T>>) {
        self.0.store(value);
    }
}

/// [`Published`] for tests under the model checker, with a lock.
#[cfg(shuttle)]
#[derive(Debug)]
pub(crate) struct Published<T>(Mutex<Option<Arc<T>>>);

#[cfg(shuttle)]
impl<T> Published<T> {
    pub(crate) fn new(value: Option<Arc<T>>) -> Self {
        Self(Mutex::new(value))
    }

    pub(crate) fn load(&self) -> Option<Arc<T>> {
        self.0.lock().clone()
    }

    pub(crate) fn store(&self, value: Option<Arc<T>>) {
        *self.0.lock() = value;
    }
}

#[cfg(shuttle)]
mod shuttled {
    use std::sync::PoisonError;
    use std::time::Duration;

    use shuttle::sync::{self, MutexGuard};

    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }

        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().ok()
        }
    }

    #[derive(Debug, Default)]
    pub(crate) struct Condvar(sync::Condvar);

    impl Condvar {
        pub(crate) fn new() -> Self {
            Self::default()
        }

        pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
        }

        /// Waits until notified. The time limit is ignored, because there is no time in the model
        /// checker.
        pub(crate) fn wait_timeout<'a, T>(
            &self,
            guard: MutexGuard<'a, T>,
            _limit: Duration,
        ) -> MutexGuard<'a, T> {
            self.wait(guard)
        }

        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}
