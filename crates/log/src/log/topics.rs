//! Creates, changes and deletes a log's streams, topics and partitions.

use std::sync::Arc;

use super::{Log, closed};
use crate::catalog::{PartitionId, TopicId, TopicInfo};
use crate::options::{Durability, TopicOptions};
use crate::partition::Partition;
use crate::patience::patiently;
use crate::sync::Guard;
use crate::{Error, Result, layout};

impl Log {
    /// Creates a stream and returns its id. If `id` is `None`, the lowest free id is used. The
    /// stream is durable on return, as are all changes of streams, topics and partitions.
    ///
    /// # Errors
    /// Already exists, if the name or the id is in use; invalid argument, if the name is invalid;
    /// I/O errors.
    pub fn create_stream(&self, id: Option<u32>, name: &str) -> Result<u32> {
        self.catalog.create_stream(id, name, self.env.clock.wall_us())
    }

    /// Renames a stream.
    ///
    /// # Errors
    /// Not found; already exists; I/O errors.
    pub fn rename_stream(&self, stream: u32, name: &str) -> Result<()> {
        self.catalog.rename_stream(stream, name)
    }

    /// Deletes a stream with all its topics.
    ///
    /// # Errors
    /// Not found; I/O errors.
    pub fn delete_stream(&self, stream: u32) -> Result<()> {
        let _changing = self.lock_changes()?;
        let first = TopicId { stream, topic: 0 }.partition(0);
        let last = TopicId { stream, topic: u32::MAX }.partition(u32::MAX);
        let partitions = self.partitions_between(first, last)?;
        let deleted = self.catalog.delete_stream(stream);
        self.finish_deletion(deleted, partitions)
    }

    /// Creates a topic with `partitions` partitions, which are numbered from 0.
    ///
    /// # Errors
    /// Not found, if the stream does not exist; already exists, if the id or the name belongs to
    /// another topic of the stream; invalid argument, naming the option; I/O errors. After an
    /// error, neither the topic nor any of its partitions exists.
    pub fn create_topic(
        &self,
        stream: u32,
        id: Option<u32>,
        name: &str,
        options: &TopicOptions,
        partitions: u32,
    ) -> Result<TopicId> {
        let _changing = self.lock_changes()?;
        let id = self.catalog.check_topic(stream, id, name, options)?;
        let ids: Vec<u32> = (0..partitions).collect();
        let created = self.create_directories(id, &ids)?;
        let now_us = self.env.clock.wall_us();
        self.catalog.create_topic(id, name, options, &created, now_us)?;
        self.add_partitions(id, options, created);
        Ok(id)
    }

    /// Changes a topic's name and options. For existing partitions, a change of the durability or
    /// of the handling of partial blocks takes effect only when the log is opened again. There is
    /// one exception: if the new durability is `disk`, all later writes of the partitions are
    /// durable.
    ///
    /// # Errors
    /// Not found; already exists; invalid argument; I/O errors.
    pub fn update_topic(&self, id: TopicId, name: &str, options: &TopicOptions) -> Result<()> {
        let _changing = self.lock_changes()?;
        let partitions = self.partitions_of(id)?;
        if options.durability == Durability::Disk {
            // When the log is opened again, recovery relies on the durability stated in the
            // catalog. So the existing files must have that durability before the catalog states
            // it.
            let tickets: Vec<_> = partitions.iter().map(|partition| partition.harden()).collect();
            tickets.into_iter().try_for_each(|ticket| self.wait(ticket))?;
        }
        self.catalog.update_topic(id, name, options)?;
        for partition in partitions {
            partition.set_options(options);
        }
        Ok(())
    }

    /// Deletes a topic with all its partitions.
    ///
    /// # Errors
    /// Not found; I/O errors.
    pub fn delete_topic(&self, id: TopicId) -> Result<()> {
        let _changing = self.lock_changes()?;
        let partitions = self.partitions_of(id)?;
        let deleted = self.catalog.delete_topic(id);
        self.finish_deletion(deleted, partitions)
    }

