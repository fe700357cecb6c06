//! Removal of messages from the beginning of a partition: whole segments, the oldest first.
//!
//! Readers stop seeing the segments at once. One segment is removed immediately. Several are
//! removed as a batch: an empty file whose name states the offset with which the partition now
//! begins ([`StartName`]) is made durable first. The segments before it then no longer count, and
//! are removed in several steps, in turn with the partition's other steps. The directory is synced
//! once after the last of them. After a crash, recovery removes what is left, so there is never a
//! hole.

use std::mem::take;
use std::path::PathBuf;

use tailwater_format::message::name::{Kind, StartName};
use tailwater_io::{Create, IoMode, Purpose};

use super::owner::{Completions, Health};
use super::{Files, Partition};
use crate::Result;
use crate::ticket::Completer;

/// Number of files that are removed in one step.
const FILES_OF_A_STEP: usize = 64;

/// A removal of several segments that is in progress.
#[derive(Debug, Default)]
pub(super) struct Removal {
    /// The files that are not yet removed.
    files: Vec<PathBuf>,
    /// The files that record the partition's start.
    starts: Vec<PathBuf>,
    /// The commands that complete when all files are removed.
    waiting: Vec<Completer>,
}

impl Removal {
    /// Returns whether files are still to be removed.
    pub(super) fn is_in_progress(&self) -> bool {
        !self.starts.is_empty()
    }

    /// Lets a command complete when the removal ends.
    pub(super) fn wait(&mut self, completer: Completer) {
        self.waiting.push(completer);
    }

    /// Returns the commands that wait for the removal, which was completed or has failed. After a
    /// failure, the next removal or run of retention goes on with it.
    pub(super) fn end(&mut self, outcome: &Result<()>) -> Completions {
        take(&mut self.waiting).into_iter().map(|completer| (completer, outcome.clone())).collect()
    }
}

impl Partition {
    /// Removes the oldest segment as long as `goes` returns true for it, but at most `most` times.
    /// The arguments of `goes` are the offset after the oldest segment, and the lower bound on the
    /// timestamps of the next segment. The last segment is never removed.
    ///
    /// If several segments are to be removed, their files are removed by later steps.
    pub(super) fn remove_oldest(
        &self,
        files: &mut Files,
        most: usize,
        goes: impl Fn(u64, u64) -> bool,
    ) -> Result<()> {
        // Files that could not be removed earlier are removed first. Otherwise an old segment could
        // reappear after a restart, followed by a gap in the offsets.
        self.remove_unused(files)?;
        if files.removal.is_in_progress() {
            // It may have failed.
            self.owner.lock().schedule.wants_removal = true;
        }
        let snapshot = self.snapshot();
        let followed = snapshot.segments.iter().zip(snapshot.segments.iter().skip(1)).take(most);
        let count = followed
            .take_while(|(_, next)| goes(next.base_offset(), next.start().base_timestamp_us))
            .count();
        let Some((old, kept)) = snapshot.segments.split_at_checked(count) else { return Ok(()) };
        let (Some(last), Some(first)) = (old.last(), kept.first()) else { return Ok(()) };
        let is_batch = count > 1 || files.removal.is_in_progress();
        if is_batch {
            self.record_start(files, first.base_offset())?;
        }
        {
            let mut owner = self.owner.lock();
            self.publish(&mut owner, |segments| {
                segments.retain(|segment| segment.base_offset() >= first.base_offset());
            });
            owner.schedule.wants_removal |= is_batch;
        }
        let cursors = &self.env.segment_files.open.cursors;
        old.iter().for_each(|segment| cursors.forget_segment(segment));
        if !is_batch {
            // The partition's next offset is not lost, even if the next segment is empty. The name
            // of that segment contains the offset, and was made durable when it was created.
            return self.remove_segment(files, last);
        }
        let paths = old.iter().flat_map(|old| [Kind::Log, Kind::Index].map(|kind| old.path(kind)));
        files.removal.files.extend(paths);
        Ok(())
    }

