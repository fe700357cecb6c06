//! Sizes the cache of recent data, in the same way as the engine's block cache
//! ([`tailwater_io::sizing`]): it takes free memory, and gives it back under memory pressure.
//!
//! Only persisted chunks can be evicted. Unpersisted chunks are bounded only by the hard limit,
//! which is fixed when the log is opened.

use std::sync::Arc;
use std::time::Instant;

use tailwater_io::kernel::Memory;
use tailwater_io::sizing::{GhostHits, PAUSE, Sizing};

use super::ChunkPool;
use crate::sync::{Condvar, Mutex};

/// The automatic hard limit on the memory of a log's tails is 1/LIMIT_PART of the process's memory
/// limit.
const LIMIT_PART: u64 = 8;
/// Minimum and maximum of the automatic hard limit on the memory of a log's tails, in bytes.
const LIMITS: [u64; 2] = [64 << 20, 1 << 30];
/// Automatic hard limit on the memory of a log's tails if the process's memory limit is unknown, in
/// bytes.
const LIMIT_UNKNOWN: u64 = 256 << 20;
/// Target size of the cache when the log is opened, in bytes.
const FIRST_TARGET: usize = 256 << 20;

/// Returns the hard limit on the memory of a log's tails (its newest messages) for a log whose
/// options set no limit. `memory` is the process's memory limit, if known. Both are in bytes.
pub(crate) fn automatic_limit(memory: Option<u64>) -> usize {
    let [least, most] = LIMITS;
    let limit = memory.map_or(LIMIT_UNKNOWN, |memory| (memory / LIMIT_PART).clamp(least, most));
    limit as usize
}

/// Resizes the cache of recent messages, in a thread of its own.
#[derive(Debug, Default)]
pub(crate) struct Tuner {
    is_ended: Mutex<bool>,
    wake: Condvar,
}

impl Tuner {
    /// Runs the thread: decides at intervals how large the cache may be, until [`Self::end`] is
    /// called.
    pub(crate) fn work(&self, tails: &Arc<ChunkPool>, memory: &Memory) {
        tails.set_target(FIRST_TARGET);
        let (mut sizing, mut decided, mut pause) = (Sizing::default(), Instant::now(), PAUSE);
        loop {
            let is_ended = self.is_ended.lock();
            if *is_ended || *self.wake.wait_timeout(is_ended, pause) {
                return;
            }
            let elapsed = decided.elapsed();
            decided = Instant::now();
            let Some(left) = memory.left() else { continue };
            let target = tails.target();
            // The cache evicts by age alone and does not notice when evicted data is read again, so
            // it has no ghost hits.
            let ghosts = GhostHits::default();
            let next = sizing.next(target, tails.used(), left, ghosts, elapsed);
            pause = sizing.pause();
            if next != target {
                tails.set_target(next);
            }
        }
    }

    /// Makes [`Self::work`] return.
    pub(crate) fn end(&self) {
        *self.is_ended.lock() = true;
        self.wake.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_automatic_limit_is_an_eighth_of_the_memory_within_bounds() {
        assert_eq!(automatic_limit(Some(2 << 30)), 256 << 20);
        assert_eq!(automatic_limit(Some(128 << 20)), 64 << 20);
        assert_eq!(automatic_limit(Some(1 << 40)), 1 << 30);
        assert_eq!(automatic_limit(None), 256 << 20);
    }
}
