//! Writes memtables to a synced table.

use std::path::Path;
use std::sync::Arc;

use tailwater_format::key::{self, ValueType, pack_trailer, put_internal_key};
use tailwater_format::version_edit::NewFile;
use tailwater_io::Purpose;
use tailwater_io::pace::Priority;
use tailwater_io::stream::SequentialWriter;

use super::contents::Contents;
use super::scheduler::FlushScheduler;
use super::timed_values::TimedValues;
use crate::column_family::{ColumnFamily, SealedMemTable};
use crate::compaction::Snapshots;
use crate::error::{Error, ErrorKind, Result};
use crate::handover::{Handover, TableHandover, Warmth};
use crate::incomplete_file::IncompleteFile;
use crate::memtable::MemTable;
use crate::options::CompactionStyle;
use crate::panics;
use crate::range_tombstone::{StripedFragment, joined, striped_fragments};
use crate::sequence_times::SequenceTimes;
use crate::stats::{Histogram, LevelFigures, Work};
use crate::table::NewFiles;
use crate::table::builder::{Builder, FinishedTable, Origin, TableCompression};

/// A synced table of flushed memtables.
#[derive(Debug)]
pub(crate) struct FlushedTable {
    pub(crate) file: NewFile,
    /// The blocks of the table that are to be put into the caches when the table is installed.
    pub(crate) table_handover: Option<TableHandover>,
}

impl FlushScheduler {
    /// Writes and syncs a table of sealed memtables, which are given oldest first. These are steps
    /// 1 and 2 of the flush module's description. Returns `None` if no record is left to write.
    pub(crate) fn write_table(
        &self,
        family: &ColumnFamily,
        sealed: &[SealedMemTable],
        work: Work,
    ) -> Result<Option<FlushedTable>> {
        let begun_ns = self.context.clock.monotonic_ns();
        let memtables: Vec<Arc<MemTable>> =
            sealed.iter().rev().map(|sealed| Arc::clone(&sealed.memtable)).collect();
        let path = |number| family.new_table_path(number);
        let (number, path) = self.context.numbers.take_unused(&*self.context.storage, path)?;
        let what = format!("a flush of '{}'", family.name());
        let fill = || self.fill_table(family, &memtables, number, &path);
        let Some(mut table) = panics::catch(what, fill)? else { return Ok(None) };
        self.context.info_log.info(format_args!(
            "flushed {} entries of '{}' into table {number}: {} bytes",
            table.properties.num_entries,
            family.name(),
            table.size
        ));
        self.count_flush(family, &table, work, begun_ns);
        let table_handover = table.table_handover.take();
        Ok(Some(FlushedTable { file: table.new_file(0), table_handover }))
    }

    /// Creates the table at `path`, and fills and syncs it. After a failure the table is removed.
    fn fill_table(
        &self,
        family: &ColumnFamily,
        memtables: &[Arc<MemTable>],
        number: u64,
        path: &Path,
    ) -> Result<Option<FinishedTable>> {
        if memtables.iter().all(|memtable| holds_nothing(memtable)) {
            return Ok(None);
        }
        let writer = self.create_table(family, path)?;
        let incomplete = IncompleteFile::created(&*self.context.storage, path);
        let builder = self.table_builder(family, memtables, number, path, writer)?;
        let times = self.write_times.of(&family.options());
        let mut builder = builder.with_times(times.clone());
        let snapshots = Snapshots::new(self.context.shared.snapshots.sequences());
        let layers: Vec<_> =
            memtables.iter().filter_map(|memtable| memtable.tombstones()).collect();
        let comparator = family.comparator();
        let all = layers.iter().flat_map(|layers| layers.iter());
        let below = |sequence| snapshots.stripe(sequence).below;
        let tombstones = joined(comparator, striped_fragments(comparator, all, below));
        let mut contents = Contents::new(family.comparator(), memtables, &snapshots, &tombstones)?;
        self.add_entries(family, memtables, &mut contents, times.as_deref(), &mut builder)?;
        if self.context.options.fixed().enforce_single_del_contracts {
            self.context.report_violations(family, "a flush", contents.violations());
        }
        add_range_tombstones(&tombstones, &mut builder)?;
        let (table, mut writer) = builder.finish()?;
        let statistics = self.context.shared.statistics.as_deref();
        let started = statistics.map(|statistics| (statistics, statistics.start()));
        writer.sync()?;
        if let Some((statistics, started)) = started {
            statistics.record_since(Histogram::TableSync, started);
        }
        writer.close()?;
        if let Some(directory) = path.parent() {
            self.context.storage.sync_directory(directory)?;
        }
        incomplete.complete();
        Ok(Some(table))
    }

