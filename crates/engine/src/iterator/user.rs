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
mod pinned;
mod property;
mod refresh;

use std::cmp::Ordering;
use std::sync::Arc;

use tailwater_format::Comparator;
use tailwater_format::key::{self, MAX_SEQUENCE, Sequence, ValueType};

use crate::Result;
use crate::db::{ReadOptions, SuperVersion};
use crate::iterator::{Direction, Leaf, LevelIterator, MergingIterator};
use crate::prefix_extractor::PrefixExtractor;
use crate::stats::IteratorCharge;
use crate::table::{ReadPlan, ReadProfile, TableIterator};

use counts::Counts;
use operands::Operands;
use pinned::PinnedKeys;
use refresh::{Origin, Refresh};

/// Behind every record of its key: the last trailer there can be.
const LAST_TRAILER: u64 = 0;
/// Before every record of its key.
const FIRST_TRAILER: u64 = key::pack_trailer(MAX_SEQUENCE, 0xff);

/// An iterator over the keys and values of a column family, in the comparator's order.
///
/// It sees one sequence number, fixed when it was made, and keeps the memtables and tables it needs
/// for that; a long scan lets go of them by [`DbIterator::refresh_at`] or
/// [`ReadOptions::auto_refresh_iterator_with_snapshot`]. A new iterator stands on nothing; a seek
/// places it. After an error it stands on nothing until the next seek. It may be sent to another
/// thread but not be shared.
pub struct DbIterator {
    merged: MergingIterator,
    source: Arc<SuperVersion>,
    /// Where newer super versions come from; `None` on a read-only handle.
    origin: Option<Origin>,
    /// Whether it goes over to newer super versions by itself.
    refreshes: bool,
    /// Whether it has lost its sources, as going over to others failed.
    is_incomplete: bool,
    /// What was asked of [`DbIterator::refresh`] or [`DbIterator::refresh_at`] and failed.
    unfinished: Option<Refresh>,
    /// Whether `view` is of an older super version than the sources, until the next seek.
    is_view_old: bool,
    manner: Manner,
    view: View,
    direction: Direction,
    place: Place,
    /// The user key it stands on, unless `place` is [`Place::OnRecord`].
    key: Vec<u8>,
    /// The value it stands on, if `place` is [`Place::Copied`].
    value: Vec<u8>,
    operands: Operands,
    /// The user key that the value going backward, or a blob that is not read yet, was written
    /// with, where that matters.
    base_key: Vec<u8>,
    /// Copies of the keys that it stood on, where they must stay in their places.
    pinned: Option<PinnedKeys>,
    /// A key to seek with.
    target: Vec<u8>,
    /// The prefix that it may not leave, if it has been told so.
    prefix: Option<Vec<u8>>,
    /// What it has done, where that is counted.
    counts: Option<Counts>,
    #[expect(dead_code, reason = "counted while it lives")]
    charge: IteratorCharge,
}

