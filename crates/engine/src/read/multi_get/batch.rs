//! A batch of keys that are searched together: each stage of the search is done for all keys before
//! the next stage, so that the processor waits for the memory of several keys at the same time.

use std::sync::Arc;

use tailwater_format::block::{Interval, Restarts};
use tailwater_format::key::Sequence;
use tailwater_format::table::BlockHandle;

use crate::block_cache::{Block, BlockKind, BlockRef};
use crate::cache::Stage;
use crate::column_family::SuperVersion;
use crate::error::Error;
use crate::prefetch;
use crate::read::get::{Outcome, Progress, search_memtable};
use crate::stats::slow_reads::SearchCounts;
use crate::table::{
    AbsentRow, AccessResult, BlockAccess, FileMetadata, GetCursors, Lookup, Missing, PassedFilter,
    Resident, Row, RowCache, Sink, Step, Stop, TableReader,
};

/// Maximum number of keys in a batch.
pub(super) const BATCH_MAX: usize = 64;

/// A batch of keys of one column family. It lives as long as a call: what it has found so far stays
/// when it lacks a block, and the search goes on when the block was loaded.
pub(super) struct Batch<'k, S> {
    pub(super) sought: Vec<Sought<'k, S>>,
}

/// A key that is searched.
pub(super) struct Sought<'k, S> {
    /// Index of the key in the caller's list.
    pub(super) at: usize,
    pub(super) lookup: Lookup<'k, S>,
    pub(super) state: State,
    progress: Progress,
    in_table: InTable,
    /// The row that the row cache did not have of the current table.
    absent_row: Option<AbsentRow>,
}

/// How far the search for a key has come.
#[derive(Debug)]
pub(super) enum State {
    Searching,
    /// The search needs something that is not in memory.
    Waiting(Missing),
    /// The records of the key may continue over several blocks of the current table, which are not
    /// all in memory.
    Continuing(PassedFilter),
    Done,
    Failed(Error),
}

/// How far the search for a key has come in its current table.
#[derive(Debug, Clone, Copy)]
enum InTable {
    Unsearched,
    /// The filter did not exclude the key.
    Passed(PassedFilter),
    /// The records of the key may begin in this data block.
    Located(PassedFilter, BlockHandle),
}

/// A key that is searched in a table, in one pass through the stages.
struct TableSearch<'g> {
    /// Index of the key in the batch.
    key: usize,
    table: &'g TableReader,
    rows: Option<&'g RowCache>,
    /// Where the index is searched, if that is known.
    among: Option<Restarts>,
    block: Option<(BlockRef<'g>, BlockHandle)>,
    /// Where the block is searched, if that is known.
    interval: Option<Interval>,
}

/// How many keys have come to a table.
#[derive(Default)]
struct Entered {
    /// Number of keys for which tables are searched.
    searched: usize,
    /// Number of keys that were found in the row cache, and have left their tables.
    replayed: usize,
}

impl<'k, S: Sink> Batch<'k, S> {
    /// Creates an empty batch that can take `keys` keys without an allocation.
    pub(super) fn with_capacity(keys: usize) -> Self {
        Self { sought: Vec::with_capacity(keys.min(BATCH_MAX)) }
    }

