//! Moving an iterator to a newer super version of the column family. The memtables and tables that
//! only the older super version refers to can then be released.
//!
//! The iterator keeps its sequence number, so it returns the same keys and values from both super
//! versions. But these may be in other sources: a flush moves records to a table, and a compaction
//! moves records to new tables and drops invisible ones. Sources that belong to both super versions
//! are reused with their positions and readahead. The other sources are created and positioned.
//!
//! The iterator moves to the newer super version at the beginning of a step or seek, not at its
//! end. So the current key and value keep their addresses until the next step. For a step forward,
//! the new sources are positioned at their first records at or after the current key, and the step
//! then skips all records of this key. For a step backward, the new sources are positioned before
//! the records of the current key. A seek or a change of direction positions all sources anyway.
//!
//! If the move fails, the iterator has no sources and no position. The next seek creates the
//! sources.

use std::sync::{Arc, Weak};

use tailwater_format::key::Sequence;

use crate::column_family::{ColumnFamily, SuperVersion, WeakFamily};
use crate::error::{Error, Result};
use crate::iterator::Direction;
use crate::read::{ReadOptions, ReadState, Snapshot};
use crate::stats::slow_reads::Operation;

use super::sources::leaves;
use super::{DbIterator, EntryLocation, FIRST_TRAILER, set_internal_key};

/// The column family and database from which an iterator gets newer super versions.
#[derive(Clone)]
pub(crate) struct Origin {
    family: WeakFamily,
    shared: Weak<ReadState>,
    /// Whether the read options set `auto_refresh_iterator_with_snapshot`. The iterator then
    /// refreshes itself as long as it reads at a snapshot.
    is_requested: bool,
    /// The snapshot at which the iterator reads; `None` if the iterator does not refresh itself.
    /// Holding the snapshot ensures that every newer super version keeps the records that the
    /// iterator shows.
    snapshot: Option<Snapshot>,
}

impl Origin {
    /// Returns the origin of iterators that are created with `options`.
    pub(crate) fn new(
        family: &ColumnFamily,
        shared: &Arc<ReadState>,
        options: &ReadOptions,
    ) -> Self {
        let is_requested = options.auto_refresh_iterator_with_snapshot;
        let snapshot = options.snapshot.clone().filter(|_| is_requested);
        let (family, shared) = (family.downgrade(), Arc::downgrade(shared));
        Self { family, shared, is_requested, snapshot }
    }

    /// Whether iterators refresh themselves.
    pub(crate) fn refreshes(&self) -> bool {
        self.snapshot.is_some()
    }

    /// Whether there is a newer super version than `source`.
    #[inline]
    pub(crate) fn is_ahead_of(&self, source: &SuperVersion) -> bool {
        self.family.super_version_number() != source.number()
    }

    /// Returns the newest super version; `None` if the column family no longer exists.
    pub(crate) fn newest(&self) -> Option<Arc<SuperVersion>> {
        self.family.super_version()
    }
}

/// The state that a refresh moves an iterator to: that of a snapshot or, with `None`, the current
/// state.
#[derive(Clone)]
pub(super) struct Refresh(Option<Snapshot>);

impl DbIterator {
    /// Tells the iterator where to get newer super versions. It moves to them on its own if its
    /// read options have a snapshot and set `auto_refresh_iterator_with_snapshot`.
    pub(crate) fn set_origin(&mut self, origin: Origin) {
        self.refreshes = origin.refreshes();
        self.origin = Some(origin);
    }

    /// Moves the iterator to the current state of the database, and releases the memtables and
    /// tables that it kept for the earlier state. The iterator has no position until the next seek.
    /// This call ends automatic refreshes (`auto_refresh_iterator_with_snapshot`), because they
    /// need a snapshot at which the iterator reads.
    ///
    /// # Errors
    /// - Read-only: the iterator comes from a read-only handle.
    /// - Closed: all handles of the database were dropped.
    /// - Invalid argument: the column family was dropped, and so were all of its handles.
    /// - Errors from opening tables. The next seek tries again.
    pub fn refresh(&mut self) -> Result<()> {
        self.attribute(Operation::Refresh, None, |it| it.refresh_to(Refresh(None)))
    }

    /// Moves the iterator to the state of `snapshot`; otherwise like [`DbIterator::refresh`]. If
    /// the read options set `auto_refresh_iterator_with_snapshot`, the iterator refreshes itself
    /// from then on.
    ///
    /// # Errors
    /// The errors of [`DbIterator::refresh`], and invalid argument if the snapshot belongs to
    /// another database.
    pub fn refresh_at(&mut self, snapshot: &Snapshot) -> Result<()> {
        let refresh = Refresh(Some(snapshot.clone()));
        self.attribute(Operation::Refresh, None, |it| it.refresh_to(refresh))
    }

