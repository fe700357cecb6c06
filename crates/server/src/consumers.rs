//! Limits the number of consumers that have a stored offset in a partition.
//!
//! A client may use any consumer name, and the offset of a consumer is kept until it is deleted.
//! The limit keeps clients from filling the memory with offsets of new names. Groups do not count
//! towards this limit, because there is a separate limit on groups.

use std::collections::HashMap;

use tailwater_io::sync::Mutex;
use tailwater_log::{CatalogSnapshot, Consumer, Log, PartitionId, Ticket};

use crate::status::Status;

/// Limits the number of consumers that have a stored offset in a partition. Contains the limit,
/// which is the same for all partitions, and the current number in each partition.
#[derive(Debug)]
pub(crate) struct Consumers {
    /// Maximum number of consumers with a stored offset in one partition.
    consumers_max: usize,
    /// Number of consumers with a stored offset in each partition. A partition gets an entry when a
    /// new consumer stores an offset in it and no entry exists. At that time, the partition's
    /// offsets in the log are counted. Locked while a consumer is added or removed.
    counts: Mutex<HashMap<PartitionId, Count>>,
}

#[derive(Debug)]
struct Count {
    /// Incarnation of the partition in which the consumers were counted. A purge begins a new
    /// incarnation without consumers.
    incarnation: u64,
    consumers: usize,
}

impl Consumers {
    /// Creates a limit of `consumers_max` consumers in each partition.
    pub(crate) fn new(consumers_max: usize) -> Self {
        Self { consumers_max, counts: Mutex::default() }
    }

    /// Calls `store`, which stores a consumer's offset, if the limit allows it.
    ///
    /// # Errors
    /// Too many consumer offsets, if the consumer is new and the limit is reached; partition not
    /// found; errors from `store`.
    pub(crate) fn store(
        &self,
        log: &Log,
        id: PartitionId,
        consumer: Consumer,
        store: impl FnOnce() -> Result<Ticket, Status>,
    ) -> Result<Ticket, Status> {
        let is_known = || log.offset(id, consumer).map(|offset| offset.is_some());
        let missing = |_| Status::PARTITION_NOT_FOUND;
        if matches!(consumer, Consumer::Group(_)) || is_known().map_err(missing)? {
            return store();
        }
        let mut counts = self.counts.lock();
        let count = Self::count(&mut counts, log, id)?;
        if is_known().map_err(missing)? {
            return store();
        }
        if count.consumers >= self.consumers_max {
            return Err(Status::TOO_MANY_CONSUMER_OFFSETS);
        }
        let stored = store()?;
        // Nothing was stored if the partition was purged since the consumer polled.
        count.consumers += usize::from(is_known().map_err(missing)?);
        Ok(stored)
    }

    /// Deletes a consumer's offset by calling `delete`. Then decrements the partition's number of
    /// consumers.
    ///
    /// # Errors
    /// Errors from `delete`.
    pub(crate) fn delete(
        &self,
        id: PartitionId,
        delete: impl FnOnce() -> Result<Ticket, Status>,
    ) -> Result<Ticket, Status> {
        let mut counts = self.counts.lock();
        let deleted = delete()?;
        if let Some(count) = counts.get_mut(&id) {
            count.consumers = count.consumers.saturating_sub(1);
        }
        Ok(deleted)
    }

    /// Removes the counts of partitions that are no longer in the catalog.
    pub(crate) fn retain(&self, catalog: &CatalogSnapshot) {
        let is_there = |id: &PartitionId| {
            catalog.topic(id.topic()).is_some_and(|it| it.partitions.contains_key(&id.partition))
        };
        self.counts.lock().retain(|id, _| is_there(id));
    }

    /// Returns the number of consumers of a partition. If it is unknown, or was counted in an
    /// earlier incarnation of the partition, counts the offsets in the log.
    fn count<'a>(
        counts: &'a mut HashMap<PartitionId, Count>,
        log: &Log,
        id: PartitionId,
    ) -> Result<&'a mut Count, Status> {
        let partition = log.partition(id).map_err(|_| Status::PARTITION_NOT_FOUND)?;
        let incarnation = partition.stats().incarnation;
        if counts.get(&id).is_none_or(|count| count.incarnation != incarnation) {
            let offsets = log.offsets(id).map_err(|_| Status::PARTITION_NOT_FOUND)?;
            let is_single =
                |(consumer, _): &&(Consumer, u64)| matches!(consumer, Consumer::Single(_));
            let consumers = offsets.iter().filter(is_single).count();
            counts.insert(id, Count { incarnation, consumers });
        }
        counts.get_mut(&id).ok_or(Status::PARTITION_NOT_FOUND)
    }
}

#[cfg(test)]
mod tests {
    use tailwater_format::message::batch::Builder;
    use tailwater_log::{LogOptions, TopicId, TopicOptions};

    use super::*;

    fn append(log: &Log, id: PartitionId) {
        let mut batch = Builder::new(0);
        batch.push(1, 0, b"payload", b"").expect("a message");
        let partition = log.partition(id).expect("a partition");
        partition.append(&batch.finish()).expect("an append").ticket.wait().expect("acknowledged");
    }

    fn topic(log: &Log) -> TopicId {
        let stream = log.create_stream(None, "s").expect("a stream");
        let options = TopicOptions::default();
        log.create_topic(stream, None, "t", &options, 2).expect("a topic")
    }

    fn store(consumers: &Consumers, log: &Log, id: PartitionId, consumer: Consumer) -> bool {
        let store = || Ok(log.store_offset(id, consumer, 0)?);
        match consumers.store(log, id, consumer, store) {
            Ok(ticket) => ticket.wait().is_ok(),
            Err(status) => {
                assert_eq!(status, Status::TOO_MANY_CONSUMER_OFFSETS);
                false
            }
        }
    }

    #[test]
    fn only_new_consumers_beyond_the_bound_are_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let log = Log::open(directory.path(), &LogOptions::default()).expect("a log");
        let topic = topic(&log);
        let [one, other] = [0, 1].map(|partition| topic.partition(partition));
        for id in [one, other] {
            append(&log, id);
        }
        let single = Consumer::Single;
        // This offset is stored before the limit on consumers is created. After a restart of the
        // server, the log also contains offsets before the limit is created.
        log.store_offset(one, single(1), 0).expect("stored").wait().expect("stored");
        let consumers = Consumers::new(3);
        let store = |id, consumer| store(&consumers, &log, id, consumer);
        assert!(store(one, single(2)) && store(one, single(3)));
        assert!(!store(one, single(4)), "the fourth");
        assert!(store(one, single(1)) && store(one, single(3)), "known ones");
        assert!(store(one, Consumer::Group(4)) && store(other, single(4)));
        let deleted = consumers.delete(one, || Ok(log.delete_offset(one, single(2))?));
        deleted.expect("deleted").wait().expect("deleted");
        assert!(store(one, single(4)) && !store(one, single(5)));

        log.purge_topic(one.topic()).expect("purged");
        append(&log, one);
        assert!([5, 6, 7].iter().all(|id| store(one, single(*id))), "a purge forgets all");
        assert!(!store(one, single(8)));
        log.delete_topic(one.topic()).expect("deleted");
        consumers.retain(&log.catalog());
        assert!(consumers.counts.lock().is_empty());
    }
}
