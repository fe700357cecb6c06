//! Placement of ingested files: their levels and sequence numbers.
//!
//! A file hides the records of the database that are in its key range. The file goes to the deepest
//! level for which two conditions hold: no shallower level has records that the file hides, and no
//! table of the level itself overlaps the file's key range. The output of a running compaction
//! counts as an overlap in its level.
//!
//! A file that hides records gets the next sequence number, and so is newer than all existing data.
//! A file that existing snapshots must not see also gets that number. A file that hides nothing
//! keeps sequence number 0.
//!
//! If files overlap each other, they are divided into batches: a file that reaches into the key
//! range from the smallest to the largest key of the current batch begins the next one. Each batch
//! is newer than the previous batch, and goes to shallower levels.
//!
//! Source: `AssignLevelAndSeqnoForIngestedFile` in `db/external_sst_file_ingestion_job.cc`.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use tailwater_format::Comparator;
use tailwater_format::key::Sequence;

use super::external_file::{Bounds, ExternalFile};
use super::options::IngestOptions;
use crate::compaction::compare_bounds;
use crate::error::{Error, ErrorKind, Result};
use crate::options::CompactionStyle;
use crate::table::FileMetadata;
use crate::version::{Compaction, Version};

/// The level and the sequence number of an ingested file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Placement {
    pub(super) level: usize,
    /// The sequence number for all records of the file; 0 if the file hides no existing records.
    pub(super) sequence: Sequence,
}

/// The state of a column family, and the ingestion's options.
#[derive(Debug, Clone, Copy)]
pub(super) struct FamilyContext<'a> {
    pub(super) comparator: &'a Comparator,
    pub(super) version: &'a Version,
    pub(super) running: &'a [Arc<Compaction>],
    pub(super) style: CompactionStyle,
    /// Number of levels.
    pub(super) levels: usize,
    /// The base level, to which level 0 is compacted. The levels between 0 and this one stay empty.
    pub(super) base_level: usize,
    /// The highest sequence number assigned before the ingestion.
    pub(super) last_sequence: Sequence,
    /// Whether there are snapshots that must not see the files.
    pub(super) is_watched: bool,
    pub(super) options: &'a IngestOptions,
}

/// Files that are placed by the same rules.
#[derive(Debug, Clone, Copy)]
struct Batch<'a> {
    /// Index of the first file.
    first: usize,
    bounds: Bounds<'a>,
}

/// The rules for placing a batch of files that do not overlap each other.
#[derive(Debug, Clone, Copy)]
struct BatchRules {
    /// Whether every file gets a sequence number, even a file that hides no existing record.
    numbers_all: bool,
    /// Each file goes to a level with a number below this one. If this is 0, all files go to level
    /// 0.
    below: usize,
}

