//! What the user sees of a column family: one value a key, at one snapshot, within bounds.
//!
//! Going forward the iterator stands on the newest visible record of its key, and the records
//! behind it that are older are passed by when it moves on. Going backward the records of a key
//! come oldest first, so its value is only known once all of them are behind: the iterator then
//! stands before its key and holds a copy of the value.

mod backward;
mod counts;
mod forward;
mod operands;

use std::cmp::Ordering;
use std::sync::Arc;

use tailwater_format::Comparator;
use tailwater_format::key::{self, MAX_SEQUENCE, Sequence, ValueType};

use crate::Result;
use crate::db::{ReadOptions, SuperVersion};
use crate::iterator::{Leaf, LevelIterator, MergingIterator};
use crate::prefix_extractor::PrefixExtractor;
use crate::stats::IteratorCharge;
use crate::table::{ReadPlan, ReadProfile, TableIterator};

use counts::Counts;
use operands::Operands;

/// Behind every record of its key: the last trailer there can be.
const LAST_TRAILER: u64 = 0;
/// Before every record of its key.
const FIRST_TRAILER: u64 = key::pack_trailer(MAX_SEQUENCE, 0xff);

/// An iterator over the keys and values of a column family, in the comparator's order.
///
/// It sees one sequence number, fixed when it was made, and keeps the memtables and tables it needs
/// for that. A new iterator stands on nothing; a seek places it. After an error it stands on
/// nothing until the next seek. It may be sent to another thread but not be shared.
pub struct DbIterator {
    merged: MergingIterator,
    source: Arc<SuperVersion>,
    view: View,
    direction: Direction,
    place: Place,
    /// The user key it stands on, unless `place` is [`Place::OnRecord`].
    key: Vec<u8>,
    /// The value it stands on, if `place` is [`Place::Copied`].
    value: Vec<u8>,
    operands: Operands,
    /// The user key that the value going backward was written with, where that matters.
    base_key: Vec<u8>,
    /// A key to seek with.
    target: Vec<u8>,
    /// The prefix that it may not leave, if it has been told so.
    prefix: Option<Vec<u8>>,
    /// What it has done, where that is counted.
    counts: Option<Counts>,
    #[expect(dead_code, reason = "counted while it lives")]
    charge: IteratorCharge,
}

/// What of a column family an iterator sees.
pub(crate) struct View {
    pub(crate) comparator: Comparator,
    /// Whether keys can be equal that are not the same bytes.
    pub(crate) equates_different_bytes: bool,
    pub(crate) snapshot: Sequence,
    /// The first key that is seen.
    pub(crate) lower_bound: Option<Vec<u8>>,
    /// The first key behind those that are seen.
    pub(crate) upper_bound: Option<Vec<u8>>,
    /// Whether only keys with the prefix of the last seek's key are seen, and what extracts it.
    pub(crate) prefix_extractor: Option<PrefixExtractor>,
    /// What extracts the prefix that a seek asks filters for, where it need find only keys with
    /// that prefix.
    pub(crate) filter_prefixes: Option<PrefixExtractor>,
    /// How many records are stepped over, one by one, before a seek is tried.
    pub(crate) max_sequential_skip: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

/// Where the iterator has its key and value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// It stands on nothing.
    Nowhere,
    /// In the record that the merged sources stand on.
    OnRecord,
    /// In its own buffers.
    Copied,
}

impl DbIterator {
    /// An iterator over what `source` shows at a sequence number.
    ///
    /// # Errors
    /// Those of opening the tables of level 0.
    pub(crate) fn over(
        source: Arc<SuperVersion>,
        snapshot: Sequence,
        options: &ReadOptions,
        profile: &ReadProfile,
    ) -> Result<Self> {
        let leaves = leaves(&source, snapshot, options, profile)?;
        let comparator = source.tables().comparator().clone();
        let merged = MergingIterator::new(comparator.clone(), leaves);
        let prefix_extractor = source.tables().context().prefix_extractor.clone();
        let equates_different_bytes = comparator.equates_different_bytes();
        let asks_prefixes = !options.total_order_seek
            && !equates_different_bytes
            && (options.prefix_same_as_start || !source.prefixes_on_request());
        let view = View {
            comparator,
            equates_different_bytes,
            snapshot,
            lower_bound: options.iterate_lower_bound.clone(),
            upper_bound: options.iterate_upper_bound.clone(),
            filter_prefixes: prefix_extractor.clone().filter(|_| asks_prefixes),
            prefix_extractor: prefix_extractor.filter(|_| options.prefix_same_as_start),
            max_sequential_skip: source.max_sequential_skip(),
        };
        let charge = IteratorCharge::new(&source.tables().context().reader_memory);
        let counts = source.tables().context().statistics.clone().map(Counts::new);
        Ok(Self {
            merged,
            source,
            view,
            direction: Direction::Forward,
            place: Place::Nowhere,
            key: Vec::new(),
            value: Vec::new(),
            operands: Operands::default(),
            base_key: Vec::new(),
            target: Vec::new(),
            prefix: None,
            counts,
            charge,
        })
    }

