//! A partition: one owner, many readers.
//!
//! # The owner's order
//!
//! One owner orders everything that happens to a partition: append, persist, rotate, seal, purge,
//! truncate, delete, retain, close. The order is the order in which its lock is taken ([`owner`]),
//! and no I/O is done under that lock:
//!
//! - An append takes the lock, copies its batch after the last one, and returns. It never waits for
//!   a persist.
//! - Every change to files is a step, taken by a thread of the
//!   [`Scheduler`](crate::scheduler::Scheduler). Only one thread at a time takes steps for a
//!   partition: a write in flight is part of the order, and nothing that changes files overtakes
//!   it.
//! - A command that ends the current state of a partition (purge, truncate, delete, close) is a
//!   *barrier*: from when it is queued until it is done, appends are refused with
//!   [`ErrorKind::Full`], and their callers wait for room. Earlier appends are persisted first, or
//!   removed by the purge.
//! - Readers pin a [`Snapshot`]: segments and chunks of one incarnation. A snapshot is replaced as
//!   a whole.
//!
//! # Why no two commands race
//!
//! - An append and a persist: the persist takes the batches appended before it took the lock, and
//!   ends them with a gap. Later batches are in other blocks.
//! - An append and the rotation of a segment: the append that does not fit begins the next segment,
//!   under the lock. The persist of its first batch seals the old segment and creates the new one.
//! - An append and a purge, truncation, deletion or close: these are barriers.
//! - An append and the removal of old segments: only sealed segments are removed, and appends go to
//!   the last one. Retention that removes the newest message begins a segment first: under one
//!   lock it checks that everything is persisted and moves the place of the next batch.
//! - Persists, rotations and commands: they are steps, and one thread takes one step at a time.
//! - The rewriting of a sealed segment and its removal: each part of the rewriting is a step, and
//!   so is the installation of the result, which first checks that the segment still exists.
//! - An append and the release of an idle partition's memory: the release holds the lock, and does
//!   nothing if there is an unpersisted batch. Cutting off preallocated space is a step.
//!
//! # Panics
//!
//! A step that panics is a failed step: the partition refuses appends until the log is opened
//! again, and the tickets of the step's batches and command complete with the error. Other
//! partitions continue.
//!
//! # Incarnations
//!
//! Every creation and every purge begins an incarnation with a new number, which the catalog makes
//! durable before the incarnation is used. Its files are in a separate directory; its chunks in
//! shared memory and its consumers' offsets carry the number. Data of another incarnation is
//! therefore never mistaken for this one's: a write in flight ends in a directory that is removed,
//! and a chunk left by a dead process is discarded.
//!
//! # Crash at each step
//!
//! - Persist: the group exists as a whole, or only in part; recovery cuts off a partial group
//!   ([`recovery`]).
//! - Rotate: the old segment is cut and synced first; the name of the new one is durable before
//!   anything is written to it.
//! - Purge: before the catalog contains the new incarnation, the new directory is left over;
//!   afterwards, the old one. Either is removed when the log is opened.
//! - Truncate removes segments from the end, retention from the beginning, one at a time, and each
//!   removal is durable before the next: there is never a hole.
//! - Release: the segment may or may not have its preallocated space. Recovery cuts it off in
//!   either case.

mod append;
mod commands;
mod owner;
mod poll;
pub(crate) mod recovery;
mod removal;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

pub use append::{Appended, VerifiedBatch};
pub use poll::{Piece, Polled, Strategy};
pub use recovery::Recovered;

use tailwater_format::message::name::Kind;

use commands::{Command, Effect};
use owner::{Completions, Group, Health, Owner};

use crate::catalog::{Catalog, PartitionId};
use crate::env::Env;
use crate::options::{Durability, TopicOptions};
use crate::panics;
use crate::scheduler::Scheduled;
use crate::segment::dense::Advanced;
use crate::segment::{Segment, SegmentWriter, dense};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Guard, Mutex, Published};
use crate::tail::Chunk;
use crate::tail::survivors::Survivor;
use crate::{Error, ErrorKind, Result};

/// A partition of an open log.
///
/// All methods are safe to call from any thread.
pub struct Partition {
    me: Weak<Self>,
    env: Arc<Env>,
    catalog: Arc<Catalog>,
    id: PartitionId,
    owner: Mutex<Owner>,
    /// Locked by the thread that is taking a step.
    files: Mutex<Files>,
    snapshot: Published<Snapshot>,
}

