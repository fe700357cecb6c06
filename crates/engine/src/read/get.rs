//! Gets: the search for a key in one source after another, newest first.

use std::cell::Cell;
use std::sync::Arc;

use tailwater_format::key::{ParsedKey, Sequence};
use tailwater_io::charge_reads;

use crate::column_family::SuperVersion;
use crate::epoch::{self, FullEpochCell, Guard};
use crate::error::Result;
use crate::memtable::MemTable;
use crate::stats::slow_reads::SearchCounts;
use crate::stats::{Histogram, Recorder, Started, Statistics, Ticker};
use crate::table::{
    AccessResult, BlockAccess, FileMetadata, GetCursors, Loading, Lookup, Missing, Owner,
    ReadProfile, Resident, Row, RowCache, Sink, Step, Stop, TableReader,
};

thread_local! {
    /// The cursors that this thread's last get used, kept so that the next get reuses their
    /// buffers.
    static CURSORS: Cell<Option<Box<GetCursors>>> = const { Cell::new(None) };
}

/// How far a get has searched the sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Progress {
    /// Number of memtables that were searched.
    pub(super) memtables: usize,
    /// Number of tables that were searched.
    pub(super) tables: u32,
    pub(super) level: usize,
    /// Number of tables of the current level that the get has searched or skipped. Only tables that
    /// may contain the key are counted.
    pub(super) file: usize,
}

impl Progress {
    /// Returns how much was searched so far.
    pub(super) fn searched<S: Sink>(
        self,
        source: &SuperVersion,
        lookup: &Lookup<'_, S>,
    ) -> SearchCounts {
        SearchCounts {
            memtables: source.memtables().len().min(self.memtables + 1) as u64,
            tables: self.tables.into(),
            versions: lookup.versions_skipped.into(),
            tombstones: 0,
        }
    }
}

/// How a get accesses tables: only in memory ([`Resident`]), or also from files ([`Loading`]).
trait TableAccess: BlockAccess {
    /// Passes the records of the sought key in a table to `lookup`.
    fn get<S: Sink>(
        &self,
        source: &SuperVersion,
        file: &Arc<FileMetadata>,
        lookup: &mut Lookup<'_, S>,
        cursors: &mut GetCursors,
    ) -> AccessResult<Step, Self>;
}

impl TableAccess for Resident<'_> {
    #[inline]
    fn get<S: Sink>(
        &self,
        source: &SuperVersion,
        file: &Arc<FileMetadata>,
        lookup: &mut Lookup<'_, S>,
        cursors: &mut GetCursors,
    ) -> AccessResult<Step, Self> {
        let Some(table) = source.tables().opened(file, self.guard) else {
            return Err(Stop::Unreachable(Missing::Table));
        };
        let mark = self.mark();
        let step = table.get().get(self, lookup, cursors);
        if step.is_err() {
            self.rewind(&mark);
        }
        step
    }
}

impl TableAccess for Loading<'_> {
    fn get<S: Sink>(
        &self,
        source: &SuperVersion,
        file: &Arc<FileMetadata>,
        lookup: &mut Lookup<'_, S>,
        cursors: &mut GetCursors,
    ) -> Result<Step> {
        let table: Arc<TableReader> = source.tables().open(file, self.0.purpose)?;
        table.get(self, lookup, cursors)
    }
}

/// Passes the records of the sought key in a table to `lookup`. With a row cache, takes them from
/// there if possible.
#[inline]
fn get_in_table<A: TableAccess, S: Sink>(
    rows: Option<&RowCache>,
    access: &A,
    source: &SuperVersion,
    file: &Arc<FileMetadata>,
    lookup: &mut Lookup<'_, S>,
    cursors: &mut GetCursors,
) -> AccessResult<Step, A> {
    match rows {
        None => access.get(source, file, lookup, cursors),
        Some(rows) => get_row(rows, access, source, file, lookup, cursors),
    }
}

#[inline(never)]
fn get_row<A: TableAccess, S: Sink>(
    rows: &RowCache,
    access: &A,
    source: &SuperVersion,
    file: &Arc<FileMetadata>,
    lookup: &mut Lookup<'_, S>,
    cursors: &mut GetCursors,
) -> AccessResult<Step, A> {
    match rows.replay(file, lookup)? {
        Row::Replayed(step) => Ok(step),
        Row::Absent(absent) => {
            let step = access.get(source, file, lookup, cursors)?;
            rows.keep(absent, lookup);
            Ok(step)
        }
    }
}

