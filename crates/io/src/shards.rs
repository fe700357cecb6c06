//! Shards of counters that many threads increment.
//!
//! A counter is divided into parts, one for each shard, that are on different cache lines. A thread
//! always uses the same shard, so that threads on different cores seldom write to the same cache
//! line.

/// Number of shards of a counter.
pub(crate) const SHARDS: usize = 4;

/// Returns the number of the shard that this thread increments. Threads are assigned to shards in
/// turn.
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