impl FamilyContext<'_> {
    /// Returns the placements of files, in their order. `overlaps` is given a file, the file's
    /// index in `files`, and a table. It returns whether the table has any record in the key range
    /// of the file. It is called only for tables whose key range overlaps that of the file.
    pub(super) fn places(
        &self,
        files: &[ExternalFile],
        mut overlaps: impl FnMut(usize, &ExternalFile, &Arc<FileMetadata>) -> Result<bool>,
    ) -> Result<Vec<Placement>> {
        let overlap_each_other = self.overlap_each_other(files);
        if overlap_each_other && !self.options.allow_global_seqno {
            let message = "files that overlap each other need sequence numbers, which \
                 allow_global_seqno forbids";
            return Err(Error::invalid_argument(message));
        }
        let numbers_all = self.is_watched || overlap_each_other;
        let mut rules = BatchRules { numbers_all, below: self.levels };
        let mut last_sequence = self.last_sequence;
        let mut places: Vec<Placement> = Vec::new();
        let mut batch: Option<Batch<'_>> = None;
        for (at, file) in files.iter().enumerate() {
            batch = match batch {
                Some(batch)
                    if !overlap_each_other || !self.overlap(batch.bounds, file.bounds()) =>
                {
                    Some(self.extended(batch, file))
                }
                ended => {
                    if let Some(Batch { first, .. }) = ended {
                        let levels = places.iter().skip(first).map(|place| place.level);
                        rules.below = levels.min().unwrap_or(0);
                    }
                    Some(Batch { first: at, bounds: file.bounds() })
                }
            };
            let place =
                self.place(file, rules, last_sequence, |table| overlaps(at, file, table))?;
            last_sequence = last_sequence.max(place.sequence);
            places.push(place);
        }
        Ok(places)
    }

    fn place(
        &self,
        file: &ExternalFile,
        rules: BatchRules,
        last_sequence: Sequence,
        overlaps: impl FnMut(&Arc<FileMetadata>) -> Result<bool>,
    ) -> Result<Placement> {
        let only_level_0 = rules.below == 0 || self.style == CompactionStyle::Fifo;
        let (level, hides) =
            if only_level_0 { (0, true) } else { self.deepest_level(file, rules.below, overlaps)? };
        let is_numbered = hides || rules.numbers_all;
        if self.options.fail_if_not_bottommost_level && level + 1 < self.levels {
            let message = format!("the file fits in level {level}, but not in the last level");
            return Err(Error::new(ErrorKind::Busy, message).in_file(&file.path));
        }
        if is_numbered && !self.options.allow_global_seqno {
            let message = "the file hides existing data or is hidden from snapshots, and needs a \
                 sequence number, which allow_global_seqno forbids";
            return Err(Error::invalid_argument(message).in_file(&file.path));
        }
        Ok(Placement { level, sequence: if is_numbered { last_sequence + 1 } else { 0 } })
    }

    /// Returns the deepest level to which a file can go, among the levels with numbers less than
    /// `below`. Also returns whether a table or a running compaction prevents the file from going
    /// deeper. In that case there may be older records of the file's keys, so the file needs a
    /// sequence number of its own that hides them.
    fn deepest_level(
        &self,
        file: &ExternalFile,
        below: usize,
        mut overlaps: impl FnMut(&Arc<FileMetadata>) -> Result<bool>,
    ) -> Result<(usize, bool)> {
        let mut deepest = 0;
        for level in 0..below {
            if self.is_written(level, file) {
                return Ok((deepest, true));
            }
            let files = self.version.levels().get(level).map_or(&[][..], |level| level.files());
            let within: Vec<_> = files.iter().filter(|table| self.reaches(table, file)).collect();
            for &table in &within {
                if overlaps(table)? {
                    return Ok((deepest, true));
                }
            }
            if level == 0 || (within.is_empty() && level >= self.base_level) {
                deepest = level;
            }
        }
        Ok((deepest, false))
    }

    /// Whether a running compaction writes to `level` in a range that overlaps the file's key
    /// range.
    fn is_written(&self, level: usize, file: &ExternalFile) -> bool {
        let running = self.running.iter().filter(|running| running.output_level == level);
        running.filter_map(|running| running.user_keys(self.comparator)).any(|(from, to)| {
            self.comparator.compare(from, file.end()).is_le()
                && self.comparator.compare(file.begin(), to).is_le()
        })
    }

    /// Whether the key ranges of a table and a file overlap.
    fn reaches(&self, table: &FileMetadata, file: &ExternalFile) -> bool {
        self.comparator.compare(table.smallest_user_key(), file.end()).is_le()
            && self.comparator.compare(file.begin(), table.largest_user_key()).is_le()
    }

    /// Returns the batch with one more file.
    fn extended<'a>(&self, batch: Batch<'a>, file: &'a ExternalFile) -> Batch<'a> {
        let Bounds { mut smallest, mut largest } = batch.bounds;
        if compare_bounds(self.comparator, &file.smallest, smallest).is_lt() {
            smallest = &file.smallest;
        }
        if compare_bounds(self.comparator, &file.largest, largest).is_gt() {
            largest = &file.largest;
        }
        Batch { bounds: Bounds { smallest, largest }, ..batch }
    }

    /// Whether any two files overlap.
    fn overlap_each_other(&self, files: &[ExternalFile]) -> bool {
        let mut sorted: Vec<_> = files.iter().map(ExternalFile::bounds).collect();
        sorted.sort_by(|a, b| compare_bounds(self.comparator, a.smallest, b.smallest));
        sorted.windows(2).any(|pair| matches!(*pair, [a, b] if self.overlap(a, b)))
    }

    fn overlap(&self, a: Bounds<'_>, b: Bounds<'_>) -> bool {
        let reaches = |from: Bounds<'_>, to: Bounds<'_>| {
            compare_bounds(self.comparator, from.largest, to.smallest).is_ge()
        };
        reaches(a, b) && reaches(b, a)
    }
}