/// Reads the value of a key into `sink`. Returns whether the key has a value. Sets `searched`, if
/// given, to how much was searched.
///
/// `snapshot` returns the sequence number to read at. It is called after the sources are pinned, so
/// that the sources hold everything that is visible at this sequence number.
#[inline(always)]
pub(crate) fn get<S: Sink>(
    current: &FullEpochCell<SuperVersion>,
    user_key: &[u8],
    snapshot: impl FnOnce() -> Sequence,
    profile: &ReadProfile,
    sink: &mut S,
    statistics: Option<&Statistics>,
    searched: Option<&mut SearchCounts>,
) -> Result<bool> {
    let started = statistics.map(Statistics::start);
    let mut outcome = Outcome::default();
    let note = |source: &SuperVersion, lookup: &Lookup<'_, &mut S>, progress: Progress| {
        outcome = Outcome::of(source, lookup, progress);
        if let Some(searched) = searched {
            *searched = progress.searched(source, lookup);
        }
    };
    let found = with_cursors(|cursors| {
        let guard = epoch::pin();
        let held = current.load(&guard);
        let mut lookup = Lookup::new(user_key, snapshot(), &mut *sink);
        let mut progress = Progress::default();
        let missing =
            search_memory(held.get(), &guard, &mut lookup, &mut progress, cursors, statistics)?;
        if missing.is_none() && !lookup.needs_blob() {
            note(held.get(), &lookup, progress);
            return lookup.finish(held.merge_operator(), |_, _| Ok(Vec::new()));
        }
        let source = held.to_arc();
        drop(guard);
        finish(&source, missing, lookup, progress, profile, cursors, note)
    });
    if let (Some(statistics), Some(started)) = (statistics, started) {
        let bytes = matches!(found, Ok(true)).then(|| sink.length() as u64);
        outcome.count(statistics, bytes, started);
    }
    found
}

/// Where a get ended, for the statistics.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Outcome {
    /// Whether the search ended in a memtable.
    in_memtable: bool,
    /// If the search found a value in a table: the level of that table. For merge operands, the
    /// table is that of their base value.
    level: Option<usize>,
}

impl Outcome {
    #[inline]
    pub(super) fn of<S: Sink>(
        source: &SuperVersion,
        lookup: &Lookup<'_, S>,
        progress: Progress,
    ) -> Self {
        let in_memtable = progress.memtables < source.memtables().len();
        let level = (!in_memtable && lookup.found_value()).then_some(progress.level);
        Self { in_memtable, level }
    }

    pub(super) fn count_sources(self, recorder: &Recorder<'_>) {
        let memtables = if self.in_memtable { Ticker::MemtableHit } else { Ticker::MemtableMiss };
        recorder.add(memtables, 1);
        match self.level {
            None => {}
            Some(0) => recorder.add(Ticker::GetHitL0, 1),
            Some(1) => recorder.add(Ticker::GetHitL1, 1),
            Some(_) => recorder.add(Ticker::GetHitL2AndUp, 1),
        }
    }

    /// Counts a get. `bytes` is the size of the value in bytes; `None` if the get found none.
    fn count(self, statistics: &Statistics, bytes: Option<u64>, started: Started) {
        let recorder = statistics.recorder();
        self.count_sources(&recorder);
        recorder.add(Ticker::KeysRead, 1);
        if let Some(bytes) = bytes {
            recorder.add(Ticker::BytesRead, bytes);
            recorder.record(Histogram::BytesPerRead, bytes);
        }
        statistics.record_since(Histogram::DbGet, started);
    }
}

