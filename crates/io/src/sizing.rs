//! How large a cache is to be that knows its limit.
//!
//! Whoever reads past the page cache gives up what that one does by itself: to take what is free
//! and to give it back. So from time to time it is looked at what memory is left, and at what the
//! cache would have had if it were a little larger:
//!
//! - The cache is never larger than what is left besides everything else, less a reserve for what
//!   others may take before the next look.
//! - Where tasks wait for memory it gives some back, whatever the figures say.
//! - Where it is full it takes half of what nobody has, as the page cache would.
//! - Where the page cache has that, it grows while keys that it let go of shortly before come back.

use std::time::Duration;

use tailwater_io::kernel::MemoryLeft;

use super::ghosts::{GhostHits, SAMPLED};

/// How often it is looked.
pub(crate) const LOOK: Duration = Duration::from_millis(100);
/// How often where little is left: others may take that within a moment.
const CLOSE_LOOK: Duration = Duration::from_millis(20);
/// The cache is at least so large, in bytes.
const SMALLEST: usize = 4 << 20;
/// One part in so many of the limit is left to others.
const RESERVE_PART: u64 = 16;
/// The reserve is at least so large, in bytes.
const RESERVE_MIN: u64 = 16 << 20;
/// Tasks that wait for memory for one part in so many of the time are too many.
const STALL_PART: u64 = 20;
/// After it gave back because tasks waited it rests for so long.
const REST: Duration = Duration::from_secs(2);
/// It does not give back less than one part in so many of what it could have.
const DEAD_PART: usize = 32;
/// By one part in so many of itself it grows or gives back at a time.
const STEP_PART: usize = 8;
/// It grows by so much at least, in bytes.
const STEP_MIN: usize = 4 << 20;
/// One in so many keys that come in must be one that was let go of shortly before.
const NEAR_PART: u64 = 50;
/// So many sampled keys must have come in for their share to say anything.
const ENOUGH: u64 = 8 * 32 / SAMPLED;

/// What was decided so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AutoSizes {
    /// How large the cache could be at the last look, in bytes.
    pub ceiling: usize,
    /// How often it grew.
    pub grown: u64,
    /// How often it gave something back.
    pub shrunk: u64,
    /// Sampled keys that came in shortly after they had been let go of, and all that came in.
    pub ghosts: GhostHits,
}

/// Decides how large the cache is to be.
#[derive(Debug, Default)]
pub(crate) struct Sizing {
    sizes: AutoSizes,
    /// The ghosts that were judged.
    judged: GhostHits,
    stalled_us: Option<u64>,
    /// For how long stalls have not been judged.
    unjudged: Duration,
    /// For how long it neither grows nor gives back for the sake of tasks that wait: what it did
    /// last for them has to show first.
    rest: Duration,
    /// Whether there was less left than twice the reserve.
    is_short: bool,
}

impl Sizing {
    /// What was decided so far.
    pub(crate) fn sizes(&self) -> AutoSizes {
        self.sizes
    }

