//! Iterators over the entries of a range of keys.
//!
//! [`Entries`] has two cursors, one for each end of the range. A cursor is created when its end is
//! first used, and stays on the entry that it yielded last, so that the two cursors detect when
//! they meet.
//!
//! With `auto_refresh_iterator_with_snapshot`, a step of one end first looks for a newer super
//! version. If there is one, the cursor that moves refreshes itself, as every [`DbIterator`] does.
//! The other cursor is dropped, because it would keep the older super version until its next step:
//! the range is narrowed to the entries before or after its last one, and the cursor is created
//! again when its end is next used.

use std::fmt;
use std::iter::FusedIterator;
use std::ops::{self, Bound};
use std::sync::Arc;

use tailwater_format::Comparator;
use tailwater_format::key::Sequence;

use crate::column_family::{ColumnFamily, SuperVersion};
use crate::db::Db;
use crate::db::reading::profile;
use crate::error::{Error, Result};
use crate::iterator::{DbIterator, Origin};
use crate::read::ReadOptions;

/// The bounds of a range of keys: a range of Rust's range types, or a pair of [`Bound`]s.
///
/// The keys are copied. A range that ends before it begins is empty. The trait is sealed.
///
/// ```
/// # fn main() -> tailwater::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// # let db = tailwater::Db::open_default(directory.path())?;
/// use std::ops::Bound;
///
/// for key in ["a", "b", "c"] {
///     db.put(key, "")?;
/// }
/// assert_eq!(db.range("a".."c").count(), 2);
/// assert_eq!(db.range("a"..="c").count(), 3);
/// assert_eq!(db.range(vec![b'b']..).count(), 2);
///
/// // A pair of bounds can exclude its first key. A scan can thus continue after the last key that
/// // it saw.
/// let after_a = (Bound::Excluded("a"), Bound::Unbounded);
/// let (next, _) = db.range(after_a).next().expect("an entry")?;
/// assert_eq!(&*next, b"b");
/// # Ok(())
/// # }
/// ```
pub trait KeyBounds: sealed::Sealed {
    /// Returns the lower and the upper bound of the key range, in the comparator's order.
    fn into_bounds(self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>);
}

mod sealed {
    /// Only the types of ranges in this module are key bounds.
    #[expect(unnameable_types, reason = "seals the traits that require it")]
    pub trait Sealed {}
}

impl sealed::Sealed for ops::RangeFull {}
impl<K: AsRef<[u8]>> sealed::Sealed for ops::Range<K> {}
impl<K: AsRef<[u8]>> sealed::Sealed for ops::RangeFrom<K> {}
impl<K: AsRef<[u8]>> sealed::Sealed for ops::RangeTo<K> {}
impl<K: AsRef<[u8]>> sealed::Sealed for ops::RangeInclusive<K> {}
impl<K: AsRef<[u8]>> sealed::Sealed for ops::RangeToInclusive<K> {}
impl<K: AsRef<[u8]>> sealed::Sealed for (Bound<K>, Bound<K>) {}

fn copy(key: impl AsRef<[u8]>) -> Vec<u8> {
    key.as_ref().to_vec()
}

impl KeyBounds for ops::RangeFull {
    fn into_bounds(self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        (Bound::Unbounded, Bound::Unbounded)
    }
}

impl<K: AsRef<[u8]>> KeyBounds for ops::Range<K> {
    fn into_bounds(self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        (Bound::Included(copy(self.start)), Bound::Excluded(copy(self.end)))
    }
}

impl<K: AsRef<[u8]>> KeyBounds for ops::RangeFrom<K> {
    fn into_bounds(self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        (Bound::Included(copy(self.start)), Bound::Unbounded)
    }
}

impl<K: AsRef<[u8]>> KeyBounds for ops::RangeTo<K> {
    fn into_bounds(self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        (Bound::Unbounded, Bound::Excluded(copy(self.end)))
    }
}

