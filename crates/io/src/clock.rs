//! The source of time.
//!
//! All code reads the time and sleeps through a [`Clock`], so that tests can control the time.

use std::fmt::{self, Debug};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(crate) use crate::monotonic::monotonic_ns;
use crate::sync::{Condvar, Mutex};

/// A source of time. Safe to use from any thread.
pub trait Clock: Debug + Send + Sync + 'static {
    /// Returns the nanoseconds since an arbitrary but fixed point in time. Never decreases.
    fn monotonic_ns(&self) -> u64;

    /// Returns the nanoseconds since `start_ns`, an earlier result of [`Self::monotonic_ns`].
    /// Returns 0 if `start_ns` is in the future.
    fn since_ns(&self, start_ns: u64) -> u64 {
        self.monotonic_ns().saturating_sub(start_ns)
    }

    /// Like [`Self::monotonic_ns`], but up to a few milliseconds late, and less expensive. Its
    /// fixed point in time may be another one, so its results compare only with each other.
    fn coarse_monotonic_ns(&self) -> u64 {
        self.monotonic_ns()
    }

    /// Returns the wall-clock time in microseconds since 1970 in UTC. It may jump forwards or
    /// backwards.
    fn wall_us(&self) -> u64;

    /// Waits until [`Self::monotonic_ns`] reaches `deadline_ns`. Returns immediately if it already
    /// has.
    fn sleep_until(&self, deadline_ns: u64);
}

/// The system's time.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn monotonic_ns(&self) -> u64 {
        monotonic_ns()
    }

    fn coarse_monotonic_ns(&self) -> u64 {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
        time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the only source of time")]
    fn wall_us(&self) -> u64 {
        // If the system's time is before 1970, returns 0.
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
    }

    fn sleep_until(&self, deadline_ns: u64) {
        let now = monotonic_ns();
        if deadline_ns > now {
            std::thread::sleep(Duration::from_nanos(deadline_ns - now));
        }
    }
}

/// A clock for tests, whose time changes only through [`Self::advance`].
#[derive(Debug, Default)]
pub struct ManualClock {
    time: Mutex<ManualTime>,
    moved: Condvar,
}

#[derive(Debug, Default)]
struct ManualTime {
    monotonic_ns: u64,
    wall_ns: u64,
    sleepers: usize,
}

impl ManualClock {
    /// Creates a clock whose wall-clock time begins at `wall_us` microseconds since 1970 and whose
    /// monotonic time begins at 0.
    pub fn new(wall_us: u64) -> Self {
        let time = ManualTime { wall_ns: wall_us * 1000, ..ManualTime::default() };
        Self { time: Mutex::new(time), moved: Condvar::new() }
    }

    /// Advances the wall-clock time and the monotonic time by `duration_ns`. Wakes the threads that
    /// sleep until a time that has now been reached.
    pub fn advance(&self, duration_ns: u64) {
        let mut time = self.time.lock();
        time.monotonic_ns += duration_ns;
        time.wall_ns += duration_ns;
        self.moved.notify_all();
    }

    /// Waits until at least `count` threads are inside [`Clock::sleep_until`], so that a test
    /// advances the time only when the other threads are asleep.
    pub fn wait_for_sleepers(&self, count: usize) {
        let mut time = self.time.lock();
        while time.sleepers < count {
            time = self.moved.wait(time);
        }
    }
}

impl Clock for ManualClock {
    fn monotonic_ns(&self) -> u64 {
        self.time.lock().monotonic_ns
    }

    fn wall_us(&self) -> u64 {
        self.time.lock().wall_ns / 1000
    }

    fn sleep_until(&self, deadline_ns: u64) {
        let mut time = self.time.lock();
        if time.monotonic_ns >= deadline_ns {
            return;
        }
        time.sleepers += 1;
        self.moved.notify_all();
        while time.monotonic_ns < deadline_ns {
            time = self.moved.wait(time);
        }
        time.sleepers -= 1;
    }
}

/// A time in microseconds since 1970. It is displayed in UTC, as `2026/01/31-23:59:59.000000`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Utc(pub u64);

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, micros) = (self.0 / 1_000_000, self.0 % 1_000_000);
        let (days, second) = (seconds / 86_400, seconds % 86_400);
        let (year, month, day) = civil_from_days(days);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{year}/{month:02}/{day:02}-{hour:02}:{minute:02}:{second:02}.{micros:06}")
    }
}

/// Returns the year, month and day of the day that is `days` days after 1970-01-01, in the
/// proleptic Gregorian calendar.
fn civil_from_days(days: u64) -> (u64, u64, u64) {
    // From here on, days are counted from 0000-03-01, so that a leap day is the last day of its
    // year. 400 years have 146,097 days.
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_in_utc() {
        assert_eq!(Utc(0).to_string(), "1970/01/01-00:00:00.000000");
        assert_eq!(Utc(951_782_399_999_999).to_string(), "2000/02/28-23:59:59.999999");
        assert_eq!(Utc(951_782_400_000_000).to_string(), "2000/02/29-00:00:00.000000");
        assert_eq!(Utc(4_107_542_399_000_001).to_string(), "2100/02/28-23:59:59.000001");
        assert_eq!(Utc(4_107_542_400_000_000).to_string(), "2100/03/01-00:00:00.000000");
    }

    #[test]
    fn the_system_clock_moves_and_sleeps() {
        let clock = SystemClock;
        let before = clock.monotonic_ns();
        clock.sleep_until(before + 2_000_000);
        assert!(clock.monotonic_ns() >= before + 2_000_000);
        assert!(clock.wall_us() > 1_700_000_000_000_000, "this is after 2023");
        clock.sleep_until(0);
    }

    #[test]
    fn a_manual_clock_wakes_due_sleepers() {
        let clock = ManualClock::new(5);
        assert_eq!((clock.monotonic_ns(), clock.wall_us()), (0, 5));
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| clock.sleep_until(1000));
            clock.wait_for_sleepers(1);
            clock.advance(999);
            assert!(!sleeper.is_finished());
            clock.advance(1001);
        });
        assert_eq!((clock.monotonic_ns(), clock.wall_us()), (2000, 7));
    }
}
