//! Turns at the processors, where more writers could run than there are processors for.
//!
//! The scheduler lets a thread run on for as long as a tick (4 ms where 250 come each second) while
//! others wait for its processor: those that it has just woken, or those that were put off for one
//! that was woken. With four writers on two processors, two wrote to and fro while two waited that
//! had been told long ago that their writes were done. So a writer that has run for a slice while
//! others may be held up yields, at the end of a write, and one that waits for its turn yields
//! before it sleeps (docs/benchmarks.md has what that comes to).
//!
//! A thread that yields gives up what the scheduler owes it, also to threads that do not write: one
//! yield each 50 us left a thread 7 % of a processor that it shared with another that computed. So
//! writers see how long a processor was not with any of them, and where that is most of the time
//! they leave all to the scheduler for a while. Flushes alone do not take so much.

#[cfg(all(loom, test))]
pub(crate) use model::step_aside_if_due;
#[cfg(all(loom, test))]
pub(super) use model::{are_wanted, give_way, goes_on, told, while_put_off};
#[cfg(not(all(loom, test)))]
pub(crate) use real::step_aside_if_due;
#[cfg(not(all(loom, test)))]
pub(super) use real::{are_wanted, give_way, goes_on, told, while_put_off};

/// In models a thread runs when the model wants it to.
#[cfg(all(loom, test))]
mod model {
    pub(in super::super) fn are_wanted() -> bool {
        false
    }

    pub(in super::super) fn give_way() -> bool {
        false
    }

    pub(in super::super) fn told() {}

    pub(in super::super) fn goes_on(_slept: bool) {}

    pub(in super::super) fn while_put_off(wake: impl FnOnce()) {
        wake();
    }

    pub(crate) fn step_aside_if_due() {}
}

#[cfg(not(all(loom, test)))]
mod real {
    use std::cell::Cell;
    use std::num::NonZero;
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicIsize, AtomicU64, Ordering::Relaxed};
    use std::thread;
    use std::time::{Duration, Instant};

    use tailwater_io::thread::current_processor;

    /// How long a writer runs while others are held up.
    const SLICE: Duration = Duration::from_micros(25);
    /// A thread that took longer than this to wake another did not run all the time.
    const WAKING_MAX: Duration = Duration::from_micros(20);

    /// Who keeps a processor for so long is no writer, in nanoseconds.
    const AMONG_WRITERS_NS: u64 = 2_000_000;
    /// For how long it is added up what writers lose, in nanoseconds.
    const WINDOW_NS: u64 = 100_000_000;
    /// For how long they do not yield where that is too much.
    const RELUCTANCE_NS: u64 = 300_000_000;
    /// How many processors are told apart.
    const PROCESSORS: usize = 128;

    /// How many writers of this process could go on, and do not yet or may have been put off.
    static HELD_UP: AtomicIsize = AtomicIsize::new(0);

    /// When a writer was last seen to run, on each processor, as [`now_ns`] tells time.
    static SEEN_NS: [Seen; PROCESSORS] = [const { Seen(AtomicU64::new(0)) }; PROCESSORS];
    static WINDOW_BEGAN_NS: AtomicU64 = AtomicU64::new(0);
    /// What writers lost in that window, on all processors.
    static LOST_NS: AtomicU64 = AtomicU64::new(0);
    /// From when on writers yield again.
    static YIELDS_FROM_NS: AtomicU64 = AtomicU64::new(0);

    /// On a cache line of its own.
    #[repr(align(64))]
    struct Seen(AtomicU64);

    thread_local! {
        /// When the thread's slice began.
        static SLICE_BEGAN: Cell<Option<Instant>> = const { Cell::new(None) };
    }

    /// Whether somebody may be held up.
    #[inline]
    pub(in super::super) fn are_wanted() -> bool {
        HELD_UP.load(Relaxed) > 0
    }

    /// Notes that a writer that waits is about to be told something.
    #[inline]
    pub(in super::super) fn told() {
        HELD_UP.fetch_add(1, Relaxed);
    }

    /// Notes that the calling writer goes on, which was told something. `slept` says whether it had
    /// to be woken.
    #[inline]
    pub(in super::super) fn goes_on(slept: bool) {
        HELD_UP.fetch_sub(1, Relaxed);
        if slept {
            SLICE_BEGAN.set(Some(Instant::now()));
        }
    }

    /// Wakes another thread, which may take the processor of this one.
    pub(in super::super) fn while_put_off(wake: impl FnOnce()) {
        told();
        let began = Instant::now();
        wake();
        goes_on(began.elapsed() > WAKING_MAX);
    }

    /// Lets others run that are held up, if the calling writer has run for a slice. It is for
    /// writers that lead nobody and that nobody waits for.
    #[inline]
    pub(crate) fn step_aside_if_due() {
        if are_wanted() {
            step_aside_after_slice();
        }
    }

    #[cold]
    fn step_aside_after_slice() {
        match SLICE_BEGAN.get() {
            Some(began) if began.elapsed() >= SLICE => {
                told();
                give_way();
                goes_on(false);
            }
            Some(_) => {}
            None => SLICE_BEGAN.set(Some(Instant::now())),
        }
    }

    /// Yields, unless others than writers have had the processors of late. Returns whether it did.
    pub(in super::super) fn give_way() -> bool {
        let began_ns = now_ns();
        if began_ns < YIELDS_FROM_NS.load(Relaxed) {
            return false;
        }
        let processor = current_processor() % PROCESSORS;
        let seen_ns = &SEEN_NS[processor].0;
        seen_ns.store(began_ns, Relaxed);
        thread::yield_now();
        SLICE_BEGAN.set(Some(Instant::now()));
        let ended_ns = now_ns();
        if current_processor() % PROCESSORS == processor {
            let lost_ns = ended_ns.saturating_sub(seen_ns.swap(ended_ns, Relaxed));
            if lost_ns > AMONG_WRITERS_NS {
                note_loss(lost_ns, ended_ns);
            }
        }
        true
    }

    /// Notes that others than writers had a processor. Where they have more than two thirds of the
    /// time of all processors, no writer yields for a while.
    #[cold]
    fn note_loss(lost_ns: u64, now_ns: u64) {
        static PROCESSORS_THERE: LazyLock<u64> =
            LazyLock::new(|| thread::available_parallelism().map_or(1, NonZero::get) as u64);
        if now_ns.saturating_sub(WINDOW_BEGAN_NS.load(Relaxed)) > WINDOW_NS {
            WINDOW_BEGAN_NS.store(now_ns, Relaxed);
            LOST_NS.store(0, Relaxed);
        }
        let all_ns = LOST_NS.fetch_add(lost_ns, Relaxed) + lost_ns;
        if all_ns > WINDOW_NS * *PROCESSORS_THERE / 3 * 2 {
            YIELDS_FROM_NS.store(now_ns + RELUCTANCE_NS, Relaxed);
        }
    }

    fn now_ns() -> u64 {
        static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);
        BEGAN.elapsed().as_nanos() as u64
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn writers_yield_until_others_have_most_of_the_time() {
            assert!(give_way());
            let begun_ns = now_ns();
            // Others had a third of the time, and then all of it.
            let processors = thread::available_parallelism().map_or(1, NonZero::get) as u64;
            note_loss(WINDOW_NS * processors / 3, begun_ns);
            assert!(give_way());
            note_loss(WINDOW_NS * processors / 2, begun_ns);
            assert!(!give_way());
            YIELDS_FROM_NS.store(0, Relaxed);
            assert!(give_way());
        }
    }
}
