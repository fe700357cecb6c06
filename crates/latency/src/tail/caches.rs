//! How many of the reads were served from memory, as far as it can be known.

use serde::{Deserialize, Serialize};
use tailwater_io::Purpose;

use super::engine::Activity;

/// Size of a page of memory, in bytes.
const PAGE_BYTES: f64 = 4096.0;

/// The share of reads that caches served. A figure that is unknown is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Caches {
    /// The share of the pages with the readers' blocks that were in the block cache or in the page
    /// cache.
    pub(super) cache_hit_ratio: Option<f64>,
    /// The share of the engine's lookups of data blocks in the block cache that found the block.
    pub(super) block_cache_hit_ratio: Option<f64>,
    /// The share of the pages that users' buffered reads of files found in the page cache.
    pub(super) page_cache_hit_ratio: Option<f64>,
    /// Pages that the readers fetched from the device, per read.
    pub(super) device_pages_per_read: Option<f64>,
}

/// What the readers did in a period.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    /// Number of reads.
    pub(super) reads: u64,
    /// Bytes fetched from the device, read-ahead included.
    pub(super) fetched_bytes: Option<u64>,
    /// Mean size of a block on the device, in bytes.
    pub(super) block_bytes: Option<f64>,
    /// Whether no other threads read for users.
    pub(super) is_alone: bool,
}

impl Caches {
    /// Computes the figures of a period. The hit ratio of the page cache is valid for buffered
    /// reads only.
    pub(super) fn of(activity: &Activity, reading: Reading) -> Self {
        let Reading { reads, fetched_bytes, block_bytes, is_alone } = reading;
        let fetched_pages = fetched_bytes.map(|bytes| bytes as f64 / PAGE_BYTES);
        let share_in_memory = |pages: f64| {
            let fetched_pages = fetched_pages.filter(|_| pages > 0.0)?;
            Some((1.0 - fetched_pages / pages).max(0.0))
        };
        let calls = activity.user_reads.as_ref().map(|calls| calls.count as f64);
        let read = activity.purposes.get(Purpose::UserRead.name());
        let lookups = activity.block_cache_hits + activity.block_cache_misses;
        Self {
            cache_hit_ratio: block_bytes
                .and_then(|bytes| share_in_memory(reads as f64 * pages_of(1.0, bytes))),
            block_cache_hit_ratio: (lookups > 0)
                .then(|| activity.block_cache_hits as f64 / lookups as f64),
            page_cache_hit_ratio: calls
                .zip(read)
                .filter(|_| is_alone)
                .and_then(|(calls, read)| share_in_memory(pages_of(calls, read.read_bytes))),
            device_pages_per_read: fetched_pages
                .filter(|_| reads > 0)
                .map(|pages| pages / reads as f64),
        }
    }
}

/// Returns the mean number of pages that so many reads of files touch, which begin anywhere in a
/// page and read so many bytes together.
fn pages_of(reads: f64, bytes: f64) -> f64 {
    (bytes - reads) / PAGE_BYTES + reads
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tail::engine::Moved;

    #[test]
    fn pages_from_the_device_are_misses() {
        let read_bytes = 40.0 * 4097.0;
        let moved = Moved { read_bytes, written_bytes: 0.0 };
        let mut activity = Activity {
            purposes: [("user_read".to_owned(), moved)].into(),
            user_reads: Some(tailwater_io::Latencies::default()),
            block_cache_hits: 60,
            block_cache_misses: 40,
            ..Activity::default()
        };
        activity.user_reads.as_mut().unwrap().count = 40;
        // A block of 4,097 bytes touches two pages.
        let reading = Reading {
            reads: 100,
            fetched_bytes: Some(20 * 4096),
            block_bytes: Some(4097.0),
            is_alone: true,
        };
        let expected = Caches {
            cache_hit_ratio: Some(0.9),
            block_cache_hit_ratio: Some(0.6),
            page_cache_hit_ratio: Some(0.75),
            device_pages_per_read: Some(0.2),
        };
        assert_eq!(Caches::of(&activity, reading), expected);
        let others = Caches::of(&activity, Reading { is_alone: false, ..reading });
        assert_eq!(others, Caches { page_cache_hit_ratio: None, ..expected });
        let nothing = Reading { reads: 0, fetched_bytes: None, ..reading };
        assert_eq!(Caches::of(&Activity::default(), nothing), Caches::default());
    }
}
