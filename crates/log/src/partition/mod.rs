//! A partition: it has one owner, which changes it, and any number of readers.
//!
//! # The owner's order
//!
//! The owner of a partition orders everything that happens to the partition: append, persist,
//! rotate (begin another segment), seal, purge, truncate, delete, retain (remove old segments),
//! close. The order is the order in which the owner's lock is taken ([`owner`]). No I/O is done
//! under that lock:
//!
//! - An append takes the lock, copies its batch to the position after the last batch, and returns.
//!   It never waits for a persist.
//! - Every change to files is a *step* ([`steps`]), taken by a thread of the
//!   [`Scheduler`](crate::scheduler::Scheduler). Only one thread at a time takes steps for a
//!   partition. A write in flight is therefore part of the order, and no other change to files
//!   overtakes it.
//! - A command that ends the current state of a partition (purge, truncate, delete, close) is a
//!   *barrier*: from the time it is queued until it is done, [`Partition::try_append`] fails with
//!   [`ErrorKind::Full`](crate::ErrorKind::Full), and [`Partition::append`] waits. Before the
//!   command is executed, earlier appends are persisted, unless a purge removes them.
//! - Readers pin a [`Snapshot`]: the segments and chunks of one incarnation. A change replaces the
//!   whole snapshot.
//!
//! # Why no two commands race
//!
//! - An append and a persist: under the lock, the persist takes the batches appended so far, and
//!   ends them with a gap up to a block boundary. Later batches are in other blocks.
//! - An append and the rotation of a segment: the append that does not fit begins the next segment,
//!   under the lock. The persist of its first batch seals the old segment and creates the new one.
//! - An append and a purge, truncation, deletion or close: these four commands are barriers.
//! - An append and the removal of old segments: only sealed segments are removed, and appends go to
//!   the last segment, which is not sealed. If retention removes even the newest message, it first
//!   begins another segment: under one lock it checks that everything is persisted, and moves the
//!   position of the next batch to the new segment.
//! - Persists, rotations and commands: they are steps, and only one step is taken at a time.
//! - A removal of several segments that is in progress, and other commands: the removed segments
//!   are below the partition's first offset, which only grows, so no command uses them. A close and
//!   a truncation complete the removal; a purge and a deletion remove the whole directory.
//! - The rewriting of a sealed segment and its removal: the segment is copied in several steps. The
//!   installation of the copy is another step, and first checks that the segment still exists.
//! - An append and the release of an idle partition's memory: the release holds the lock, and does
//!   nothing if there is an unpersisted batch. Cutting off preallocated space is a step.
//!
//! # Panics
//!
//! A panic fails the step. The partition then refuses appends until the log is opened again or the
//! partition is purged, because a purge begins new files. The tickets of the batches and the
//! command in the step complete with the error. Other partitions continue.
//!
//! # Incarnations
//!
//! Every creation and every purge begins an incarnation with a new number, which the catalog makes
//! durable before the incarnation is used. The incarnation's files are in a separate directory. Its
//! chunks in shared memory and the stored offsets of its consumers contain the number. Data of
//! another incarnation is therefore never mistaken for data of this one: a write that is in flight
//! during a purge ends up in a directory that is removed, and a chunk that a dead process left is
//! discarded.
//!
//! # Crash at each step
//!
//! - Persist: after the crash the group of batches exists as a whole, or only in part. Of a partial
//!   group, recovery keeps the batches before the first one that is not whole ([`recovery`]).
//! - Rotate: the old segment is cut and synced first. The name of the new segment is durable before
//!   anything is written to it.
//! - Purge: a crash before the catalog contains the new incarnation leaves the new directory
//!   unused; a crash afterwards leaves the old directory unused. Opening the log removes the unused
//!   directory.
//! - Truncation removes segments from the end, one at a time, and each removal is durable before
//!   the next, so that there is never a hole. Retention removes them from the beginning; before
//!   several are removed, the new beginning is made durable ([`retention`]).
//! - Release of an idle partition's memory: the last segment may or may not still have its
//!   preallocated space. Recovery cuts off any preallocated space.

mod append;
mod commands;
mod gathered;
mod owner;
mod poll;
mod polled;
pub(crate) mod recovery;
mod removal;
mod retention;
mod steps;
mod stored;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Weak};

pub use append::{Appended, VerifiedBatch};
pub use poll::Strategy;
pub use polled::{Piece, Polled, PolledMessage, PolledMessages};
pub use recovery::Recovered;
pub use stored::StoredBatch;

use owner::Owner;
use removal::Truncation;
use retention::Removal;

use crate::Error;
use crate::catalog::{Catalog, PartitionId};
use crate::env::Env;
use crate::options::TopicOptions;
use crate::segment::{Segment, SegmentWriter, dense};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Guard, Mutex, Published};
use crate::tail::survivors::Survivor;
use crate::tail::{Chunk, MemoryKind};

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

