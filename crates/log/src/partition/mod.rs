//! A partition: one owner, many readers.
//!
//! # The owner's order
//!
//! Everything that happens to a partition happens in one order, and one owner has it: append,
//! persist, rotate, seal, purge, truncate, delete, retention, close. The order is that in which its
//! lock is taken ([`owner`]), and no I/O is done under that lock:
//!
//! - An append takes the lock, copies its batch behind the last one, and is done. It never waits
//!   for a persist.
//! - What changes files is a step of a thread of the [`Scheduler`](crate::persister::Scheduler),
//!   and one thread at a time takes steps for a partition: a write in flight is part of the order,
//!   and nothing that changes files overtakes it.
//! - A command that makes another partition of it (purge, truncate, delete, close) is a *barrier*:
//!   from the moment it is queued until it is done, appends are refused with [`ErrorKind::Full`],
//!   and their callers wait for room. What was appended before is persisted first, or gone with the
//!   purge.
//! - Readers take a [`Snapshot`]: segments and chunks of one incarnation, which they pin. It is
//!   replaced as a whole.
//!
//! # Why no two commands race
//!
//! - An append and a persist: the persist takes what was appended before it took the lock, and ends
//!   it with a gap. What comes later is in other blocks.
//! - An append and the rotation of a segment: the append that does not fit begins the next segment,
//!   under the lock. The persist that comes to its first batch seals the old one and creates it.
//! - An append and a purge, truncation, deletion or close: these are barriers.
//! - An append and the removal of old segments: only sealed segments are removed, and appends go to
//!   the last.
//! - Persists, rotations and commands among each other: they are steps, and one thread takes one
//!   step at a time.
//! - Rewriting a sealed segment and anything that removes it: the rewriting is a step, and so is
//!   the installation of what came of it, which looks whether the segment is still there.
//!
//! # Incarnations
//!
//! Every create and purge begins an incarnation with a number of its own, which the catalog makes
//! durable before anything is done in it. Its files are in a directory of its own, its chunks in
//! shared memory and its consumers' offsets carry it. So nothing that belongs to another
//! incarnation is taken for this one's: a write in flight ends in a directory that is removed, a
//! chunk that a dead process left is discarded.
//!
//! # Crash at each step
//!
//! - Persist: a whole group is there, or a part of it, which recovery cuts off ([`recovery`]).
//! - Rotate: the old segment is cut and synced first; the new name is durable before anything is
//!   written to it.
//! - Purge: before the catalog has the new incarnation, a directory is left over; after it, the old
//!   one. Either is removed when the log is opened.
//! - Truncate removes segments from the end, retention from the beginning, one after the other, and
//!   each removal is durable before the next: there is never a hole.

mod append;
mod commands;
mod owner;
mod poll;
pub(crate) mod recovery;

use std::fmt;
use std::sync::{Arc, Weak};

pub use append::Appended;
pub(crate) use commands::remove_left_over;
pub use poll::{Piece, Polled, Strategy};
pub use recovery::Recovered;

use commands::{Command, What};
use owner::{Group, Health, Owner, Told};

use crate::catalog::{Catalog, PartitionId};
use crate::env::Env;
use crate::options::TopicOptions;
use crate::segment::{Cursors, Segment, SegmentWriter, dense};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Guard, Mutex, Published};
use crate::tail::Chunk;
use crate::{Error, ErrorKind, Result};

/// A partition of an open log.
///
/// All of it is safe to call from any thread.
pub struct Partition {
    me: Weak<Self>,
    env: Arc<Env>,
    catalog: Arc<Catalog>,
    id: PartitionId,
    owner: Mutex<Owner>,
    /// Taken by the thread that takes a step, and by nobody else.
    files: Mutex<Files>,
    snapshot: Published<Snapshot>,
    cursors: Cursors,
}

/// The files of a partition, as who writes them has them.
#[derive(Debug, Default)]
struct Files {
    writer: Option<SegmentWriter>,
    /// Sealed segments that may be worth rewriting.
    padded: Vec<Arc<Segment>>,
}