/// The state of a partition's files that the writing thread uses.
#[derive(Debug, Default)]
struct Files {
    writer: Option<SegmentWriter>,
    /// Sealed segments that may be worth rewriting.
    padded: Vec<Arc<Segment>>,
    /// The rewrite in progress.
    rewriting: Option<Box<dense::Rewriting>>,
    /// Unused files not yet removed.
    unused: Vec<PathBuf>,
    /// The directory, if files were removed from it since its last sync.
    unsynced: Option<PathBuf>,
    /// Batches that a dead process left in shared memory, until they are persisted.
    survivors: Vec<Survivor>,
}

/// A reader's view of one incarnation of a partition.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) incarnation: u64,
    /// Offset of the first message.
    pub(crate) start_offset: u64,
    /// In the order of their offsets; appends go to the last one.
    pub(crate) segments: Vec<Arc<Segment>>,
    /// In the order of their offsets.
    pub(crate) chunks: Vec<Arc<Chunk>>,
    pub(crate) progress: Arc<Progress>,
}

/// The bound up to which readers may read in an incarnation.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Offset after the last message that readers may see.
    visible_end: AtomicU64,
}

impl Progress {
    pub(crate) fn visible_end(&self) -> u64 {
        self.visible_end.load(Ordering::Acquire)
    }
}

/// The next step of the owner.
enum Step {
    Persist(Group),
    /// Appends the batches that a dead process left in shared memory and that are not yet in a
    /// segment because the disk was full.
    Recover,
    Command(Command),
    Space,
    Rewrite,
    /// Releases the memory and the preallocated space of an idle partition.
    Release,
    Idle,
}

/// Figures of a partition at a point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionStats {
    /// Incarnation of the partition.
    pub incarnation: u64,
    /// Offset of the first message.
    pub start_offset: u64,
    /// Offset of the next message.
    pub end_offset: u64,
    /// Offset after the last persisted message.
    pub persisted_offset: u64,
    /// Number of segments.
    pub segments: usize,
    /// Bytes of all segments.
    pub bytes: u64,
    /// Bytes of unpersisted batches.
    pub unpersisted_bytes: u64,
    /// Number of unpersisted messages.
    pub unpersisted_messages: u64,
}

impl Partition {
    fn new(
        env: &Arc<Env>,
        catalog: &Arc<Catalog>,
        owner: Owner,
        files: Files,
        segments: Vec<Arc<Segment>>,
    ) -> Arc<Self> {
        let id = owner.id;
        let start_offset = segments.first().map_or(owner.next_offset, |first| first.base_offset());
        let progress = Arc::new(Progress::default());
        progress.visible_end.store(owner.visible_end(), Ordering::Release);
        let snapshot = Snapshot {
            incarnation: owner.incarnation,
            start_offset,
            segments,
            chunks: Vec::new(),
            progress,
        };
        Arc::new_cyclic(|me| Self {
            me: me.clone(),
            env: Arc::clone(env),
            catalog: Arc::clone(catalog),
            id,
            owner: Mutex::new(owner),
            files: Mutex::new(files),
            snapshot: Published::new(Some(Arc::new(snapshot))),
        })
    }

    /// Creates an empty partition, whose directory exists.
    pub(crate) fn create(
        env: &Arc<Env>,
        catalog: &Arc<Catalog>,
        id: PartitionId,
        incarnation: u64,
        options: TopicOptions,
    ) -> Arc<Self> {
        let place = owner::SegmentPosition::first();
        let owner = Owner::new(env, id, incarnation, options, 0, 0, place);
        Self::new(env, catalog, owner, Files::default(), Vec::new())
    }

    /// Returns the partition's id.
    pub fn id(&self) -> PartitionId {
        self.id
    }

    /// Returns the partition's figures.
    pub fn stats(&self) -> PartitionStats {
        let owner = self.owner.lock();
        // A purge replaces both under the lock.
        let snapshot = self.snapshot();
        PartitionStats {
            incarnation: owner.incarnation,
            start_offset: snapshot.start_offset,
            end_offset: owner.next_offset,
            persisted_offset: owner.persisted_offset,
            segments: snapshot.segments.len(),
            bytes: snapshot.segments.iter().map(|segment| segment.length()).sum(),
            unpersisted_bytes: owner.unpersisted_bytes,
            unpersisted_messages: owner.unpersisted_messages,
        }
    }

