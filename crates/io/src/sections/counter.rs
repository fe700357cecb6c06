//! The time for boundaries of sections, from the processor's counter of cycles (TSC).
//!
//! A reading of the clock waits until all earlier instructions have ended. A reading of the counter
//! does not, so it costs a fast operation less. Each thread reads the clock once a millisecond, and
//! measures the counter's rate between two of these readings. So an error, such as that after the
//! machine was suspended, lasts for a few milliseconds.
//!
//! The counter is used if the kernel's clock uses it when it is first needed: then the kernel has
//! found that it does not stop, and that it is the same on all processors.

use std::cell::Cell;
use std::ops::Range;
use std::sync::LazyLock;

use crate::monotonic::monotonic_ns;

/// Time after a reading of the clock, in nanoseconds, for which the counter is used.
const COUNTED_NS: u64 = 1_000_000;

/// Time between two readings of the clock, in nanoseconds, that measure the counter's rate.
const MEASURED_NS: Range<u64> = 500_000..100_000_000;

/// Plausible durations of a tick, in nanoseconds times 2^32: an eighth of a nanosecond to eight.
const PLAUSIBLE_TICK: Range<u64> = 1 << 29..1 << 35;

/// Number of ticks from which on a reading of the clock counts as interrupted.
const INTERRUPTED_TICKS: u64 = 2_000;

/// The time of a thread.
pub(super) struct Counter {
    last: Cell<Reading>,
    /// The duration of a tick, in nanoseconds times 2^32; 0 if it is unknown.
    tick: Cell<u64>,
    /// Number of ticks after the last reading for which the counter is used.
    counted_ticks: Cell<u64>,
}

/// The clock and the counter at about the same time.
#[derive(Debug, Clone, Copy)]
struct Reading {
    ns: u64,
    ticks: u64,
}

impl Reading {
    /// Reads both; `None` if the thread was interrupted in between.
    fn take() -> Option<Self> {
        let (ticks, ns) = (read_ticks(), monotonic_ns());
        (read_ticks().wrapping_sub(ticks) < INTERRUPTED_TICKS).then_some(Self { ns, ticks })
    }

    /// Returns the duration of a tick between this reading and a later one, in nanoseconds times
    /// 2^32; `None` if the time between them is not in [`MEASURED_NS`], or the result is
    /// implausible.
    fn tick_until(self, later: Self) -> Option<u64> {
        let (ns, ticks) = (later.ns.checked_sub(self.ns)?, later.ticks.checked_sub(self.ticks)?);
        let tick = MEASURED_NS.contains(&ns).then(|| (ns << 32).checked_div(ticks))??;
        PLAUSIBLE_TICK.contains(&tick).then_some(tick)
    }
}

impl Counter {
    pub(super) const fn new() -> Self {
        Self {
            last: Cell::new(Reading { ns: 0, ticks: 0 }),
            tick: Cell::new(0),
            counted_ticks: Cell::new(0),
        }
    }

    /// Returns the time of [`monotonic_ns`]. May decrease by the error of the counter's rate.
    #[inline]
    pub(super) fn now_ns(&self) -> u64 {
        let counted_ticks = self.counted_ticks.get();
        // Otherwise the counter may not be readable.
        if counted_ticks > 0 {
            let last = self.last.get();
            let passed = read_ticks().wrapping_sub(last.ticks);
            if passed < counted_ticks {
                return last.ns + ((passed * self.tick.get()) >> 32);
            }
        }
        self.read_clock()
    }

    #[cold]
    fn read_clock(&self) -> u64 {
        self.counted_ticks.set(0);
        let reading = if is_sound() { Reading::take() } else { None };
        let Some(reading) = reading else { return monotonic_ns() };
        let last = self.last.get();
        match last.tick_until(reading).unwrap_or(self.tick.get()) {
            // Too early to measure: the next reading is compared with the last one, too.
            0 if reading.ns.saturating_sub(last.ns) < MEASURED_NS.start => {}
            0 => self.last.set(reading),
            tick => {
                self.last.set(reading);
                self.tick.set(tick);
                self.counted_ticks.set((COUNTED_NS << 32) / tick);
            }
        }
        reading.ns
    }
}

/// Returns whether the kernel's clock used the counter when this was first called.
#[expect(clippy::disallowed_methods, reason = "the kernel's files are not a database's")]
fn is_sound() -> bool {
    static IS_SOUND: LazyLock<bool> = LazyLock::new(|| {
        let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        cfg!(target_arch = "x86_64")
            && std::fs::read_to_string(source).is_ok_and(|name| name.trim() == "tsc")
    });
    *IS_SOUND
}

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "reads a register")]
#[inline]
fn read_ticks() -> u64 {
    // SAFETY: every processor of this architecture has the instruction, and the process may use it,
    // because its clock does.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn read_ticks() -> u64 {
    unreachable!("the counter is not sound")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tailwater_testkit::filesystem::say;

    use super::*;

    /// The counter's time lies between two readings of the clock, except for the error of its rate.
    #[test]
    fn the_counter_keeps_the_time_of_the_clock() {
        let (counter, error_ns) = (Counter::new(), COUNTED_NS / 100);
        let (mut counted, end) = (0, monotonic_ns() + 50 * COUNTED_NS);
        while monotonic_ns() < end {
            let (before, now, after) = (monotonic_ns(), counter.now_ns(), monotonic_ns());
            assert!(now + error_ns >= before && now <= after + error_ns, "{before} {now} {after}");
            if counter.counted_ticks.get() > 0 {
                assert!(now - counter.last.get().ns <= COUNTED_NS + error_ns, "{now}");
                counted += u64::from(counter.last.get().ns < before);
            }
        }
        match is_sound() {
            true => assert!(counted > 0, "the counter was not used"),
            false => say("skipped: the kernel's clock does not use the processor's counter"),
        }
        // The pause is longer than the counter is used for.
        std::thread::sleep(Duration::from_nanos(2 * COUNTED_NS));
        let (before, now) = (monotonic_ns(), counter.now_ns());
        assert!(now >= before, "{now} before {before}");
        let last = counter.last.get().ns;
        assert!(last >= before || counter.counted_ticks.get() == 0, "{last} before {before}");
    }

    #[test]
    fn only_plausible_rates_are_measured() {
        let first = Reading { ns: 1_000, ticks: 5_000_000 };
        let tick =
            |ns, ticks| first.tick_until(Reading { ns: first.ns + ns, ticks: first.ticks + ticks });
        assert_eq!(tick(1_000_000, 2_000_000), Some(1 << 31));
        assert_eq!(tick(1_000_000, 500_000), Some(1 << 33));
        assert_eq!(tick(100_000, 200_000), None, "too early");
        assert_eq!(tick(200_000_000, 400_000_000), None, "too late");
        assert_eq!(tick(1_000_000, 0), None, "stopped");
        assert_eq!(tick(1_000_000, 20_000_000), None, "the machine was suspended");
        assert_eq!(tick(50_000_000, 2_000_000), None, "slower than any processor");
        let earlier = Reading { ticks: 0, ..first };
        assert_eq!(first.tick_until(earlier), None, "backwards");
    }

    #[test]
    fn the_clock_is_read_where_the_counter_cannot_be_used() {
        let (counter, ns) = (Counter::new(), u64::MAX / 2);
        // The counter was reset, or is that of another processor.
        counter.last.set(Reading { ns, ticks: u64::MAX });
        counter.tick.set(1 << 32);
        counter.counted_ticks.set(1_000_000);
        assert!(!is_sound() || counter.now_ns() < ns);
    }
}
