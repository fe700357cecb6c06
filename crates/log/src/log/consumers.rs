//! The stored offsets of a log's consumers.

use super::Log;
use crate::catalog::{PartitionId, TopicId};
use crate::offsets::Consumer;
use crate::ticket::Ticket;
use crate::{Error, Result};

impl Log {
    /// Stores a consumer's offset, which is the offset of the last message that the consumer has
    /// processed. The stored offset is visible immediately. The ticket completes when the stored
    /// offset survives a crash of the process or, with the topic's option
    /// [`are_offsets_durable`](crate::TopicOptions::are_offsets_durable), a power cut.
    ///
    /// # Errors
    /// Not found; closed; invalid argument, if the offset is above that of the partition's last
    /// message.
    pub fn store_offset(&self, id: PartitionId, consumer: Consumer, offset: u64) -> Result<Ticket> {
        self.store_offset_if(id, consumer, offset, None)
    }

    /// Like [`Self::store_offset`], for the offset of a message that a poll returned from this
    /// incarnation of the partition ([`Polled::incarnation`](crate::Polled::incarnation)). If the
    /// partition was purged since, the offset means another message: nothing is stored, and the
    /// ticket is complete. A higher offset that is stored already stays: messages that are read
    /// again do not move the consumer back.
    ///
    /// # Errors
    /// The errors of [`Self::store_offset`].
    pub fn store_polled_offset(
        &self,
        id: PartitionId,
        incarnation: u64,
        consumer: Consumer,
        offset: u64,
    ) -> Result<Ticket> {
        self.store_offset_if(id, consumer, offset, Some(incarnation))
    }

    fn store_offset_if(
        &self,
        id: PartitionId,
        consumer: Consumer,
        offset: u64,
        incarnation: Option<u64>,
    ) -> Result<Ticket> {
        let partition = self.partition(id)?;
        let is_durable = self.are_offsets_durable(id.topic());
        self.offsets.store(id, consumer, offset, is_durable, incarnation, || partition.end())
    }

    /// Returns whether changes of stored offsets must survive a power cut.
    fn are_offsets_durable(&self, id: TopicId) -> bool {
        let catalog = self.catalog.snapshot();
        catalog.topic(id).is_some_and(|topic| topic.options.are_offsets_durable)
    }

    /// Returns a consumer's stored offset; `None` if there is none.
    ///
    /// # Errors
    /// Not found, if the partition does not exist; closed.
    pub fn offset(&self, id: PartitionId, consumer: Consumer) -> Result<Option<u64>> {
        let incarnation = self.partition(id)?.incarnation();
        Ok(self.offsets.get(id, incarnation, consumer))
    }

    /// Returns the stored offsets of all consumers of a partition.
    ///
    /// # Errors
    /// Not found, if the partition does not exist; closed.
    pub fn offsets(&self, id: PartitionId) -> Result<Vec<(Consumer, u64)>> {
        let incarnation = self.partition(id)?.incarnation();
        Ok(self.offsets.all(id, incarnation))
    }

    /// Deletes a consumer's stored offset. The ticket completes when the deletion is as durable as
    /// an offset of [`Self::store_offset`].
    ///
    /// # Errors
    /// Not found, if the partition or the stored offset does not exist; closed.
    pub fn delete_offset(&self, id: PartitionId, consumer: Consumer) -> Result<Ticket> {
        let incarnation = self.partition(id)?.incarnation();
        let is_durable = self.are_offsets_durable(id.topic());
        let deleted = self.offsets.delete(id, incarnation, consumer, is_durable);
        deleted
            .ok_or_else(|| Error::not_found(format!("{consumer:?} has stored no offset in {id}")))
    }
}