    fn count_flush(&self, family: &ColumnFamily, table: &FinishedTable, work: Work, begun_ns: u64) {
        let properties = &table.properties;
        let figures = LevelFigures {
            micros: self.context.clock.monotonic_ns().saturating_sub(begun_ns) / 1000,
            count: 1,
            bytes_written: table.size,
            bytes_written_uncompressed: properties.raw_key_size + properties.raw_value_size,
            files_written: 1,
            ..LevelFigures::default()
        };
        let statistics = self.context.shared.statistics.as_deref();
        family.statistics().levels.record_flush(work, &figures, statistics);
    }

    /// Creates the file of a table.
    fn create_table(&self, family: &ColumnFamily, path: &Path) -> Result<SequentialWriter> {
        let database = self.context.options.now();
        let buffers = self.buffers.lock().clone();
        let rate_limiter = self.context.options.rate_limiter();
        let files = NewFiles {
            storage: &*self.context.storage,
            database: &database,
            io_modes: self.context.readers.io_modes(),
            buffers: &buffers,
            workers: self.writers.as_ref(),
            rate_limiter: rate_limiter.as_ref(),
        };
        let expected_bytes = family.options().write_buffer_size;
        let purpose = Purpose::FlushWrite;
        let mut writer = files.create(path, purpose, Priority::High, expected_bytes)?;
        let readers = family.readers();
        let handover = readers.tables.context().handover.as_ref();
        if handover.is_some_and(|handover| handover.warmth_of_memtables().paged) {
            files.warm_through_page_cache(&mut writer, path, purpose);
        }
        Ok(writer)
    }

    /// Begins a table in the file that `writer` writes.
    fn table_builder(
        &self,
        family: &ColumnFamily,
        memtables: &[Arc<MemTable>],
        number: u64,
        path: &Path,
        writer: SequentialWriter,
    ) -> Result<Builder> {
        let settings = family.settings();
        let handover = settings.readers.tables.context().handover.as_ref();
        let format = Arc::clone(&settings.table_format);
        let compression = TableCompression::for_flush(&settings.options);
        let origin = self.table_origin(family, memtables, number);
        let builder = Builder::new(format, &compression, origin, path, writer)?;
        Ok(builder.with_handover(handover.and_then(Handover::of_flush)))
    }

    fn add_entries(
        &self,
        family: &ColumnFamily,
        memtables: &[Arc<MemTable>],
        contents: &mut Contents<'_>,
        times: Option<&SequenceTimes>,
        builder: &mut Builder,
    ) -> Result<()> {
        let mut timed_values = TimedValues::new(times);
        let handover = family.readers().tables.context().handover.clone();
        contents.for_each(|key, value| {
            let (key, value) = timed_values.convert(key, value)?;
            match &handover {
                Some(handover) => {
                    let was_read = memtables.iter().any(|it| it.was_read(key::user_key(key)));
                    let warmth = handover.warmth_of_memtables();
                    builder.add_warm(key, value, if was_read { warmth } else { Warmth::default() })
                }
                None => builder.add(key, value),
            }
        })?;
        let held: u64 = memtables
            .iter()
            .map(|memtable| memtable.counters())
            .map(|counters| counters.entries - counters.range_deletions)
            .sum();
        if contents.read() != held {
            let read = contents.read();
            let message = format!("memtables hold {held} entries, but a flush read {read}");
            return Err(Error::new(ErrorKind::Corruption, message));
        }
        Ok(())
    }

    fn table_origin(
        &self,
        family: &ColumnFamily,
        memtables: &[Arc<MemTable>],
        number: u64,
    ) -> Origin {
        let now_s = self.context.clock.wall_us() / 1_000_000;
        let written = memtables.iter().filter_map(|memtable| memtable.oldest_key_time_s());
        let oldest_key_time_s = written.min().unwrap_or(now_s).min(now_s);
        let is_fifo = family.options().compaction_style == CompactionStyle::Fifo;
        Origin {
            file_number: number,
            oldest_ancestor_time_s: if is_fifo { now_s } else { oldest_key_time_s },
            creation_time_s: now_s,
            oldest_key_time_s,
            newest_key_time_s: now_s,
            ..self.context.origin(family)
        }
    }
}

/// Whether a memtable has neither an entry nor a range tombstone that deletes something.
fn holds_nothing(memtable: &MemTable) -> bool {
    let counters = memtable.counters();
    let deletes_ranges = || memtable.tombstones().is_some_and(|layers| !layers.deletes_nothing());
    counters.entries == counters.range_deletions && !deletes_ranges()
}

fn add_range_tombstones(tombstones: &[StripedFragment<'_>], builder: &mut Builder) -> Result<()> {
    let mut start = Vec::new();
    for fragment in tombstones {
        for &sequence in &fragment.sequences {
            let trailer = pack_trailer(sequence, ValueType::RangeDeletion as u8);
            start.clear();
            put_internal_key(&mut start, fragment.start, trailer);
            builder.add_range_tombstone(&start, fragment.end)?;
        }
    }
    Ok(())
}