    /// Records durably that the partition begins at `offset`.
    fn record_start(&self, files: &mut Files, offset: u64) -> Result<()> {
        let storage = &self.env.segment_files.storage;
        let directory = self.directory(self.owner.lock().incarnation);
        let path = directory.join(StartName(offset).to_string());
        match storage.create(&path, Create::New, IoMode::Buffered, Purpose::Metadata) {
            // An earlier removal up to this offset was not completed.
            Err(error) if error.source.kind() == std::io::ErrorKind::AlreadyExists => {}
            created => drop(created?),
        }
        storage.sync_directory(&directory).inspect_err(|_| {
            let _ = storage.remove(&path);
        })?;
        files.removal.starts.push(path);
        Ok(())
    }

    /// Removes the next files of a removal. Returns the commands that waited for its end, if this
    /// was the end.
    pub(super) fn continue_removal(&self, files: &mut Files, most: usize) -> Completions {
        let removed = self.remove_files(files, most);
        let goes_on = removed.is_ok() && files.removal.is_in_progress();
        self.owner.lock().schedule.wants_removal = goes_on;
        match goes_on {
            true => Completions::default(),
            false => files.removal.end(&removed),
        }
    }

    /// Completes a removal that is in progress.
    pub(super) fn complete_removal(&self, files: &mut Files) -> Completions {
        match files.removal.is_in_progress() {
            true => self.continue_removal(files, usize::MAX),
            false => Completions::default(),
        }
    }

    /// Takes a step of the removal in progress.
    pub(super) fn take_removal_step(&self) -> Completions {
        self.continue_removal(&mut self.files.lock(), FILES_OF_A_STEP)
    }

    fn remove_files(&self, files: &mut Files, most: usize) -> Result<()> {
        let storage = &self.env.segment_files.storage;
        let Removal { files: paths, starts, .. } = &mut files.removal;
        let rest = paths.len().saturating_sub(most);
        while paths.len() > rest {
            let Some(path) = paths.last() else { break };
            match storage.remove(path) {
                Err(error) if error.is_not_found() => {}
                removed => removed?,
            }
            paths.pop();
        }
        if !paths.is_empty() {
            return Ok(());
        }
        if let Some(directory) = starts.last().and_then(|path| path.parent()) {
            storage.sync_directory(directory)?;
        }
        // A file that stays has no effect: the partition never again has messages below its offset.
        for path in take(starts) {
            let _ = storage.remove(&path);
        }
        Ok(())
    }

    pub(super) fn do_retain(&self, files: &mut Files) -> Result<()> {
        let now = self.env.timestamps.now(&*self.env.clock);
        let (options, last_timestamp_us, now_us) = {
            let owner = self.owner.lock();
            if matches!(owner.health, Health::Failed(_)) {
                // The partition may be damaged, and its files may be restored later. Until then,
                // its last message is unknown, so retention removes nothing.
                return Ok(());
            }
            (owner.options.clone(), owner.last_timestamp_us, owner.time_us(now))
        };
        let oldest_us = options.message_expiry_us.map(|age_us| now_us.saturating_sub(age_us));
        if let Some(oldest_us) = oldest_us {
            let has_messages =
                self.snapshot().segments.last().is_some_and(|last| last.length() > 0);
            if last_timestamp_us < oldest_us && has_messages {
                // The message that was appended last has expired, and so have all older messages.
                // (If a truncation removed the message that was appended last, its expiry time
                // still decides.) The last segment can be removed only if another segment follows
                // it. If a batch was appended after the check above, the segment of that batch is
                // not removed.
                self.begin_segment(files, None)?;
            }
            self.remove_oldest(files, usize::MAX, |_, next_us| next_us < oldest_us)?;
        }
        if let Some(most) = options.partition_bytes_max {
            let count = self.count_beyond(most);
            self.remove_oldest(files, count, |_, _| true)?;
        }
        Ok(())
    }

    /// Returns the number of the oldest segments without which the partition has at most
    /// `bytes_max` bytes.
    fn count_beyond(&self, bytes_max: u64) -> usize {
        let snapshot = self.snapshot();
        let mut bytes: u64 = snapshot.segments.iter().map(|segment| segment.length()).sum();
        let beyond = snapshot.segments.iter().take_while(|segment| {
            let is_beyond = bytes > bytes_max;
            bytes = bytes.saturating_sub(segment.length());
            is_beyond
        });
        beyond.count()
    }
}
