//! Moving an iterator to a newer super version of the column family, so that memtables and tables
//! that only the iterator needs can be released.
//!
//! The iterator keeps its sequence number, so it returns the same keys and values from both super
//! versions. But they may be in other sources: a flush moves records to a table, and a compaction
//! drops invisible records. Sources that are in both super versions are kept with their positions
//! and read-ahead. The other sources are created and positioned.
//!
//! The iterator moves to the newer super version at the beginning of a step, not at its end, so
//! that the current key and value keep their addresses until the step. Moving forward, all new
//! sources are positioned at the first record of the current key, and the step then skips all
//! records of this key. Moving backward, the new sources are positioned before the records of the
//! current key. A seek or a change of direction positions all sources anyway.
//!
//! After an error during this move, the iterator has no sources and no position; the next seek
//! creates the sources.

use std::sync::{Arc, Weak};

use tailwater_format::key::Sequence;

use crate::column_family::{ColumnFamily, SuperVersion, WeakFamily};
use crate::error::{Error, Result};
use crate::iterator::Direction;
use crate::read::{ReadOptions, ReadState, Snapshot};

use super::{DbIterator, EntryLocation, FIRST_TRAILER, leaves, set_internal_key};

/// The source of an iterator's newer super versions.
pub(super) struct Origin {
    family: WeakFamily,
    shared: Weak<ReadState>,
    /// Whether the read options ask the iterator to refresh itself while it has a snapshot.
    is_asked: bool,
    /// Held while the iterator refreshes itself, so that every newer super version keeps the
    /// records that the iterator shows.
    snapshot: Option<Snapshot>,
}

/// The state that an iterator is to see: that of a snapshot or, with `None`, the current state.
pub(super) struct Refresh(Option<Snapshot>);

impl DbIterator {
    /// Enables moving to newer super versions; the moves are automatic if the read options ask for
    /// that.
    pub(crate) fn set_origin(
        &mut self,
        family: &ColumnFamily,
        shared: &Arc<ReadState>,
        options: &ReadOptions,
    ) {
        let is_asked = options.auto_refresh_iterator_with_snapshot;
        let snapshot = options.snapshot.clone().filter(|_| is_asked);
        self.refreshes = snapshot.is_some();
        let (family, shared) = (family.downgrade(), Arc::downgrade(shared));
        self.origin = Some(Origin { family, shared, is_asked, snapshot });
    }

    /// Moves the iterator to the current state of the database, and releases the memtables and
    /// tables that it kept for the earlier state. It then has no position until the next seek. It
    /// no longer refreshes itself, since it no longer has a snapshot.
    ///
    /// # Errors
    /// Read-only, on a read-only handle; closed, if the database has no handle left; invalid
    /// argument, if the column family was dropped and has no handle left; errors from opening
    /// tables, after which the next seek tries again.
    pub fn refresh(&mut self) -> Result<()> {
        self.refresh_to(Refresh(None))
    }

    /// Moves the iterator to the state of `snapshot`, and otherwise works like
    /// [`DbIterator::refresh`]. The iterator then refreshes itself if its options ask for that.
    ///
    /// # Errors
    /// The errors of [`DbIterator::refresh`]; invalid argument, for a snapshot of another database.
    pub fn refresh_at(&mut self, snapshot: &Snapshot) -> Result<()> {
        self.refresh_to(Refresh(Some(snapshot.clone())))
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
        // The super version is loaded before the sequence number: a newer super version may lack
        // records that are visible at an older sequence number.
        let Some(source) = origin.family.super_version() else {
            let message = "the iterator's column family was dropped, and has no handle left";
            return Err(Error::invalid_argument(message));
        };
        origin.snapshot = snapshot.filter(|_| origin.is_asked).cloned();
        self.refreshes = origin.snapshot.is_some();
        let sequence = match snapshot {
            Some(snapshot) => snapshot.sequence(),
            None => shared.published(),
        };
        self.place = EntryLocation::Nowhere;
        // The refresh is retried until it succeeds. A refresh to a snapshot is retried at that
        // snapshot, which is held. Any other is retried at a later sequence number, since nothing
        // keeps the records visible at this one.
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

    /// Whether there is a newer super version.
    #[inline]
    pub(super) fn is_outdated(&self) -> bool {
        self.refreshes
            && self
                .origin
                .as_ref()
                .is_some_and(|origin| origin.family.super_version_number() != self.source.number())
    }

    /// Moves to a newer super version, if there is one, before a seek.
    #[inline]
    pub(super) fn refresh_before_seek(&mut self) -> Result<()> {
        if let Some(refresh) = self.unfinished.take() {
            return self.refresh_to(refresh);
        }
        if self.is_incomplete || self.is_outdated() {
            self.place = EntryLocation::Nowhere;
            self.go_over_to_newest(None)?;
            self.follow_view();
        } else if self.is_view_old {
            self.follow_view();
        }
        Ok(())
    }

    /// Moves to a newer super version, if there is one, before a step to the next key.
    #[cold]
    pub(super) fn refresh_before_next(&mut self) -> Result<()> {
        self.hold_key();
        let target = match self.direction {
            Direction::Forward => Some(Direction::Forward),
            // The change of direction positions all sources.
            Direction::Backward => None,
        };
        self.go_over_to_newest(target)
    }

    /// Moves to a newer super version, if there is one, before a step to the previous key.
    #[cold]
    pub(super) fn refresh_before_previous(&mut self) -> Result<()> {
        self.hold_key();
        let target = match self.direction {
            Direction::Forward => None,
            Direction::Backward => Some(Direction::Backward),
        };
        self.go_over_to_newest(target)
    }

    /// Copies the current key, because the source of its record may be released.
    fn hold_key(&mut self) {
        if self.place == EntryLocation::OnRecord {
            self.note_key();
            self.place = EntryLocation::Copied;
        }
    }

    fn go_over_to_newest(&mut self, direction: Option<Direction>) -> Result<()> {
        let newest = self.origin.as_ref().and_then(|origin| origin.family.super_version());
        // If the column family no longer exists, there are no newer super versions.
        let source = newest.unwrap_or_else(|| Arc::clone(&self.source));
        self.is_view_old = true;
        self.go_over(source, self.view.snapshot, direction)
    }

    /// Moves to another super version, and to the state at `sequence`. With a direction, the new
    /// sources are positioned where the records of the current key begin: forward, at or after the
    /// first record; backward, before it.
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
