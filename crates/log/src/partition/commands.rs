//! Commands: changes to the files of a partition, other than persisting.

use std::sync::Arc;

use tailwater_format::message::name::Kind;

use super::owner::{Health, Owner, Place, Told};
use super::{Files, Partition, Snapshot, tell};
use crate::layout;
use crate::segment::{Segment, dense};
use crate::ticket::{Signal, Ticket};
use crate::{Error, ErrorKind, Result};

/// A command in the owner's order.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) what: What,
    /// Whether the persist that the command waits for has failed.
    pub(super) is_hopeless: bool,
    signal: Arc<Signal>,
}

/// The effect of a command.
#[derive(Debug)]
pub(super) enum What {
    /// Persists all messages below an offset, and syncs them if `is_synced`.
    Flush { offset: u64, is_synced: bool },
    /// Removes all messages: another incarnation begins at offset 0.
    Purge,
    /// Removes the messages from an offset on.
    Truncate { offset: u64 },
    /// Removes up to `count` of the oldest sealed segments, as far as they end at `below` or
    /// earlier.
    DeleteSegments { count: usize, below: u64 },
    /// Removes segments that are expired or exceed the partition's size.
    Retain,
    /// Replaces a segment by its rewritten form without gaps.
    Install(dense::Rewritten),
    /// Persists everything and closes the partition.
    Close,
    /// Closes the partition and removes its files, after its removal from the catalog.
    Delete,
}

impl Command {
    /// Creates a command that nobody waits for.
    pub(super) fn unattended(what: What) -> Self {
        Self { what, is_hopeless: false, signal: Signal::new() }
    }

    /// Returns whether appends are refused while the command is queued or executed.
    fn is_barrier(&self) -> bool {
        match self.what {
            What::Purge | What::Truncate { .. } | What::Close | What::Delete => true,
            What::Flush { .. } | What::DeleteSegments { .. } | What::Retain | What::Install(_) => {
                false
            }
        }
    }

    /// Returns the offset below which all messages must be persisted before the command is
    /// executed.
    pub(super) fn persisted_before(&self, owner: &Owner) -> Option<u64> {
        match self.what {
            What::Flush { offset, .. } => Some(offset),
            What::Truncate { .. } | What::Close => Some(owner.next_offset),
            _ => None,
        }
    }
}

impl Owner {
    /// Queues a command.
    fn queue(&mut self, command: Command) {
        self.barriers += usize::from(command.is_barrier());
        self.commands.push_back(command);
    }

    /// Fails the commands that wait for a persist that failed. Returns the signals to complete.
    pub(super) fn fail_commands(&mut self, error: &Error) -> Told {
        let mut told = Told::new();
        let mut stay = std::collections::VecDeque::new();
        for mut command in std::mem::take(&mut self.commands) {
            command.is_hopeless = true;
            match command.what {
                What::Flush { .. } | What::Truncate { .. } => {
                    self.barriers -= usize::from(command.is_barrier());
                    told.push((command.signal, Err(error.clone())));
                }
                _ => stay.push_back(command),
            }
        }
        self.commands = stay;
        told
    }
}

impl Partition {
    fn submit(&self, what: What) -> Ticket {
        let signal = Signal::new();
        let command = Command { what, is_hopeless: false, signal: Arc::clone(&signal) };
        let mut owner = self.owner.lock();
        if matches!(owner.health, Health::Closed) {
            return Ticket::complete(Err(Error::closed(self.id)));
        }
        owner.queue(command);
        self.schedule(owner);
        Ticket::pending(signal)
    }

    /// Persists all earlier appends, and syncs them if `is_synced`, whatever the topic's
    /// durability.
    pub fn flush(&self, is_synced: bool) -> Ticket {
        let offset = self.owner.lock().next_offset;
        self.submit(What::Flush { offset, is_synced })
    }

    /// Removes all messages. The next message has offset 0. Earlier appends that are not
    /// acknowledged yet are acknowledged and removed.
    pub fn purge(&self) -> Ticket {
        self.submit(What::Purge)
    }

    /// Removes the messages whose offsets are `offset` or above. The next message has this offset.
    ///
    /// The ticket's error is of kind invalid argument where the offset lies inside a batch, with
    /// the offsets of the batch's ends: a batch is kept or removed as a whole.
    pub fn truncate(&self, offset: u64) -> Ticket {
        self.submit(What::Truncate { offset })
    }