impl<K: AsRef<[u8]>> KeyBounds for ops::RangeInclusive<K> {
    fn into_bounds(self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        let (start, end) = self.into_inner();
        (Bound::Included(copy(start)), Bound::Included(copy(end)))
    }
}

impl<K: AsRef<[u8]>> KeyBounds for ops::RangeToInclusive<K> {
    fn into_bounds(self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        (Bound::Unbounded, Bound::Included(copy(self.end)))
    }
}

impl<K: AsRef<[u8]>> KeyBounds for (Bound<K>, Bound<K>) {
    fn into_bounds(self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        (self.0.map(copy), self.1.map(copy))
    }
}

/// An iterator over the entries of a range of keys, in the comparator's order, from either end.
///
/// Each item is a copy of a key and its value, or the error that ended the iterator. All items are
/// as of the same point in time: that of the snapshot in the options, or else of the iterator's
/// creation. Until the iterator is dropped, it keeps the memtables and tables of that point in
/// time; with a snapshot and [`ReadOptions::auto_refresh_iterator_with_snapshot`], only until the
/// next step after they were flushed or compacted. [`DbIterator`] does not copy, and can seek.
///
/// ```
/// # fn main() -> tailwater::Result<()> {
/// # let directory = tempfile::tempdir().expect("a temporary directory");
/// # let db = tailwater::Db::open_default(directory.path())?;
/// for (key, value) in [("apple", "red"), ("apricot", "orange"), ("banana", "yellow")] {
///     db.put(key, value)?;
/// }
/// for entry in db.prefix("ap") {
///     let (key, value) = entry?;
///     println!("{} is {}", key.escape_ascii(), value.escape_ascii());
/// }
/// let (last, _) = db.range(.."banana").next_back().expect("an entry")?;
/// assert_eq!(&*last, b"apricot");
/// assert_eq!(db.range("apricot"..).rev().count(), 2);
/// # Ok(())
/// # }
/// ```
pub struct Entries {
    /// `None` once the iterator has ended.
    range: Option<Box<Range>>,
    /// An error that is to be yielded as the last item.
    refused: Option<Error>,
}

struct Range {
    source: Arc<SuperVersion>,
    /// The source of newer super versions, if the iterator moves to them on its own.
    origin: Option<Origin>,
    sequence: Sequence,
    /// The options of the front and the back cursor. They include the bounds of the range, as far
    /// as options can express bounds.
    options: ReadOptions,
    start: Bound<Vec<u8>>,
    end: Bound<Vec<u8>>,
    /// The cursor that moves from the start of the range towards its end. It is on the entry that
    /// it yielded last; `None` if it has not yielded any entry yet.
    front: Option<DbIterator>,
    /// The cursor that moves from the end of the range towards its start. It is on the entry that
    /// it yielded last; `None` if it has not yielded any entry yet.
    back: Option<DbIterator>,
}

/// A copy of a key and its value.
type Entry = (Box<[u8]>, Box<[u8]>);

impl Db {
    /// Returns an iterator over a range of keys of a column family, such as `"a".."c"`, `"a"..` or
    /// `..`; see [`Entries`].
    ///
    /// The options apply as they do to [`Db::raw_iterator_cf_opt`], with these exceptions:
    /// - Bounds in the options narrow the range further.
    /// - `total_order_seek` is always true, and `prefix_same_as_start` always false: a range yields
    ///   every key within its bounds. Prefix filters would make a seek skip keys with other
    ///   prefixes.
    /// - `pin_data` has no effect: each item is a copy that belongs to the caller, so no key needs
    ///   to stay at its address in the iterator.
    /// - `allow_unprepared_value` has no effect: each item contains the value, so there is no time
    ///   at which the caller could decide whether to read it.
    ///
    /// `auto_readahead_size` ends the readahead at the end of the range, even if that is inclusive.
    ///
    /// # Errors
    /// Errors from reading tables and blob files, and of the merge operator, as the last item;
    /// invalid argument, as the only item, for a column family or a snapshot that was not obtained
    /// from this `Db` or a clone of it.
    pub fn range_cf_opt(
        &self,
        family: &ColumnFamily,
        bounds: impl KeyBounds,
        options: &ReadOptions,
    ) -> Entries {
        self.entries(family, bounds.into_bounds(), options)
    }