    fn refresh_to(&mut self, refresh: Refresh) -> Result<()> {
        let Some(origin) = &mut self.origin else {
            return Err(Error::read_only().while_doing("refreshing an iterator"));
        };
        let Some(shared) = origin.shared.upgrade() else {
            return Err(Error::closed());
        };
        let snapshot = refresh.0.as_ref();
        if snapshot.is_some_and(|snapshot| !snapshot.is_of(&shared)) {
            return Err(Error::invalid_argument("the snapshot belongs to another database"));
        }
        // The super version must be loaded before the sequence number. In the opposite order, a
        // compaction in between could drop records that are visible at the sequence number, and the
        // super version would lack them.
        let Some(source) = origin.newest() else {
            let message = "the iterator's column family was dropped, and has no handle left";
            return Err(Error::invalid_argument(message));
        };
        origin.snapshot = snapshot.filter(|_| origin.is_requested).cloned();
        self.refreshes = origin.refreshes();
        let sequence = match snapshot {
            Some(snapshot) => snapshot.sequence_number(),
            None => shared.published(),
        };
        self.location = EntryLocation::Nowhere;
        // Until this refresh succeeds, the next seek tries it again. A refresh to a snapshot is
        // tried again at the same snapshot, which `unfinished` holds. A refresh to the current
        // state is tried again at the sequence number that is current then, because nothing keeps
        // the records that are visible at `sequence`.
        self.unfinished = Some(refresh);
        self.go_over(source, sequence, None)?;
        self.unfinished = None;
        self.follow_view();
        Ok(())
    }

    fn follow_view(&mut self) {
        self.view.follow(&self.source, &self.settings);
        self.is_view_old = false;
    }

    /// Whether the iterator refreshes itself and there is a newer super version.
    #[inline]
    pub(super) fn is_outdated(&self) -> bool {
        self.refreshes
            && self.origin.as_ref().is_some_and(|origin| origin.is_ahead_of(&self.source))
    }

    /// Called before each seek. If a refresh has failed, repeats it. If none has failed and the
    /// iterator refreshes itself, moves the iterator to the newest super version.
    #[inline]
    pub(super) fn refresh_before_seek(&mut self) -> Result<()> {
        if let Some(refresh) = self.unfinished.clone() {
            return self.refresh_to(refresh);
        }
        if self.is_incomplete || self.is_outdated() {
            self.location = EntryLocation::Nowhere;
            self.go_over_to_newest(None)?;
            self.follow_view();
        } else if self.is_view_old {
            self.follow_view();
        }
        Ok(())
    }

    /// Moves the iterator to the newest super version. Called before a step to the next key.
    #[cold]
    pub(super) fn refresh_before_next(&mut self) -> Result<()> {
        self.hold_key();
        let target = match self.direction {
            Direction::Forward => Some(Direction::Forward),
            // The step to the next key reverses the direction. The reversal positions all sources,
            // so they are not positioned here.
            Direction::Backward => None,
        };
        self.go_over_to_newest(target)
    }

    /// Moves the iterator to the newest super version. Called before a step to the previous key.
    #[cold]
    pub(super) fn refresh_before_previous(&mut self) -> Result<()> {
        let is_on_record = self.location == EntryLocation::OnRecord;
        self.hold_key();
        let target = match self.direction {
            Direction::Forward => None,
            Direction::Backward => {
                if is_on_record {
                    self.merged.previous()?;
                }
                Some(Direction::Backward)
            }
        };
        self.go_over_to_newest(target)
    }

    /// Copies the current key, because the source that holds it may be released.
    fn hold_key(&mut self) {
        if self.location == EntryLocation::OnRecord {
            self.note_key();
            self.location = EntryLocation::Copied;
        }
    }

    fn go_over_to_newest(&mut self, direction: Option<Direction>) -> Result<()> {
        let newest = self.origin.as_ref().and_then(Origin::newest);
        // A column family that no longer exists has no newer super version. The current one is
        // kept.
        let source = newest.unwrap_or_else(|| Arc::clone(&self.source));
        self.is_view_old = true;
        self.go_over(source, self.view.snapshot, direction)
    }

    /// Moves to another super version and to the state at `sequence`. With a direction, the new
    /// sources are positioned relative to the current key: forward, at their first record at or
    /// after it; backward, at their last record before it. Without a direction, the new sources
    /// have no position, and the caller must seek in all sources.
    fn go_over(
        &mut self,
        source: Arc<SuperVersion>,
        sequence: Sequence,
        direction: Option<Direction>,
    ) -> Result<()> {
        let mut old = self.merged.take_leaves();
        self.is_incomplete = true;
        if sequence != self.view.snapshot {
            self.view.snapshot = sequence;
            old.iter_mut().try_for_each(|leaf| leaf.set_snapshot(sequence))?;
        }
        set_internal_key(&mut self.target, &self.key, FIRST_TRAILER);
        let target = direction.map(|direction| (&self.target[..], direction));
        let leaves = leaves(&source, sequence, &self.settings, old, target)?;
        self.merged.put_leaves(leaves);
        self.source = source;
        self.is_incomplete = false;
        Ok(())
    }
}