/// How an iterator reads tables and uses prefixes.
struct Manner {
    profile: ReadProfile,
    plan: ReadPlan,
    prefix_same_as_start: bool,
    total_order_seek: bool,
    /// Whether blobs are read only when they are asked for.
    defers_blobs: bool,
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

/// Where the iterator has its key and value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// It stands on nothing.
    Nowhere,
    /// In the record that the merged sources stand on.
    OnRecord,
    /// In its own buffers.
    Copied,
    /// The key in its own buffer; the value is in a blob file, which has not been read.
    Unread,
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
        let manner = Manner {
            profile: *profile,
            plan: ReadPlan::of_bytes(options.readahead_size),
            prefix_same_as_start: options.prefix_same_as_start,
            total_order_seek: options.total_order_seek,
            defers_blobs: options.allow_unprepared_value,
        };
        let leaves = leaves(&source, snapshot, &manner, Vec::new(), None)?;
        let comparator = source.tables().comparator().clone();
        let merged = MergingIterator::new(comparator.clone(), leaves);
        let equates_different_bytes = comparator.equates_different_bytes();
        let mut view = View {
            comparator,
            equates_different_bytes,
            snapshot,
            lower_bound: options.iterate_lower_bound.clone(),
            upper_bound: options.iterate_upper_bound.clone(),
            filter_prefixes: None,
            prefix_extractor: None,
            max_sequential_skip: 0,
        };
        view.follow(&source, &manner);
        let charge = IteratorCharge::new(&source.tables().context().reader_memory);
        let counts = source.tables().context().statistics.clone().map(Counts::new);
        Ok(Self {
            merged,
            source,
            origin: None,
            refreshes: false,
            is_incomplete: false,
            unfinished: None,
            is_view_old: false,
            manner,
            view,
            direction: Direction::Forward,
            place: Place::Nowhere,
            key: Vec::new(),
            value: Vec::new(),
            operands: Operands::default(),
            base_key: Vec::new(),
            pinned: options.pin_data.then(PinnedKeys::default),
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
        if let Some(pinned) = self.pinned.as_ref().filter(|_| self.valid()) {
            return pinned.last();
        }
        self.unpinned_key()
    }

    #[inline]
    fn unpinned_key(&self) -> &[u8] {
        match self.place {
            Place::OnRecord => key::user_key(self.merged.key()),
            Place::Copied | Place::Unread => &self.key,
            Place::Nowhere => &[],
        }
    }

    /// The value it stands on; empty if it stands on none, or on one that
    /// [`DbIterator::prepare_value`] has yet to read.
    #[inline]
    pub fn value(&self) -> &[u8] {
        match self.place {
            Place::OnRecord => self.merged.value(),
            Place::Copied => &self.value,
            Place::Unread | Place::Nowhere => &[],
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
        self.refresh_before_seek()?;
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
        self.refresh_before_seek()?;
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
        self.refresh_before_seek()?;
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
        self.refresh_before_seek()?;
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
        let moved = match self.is_outdated() {
            true => self.refresh_before_next(),
            false => Ok(()),
        };
        let moved = moved.and_then(|()| self.step_forward());
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
        let moved = match self.is_outdated() {
            true => self.refresh_before_previous(),
            false => Ok(()),
        };
        let moved = moved.and_then(|()| self.step_backward());
        let settled = self.settle(moved);
        if self.counts.is_some() {
            self.count_step(Direction::Backward);
        }
        settled
    }

    /// Reads the value where that was put off
    /// ([`ReadOptions::allow_unprepared_value`]); otherwise it does nothing.
    ///
    /// # Errors
    /// Those of reading a blob file; the iterator then stands on nothing.
    pub fn prepare_value(&mut self) -> Result<()> {
        if self.place != Place::Unread {
            return Ok(());
        }
        self.place = Place::Nowhere;
        self.value = self.source.read_blob(&self.base_key, &self.value)?;
        self.place = Place::Copied;
        Ok(())
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
        if self.pinned.is_some() {
            self.pin_key();
        }
        moved
    }

    /// Copies the key that it stands on to where it stays.
    #[cold]
    fn pin_key(&mut self) {
        if let Some(mut pinned) = self.pinned.take() {
            pinned.push(self.unpinned_key());
            self.pinned = Some(pinned);
        }
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

impl View {
    /// Takes over what the settings of a super version say.
    fn follow(&mut self, source: &SuperVersion, manner: &Manner) {
        let prefix_extractor = source.tables().context().prefix_extractor.clone();
        let asks_prefixes = !manner.total_order_seek
            && !self.equates_different_bytes
            && (manner.prefix_same_as_start || !source.prefixes_on_request());
        self.filter_prefixes = prefix_extractor.clone().filter(|_| asks_prefixes);
        self.prefix_extractor = prefix_extractor.filter(|_| manner.prefix_same_as_start);
        self.max_sequential_skip = source.max_sequential_skip();
    }
}

/// Returns the sources of a super version, newest first. Those that are among `old`, which are of
/// an earlier one, are kept.
///
/// With a target, each stands at the first record not below it, or, going backward, at the last not
/// above it; one that was kept stays where it is, on the same side of the target. Without a target
/// all must be sought next.
fn leaves(
    source: &SuperVersion,
    snapshot: Sequence,
    manner: &Manner,
    mut old: Vec<Leaf>,
    target: Option<(&[u8], Direction)>,
) -> Result<Vec<Leaf>> {
    let tables = source.tables();
    let profile = &manner.profile;
    let mut kept =
        |is_it: &dyn Fn(&Leaf) -> bool| old.iter().position(is_it).map(|at| old.swap_remove(at));
    let place = |mut leaf: Leaf| {
        match target {
            Some((target, Direction::Forward)) => leaf.seek(target)?,
            Some((target, Direction::Backward)) => leaf.seek_for_prev(target)?,
            None => {}
        }
        Ok::<Leaf, crate::Error>(leaf)
    };
    let mut leaves = Vec::new();
    for memtable in source.memtables() {
        leaves.push(match kept(&|leaf| leaf.is_of_memtable(memtable)) {
            Some(leaf) => leaf,
            None => place(Leaf::of_memtable(Arc::clone(memtable), snapshot))?,
        });
    }
    let mut levels = source.version().levels().iter().enumerate();
    for file in levels.next().into_iter().flat_map(|(_, level)| level.files()) {
        if let Some(mut leaf) = kept(&|leaf| leaf.is_of_file(file)) {
            leaf.set_prefixes(tables.context().prefix_extractor.clone());
            leaves.push(leaf);
            continue;
        }
        let table = tables.open(file, profile.purpose)?;
        let mut iterator = TableIterator::new(table, *profile, &manner.plan);
        iterator.set_prefixes(tables.context().prefix_extractor.clone());
        leaves.push(place(Leaf::of_table(iterator, file, snapshot)?)?);
    }
    for (number, level) in levels.filter(|(_, level)| !level.files().is_empty()) {
        leaves.push(match kept(&|leaf| leaf.is_of_level(number)) {
            Some(Leaf::Level(mut leaf)) => {
                leaf.go_over(level, tables, target)?;
                Leaf::Level(leaf)
            }
            _ => place(Leaf::Level(LevelIterator::new(
                number,
                Arc::clone(level),
                Arc::clone(tables),
                *profile,
                manner.plan.clone(),
                snapshot,
            )))?,
        });
    }
    Ok(leaves)
}

fn set_internal_key(out: &mut Vec<u8>, user_key: &[u8], trailer: u64) {
    out.clear();
    key::put_internal_key(out, user_key, trailer);
}
