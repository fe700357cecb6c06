//! The execution of commands: changes to the files of a partition, other than persisting.

use std::sync::Arc;

use tailwater_format::message::name::Kind;

use super::owner::{Command, Completions, Effect, Health, Owner, SegmentPosition};
use super::removal::Truncation;
use super::{Files, Partition, Snapshot};
use crate::layout;
use crate::offsets::Offsets;
use crate::panics;
use crate::patience::patiently;
use crate::segment::dense;
use crate::ticket::Ticket;
use crate::{Error, ErrorKind, Result};

impl Partition {
    fn submit(&self, effect: Effect) -> Ticket {
        self.submit_for(|_| effect)
    }

    /// Queues a command whose effect depends on the state in which the command is queued.
    fn submit_for(&self, effect: impl FnOnce(&Owner) -> Effect) -> Ticket {
        let mut owner = self.owner.lock();
        if let Some(error) = owner.health.error(self.id)
            && owner.health.has_ended()
        {
            return Ticket::complete(Err(error));
        }
        let (command, ticket) = Command::new(effect(&owner));
        owner.queue(command);
        self.schedule(owner);
        ticket
    }

    /// Persists all earlier appends, and syncs them if `is_synced`, whatever the topic's
    /// durability.
    ///
    /// # Errors
    /// The ticket's: closed; not found, if the partition was deleted; I/O errors from writing.
    pub fn flush(&self, is_synced: bool) -> Ticket {
        self.submit_for(|owner| Effect::Flush {
            incarnation: owner.incarnation,
            offset: owner.next_offset,
            is_synced,
        })
    }

    /// Removes all messages. The next message has offset 0. Unacknowledged earlier appends are
    /// acknowledged, and their messages are removed too.
    ///
    /// # Errors
    /// The ticket's: closed; not found, if the partition was deleted; I/O errors from the catalog.
    pub fn purge(&self) -> Ticket {
        self.submit(Effect::Purge)
    }

    /// Removes the messages whose offsets are `offset` or above. The next message has this offset.
    /// An offset at or above the end of the partition has no effect.
    ///
    /// A batch is kept or removed as a whole: if the offset is inside a batch, the ticket fails
    /// with an invalid argument error that states where the batch begins and ends.
    ///
    /// Stored offsets of consumers stay as they are until the log is opened again. A consumer whose
    /// stored offset is beyond the end would miss new messages, so prefer
    /// [`Log::truncate`](crate::Log::truncate), which lowers these offsets.
    ///
    /// # Errors
    /// The ticket's: invalid argument, if the offset is inside a batch or below the first message;
    /// closed; not found, if the partition was deleted; I/O errors.
    pub fn truncate(&self, offset: u64) -> Ticket {
        self.truncate_and_clamp(offset, None)
    }

    /// Like [`Self::truncate`], but before appends are accepted again, also lowers each consumer's
    /// stored offset that is beyond the new last message to the offset of that message.
    pub(crate) fn truncate_and_clamp(&self, offset: u64, offsets: Option<Arc<Offsets>>) -> Ticket {
        self.submit(Effect::Truncate { offset, offsets })
    }

    /// Makes all earlier writes durable. From then on, every write is durable when it returns.
    pub(crate) fn harden(&self) -> Ticket {
        self.submit(Effect::Harden)
    }

    /// Refuses appends from now on, until the log is opened again. Unacknowledged appends fail.
    pub(crate) fn fail(&self, error: &Error) {
        self.refuse_appends(error).complete();
        self.env.backpressure.changed();
    }

    /// Like [`Self::refuse_appends`], unless the error only says that no descriptor is left: then
    /// nothing was changed, and the call can be repeated.
    fn refuse_appends_if_final(&self, error: &Error) -> Completions {
        match error.kind() {
            ErrorKind::OutOfDescriptors => Completions::default(),
            _ => self.refuse_appends(error),
        }
    }

    /// Refuses appends from now on, until the log is opened again. Unacknowledged appends fail.
    pub(super) fn refuse_appends(&self, error: &Error) -> Completions {
        let mut owner = self.owner.lock();
        owner.fail(error);
        // If batches of a dead process are still being recovered, only those batches are in memory.
        // They were acknowledged, and a thread may be appending them, so they are not dropped.
        let completions = if owner.awaits_survivors {
            Completions::default()
        } else {
            owner.drop_unacknowledged(&self.env, error)
        };
        // Readers must not keep the chunks of the dropped batches.
        self.publish(&mut owner, |_| ());
        completions
    }