    /// Whether it stands on a key.
    #[inline]
    pub fn valid(&self) -> bool {
        self.place != Place::Nowhere
    }

    /// The key it stands on; empty if it stands on none.
    #[inline]
    pub fn key(&self) -> &[u8] {
        match self.place {
            Place::OnRecord => key::user_key(self.merged.key()),
            Place::Copied => &self.key,
            Place::Nowhere => &[],
        }
    }

    /// The value it stands on; empty if it stands on none.
    #[inline]
    pub fn value(&self) -> &[u8] {
        match self.place {
            Place::OnRecord => self.merged.value(),
            Place::Copied => &self.value,
            Place::Nowhere => &[],
        }
    }

    /// Key and value it stands on, if it stands on any.
    #[inline]
    pub fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.valid().then(|| (self.key(), self.value()))
    }

    /// Goes to the first key. With a lower bound it is as a seek to that bound.
    ///
    /// # Errors
    /// Those of reading a table or blob file, here and in every other move.
    pub fn seek_to_first(&mut self) -> Result<()> {
        let begun = self.counts.as_ref().map(|counts| counts.begin());
        let moved = self.go_to_first();
        self.count_seek(begun);
        moved
    }

    fn go_to_first(&mut self) -> Result<()> {
        self.merged.ask_prefix_filters(false);
        match self.view.lower_bound.take() {
            Some(bound) => {
                self.hold_prefix(&bound);
                let moved = self.seek_unbounded(&bound);
                self.view.lower_bound = Some(bound);
                moved
            }
            None => {
                self.prefix = None;
                self.go(Direction::Forward, |merged, _| merged.seek_to_first())?;
                self.hold_own_prefix();
                Ok(())
            }
        }
    }

    /// Goes to the last key. With an upper bound it is as a [`DbIterator::seek_for_prev`] to that
    /// bound.
    pub fn seek_to_last(&mut self) -> Result<()> {
        let begun = self.counts.as_ref().map(|counts| counts.begin());
        let moved = self.go_to_last();
        self.count_seek(begun);
        moved
    }

    fn go_to_last(&mut self) -> Result<()> {
        self.merged.ask_prefix_filters(false);
        match self.view.upper_bound.take() {
            Some(bound) => {
                self.hold_prefix(&bound);
                set_internal_key(&mut self.target, &bound, FIRST_TRAILER);
                self.view.upper_bound = Some(bound);
                self.go(Direction::Backward, |merged, target| merged.seek_for_prev(target))
            }
            None => {
                self.prefix = None;
                self.go(Direction::Backward, |merged, _| merged.seek_to_last())?;
                self.hold_own_prefix();
                Ok(())
            }
        }
    }

    /// Goes to the first key that is not below `target`. With a prefix extractor and without
    /// `total_order_seek`, only the keys with `target`'s prefix are sure to be right: behind them
    /// keys may be left out, and what newer tables overwrote or deleted may show, as in RocksDB.
    pub fn seek(&mut self, target: &[u8]) -> Result<()> {
        let begun = self.counts.as_ref().map(|counts| counts.begin());
        let moved = self.go_to(target);
        self.count_seek(begun);
        moved
    }

    fn go_to(&mut self, target: &[u8]) -> Result<()> {
        self.hold_prefix(target);
        match &self.view.lower_bound {
            Some(bound) if self.view.comparator.compare(target, bound).is_lt() => {
                let bound = bound.clone();
                // The bound's prefix need not be that of the target.
                self.merged.ask_prefix_filters(false);
                self.seek_unbounded(&bound)
            }
            _ => {
                let prefixes = self.view.filter_prefixes.as_ref();
                let has_prefix = prefixes.is_some_and(|by| by.prefix(target).is_some());
                self.merged.ask_prefix_filters(has_prefix);
                self.seek_unbounded(target)
            }
        }
    }

    /// Goes to the last key that is not above `target`.
    pub fn seek_for_prev(&mut self, target: &[u8]) -> Result<()> {
        let begun = self.counts.as_ref().map(|counts| counts.begin());
        let moved = self.go_to_or_before(target);
        self.count_seek(begun);
        moved
    }

    fn go_to_or_before(&mut self, target: &[u8]) -> Result<()> {
        self.hold_prefix(target);
        self.merged.ask_prefix_filters(false);
        match &self.view.upper_bound {
            Some(bound) if self.view.comparator.compare(target, bound).is_ge() => {
                set_internal_key(&mut self.target, bound, FIRST_TRAILER);
            }
            _ => set_internal_key(&mut self.target, target, LAST_TRAILER),
        }
        self.go(Direction::Backward, |merged, target| merged.seek_for_prev(target))
    }

    /// Goes to the next key. On nothing, it stays there.
    #[expect(
        clippy::should_implement_trait,
        reason = "the field's name for it; what it would yield is borrowed"
    )]
    #[inline]
    pub fn next(&mut self) -> Result<()> {
        if !self.valid() {
            return Ok(());
        }
        let moved = self.step_forward();
        let settled = self.settle(moved);
        if self.counts.is_some() {
            self.count_step(Direction::Forward);
        }
        settled
    }

    /// Goes to the key before. On nothing, it stays there.
    #[inline]
    pub fn previous(&mut self) -> Result<()> {
        if !self.valid() {
            return Ok(());
        }
        let moved = self.step_backward();
        let settled = self.settle(moved);
        if self.counts.is_some() {
            self.count_step(Direction::Backward);
        }
        settled
    }

    fn seek_unbounded(&mut self, target: &[u8]) -> Result<()> {
        let trailer = key::pack_trailer(self.view.snapshot, ValueType::FOR_SEEK);
        set_internal_key(&mut self.target, target, trailer);
        self.go(Direction::Forward, |merged, target| merged.seek(target))
    }

    /// Moves the merged sources by `place`, and on from there to a key that is seen.
    fn go(
        &mut self,
        direction: Direction,
        place: impl FnOnce(&mut MergingIterator, &[u8]) -> Result<()>,
    ) -> Result<()> {
        self.direction = direction;
        self.place = Place::Nowhere;
        let moved = place(&mut self.merged, &self.target).and_then(|()| match direction {
            Direction::Forward => self.find_forward(false),
            Direction::Backward => self.find_backward(),
        });
        self.settle(moved)
    }

    #[inline]
    fn settle(&mut self, moved: Result<()>) -> Result<()> {
        if moved.is_err() {
            self.place = Place::Nowhere;
        }
        moved
    }

    /// Holds the iterator to the prefix of the key it stands on.
    fn hold_own_prefix(&mut self) {
        if self.valid() && self.view.prefix_extractor.is_some() {
            let key = self.key().to_vec();
            self.hold_prefix(&key);
        }
    }

    /// Holds the iterator to the prefix of `target`, where it has been told to stay within one.
    fn hold_prefix(&mut self, target: &[u8]) {
        let prefix = self.view.prefix_extractor.as_ref().and_then(|by| by.prefix(target));
        self.prefix = prefix.map(<[u8]>::to_vec);
    }

    /// Whether a key lies on the seen side of the bound that iteration is heading for, and within
    /// the prefix.
    #[inline]
    fn within_bounds(&self, user_key: &[u8]) -> bool {
        let bound = match self.direction {
            Direction::Forward => &self.view.upper_bound,
            Direction::Backward => &self.view.lower_bound,
        };
        if let Some(bound) = bound {
            let order = self.view.comparator.compare(user_key, bound);
            let outside = match self.direction {
                Direction::Forward => order != Ordering::Less,
                Direction::Backward => order == Ordering::Less,
            };
            if outside {
                return false;
            }
        }
        match (&self.prefix, &self.view.prefix_extractor) {
            (Some(prefix), Some(by)) => {
                by.prefix(user_key).is_some_and(|own| match self.view.equates_different_bytes {
                    true => self.view.comparator.compare(own, prefix).is_eq(),
                    false => own == prefix,
                })
            }
            _ => true,
        }
    }
}

