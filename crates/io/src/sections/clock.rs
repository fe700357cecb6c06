//! The monotonic time for boundaries of sections, from the processor's counter of cycles.
//!
//! A reading of the clock waits until all earlier instructions have ended. A reading of the counter
//! (TSC) does not, so it costs a fast operation less. Its rate is measured once, against the clock,
//! and each thread reads the clock once a millisecond, so an error of the rate does not add up.
//!
//! The counter is used if the kernel's clock uses it: then the kernel has found that it does not
//! stop, and is the same on all processors.
#![expect(unsafe_code, reason = "reads a register")]

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::monotonic::monotonic_ns;

/// Time after a reading of the clock, in nanoseconds, for which the counter is used.
const COUNTED_NS: u64 = 1_000_000;

/// Time between the readings that measure the counter's rate, in nanoseconds.
const MEASURED_NS: u64 = 50_000_000;

/// Ticks that a reading of the clock takes, unless it is interrupted.
const READING_TICKS: u64 = 2_000;

/// Nanoseconds of a tick, times 2^32; 0 until it has been measured.
static TICK: AtomicU64 = AtomicU64::new(0);

/// A thread's clock.
pub(super) struct Clock {
    last: Cell<Reading>,
    /// Number of ticks after the last reading for which the counter is used.
    counted_ticks: Cell<u64>,
}

/// The clock and the counter at about the same time.
#[derive(Clone, Copy)]
struct Reading {
    ns: u64,
    ticks: u64,
}

impl Clock {
    pub(super) const fn new() -> Self {
        Self { last: Cell::new(Reading { ns: 0, ticks: 0 }), counted_ticks: Cell::new(0) }
    }

    /// Returns the time of [`monotonic_ns`]. May decrease by the error of the counter's rate.
    #[inline]
    pub(super) fn now_ns(&self) -> u64 {
        let last = self.last.get();
        let passed = ticks().wrapping_sub(last.ticks);
        match passed < self.counted_ticks.get() {
            true => last.ns + ((passed * TICK.load(Relaxed)) >> 32),
            false => self.read(),
        }
    }

    #[cold]
    fn read(&self) -> u64 {
        let (before, ns, after) = (ticks(), monotonic_ns(), ticks());
        let reading = Reading { ns, ticks: before };
        let is_exact = after.wrapping_sub(before) < READING_TICKS;
        let tick = is_exact.then(|| reading.measure_tick()).flatten();
        self.counted_ticks.set(tick.map_or(0, |tick| (COUNTED_NS << 32) / tick));
        self.last.set(reading);
        ns
    }
}

impl Reading {
    /// Returns [`TICK`]. Measures it, if some time has passed since the first call in this process.
    fn measure_tick(self) -> Option<u64> {
        static FIRST: OnceLock<Option<Reading>> = OnceLock::new();
        let known = TICK.load(Relaxed);
        if known > 0 {
            return Some(known);
        }
        let first = (*FIRST.get_or_init(|| is_counter_sound().then_some(self)))?;
        let (ns, ticks) = (self.ns.checked_sub(first.ns)?, self.ticks.checked_sub(first.ticks)?);
        if ns < MEASURED_NS {
            return None;
        }
        let tick = (u128::from(ns) << 32).checked_div(u128::from(ticks))?;
        let tick = u64::try_from(tick).ok().filter(|tick| (1..1 << 40).contains(tick))?;
        TICK.store(tick, Relaxed);
        Some(tick)
    }
}

/// Returns whether the kernel's clock uses the counter.
#[expect(clippy::disallowed_methods, reason = "the kernel's files are not a database's")]
fn is_counter_sound() -> bool {
    let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    cfg!(target_arch = "x86_64")
        && std::fs::read_to_string(source).is_ok_and(|name| name.trim() == "tsc")
}

/// Returns the processor's counter.
#[cfg(target_arch = "x86_64")]
#[inline]
fn ticks() -> u64 {
    // SAFETY: every processor of this architecture has the instruction.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Returns 0, which is not used.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn ticks() -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tailwater_testkit::filesystem::say;

    use super::*;

    /// The counter's time lies between two readings of the clock, except for the error of its rate.
    #[test]
    fn the_counter_keeps_the_time_of_the_clock() {
        let (clock, error_ns) = (Clock::new(), COUNTED_NS / 100);
        let (mut counted, end) = (0, monotonic_ns() + 4 * MEASURED_NS);
        while monotonic_ns() < end {
            let (before, now, after) = (monotonic_ns(), clock.now_ns(), monotonic_ns());
            assert!(now + error_ns >= before && now <= after + error_ns, "{before} {now} {after}");
            counted += u64::from(clock.last.get().ns < before);
        }
        // A pause is longer than the counter is used for.
        std::thread::sleep(Duration::from_nanos(3 * COUNTED_NS));
        let (before, now) = (monotonic_ns(), clock.now_ns());
        assert!(now + error_ns >= before, "{now} before {before}");
        match is_counter_sound() {
            true => assert!(counted > 0, "the counter was not used"),
            false => say("skipped: the kernel's clock does not use the processor's counter"),
        }
    }

    #[test]
    fn an_unknown_rate_is_not_used() {
        let clock = Clock::new();
        clock.last.set(Reading { ns: u64::MAX / 2, ticks: ticks() });
        assert!(clock.now_ns() < u64::MAX / 2, "the clock is read");
    }
}
