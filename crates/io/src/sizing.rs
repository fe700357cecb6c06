//! Decides the capacity of a cache that sizes itself. Such caches are the engine's block cache and
//! the message log's cache of recent messages.
//!
//! The page cache uses free memory and gives it back automatically. A cache for direct I/O must do
//! both itself. A [`Sizing`] decides from the memory that is left, from how long tasks stall on
//! memory, and from the misses that a slightly larger cache would have avoided:
//!
//! - The capacity never exceeds the memory that nothing else uses, minus a reserve. Other processes
//!   and the rest of this one may allocate the reserve before the next decision.
//! - While tasks stall on memory, the cache shrinks, even if memory appears to be free.
//! - A full cache takes half of the free memory, as the page cache would.
//! - If no memory is free because the page cache holds it, the cache still grows as long as keys
//!   are inserted again shortly after their eviction.

use std::time::Duration;

use crate::kernel::MemoryLeft;

/// Normal interval between two decisions ([`Sizing::next`]) about the capacity of the cache.
pub const PAUSE: Duration = Duration::from_millis(100);
/// Interval between two decisions about the capacity while little memory is left. The interval is
/// short because other processes may quickly take that memory.
const SHORT_PAUSE: Duration = Duration::from_millis(20);
/// Lower bound on the capacity of the cache, in bytes.
const SMALLEST: usize = 4 << 20;
/// The reserve: memory that the cache leaves for everything else within the memory limit. It is
/// this fraction of the limit: 1/RESERVE_PART.
const RESERVE_PART: u64 = 16;
/// Lower bound on the reserve (see [`RESERVE_PART`]), in bytes.
const RESERVE_MIN: u64 = 16 << 20;
/// Share of time, as 1/STALL_PART, that tasks may stall on memory before the cache shrinks.
const STALL_PART: u64 = 20;
/// Pause after memory stalls made the cache shrink, so that the smaller capacity can take effect.
/// During the pause, the capacity changes only if it exceeds its upper bound
/// ([`AutoSizes::ceiling`]).
const REST: Duration = Duration::from_secs(2);
/// Dead band: if the ceiling drops below the capacity, the capacity follows only if the difference
/// exceeds this fraction of the ceiling: 1/DEAD_PART.
const DEAD_PART: usize = 32;
/// Size of one step, as a fraction 1/STEP_PART. Growth because of ghost hits adds this fraction of
/// the capacity. A reduction because of stalls removes this fraction of the used bytes.
const STEP_PART: usize = 8;
/// Minimum number of bytes by which the capacity grows at once.
const STEP_MIN: usize = 4 << 20;
/// The cache grows because of ghost hits if at least this share of the inserted keys, 1/NEAR_PART,
/// had been evicted shortly before.
const NEAR_PART: u64 = 50;
/// Minimum number of sampled inserts before the cache judges which fraction of their keys had been
/// evicted recently.
const ENOUGH: u64 = 8;

/// Cumulative counts of the keys inserted into a cache, over a sample of all keys. A ghost hit is
/// the insertion of a key that the cache evicted recently.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GhostHits {
    /// Number of sampled inserts whose key was evicted recently. A slightly larger cache would
    /// still have held these keys: one larger by a quarter of the capacity, but at least by 64 MiB.
    pub near: u64,
    /// Number of sampled inserts, whether or not their key was evicted recently.
    pub inserted: u64,
}

/// How often a cache's capacity was raised and lowered, and on what the last decision about the
/// capacity was based. Each call of [`Sizing::next`] is a decision.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AutoSizes {
    /// Upper bound on the cache's capacity, in bytes, as of the last call of [`Sizing::next`].
    pub ceiling: usize,
    /// Number of times that the cache's capacity was raised.
    pub grown: u64,
    /// Number of times that the cache's capacity was lowered.
    pub shrunk: u64,
    /// The ghost hits since the cache was created, as of the last call of [`Sizing::next`].
    pub ghosts: GhostHits,
}

/// Decides the capacity of a cache.
#[derive(Debug, Default)]
pub struct Sizing {
    sizes: AutoSizes,
    /// The counts of ghost hits when [`Self::would_gain`] last judged them.
    judged: GhostHits,
    stalled_us: Option<u64>,
    /// Time since the last check for tasks that stall on memory.
    unjudged: Duration,
    /// Time left of the pause [`REST`] after a reduction. Until the pause is over, the capacity
    /// changes only if it exceeds its upper bound.
    rest: Duration,
    /// Whether the available memory was less than twice the reserve in the last call of
    /// [`Self::next`].
    is_short: bool,
}

