//! The user's view of a column family: one value per key, at one snapshot, within bounds.
//!
//! After a move forward ([`forward`]), the merged sources are on the newest visible record of the
//! current key. The next step forward skips the older records of the key.
//!
//! A move backward ([`backward`]) reads the records of a key oldest first. So the key's value is
//! known only when all of its records have been read. The merged sources are then before the key,
//! and the iterator holds a copy of the key and value. If the key is known to have one version, the
//! merged sources stay on it and nothing is copied.
//!
//! The merged sources are those of a super version ([`sources`]). Further methods of the iterator
//! move it to newer super versions ([`refresh`]), count its steps ([`counts`]), attribute their
//! time ([`attribution`]) and return its properties ([`property`]).

mod attribution;
mod backward;
mod counts;
mod forward;
mod operands;
mod pinned;
mod property;
mod refresh;
mod sources;

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use tailwater_format::Comparator;
use tailwater_format::key::{self, MAX_SEQUENCE, Sequence, ValueType};

use crate::column_family::SuperVersion;
use crate::error::Result;
use crate::iterator::{Direction, MergingIterator};
use crate::prefix_extractor::PrefixExtractor;
use crate::read::ReadOptions;
use crate::skipped_damage::{SkippedDamage, SkippedKeys};
use crate::stats::IteratorCharge;
use crate::stats::slow_reads::{Operation, SearchCounts};
use crate::table::{ReadAheadPlan, ReadPlan, ReadProfile};

use counts::Counts;
use operands::Operands;
use pinned::PinnedKeys;
pub(crate) use refresh::Origin;
use refresh::Refresh;
use sources::leaves;

/// The lowest trailer. An internal key with this trailer sorts after all records of its user key.
const LAST_TRAILER: u64 = 0;
/// The highest trailer. An internal key with this trailer sorts before all records of its user key.
const FIRST_TRAILER: u64 = key::pack_trailer(MAX_SEQUENCE, 0xff);

/// An iterator over the keys and values of a column family, in the comparator's order.
///
/// It sees the state at one sequence number, which is fixed when it is created or refreshed, and
/// keeps the memtables and tables of that state in use. A long scan can release them with
/// [`DbIterator::refresh_at`] or [`ReadOptions::auto_refresh_iterator_with_snapshot`]. A new
/// iterator has no position until a seek sets it. After an error it has no position until the next
/// seek. It may be sent to another thread, but not be shared between threads.
///
/// ```
/// # fn main() -> tailwater::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// # let directory = directory.path();
/// # let db = tailwater::Db::open_default(directory)?;
/// for (key, value) in [("a", "1"), ("b", "2"), ("d", "4")] {
///     db.put(key, value)?;
/// }
/// let mut cursor = db.raw_iterator()?;
/// cursor.seek("b")?;
/// while let Some((key, value)) = cursor.item() {
///     println!("{} = {}", key.escape_ascii(), value.escape_ascii());
///     cursor.next()?;
/// }
/// cursor.seek_for_prev("c")?;
/// assert!(cursor.valid() && cursor.key() == b"b");
/// # Ok(())
/// # }
/// ```
pub struct DbIterator {
    merged: MergingIterator,
    source: Arc<SuperVersion>,
    /// The source of newer super versions; `None` on a read-only handle.
    origin: Option<Origin>,
    /// Whether the iterator moves to newer super versions on its own.
    refreshes: bool,
    /// Whether the iterator has no sources because a move to a newer super version failed. The next
    /// seek tries again.
    is_incomplete: bool,
    /// The state requested by a [`DbIterator::refresh`] or [`DbIterator::refresh_at`] that failed.
    /// The next seek tries it again.
    unfinished: Option<Refresh>,
    /// Whether the settings in `view` come from an older super version than the sources. The next
    /// seek updates `view`.
    is_view_old: bool,
    settings: ReadSettings,
    view: View,
    direction: Direction,
    location: EntryLocation,
    /// The current user key, unless `location` is [`EntryLocation::OnRecord`]: then the key is in
    /// the merged sources.
    key: Vec<u8>,
    /// The current value if `location` is [`EntryLocation::Copied`]; the blob index if it is
    /// [`EntryLocation::Unread`].
    value: Vec<u8>,
    operands: Operands,
    /// The user key as it was written with the base record of the current value. A blob can only be
    /// read with exactly these bytes. They may differ from `key` if the comparator treats both as
    /// equal. Outdated and not used if the base record is a plain value.
    base_key: Vec<u8>,
    /// Copies of all keys that the iterator has visited, if the read options ask that the returned
    /// keys keep their addresses.
    pinned: Option<PinnedKeys>,
    /// Buffer for a key to seek to.
    target: Vec<u8>,
    /// The prefix to which the iterator is restricted since the last seek, if any.
    prefix: Option<Vec<u8>>,
    /// Counts of the iterator's steps, if the database has a statistics object.
    counts: Option<Counts>,
    /// Whether the time of steps is attributed: whether that of the last move was that is no step.
    is_attributed: bool,
    /// What the current move has skipped so far, and earlier ones whose time was not attributed.
    skipped: SearchCounts,
    #[expect(dead_code, reason = "counted while it lives")]
    charge: IteratorCharge,
}

