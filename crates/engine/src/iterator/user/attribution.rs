//! Attribution of the time of slow moves.

use std::sync::Arc;

use tailwater_format::key::Sequence;
use tailwater_io::attribution::Attribution;

use super::DbIterator;
use crate::column_family::SuperVersion;
use crate::error::Result;
use crate::read::ReadOptions;
use crate::stats::slow_reads::{Operation, Request, SearchCounts};
use crate::table::ReadProfile;

impl DbIterator {
    /// Like [`DbIterator::over`], and attributes the time.
    pub(crate) fn attributed(
        source: Arc<SuperVersion>,
        snapshot: Sequence,
        options: &ReadOptions,
        profile: &ReadProfile,
        last: Option<&[u8]>,
    ) -> Result<Self> {
        let reading = source.tables().context().slow_reads.begin();
        let Some(reading) = reading else {
            return Self::over(source, snapshot, options, profile, last);
        };
        let iterator = Self::over(Arc::clone(&source), snapshot, options, profile, last);
        end(reading, &source, Operation::Iterator, || None, SearchCounts::default());
        iterator
    }

    /// Makes a move, to `target` if it has one, and attributes its time.
    #[inline]
    pub(super) fn attribute(
        &mut self,
        operation: Operation,
        target: Option<&[u8]>,
        make: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let slow_reads = &self.source.tables().context().slow_reads;
        self.is_attributed = slow_reads.is_on();
        if !self.is_attributed {
            return make(self);
        }
        self.make_attributed(operation, target, make)
    }

    #[inline(never)]
    pub(super) fn make_attributed(
        &mut self,
        operation: Operation,
        target: Option<&[u8]>,
        make: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        let Some(reading) = self.source.tables().context().slow_reads.begin() else {
            return make(self);
        };
        self.skipped = SearchCounts::default();
        let made = make(self);
        let key = || target.or(Some(self.key()));
        end(reading, &self.source, operation, key, self.skipped);
        made
    }
}

fn end<'k>(
    reading: Attribution,
    source: &SuperVersion,
    operation: Operation,
    key: impl FnOnce() -> Option<&'k [u8]>,
    skipped: SearchCounts,
) {
    let context = source.tables().context();
    context.slow_reads.end(reading, || {
        // A step searches no sources, except to go over to newer ones.
        let (memtables, tables) = match operation {
            Operation::Seek | Operation::Refresh => {
                let levels = source.version().levels().iter().map(|level| level.files().len());
                let runs = levels.enumerate().map(|(level, files)| match level {
                    0 => files,
                    _ => files.min(1),
                });
                (source.memtables().len(), runs.sum())
            }
            _ => (0, 0),
        };
        let searched =
            SearchCounts { memtables: memtables as u64, tables: tables as u64, ..skipped };
        Request { operation, family: &context.family, key: key(), keys: 1, searched }
    });
}
