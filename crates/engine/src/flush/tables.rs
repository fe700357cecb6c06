//! The tables that one flush writes: a single table, unless keys of extreme length, or very many
//! range tombstones, would make a block of the table longer than a block may be.
//!
//! A table then ends before a key, and the next table begins with it. A range tombstone that spans
//! the cut is split there. If the versions of one key do not fit a table, the cut is between two of
//! them. The table with the newer versions is searched first, and has no tombstone that covers the
//! key. So all versions in it must be newer than such a tombstone. If there are more versions that
//! are older, which are kept only for snapshots, the flush fails.
//!
//! The range tombstones are given to a table in fragments, which do not overlap. The last fragment
//! is held back until its end is reached, because a cut may split it.

use std::borrow::Cow;
use std::sync::Arc;

use tailwater_format::key::{self, ValueType, pack_trailer, put_internal_key};
use tailwater_io::Purpose;
use tailwater_io::pace::Priority;

use super::scheduler::FlushScheduler;
use crate::column_family::ColumnFamily;
use crate::error::{Error, Result};
use crate::handover::{Handover, Warmth};
use crate::incomplete_file::IncompleteFile;
use crate::memtable::MemTable;
use crate::options::CompactionStyle;
use crate::range_tombstone::StripedFragment;
use crate::sequence_times::SequenceTimes;
use crate::stats::Histogram;
use crate::table::NewFiles;
use crate::table::builder::{Builder, FinishedTable, Origin, TableCompression};

/// The tables of a flush, while they are written. Records and fragments of range tombstones must be
/// added in key order; a fragment that begins at a record's key is added before the record.
pub(super) struct Tables<'f> {
    flushes: &'f FlushScheduler,
    family: &'f ColumnFamily,
    memtables: &'f [Arc<MemTable>],
    times: Option<Arc<SequenceTimes>>,
    handover: Option<Arc<Handover>>,
    /// The table that is being written. It begins with the first record or fragment.
    current: Option<Builder>,
    /// The last fragment, which is not in a table yet.
    open: Option<OpenFragment<'f>>,
    finished: Vec<FinishedTable>,
    /// The files of all tables, those that are finished included.
    files: Vec<IncompleteFile<'f>>,
}

/// A fragment of range tombstones that is not in a table yet.
struct OpenFragment<'t> {
    /// The start of the part of the fragment that is in no table.
    start: Cow<'t, [u8]>,
    fragment: StripedFragment<'t>,
}

impl<'f> Tables<'f> {
    /// Creates the state of a flush that has written nothing yet. If it is dropped before
    /// [`Tables::finish`] has succeeded, all its tables are removed.
    pub(super) fn new(
        flushes: &'f FlushScheduler,
        family: &'f ColumnFamily,
        memtables: &'f [Arc<MemTable>],
        times: Option<Arc<SequenceTimes>>,
    ) -> Self {
        Self {
            flushes,
            family,
            memtables,
            times,
            handover: family.readers().tables.context().handover.clone(),
            current: None,
            open: None,
            finished: Vec::new(),
            files: Vec::new(),
        }
    }

    /// Adds a record.
    pub(super) fn add(&mut self, internal_key: &[u8], value: &[u8]) -> Result<()> {
        let user_key = key::user_key(internal_key);
        if let Some(table) = &self.current
            && table.is_index_half_full(internal_key.len())
            && self.ends_before(table, internal_key)
        {
            self.cut(user_key)?;
        }
        let warmth = match &self.handover {
            Some(handover) if handover.was_read(user_key) => handover.warmth_of_recent_keys(),
            _ => Warmth::default(),
        };
        self.table()?.add_warm(internal_key, value, warmth, || None)
    }

    /// Adds a fragment of range tombstones.
    pub(super) fn add_fragment(&mut self, fragment: StripedFragment<'f>) -> Result<()> {
        self.close_fragment()?;
        let (start, count) = (fragment.start, fragment.sequences.len());
        let length = fragment.start.len() + fragment.end.len();
        if self.current.as_ref().is_some_and(|it| !it.has_tombstone_room(count, length)) {
            self.cut(start)?;
        }
        self.open = Some(OpenFragment { start: Cow::Borrowed(start), fragment });
        Ok(())
    }

    /// Completes the last table. Returns all tables, which are synced, in key order.
    pub(super) fn finish(mut self) -> Result<Vec<FinishedTable>> {
        self.close_fragment()?;
        self.complete()?;
        for (file, table) in self.files.into_iter().zip(&self.finished) {
            self.flushes.context.files.added(file.path(), table.size);
            file.complete();
        }
        Ok(self.finished)
    }