impl Sizing {
    /// Returns how often the capacity was raised and lowered, and on what the last decision was
    /// based.
    pub fn sizes(&self) -> AutoSizes {
        self.sizes
    }

    /// Returns the next capacity, in bytes, of a cache that holds `usage` bytes and has a capacity
    /// of `capacity` bytes. `elapsed` is the time since the last call. A cache that does not count
    /// ghost hits passes `GhostHits::default()`.
    pub fn next(
        &mut self,
        capacity: usize,
        usage: usize,
        left: MemoryLeft,
        ghosts: GhostHits,
        elapsed: Duration,
    ) -> usize {
        let reserve = (left.limit / RESERVE_PART).max(RESERVE_MIN);
        self.is_short = left.available < 2 * reserve as i64;
        let room = usage as i64 + left.available - reserve as i64;
        let ceiling = usize::try_from(room).unwrap_or(0).max(SMALLEST);
        (self.sizes.ceiling, self.sizes.ghosts) = (ceiling, ghosts);
        self.rest = self.rest.saturating_sub(elapsed);
        let is_stalled = self.is_stalled(left.stalled_us, elapsed);
        let would_gain = self.would_gain(ghosts);
        let used = capacity.min(usage);
        let is_full = used >= capacity - capacity / STEP_PART;
        let free = usize::try_from((left.free - reserve as i64) / 2).unwrap_or(0);
        let wanted = match is_stalled {
            _ if !self.rest.is_zero() => capacity,
            // Other processes may cause the stalls, so the cache keeps at least half of the
            // ceiling.
            true => (used - used / STEP_PART).max(ceiling / 2).min(capacity),
            false if is_full && free >= STEP_MIN => capacity + free,
            false if is_full && would_gain => capacity + (capacity / STEP_PART).max(STEP_MIN),
            false => capacity,
        };
        if is_stalled && self.rest.is_zero() {
            self.rest = REST;
        }
        let next = match wanted.clamp(SMALLEST, ceiling) {
            // The memory that is left fluctuates, so a ceiling slightly below the capacity changes
            // nothing.
            little if little < capacity && capacity - little <= ceiling / DEAD_PART => capacity,
            // The capacity exceeds its upper bound, the ceiling. The new capacity is the ceiling
            // minus half of the reserve, because other processes may continue to allocate.
            next if next < capacity && next == ceiling => {
                ceiling.saturating_sub(reserve as usize / 2).max(SMALLEST)
            }
            next => next,
        };
        self.sizes.grown += u64::from(next > capacity);
        self.sizes.shrunk += u64::from(next < capacity);
        next
    }

    /// Returns the time until [`Self::next`] should be called again.
    pub fn pause(&self) -> Duration {
        if self.is_short { SHORT_PAUSE } else { PAUSE }
    }

    /// Returns whether tasks stalled on memory for more than 1/STALL_PART of the time since this
    /// was last checked. `stalled_us` is the cumulative stall time, in microseconds.
    fn is_stalled(&mut self, stalled_us: Option<u64>, elapsed: Duration) -> bool {
        self.unjudged += elapsed;
        if self.unjudged < PAUSE {
            return false;
        }
        let elapsed = std::mem::take(&mut self.unjudged);
        let before = std::mem::replace(&mut self.stalled_us, stalled_us);
        let waited_us =
            stalled_us.zip(before).map_or(0, |(now, before)| now.saturating_sub(before));
        waited_us * STALL_PART > elapsed.as_micros() as u64
    }