    /// How large a cache is to be that has `capacity` bytes and uses `usage`; `elapsed` has gone by
    /// since the last look.
    pub(crate) fn next(
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
            // Others may be why they wait; so not down to nothing.
            true => (used - used / STEP_PART).max(ceiling / 2).min(capacity),
            false if is_full && free >= STEP_MIN => capacity + free,
            false if is_full && would_gain => capacity + (capacity / STEP_PART).max(STEP_MIN),
            false => capacity,
        };
        if is_stalled && self.rest.is_zero() {
            self.rest = REST;
        }
        let next = match wanted.clamp(SMALLEST, ceiling) {
            // What is left goes up and down all the time.
            little if little < capacity && capacity - little <= ceiling / DEAD_PART => capacity,
            // Who takes goes on taking, while this is given back.
            next if next < capacity && next == ceiling => {
                ceiling.saturating_sub(reserve as usize / 2).max(SMALLEST)
            }
            next => next,
        };
        self.sizes.grown += u64::from(next > capacity);
        self.sizes.shrunk += u64::from(next < capacity);
        next
    }

    /// For how long it need not be looked again.
    pub(crate) fn pause(&self) -> Duration {
        if self.is_short { CLOSE_LOOK } else { LOOK }
    }

    /// Whether tasks waited for memory for too much of the time.
    fn is_stalled(&mut self, stalled_us: Option<u64>, elapsed: Duration) -> bool {
        self.unjudged += elapsed;
        if self.unjudged < LOOK {
            return false;
        }
        let elapsed = std::mem::take(&mut self.unjudged);
        let before = std::mem::replace(&mut self.stalled_us, stalled_us);
        let waited_us =
            stalled_us.zip(before).map_or(0, |(now, before)| now.saturating_sub(before));
        waited_us * STALL_PART > elapsed.as_micros() as u64
    }

    /// Whether a cache a little larger would have had enough of what came in since it was judged
    /// last.
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
        sizing.next(CAPACITY, CAPACITY, left, ghosts, LOOK)
    }

    #[test]
    fn it_grows_while_that_would_spare_misses_and_there_is_room() {
        let mut sizing = Sizing::default();
        assert_eq!(next(&mut sizing, left(512), 0), CAPACITY);
        assert_eq!(next(&mut sizing, left(512), 1), CAPACITY);
        assert_eq!(next(&mut sizing, left(512), 10), CAPACITY + CAPACITY / STEP_PART);
        // What is left, less a reserve of 64 MiB.
        assert_eq!(next(&mut sizing, left(74), 10), CAPACITY + (10 << 20));
        assert_eq!((sizing.sizes().grown, sizing.sizes().shrunk), (2, 0));
        // One that is not full needs no more room.
        let ghosts = GhostHits { near: 1000, inserted: 2000 };
        let half = sizing.next(CAPACITY, CAPACITY / 2, left(512), ghosts, LOOK);
        assert_eq!(half, CAPACITY);
    }

    #[test]
    fn it_takes_half_of_what_nobody_has_where_it_is_full() {
        let mut sizing = Sizing::default();
        let free = MemoryLeft { free: 464 << 20, ..left(512) };
        assert_eq!(next(&mut sizing, free, 0), CAPACITY + (200 << 20), "a reserve is left");
        let half_full = sizing.next(CAPACITY, CAPACITY / 2, free, GhostHits::default(), LOOK);
        assert_eq!(half_full, CAPACITY);
        let little = MemoryLeft { free: 70 << 20, ..left(512) };
        assert_eq!(next(&mut sizing, little, 0), CAPACITY, "is not worth a change");
        // While tasks wait nothing is free.
        let stalled = MemoryLeft { stalled_us: Some(90_000), ..free };
        assert!(next(&mut sizing, stalled, 0) <= CAPACITY);
    }

    #[test]
    fn it_gives_back_what_others_take_at_once() {
        let mut sizing = Sizing::default();
        // 60 MiB, and half of the reserve besides.
        assert_eq!(next(&mut sizing, left(4), 0), CAPACITY - (92 << 20));
        // The limit was lowered to 128 MiB, of which 20 MiB are others'.
        let lowered = MemoryLeft { limit: 128 * MIB, ..left(-148) };
        assert_eq!(next(&mut sizing, lowered, 10), 84 << 20);
        assert_eq!(sizing.next(SMALLEST, 0, left(0), GhostHits::default(), LOOK), SMALLEST);
        assert_eq!(sizing.sizes().shrunk, 2);
    }

    #[test]
    fn it_is_looked_more_often_where_little_is_left() {
        let mut sizing = Sizing::default();
        next(&mut sizing, left(128), 0);
        assert_eq!(sizing.pause(), LOOK);
        next(&mut sizing, left(127), 0);
        assert_eq!(sizing.pause(), CLOSE_LOOK);
    }

    #[test]
    fn it_gives_back_where_tasks_wait_for_memory() {
        let stalled = |us, mib| MemoryLeft { stalled_us: Some(us), ..left(mib) };
        let less = CAPACITY - CAPACITY / STEP_PART;
        let mut sizing = Sizing::default();
        assert_eq!(next(&mut sizing, stalled(1_000_000, 100), 0), CAPACITY, "that was long ago");
        assert_eq!(next(&mut sizing, stalled(1_004_000, 100), 0), CAPACITY);
        assert_eq!(next(&mut sizing, stalled(1_010_000, 100), 10), less);
        // It has to show first.
        assert_eq!(next(&mut sizing, stalled(1_020_000, 100), 10), CAPACITY);
        // Where it has less than half of what there is, it is not for its sake that they wait.
        let mut sizing = Sizing::default();
        next(&mut sizing, stalled(0, 512), 0);
        assert_eq!(next(&mut sizing, stalled(90_000, 512), 0), CAPACITY);
    }
}