    /// Takes the next keys, up to a full batch. Each comes with its index in the caller's list, and
    /// gets a sink for its value.
    pub(super) fn take(
        &mut self,
        keys: &mut impl Iterator<Item = (usize, &'k [u8])>,
        snapshot: Sequence,
        mut sink: impl FnMut() -> S,
    ) {
        let keys = keys.take(BATCH_MAX - self.sought.len());
        self.sought.extend(keys.map(|(at, user_key)| Sought {
            at,
            lookup: Lookup::new(user_key, snapshot, sink()),
            state: State::Searching,
            progress: Progress::default(),
            in_table: InTable::Unsearched,
            absent_row: None,
        }));
    }

    /// Whether the search for each key has ended, and no value must be read from a blob file or
    /// merged.
    pub(super) fn is_complete(&self) -> bool {
        self.sought.iter().all(|sought| match sought.state {
            State::Done => sought.lookup.is_delivered(),
            State::Failed(_) => true,
            State::Searching | State::Waiting(_) | State::Continuing(_) => false,
        })
    }

    /// Whether a key lacks something that is not in memory.
    pub(super) fn is_waiting(&self) -> bool {
        let is_waiting = |state: &State| matches!(state, State::Waiting(_) | State::Continuing(_));
        self.sought.iter().any(|sought| is_waiting(&sought.state))
    }

    /// Searches for each key until its search ends or lacks something in memory. If not
    /// `levels_together`, the search does not go beyond a level in which a key lacks something.
    pub(super) fn search<'g>(
        &mut self,
        source: &'g SuperVersion,
        access: &'g Resident<'g>,
        cursors: &mut GetCursors,
        levels_together: bool,
    ) {
        self.search_memtables(source);
        let mut searches = [const { None }; BATCH_MAX];
        let levels = source.version().levels().iter().enumerate();
        for (number, level) in levels.filter(|(_, level)| !level.files().is_empty()) {
            if !self.is_searching() || (!levels_together && self.is_waiting()) {
                return;
            }
            self.enter_level(number);
            let searches = &mut searches;
            if number == 0 {
                for (place, file) in level.files().iter().enumerate() {
                    self.search_tables(source, access, cursors, searches, |sought| {
                        let Progress { level, file: reached, .. } = sought.progress;
                        (level == 0 && reached == place).then_some(file)
                    });
                }
            } else {
                let is_here = |sought: &Sought<'_, S>| sought.progress.level == number;
                let next = |sought: &Sought<'_, S>| is_here(sought).then(|| sought.table(source));
                while self.search_tables(source, access, cursors, searches, |it| next(it).flatten())
                {
                }
            }
            self.end_level(number);
        }
        let searching = |state: &State| matches!(state, State::Searching);
        for sought in self.sought.iter_mut().filter(|sought| searching(&sought.state)) {
            sought.state = State::Done;
        }
    }

    fn is_searching(&self) -> bool {
        self.sought.iter().any(|sought| matches!(sought.state, State::Searching))
    }

    fn search_memtables(&mut self, source: &SuperVersion) {
        for (place, memtable) in source.memtables().iter().enumerate() {
            for sought in &mut self.sought {
                if !matches!(sought.state, State::Searching) || sought.progress.memtables != place {
                    continue;
                }
                match search_memtable(memtable, &mut sought.lookup) {
                    Ok(Step::Continue) if !sought.lookup.is_covered() => {
                        sought.progress.memtables += 1;
                    }
                    Ok(_) => sought.state = State::Done,
                    Err(error) => sought.state = State::Failed(error),
                }
            }
        }
    }

    /// Begins the search of a level that has tables for the keys that have searched all earlier
    /// levels. Levels without tables are skipped.
    fn enter_level(&mut self, number: usize) {
        for Sought { state, progress, .. } in &mut self.sought {
            if matches!(state, State::Searching) {
                progress.level = progress.level.max(number);
            }
        }
    }

    /// Ends the search of a level for the keys that have searched all of its tables. Checked only
    /// now: the records of a key may continue in the level's next table, and may be newer than a
    /// tombstone in the previous table.
    fn end_level(&mut self, number: usize) {
        for sought in &mut self.sought {
            if matches!(sought.state, State::Searching) && sought.progress.level == number {
                if sought.lookup.is_covered() {
                    sought.state = State::Done;
                } else {
                    (sought.progress.level, sought.progress.file) = (number + 1, 0);
                }
            }
        }
    }

