//! Statistics of an iterator.
//!
//! Steps are counted in the iterator itself, and are added to the shared statistics when the
//! iterator is dropped. So counting a step costs only a few additions. Seeks are added to the
//! shared statistics immediately.

use std::sync::Arc;

use super::{DbIterator, Direction};
use crate::error::Result;
use crate::stats::slow_reads::Operation;
use crate::stats::{Histogram, Statistics, Ticker};

/// Counts of an iterator's steps that are not yet in the shared statistics.
pub(super) struct Counts {
    statistics: Arc<Statistics>,
    next: u64,
    next_found: u64,
    previous: u64,
    previous_found: u64,
    bytes: u64,
}

impl Counts {
    /// Creates the counters of a new iterator: its steps, and the bytes that it reads.
    pub(super) fn new(statistics: Arc<Statistics>) -> Self {
        statistics.add(Ticker::IteratorsCreated, 1);
        Self { statistics, next: 0, next_found: 0, previous: 0, previous_found: 0, bytes: 0 }
    }
}

impl Drop for Counts {
    fn drop(&mut self) {
        let recorder = self.statistics.recorder();
        recorder.add(Ticker::DbNext, self.next);
        recorder.add(Ticker::DbNextFound, self.next_found);
        recorder.add(Ticker::DbPrev, self.previous);
        recorder.add(Ticker::DbPrevFound, self.previous_found);
        recorder.add(Ticker::IterBytesRead, self.bytes);
        recorder.add(Ticker::IteratorsDeleted, 1);
    }
}

impl DbIterator {
    /// Makes a seek, to `target` if it has one, and counts it.
    pub(super) fn counted_seek(
        &mut self,
        target: Option<&[u8]>,
        seek: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let begun = self.counts.as_ref().map(|counts| counts.statistics.start());
        let moved = self.attribute(Operation::Seek, target, seek);
        if let (Some(counts), Some(begun)) = (&self.counts, begun) {
            counts.statistics.record_since(Histogram::DbSeek, begun);
            let recorder = counts.statistics.recorder();
            recorder.add(Ticker::DbSeek, 1);
            if let Some((key, value)) = self.item() {
                recorder.add(Ticker::DbSeekFound, 1);
                recorder.add(Ticker::IterBytesRead, (key.len() + value.len()) as u64);
            }
        }
        moved
    }

    /// Counts a step to the next or previous key.
    pub(super) fn count_step(&mut self, direction: Direction) {
        let bytes = self.item().map(|(key, value)| (key.len() + value.len()) as u64);
        let Some(counts) = &mut self.counts else { return };
        let (steps, found) = match direction {
            Direction::Forward => (&mut counts.next, &mut counts.next_found),
            Direction::Backward => (&mut counts.previous, &mut counts.previous_found),
        };
        *steps += 1;
        *found += u64::from(bytes.is_some());
        counts.bytes += bytes.unwrap_or(0);
    }

    /// Counts a seek that the iterator made to skip many records of one key.
    pub(super) fn count_reseek(&self) {
        if let Some(counts) = &self.counts {
            counts.statistics.add(Ticker::Reseeks, 1);
        }
    }
}