    /// Removes up to `count` of the oldest sealed segments, those that hold no message of offset
    /// `below` or above.
    pub fn delete_segments(&self, count: usize, below: u64) -> Ticket {
        self.submit(What::DeleteSegments { count, below })
    }

    /// Removes segments that are expired, or exceed the partition's size, as the topic's options
    /// say.
    pub fn retain(&self) -> Ticket {
        self.submit(What::Retain)
    }

    /// Persists everything and refuses appends from then on.
    pub(crate) fn close(&self) -> Ticket {
        self.submit(What::Close)
    }

    /// Closes the partition and removes its files, after its removal from the catalog.
    pub(crate) fn delete(&self) -> Ticket {
        self.submit(What::Delete)
    }

    /// Executes a command and completes its ticket.
    pub(super) fn execute(&self, command: Command) {
        let is_barrier = command.is_barrier();
        let mut files = self.files.lock();
        let mut told = Told::new();
        let outcome = match command.what {
            What::Flush { offset, is_synced } => self.finish_flush(&mut files, offset, is_synced),
            What::Purge => self.do_purge(&mut files, &mut told),
            What::Truncate { offset } => self.do_truncate(&mut files, offset),
            What::DeleteSegments { count, below } => {
                self.remove_oldest(count, |segment_end, _| segment_end <= below)
            }
            What::Retain => self.do_retain(&mut files),
            What::Install(rewritten) => self.install(&rewritten),
            What::Close => self.do_close(&mut files),
            What::Delete => {
                self.do_delete(&mut files, &mut told);
                Ok(())
            }
        };
        drop(files);
        if is_barrier {
            self.owner.lock().barriers -= 1;
        }
        told.push((command.signal, outcome));
        tell(told);
        self.env.room.changed();
    }

    fn finish_flush(&self, files: &mut Files, offset: u64, is_synced: bool) -> Result<()> {
        {
            let owner = self.owner.lock();
            if owner.persisted_offset < offset {
                return match &owner.health {
                    Health::NoSpace { error, .. } | Health::Failed(error) => Err(error.clone()),
                    _ => Err(Error::closed(self.id)),
                };
            }
        }
        match &mut files.writer {
            Some(writer) if is_synced => writer.sync(),
            _ => Ok(()),
        }
    }

    fn do_purge(&self, files: &mut Files, told: &mut Told) -> Result<()> {
        let incarnation = self.catalog.reserve_incarnations(1);
        let old_incarnation = self.owner.lock().incarnation;
        let directory = self.directory(incarnation);
        self.env.storage.create_directory(&directory)?;
        if let Some(parent) = directory.parent() {
            self.env.storage.sync_directory(parent)?;
        }
        // A crash here is safe: the catalog does not name the directory, and it is removed.
        self.catalog.purge(self.id, incarnation)?;
        // A crash here is safe: the catalog no longer names the old directory, which is removed.
        *files = Files::default();
        {
            let mut owner = self.owner.lock();
            told.extend(owner.forget_unpersisted(&self.env, &Ok(())));
            let fresh = Owner::new(
                &self.env,
                self.id,
                incarnation,
                owner.options.clone(),
                0,
                owner.last_timestamp_us,
                Place::first(),
            );
            owner.become_incarnation(fresh);
            self.snapshot.store(Some(Arc::new(Snapshot::empty(incarnation))));
        }
        self.cursors.forget(self.id);
        self.remove_directory(old_incarnation);
        Ok(())
    }

    /// Removes an incarnation's files. Files that cannot be removed go when the log is opened next.
    fn remove_directory(&self, incarnation: u64) {
        let directory = self.directory(incarnation);
        let Ok(entries) = self.env.storage.list(&directory) else { return };
        for entry in entries {
            let _ = self.env.storage.remove(&directory.join(entry.name));
        }
        let _ = self.env.storage.remove_directory(&directory);
    }

