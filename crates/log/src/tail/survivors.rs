//! Recovers the batches that a process left in shared memory when it died.
//!
//! From each chunk, batches are recovered up to the first one that is incomplete, belongs to
//! another partition or does not continue the offsets; that one and all after it are left out. The
//! bytes after the last batch are zero, because memory is zeroed before it is used. So bytes of an
//! earlier use are never mistaken for a batch.

use std::collections::BTreeMap;

use tailwater_format::message::batch::Batch;
use tailwater_format::message::padding::{Next, batch_at};
use tailwater_format::message::tail::{ChunkHeader, HEADER_BYTES};
use tailwater_io::SharedMemory;

use crate::Result;
use crate::catalog::PartitionId;
use crate::patience::patiently;

/// Returns the number in the name of a region of shared memory; `None` if a log does not give
/// regions such a name.
pub(crate) fn region_number(name: &str) -> Option<u64> {
    let number = name.parse().ok()?;
    (region_name(number) == name).then_some(number)
}

/// Returns the name of the region of shared memory with this number.
pub(crate) fn region_name(number: u64) -> String {
    format!("{number:020}")
}

/// A region of shared memory that a dead process left, with a chunk that may contain batches.
#[derive(Debug)]
pub(crate) struct Survivor {
    pub(crate) header: ChunkHeader,
    /// Name of the region of shared memory.
    pub(crate) region: String,
    bytes: Vec<u8>,
}

/// Everything that dead processes left in one log's shared memory.
#[derive(Default)]
pub(crate) struct Survivors {
    /// The chunks of each incarnation of a partition, in ascending order of their offsets.
    chunks: BTreeMap<(PartitionId, u64), Vec<Survivor>>,
    /// Names of regions that contain no chunk.
    empty: Vec<String>,
    /// For each region that cannot be used, a warning for the user.
    pub(crate) refused: Vec<String>,
}

impl Survivors {
    /// Reads all regions of a log's shared memory without changing them. `log` is the log's id.
    /// Regions of another log, and regions that cannot be decoded, are only listed in `refused`.
    ///
    /// # Errors
    /// I/O errors.
    pub(crate) fn read(shared: &dyn SharedMemory, log: u128) -> Result<Self> {
        let mut survivors = Self::default();
        let names = patiently(|| shared.list())?;
        for name in names.into_iter().filter(|name| region_number(name).is_some()) {
            let bytes = patiently(|| shared.read(&name))?;
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

    /// Returns whether any region contains a chunk of this log.
    pub(crate) fn has_batches(&self) -> bool {
        !self.chunks.is_empty()
    }

    /// Removes two kinds of regions from this collection, and returns their names: regions without
    /// a chunk, and regions of partition incarnations for which `exists` returns false.
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

    /// Removes from this collection, and returns, the chunks of one incarnation of a partition, in
    /// ascending order of their offsets.
    pub(crate) fn take(&mut self, id: PartitionId, incarnation: u64) -> Vec<Survivor> {
        self.chunks.remove(&(id, incarnation)).unwrap_or_default()
    }
}

impl Survivor {
    /// Returns the number of messages of valid batches that end after `offset`.
    pub(crate) fn messages_from(&self, offset: u64) -> u64 {
        let is_later = |batch: &Batch<'_>| batch.end_offset() > offset;
        self.batches().filter(is_later).map(|batch| u64::from(batch.header().count)).sum()
    }

    /// Returns the valid batches of the chunk, in order.
    pub(crate) fn batches(&self) -> SurvivingBatches<'_> {
        let bytes = self.bytes.get(HEADER_BYTES..).unwrap_or_default();
        let at = self.header.first_batch as usize;
        SurvivingBatches { chunk: &self.header, bytes, at, next_offset: None }
    }
}

/// Iterates over the valid batches of a chunk, as the module describes.
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