/// The settings that an iterator takes from its read options.
struct ReadSettings {
    profile: ReadProfile,
    plan: ReadPlan,
    prefix_same_as_start: bool,
    total_order_seek: bool,
    /// Whether blobs are read only when [`DbIterator::prepare_value`] is called.
    defers_blobs: bool,
    /// Where skipped damage is recorded; `None` if damage is not skipped.
    skipped_damage: Option<SkippedDamage>,
}

/// The restrictions and settings that determine which entries of a column family an iterator shows.
pub(crate) struct View {
    pub(crate) comparator: Comparator,
    /// Whether the comparator can treat keys with different bytes as equal.
    pub(crate) equates_different_bytes: bool,
    pub(crate) snapshot: Sequence,
    /// Inclusive lower bound of the visible keys.
    pub(crate) lower_bound: Option<Vec<u8>>,
    /// Exclusive upper bound of the visible keys.
    pub(crate) upper_bound: Option<Vec<u8>>,
    /// The prefix extractor, if the iterator shows only keys with the prefix of the last seek's
    /// target.
    pub(crate) prefix_extractor: Option<PrefixExtractor>,
    /// The prefix extractor, if seeks may check prefix filters. Such a seek may miss keys that do
    /// not have the target's prefix.
    pub(crate) filter_prefixes: Option<PrefixExtractor>,
    /// Maximum number of records in a row that the iterator skips one by one, before it seeks past
    /// the rest. The iterator skips older records of the key that it returned last, and records
    /// newer than the snapshot.
    pub(crate) max_sequential_skip: u64,
}

/// Where the current key and value are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EntryLocation {
    /// The iterator is not at an entry.
    Nowhere,
    /// The key and value are in the current record of the merged sources.
    OnRecord,
    /// The key and value are in the iterator's own buffers.
    Copied,
    /// The key is in the iterator's own buffer. The value is in a blob file and has not been read.
    Unread,
}

