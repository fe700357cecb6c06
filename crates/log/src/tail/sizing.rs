//! Sizing of the cache of recent data, in the same way as the engine's block cache
//! ([`tailwater_io::sizing`]): the cache takes free memory and returns it under memory pressure.
//!
//! Only persisted chunks are evicted. The size of unpersisted chunks is bounded only by the hard
//! limit, which is fixed when the log is opened.

use std::sync::Arc;
use std::time::Instant;

use tailwater_io::kernel::Memory;
use tailwater_io::sizing::{GhostHits, LOOK, Sizing};

use super::ChunkPool;
use crate::sync::{Condvar, Mutex};

/// The automatic hard limit as a fraction of the memory available to the process: 1/LIMIT_PART.
const LIMIT_PART: u64 = 8;
/// Lowest and highest automatic hard limit, in bytes.
const LIMITS: [u64; 2] = [64 << 20, 1 << 30];
/// Automatic hard limit if the memory available to the process is unknown, in bytes.
const LIMIT_UNKNOWN: u64 = 256 << 20;
/// Initial target of the cache, in bytes.
const FIRST_TARGET: usize = 256 << 20;

/// Returns the hard limit of a log's tails, in bytes, for a process with `memory` bytes available.
pub(crate) fn automatic_limit(memory: Option<u64>) -> usize {
    let [least, most] = LIMITS;
    let limit = memory.map_or(LIMIT_UNKNOWN, |memory| (memory / LIMIT_PART).clamp(least, most));
    limit as usize
}

/// Sizes the cache in a separate thread until [`Self::end`].
#[derive(Debug, Default)]
pub(crate) struct Tuner {
    is_ended: Mutex<bool>,
    wake: Condvar,
}

impl Tuner {
    /// Repeatedly decides how much recent data the cache keeps.
    pub(crate) fn work(&self, tails: &Arc<ChunkPool>, memory: &Memory) {
        tails.set_target(FIRST_TARGET);
        let (mut sizing, mut decided, mut pause) = (Sizing::default(), Instant::now(), LOOK);
        loop {
            let is_ended = self.is_ended.lock();
            if *is_ended || *self.wake.wait_timeout(is_ended, pause) {
                return;
            }
            let elapsed = decided.elapsed();
            decided = Instant::now();
            let Some(left) = memory.left() else { continue };
            let target = tails.target();
            // Recent data is evicted by age alone, so there is no record of evicted blocks that are
            // read again.
            let ghosts = GhostHits::default();
            let next = sizing.next(target, tails.used(), left, ghosts, elapsed);
            pause = sizing.pause();
            if next != target {
                tails.set_target(next);
            }
        }
    }

    /// Ends [`Self::work`].
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
