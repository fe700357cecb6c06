//! The shards of counters that many threads increment.
//!
//! A counter has one part per shard, on cache lines of its own. A thread always uses the same
//! shard, so that cores that count concurrently seldom contend for a cache line.

/// Number of shards of a counter.
pub(crate) const SHARDS: usize = 4;

/// Returns the shard that this thread counts in: threads are assigned round-robin.
pub(crate) fn shard_of_this_thread() -> usize {
    crate::thread::ordinal() % SHARDS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_spread_over_shards() {
        let shards: std::collections::BTreeSet<usize> = (0..SHARDS)
            .map(|_| std::thread::scope(|scope| scope.spawn(shard_of_this_thread).join().unwrap()))
            .collect();
        assert!(shards.len() > 1, "{shards:?}");
    }
}
