//! Shares the processors fairly if there are more runnable writers than processors.
//!
//! The scheduler lets a thread run for up to a tick (4 ms at 250 Hz) while other threads wait for
//! its processor: threads that were just woken, or that were preempted by a woken thread. With four
//! writers on two processors, two writers alternated while the other two, whose writes had long
//! been done, waited for a processor. So a writer that has run for a time slice while others may be
//! held up yields at the end of a write, and a waiting writer yields before it sleeps (measured in
//! docs/appendix/measurements.md).
//!
//! A yielding thread offers its processor to all threads, not only to writers: a thread that
//! yielded every 50 us got only 7 % of a processor that it shared with a computing thread. So a
//! writer whose yield was followed by a long pause does not yield again until it has run for as
//! long.

#[cfg(all(loom, test))]
pub(crate) use model::yield_if_due;
#[cfg(all(loom, test))]
pub(super) use model::{are_writers_held_up, give_way, notifying, resumes, while_waking};
#[cfg(all(test, not(loom)))]
pub(super) use real::held_up;
#[cfg(not(all(loom, test)))]
pub(crate) use real::yield_if_due;
#[cfg(not(all(loom, test)))]
pub(super) use real::{are_writers_held_up, give_way, notifying, resumes, while_waking};

/// In loom models, loom schedules the threads, so nothing is counted and nobody yields.
#[cfg(all(loom, test))]
mod model {
    pub(in super::super) fn are_writers_held_up() -> bool {
        false
    }

    pub(in super::super) fn give_way() -> bool {
        false
    }

    pub(in super::super) fn notifying() {}

    pub(in super::super) fn resumes(_slept: bool) {}

    pub(in super::super) fn while_waking(wake: impl FnOnce()) {
        wake();
    }

    pub(crate) fn yield_if_due() {}
}

#[cfg(not(all(loom, test)))]
mod real {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicIsize, Ordering::Relaxed};
    use std::thread;
    use std::time::{Duration, Instant};

    /// Time that a writer runs before it yields to writers that are held up.
    const SLICE: Duration = Duration::from_micros(25);
    /// If a call that wakes another thread took longer than this, the calling thread was preempted
    /// during the call.
    const WAKING_MAX: Duration = Duration::from_micros(20);
    /// A yield that takes longer than this has let other threads than writers run.
    const YIELD_MAX: Duration = Duration::from_millis(2);

    /// Number of writers of this process that could run but do not run yet, or that may have been
    /// preempted. Includes writers that yielded, which may not be scheduled again for long.
    static HELD_UP: HeldUp = HeldUp(AtomicIsize::new(0));

    /// A counter that fills a pair of cache lines, because processors prefetch lines in pairs.
    #[repr(align(128))]
    struct HeldUp(AtomicIsize);

    thread_local! {
        /// The end of the thread's time slice, which began with its last wake-up or yield.
        static SLICE_ENDS: Cell<Option<Instant>> = const { Cell::new(None) };
        /// The time until which the thread does not yield, because it lost its processor to threads
        /// other than writers when it yielded last.
        static KEEPS_UNTIL: Cell<Option<Instant>> = const { Cell::new(None) };
    }

    /// Whether any writer may be held up, that is, could run but has no processor.
    #[inline]
    pub(in super::super) fn are_writers_held_up() -> bool {
        HELD_UP.0.load(Relaxed) > 0
    }

    /// Must be called before a waiting writer is notified. Counts that writer as held up: it will
    /// be able to run, but may have no processor yet.
    #[inline]
    pub(in super::super) fn notifying() {
        HELD_UP.0.fetch_add(1, Relaxed);
    }

    /// Notes that the calling writer runs again after a notification. `slept` says whether its
    /// thread had to be woken.
    #[inline]
    pub(in super::super) fn resumes(slept: bool) {
        HELD_UP.0.fetch_sub(1, Relaxed);
        if slept {
            SLICE_ENDS.set(Some(Instant::now() + SLICE));
        }
    }

    /// Runs `wake`, which wakes a thread. The woken thread may preempt the calling thread. So until
    /// `wake` returns, the calling thread counts as held up, that is, as a writer that could run
    /// but has no processor.
    pub(in super::super) fn while_waking(wake: impl FnOnce()) {
        notifying();
        let began = Instant::now();
        wake();
        resumes(began.elapsed() > WAKING_MAX);
    }

    /// Yields the processor if other writers could run but have no processor, and if the calling
    /// writer has run for a time slice (`SLICE`). Only for writers that are not leaders and that no
    /// other writer waits for.
    #[inline]
    pub(crate) fn yield_if_due() {
        if are_writers_held_up() {
            yield_after_slice();
        }
    }

    #[cold]
    fn yield_after_slice() {
        if SLICE_ENDS.get().is_none_or(|end| end <= Instant::now()) {
            notifying();
            give_way();
            resumes(false);
        }
    }

    /// Yields, unless the calling thread lost its processor to threads other than writers when it
    /// yielded recently. Returns whether it yielded.
    pub(in super::super) fn give_way() -> bool {
        let began = Instant::now();
        if KEEPS_UNTIL.get().is_some_and(|end| began < end) {
            return false;
        }
        thread::yield_now();
        let now = Instant::now();
        SLICE_ENDS.set(Some(now + SLICE));
        let lost = now - began;
        if lost > YIELD_MAX {
            KEEPS_UNTIL.set(Some(now + lost));
        }
        true
    }

    /// Returns the number of writers that were notified but are not yet running, for tests.
    #[cfg(test)]
    pub(in super::super) fn held_up() -> isize {
        HELD_UP.0.load(Relaxed)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_writer_that_lost_its_processor_does_not_yield_for_a_while() {
            KEEPS_UNTIL.set(Some(Instant::now() + Duration::from_hours(1)));
            assert!(!give_way());
            KEEPS_UNTIL.set(Some(Instant::now()));
            assert!(give_way());
        }
    }
}
