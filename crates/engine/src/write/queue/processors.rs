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
//! they leave it to the scheduler for a while. Flushes alone do not take so much.

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

    static AT_PROCESSORS: [AtProcessor; PROCESSORS] = [const { AtProcessor::new() }; PROCESSORS];

    /// On a pair of cache lines of its own, because processors fetch them in pairs.
    #[repr(align(128))]
    struct HeldUp(AtomicIsize);

    /// What writers saw of a processor. All times are as [`now_ns`] tells them.
    #[repr(align(128))]
    struct AtProcessor {
        /// When a writer was last seen to run there.
        seen_ns: AtomicU64,
        window_began_ns: AtomicU64,
        /// What writers lost in that window.
        lost_ns: AtomicU64,
        /// From when on writers yield there again.
        yields_from_ns: AtomicU64,
    }

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
        if had.saturating_sub(HAD_BEFORE.get()) < SLICE || !is_willing() {
            return;
        }
        HAD_BEFORE.set(had);
        told();
        give_way();
        goes_on(false);
    }

    /// Yields, unless others than writers have had the processor of late. Returns whether it did.
    pub(in super::super) fn give_way() -> bool {
        let (processor, at_processor) = here();
        let began_ns = now_ns();
        if !at_processor.is_willing(began_ns) {
            return false;
        }
        at_processor.seen_ns.store(began_ns, Relaxed);
        thread::yield_now();
        SLICE_BEGAN.set(Some(Instant::now()));
        if here().0 == processor {
            at_processor.see(now_ns());
        }
        true
    }

    /// Whether a writer would yield now.
    fn is_willing() -> bool {
        here().1.is_willing(now_ns())
    }

    /// The processor that the calling thread runs on, and what writers saw of it.
    fn here() -> (usize, &'static AtProcessor) {
        let processor = current_processor();
        (processor, &AT_PROCESSORS[processor % PROCESSORS])
    }

    fn now_ns() -> u64 {
        static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);
        BEGAN.elapsed().as_nanos() as u64
    }

    impl AtProcessor {
        const fn new() -> Self {
            Self {
                seen_ns: AtomicU64::new(0),
                window_began_ns: AtomicU64::new(0),
                lost_ns: AtomicU64::new(0),
                yields_from_ns: AtomicU64::new(0),
            }
        }

        fn is_willing(&self, now_ns: u64) -> bool {
            now_ns >= self.yields_from_ns.load(Relaxed)
        }

        /// Notes that a writer runs again which had yielded.
        fn see(&self, now_ns: u64) {
            let lost_ns = now_ns.saturating_sub(self.seen_ns.swap(now_ns, Relaxed));
            if lost_ns > AMONG_WRITERS_NS {
                self.lose(lost_ns, now_ns);
            }
        }

        /// Notes that others than writers had the processor. Where they have more than two thirds
        /// of its time, no writer yields there for a while.
        #[cold]
        fn lose(&self, lost_ns: u64, now_ns: u64) {
            if now_ns.saturating_sub(self.window_began_ns.load(Relaxed)) > WINDOW_NS {
                self.window_began_ns.store(now_ns, Relaxed);
                self.lost_ns.store(0, Relaxed);
            }
            let all_ns = self.lost_ns.fetch_add(lost_ns, Relaxed) + lost_ns;
            if all_ns > WINDOW_NS / 3 * 2 {
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
            // What others have of each 10 ms, in nanoseconds.
            for (others_ns, yields) in [(1_900_000, true), (6_000_000, true), (8_000_000, false)] {
                let (processor, mut now_ns) = (AtProcessor::new(), 5 * WINDOW_NS);
                for _ in 0..10 {
                    processor.seen_ns.store(now_ns, Relaxed);
                    processor.see(now_ns + others_ns);
                    now_ns += ROUND_NS;
                }
                assert_eq!(processor.is_willing(now_ns), yields, "{others_ns}");
                assert!(processor.is_willing(now_ns + RELUCTANCE_NS));
            }
        }
    }
}