/// The part of the partition's state that concerns its files. It is used only in a step (a change
/// to the files), and only one thread at a time takes a step.
#[derive(Debug, Default)]
struct Files {
    writer: Option<SegmentWriter>,
    /// Sealed segments that may have enough gaps to be worth rewriting.
    padded: Vec<Arc<Segment>>,
    /// The rewrite in progress, of one sealed segment; `None` if there is none.
    rewriting: Option<Box<dense::Rewriting>>,
    /// Files that are no longer used but not yet removed.
    unused: Vec<PathBuf>,
    /// The partition's directory, if files were removed from it since it was last synced.
    unsynced: Option<PathBuf>,
    /// Batches that a dead process left in shared memory, until they are persisted.
    survivors: Vec<Survivor>,
    /// The removal of several old segments, in progress.
    removal: Removal,
    /// What remains to be done of a truncation that readers already see.
    truncation: Option<Truncation>,
}

/// A reader's view of one incarnation of a partition.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) incarnation: u64,
    /// Offset of the first message.
    pub(crate) start_offset: u64,
    /// Segments in the order of their offsets; appends go to the last segment.
    pub(crate) segments: Vec<Arc<Segment>>,
    /// Chunks in memory, in the order of their offsets.
    pub(crate) chunks: Vec<Arc<Chunk>>,
    pub(crate) progress: Arc<Progress>,
}

/// How far readers may read in one incarnation of a partition.
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

/// Figures of a partition at a point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
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
    /// Total size of all segments, in bytes.
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
        // A purge replaces the incarnation and the snapshot under the owner's lock. The lock is
        // held here, so the snapshot belongs to the owner's incarnation.
        let snapshot = self.snapshot();
        PartitionStats {
            incarnation: owner.incarnation,
            start_offset: snapshot.start_offset,
            end_offset: owner.next_offset,
            persisted_offset: owner.persisted.offset,
            segments: snapshot.segments.len(),
            bytes: snapshot.segments.iter().map(|segment| segment.length()).sum(),
            unpersisted_bytes: owner.tail.unpersisted_bytes,
            unpersisted_messages: owner.tail.unpersisted_messages,
        }
    }

    /// Returns the partition's current incarnation, without taking a lock. A purge begins another.
    pub fn incarnation(&self) -> u64 {
        self.snapshot().incarnation
    }

    /// Returns the current incarnation and the offset of its next message.
    pub(crate) fn end(&self) -> (u64, u64) {
        let owner = self.owner.lock();
        (owner.incarnation, owner.next_offset)
    }

    /// Returns the error with which appends are refused; `None` if they are accepted.
    pub fn failure(&self) -> Option<Error> {
        let lost = self.env.lock.check_if_due(&*self.env.clock).err().map(Error::from);
        self.owner.lock().health.error(self.id).or(lost)
    }

    /// Returns why the last attempt to persist failed, if appends are accepted nevertheless and the
    /// attempt is repeated: no file descriptor is left. `None` if nothing is delayed.
    pub fn delay(&self) -> Option<Error> {
        self.owner.lock().delay_error()
    }

    /// Returns the number of acknowledged messages that are not persisted and in this kind of
    /// memory.
    pub(crate) fn acknowledged_in_memory(&self, kind: MemoryKind) -> u64 {
        let files = self.files.lock();
        let owner = self.owner.lock();
        // A dead process left the batches of `survivors` in shared memory.
        let left = |survivor: &Survivor| survivor.messages_from(owner.persisted.offset);
        let survivors = match kind {
            MemoryKind::Shared => files.survivors.iter().map(left).sum(),
            MemoryKind::Private => 0,
        };
        let is_own = owner.tail.kind == kind && !owner.acknowledges_persisted();
        survivors + if is_own { owner.tail.unpersisted_messages } else { 0 }
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

    /// Publishes a new snapshot. Its chunks are those of the owner. Its segments are those of the
    /// old snapshot, as modified by `change`.
    fn publish(&self, owner: &mut Owner, change: impl FnOnce(&mut Vec<Arc<Segment>>)) {
        let old = self.snapshot();
        let mut segments = old.segments.clone();
        change(&mut segments);
        owner.tail.chunks.retain(|chunk| chunk.bytes().is_some());
        let chunks = owner.tail.chunks.clone();
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

    /// Publishes the offset before which readers may read.
    fn publish_end(&self, owner: &Owner) {
        self.snapshot().progress.visible_end.store(owner.visible_end(), Ordering::Release);
    }

    /// Queues the partition if it has work and is not yet queued. Releases the owner's lock.
    fn schedule(&self, mut owner: Guard<'_, Owner>) {
        if owner.schedule.is_scheduled {
            return;
        }
        let now_ns = self.env.clock.monotonic_ns();
        let Some(me) = self.me.upgrade() else { return };
        owner.queue_retention(now_ns);
        if owner.has_work(&self.env, now_ns) {
            owner.schedule.is_scheduled = true;
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

impl fmt::Debug for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Partition({}, {:?})", self.id, self.stats())
    }
}