    /// Removes up to `count` of the oldest sealed segments, as long as the messages of each are all
    /// below offset `below`.
    ///
    /// # Errors
    /// The ticket's: closed; not found, if the partition was deleted; I/O errors.
    pub fn delete_segments(&self, count: usize, below: u64) -> Ticket {
        self.submit(Effect::DeleteSegments { count, below })
    }

    /// Removes expired segments, and the oldest segments while the partition exceeds its size
    /// limit, according to the topic's options.
    ///
    /// # Errors
    /// The ticket's: closed; not found, if the partition was deleted; I/O errors.
    pub fn retain(&self) -> Ticket {
        self.submit(Effect::Retain)
    }

    /// Persists everything and refuses appends from now on.
    pub(crate) fn close(&self) -> Ticket {
        self.submit(Effect::Close)
    }

    /// Closes the partition and removes its files, after its removal from the catalog.
    pub(crate) fn delete(&self) -> Ticket {
        self.submit(Effect::Delete)
    }

    /// Executes a command and completes its ticket.
    pub(super) fn execute(&self, command: Command) {
        let is_barrier = command.is_barrier();
        let is_last = matches!(command.effect, Effect::Close | Effect::Delete);
        let removes = matches!(command.effect, Effect::DeleteSegments { .. } | Effect::Retain);
        let mut files = self.files.lock();
        let persisted_before = self.owner.lock().persisted_before(&command);
        let mut completions = Completions::default();
        let mut clamped = None;
        let effect = || match command.effect {
            Effect::Flush { is_synced, .. } => {
                self.finish_flush(&mut files, persisted_before, is_synced, &mut completions)
            }
            Effect::Purge => self.do_purge(&mut files, &mut completions),
            Effect::Truncate { offset, offsets } => {
                clamped = offsets;
                self.do_truncate(&mut files, offset, &mut completions)
            }
            Effect::DeleteSegments { count, below } => {
                self.remove_oldest(&mut files, count, |segment_end, _| segment_end <= below)
            }
            Effect::Harden => self.do_harden(&mut files, &mut completions),
            Effect::Retain => self.do_retain(&mut files),
            Effect::Install(rewritten) => self.install(&mut files, &rewritten),
            Effect::Close => self.do_close(&mut files, &mut completions),
            Effect::Delete => {
                self.do_delete(&mut files, &mut completions);
                Ok(())
            }
        };
        let what = format!("a command on {}", self.id);
        let outcome = panics::catch(&what, effect);
        let completer = match (removes && outcome.is_ok()) && files.removal.is_in_progress() {
            true => {
                files.removal.wait(command.completer);
                None
            }
            false => Some(command.completer),
        };
        // Clamping stored offsets or completing a ticket may call functions of the user, so first
        // unlock the files.
        drop(files);
        let outcome = outcome.and_then(|()| match clamped {
            Some(offsets) => panics::catch(&what, || self.clamp(&offsets)),
            None => Ok(()),
        });
        if let Err(error) = &outcome
            && matches!(error.kind(), ErrorKind::Panicked | ErrorKind::Internal)
        {
            completions.append(self.refuse_appends(error));
        }
        {
            let mut owner = self.owner.lock();
            owner.schedule.barriers -= usize::from(is_barrier);
            if is_last {
                completions.append(owner.refuse_commands(&self.env));
            }
        }
        if let Some(completer) = completer {
            completions.add(completer, outcome);
        }
        completions.complete();
        self.env.backpressure.changed();
    }

    /// Completes a flush of the messages below `offset`; `None` if there is no such message any
    /// more.
    fn finish_flush(
        &self,
        files: &mut Files,
        offset: Option<u64>,
        is_synced: bool,
        completions: &mut Completions,
    ) -> Result<()> {
        {
            let owner = self.owner.lock();
            if offset.is_some_and(|offset| !owner.is_persisted(offset)) {
                return Err(owner.why_not_persisted());
            }
        }
        match &mut files.writer {
            // A failed sync is never retried: the system may have dropped the pages that it could
            // not write, and a second sync could falsely succeed.
            Some(writer) if is_synced => writer
                .sync()
                .inspect_err(|error| completions.append(self.refuse_appends_if_final(error))),
            _ => Ok(()),
        }
    }

    fn do_harden(&self, files: &mut Files, completions: &mut Completions) -> Result<()> {
        self.owner.lock().is_hardened = true;
        match &mut files.writer {
            Some(writer) => writer
                .harden()
                .inspect_err(|error| completions.append(self.refuse_appends_if_final(error))),
            None => Ok(()),
        }
    }