    /// Adds `count` partitions to a topic and returns their ids.
    ///
    /// # Errors
    /// Not found; I/O errors. After an error, none of the new partitions exists.
    pub fn create_partitions(&self, id: TopicId, count: u32) -> Result<Vec<u32>> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let _changing = self.lock_changes()?;
        let new = self.catalog.next_partitions(id, count)?;
        let options = self.topic(id)?.options;
        let created = self.create_directories(id, &new)?;
        self.catalog.create_partitions(id, &created, self.env.clock.wall_us())?;
        self.add_partitions(id, &options, created);
        Ok(new)
    }

    /// Creates the directories of new partitions and makes them durable. Returns each partition's
    /// id with its incarnation.
    ///
    /// A crash after this, before the catalog names the partitions, is safe: opening the log
    /// removes directories that the catalog does not name.
    fn create_directories(&self, id: TopicId, partitions: &[u32]) -> Result<Vec<(u32, u64)>> {
        let storage = &*self.env.segment_files.storage;
        let mut created = Vec::with_capacity(partitions.len());
        for partition in partitions {
            let (log, id) = (&self.env.directory, id.partition(*partition));
            let (incarnation, _) = layout::create_incarnation(storage, log, &self.catalog, id)?;
            created.push((*partition, incarnation));
        }
        if created.is_empty() {
            return Ok(created);
        }
        // Creating the first directory may also have created its parents, so sync all of them.
        let parent = layout::partitions_directory(&self.env.directory, id.stream, id.topic);
        let mut above = Some(parent.as_path());
        while let Some(directory) = above.filter(|above| above.starts_with(&self.env.directory)) {
            patiently(|| storage.sync_directory(directory))?;
            above = directory.parent();
        }
        Ok(created)
    }

    /// Opens partitions that were just added to the catalog, so that they accept appends.
    fn add_partitions(&self, id: TopicId, options: &TopicOptions, created: Vec<(u32, u64)>) {
        let mut partitions = self.partitions.lock();
        let Some(partitions) = &mut *partitions else { return };
        for (partition, incarnation) in created {
            let id = id.partition(partition);
            let options = options.clone();
            let partition = Partition::create(&self.env, &self.catalog, id, incarnation, options);
            partitions.insert(id, partition);
        }
    }

    /// Deletes the `count` partitions of a topic that have the highest ids.
    ///
    /// # Errors
    /// Not found, if the topic has fewer than `count` partitions; I/O errors.
    pub fn delete_partitions(&self, id: TopicId, count: u32) -> Result<()> {
        let _changing = self.lock_changes()?;
        let mut partitions = self.partitions_of(id)?;
        let stay = partitions.len().saturating_sub(count as usize);
        let deleted = self.catalog.delete_partitions(id, count);
        self.finish_deletion(deleted, partitions.split_off(stay))
    }

    /// Removes all messages of a topic. In each partition, the next message has offset 0.
    ///
    /// # Errors
    /// Not found; closed; I/O errors. After an error, some of the topic's partitions may already be
    /// empty.
    pub fn purge_topic(&self, id: TopicId) -> Result<()> {
        self.check_may_wait()?;
        self.topic(id)?;
        let tickets: Vec<_> = self
            .partitions_of(id)?
            .into_iter()
            .map(|partition| (partition.purge(), partition))
            .collect();
        for (ticket, partition) in tickets {
            self.wait(ticket)?;
            self.offsets.forget(partition.id(), partition.incarnation());
        }
        Ok(())
    }

    /// Takes the lock that is held while streams, topics or partitions change.
    ///
    /// # Errors
    /// The errors of [`Self::check_may_wait`].
    fn lock_changes(&self) -> Result<Guard<'_, ()>> {
        self.check_may_wait()?;
        Ok(self.changing.lock())
    }

    /// Finishes a deletion. `deleted` is the outcome of the deletion's change to the catalog. If
    /// the change succeeded, closes the partitions and removes their files.
    ///
    /// If the change failed, the catalog's journal may contain it nevertheless. The deletion may
    /// then take effect when the log is next opened, and would remove messages appended until then.
    /// Therefore the partitions refuse further appends.
    fn finish_deletion(&self, deleted: Result<()>, partitions: Vec<Arc<Partition>>) -> Result<()> {
        if let Err(error) = &deleted {
            if self.catalog.is_unsettled() {
                // The appends that fail here call functions of the user, which must not close the
                // log: closing would wait for this deletion.
                let _working = self.env.workers.begin();
                partitions.iter().for_each(|partition| partition.fail(error));
            }
            return deleted;
        }
        for partition in partitions {
            if let Some(partitions) = &mut *self.partitions.lock() {
                partitions.remove(&partition.id());
            }
            self.offsets.forget(partition.id(), u64::MAX);
            // Ignore the outcome: files that cannot be removed now are removed when the log is next
            // opened.
            partition.delete().on_complete(|_| ());
        }
        Ok(())
    }

    fn topic(&self, id: TopicId) -> Result<TopicInfo> {
        let streams = self.catalog.streams();
        let topic = streams.get(&id.stream).and_then(|stream| stream.topics.get(&id.topic));
        topic.cloned().ok_or_else(|| {
            Error::not_found(format!("no topic {} in stream {}", id.topic, id.stream))
        })
    }

    /// Returns the partitions of a topic.
    ///
    /// # Errors
    /// Closed.
    fn partitions_of(&self, id: TopicId) -> Result<Vec<Arc<Partition>>> {
        self.partitions_between(id.partition(0), id.partition(u32::MAX))
    }

    fn partitions_between(
        &self,
        first: PartitionId,
        last: PartitionId,
    ) -> Result<Vec<Arc<Partition>>> {
        let partitions = self.partitions.lock();
        let partitions = partitions.as_ref().ok_or_else(closed)?;
        Ok(partitions.range(first..=last).map(|(_, partition)| Arc::clone(partition)).collect())
    }
}
