//! The range tombstones of a compaction's inputs.
//!
//! A range tombstone applies only between the bounds of its input table. The merge drops the
//! records that range tombstones cover, and allows an output to end where a range tombstone begins.
//! Each output then gets the range tombstones that are still needed in its key range. Source:
//! `db/range_del_aggregator.cc`, `table/compaction_merging_iterator.cc`.

use std::sync::Arc;

use tailwater_format::Comparator;
use tailwater_format::key::{self, Sequence};

use super::Snapshots;
use crate::error::{Error, Result};
use crate::range_tombstone::{
    Boundary, Cursor, FragmentedRangeTombstones, RangeTombstone, StripedFragment, Truncation, View,
    striped_fragments,
};
use crate::table::{FileMetadata, TableReader};

/// The range tombstones of all inputs.
#[derive(Debug, Default)]
pub(crate) struct InputTombstones {
    /// One run for each table of level 0, and one run for each deeper level, with the tables of
    /// that level in order.
    runs: Vec<Vec<TableTombstones>>,
}

/// The range tombstones of one table, truncated to the table's bounds.
#[derive(Debug)]
struct TableTombstones {
    fragments: Arc<FragmentedRangeTombstones>,
    truncation: Truncation,
}

impl TableTombstones {
    fn view(&self) -> View<'_> {
        self.fragments.truncated(&self.truncation)
    }
}

impl InputTombstones {
    /// Returns range tombstones that apply to all records, given as fragments.
    pub(crate) fn of_memtables(comparator: &Comparator, fragments: &[StripedFragment<'_>]) -> Self {
        let tombstones =
            fragments.iter().flat_map(|&StripedFragment { start, end, ref sequences }| {
                sequences.iter().map(move |&sequence| RangeTombstone { start, end, sequence })
            });
        let fragments = Arc::new(FragmentedRangeTombstones::build(comparator, tombstones));
        if fragments.is_empty() {
            return Self::default();
        }
        Self {
            runs: vec![vec![TableTombstones { fragments, truncation: Truncation::NONE.clone() }]],
        }
    }

    /// Whether the inputs have no range tombstones.
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.iter().all(Vec::is_empty)
    }

    /// Whether a range tombstone covers the user key.
    pub(crate) fn cover(&self, comparator: &Comparator, user_key: &[u8]) -> bool {
        self.runs.iter().flatten().any(|tombstones| {
            let view = tombstones.view();
            let mut cursor = everything();
            cursor.seek(view, user_key);
            cursor.valid() && comparator.compare(cursor.start(view).user_key, user_key).is_le()
        })
    }

    /// Starts a new run, to which the tables added next belong.
    pub(crate) fn begin_run(&mut self) {
        self.runs.push(Vec::new());
    }

    /// Adds the range tombstones of the next table of the current run.
    pub(crate) fn add(&mut self, file: &FileMetadata, table: &TableReader) -> Result<()> {
        let fragments = table.range_tombstones();
        if fragments.is_empty() {
            return Ok(());
        }
        let truncation = Truncation::new(file.smallest(), file.largest())
            .map_err(|error| Error::decoding(table.file().path(), 0, error))?;
        let tombstones = TableTombstones { fragments: Arc::clone(fragments), truncation };
        match self.runs.last_mut() {
            Some(run) => run.push(tombstones),
            None => self.runs.push(vec![tombstones]),
        }
        Ok(())
    }

    /// Returns the starts of all fragments that start at or after the user key `begin` and before
    /// the user key `end`. A fragment is a range between two neighbouring bounds of range
    /// tombstones. The starts are internal keys, in order.
    pub(crate) fn starts(
        &self,
        comparator: &Comparator,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Vec<Vec<u8>> {
        let mut starts = Vec::new();
        for tombstones in self.runs.iter().flatten() {
            let view = tombstones.view();
            let mut cursor = everything();
            cursor.seek_to_first(view);
            while cursor.valid() {
                let start = cursor.start(view);
                let is_within = begin
                    .is_none_or(|begin| comparator.compare(begin, start.user_key).is_le())
                    && end.is_none_or(|end| comparator.compare(start.user_key, end).is_lt());
                if is_within {
                    let mut internal_key = Vec::new();
                    key::put_internal_key(&mut internal_key, start.user_key, start.trailer);
                    starts.push(internal_key);
                }
                cursor.next(view);
            }
        }
        starts.sort_by(|a, b| key::compare_internal(comparator, a, b));
        starts.dedup_by(|a, b| key::compare_internal(comparator, a, b).is_eq());
        starts
    }

    /// Returns the fragments that overlap the range from `lower` to `upper`, inclusive; `None` is
    /// unbounded. A fragment has the newest range tombstone of each stripe. Fragments that extend
    /// beyond the range are returned in full.
    pub(crate) fn between(
        &self,
        comparator: &Comparator,
        snapshots: &Snapshots,
        lower: Option<Boundary<'_>>,
        upper: Option<Boundary<'_>>,
    ) -> Vec<StripedFragment<'_>> {
        let mut found = Vec::new();
        for tombstones in self.runs.iter().flatten() {
            let view = tombstones.view();
            let mut cursor = everything();
            match lower {
                Some(lower) => cursor.seek(view, lower.user_key),
                None => cursor.seek_to_first(view),
            }
            while cursor.valid() {
                let (start, end) = (cursor.start(view), cursor.end(view));
                if upper.is_some_and(|upper| upper.is_before(comparator, start)) {
                    break;
                }
                if lower.is_none_or(|lower| lower.is_before(comparator, end)) {
                    let (start, end) = (start.user_key, end.user_key);
                    let of = |sequence| RangeTombstone { start, end, sequence };
                    found.extend(snapshots.newest_of_stripes(cursor.sequences(view)).map(of));
                }
                cursor.next(view);
            }
        }
        striped_fragments(comparator, found, |sequence| snapshots.stripe(sequence).below)
    }
}