    /// If a consumer's stored offset is beyond the partition's last message, lowers that offset to
    /// the offset of the last message.
    fn clamp(&self, offsets: &Offsets) -> Result<()> {
        let (incarnation, end) = {
            let owner = self.owner.lock();
            (owner.incarnation, owner.next_offset)
        };
        offsets.clamp(self.id, incarnation, end)
    }

    fn do_purge(&self, files: &mut Files, completions: &mut Completions) -> Result<()> {
        let old_incarnation = self.owner.lock().incarnation;
        let storage = &self.env.segment_files.storage;
        let (incarnation, directory) =
            layout::create_incarnation(&**storage, &self.env.directory, &self.catalog, self.id)?;
        if let Some(parent) = directory.parent()
            && let Err(error) = patiently(|| storage.sync_directory(parent))
        {
            self.remove_directory(incarnation);
            return Err(error.into());
        }
        // A crash before the catalog's change is safe: the catalog does not name the new directory,
        // and opening the log removes it.
        if let Err(error) = self.catalog.purge(self.id, old_incarnation, incarnation) {
            if self.catalog.is_unsettled() {
                completions.append(self.refuse_appends(&error));
            } else {
                self.remove_directory(incarnation);
            }
            return Err(error);
        }
        // Regions of shared memory that cannot be removed now are removed when the log is next
        // opened.
        let _ = self.remove_survivors(files);
        // The files of a removal are in the old directory, which is removed as a whole.
        completions.append(files.removal.end(&Ok(())));
        *files = Files::default();
        {
            let mut owner = self.owner.lock();
            completions.append(owner.forget_unpersisted(&self.env, &Ok(())));
            let fresh = Owner::new(
                &self.env,
                self.id,
                incarnation,
                owner.options.clone(),
                0,
                owner.last_timestamp_us,
                SegmentPosition::first(),
            );
            owner.become_incarnation(fresh);
            self.snapshot.store(Some(Arc::new(Snapshot::empty(incarnation))));
        }
        self.env.segment_files.open.cursors.forget(self.id);
        self.remove_directory(old_incarnation);
        Ok(())
    }

    /// Removes an incarnation's files. Files that cannot be removed now are removed when the log is
    /// next opened.
    fn remove_directory(&self, incarnation: u64) {
        layout::remove_incarnation(&*self.env.segment_files.storage, &self.directory(incarnation));
    }

    /// Removes the messages at and after an offset. The caller ensures that everything is persisted
    /// and that appends are refused.
    fn do_truncate(
        &self,
        files: &mut Files,
        offset: u64,
        completions: &mut Completions,
    ) -> Result<()> {
        completions.append(self.complete_removal(files));
        self.remove_unused(files)?;
        let snapshot = self.snapshot();
        let end = {
            let owner = self.owner.lock();
            if let Health::Failed(error) = &owner.health {
                // If an earlier truncation failed, it may have left segment files that the readers'
                // snapshot of the partition no longer lists. Another truncation would not remove
                // them, so refuse it. The next opening of the log finds these segments.
                return Err(error.clone());
            }
            if owner.has_unpersisted() {
                return Err(owner.why_not_persisted());
            }
            owner.next_offset
        };
        if offset >= end {
            return Ok(());
        }
        if offset < snapshot.start_offset {
            let message =
                format!("{} begins at offset {}, above {offset}", self.id, snapshot.start_offset);
            return Err(Error::invalid(message));
        }
        let stay = snapshot.segments.partition_point(|segment| segment.base_offset() < offset);
        let last = stay.checked_sub(1).and_then(|last| snapshot.segments.get(last));
        let cut = match last {
            Some(last) => self.position_of(last, offset)?,
            None => 0,
        };
        // The segment being written is sealed first, so that it can be removed as a whole or cut.
        if let Some(writer) = &mut files.writer {
            let data_end = self.owner.lock().persisted.end.position;
            writer.seal(data_end)?;
            files.writer = None;
        }
        completions.append(self.forget_from(&snapshot, stay, offset));
        let last = last.map(|last| (Arc::clone(last), cut));
        files.truncation = Some(Truncation::new(&snapshot, stay, last));
        self.continue_truncation(files, completions)
    }

