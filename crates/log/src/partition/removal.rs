//! Removal of messages by truncation, from the end of a partition, and removal of unused files.
//!
//! Each removal is durable before the next one, so that a crash leaves no hole ([`super`]).

use std::sync::Arc;

use tailwater_format::message::name::Kind;

use super::owner::Completions;
use super::{Files, Partition, Snapshot};
use crate::segment::Segment;
use crate::{Error, ErrorKind, Result};

/// The changes of files that complete a truncation. Each of them can be repeated.
#[derive(Debug)]
pub(super) struct Truncation {
    /// The segments to remove, in the order of their offsets.
    removed: Vec<Arc<Segment>>,
    /// The last segment that is kept, with the position at which it is cut; `None` if no segment is
    /// kept.
    last: Option<(Arc<Segment>, u64)>,
    /// The first segment. If no segment is kept, an empty one takes its place.
    first: Option<Arc<Segment>>,
}

impl Truncation {
    /// Creates a truncation that keeps the first `stay` segments. `last` is the last of them, with
    /// the position at which it is cut.
    pub(super) fn new(snapshot: &Snapshot, stay: usize, last: Option<(Arc<Segment>, u64)>) -> Self {
        let removed = snapshot.segments.iter().skip(stay.max(1)).cloned().collect();
        Self { removed, last, first: snapshot.segments.first().cloned() }
    }
}

impl Partition {
    /// Completes a truncation that readers already see. If no descriptor is left, this is repeated
    /// later, and nothing is appended until it has succeeded.
    pub(super) fn continue_truncation(
        &self,
        files: &mut Files,
        completions: &mut Completions,
    ) -> Result<()> {
        let Some(truncation) = files.truncation.take() else { return Ok(()) };
        let removed = self.remove_from(files, &truncation);
        let mut owner = self.owner.lock();
        let is_short =
            removed.as_ref().is_err_and(|error| error.kind() == ErrorKind::OutOfDescriptors);
        owner.awaits_truncation = is_short;
        match &removed {
            Ok(()) => owner.has_resources(),
            Err(error) if is_short => {
                owner.wait_for_resources(&self.env, error);
                files.truncation = Some(truncation);
            }
            // Some of the files may already be removed. The next opening finds a partition that is
            // truncated to some extent; until then, nothing must be appended.
            Err(error) => {
                drop(owner);
                completions.append(self.refuse_appends(error));
            }
        }
        removed
    }

    fn remove_from(&self, files: &mut Files, truncation: &Truncation) -> Result<()> {
        // The segments are removed from the highest offset to the lowest, so that a crash leaves no
        // hole.
        for segment in truncation.removed.iter().rev() {
            self.remove_segment(files, segment)?;
        }
        match (&truncation.last, &truncation.first) {
            (Some((last, cut)), _) => self.cut(last, *cut),
            (None, Some(first)) => {
                // The name of the new segment records the next offset, so the new segment is
                // created before the last old segment is removed.
                if !self.begin_segment(files, Some(first))? {
                    let message = "a truncated partition has unpersisted batches";
                    return Err(Error::new(ErrorKind::Internal, message));
                }
                // A crash here is safe: of two segments with the same base offset, recovery uses
                // the one with the later timestamp in its name.
                let old = first.path(Kind::Log);
                match &mut files.writer {
                    // The new segment has the same name: the old file was truncated.
                    Some(next) if next.segment().path(Kind::Log) == old => next.sync(),
                    _ => self.remove_segment(files, first),
                }
            }
            (None, None) => Ok(()),
        }
    }

    /// Returns the end position of the segment's last batch whose messages all have offsets below
    /// `offset`.
    pub(super) fn position_of(&self, segment: &Segment, offset: u64) -> Result<u64> {
        let mut access = self.env.segment_files.access_now();
        let mut scanner = segment.scan_for_offset(&mut access, offset.saturating_sub(1))?;
        let mut position = 0;
        while let Some((start, header)) = scanner.peek()? {
            let end = header.base_offset + u64::from(header.count);
            if header.base_offset >= offset {
                break;
            }
            if end > offset {
                let message = format!(
                    "offset {offset} is inside a batch: truncate at {} or {}",
                    header.base_offset, end
                );
                return Err(Error::invalid(message));
            }
            position = start + header.length;
            scanner.skip();
        }
        Ok(position)
    }

    /// Resets readers and the owner to the state before the message with this offset was appended.
    pub(super) fn forget_from(&self, snapshot: &Snapshot, stay: usize, offset: u64) -> Completions {
        let mut owner = self.owner.lock();
        let completions = owner.forget_unpersisted(&self.env, &Ok(()));
        owner.take_chunks();
        owner.next_offset = offset;
        owner.persisted.offset = offset;
        owner.truncate_flushes(offset);
        owner.place = owner.next_segment();
        owner.persisted.end = owner.place;
        let segments: Vec<Arc<Segment>> = snapshot.segments.iter().take(stay).cloned().collect();
        self.publish(&mut owner, |old| *old = segments);
        self.publish_end(&owner);
        drop(owner);
        self.env.segment_files.open.cursors.forget(self.id);
        completions
    }

    /// Cuts a sealed segment at a position, durably.
    fn cut(&self, segment: &Segment, position: u64) -> Result<()> {
        use tailwater_io::{Create, IoMode, Purpose};
        let path = segment.path(Kind::Log);
        let mode = IoMode::Buffered;
        let storage = &self.env.segment_files.storage;
        let mut file = storage
            .create(&path, Create::Existing, mode, Purpose::LogAppend)
            .map_err(Error::on_required)?;
        file.truncate(position)?;
        file.sync_all(Purpose::LogAppend)?;
        segment.set_length(position);
        segment.forget_entries_from(position);
        let _ = segment.write_index(&self.env.segment_files);
        Ok(())
    }

    /// Creates the segment of the next batch. Its name records the next offset. Later appends go to
    /// the new segment. If there are unpersisted batches, does nothing and returns false. `emptied`
    /// is as for [`Self::rotate`].
    pub(super) fn begin_segment(
        &self,
        files: &mut Files,
        emptied: Option<&Arc<Segment>>,
    ) -> Result<bool> {
        // The owner checks under one lock that everything is persisted, and moves the position of
        // the next batch to the new segment. A batch that is appended between these two steps would
        // belong to the old segment. Persisting that batch would create the old segment's file
        // again, and thus truncate the file.
        let Some(start) = self.owner.lock().begin_segment(&self.env) else { return Ok(false) };
        self.rotate(files, start, emptied)?;
        if let Some(writer) = &mut files.writer {
            writer.sync_name()?;
        }
        self.owner.lock().begun_segment(start);
        Ok(true)
    }

    /// Removes a segment's files, durably. Files that cannot be removed stay in `unused`, and the
    /// next removal starts with them.
    pub(super) fn remove_segment(&self, files: &mut Files, segment: &Segment) -> Result<()> {
        files.unused.extend([Kind::Log, Kind::Index].map(|kind| segment.path(kind)));
        self.remove_unused(files)
    }

    /// Removes unused files, durably.
    pub(super) fn remove_unused(&self, files: &mut Files) -> Result<()> {
        while let Some(path) = files.unused.last() {
            match self.env.segment_files.storage.remove(path) {
                Err(error) if error.is_not_found() => {}
                removed => removed?,
            }
            if let Some(directory) = path.parent() {
                files.unsynced = Some(directory.to_owned());
            }
            files.unused.pop();
        }
        if let Some(directory) = &files.unsynced {
            self.env.segment_files.storage.sync_directory(directory)?;
            files.unsynced = None;
        }
        Ok(())
    }
}