/// Completes a get that has searched the memtables and the table blocks in memory. If something was
/// missing there, continues the search in files. Then reads the value's blob, if the value is in a
/// blob file, and merges the operands. `note` gets how far the search came.
fn finish<S: Sink>(
    source: &SuperVersion,
    missing: Option<Missing>,
    mut lookup: Lookup<'_, S>,
    mut progress: Progress,
    profile: &ReadProfile,
    cursors: &mut GetCursors,
    note: impl FnOnce(&SuperVersion, &Lookup<'_, S>, Progress),
) -> Result<bool> {
    let _charged = charge_reads(profile.charged);
    let searched = match missing {
        Some(_) => search(source, &Loading(profile), &mut lookup, &mut progress, cursors),
        None => Ok(()),
    };
    note(source, &lookup, progress);
    searched?;
    lookup.finish(source.merge_operator(), |user_key, index| source.read_blob(user_key, index))
}

pub(super) fn with_cursors<R>(read: impl FnOnce(&mut GetCursors) -> R) -> R {
    // While the thread exits, its cursors may already have been dropped. Then new ones are used.
    let mut cursors = CURSORS.try_with(Cell::take).ok().flatten().unwrap_or_default();
    let result = read(&mut cursors);
    let _ = CURSORS.try_with(|kept| kept.set(Some(cursors)));
    result
}

/// Searches the memtables and the table blocks in memory, and adds what it counted to the
/// statistics. Returns what is missing in memory; `None` when the search is complete.
#[inline(always)]
fn search_memory<S: Sink>(
    source: &SuperVersion,
    guard: &Guard,
    lookup: &mut Lookup<'_, S>,
    progress: &mut Progress,
    cursors: &mut GetCursors,
    statistics: Option<&Statistics>,
) -> Result<Option<Missing>> {
    let resident = Resident::new(guard);
    let missing = match search(source, &resident, lookup, progress, cursors) {
        Ok(()) => None,
        Err(Stop::Unreachable(missing)) => Some(missing),
        Err(Stop::Failed(error)) => return Err(error),
    };
    if let Some(statistics) = statistics {
        resident.add_to(statistics);
    }
    Ok(missing)
}

/// Searches the sources, beginning at `progress`. If `access` cannot provide a block or table that
/// is needed, `progress` is at the source that needs it.
#[inline(always)]
fn search<A: TableAccess, S: Sink>(
    source: &SuperVersion,
    access: &A,
    lookup: &mut Lookup<'_, S>,
    progress: &mut Progress,
    cursors: &mut GetCursors,
) -> AccessResult<(), A> {
    while let Some(memtable) = source.memtables().get(progress.memtables) {
        if search_memtable(memtable, lookup)? == Step::Done || lookup.is_covered() {
            return Ok(());
        }
        progress.memtables += 1;
    }
    let (comparator, rows) = (source.tables().comparator(), source.tables().rows());
    let levels = source.version().levels();
    while let Some(level) = levels.get(progress.level) {
        let key = lookup.user_key;
        let is_first = progress.level == 0;
        let files = if is_first {
            level.files()
        } else {
            level.files_for(comparator, key, lookup.seek_trailer())
        };
        while let Some(file) = files.get(progress.file) {
            let overlaps = !is_first
                || comparator.compare(key, file.smallest_user_key()).is_ge()
                    && comparator.compare(key, file.largest_user_key()).is_le();
            if overlaps {
                let step = get_in_table(rows, access, source, file, lookup, cursors)?;
                progress.tables += 1;
                match step {
                    Step::Done => return Ok(()),
                    Step::Continue if is_first && lookup.is_covered() => return Ok(()),
                    Step::Continue => {}
                }
            }
            progress.file += 1;
        }
        // Checked only after the whole level: the records of a key may continue in the level's next
        // table, and may be newer than a tombstone in the previous table.
        if lookup.is_covered() {
            return Ok(());
        }
        progress.level += 1;
        progress.file = 0;
    }
    Ok(())
}

#[inline]
pub(super) fn search_memtable<S: Sink>(
    memtable: &MemTable,
    lookup: &mut Lookup<'_, S>,
) -> Result<Step> {
    lookup.cover(memtable.covering_sequence(lookup.user_key, lookup.snapshot));
    let mut versions = memtable.versions(lookup.user_key, lookup.snapshot);
    while let Some((user_key, version)) = versions.next_with_key() {
        let record =
            ParsedKey { user_key, sequence: version.sequence, value_type: version.value_type };
        if lookup.accept(&record, version.value, Owner::MemTable)? == Step::Done {
            memtable.note_read(user_key);
            return Ok(Step::Done);
        }
    }
    Ok(Step::Continue)
}

#[cfg(test)]
mod tests {
    use super::{Outcome, Statistics};

    #[test]
    fn hits_are_counted_for_the_level_of_the_value() {
        let statistics = Statistics::new();
        for level in [0, 1, 1, 2, 3, 6] {
            let outcome = Outcome { in_memtable: false, level: Some(level) };
            outcome.count_sources(&statistics.recorder());
        }
        let hits = ["l0", "l1", "l2andup"]
            .map(|level| statistics.ticker(&format!("rocksdb.{level}.hit")).expect("a ticker"));
        assert_eq!(hits, [1, 2, 3]);
        assert_eq!(statistics.ticker("rocksdb.memtable.miss"), Some(6));
    }
}