    /// Returns the error that appends return; `None` if appends are accepted.
    pub fn failure(&self) -> Option<Error> {
        self.owner.lock().health.error(self.id)
    }

    /// Replaces the options. The durability and the handling of partial blocks stay unchanged until
    /// the log is opened again.
    pub(crate) fn set_options(&self, options: &TopicOptions) {
        let mut owner = self.owner.lock();
        owner.options = TopicOptions {
            durability: owner.options.durability,
            partial_blocks: owner.options.partial_blocks,
            ..options.clone()
        };
        self.schedule(owner);
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load().unwrap_or_else(|| Arc::new(Snapshot::empty(0)))
    }

    /// Publishes the owner's chunks, and the segments as modified by `change`.
    fn publish(&self, owner: &mut Owner, change: impl FnOnce(&mut Vec<Arc<Segment>>)) {
        let old = self.snapshot();
        let mut segments = old.segments.clone();
        change(&mut segments);
        owner.chunks.retain(|chunk| chunk.bytes().is_some());
        let chunks = owner.chunks.clone();
        let first = segments.first().map(|first| first.base_offset());
        let first = first.or(chunks.first().map(|first| first.place().base_offset));
        let snapshot = Snapshot {
            incarnation: old.incarnation,
            start_offset: first.unwrap_or(owner.next_offset),
            segments,
            chunks,
            progress: Arc::clone(&old.progress),
        };
        self.snapshot.store(Some(Arc::new(snapshot)));
    }

    /// Publishes the offset up to which readers may read.
    fn publish_end(&self, owner: &Owner) {
        self.snapshot().progress.visible_end.store(owner.visible_end(), Ordering::Release);
    }

    /// Queues the partition if it has work and is not queued. Releases the lock.
    fn schedule(&self, mut owner: Guard<'_, Owner>) {
        if owner.is_scheduled {
            return;
        }
        let now_ns = self.env.clock.monotonic_ns();
        let Some(me) = self.me.upgrade() else { return };
        owner.queue_retention(now_ns);
        if owner.has_work(&self.env, now_ns) {
            owner.is_scheduled = true;
            drop(owner);
            self.env.scheduler.push(me);
            return;
        }
        let wake_ns = owner.next_wake(now_ns);
        drop(owner);
        if let Some(wake_ns) = wake_ns {
            self.env.scheduler.wake_at(wake_ns, self.me.clone());
        }
    }

    /// Persists a group, and records the outcome.
    fn persist(&self, files: &mut Files, group: &Group) -> Result<()> {
        let written = panics::catch("a persist", || self.write(files, group));
        let mut owner = self.owner.lock();
        let completions = match &written {
            Ok(()) => owner.persisted(&self.env, group),
            Err(error) => self.not_persisted(&mut owner, error),
        };
        if let (Ok(()), Some(writer)) = (&written, &files.writer) {
            writer.segment().add_entries(group.entries.iter().copied());
            writer.publish(owner.persisted_end.position);
            owner.wants_space = writer.wants_space();
            owner.wants_rewrite = files.rewriting.is_some() || !files.padded.is_empty();
        }
        self.publish_end(&owner);
        drop(owner);
        complete_all(completions);
        self.env.backpressure.changed();
        written
    }

    /// Records that a group could not be persisted. Returns the signals to complete.
    fn not_persisted(&self, owner: &mut Owner, error: &Error) -> Completions {
        let mut completions = owner.not_persisted(&self.env, error);
        completions.extend(owner.fail_commands(error));
        // Readers must not keep chunks whose batches were dropped.
        self.publish(owner, |_| ());
        completions
    }

    /// Writes a group, to a new segment if it begins one.
    fn write(&self, files: &mut Files, group: &Group) -> Result<()> {
        let is_other =
            files.writer.as_ref().is_none_or(|writer| writer.segment().start() != group.segment);
        if is_other {
            self.rotate(files, group.segment)?;
        }
        let Some(writer) = &mut files.writer else {
            return Err(Error::new(ErrorKind::Internal, "there is no segment to write to"));
        };
        let parts: Vec<std::io::IoSlice<'_>> =
            group.parts.iter().map(|part| std::io::IoSlice::new(part.bytes())).collect();
        writer.write(&parts, group.position, group.batch_bytes)
    }

