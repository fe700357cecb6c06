//! Chooses partitions for batches whose requests name no partition.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock};

use tailwater_log::{CatalogSnapshot, TopicId};

/// Distributes batches over the partitions of a topic in turn, if their requests name no partition.
#[derive(Debug, Default)]
pub(crate) struct Balancer {
    next: RwLock<HashMap<TopicId, AtomicUsize>>,
}

impl Balancer {
    /// Returns the index of the partition for the next batch of a topic, among `count` partitions.
    pub(crate) fn next(&self, topic: TopicId, count: usize) -> usize {
        let turn = |counter: &AtomicUsize| counter.fetch_add(1, Ordering::Relaxed) % count.max(1);
        let counters = self.next.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(counter) = counters.get(&topic) {
            return turn(counter);
        }
        drop(counters);
        let mut counters = self.next.write().unwrap_or_else(PoisonError::into_inner);
        turn(counters.entry(topic).or_default())
    }

    /// Removes the state of topics that are no longer in the catalog.
    pub(crate) fn retain(&self, catalog: &CatalogSnapshot) {
        let mut counters = self.next.write().unwrap_or_else(PoisonError::into_inner);
        counters.retain(|topic, _| catalog.topic(*topic).is_some());
    }
}
