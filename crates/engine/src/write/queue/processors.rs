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
//! writers see how long the processors that they run on were not with any of them, and where that
//! is most of the time they leave all to the scheduler for a while. A flush alone, which keeps one
//! processor of two, does not take so much.

#[cfg(all(loom, test))]
pub(crate) use model::step_aside_if_due;
#[cfg(all(loom, test))]
pub(super) use model::{are_wanted, give_way, goes_on, told, while_put_off};
#[cfg(all(test, not(loom)))]
pub(super) use real::held_up;
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
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicIsize, AtomicU64, Ordering::Relaxed};
    use std::thread;
    use std::time::{Duration, Instant};

    use tailwater_io::thread::{current_processor, processor_time};

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

    /// How many writers of this process could go on, and do not yet or may have been put off: also
    /// those that yield, which may not be back for long.
    static HELD_UP: HeldUp = HeldUp(AtomicIsize::new(0));

    static TURNS: Turns = Turns::new();

    /// On a pair of cache lines of its own, because processors fetch them in pairs.
    #[repr(align(128))]
    struct HeldUp(AtomicIsize);

    /// What writers saw of the processors that they run on. All times are as [`now_ns`] tells them.
    struct Turns {
        /// When a writer was last seen to run, on each processor.
        seen_ns: [Seen; PROCESSORS],
        window_began_ns: AtomicU64,
        /// A bit for each processor on which a writer yielded in that window.
        used: [AtomicU64; PROCESSORS / 64],
        /// What writers lost in that window, on all processors.
        lost_ns: AtomicU64,
        /// From when on writers yield again.
        yields_from_ns: AtomicU64,
    }

    /// On a cache line of its own.
    #[repr(align(64))]
    struct Seen(AtomicU64);

    thread_local! {
        /// When the thread's slice began, at the earliest.
        static SLICE_BEGAN: Cell<Option<Instant>> = const { Cell::new(None) };
        /// What time it had had at processors when it last stepped aside.
        static HAD_BEFORE: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    }

    /// Whether somebody may be held up.
    #[inline]
    pub(in super::super) fn are_wanted() -> bool {
        HELD_UP.0.load(Relaxed) > 0
    }

    /// Notes that a writer that waits is about to be told something.
    #[inline]
    pub(in super::super) fn told() {
        HELD_UP.0.fetch_add(1, Relaxed);
    }

    /// Notes that the calling writer goes on, which was told something. `slept` says whether it had
    /// to be woken.
    #[inline]
    pub(in super::super) fn goes_on(slept: bool) {
        HELD_UP.0.fetch_sub(1, Relaxed);
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
        if SLICE_BEGAN.get().is_some_and(|began| began.elapsed() < SLICE) {
            return;
        }
        SLICE_BEGAN.set(Some(Instant::now()));
        // Who sleeps between writes has had less of a processor than time has passed.
        let had = processor_time();
        if had.saturating_sub(HAD_BEFORE.get()) < SLICE || !TURNS.are_taken(now_ns()) {
            return;
        }
        HAD_BEFORE.set(had);
        told();
        give_way();
        goes_on(false);
    }

    /// Yields, unless others than writers have had the processors of late. Returns whether it did.
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

        /// Whether writers yield.
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

        /// Notes that the writer runs again, on the same processor.
        fn come_back(&self, processor: usize, now_ns: u64) {
            let seen_ns = &self.seen_ns[processor % PROCESSORS].0;
            let lost_ns = now_ns.saturating_sub(seen_ns.swap(now_ns, Relaxed));
            if lost_ns > AMONG_WRITERS_NS {
                self.lose(lost_ns, now_ns);
            }
        }

        /// Notes that others than writers had a processor. Where they have more than two thirds of
        /// the time of those that writers use, no writer yields for a while.
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
                self.yields_from_ns.store(now_ns + RELUCTANCE_NS, Relaxed);
            }
        }
    }

    /// How many writers are told something and do not go on yet, for tests.
    #[cfg(test)]
    pub(in super::super) fn held_up() -> isize {
        HELD_UP.0.load(Relaxed)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn writers_yield_until_others_have_most_of_the_time() {
            const ROUND_NS: u64 = 10_000_000;
            // What others have of each 10 ms of two processors, in nanoseconds.
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
                assert!(turns.are_taken(now_ns + RELUCTANCE_NS));
            }
        }

        /// Where one processor is all that writers use, it counts alone, however many there are.
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