    /// Removes the messages from an offset on. Everything is persisted, and appends are refused.
    fn do_truncate(&self, files: &mut Files, offset: u64) -> Result<()> {
        let snapshot = self.snapshot();
        let end = {
            let owner = self.owner.lock();
            if owner.persisted_offset < owner.next_offset {
                return Err(match &owner.health {
                    Health::NoSpace { error, .. } | Health::Failed(error) => error.clone(),
                    _ => Error::closed(self.id),
                });
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
        // The last segment is sealed first: it is removed as a whole, or cut.
        if let Some(writer) = &mut files.writer {
            let data_end = self.owner.lock().persisted_end.position;
            writer.seal(&self.env, data_end)?;
            files.writer = None;
        }
        self.forget_from(&snapshot, stay, offset);
        // From the end, each removal durable before the next: a crash leaves no hole.
        for segment in snapshot.segments.iter().skip(stay.max(1)).rev() {
            self.remove_segment(segment)?;
        }
        match (last, snapshot.segments.first()) {
            (Some(last), _) => self.cut(last, cut),
            (None, Some(first)) => {
                // The name of the next segment keeps the next offset, so it is created before the
                // last segment is removed.
                self.begin_segment(files)?;
                // A crash here is safe: of two segments of one offset the later one counts.
                let next = files.writer.as_ref().map(|writer| writer.segment().path(Kind::Log));
                match next {
                    Some(next) if next == first.path(Kind::Log) => Ok(()),
                    _ => self.remove_segment(first),
                }
            }
            (None, None) => Ok(()),
        }
    }

    /// Returns the end of a segment's batches below an offset.
    fn position_of(&self, segment: &Segment, offset: u64) -> Result<u64> {
        let mut scanner = segment.scan_for_offset(&self.env, offset.saturating_sub(1))?;
        let mut position = 0;
        while let Some((start, header)) = scanner.peek()? {
            let end = header.base_offset + u64::from(header.count);
            if header.base_offset >= offset {
                break;
            }
            if end > offset {
                let message = format!(
                    "offset {offset} is inside a batch: {} or {} would do",
                    header.base_offset, end
                );
                return Err(Error::invalid(message));
            }
            position = start + header.length;
            scanner.skip();
        }
        Ok(position)
    }

    /// Resets readers and the owner to the state before the message with this offset.
    fn forget_from(&self, snapshot: &Snapshot, stay: usize, offset: u64) {
        let mut owner = self.owner.lock();
        let _ = owner.forget_unpersisted(&self.env, &Ok(()));
        owner.take_chunks();
        owner.next_offset = offset;
        owner.persisted_offset = offset;
        owner.place = owner.next_segment();
        owner.persisted_end = owner.place;
        let segments: Vec<Arc<Segment>> = snapshot.segments.iter().take(stay).cloned().collect();
        self.publish(&mut owner, |old| *old = segments);
        self.show(&owner);
        drop(owner);
        self.cursors.forget(self.id);
    }

    /// Cuts a sealed segment at a position, and makes that durable.
    fn cut(&self, segment: &Segment, position: u64) -> Result<()> {
        use tailwater_io::{Create, IoMode, Purpose};
        let path = segment.path(Kind::Log);
        let mode = IoMode::Buffered;
        let mut file =
            self.env.storage.create(&path, Create::Existing, mode, Purpose::LogAppend)?;
        file.truncate(position)?;
        file.sync_all(Purpose::LogAppend)?;
        segment.set_length(position);
        segment.forget_entries_from(position);
        let _ = segment.write_index(&self.env);
        Ok(())
    }

    /// Creates the segment of the next batch, whose name keeps the next offset.
    fn begin_segment(&self, files: &mut Files) -> Result<()> {
        let start = {
            let mut owner = self.owner.lock();
            if owner.place.position > 0 {
                owner.end_chunk(&self.env);
                owner.place = owner.next_segment();
            }
            owner.place.segment
        };
        self.rotate(files, start)?;
        self.owner.lock().begun_segment(start);
        Ok(())
    }

    /// Removes up to `most` of the oldest segments for which `goes` returns true, given the offset
    /// after the segment and the lower bound on the timestamps of the next one. The last one stays.
    fn remove_oldest(&self, most: usize, goes: impl Fn(u64, u64) -> bool) -> Result<()> {
        for _ in 0..most {
            let snapshot = self.snapshot();
            let [first, next, ..] = &snapshot.segments[..] else { return Ok(()) };
            if !goes(next.base_offset(), next.start().base_timestamp_us) {
                return Ok(());
            }
            {
                let mut owner = self.owner.lock();
                self.publish(&mut owner, |segments| {
                    segments.retain(|segment| !Arc::ptr_eq(segment, first));
                });
            }
            // The name of the next segment has been durable since before it was written.
            self.remove_segment(first)?;
        }
        Ok(())
    }

    fn remove_segment(&self, segment: &Segment) -> Result<()> {
        let _ = self.env.storage.remove(&segment.path(Kind::Index));
        match self.env.storage.remove(&segment.path(Kind::Log)) {
            Err(error) if error.is_not_found() => {}
            removed => removed?,
        }
        Ok(self.env.storage.sync_directory(segment.directory())?)
    }

    fn do_retain(&self, files: &mut Files) -> Result<()> {
        let (options, is_persisted, last_timestamp_us) = {
            let owner = self.owner.lock();
            (owner.options.clone(), !owner.has_unpersisted(), owner.last_timestamp_us)
        };
        let now_us = self.env.clock.wall_us();
        let oldest_us = options.message_expiry_us.map(|age_us| now_us.saturating_sub(age_us));
        if let Some(oldest_us) = oldest_us {
            let has_messages =
                self.snapshot().segments.last().is_some_and(|last| last.length() > 0);
            if last_timestamp_us < oldest_us && is_persisted && has_messages {
                // Even the newest message is expired: its segment can be removed once another
                // exists.
                self.begin_segment(files)?;
            }
            self.remove_oldest(usize::MAX, |_, next_us| next_us < oldest_us)?;
        }
        if let Some(most) = options.partition_bytes_max {
            while self.stats().bytes > most && self.snapshot().segments.len() > 1 {
                self.remove_oldest(1, |_, _| true)?;
            }
        }
        Ok(())
    }

    fn install(&self, rewritten: &dense::Rewritten) -> Result<()> {
        let is_there = |snapshot: &Snapshot| {
            snapshot.segments.iter().any(|segment| Arc::ptr_eq(segment, &rewritten.old))
        };
        if !is_there(&self.snapshot()) {
            rewritten.discard(&self.env);
            return Ok(());
        }
        rewritten.install(&self.env)?;
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
        rewritten.remove_old(&self.env);
        Ok(())
    }

    fn do_close(&self, files: &mut Files) -> Result<()> {
        let (data_end, unpersisted, failure) = {
            let mut owner = self.owner.lock();
            let failure = match &owner.health {
                Health::NoSpace { error, .. } | Health::Failed(error) => Some(error.clone()),
                Health::Good | Health::Closed => None,
            };
            owner.health = Health::Closed;
            (owner.persisted_end, owner.has_unpersisted(), failure)
        };
        self.cursors.forget(self.id);
        if let Some(mut writer) = files.writer.take()
            && failure.is_none()
        {
            let segment = writer.segment().start();
            let end = if data_end.segment == segment { data_end.position } else { 0 };
            writer.seal(&self.env, end)?;
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

    fn do_delete(&self, files: &mut Files, told: &mut Told) {
        *files = Files::default();
        let incarnation = {
            let mut owner = self.owner.lock();
            let gone = Err(Error::closed(self.id));
            told.extend(owner.forget_unpersisted(&self.env, &gone));
            owner.health = Health::Closed;
            owner.take_chunks();
            self.snapshot.store(Some(Arc::new(Snapshot::empty(owner.incarnation))));
            owner.incarnation
        };
        self.cursors.forget(self.id);
        self.remove_directory(incarnation);
    }
}

/// Removes directories of incarnations that the catalog does not name: those that were purged or
/// deleted, or whose creation was interrupted.
///
/// # Errors
/// Those of listing. A directory that cannot be removed stays until the log is opened next.
pub(crate) fn remove_left_over(
    storage: &dyn tailwater_io::Storage,
    log: &std::path::Path,
    is_named: impl Fn(crate::catalog::PartitionId, u64) -> bool,
) -> Result<usize> {
    let numbers = |directory: &std::path::Path| -> Result<Vec<u32>> {
        match storage.list(directory) {
            Ok(entries) => Ok(entries.iter().filter_map(|entry| entry.name.parse().ok()).collect()),
            Err(error) if error.is_not_found() => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    };
    let mut removed = 0;
    let streams = log.join(layout::STREAMS);
    for stream in numbers(&streams)? {
        for topic in numbers(&streams.join(stream.to_string()).join("topics"))? {
            let partitions = layout::partitions_directory(log, stream, topic);
            let entries = match storage.list(&partitions) {
                Ok(entries) => entries,
                Err(error) if error.is_not_found() => continue,
                Err(error) => return Err(error.into()),
            };
            for entry in entries {
                let Some((partition, incarnation)) = layout::parse_incarnation(&entry.name) else {
                    continue;
                };
                let id = crate::catalog::PartitionId { stream, topic, partition };
                if is_named(id, incarnation) {
                    continue;
                }
                let directory = partitions.join(&entry.name);
                for file in storage.list(&directory)? {
                    let _ = storage.remove(&directory.join(file.name));
                }
                let _ = storage.remove_directory(&directory);
                removed += 1;
            }
        }
    }
    Ok(removed)
}