    /// Searches one table for each key: that which `table_of` returns. Returns whether there were
    /// any.
    fn search_tables<'g, 'v>(
        &mut self,
        source: &'g SuperVersion,
        access: &'g Resident<'g>,
        cursors: &mut GetCursors,
        searches: &mut [Option<TableSearch<'g>>; BATCH_MAX],
        table_of: impl Fn(&Sought<'k, S>) -> Option<&'v Arc<FileMetadata>>,
    ) -> bool {
        let Entered { searched, replayed } = self.enter_tables(source, access, table_of, searches);
        let searches = &mut searches[..searched];
        self.pass_filters(searches, access, cursors);
        self.locate_blocks(searches, access, cursors);
        self.look_up_blocks(searches, access);
        self.search_blocks(searches, access, cursors);
        searched + replayed > 0
    }

    /// Begins to search a table for each key for which `table_of` returns one that may have the
    /// key, unless the row cache has its row.
    fn enter_tables<'g, 'v>(
        &mut self,
        source: &'g SuperVersion,
        access: &Resident<'g>,
        table_of: impl Fn(&Sought<'k, S>) -> Option<&'v Arc<FileMetadata>>,
        searches: &mut [Option<TableSearch<'g>>],
    ) -> Entered {
        let mut entered = Entered::default();
        let (comparator, rows) = (source.tables().comparator(), source.tables().rows());
        for (key, sought) in self.sought.iter_mut().enumerate() {
            if !matches!(sought.state, State::Searching) {
                continue;
            }
            let Some(file) = table_of(sought) else { continue };
            let user_key = sought.lookup.user_key;
            let overlaps = sought.progress.level > 0
                || comparator.compare(user_key, file.smallest_user_key()).is_ge()
                    && comparator.compare(user_key, file.largest_user_key()).is_le();
            if !overlaps {
                sought.progress.file += 1;
            } else if let Some(rows) = rows
                && sought.replay_row(rows, file)
            {
                entered.replayed += 1;
            } else if let Some(table) = opened(source, file, access) {
                if matches!(sought.in_table, InTable::Unsearched) {
                    table.prefetch_filter(user_key);
                }
                let (among, block, interval) = (None, None, None);
                let search = TableSearch { key, table, rows, among, block, interval };
                searches[entered.searched] = Some(search);
                entered.searched += 1;
            } else {
                sought.state = State::Waiting(Missing::Table);
            }
        }
        entered
    }

    fn pass_filters<'g>(
        &mut self,
        searches: &mut [Option<TableSearch<'g>>],
        access: &'g Resident<'g>,
        cursors: &mut GetCursors,
    ) {
        self.stage(searches, |sought, search| {
            if matches!(sought.in_table, InTable::Unsearched) {
                match search.table.pass_filter(access, &mut sought.lookup, cursors)? {
                    Some(passed) => sought.in_table = InTable::Passed(passed),
                    None => return Ok(Some(Step::Continue)),
                }
            }
            if let InTable::Passed(_) = sought.in_table {
                search.among = search.table.prefetch_index(sought.lookup.user_key);
            }
            Ok(None)
        });
        for search in searches.iter().flatten() {
            if let Some(among) = &search.among {
                search.table.prefetch_index_entry(among);
            }
        }
    }

    /// Searches the indexes.
    fn locate_blocks<'g>(
        &mut self,
        searches: &mut [Option<TableSearch<'g>>],
        access: &'g Resident<'g>,
        cursors: &mut GetCursors,
    ) {
        self.stage(searches, |sought, search| {
            if let InTable::Passed(passed) = sought.in_table {
                match search.table.locate(access, &sought.lookup, search.among, cursors)? {
                    Some(handle) => {
                        sought.in_table = InTable::Located(passed, handle);
                        search.table.prefetch_block(handle, Stage::Bucket, access.guard);
                    }
                    None => return Ok(Some(Step::Continue)),
                }
            }
            Ok(None)
        });
    }

    /// Looks up the data blocks in memory.
    fn look_up_blocks<'g>(
        &mut self,
        searches: &mut [Option<TableSearch<'g>>],
        access: &'g Resident<'g>,
    ) {
        self.stage(searches, |sought, search| {
            if let InTable::Located(_, handle) = sought.in_table {
                search.table.prefetch_block(handle, Stage::Entry, access.guard);
            }
            Ok(None)
        });
        self.stage(searches, |sought, search| {
            if let InTable::Located(_, handle) = sought.in_table {
                let block = access.block(search.table, handle, BlockKind::Data)?;
                prefetch::line(&raw const *block);
                search.block = Some((block, handle));
            }
            Ok(None)
        });
        for prefetch in [Block::prefetch_restarts, Block::prefetch_entries] {
            for (block, _) in searches.iter().flatten().filter_map(|it| it.block.as_ref()) {
                prefetch(block);
            }
        }
        self.stage(searches, |sought, search| {
            if let Some((block, handle)) = &search.block {
                search.interval = Some(search.table.interval(block, *handle, &sought.lookup)?);
            }
            Ok(None)
        });
    }

    fn search_blocks<'g>(
        &mut self,
        searches: &mut [Option<TableSearch<'g>>],
        access: &'g Resident<'g>,
        cursors: &mut GetCursors,
    ) {
        self.stage(searches, |sought, search| {
            let (InTable::Located(passed, _), Some((block, handle)), Some(interval)) =
                (sought.in_table, &search.block, search.interval)
            else {
                return Ok(Some(Step::Continue));
            };
            let (place, lookup) = ((block, *handle, interval), &mut sought.lookup);
            let step = search.table.get_at(access, place, lookup, cursors, passed)?;
            if step.is_none() {
                sought.state = State::Continuing(passed);
            }
            Ok(step)
        });
    }

    /// Runs one stage of a pass for each key that has not left its table in an earlier stage. `run`
    /// returns how the search goes on if the key leaves the table; `None` if it stays.
    fn stage<'g>(
        &mut self,
        searches: &mut [Option<TableSearch<'g>>],
        mut run: impl FnMut(
            &mut Sought<'k, S>,
            &mut TableSearch<'g>,
        ) -> AccessResult<Option<Step>, Resident<'g>>,
    ) {
        for slot in searches {
            let Some(search) = slot else { continue };
            let sought = &mut self.sought[search.key];
            match run(sought, search) {
                Ok(None) => continue,
                Ok(Some(step)) => sought.leave_table(step, search.rows),
                Err(Stop::Unreachable(missing)) => sought.state = State::Waiting(missing),
                Err(Stop::Failed(error)) => sought.state = State::Failed(error),
            }
            *slot = None;
        }
    }
}

impl<S: Sink> Sought<'_, S> {
    /// Passes the row of a table to the lookup, if the row cache has it, and leaves the table.
    /// Returns whether the key needs no search of this table.
    fn replay_row(&mut self, rows: &RowCache, file: &FileMetadata) -> bool {
        if !matches!(self.in_table, InTable::Unsearched) {
            return false;
        }
        match rows.replay(file, &mut self.lookup) {
            Ok(Row::Replayed(step)) => self.leave_table(step, None),
            Ok(Row::Absent(absent)) => {
                self.absent_row = absent;
                return false;
            }
            Err(error) => self.state = State::Failed(error),
        }
        true
    }

    /// Goes on to the next table, or ends the search. Adds a row to the row cache that lacked it.
    pub(super) fn leave_table(&mut self, step: Step, rows: Option<&RowCache>) {
        let absent = self.absent_row.take();
        if let Some(rows) = rows {
            rows.keep(absent, &self.lookup);
        }
        self.in_table = InTable::Unsearched;
        self.progress.tables += 1;
        match step {
            Step::Done => self.state = State::Done,
            // The tables of level 0 after this one are older. In other levels, the records of the
            // key may continue in the next table.
            Step::Continue if self.progress.level == 0 && self.lookup.is_covered() => {
                self.state = State::Done;
            }
            Step::Continue => self.progress.file += 1,
        }
    }

    /// Returns the table that the search has reached.
    pub(super) fn table<'v>(&self, source: &'v SuperVersion) -> Option<&'v Arc<FileMetadata>> {
        let level = source.version().levels().get(self.progress.level)?;
        let files = match self.progress.level {
            0 => level.files(),
            _ => {
                let comparator = source.tables().comparator();
                level.files_for(comparator, self.lookup.user_key, self.lookup.seek_trailer())
            }
        };
        files.get(self.progress.file)
    }

    /// Returns the key and the encoded blob index of the value, if it is in a blob file. The search
    /// must have ended.
    pub(super) fn blob(&self) -> Option<(&[u8], &[u8])> {
        match self.state {
            State::Failed(_) => None,
            _ => self.lookup.blob(),
        }
    }

    /// Returns how much was searched so far.
    pub(super) fn searched(&self, source: &SuperVersion) -> SearchCounts {
        self.progress.searched(source, &self.lookup)
    }

    /// Returns where the search ended, for the statistics.
    pub(super) fn outcome(&self, source: &SuperVersion) -> Outcome {
        Outcome::of(source, &self.lookup, self.progress)
    }
}

/// Returns a table's reader, if the table is open.
fn opened<'g>(
    source: &SuperVersion,
    file: &FileMetadata,
    access: &Resident<'g>,
) -> Option<&'g TableReader> {
    match source.tables().opened(file, access.guard) {
        Some(table) => Some(table.get()),
        None => access.loaded_table(file.cache_id()),
    }
}