    /// Seals the last segment and begins another.
    fn rotate(&self, files: &mut Files, start: crate::tail::SegmentStart) -> Result<()> {
        let (data_end, incarnation, durability, segment_bytes) = {
            let owner = self.owner.lock();
            let options = &owner.options;
            let durability = if owner.is_hardened { Durability::Disk } else { options.durability };
            (owner.persisted_end, owner.incarnation, durability, options.segment_bytes)
        };
        let directory = self.directory(incarnation);
        if let Some(writer) = &mut files.writer {
            let segment = Arc::clone(writer.segment());
            if segment.base_offset() > start.base_offset {
                // Creating a segment truncates its file.
                let (last, next) = (segment.base_offset(), start.base_offset);
                let message = format!("segment {next} of {} would follow segment {last}", self.id);
                return Err(Error::new(ErrorKind::Internal, message));
            }
            let end = if data_end.segment == segment.start() { data_end.position } else { 0 };
            writer.seal(&self.env.segment_files, end)?;
            if writer.is_padded() {
                files.padded.push(segment);
            }
            files.writer = None;
        }
        let writer = SegmentWriter::create(
            &self.env.segment_files,
            &directory,
            start,
            incarnation,
            durability,
            segment_bytes,
        )?;
        let segment = Arc::clone(writer.segment());
        files.writer = Some(writer);
        let mut owner = self.owner.lock();
        // Another segment may exceed the partition's bound: retention is due.
        owner.retains_ns = Some(0);
        self.publish(&mut owner, |segments| {
            // An empty segment left by a failed write is replaced.
            let is_replaced = |other: &Arc<Segment>| other.base_offset() == start.base_offset;
            let replaced = segments.iter().filter(|other| is_replaced(other));
            let paths =
                replaced.flat_map(|other| [Kind::Log, Kind::Index].map(|it| other.path(it)));
            files.unused.extend(paths.filter(|path| *path != segment.path(Kind::Log)));
            segments.retain(|other| !is_replaced(other));
            segments.push(segment);
        });
        drop(owner);
        // Files that cannot be removed now are removed with the next segment.
        let _ = self.remove_unused(files);
        Ok(())
    }

    fn directory(&self, incarnation: u64) -> PathBuf {
        crate::layout::incarnation_directory(&self.env.directory, self.id, incarnation)
    }

    fn prepare_space(&self) {
        let mut files = self.files.lock();
        let wants_more = files.writer.as_mut().is_some_and(|writer| {
            writer.prepare();
            writer.wants_space()
        });
        self.owner.lock().wants_space = wants_more;
    }

    /// Releases the chunks and the preallocated space of an idle partition: many idle partitions
    /// must not use up the memory and space that active ones need.
    fn release(&self, files: &mut Files) {
        let is_idle = {
            let mut owner = self.owner.lock();
            let is_idle = owner.release_memory(&self.env);
            self.publish(&mut owner, |_| ());
            is_idle
        };
        if let (true, Some(writer)) = (is_idle, &mut files.writer) {
            writer.release_space();
        }
    }

    /// Rewrites a part of a sealed segment without its gaps, and queues the installation of a
    /// complete copy. A segment that cannot be rewritten stays as it is.
    fn rewrite_padded(&self) {
        let mut files = self.files.lock();
        let rewriting = files.rewriting.take().or_else(|| {
            let segment = files.padded.pop()?;
            dense::Rewriting::begin(&self.env.segment_files, &segment).ok()
        });
        let mut rewritten = None;
        match rewriting.map(|rewriting| rewriting.advance(&self.env.segment_files)) {
            Some(Ok(Advanced::Part(rest))) => files.rewriting = Some(rest),
            Some(Ok(Advanced::Whole(whole))) => rewritten = Some(whole),
            Some(Err(_)) | None => {}
        }
        let has_more = files.rewriting.is_some() || !files.padded.is_empty();
        let mut owner = self.owner.lock();
        owner.wants_rewrite = has_more;
        if let Some(rewritten) = rewritten {
            owner.commands.push_back(Command::unattended(Effect::Install(rewritten)));
        }
    }
}