/// What readers see: one incarnation of a partition.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) incarnation: u64,
    /// Offset of the first message that there is.
    pub(crate) start_offset: u64,
    /// In the order of their offsets; the last one is being written.
    pub(crate) segments: Vec<Arc<Segment>>,
    /// In the order of their offsets.
    pub(crate) chunks: Vec<Arc<Chunk>>,
    pub(crate) progress: Arc<Progress>,
}

/// How far an incarnation has come.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Offset behind the last message that readers may see.
    visible_end: AtomicU64,
}

impl Progress {
    pub(crate) fn visible_end(&self) -> u64 {
        self.visible_end.load(Ordering::Acquire)
    }
}

/// What the owner does next.
enum Step {
    Persist(Group),
    Command(Command),
    Space,
    Rewrite,
    Idle,
}

/// Figures of a partition, as they are at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionStats {
    /// Incarnation of the partition.
    pub incarnation: u64,
    /// Offset of the first message.
    pub start_offset: u64,
    /// Offset of the next message.
    pub end_offset: u64,
    /// Offset up to which messages are persisted.
    pub persisted_offset: u64,
    /// Number of segments.
    pub segments: usize,
    /// Bytes of all segments.
    pub bytes: u64,
    /// Bytes that are not persisted.
    pub unpersisted_bytes: u64,
    /// Messages that are not persisted.
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
            cursors: Cursors::default(),
        })
    }

    /// A partition that was just created: empty, with a directory that is there.
    pub(crate) fn create(
        env: &Arc<Env>,
        catalog: &Arc<Catalog>,
        id: PartitionId,
        incarnation: u64,
        options: TopicOptions,
    ) -> Arc<Self> {
        let place = owner::Place::first();
        let owner = Owner::new(env, id, incarnation, options, 0, 0, place);
        Self::new(env, catalog, owner, Files::default(), Vec::new())
    }

    /// Returns its id.
    pub fn id(&self) -> PartitionId {
        self.id
    }

    /// Returns figures of it.
    pub fn stats(&self) -> PartitionStats {
        let snapshot = self.snapshot();
        let owner = self.owner.lock();
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

    /// Returns why it takes no appends; `None` where it does.
    pub fn failure(&self) -> Option<Error> {
        match &self.owner.lock().health {
            Health::Good => None,
            Health::NoSpace { error, .. } | Health::Failed(error) => Some(error.clone()),
            Health::Closed => Some(Error::closed(self.id)),
        }
    }

    /// Has it go by other options from now on. Its durability stays what it was until it is opened
    /// again.
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

    /// Gives readers the owner's chunks, and other segments where `change` makes others of them.
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

    /// Lets readers see what they may see by now.
    fn show(&self, owner: &Owner) {
        self.snapshot().progress.visible_end.store(owner.visible_end(), Ordering::Release);
    }

    /// Queues it if it has something to do and is in no queue. Gives the lock back.
    fn schedule(&self, mut owner: Guard<'_, Owner>) {
        let now_ns = self.env.clock.monotonic_ns();
        let Some(me) = self.me.upgrade() else { return };
        if owner.is_scheduled {
            return;
        }
        owner.queue_retention(now_ns);
        if owner.has_work(now_ns, self.env.block) {
            owner.is_scheduled = true;
            drop(owner);
            self.env.scheduler.push(me);
            return;
        }
        let wake_ns = owner.next_wake(now_ns);
        drop(owner);
        if let Some(wake_ns) = wake_ns {
            self.env.scheduler.wake_at(wake_ns, &me);
        }
    }

    /// Looks whether something is due.
    pub(crate) fn wake(&self) {
        let mut owner = self.owner.lock();
        owner.woken();
        self.schedule(owner);
    }

    /// Takes one step, and queues the partition again if there is another.
    pub(crate) fn run_step(&self) {
        let step = {
            let mut owner = self.owner.lock();
            owner.next_step(&self.env)
        };
        match step {
            Step::Persist(group) => self.persist(&group),
            Step::Command(command) => self.execute(command),
            Step::Space => self.prepare_space(),
            Step::Rewrite => self.rewrite_padded(),
            Step::Idle => {}
        }
        let mut owner = self.owner.lock();
        owner.is_scheduled = false;
        self.schedule(owner);
    }

    fn persist(&self, group: &Group) {
        let mut files = self.files.lock();
        let written = self.write(&mut files, group);
        let mut owner = self.owner.lock();
        let told = match &written {
            Ok(()) => owner.persisted(&self.env, group),
            Err(error) => {
                let mut told = owner.not_persisted(&self.env, error);
                told.extend(owner.fail_commands(error));
                // Chunks of what was dropped are nobody's any more.
                self.publish(&mut owner, |_| ());
                told
            }
        };
        if let (Ok(()), Some(writer)) = (&written, &files.writer) {
            writer.segment().add_entries(group.entries.iter().copied());
            writer.publish(owner.persisted_end.position);
            owner.wants_space = writer.wants_space();
            owner.wants_rewrite = !files.padded.is_empty();
        }
        self.show(&owner);
        drop(owner);
        drop(files);
        tell(told);
        self.env.room.changed();
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
        let (data_end, incarnation, options) = {
            let owner = self.owner.lock();
            (owner.persisted_end, owner.incarnation, owner.options.clone())
        };
        let directory = self.directory(incarnation);
        if let Some(writer) = &mut files.writer {
            let segment = Arc::clone(writer.segment());
            let end = if data_end.segment == segment.start() { data_end.position } else { 0 };
            writer.seal(&self.env, end)?;
            if writer.is_padded() {
                files.padded.push(segment);
            }
            files.writer = None;
        }
        let writer = SegmentWriter::create(
            &self.env,
            &directory,
            start,
            incarnation,
            options.durability,
            options.segment_bytes,
        )?;
        let segment = Arc::clone(writer.segment());
        files.writer = Some(writer);
        let mut owner = self.owner.lock();
        // The partition has one segment more: perhaps one too many.
        owner.retains_ns = Some(0);
        self.publish(&mut owner, |segments| {
            // One that a failed write left empty gives way.
            segments.retain(|other| other.base_offset() != start.base_offset);
            segments.push(segment);
        });
        Ok(())
    }

    fn directory(&self, incarnation: u64) -> std::path::PathBuf {
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

    /// Rewrites a sealed segment without its gaps, and queues its installation.
    fn rewrite_padded(&self) {
        let mut files = self.files.lock();
        let padded = files.padded.pop();
        let has_more = !files.padded.is_empty();
        let rewritten = padded.and_then(|segment| dense::rewrite(&self.env, &segment).ok());
        let mut owner = self.owner.lock();
        owner.wants_rewrite = has_more;
        if let Some(rewritten) = rewritten {
            owner.commands.push_back(Command::unattended(What::Install(rewritten)));
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
    /// Returns whether there is a step to take.
    fn has_work(&self, now_ns: u64, block: u64) -> bool {
        !self.commands.is_empty()
            || self.is_persist_due(now_ns, block)
            || self.wants_space
            || self.wants_rewrite
    }

    /// Queues a look for old segments if it is time for one.
    fn queue_retention(&mut self, now_ns: u64) {
        let Some(interval_ns) = self.retention_interval_ns() else { return };
        if matches!(self.health, Health::Closed) {
            return;
        }
        if *self.retains_ns.get_or_insert(now_ns + interval_ns) <= now_ns {
            self.retains_ns = Some(now_ns + interval_ns);
            self.commands.push_back(Command::unattended(What::Retain));
        }
    }

    /// Returns when to look again, if nothing has been asked for that time yet.
    fn next_wake(&mut self, now_ns: u64) -> Option<u64> {
        let retains_ns = self.retention_interval_ns().and(self.retains_ns);
        let due_ns = self.next_due_ns().into_iter().chain(retains_ns).min()?.max(now_ns + 1);
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
            None => self.is_persist_due(now_ns, env.block),
            Some(command) => {
                let offset = command.persisted_before(self);
                !command.is_hopeless && offset.is_some_and(|offset| self.persisted_offset < offset)
            }
        };
        if can_persist && is_wanted {
            let all = self.writes_partial_blocks(now_ns);
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
            () => Step::Idle,
        }
    }
}

/// Tells what came of appends and commands.
fn tell(told: Told) {
    for (signal, outcome) in told {
        signal.complete(outcome);
    }
}

impl fmt::Debug for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Partition({}, {:?})", self.id, self.stats())
    }
}
