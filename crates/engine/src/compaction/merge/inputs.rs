//! The tables that a compaction takes.
//!
//! Each is looked at once before the merge begins, for what its properties and range tombstones
//! say, and then read from front to back: the tables of level 0 all at once, those of deeper levels
//! as the merge reaches them.
//!
//! Where compactions read in another mode than users do, an input is read by a reader that no user
//! has. Whoever reads a table shares its reader: an iterator keeps it, and range tombstones, which
//! outlive their table's iterator, are shared by themselves. So readers and their files go with the
//! last who needs them, in whatever order they go, also when opening one of many fails.

use std::sync::Arc;

use tailwater_format::Comparator;
use tailwater_format::key;
use tailwater_format::table::sequence_times::{self, SequenceTime};
use tailwater_io::Purpose;

use super::InputTombstones;
use crate::Result;
use crate::compaction::{Compaction, InputLevel};
use crate::iterator::{Leaf, LevelIterator, MergingIterator};
use crate::sequence_times::{Limits, SequenceTimes};
use crate::table::{OpenBudget, ReadPlan, ReadProfile, TableCache, TableIterator, TableReader};
use crate::version::{FileMetadata, Level};

/// How compactions read.
const PROFILE: ReadProfile =
    ReadProfile { purpose: Purpose::CompactionRead, verify_checksums: true, fill_cache: false };

/// The tables that a compaction takes, and what was learnt of them.
#[derive(Debug)]
pub(crate) struct Inputs {
    tables: Arc<TableCache>,
    levels: Vec<(usize, Arc<Level>)>,
    learnt: Vec<InputTable>,
    tombstones: Arc<InputTombstones>,
}

/// What was learnt of an input table.
#[derive(Debug)]
pub(crate) struct InputTable {
    pub(crate) file: Arc<FileMetadata>,
    /// How many records it has, range tombstones not counted; `None` where its properties may be
    /// wrong about that.
    pub(crate) records: Option<u64>,
    /// When the newest of its keys was written, in seconds since 1970; 0 where that is not known.
    pub(crate) newest_key_time_s: u64,
    /// When the oldest of its data was written, in the same way.
    pub(crate) oldest_ancestor_time_s: u64,
    /// When its sequence numbers were written, as far as it says so.
    times: Vec<SequenceTime>,
    /// Keys that cut it into pieces.
    pub(crate) anchors: Vec<Anchor>,
}

/// A piece of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Anchor {
    /// A user key that the piece ends with, or just behind.
    pub(crate) user_key: Vec<u8>,
    /// The length of the piece in the file, in bytes.
    pub(crate) bytes: u64,
}

/// Into how many pieces a table is cut, about.
const ANCHORS: u64 = 128;

impl Inputs {
    /// Looks at the tables of a compaction. `tables` are those of its column family, and are read
    /// by everybody's readers unless compactions read in a mode of their own; what is opened then
    /// counts against `budget`.
    pub(crate) fn survey(
        compaction: &Compaction,
        tables: &Arc<TableCache>,
        budget: &Arc<OpenBudget>,
    ) -> Result<Self> {
        let tables = match tables.compactions_read_otherwise() {
            true => Arc::new(tables.of_inputs(budget)),
            false => Arc::clone(tables),
        };
        let (mut learnt, mut tombstones) = (Vec::new(), InputTombstones::default());
        for input in &compaction.inputs {
            tombstones.begin_run();
            for file in &input.files {
                if input.level == 0 {
                    tombstones.begin_run();
                }
                let table = tables.open_to_look(file, PROFILE.purpose)?;
                tombstones.add(file, &table)?;
                learnt.push(InputTable::learn(file, &table, compaction.max_subcompactions > 1)?);
            }
        }
        let levels = compaction.inputs.iter().map(level_of).collect();
        Ok(Self { tables, levels, learnt, tombstones: Arc::new(tombstones) })
    }

    /// What was learnt of each table.
    pub(crate) fn tables(&self) -> &[InputTable] {
        &self.learnt
    }

    /// When their sequence numbers were written, from `window_s` seconds before `now_s` on.
    pub(crate) fn sequence_times(&self, window_s: u64, now_s: u64) -> SequenceTimes {
        let mut times = SequenceTimes::new(Limits { capacity: usize::MAX, window_s });
        times.take_in(self.learnt.iter().flat_map(|table| table.times.iter().copied()), now_s);
        times
    }

    /// Their range tombstones.
    pub(crate) fn tombstones(&self) -> &Arc<InputTombstones> {
        &self.tombstones
    }

    /// Whether records of theirs refer to blob files.
    pub(crate) fn refer_to_blobs(&self) -> bool {
        self.learnt.iter().any(|table| table.file.added().oldest_blob_file_number.is_some())
    }

    /// How many tables are read at once at most, by one that reads all of them.
    pub(crate) fn streams(&self) -> usize {
        let of_level = |(number, level): &(usize, Arc<Level>)| match number {
            0 => level.files().len(),
            _ => 1,
        };
        self.levels.iter().map(of_level).sum()
    }

    /// How many records they have; `None` where that is not known of all.
    pub(crate) fn records(&self) -> Option<u64> {
        self.learnt.iter().map(|table| table.records).sum()
    }

    /// The records of all tables that have some between two user keys, of which the second is not
    /// included. Tables are read ahead as `plan` says.
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

    /// Reads a table that was written, from front to back, by a reader of its own.
    pub(crate) fn reread(
        &self,
        file: &Arc<FileMetadata>,
        budget: &Arc<OpenBudget>,
    ) -> Result<TableIterator> {
        let table = self.tables.of_inputs(budget).open(file, Purpose::Verification)?;
        let profile = ReadProfile { purpose: Purpose::Verification, ..PROFILE };
        Ok(TableIterator::new(table, profile, &ReadPlan::Growing))
    }
}

impl InputTable {
    fn learn(file: &Arc<FileMetadata>, table: &TableReader, needs_anchors: bool) -> Result<Self> {
        let properties = table.properties();
        // Releases that wrote older formats miscounted tables with range deletions.
        let counts = table.footer().format_version >= 5;
        let records = properties.num_entries.checked_sub(properties.num_range_deletions);
        let anchors = match needs_anchors {
            true => anchors(table)?,
            false => Vec::new(),
        };
        let added = file.added();
        let oldest_ancestor_time_s = match added.oldest_ancestor_time_s {
            0 => properties.creation_time,
            known => known,
        };
        Ok(Self {
            file: Arc::clone(file),
            records: records.filter(|_| counts),
            newest_key_time_s: properties.newest_key_time,
            oldest_ancestor_time_s,
            // What is damaged tells nothing: no record depends on it.
            times: sequence_times::decode(&properties.sequence_to_time_mapping).unwrap_or_default(),
            anchors,
        })
    }
}

/// Keys that cut a table into pieces of about the same length. Source:
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

/// Whether a table may have records between two user keys.
fn reaches(
    comparator: &Comparator,
    file: &FileMetadata,
    begin: Option<&[u8]>,
    end: Option<&[u8]>,
) -> bool {
    begin.is_none_or(|begin| comparator.compare(begin, file.largest_user_key()).is_le())
        && end.is_none_or(|end| comparator.compare(file.smallest_user_key(), end).is_lt())
}