    /// Returns whether the cache should grow because of ghost hits: whether at least 1/NEAR_PART of
    /// the sampled inserts since the last judgement were ghost hits. With fewer than `ENOUGH` such
    /// inserts, returns false, and the next call judges them too.
    fn would_gain(&mut self, ghosts: GhostHits) -> bool {
        let inserted = ghosts.inserted.saturating_sub(self.judged.inserted);
        if inserted < ENOUGH {
            return false;
        }
        let near = ghosts.near.saturating_sub(self.judged.near);
        self.judged = ghosts;
        near * NEAR_PART >= inserted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const CAPACITY: usize = 256 << 20;

    fn left(mib: i64) -> MemoryLeft {
        let available = mib * MIB as i64;
        MemoryLeft { limit: 1024 * MIB, available, free: 0, stalled_us: Some(0) }
    }

    fn next(sizing: &mut Sizing, left: MemoryLeft, near: u64) -> usize {
        let seen = sizing.judged;
        let ghosts = GhostHits { near: seen.near + near, inserted: seen.inserted + 100 };
        sizing.next(CAPACITY, CAPACITY, left, ghosts, PAUSE)
    }

    #[test]
    fn a_cache_grows_while_that_avoids_misses_and_memory_is_left() {
        let mut sizing = Sizing::default();
        assert_eq!(next(&mut sizing, left(512), 0), CAPACITY);
        assert_eq!(next(&mut sizing, left(512), 1), CAPACITY);
        assert_eq!(next(&mut sizing, left(512), 10), CAPACITY + CAPACITY / STEP_PART);
        // 74 MiB of memory are left, of which 64 MiB are the reserve. So the cache grows by 10 MiB.
        assert_eq!(next(&mut sizing, left(74), 10), CAPACITY + (10 << 20));
        assert_eq!((sizing.sizes().grown, sizing.sizes().shrunk), (2, 0));
        // A cache that is only half full does not grow, whatever its ghost hits.
        let ghosts = GhostHits { near: 1000, inserted: 2000 };
        let half = sizing.next(CAPACITY, CAPACITY / 2, left(512), ghosts, PAUSE);
        assert_eq!(half, CAPACITY);
    }

    #[test]
    fn a_full_cache_takes_half_of_the_free_memory() {
        let mut sizing = Sizing::default();
        let free = MemoryLeft { free: 464 << 20, ..left(512) };
        assert_eq!(next(&mut sizing, free, 0), CAPACITY + (200 << 20), "a reserve is left");
        let half_full = sizing.next(CAPACITY, CAPACITY / 2, free, GhostHits::default(), PAUSE);
        assert_eq!(half_full, CAPACITY);
        let little = MemoryLeft { free: 70 << 20, ..left(512) };
        assert_eq!(next(&mut sizing, little, 0), CAPACITY, "is not worth a change");
        // While tasks stall, the cache does not take free memory.
        let stalled = MemoryLeft { stalled_us: Some(90_000), ..free };
        assert!(next(&mut sizing, stalled, 0) <= CAPACITY);
    }

    #[test]
    fn a_cache_gives_back_memory_that_others_take_at_once() {
        let mut sizing = Sizing::default();
        // 4 MiB are left, which is 60 MiB less than the reserve of 64 MiB. The cache releases these
        // 60 MiB and half of the reserve.
        assert_eq!(next(&mut sizing, left(4), 0), CAPACITY - (92 << 20));
        // The limit drops to 128 MiB, of which others use 20 MiB. The reserve is then 16 MiB, so
        // the ceiling is 92 MiB. The cache shrinks to the ceiling minus half of the reserve.
        let lowered = MemoryLeft { limit: 128 * MIB, ..left(-148) };
        assert_eq!(next(&mut sizing, lowered, 10), 84 << 20);
        assert_eq!(sizing.next(SMALLEST, 0, left(0), GhostHits::default(), PAUSE), SMALLEST);
        assert_eq!(sizing.sizes().shrunk, 2);
    }

    #[test]
    fn memory_is_checked_more_often_when_little_is_left() {
        let mut sizing = Sizing::default();
        next(&mut sizing, left(128), 0);
        assert_eq!(sizing.pause(), PAUSE);
        next(&mut sizing, left(127), 0);
        assert_eq!(sizing.pause(), SHORT_PAUSE);
    }

    #[test]
    fn a_cache_shrinks_when_tasks_stall_on_memory() {
        let stalled = |us, mib| MemoryLeft { stalled_us: Some(us), ..left(mib) };
        let less = CAPACITY - CAPACITY / STEP_PART;
        let mut sizing = Sizing::default();
        assert_eq!(next(&mut sizing, stalled(1_000_000, 100), 0), CAPACITY, "that was long ago");
        assert_eq!(next(&mut sizing, stalled(1_004_000, 100), 0), CAPACITY);
        assert_eq!(next(&mut sizing, stalled(1_010_000, 100), 10), less);
        // Tasks still stall, but the capacity does not change during the pause after the last
        // reduction.
        assert_eq!(next(&mut sizing, stalled(1_020_000, 100), 10), CAPACITY);
        // This cache has less than half of the memory, so it is not the cause of the stalls and
        // does not shrink.
        let mut sizing = Sizing::default();
        next(&mut sizing, stalled(0, 512), 0);
        assert_eq!(next(&mut sizing, stalled(90_000, 512), 0), CAPACITY);
    }
}