    /// Whether a table whose index is half full ends before a record.
    fn ends_before(&self, table: &Builder, internal_key: &[u8]) -> bool {
        let (comparator, user_key) = (self.family.comparator(), key::user_key(internal_key));
        if comparator.compare(table.last_user_key(), user_key).is_ne() {
            return true;
        }
        let covers_version = |OpenFragment { fragment, .. }: &OpenFragment<'_>| {
            let newest = fragment.sequences.first().copied().unwrap_or(0);
            table.last_sequence() < newest && comparator.compare(user_key, fragment.end).is_lt()
        };
        !table.has_index_room(internal_key.len()) && !self.open.as_ref().is_some_and(covers_version)
    }

    /// Ends the table before the user key `at`.
    fn cut(&mut self, at: &[u8]) -> Result<()> {
        if let Some(OpenFragment { start, fragment }) = self.open.take() {
            let comparator = self.family.comparator();
            let spans = comparator.compare(at, fragment.end).is_lt();
            let end = if spans { at } else { fragment.end };
            if comparator.compare(&start, end).is_lt() {
                self.add_tombstones(&start, end, &fragment)?;
            }
            self.open = spans.then(|| OpenFragment { start: Cow::Owned(at.to_vec()), fragment });
        }
        self.complete()
    }

    /// Adds the open fragment up to its end.
    fn close_fragment(&mut self) -> Result<()> {
        match self.open.take() {
            Some(OpenFragment { start, fragment }) => {
                self.add_tombstones(&start, fragment.end, &fragment)
            }
            None => Ok(()),
        }
    }

    fn add_tombstones(
        &mut self,
        start: &[u8],
        end: &[u8],
        fragment: &StripedFragment<'_>,
    ) -> Result<()> {
        let table = self.table()?;
        let mut internal_key = Vec::new();
        for &sequence in &fragment.sequences {
            let trailer = pack_trailer(sequence, ValueType::RangeDeletion as u8);
            internal_key.clear();
            put_internal_key(&mut internal_key, start, trailer);
            table.add_range_tombstone(&internal_key, end)?;
        }
        Ok(())
    }

    /// Completes and syncs the current table, if there is one.
    fn complete(&mut self) -> Result<()> {
        let Some(builder) = self.current.take() else { return Ok(()) };
        let (table, mut writer) = builder.finish()?;
        let statistics = self.flushes.context.shared.statistics.as_deref();
        let started = statistics.map(|statistics| (statistics, statistics.start()));
        writer.sync()?;
        if let Some((statistics, started)) = started {
            statistics.record_since(Histogram::TableSync, started);
        }
        writer.close()?;
        if let Some(directory) = self.files.last().and_then(|file| file.path().parent()) {
            self.flushes.context.storage.sync_directory(directory)?;
        }
        self.finished.push(table);
        Ok(())
    }

    /// Returns the current table. Begins one if there is none.
    fn table(&mut self) -> Result<&mut Builder> {
        if self.current.is_none() {
            self.current = Some(self.begin()?);
        }
        self.current.as_mut().ok_or_else(|| Error::internal("a flush has no table"))
    }

    /// Creates the file of the next table, and begins the table.
    fn begin(&mut self) -> Result<Builder> {
        let (flushes, context) = (self.flushes, &self.flushes.context);
        let path = |number| self.family.new_table_path(number);
        let (number, path) = context.numbers.take_unused(&*context.storage, path)?;
        let database = context.options.now();
        let buffers = flushes.buffers.lock().clone();
        let (rate_limiter, writers) = (context.rate_limiter(), flushes.writers.upgrade());
        let files = NewFiles {
            storage: &*context.storage,
            database: &database,
            io_modes: &context.shared.io_modes,
            buffers: &buffers,
            workers: writers.as_ref(),
            rate_limiter: rate_limiter.as_ref(),
        };
        let settings = self.family.settings();
        let expected_bytes = settings.options.write_buffer_size;
        let purpose = Purpose::FlushWrite;
        let handover = self.handover.as_ref().and_then(|handover| handover.of_flush(number));
        let priority = context.stall.pressure().priority(Priority::High);
        let writer = files.create(&path, purpose, priority, expected_bytes, handover.as_ref())?;
        self.files.push(IncompleteFile::created(&*context.storage, &path));
        let format = Arc::clone(&settings.table_format);
        let compression = TableCompression::for_flush(&settings.options);
        let builder = Builder::new(format, &compression, self.origin(number), &path, writer)?;
        let charges = &settings.readers.tables.context().charges;
        Ok(builder
            .with_handover(handover)
            .with_filter_charge(charges.filters.as_ref())
            .with_times(self.times.clone()))
    }

    fn origin(&self, number: u64) -> Origin {
        let context = &self.flushes.context;
        let now_s = context.clock.wall_us() / 1_000_000;
        let written = self.memtables.iter().filter_map(|memtable| memtable.oldest_key_time_s());
        let oldest_key_time_s = written.min().unwrap_or(now_s).min(now_s);
        let is_fifo = self.family.options().compaction_style == CompactionStyle::Fifo;
        Origin {
            file_number: number,
            oldest_ancestor_time_s: if is_fifo { now_s } else { oldest_key_time_s },
            creation_time_s: now_s,
            oldest_key_time_s,
            newest_key_time_s: now_s,
            ..context.origin(self.family)
        }
    }
}
