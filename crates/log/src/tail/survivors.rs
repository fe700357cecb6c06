//! Batches that a process left in shared memory when it died.
//!
//! The batches of a chunk are recovered up to, but not including, the first batch that is
//! incomplete, belongs to another partition or does not continue the offsets. Bytes after the last
//! batch are zero: the memory was zeroed before use, so bytes of an earlier use are never mistaken
//! for a batch.

use std::collections::BTreeMap;

use tailwater_format::message::batch::Batch;
use tailwater_format::message::padding::{Next, batch_at};
use tailwater_format::message::tail::{ChunkHeader, HEADER_BYTES};
use tailwater_io::SharedMemory;

use crate::Result;
use crate::catalog::PartitionId;

/// A region of shared memory with batches that a dead process left.
#[derive(Debug)]
pub(crate) struct Survivor {
    pub(crate) header: ChunkHeader,
    /// Name of the region.
    pub(crate) region: String,
    bytes: Vec<u8>,
}

/// The shared memory that a dead process left for one log.
#[derive(Default)]
pub(crate) struct Survivors {
    /// Regions by partition and incarnation, in the order of their offsets.
    chunks: BTreeMap<(PartitionId, u64), Vec<Survivor>>,
    /// Names of regions without batches.
    empty: Vec<String>,
    /// Problems with regions that could not be used, as text.
    pub(crate) refused: Vec<String>,
}

impl Survivors {
    /// Reads the regions that belong to the log with this id, without changing them.
    ///
    /// # Errors
    /// I/O errors.
    pub(crate) fn read(shared: &dyn SharedMemory, log: u128) -> Result<Self> {
        let mut survivors = Self::default();
        for name in shared.list()? {
            let bytes = shared.read(&name)?;
            match ChunkHeader::decode(&bytes) {
                Ok(Some(header)) if header.log == log => {
                    let id = PartitionId {
                        stream: header.stream,
                        topic: header.topic,
                        partition: header.partition,
                    };
                    let chunks = survivors.chunks.entry((id, header.incarnation)).or_default();
                    chunks.push(Survivor { header, region: name, bytes });
                }
                Ok(Some(_)) => survivors.refused.push(format!("region {name} is from another log")),
                Ok(None) => survivors.empty.push(name),
                Err(error) => survivors.refused.push(format!("region {name}: {error}")),
            }
        }
        for chunks in survivors.chunks.values_mut() {
            chunks.sort_by_key(|chunk| (chunk.header.base_offset, chunk.header.position));
        }
        Ok(survivors)
    }

    /// Returns whether any region has batches.
    pub(crate) fn has_batches(&self) -> bool {
        !self.chunks.is_empty()
    }

    /// Removes and returns the names of regions without batches, and of regions whose incarnation
    /// does not exist.
    pub(crate) fn take_unclaimed(
        &mut self,
        exists: impl Fn(PartitionId, u64) -> bool,
    ) -> Vec<String> {
        let mut regions = std::mem::take(&mut self.empty);
        let chunks = std::mem::take(&mut self.chunks).into_iter();
        let (claimed, unclaimed): (BTreeMap<_, _>, BTreeMap<_, _>) =
            chunks.partition(|((id, incarnation), _)| exists(*id, *incarnation));
        self.chunks = claimed;
        regions.extend(unclaimed.into_values().flatten().map(|survivor| survivor.region));
        regions
    }

    /// Removes and returns the regions of one incarnation of a partition, in the order of their
    /// offsets.
    pub(crate) fn take(&mut self, id: PartitionId, incarnation: u64) -> Vec<Survivor> {
        self.chunks.remove(&(id, incarnation)).unwrap_or_default()
    }
}

impl Survivor {
    /// Returns the survivor's batches, in order.
    pub(crate) fn batches(&self) -> SurvivingBatches<'_> {
        let bytes = self.bytes.get(HEADER_BYTES..).unwrap_or_default();
        let at = self.header.first_batch as usize;
        SurvivingBatches { chunk: &self.header, bytes, at, next_offset: None }
    }
}

/// Iterates over the valid batches of a survivor.
pub(crate) struct SurvivingBatches<'a> {
    chunk: &'a ChunkHeader,
    bytes: &'a [u8],
    at: usize,
    next_offset: Option<u64>,
}

impl<'a> Iterator for SurvivingBatches<'a> {
    type Item = Batch<'a>;

    fn next(&mut self) -> Option<Batch<'a>> {
        loop {
            let rest = self.bytes.get(self.at..).filter(|rest| !rest.is_empty())?;
            if let Next::Gap(end) = batch_at(self.chunk.position + self.at as u64, rest) {
                self.at = usize::try_from(end.checked_sub(self.chunk.position)?).ok()?;
                continue;
            }
            let batch = Batch::decode_verified(rest).ok()?;
            let header = batch.header();
            let is_next = self.next_offset.is_none_or(|next| next == header.base_offset)
                && header.partition == u64::from(self.chunk.partition)
                && header.base_offset >= self.chunk.base_offset;
            if !is_next {
                return None;
            }
            self.at += usize::try_from(header.length).ok()?;
            self.next_offset = Some(batch.end_offset());
            return Some(batch);
        }
    }
}
