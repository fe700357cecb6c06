//! The input tables of a compaction.
//!
//! Each table's properties and range tombstones are read before the merge begins. Then the records
//! are read in order: those of all level-0 tables concurrently, those of a deeper level one table
//! at a time.
//!
//! If compactions read in another I/O mode than users' reads, an input is read by a separate
//! reader. Readers are reference-counted: an iterator holds its table's reader, and range
//! tombstones, which outlive the iterator, are counted separately. So a reader and its file are
//! closed after their last use, whether the iterators or the range tombstones are dropped first.
//! This also holds if opening one of many tables fails.

use std::sync::Arc;

use tailwater_format::Comparator;
use tailwater_format::key;
use tailwater_format::table::sequence_times::{self, SequenceTime};
use tailwater_io::Purpose;

use super::InputTombstones;
use crate::error::Result;
use crate::iterator::{Leaf, LevelIterator, MergingIterator};
use crate::sequence_times::{Limits, SequenceTimes};
use crate::table::{
    FileMetadata, OpenBudget, ReadPlan, ReadProfile, TableCache, TableIterator, TableReader,
};
use crate::version::{Compaction, InputLevel, Level};

/// Parameters of compaction reads.
const PROFILE: ReadProfile = ReadProfile::new(Purpose::CompactionRead, false);

/// The input tables of a compaction, with facts from their properties.
#[derive(Debug)]
pub(crate) struct Inputs {
    tables: Arc<TableCache>,
    levels: Vec<(usize, Arc<Level>)>,
    learnt: Vec<InputTable>,
    tombstones: Arc<InputTombstones>,
}

/// Facts about an input table.
#[derive(Debug)]
pub(crate) struct InputTable {
    pub(crate) file: Arc<FileMetadata>,
    /// The number of records in the table, without range tombstones, according to its properties;
    /// `None` if the properties may be wrong.
    pub(crate) records: Option<u64>,
    /// Write time of the table's newest key, in seconds since 1970; 0 if unknown.
    pub(crate) newest_key_time_s: u64,
    /// Write time of the table's oldest data, in seconds since 1970; 0 if unknown.
    pub(crate) oldest_ancestor_time_s: u64,
    /// Samples of sequence numbers and their write times, from the table's properties.
    times: Vec<SequenceTime>,
    /// Keys that divide the table into pieces of similar size.
    pub(crate) anchors: Vec<Anchor>,
}

/// A table is divided into pieces. This is the end of one piece, and the length of the piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Anchor {
    /// The key of the index entry for the last data block of this piece. No user key in the piece
    /// is greater.
    pub(crate) user_key: Vec<u8>,
    /// Total length of the data blocks of this piece in the file, in bytes.
    pub(crate) bytes: u64,
}

/// Approximate number of pieces into which a table is divided.
const ANCHORS: u64 = 128;

impl Inputs {
    /// Reads the properties and range tombstones of a compaction's inputs. If compactions use
    /// another I/O mode than users' reads, the inputs are read through separate readers, which
    /// count against `budget`. Otherwise they are read through the readers in `tables`, which
    /// users' reads share.
    pub(crate) fn survey(
        compaction: &Compaction,
        tables: &Arc<TableCache>,
        budget: &Arc<OpenBudget>,
    ) -> Result<Self> {
        let tables = if tables.compactions_read_otherwise() {
            Arc::new(tables.of_inputs(budget))
        } else {
            Arc::clone(tables)
        };
        let (mut learnt, mut tombstones) = (Vec::new(), InputTombstones::default());
        for input in &compaction.inputs {
            tombstones.begin_run();
            for file in &input.files {
                if input.level == 0 {
                    tombstones.begin_run();
                }
                let table = tables.open_to_inspect(file, PROFILE.purpose)?;
                tombstones.add(file, &table)?;
                learnt.push(InputTable::learn(file, &table, compaction.max_subcompactions > 1)?);
            }
        }
        let levels = compaction.inputs.iter().map(level_of).collect();
        Ok(Self { tables, levels, learnt, tombstones: Arc::new(tombstones) })
    }

    /// Returns the file of each input table, and facts from the table's properties.
    pub(crate) fn tables(&self) -> &[InputTable] {
        &self.learnt
    }

    /// Returns sequence numbers with their write times, as recorded in the inputs' properties.
    /// Includes only write times in the `window_s` seconds before `now_s`.
    pub(crate) fn sequence_times(&self, window_s: u64, now_s: u64) -> SequenceTimes {
        let mut times = SequenceTimes::new(Limits { capacity: usize::MAX, window_s });
        times.take_in(self.learnt.iter().flat_map(|table| table.times.iter().copied()), now_s);
        times
    }

    /// Returns the range tombstones of the inputs.
    pub(crate) fn tombstones(&self) -> &Arc<InputTombstones> {
        &self.tombstones
    }