fn everything() -> Cursor {
    Cursor::new(key::MAX_SEQUENCE)
}

/// Checks whether range tombstones cover records. The records must be given in order.
#[derive(Debug)]
pub(crate) struct CoverCursor {
    comparator: Comparator,
    tombstones: Arc<InputTombstones>,
    /// For each sorted run of input tables, the position in the range tombstones of that run.
    places: Vec<RunPosition>,
}

#[derive(Debug)]
struct RunPosition {
    table: usize,
    cursor: Cursor,
    /// Whether the cursor is positioned within this table.
    is_placed: bool,
}

impl RunPosition {
    fn at_first() -> Self {
        Self { table: 0, cursor: everything(), is_placed: false }
    }
}

impl CoverCursor {
    /// Creates a cursor before the first record.
    pub(crate) fn new(comparator: Comparator, tombstones: Arc<InputTombstones>) -> Self {
        let runs = if tombstones.is_empty() { 0 } else { tombstones.runs.len() };
        let places = (0..runs).map(|_| RunPosition::at_first()).collect();
        Self { comparator, tombstones, places }
    }

    /// Whether a range tombstone covers a record, given as user key and trailer. Ignores range
    /// tombstones that are older than the record or above the sequence number `newest`. The caller
    /// must pass records in ascending order of internal keys, except after
    /// [`CoverCursor::restart`].
    #[inline]
    pub(crate) fn covers(&mut self, user_key: &[u8], trailer: u64, newest: Sequence) -> bool {
        !self.places.is_empty() && self.search(Boundary { user_key, trailer }, newest)
    }

    /// Moves the cursor back to the start. The caller may then pass any record next.
    pub(crate) fn restart(&mut self) {
        self.places.iter_mut().for_each(|place| *place = RunPosition::at_first());
    }

    fn search(&mut self, record: Boundary<'_>, newest: Sequence) -> bool {
        let comparator = &self.comparator;
        // Each run has the tombstones of one level, or of one table of level 0. The position in
        // every run is advanced, even if an earlier run already covers the record.
        let mut is_covered = false;
        for (run, place) in self.tombstones.runs.iter().zip(&mut self.places) {
            let Some(view) = place.go_to(comparator, run, record) else { continue };
            if record.is_before(comparator, place.cursor.start(view)) {
                continue;
            }
            let sequences = place.cursor.sequences(view);
            let shown = sequences.partition_point(|&sequence| sequence > newest);
            is_covered |=
                sequences.get(shown).is_some_and(|&sequence| sequence > record.trailer >> 8);
        }
        is_covered
    }
}

impl RunPosition {
    /// Advances to the first fragment in `run` whose end is after `record`. Returns the range
    /// tombstones of the table that has this fragment. Returns `None` if no fragment in `run` ends
    /// after `record`.
    fn go_to<'a>(
        &mut self,
        comparator: &Comparator,
        run: &'a [TableTombstones],
        record: Boundary<'_>,
    ) -> Option<View<'a>> {
        while let Some(tombstones) = run.get(self.table) {
            let view = tombstones.view();
            let is_behind =
                |cursor: &Cursor| cursor.valid() && !record.is_before(comparator, cursor.end(view));
            if !self.is_placed {
                self.cursor.seek_boundary(view, record);
                self.is_placed = true;
            } else if is_behind(&self.cursor) {
                self.cursor.next(view);
                if is_behind(&self.cursor) {
                    self.cursor.seek_boundary(view, record);
                }
            }
            if self.cursor.valid() {
                return Some(view);
            }
            self.table += 1;
            self.is_placed = false;
        }
        None
    }
}
