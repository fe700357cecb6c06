//! The time that messages are stamped with.
//!
//! The wall clock of a machine may be wrong for a while, or be set. Two rules keep a wrong time
//! from entering the log, or from staying there:
//!
//! - [`Timestamps`]: a jump ahead is believed after it has lasted for [`HELD_NS`]. Until then, the
//!   time continues from before the jump, by the monotonic clock.
//! - [`after`]: in a partition, the time always increases. While the wall clock is behind the last
//!   batch, the partition's time advances at half the speed of the monotonic clock, so the wall
//!   clock catches up.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use tailwater_io::Clock;

/// Difference between the expected and the actual wall-clock time that counts as a jump, in
/// microseconds. Smaller ones are corrections by a time service, which are followed.
const JUMP_US: i64 = 1_000_000;
/// Difference up to which the expected time is not corrected, in microseconds, so that appends do
/// not write a shared variable each time.
const FOLLOWED_US: u64 = 1000;
/// Time after which a jump ahead is followed, in nanoseconds of the monotonic clock.
const HELD_NS: u64 = 10_000_000_000;

/// A point in time, by two clocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now {
    /// Microseconds since 1970.
    pub(crate) wall_us: u64,
    /// Time of the monotonic clock, in nanoseconds.
    pub(crate) monotonic_ns: u64,
}

/// The wall-clock time without short jumps ahead. Safe to use from any thread.
#[derive(Debug)]
pub(crate) struct Timestamps {
    /// The wall-clock time at which the monotonic clock was 0, in microseconds since 1970.
    origin_us: AtomicI64,
    /// The monotonic time at which a jump ahead was first seen; 0 if there is none.
    ahead_since_ns: AtomicU64,
}

impl Timestamps {
    pub(crate) fn new(clock: &dyn Clock) -> Self {
        let origin_us = clock.wall_us() as i64 - micros(clock.monotonic_ns());
        Self { origin_us: AtomicI64::new(origin_us), ahead_since_ns: AtomicU64::new(0) }
    }

    /// Returns the current time.
    pub(crate) fn now(&self, clock: &dyn Clock) -> Now {
        let (wall_us, monotonic_ns) = (clock.wall_us(), clock.monotonic_ns());
        let expected_us = self.origin_us.load(Ordering::Relaxed) + micros(monotonic_ns);
        let ahead_us = wall_us as i64 - expected_us;
        let is_held = ahead_us > JUMP_US && !self.is_long_ahead(monotonic_ns);
        if is_held {
            return Now { wall_us: expected_us as u64, monotonic_ns };
        }
        if ahead_us.unsigned_abs() > FOLLOWED_US {
            self.origin_us.store(wall_us as i64 - micros(monotonic_ns), Ordering::Relaxed);
        }
        if self.ahead_since_ns.load(Ordering::Relaxed) != 0 {
            self.ahead_since_ns.store(0, Ordering::Relaxed);
        }
        Now { wall_us, monotonic_ns }
    }

    /// Returns whether the wall clock has been ahead for longer than a jump is held back.
    #[cold]
    fn is_long_ahead(&self, now_ns: u64) -> bool {
        let now_ns = now_ns.max(1);
        let since = &self.ahead_since_ns;
        match since.compare_exchange(0, now_ns, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => false,
            Err(since_ns) => now_ns.saturating_sub(since_ns) >= HELD_NS,
        }
    }
}

/// Returns the time of a partition at `now`. The partition's last batch has the timestamp `last_us`
/// and was appended at `last_ns` of the monotonic clock.
pub(crate) fn after(last_us: u64, last_ns: u64, now: Now) -> u64 {
    if now.wall_us > last_us {
        return now.wall_us;
    }
    let passed_us = now.monotonic_ns.saturating_sub(last_ns) / 1000;
    last_us.saturating_add((passed_us / 2).max(1))
}

fn micros(ns: u64) -> i64 {
    (ns / 1000) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_US: u64 = 1_000_000;
    const START_US: u64 = 1_700_000_000 * SECOND_US;

    /// A clock whose wall-clock time can be set.
    #[derive(Debug, Default)]
    struct SetClock {
        passed_us: AtomicU64,
        set_us: AtomicI64,
    }

    impl SetClock {
        fn pass(&self, seconds: u64) {
            self.passed_us.fetch_add(seconds * SECOND_US, Ordering::Relaxed);
        }

        fn set_by(&self, seconds: i64) {
            self.set_us.fetch_add(seconds * SECOND_US as i64, Ordering::Relaxed);
        }
    }

    impl Clock for SetClock {
        fn monotonic_ns(&self) -> u64 {
            self.passed_us.load(Ordering::Relaxed) * 1000
        }

        fn wall_us(&self) -> u64 {
            let passed_us = self.passed_us.load(Ordering::Relaxed);
            (START_US + passed_us).saturating_add_signed(self.set_us.load(Ordering::Relaxed))
        }

        fn sleep_until(&self, _: u64) {}
    }

    /// Returns the time in seconds since [`START_US`].
    fn seconds(timestamps: &Timestamps, clock: &SetClock) -> i64 {
        (timestamps.now(clock).wall_us as i64 - START_US as i64) / SECOND_US as i64
    }

    #[test]
    fn a_short_jump_ahead_is_not_followed() {
        let clock = SetClock::default();
        let timestamps = Timestamps::new(&clock);
        for _ in 0..3 {
            let before = seconds(&timestamps, &clock);
            clock.set_by(3600);
            assert_eq!(seconds(&timestamps, &clock), before);
            clock.pass(9);
            assert_eq!(seconds(&timestamps, &clock), before + 9);
            clock.set_by(-3600);
            assert_eq!(seconds(&timestamps, &clock), before + 9);
            clock.pass(5);
            assert_eq!(seconds(&timestamps, &clock), before + 14);
        }
    }

    #[test]
    fn a_lasting_jump_and_a_step_back_are_followed() {
        let clock = SetClock::default();
        let timestamps = Timestamps::new(&clock);
        clock.pass(1);
        clock.set_by(3600);
        assert_eq!(seconds(&timestamps, &clock), 1);
        clock.pass(10);
        assert_eq!(seconds(&timestamps, &clock), 3611);
        clock.pass(1);
        assert_eq!(seconds(&timestamps, &clock), 3612);
        clock.set_by(-3600);
        assert_eq!(seconds(&timestamps, &clock), 12);
    }

    #[test]
    fn small_corrections_are_followed_at_once() {
        let clock = SetClock::default();
        let timestamps = Timestamps::new(&clock);
        for _ in 0..100 {
            clock.set_us.fetch_add(900_000, Ordering::Relaxed);
            assert_eq!(timestamps.now(&clock).wall_us, clock.wall_us());
        }
    }

    /// A clock that is set back by an hour: the partition's time increases strictly, and equals the
    /// wall clock again after two hours.
    #[test]
    fn a_partition_catches_up_with_a_clock_that_was_set_back() {
        let clock = SetClock::default();
        let timestamps = Timestamps::new(&clock);
        let mut last = timestamps.now(&clock);
        clock.set_by(-3600);
        for second in 1..=7200 {
            clock.pass(1);
            let now = timestamps.now(&clock);
            let us = after(last.wall_us, last.monotonic_ns, now);
            assert!(us > last.wall_us);
            assert_eq!(us == now.wall_us, second == 7200, "second {second}");
            last = Now { wall_us: us, ..now };
            let burst = after(last.wall_us, last.monotonic_ns, now);
            assert_eq!(burst, us + 1);
        }
    }
}
