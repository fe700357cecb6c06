//! Writes memtables to synced tables.

use std::sync::Arc;

use tailwater_format::key;
use tailwater_format::version_edit::NewFile;

use super::scheduler::FlushScheduler;
use super::tables::Tables;
use super::timed_values::TimedValues;
use crate::column_family::{ColumnFamily, SealedMemTable};
use crate::compaction::merge::{
    DeeperLevels, InputTombstones, Merge, Rules, Snapshots, Source, Stop,
};
use crate::error::{Error, ErrorKind, Result};
use crate::handover::TableHandover;
use crate::iterator::{Leaf, MergingIterator};
use crate::memtable::MemTable;
use crate::panics;
use crate::range_tombstone::{StripedFragment, joined, striped_fragments};
use crate::stats::{LevelFigures, Work};
use crate::table::builder::FinishedTable;

/// A synced table of flushed memtables.
#[derive(Debug)]
pub(crate) struct FlushedTable {
    pub(crate) file: NewFile,
    /// The blocks of the table that are to be put into the caches when the table is installed.
    pub(crate) table_handover: Option<TableHandover>,
}

impl FlushScheduler {
    /// Writes and syncs the tables of sealed memtables, which are given oldest first. These are
    /// steps 1 and 2 of the flush module's description. Returns the tables in key order; none if no
    /// record is left to write.
    pub(crate) fn write_tables(
        &self,
        family: &ColumnFamily,
        sealed: &[SealedMemTable],
        work: Work,
    ) -> Result<Vec<FlushedTable>> {
        let begun_ns = self.context.clock.monotonic_ns();
        let memtables: Vec<Arc<MemTable>> =
            sealed.iter().rev().map(|sealed| Arc::clone(&sealed.memtable)).collect();
        let what = format!("a flush of '{}'", family.name());
        let tables = panics::catch(what, || self.fill_tables(family, &memtables))?;
        if tables.is_empty() {
            return Ok(Vec::new());
        }
        let millis = self.context.clock.since_ns(begun_ns) / 1_000_000;
        for table in &tables {
            self.context.info_log.info(format_args!(
                "flushed {} entries of '{}' into table {}: {} bytes, in {millis} ms",
                table.properties.num_entries,
                family.name(),
                table.properties.original_file_number,
                table.size
            ));
        }
        self.count_flush(family, &tables, work, begun_ns);
        let flushed = |table: FinishedTable| FlushedTable {
            file: table.new_file(0),
            table_handover: table.table_handover,
        };
        Ok(tables.into_iter().map(flushed).collect())
    }

    fn fill_tables(
        &self,
        family: &ColumnFamily,
        memtables: &[Arc<MemTable>],
    ) -> Result<Vec<FinishedTable>> {
        let times = self.write_times.of(&family.options());
        let snapshots = Snapshots::new(self.context.shared.snapshots.sequences());
        let layers: Vec<_> =
            memtables.iter().filter_map(|memtable| memtable.tombstones()).collect();
        let comparator = family.comparator();
        let all = layers.iter().flat_map(|layers| layers.iter());
        let below = |sequence| snapshots.stripe(sequence).below;
        let tombstones = joined(comparator, striped_fragments(comparator, all, below));
        let mut merge = self.merge(family, memtables, snapshots, &tombstones)?;
        let mut tables = Tables::new(self, family, memtables, times.clone());
        let mut timed_values = TimedValues::new(times.as_deref());
        let mut fragments = tombstones.iter().cloned().peekable();
        while let stop @ Stop::Record = merge.advance()? {
            let internal_key = merge.key(stop);
            let user_key = key::user_key(internal_key);
            while let Some(fragment) =
                fragments.next_if(|it| comparator.compare(it.start, user_key).is_le())
            {
                tables.add_fragment(fragment)?;
            }
            let (internal_key, value) = timed_values.convert(internal_key, merge.value())?;
            tables.add(internal_key, value)?;
        }
        fragments.try_for_each(|fragment| tables.add_fragment(fragment))?;
        check_all_read(memtables, merge.source().records())?;
        self.context.report_violations(family, "a flush", &merge.take_violations());
        tables.finish()
    }

    /// Begins a merge of memtables, which are given newest first.
    fn merge(
        &self,
        family: &ColumnFamily,
        memtables: &[Arc<MemTable>],
        snapshots: Snapshots,
        tombstones: &[StripedFragment<'_>],
    ) -> Result<Merge> {
        let comparator = family.comparator();
        let leaves = memtables
            .iter()
            .map(|memtable| Leaf::of_memtable(Arc::clone(memtable), key::MAX_SEQUENCE))
            .collect();
        let merged = MergingIterator::new(comparator.clone(), leaves);
        let rules = Rules {
            comparator: comparator.clone(),
            snapshots: Arc::new(snapshots),
            is_flush: true,
            is_bottommost: false,
            preserve_after: 0,
            reports_single_deletions: self.context.options.fixed().enforce_single_del_contracts,
            level: 0,
            filter: None,
            readers: family.readers(),
            cancelled: Vec::new(),
            low_priority: None,
        };
        let source = Source::begin(comparator.clone(), merged, None, None, None)?;
        let tombstones = Arc::new(InputTombstones::of_memtables(comparator, tombstones));
        let deeper = DeeperLevels::unknown(comparator.clone());
        Ok(Merge::new(rules, source, tombstones, deeper, Vec::new()))
    }

    fn count_flush(
        &self,
        family: &ColumnFamily,
        tables: &[FinishedTable],
        work: Work,
        begun_ns: u64,
    ) {
        let uncompressed =
            |it: &FinishedTable| it.properties.raw_key_size + it.properties.raw_value_size;
        let figures = LevelFigures {
            micros: self.context.clock.monotonic_ns().saturating_sub(begun_ns) / 1000,
            count: 1,
            bytes_written: tables.iter().map(|table| table.size).sum(),
            bytes_written_uncompressed: tables.iter().map(uncompressed).sum(),
            files_written: tables.len() as u64,
            ..LevelFigures::default()
        };
        let statistics = self.context.shared.statistics.as_deref();
        family.statistics().levels.record_flush(work, &figures, statistics);
    }
}

/// Checks that a flush has read every record of its memtables.
fn check_all_read(memtables: &[Arc<MemTable>], read: u64) -> Result<()> {
    let held: u64 = memtables
        .iter()
        .map(|memtable| memtable.counters())
        .map(|counters| counters.entries - counters.range_deletions)
        .sum();
    if read == held {
        return Ok(());
    }
    let message = format!("memtables hold {held} entries, but a flush read {read}");
    Err(Error::new(ErrorKind::Corruption, message))
}