    /// Whether records of the inputs refer to blob files.
    pub(crate) fn refer_to_blobs(&self) -> bool {
        self.learnt.iter().any(|table| table.file.added().oldest_blob_file_number.is_some())
    }

    /// Returns the maximum number of tables that a merge of all inputs reads concurrently.
    pub(crate) fn streams(&self) -> usize {
        let of_level = |(number, level): &(usize, Arc<Level>)| match number {
            0 => level.files().len(),
            _ => 1,
        };
        self.levels.iter().map(of_level).sum()
    }

    /// Returns the number of records in all inputs; `None` if it is unknown for any of them.
    pub(crate) fn records(&self) -> Option<u64> {
        self.learnt.iter().map(|table| table.records).sum()
    }

    /// Returns an iterator over the merged records of the inputs. The caller needs only the records
    /// with user keys from `begin`, inclusive, to `end`, exclusive. The iterator may omit tables
    /// outside this range, but it is not limited to the range. Tables are read ahead according to
    /// `plan`.
    pub(crate) fn merged(
        &self,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
        plan: &ReadPlan,
    ) -> Result<MergingIterator> {
        let comparator = self.tables.comparator().clone();
        let mut leaves = Vec::new();
        for (number, level) in &self.levels {
            if *number > 0 {
                leaves.push(Leaf::Level(LevelIterator::new(
                    *number,
                    Arc::clone(level),
                    Arc::clone(&self.tables),
                    PROFILE,
                    plan.clone(),
                    key::MAX_SEQUENCE,
                )));
                continue;
            }
            for file in level.files().iter().filter(|file| reaches(&comparator, file, begin, end)) {
                let table = self.tables.open(file, PROFILE.purpose)?;
                let iterator = TableIterator::new(table, PROFILE, plan);
                leaves.push(Leaf::of_table(iterator, file, key::MAX_SEQUENCE)?);
            }
        }
        Ok(MergingIterator::new(comparator, leaves))
    }

    /// Returns an iterator over a written output, read from the file by a separate reader.
    pub(crate) fn reread(
        &self,
        file: &Arc<FileMetadata>,
        budget: &Arc<OpenBudget>,
    ) -> Result<TableIterator> {
        let table = self.tables.of_inputs(budget).open(file, Purpose::Verification)?;
        let profile = ReadProfile { purpose: Purpose::Verification, ..PROFILE };
        Ok(TableIterator::new(table, profile, &ReadPlan::growing()))
    }
}

impl InputTable {
    fn learn(file: &Arc<FileMetadata>, table: &TableReader, needs_anchors: bool) -> Result<Self> {
        let properties = table.properties();
        let records = properties.num_entries.checked_sub(properties.num_range_deletions);
        let anchors = if needs_anchors { anchors(table)? } else { Vec::new() };
        let added = file.added();
        let oldest_ancestor_time_s = match added.oldest_ancestor_time_s {
            0 => properties.creation_time,
            known => known,
        };
        Ok(Self {
            file: Arc::clone(file),
            records: records.filter(|_| table.counts_all_records()),
            newest_key_time_s: properties.newest_key_time,
            oldest_ancestor_time_s,
            // The mapping only improves estimates of write times, so damage in it is ignored.
            times: sequence_times::decode(&properties.sequence_to_time_mapping).unwrap_or_default(),
            anchors,
        })
    }
}

/// Returns keys that divide a table into pieces of similar size. Source:
/// `BlockBasedTable::ApproximateKeyAnchors` in `table/block_based/block_based_table_reader.cc`.
fn anchors(table: &TableReader) -> Result<Vec<Anchor>> {
    let blocks_per_anchor = (table.properties().num_data_blocks / ANCHORS).max(1);
    let mut anchors = Vec::new();
    let (mut last, mut blocks, mut start) = (Vec::new(), 0, 0);
    let mut behind = 0;
    table.for_each_data_block(&PROFILE, |user_key, handle| {
        blocks += 1;
        behind = handle.offset + handle.size;
        if blocks == blocks_per_anchor {
            anchors.push(Anchor { user_key: user_key.to_vec(), bytes: behind - start });
            (blocks, start) = (0, behind);
        } else {
            last.clear();
            last.extend_from_slice(user_key);
        }
    })?;
    if blocks > 0 {
        anchors.push(Anchor { user_key: last, bytes: behind - start });
    }
    Ok(anchors)
}

fn level_of(input: &InputLevel) -> (usize, Arc<Level>) {
    (input.level, Arc::new(Level::new(input.files.clone())))
}

/// Whether a table may have records in the range from `begin`, inclusive, to `end`, exclusive.
fn reaches(
    comparator: &Comparator,
    file: &FileMetadata,
    begin: Option<&[u8]>,
    end: Option<&[u8]>,
) -> bool {
    begin.is_none_or(|begin| comparator.compare(begin, file.largest_user_key()).is_le())
        && end.is_none_or(|end| comparator.compare(file.smallest_user_key(), end).is_lt())
}