impl DbIterator {
    /// Creates an iterator over the entries of `source` that are visible at the sequence number
    /// `snapshot`. With `auto_readahead_size`, the readahead ends at the user key `last`, if given.
    ///
    /// # Errors
    /// Errors from opening the tables of level 0.
    pub(crate) fn over(
        source: Arc<SuperVersion>,
        snapshot: Sequence,
        options: &ReadOptions,
        profile: &ReadProfile,
        last: Option<&[u8]>,
    ) -> Result<Self> {
        let settings = ReadSettings {
            profile: *profile,
            plan: ReadPlan::ReadAhead(ReadAheadPlan {
                bytes: options.readahead_size,
                in_flight: options.async_io,
                adaptive: options.adaptive_readahead,
                until: last.filter(|_| options.auto_readahead_size).map(Arc::from),
            }),
            prefix_same_as_start: options.prefix_same_as_start,
            total_order_seek: options.total_order_seek,
            defers_blobs: options.allow_unprepared_value,
            skipped_damage: options.skipped_damage.clone(),
        };
        let leaves = leaves(&source, snapshot, &settings, Vec::new(), None)?;
        let comparator = source.tables().comparator().clone();
        let mut merged = MergingIterator::new(comparator.clone(), leaves);
        if options.async_io {
            merged.read_together(*profile, Arc::clone(source.tables().context()));
        }
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
        view.follow(&source, &settings);
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
            settings,
            view,
            direction: Direction::Forward,
            location: EntryLocation::Nowhere,
            key: Vec::new(),
            value: Vec::new(),
            operands: Operands::default(),
            base_key: Vec::new(),
            pinned: options.pin_data.then(PinnedKeys::default),
            target: Vec::new(),
            prefix: None,
            counts,
            is_attributed: false,
            skipped: SearchCounts::default(),
            charge,
        })
    }

    /// Whether the iterator is positioned on a key.
    #[inline]
    pub fn valid(&self) -> bool {
        self.location != EntryLocation::Nowhere
    }

    /// Returns the current user key; empty if the iterator has no position.
    #[inline]
    pub fn key(&self) -> &[u8] {
        if let Some(pinned) = self.pinned.as_ref().filter(|_| self.valid()) {
            return pinned.last();
        }
        self.unpinned_key()
    }

    #[inline]
    fn unpinned_key(&self) -> &[u8] {
        match self.location {
            EntryLocation::OnRecord => key::user_key(self.merged.key()),
            EntryLocation::Copied | EntryLocation::Unread => &self.key,
            EntryLocation::Nowhere => &[],
        }
    }

    /// Returns the current value. It is empty if the iterator has no position, or if reading the
    /// value was deferred and [`DbIterator::prepare_value`] has not been called.
    #[inline]
    pub fn value(&self) -> &[u8] {
        match self.location {
            EntryLocation::OnRecord => self.merged.value(),
            EntryLocation::Copied => &self.value,
            EntryLocation::Unread | EntryLocation::Nowhere => &[],
        }
    }

    /// Returns the current key and value; `None` if the iterator is not at an entry.
    #[inline(always)]
    pub fn item(&self) -> Option<(&[u8], &[u8])> {
        if self.location == EntryLocation::OnRecord && self.pinned.is_none() {
            let (key, value) = self.merged.entry();
            return Some((key::user_key(key), value));
        }
        self.valid().then(|| (self.key(), self.value()))
    }

    /// Moves to the first key at or after the lower bound; without a lower bound, to the first key.
    ///
    /// # Errors
    /// Errors from reading a table or blob file. All other moves return these errors, too.
    pub fn seek_to_first(&mut self) -> Result<()> {
        self.counted_seek(None, Self::go_to_first)
    }

    fn go_to_first(&mut self) -> Result<()> {
        self.refresh_before_seek()?;
        self.merged.ask_prefix_filters(false);
        match self.view.lower_bound.clone() {
            Some(bound) => {
                self.hold_prefix(&bound);
                self.seek_unbounded(&bound)
            }
            None => {
                self.prefix = None;
                self.go(Direction::Forward, |merged, _| merged.seek_to_first())?;
                self.hold_own_prefix();
                Ok(())
            }
        }
    }

    /// Moves to the last key before the upper bound; without an upper bound, to the last key.
    pub fn seek_to_last(&mut self) -> Result<()> {
        self.counted_seek(None, Self::go_to_last)
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

    /// Moves to the first key at or after `target`, or at or after the lower bound if that is
    /// greater.
    ///
    /// If the column family has a prefix extractor and `total_order_seek` is false, the iterator is
    /// reliable only as long as it is on keys with `target`'s prefix. Past these keys, it may omit
    /// keys and may return overwritten or deleted entries, as in RocksDB.
    pub fn seek(&mut self, target: impl AsRef<[u8]>) -> Result<()> {
        let target = target.as_ref();
        self.counted_seek(Some(target), |it| it.go_to(target))
    }

    fn go_to(&mut self, target: &[u8]) -> Result<()> {
        self.refresh_before_seek()?;
        self.hold_prefix(target);
        match &self.view.lower_bound {
            Some(bound) if self.view.comparator.compare(target, bound).is_lt() => {
                let bound = bound.clone();
                // The target is before the lower bound, so the seek goes to the bound. The bound
                // may have another prefix than the target. If the seek checked prefix filters for
                // the bound's prefix, it could miss keys with the target's prefix.
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

    /// Moves to the last key at or before `target` that is before the upper bound.
    pub fn seek_for_prev(&mut self, target: impl AsRef<[u8]>) -> Result<()> {
        let target = target.as_ref();
        self.counted_seek(Some(target), |it| it.go_to_or_before(target))
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

    /// Moves to the next key. Does nothing if the iterator has no position.
    #[expect(
        clippy::should_implement_trait,
        reason = "the usual name in RocksDB; an Iterator could not yield borrowed entries"
    )]
    #[inline]
    pub fn next(&mut self) -> Result<()> {
        if !self.valid() {
            return Ok(());
        }
        match self.is_attributed {
            true => self.make_attributed(Operation::Step, None, Self::go_to_next),
            false => self.go_to_next(),
        }
    }

    #[inline]
    fn go_to_next(&mut self) -> Result<()> {
        let moved = if self.is_outdated() { self.refresh_before_next() } else { Ok(()) };
        let moved = moved.and_then(|()| self.step_forward());
        let settled = self.settle(moved);
        if self.counts.is_some() {
            self.count_step(Direction::Forward);
        }
        settled
    }

    /// Moves to the previous key. Does nothing if the iterator has no position.
    #[inline]
    pub fn prev(&mut self) -> Result<()> {
        if !self.valid() {
            return Ok(());
        }
        match self.is_attributed {
            true => self.make_attributed(Operation::Step, None, Self::go_to_previous),
            false => self.go_to_previous(),
        }
    }

    #[inline]
    fn go_to_previous(&mut self) -> Result<()> {
        let moved = if self.is_outdated() { self.refresh_before_previous() } else { Ok(()) };
        let moved = moved.and_then(|()| self.step_backward());
        let settled = self.settle(moved);
        if self.counts.is_some() {
            self.count_step(Direction::Backward);
        }
        settled
    }

    /// Reads the current value from its blob file if reading it was deferred (see
    /// [`ReadOptions::allow_unprepared_value`]). Otherwise does nothing.
    ///
    /// # Errors
    /// Errors from reading a blob file. The iterator then has no position.
    pub fn prepare_value(&mut self) -> Result<()> {
        if self.location != EntryLocation::Unread {
            return Ok(());
        }
        self.location = EntryLocation::Nowhere;
        self.attribute(Operation::Value, None, |it| {
            it.value = it.read_blob(&it.base_key, &it.value)?;
            it.location = EntryLocation::Copied;
            Ok(())
        })
    }

    fn seek_unbounded(&mut self, target: &[u8]) -> Result<()> {
        let trailer = key::pack_trailer(self.view.snapshot, ValueType::FOR_SEEK);
        set_internal_key(&mut self.target, target, trailer);
        self.go(Direction::Forward, |merged, target| merged.seek(target))
    }

    /// Calls `position_sources`, and then moves in `direction` to the first
    /// visible key.
    fn go(
        &mut self,
        direction: Direction,
        position_sources: impl FnOnce(&mut MergingIterator, &[u8]) -> Result<()>,
    ) -> Result<()> {
        self.direction = direction;
        self.location = EntryLocation::Nowhere;
        let moved =
            position_sources(&mut self.merged, &self.target).and_then(|()| match direction {
                Direction::Forward => self.find_forward(false),
                Direction::Backward => self.find_backward(),
            });
        self.settle(moved)
    }

    #[inline]
    fn settle(&mut self, moved: Result<()>) -> Result<()> {
        if moved.is_err() {
            self.location = EntryLocation::Nowhere;
        }
        if self.pinned.is_some() {
            self.pin_key();
        }
        moved
    }

    /// If the value of the key in `self.key` could not be computed because of damage, and the
    /// iterator skips damage, skips the key.
    #[inline]
    fn or_skipped(&self, folded: Result<EntryLocation>) -> Result<EntryLocation> {
        match (folded, &self.settings.skipped_damage) {
            (Err(error), Some(record)) => {
                record.skip(error, || SkippedKeys::One(self.key.clone()))?;
                Ok(EntryLocation::Nowhere)
            }
            (folded, _) => folded,
        }
    }

    /// Copies the current key to an address that stays valid as long as the iterator.
    #[cold]
    fn pin_key(&mut self) {
        if let Some(mut pinned) = self.pinned.take() {
            pinned.push(self.unpinned_key());
            self.pinned = Some(pinned);
        }
    }

    /// Restricts the iterator to the prefix of the current key.
    fn hold_own_prefix(&mut self) {
        if self.valid() && self.view.prefix_extractor.is_some() {
            let key = self.key().to_vec();
            self.hold_prefix(&key);
        }
    }

    /// Restricts the iterator to the prefix of `target`, if `prefix_same_as_start` is set and there
    /// is a prefix extractor.
    fn hold_prefix(&mut self, target: &[u8]) {
        let prefix = self.view.prefix_extractor.as_ref().and_then(|by| by.prefix(target));
        self.prefix = prefix.map(<[u8]>::to_vec);
    }

    /// Whether a key is inside the bound in the current direction (the upper bound when moving
    /// forward, the lower bound when moving backward) and has the prefix to which the iterator is
    /// restricted.
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
            (Some(prefix), Some(by)) => by.prefix(user_key).is_some_and(|own| {
                if self.view.equates_different_bytes {
                    self.view.comparator.compare(own, prefix).is_eq()
                } else {
                    own == prefix
                }
            }),
            _ => true,
        }
    }
}

impl fmt::Debug for DbIterator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DbIterator")
            .field("snapshot", &self.view.snapshot)
            .field("is_valid", &self.valid())
            .finish_non_exhaustive()
    }
}

impl View {
    /// Takes over the settings of a super version.
    fn follow(&mut self, source: &SuperVersion, settings: &ReadSettings) {
        let prefix_extractor = source.tables().context().prefix_extractor.clone();
        let asks_prefixes = !settings.total_order_seek
            && !self.equates_different_bytes
            && (settings.prefix_same_as_start || !source.prefixes_on_request());
        self.filter_prefixes = prefix_extractor.clone().filter(|_| asks_prefixes);
        self.prefix_extractor = prefix_extractor.filter(|_| settings.prefix_same_as_start);
        self.max_sequential_skip = source.max_sequential_skip();
    }
}

fn set_internal_key(out: &mut Vec<u8>, user_key: &[u8], trailer: u64) {
    out.clear();
    key::put_internal_key(out, user_key, trailer);
}
