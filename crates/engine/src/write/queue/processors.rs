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
//! yielded every 50 us got only 7 % of a processor that it shared with a computing thread. So
//! writers measure how long threads other than writers hold the processors that writers use. If
//! such threads hold these processors for more than two thirds of the time, writers stop yielding
//! for a while. A flush that occupies one of two processors takes only half of their time, so
//! writers continue to yield.

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
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicIsize, AtomicU64, Ordering::Relaxed};
    use std::thread;
    use std::time::{Duration, Instant};

    use tailwater_io::thread::{current_processor, processor_time};

    /// Time that a writer runs before it yields to writers that are held up.
    const SLICE: Duration = Duration::from_micros(25);
    /// If a call that wakes another thread took longer than this, the calling thread was preempted
    /// during the call.
    const WAKING_MAX: Duration = Duration::from_micros(20);

    /// Maximum pause between a writer's yield and its next run, in nanoseconds, after which other
    /// writers are assumed to have used the processor. A longer pause is assumed to have been used
    /// by threads other than writers.
    const AMONG_WRITERS_NS: u64 = 2_000_000;
    /// Length of the time window over which the time lost to other threads is summed, in
    /// nanoseconds.
    const WINDOW_NS: u64 = 100_000_000;
    /// If threads other than writers have held the processors for too long, writers stop yielding
    /// for this time, in nanoseconds.
    const NO_YIELD_NS: u64 = 300_000_000;
    /// Number of processors that are tracked separately.
    const PROCESSORS: usize = 128;

    /// Number of writers of this process that could run but do not run yet, or that may have been
    /// preempted. Includes writers that yielded, which may not be scheduled again for long.
    static HELD_UP: HeldUp = HeldUp(AtomicIsize::new(0));

    static TURNS: Turns = Turns::new();

    /// A counter that fills a pair of cache lines, because processors prefetch lines in pairs.
    #[repr(align(128))]
    struct HeldUp(AtomicIsize);

    /// Determines whether writers yield to each other. For this, it keeps track of the processors
    /// on which writers run, and of the time for which other threads occupy these processors. All
    /// times are those of [`now_ns`].
    struct Turns {
        /// The time at which a writer was last seen running on each processor.
        seen_ns: [Seen; PROCESSORS],
        window_began_ns: AtomicU64,
        /// A bit for each processor on which a writer yielded since `window_began_ns`.
        used: [AtomicU64; PROCESSORS / 64],
        /// Time since `window_began_ns` for which other threads occupied the processors of writers
        /// that had yielded, summed over all processors.
        lost_ns: AtomicU64,
        /// The time from which on writers yield. It is 0, so that writers yield from the start,
        /// until other threads have occupied the processors for too long.
        yields_from_ns: AtomicU64,
    }

    /// A time stamp, padded to a cache line, so that writers on different processors do not write
    /// to the same line.
    #[repr(align(64))]
    struct Seen(AtomicU64);

    thread_local! {
        /// The thread's last wake-up or yield: its current time slice began then or later.
        static SLICE_BEGAN: Cell<Option<Instant>> = const { Cell::new(None) };
        /// The thread's processor time when it last yielded.
        static PROCESSOR_TIME_AT_YIELD: Cell<Duration> = const { Cell::new(Duration::ZERO) };
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
            SLICE_BEGAN.set(Some(Instant::now()));
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
        if SLICE_BEGAN.get().is_some_and(|began| began.elapsed() < SLICE) {
            return;
        }
        SLICE_BEGAN.set(Some(Instant::now()));
        // A writer that sleeps between writes runs only for a part of the elapsed time. So it is
        // not enough that the time of a slice has elapsed: the writer must also have used that much
        // processor time.
        let had = processor_time();
        if had.saturating_sub(PROCESSOR_TIME_AT_YIELD.get()) < SLICE || !TURNS.are_taken(now_ns()) {
            return;
        }
        PROCESSOR_TIME_AT_YIELD.set(had);
        notifying();
        give_way();
        resumes(false);
    }

    /// Yields, unless threads other than writers recently occupied most of the processors. Returns
    /// whether the calling thread yielded.
    pub(in super::super) fn give_way() -> bool {
        let began_ns = now_ns();
        if !TURNS.are_taken(began_ns) {
            return false;
        }
        let processor = current_processor();
        TURNS.leave(processor, began_ns);
        thread::yield_now();
        SLICE_BEGAN.set(Some(Instant::now()));
        if current_processor() == processor {
            TURNS.come_back(processor, now_ns());
        }
        true
    }

    fn now_ns() -> u64 {
        static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);
        BEGAN.elapsed().as_nanos() as u64
    }

    impl Turns {
        const fn new() -> Self {
            Self {
                seen_ns: [const { Seen(AtomicU64::new(0)) }; PROCESSORS],
                window_began_ns: AtomicU64::new(0),
                used: [const { AtomicU64::new(0) }; PROCESSORS / 64],
                lost_ns: AtomicU64::new(0),
                yields_from_ns: AtomicU64::new(0),
            }
        }

        /// Whether writers may yield to each other at the time `now_ns`. They may not for some time
        /// after other threads have occupied the processors for too long.
        fn are_taken(&self, now_ns: u64) -> bool {
            now_ns >= self.yields_from_ns.load(Relaxed)
        }

        /// Notes that a writer is about to yield.
        fn leave(&self, processor: usize, now_ns: u64) {
            let processor = processor % PROCESSORS;
            self.seen_ns[processor].0.store(now_ns, Relaxed);
            let (used, bit) = (&self.used[processor / 64], 1 << (processor % 64));
            if used.load(Relaxed) & bit == 0 {
                used.fetch_or(bit, Relaxed);
            }
        }

        /// Notes that a writer that yielded runs again, on the same processor.
        fn come_back(&self, processor: usize, now_ns: u64) {
            let seen_ns = &self.seen_ns[processor % PROCESSORS].0;
            let lost_ns = now_ns.saturating_sub(seen_ns.swap(now_ns, Relaxed));
            if lost_ns > AMONG_WRITERS_NS {
                self.lose(lost_ns, now_ns);
            }
        }

        /// Adds `lost_ns`, for which threads other than writers held a processor. Compares the sum
        /// with the length of the time window, multiplied by the number of processors that writers
        /// use. If the sum is more than two thirds of this product, no writer yields for a while.
        #[cold]
        fn lose(&self, lost_ns: u64, now_ns: u64) {
            if now_ns.saturating_sub(self.window_began_ns.load(Relaxed)) > WINDOW_NS {
                self.window_began_ns.store(now_ns, Relaxed);
                self.used.iter().for_each(|used| used.store(0, Relaxed));
                self.lost_ns.store(0, Relaxed);
            }
            let all_ns = self.lost_ns.fetch_add(lost_ns, Relaxed) + lost_ns;
            let used: u32 = self.used.iter().map(|used| used.load(Relaxed).count_ones()).sum();
            if all_ns > WINDOW_NS * u64::from(used.max(1)) / 3 * 2 {
                self.yields_from_ns.store(now_ns + NO_YIELD_NS, Relaxed);
            }
        }
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
        fn writers_stop_yielding_when_others_take_most_of_the_time() {
            const ROUND_NS: u64 = 10_000_000;
            // Each case is a load and the expected result. The load consists of the times, in
            // nanoseconds of every 10 ms, for which other threads occupy the first and the second
            // processor. The result is whether writers yield under this load.
            let cases = [
                ([1_900_000, 1_900_000], true),
                ([9_000_000, 0], true),
                ([6_000_000, 6_000_000], true),
                ([8_000_000, 7_000_000], false),
            ];
            for (others_ns, yields) in cases {
                let (turns, mut now_ns) = (Turns::new(), 5 * WINDOW_NS);
                for _ in 0..11 {
                    for (processor, others_ns) in [3, 70].into_iter().zip(others_ns) {
                        turns.leave(processor, now_ns);
                        turns.come_back(processor, now_ns + others_ns);
                    }
                    now_ns += ROUND_NS;
                }
                assert_eq!(turns.are_taken(now_ns), yields, "{others_ns:?}");
                assert!(turns.are_taken(now_ns + NO_YIELD_NS));
            }
        }

        /// Checks that the load is measured only on processors that writers use. Here writers use
        /// one processor, and other threads occupy it for 80 % of the time. So writers stop
        /// yielding, even if the machine has more processors.
        #[test]
        fn processors_without_writers_do_not_count() {
            let turns = Turns::new();
            for round in 0..11 {
                let now_ns = 5 * WINDOW_NS + round * 10_000_000;
                turns.leave(7, now_ns);
                turns.come_back(7, now_ns + 8_000_000);
            }
            assert!(!turns.are_taken(5 * WINDOW_NS + 110_000_000));
        }
    }
}
