//! Going over to a newer super version of the column family, so that memtables and tables that
//! only an iterator still needs can go.
//!
//! The iterator keeps its sequence number, so both super versions show it the same keys and values,
//! though perhaps in other sources: a flush moves records to a table, a compaction drops those that
//! nobody can see. Sources that both have are kept with their positions and whatever they have read
//! ahead; the others are made anew and placed.
//!
//! It goes over at the beginning of a step, not at its end, so that the key and the value that it
//! shows stay where they are for as long as it stands on them. Going forward from a key, all new
//! sources are placed before the first record of that key, and the step passes all its records.
//! Going backward, they are placed before them. A seek or a change of direction places all sources
//! anyway.
//!
//! After an error in between the iterator has no sources and stands on nothing; the next seek makes
//! them.

use std::sync::{Arc, Weak};

use tailwater_format::key::Sequence;

use crate::db::{ColumnFamily, Followed, ReadOptions, Shared, Snapshot, SuperVersion};
use crate::iterator::Direction;
use crate::{Error, Result};

use super::{DbIterator, FIRST_TRAILER, Place, leaves, set_internal_key};

/// Where the newer super versions of an iterator come from.
pub(super) struct Origin {
    family: Followed,
    shared: Weak<Shared>,
    /// Whether the iterator refreshes itself while it has a snapshot.
    is_asked: bool,
    /// Held for as long as the iterator refreshes itself, so that no newer super version lacks what
    /// it shows.
    snapshot: Option<Snapshot>,
}

/// What an iterator is to see: what a snapshot sees, or what is in the database.
pub(super) struct Refresh(Option<Snapshot>);

impl DbIterator {
    /// Lets it go over to newer super versions, by itself if the options ask for that.
    pub(crate) fn set_origin(
        &mut self,
        family: &ColumnFamily,
        shared: &Arc<Shared>,
        options: &ReadOptions,
    ) {
        let is_asked = options.auto_refresh_iterator_with_snapshot;
        let snapshot = options.snapshot.clone().filter(|_| is_asked);
        self.refreshes = snapshot.is_some();
        let (family, shared) = (family.follow(), Arc::downgrade(shared));
        self.origin = Some(Origin { family, shared, is_asked, snapshot });
    }

    /// Makes it see what is in the database now, and lets go of the memtables and tables that it
    /// kept for what it saw before. It stands on nothing until the next seek. It no longer
    /// refreshes itself, since it has no snapshot from here on.
    ///
    /// # Errors
    /// Not supported, on a read-only handle; invalid argument, where the database or the dropped
    /// column family has no handle any more; those of opening tables, after which the next seek
    /// tries again.
    pub fn refresh(&mut self) -> Result<()> {
        self.refresh_to(Refresh(None))
    }

    /// Makes it see what `snapshot` sees, and otherwise works as [`DbIterator::refresh`]. It
    /// refreshes itself from here on if its options say so.
    ///
    /// # Errors
    /// Those of [`DbIterator::refresh`]; invalid argument, for a snapshot of another database.
    pub fn refresh_at(&mut self, snapshot: &Snapshot) -> Result<()> {
        self.refresh_to(Refresh(Some(snapshot.clone())))
    }

    fn refresh_to(&mut self, refresh: Refresh) -> Result<()> {
        let Some(origin) = &mut self.origin else {
            return Err(Error::not_supported("refreshing an iterator of a read-only handle"));
        };
        let Some(shared) = origin.shared.upgrade() else {
            return Err(Error::invalid_argument("the iterator's database is closed"));
        };
        let snapshot = refresh.0.as_ref();
        if snapshot.is_some_and(|snapshot| !snapshot.is_of(&shared)) {
            return Err(Error::invalid_argument("the snapshot is of another database"));
        }
        // Before what reads see now: nothing keeps records of an older moment in a newer version.
        let Some(source) = origin.family.super_version() else {
            let message = "the iterator's column family was dropped, and nobody has a handle to it";
            return Err(Error::invalid_argument(message));
        };
        origin.snapshot = snapshot.filter(|_| origin.is_asked).cloned();
        self.refreshes = origin.snapshot.is_some();
        let sequence = match snapshot {
            Some(snapshot) => snapshot.sequence(),
            None => shared.published(),
        };
        self.place = Place::Nowhere;
        // Until it has succeeded it is tried again, with its snapshot held or at a later moment:
        // nothing keeps what is seen at this one.
        self.unfinished = Some(refresh);
        self.go_over(source, sequence, None)?;
        self.unfinished = None;
        self.follow_view();
        Ok(())
    }

    fn follow_view(&mut self) {
        self.view.follow(&self.source, &self.manner);
        self.is_view_old = false;
    }

    /// Returns whether there is a newer super version to go over to.
    #[inline]
    pub(super) fn is_outdated(&self) -> bool {
        self.refreshes
            && self
                .origin
                .as_ref()
                .is_some_and(|origin| origin.family.super_version_number() != self.source.number())
    }

    /// Goes over to a newer super version, if there is one, before a seek.
    #[inline]
    pub(super) fn refresh_before_seek(&mut self) -> Result<()> {
        if let Some(refresh) = self.unfinished.take() {
            return self.refresh_to(refresh);
        }
        if self.is_incomplete || self.is_outdated() {
            self.place = Place::Nowhere;
            self.go_over_to_newest(None)?;
            self.follow_view();
        } else if self.is_view_old {
            self.follow_view();
        }
        Ok(())
    }

    /// Goes over to a newer super version before a step to the next key.
    #[cold]
    pub(super) fn refresh_before_next(&mut self) -> Result<()> {
        self.hold_key();
        let target = match self.direction {
            Direction::Forward => Some(Direction::Forward),
            // The change of direction places all sources.
            Direction::Backward => None,
        };
        self.go_over_to_newest(target)
    }

    /// Goes over to a newer super version before a step to the previous key.
    #[cold]
    pub(super) fn refresh_before_previous(&mut self) -> Result<()> {
        self.hold_key();
        let target = match self.direction {
            Direction::Forward => None,
            Direction::Backward => Some(Direction::Backward),
        };
        self.go_over_to_newest(target)
    }

    /// Copies the key that it stands on, whose record may go.
    fn hold_key(&mut self) {
        if self.place == Place::OnRecord {
            self.note_key();
            self.place = Place::Copied;
        }
    }

    fn go_over_to_newest(&mut self, direction: Option<Direction>) -> Result<()> {
        let newest = self.origin.as_ref().and_then(|origin| origin.family.super_version());
        // Where nobody has the column family any more, there are no newer ones.
        let source = newest.unwrap_or_else(|| Arc::clone(&self.source));
        self.is_view_old = true;
        self.go_over(source, self.view.snapshot, direction)
    }

    /// Goes over to another super version, in which it sees `sequence`. With a direction, the
    /// sources are placed before the records of the key that it stands on.
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
        let leaves = leaves(&source, sequence, &self.manner, old, target)?;
        self.merged.put_leaves(leaves);
        self.source = source;
        self.is_incomplete = false;
        Ok(())
    }
}