impl Scheduled for Partition {
    fn wake(&self) {
        if self.env.memory.is_refused() {
            // The system does not notify the log when memory is free again.
            self.env.backpressure.changed();
        }
        let mut owner = self.owner.lock();
        owner.woken();
        self.schedule(owner);
    }

    fn run_step(&self) {
        let step = || {
            self.take_step();
            Ok(())
        };
        if let Err(error) = panics::catch(format_args!("a step of {}", self.id), step) {
            let completions = self.not_persisted(&mut self.owner.lock(), &error);
            complete_all(completions);
            self.env.backpressure.changed();
        }
        let mut owner = self.owner.lock();
        owner.is_scheduled = false;
        self.schedule(owner);
    }
}

impl Partition {
    /// Takes the next step.
    fn take_step(&self) {
        let step = self.owner.lock().next_step(&self.env);
        match step {
            Step::Persist(group) => {
                let mut files = self.files.lock();
                // The owner's health records the outcome.
                let _ = self.persist(&mut files, &group);
            }
            Step::Recover => self.retry_survivors(),
            Step::Command(command) => self.execute(command),
            Step::Space => self.prepare_space(),
            Step::Rewrite => self.rewrite_padded(),
            Step::Release => {
                let mut files = self.files.lock();
                self.release(&mut files);
            }
            Step::Idle => {}
        }
    }
}

impl Snapshot {
    fn empty(incarnation: u64) -> Self {
        Self {
            incarnation,
            start_offset: 0,
            segments: Vec::new(),
            chunks: Vec::new(),
            progress: Arc::default(),
        }
    }
}

impl Owner {
    /// Returns whether there is work.
    fn has_work(&self, env: &Env, now_ns: u64) -> bool {
        !self.commands.is_empty()
            || self.is_persist_due(env, now_ns)
            || self.wants_space
            || self.wants_rewrite
            || self.is_release_due(now_ns)
    }

    /// Queues retention if it is due.
    fn queue_retention(&mut self, now_ns: u64) {
        let Some(interval_ns) = self.retention_interval_ns() else { return };
        if matches!(self.health, Health::Closed | Health::Failed(_)) {
            return;
        }
        if *self.retains_ns.get_or_insert(now_ns + interval_ns) <= now_ns {
            self.retains_ns = Some(now_ns + interval_ns);
            self.commands.push_back(Command::unattended(Effect::Retain));
        }
    }

    /// Returns the time of the next wake-up; `None` if an earlier one is pending.
    fn next_wake(&mut self, now_ns: u64) -> Option<u64> {
        let retains_ns = self.retention_interval_ns().and(self.retains_ns);
        let due_ns = self.next_due_ns().into_iter().chain(retains_ns).chain(self.release_ns());
        let due_ns = due_ns.min()?.max(now_ns + 1);
        if self.wakes_ns.is_some_and(|wakes_ns| wakes_ns <= due_ns) {
            return None;
        }
        self.wakes_ns = Some(due_ns);
        Some(due_ns)
    }

    fn woken(&mut self) {
        self.wakes_ns = None;
    }

    fn next_step(&mut self, env: &Env) -> Step {
        let now_ns = env.clock.monotonic_ns();
        let can_persist = matches!(self.health, Health::Good | Health::NoSpace { .. });
        let is_wanted = match self.commands.front() {
            None => self.is_persist_due(env, now_ns),
            Some(command) => {
                let offset = command.persisted_before(self);
                !command.persist_failed && offset.is_some_and(|offset| !self.is_persisted(offset))
            }
        };
        if can_persist && is_wanted {
            if self.awaits_survivors {
                return Step::Recover;
            }
            let all = self.writes_partial_blocks(env, now_ns);
            if let Some(group) = self.take_group(env, all) {
                return Step::Persist(group);
            }
        }
        if let Some(command) = self.commands.pop_front() {
            return Step::Command(command);
        }
        match () {
            () if std::mem::take(&mut self.wants_space) => Step::Space,
            () if std::mem::take(&mut self.wants_rewrite) => Step::Rewrite,
            () if self.is_release_due(now_ns) => Step::Release,
            () => Step::Idle,
        }
    }
}

/// Completes the tickets of appends and commands.
fn complete_all(completions: Completions) {
    for (signal, outcome) in completions {
        signal.complete(outcome);
    }
}

impl fmt::Debug for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Partition({}, {:?})", self.id, self.stats())
    }
}