    fn install(&self, files: &mut Files, rewritten: &dense::Rewritten) -> Result<()> {
        let is_there = |snapshot: &Snapshot| {
            snapshot.segments.iter().any(|segment| Arc::ptr_eq(segment, &rewritten.old))
        };
        // Since the segment was copied, a truncation may have removed or cut it. After the
        // partition was closed, another process may own its files.
        let has_ended = self.owner.lock().health.has_ended();
        if has_ended || !is_there(&self.snapshot()) || !rewritten.is_current() {
            rewritten.discard(&self.env.segment_files);
            return Ok(());
        }
        rewritten.check_name_is_free(&self.env.segment_files)?;
        if let Err(error) = rewritten.install(&self.env.segment_files) {
            // The files of both generations may exist. The new generation's files must be removed
            // no later than the segment itself, so queue them for removal.
            files.unused.extend([Kind::Log, Kind::Index].map(|kind| rewritten.new.path(kind)));
            let _ = self.remove_unused(files);
            return Err(error);
        }
        {
            let mut owner = self.owner.lock();
            self.publish(&mut owner, |segments| {
                for segment in segments.iter_mut() {
                    if Arc::ptr_eq(segment, &rewritten.old) {
                        *segment = Arc::clone(&rewritten.new);
                    }
                }
            });
        }
        // Files that cannot be removed now are removed by the next removal of files.
        let _ = self.remove_segment(files, &rewritten.old);
        Ok(())
    }

    fn do_close(&self, files: &mut Files, completions: &mut Completions) -> Result<()> {
        self.persist_delayed(files, completions);
        // What cannot be removed now is removed when the log is opened again.
        completions.append(self.complete_removal(files));
        let (data_end, unpersisted, failure) = {
            let mut owner = self.owner.lock();
            let failure = match &owner.health {
                Health::Closed | Health::Deleted => None,
                health => health.error(self.id).or_else(|| owner.delay_error()),
            };
            if let Some(error) = &failure {
                completions.append(owner.drop_unacknowledged(&self.env, error));
            }
            owner.health = Health::Closed;
            owner.schedule.wants_space = false;
            owner.schedule.wants_rewrite = false;
            owner.schedule.rewrites_ns = None;
            let unpersisted = owner.has_unpersisted() || owner.awaits_truncation;
            (owner.persisted.end, unpersisted, failure)
        };
        self.env.segment_files.open.cursors.forget(self.id);
        // The remaining padded segments are not rewritten: after this command, another process may
        // open the log.
        files.padded.clear();
        if let Some(rewriting) = files.rewriting.take() {
            rewriting.abandon(&self.env.segment_files);
        }
        if let Some(mut writer) = files.writer.take()
            && failure.is_none()
        {
            let segment = writer.segment().start();
            let end = if data_end.segment == segment { data_end.position } else { 0 };
            self.with_patience(|| writer.seal(end))?;
        }
        match failure {
            Some(error) if unpersisted => Err(error.while_doing("not everything is persisted")),
            Some(error) => Err(error),
            None if unpersisted => {
                Err(Error::new(ErrorKind::Internal, "closed before everything was persisted"))
            }
            None => Ok(()),
        }
    }

    /// Before the partition is closed, persists the batches that could not be persisted because no
    /// descriptor was left. If none becomes free for a while, gives up.
    fn persist_delayed(&self, files: &mut Files, completions: &mut Completions) {
        let is_delayed = self.owner.lock().delay_error().is_some();
        if !is_delayed {
            return;
        }
        // Ignore the outcome: the owner's field `health` has the error.
        let _ = self.with_patience(|| {
            if self.owner.lock().awaits_truncation {
                self.continue_truncation(files, completions)?;
            }
            self.persist_all(files, completions)
        });
    }

    /// Makes a call that opens files. If no descriptor is left, pauses and repeats the call. All
    /// partitions of the log together pause for a limited time.
    fn with_patience(&self, mut call: impl FnMut() -> Result<()>) -> Result<()> {
        loop {
            let made = call();
            let is_short =
                made.as_ref().is_err_and(|error| error.kind() == ErrorKind::OutOfDescriptors);
            if !is_short || !self.env.closing_patience.pause() {
                return made;
            }
        }
    }

    fn do_delete(&self, files: &mut Files, completions: &mut Completions) {
        let _ = self.remove_survivors(files);
        completions.append(files.removal.end(&Ok(())));
        *files = Files::default();
        let incarnation = {
            let mut owner = self.owner.lock();
            let gone = Err(Error::deleted(self.id));
            completions.append(owner.forget_unpersisted(&self.env, &gone));
            owner.health = Health::Deleted;
            owner.take_chunks();
            self.snapshot.store(Some(Arc::new(Snapshot::empty(owner.incarnation))));
            owner.incarnation
        };
        self.env.segment_files.open.cursors.forget(self.id);
        self.remove_directory(incarnation);
    }
}
