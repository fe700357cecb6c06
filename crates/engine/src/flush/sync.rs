//! The lock and the condition variable of the flush jobs: loom's in its models, the engine's
//! everywhere else.

#[cfg(not(all(loom, test)))]
pub(super) use {
    std::sync::MutexGuard,
    tailwater_io::sync::{Condvar, Mutex},
};

#[cfg(all(loom, test))]
pub(super) use with_loom::{Condvar, Mutex, MutexGuard};

#[cfg(all(loom, test))]
mod with_loom {
    use std::sync::PoisonError;

    pub(crate) use loom::sync::MutexGuard;

    #[derive(Debug)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    #[derive(Debug)]
    pub(crate) struct Condvar(loom::sync::Condvar);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }

    impl Condvar {
        pub(crate) fn new() -> Self {
            Self(loom::sync::Condvar::new())
        }

        pub(crate) fn wait_while<'m, T>(
            &self,
            mut guard: MutexGuard<'m, T>,
            mut waits: impl FnMut(&mut T) -> bool,
        ) -> MutexGuard<'m, T> {
            while waits(&mut guard) {
                guard = self.0.wait(guard).unwrap_or_else(PoisonError::into_inner);
            }
            guard
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}