    /// Returns an iterator over the keys of a column family that begin with `prefix`; see
    /// [`Db::range_cf_opt`]. The iterator needs no prefix extractor, and does not use prefix
    /// filters.
    ///
    /// # Errors
    /// The errors of [`Db::range_cf_opt`]; not supported, as the only item, for a comparator other
    /// than the bytewise one, because keys with a common prefix need not be adjacent in its order.
    pub fn prefix_cf_opt(
        &self,
        family: &ColumnFamily,
        prefix: impl AsRef<[u8]>,
        options: &ReadOptions,
    ) -> Entries {
        let prefix = prefix.as_ref();
        if !matches!(family.comparator(), Comparator::Bytewise) {
            let comparator = family.comparator().name();
            let what = format!("an iterator over a prefix with the comparator '{comparator}'");
            return Entries { range: None, refused: Some(Error::not_supported(what)) };
        }
        let end = successor(prefix).map_or(Bound::Unbounded, Bound::Excluded);
        self.entries(family, (Bound::Included(prefix.to_vec()), end), options)
    }

    fn entries(
        &self,
        family: &ColumnFamily,
        (start, end): (Bound<Vec<u8>>, Bound<Vec<u8>>),
        options: &ReadOptions,
    ) -> Entries {
        if let Err(error) = self.check_read(family, options) {
            return Entries { range: None, refused: Some(error) };
        }
        let source = family.super_version();
        let sequence = self.read_sequence(options);
        let mut options = options.clone();
        options.prefix_same_as_start = false;
        options.total_order_seek = true;
        options.allow_unprepared_value = false;
        options.pin_data = false;
        let comparator = family.comparator();
        if let Bound::Included(start) = &start {
            let bound = &mut options.iterate_lower_bound;
            if bound.as_ref().is_none_or(|bound| comparator.compare(bound, start).is_lt()) {
                *bound = Some(start.clone());
            }
        }
        if let Bound::Excluded(end) = &end {
            let bound = &mut options.iterate_upper_bound;
            if bound.as_ref().is_none_or(|bound| comparator.compare(bound, end).is_gt()) {
                *bound = Some(end.clone());
            }
        }
        let origin = self.origin(family, &options).filter(Origin::refreshes);
        let (front, back) = (None, None);
        let range = Range { source, origin, sequence, options, start, end, front, back };
        Entries { range: Some(Box::new(range)), refused: None }
    }
}

/// Returns the first key after all keys that begin with `prefix`; `None` if there is no such key.
fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte < u8::MAX)?;
    let mut successor = prefix.get(..=last)?.to_vec();
    *successor.last_mut()? += 1;
    Some(successor)
}

impl Entries {
    fn step(
        &mut self,
        step: impl FnOnce(&mut Range) -> Result<Option<Entry>>,
    ) -> Option<Result<Entry>> {
        let stepped = match (&mut self.range, self.refused.take()) {
            (_, Some(error)) => Err(error),
            (Some(range), None) => step(range),
            (None, None) => return None,
        };
        let item = stepped.transpose();
        if !matches!(item, Some(Ok(_))) {
            self.range = None;
        }
        item
    }
}

impl Iterator for Entries {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Result<Entry>> {
        self.step(Range::next)
    }
}

impl DoubleEndedIterator for Entries {
    fn next_back(&mut self) -> Option<Result<Entry>> {
        self.step(Range::next_back)
    }
}

impl FusedIterator for Entries {}

impl fmt::Debug for Entries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entries")
            .field("has_ended", &self.range.is_none())
            .field("refused", &self.refused)
            .finish_non_exhaustive()
    }
}