/// The sources of a column family, newest first.
fn leaves(
    source: &SuperVersion,
    snapshot: Sequence,
    options: &ReadOptions,
    profile: &ReadProfile,
) -> Result<Vec<Leaf>> {
    let tables = source.tables();
    let plan = ReadPlan::of_bytes(options.readahead_size);
    let mut leaves = Vec::new();
    for memtable in source.memtables() {
        leaves.push(Leaf::of_memtable(Arc::clone(memtable), snapshot));
    }
    for (number, level) in source.version().levels().iter().enumerate() {
        if number == 0 {
            for file in level.files() {
                let table = tables.open(file, profile.purpose)?;
                let mut iterator = TableIterator::new(table, *profile, &plan);
                iterator.set_prefixes(tables.context().prefix_extractor.clone());
                leaves.push(Leaf::of_table(iterator, file, snapshot)?);
            }
        } else if !level.files().is_empty() {
            leaves.push(Leaf::Level(LevelIterator::new(
                Arc::clone(level),
                Arc::clone(tables),
                *profile,
                plan.clone(),
                snapshot,
            )));
        }
    }
    Ok(leaves)
}

fn set_internal_key(out: &mut Vec<u8>, user_key: &[u8], trailer: u64) {
    out.clear();
    key::put_internal_key(out, user_key, trailer);
}
