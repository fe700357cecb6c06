//! Objects that take long to drop, such as the memory of a memtable.
//!
//! The last reference to such an object may be dropped by a user's thread, together with an
//! iterator. The object is then passed to a thread that is registered as a [`Collector`], so that
//! the user's thread need not drop it. If there is no collector, the object is dropped immediately.
//! The caller must ensure that no reader can see the object any more.

use std::sync::atomic::{AtomicUsize, Ordering};

#[cfg(not(all(loom, test)))]
use super::retired::Retired;

#[cfg(not(all(loom, test)))]
static WAITING: Retired = Retired::new();

/// Number of collectors, the threads that drop the objects passed to `drop_elsewhere`.
static COLLECTORS: AtomicUsize = AtomicUsize::new(0);

/// Passes an object to a collector, which drops it. If there is no collector, drops the object
/// immediately. Lock-free; allocates.
#[cfg(not(all(loom, test)))]
pub(crate) fn drop_elsewhere<T: Send + 'static>(object: T) {
    if COLLECTORS.load(Ordering::SeqCst) == 0 {
        return drop(object);
    }
    WAITING.push(0, Box::new(object));
    // The last collector may have ended between the check and the push. Nobody else would then drop
    // the object.
    if COLLECTORS.load(Ordering::SeqCst) == 0 {
        WAITING.collect_all();
    }
}

/// Drops the object immediately: in loom's models, no object may outlive a run.
#[cfg(all(loom, test))]
pub(crate) fn drop_elsewhere<T: Send + 'static>(object: T) {
    drop(object);
}

/// Drops the objects that were passed to collectors. The drops run in the calling thread, so only
/// background threads should call this.
pub(crate) fn collect() {
    #[cfg(not(all(loom, test)))]
    WAITING.collect_all();
}

/// The registration of a thread as a collector. While it lives, the thread must call [`collect`]
/// from time to time.
#[derive(Debug)]
pub(crate) struct Collector(());

impl Collector {
    /// Registers the calling thread as a collector, a thread that drops heavy objects for other
    /// threads.
    pub(crate) fn begin() -> Self {
        COLLECTORS.fetch_add(1, Ordering::SeqCst);
        Self(())
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        COLLECTORS.fetch_sub(1, Ordering::SeqCst);
        collect();
    }
}

#[cfg(all(not(loom), test))]
mod tests {
    use std::sync::mpsc;
    use std::thread::{self, ThreadId};

    use super::*;

    struct Heavy(mpsc::Sender<ThreadId>);

    impl Drop for Heavy {
        fn drop(&mut self) {
            let _ = self.0.send(thread::current().id());
        }
    }

    /// Regression test: the thread that dropped the last iterator over a memtable had to free its
    /// memory.
    #[test]
    fn heavy_objects_are_dropped_by_the_collecting_thread() {
        let (sender, dropped) = mpsc::channel();
        let (begun, wait_for_begin) = mpsc::channel();
        let (end, wait_for_end) = mpsc::channel::<()>();
        let by = thread::scope(|scope| {
            scope.spawn(move || {
                let _collector = Collector::begin();
                begun.send(()).unwrap();
                // `recv` fails when the test drops the sender `end`.
                assert!(wait_for_end.recv().is_err());
                collect();
            });
            wait_for_begin.recv().unwrap();
            drop_elsewhere(Heavy(sender));
            drop(end);
            dropped.recv().unwrap()
        });
        // The object need not have been dropped by this test's collector: databases of other tests
        // may have collectors, too.
        assert_ne!(by, thread::current().id());
    }
}