impl Range {
    fn next(&mut self) -> Result<Option<Entry>> {
        if self.refresh() {
            self.release_back();
        }
        let comparator = self.source.tables().comparator();
        let cursor = match &mut self.front {
            Some(cursor) => {
                cursor.next()?;
                cursor
            }
            None => {
                let mut cursor = self.cursor()?;
                match &self.start {
                    Bound::Excluded(start) => {
                        cursor.seek(start)?;
                        if cursor.valid() && comparator.compare(cursor.key(), start).is_eq() {
                            cursor.next()?;
                        }
                    }
                    Bound::Included(_) | Bound::Unbounded => cursor.seek_to_first()?,
                }
                self.front.insert(cursor)
            }
        };
        let Some((key, value)) = cursor.item() else { return Ok(None) };
        let is_after_end = match &self.end {
            Bound::Included(end) => comparator.compare(key, end).is_gt(),
            Bound::Excluded(end) => comparator.compare(key, end).is_ge(),
            Bound::Unbounded => false,
        };
        let has_met =
            self.back.as_ref().is_some_and(|back| comparator.compare(key, back.key()).is_ge());
        Ok((!is_after_end && !has_met).then(|| (key.into(), value.into())))
    }

    fn next_back(&mut self) -> Result<Option<Entry>> {
        if self.refresh() {
            self.release_front();
        }
        let comparator = self.source.tables().comparator();
        let cursor = match &mut self.back {
            Some(cursor) => {
                cursor.prev()?;
                cursor
            }
            None => {
                let mut cursor = self.cursor()?;
                match &self.end {
                    Bound::Included(end) => cursor.seek_for_prev(end)?,
                    Bound::Excluded(_) | Bound::Unbounded => cursor.seek_to_last()?,
                }
                self.back.insert(cursor)
            }
        };
        let Some((key, value)) = cursor.item() else { return Ok(None) };
        let is_before_start = match &self.start {
            Bound::Excluded(start) => comparator.compare(key, start).is_le(),
            Bound::Included(_) | Bound::Unbounded => false,
        };
        let has_met =
            self.front.as_ref().is_some_and(|front| comparator.compare(key, front.key()).is_le());
        Ok((!is_before_start && !has_met).then(|| (key.into(), value.into())))
    }

    fn cursor(&self) -> Result<DbIterator> {
        let (source, options) = (Arc::clone(&self.source), &self.options);
        let bound = options.iterate_upper_bound.as_deref();
        let comparator = source.tables().comparator();
        let last = match &self.end {
            Bound::Included(end)
                if bound.is_none_or(|bound| comparator.compare(end, bound).is_lt()) =>
            {
                Some(&end[..])
            }
            _ => bound,
        };
        let mut cursor = DbIterator::attributed(
            source.clone(),
            self.sequence,
            options,
            &profile(options),
            last,
        )?;
        if let Some(origin) = &self.origin {
            cursor.set_origin(origin.clone());
        }
        Ok(cursor)
    }

    /// Moves to the newest super version. Returns false if the iterator does not refresh itself, or
    /// if there is no newer super version. The cursors do not move along.
    #[inline]
    fn refresh(&mut self) -> bool {
        match &self.origin {
            Some(origin) if origin.is_ahead_of(&self.source) => match origin.newest() {
                Some(newest) => self.source = newest,
                // The column family no longer exists, so it has no newer super version.
                None => return false,
            },
            _ => return false,
        }
        true
    }

    /// Drops the front cursor. The range then begins after the entry that it yielded last.
    fn release_front(&mut self) {
        if let Some(front) = self.front.take() {
            self.start = Bound::Excluded(front.key().to_vec());
        }
    }

    /// Drops the back cursor. The range then ends before the entry that it yielded last.
    fn release_back(&mut self) {
        if let Some(back) = self.back.take() {
            self.end = Bound::Excluded(back.key().to_vec());
            self.options.iterate_upper_bound = Some(back.key().to_vec());
        }
    }
}
