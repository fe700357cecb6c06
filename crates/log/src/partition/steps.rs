//! Steps: the changes to the files of a partition.
//!
//! A step is one unit of a partition's work: it persists a group of batches, executes a command
//! ([`commands`](super::commands)), preallocates space, rewrites a part of a sealed segment,
//! removes old files, or releases the memory of an idle partition. Persisting also seals a full
//! segment and begins the next one.
//!
//! A step takes the owner's lock to choose its work ([`Owner::next_step`]), does its I/O without
//! the lock, and takes the lock again to record the outcome. [`super`] describes the order of the
//! steps, and the effect of a crash at each step.

use std::io::IoSlice;
use std::path::PathBuf;
use std::sync::Arc;

use tailwater_format::message::name::Kind;

use super::owner::{Command, Completions, Effect, Group, Owner, Step};
use super::{Files, Partition};
use crate::options::Durability;
use crate::scheduler::Scheduled;
use crate::segment::dense::{self, Advanced};
use crate::segment::{Segment, SegmentWriter};
use crate::tail::SegmentStart;
use crate::{Error, ErrorKind, Result, layout, panics};

/// Time after which the rewriting of a sealed segment is tried again if it was postponed, in
/// nanoseconds.
const REWRITE_RETRY_NS: u64 = 1_000_000_000;

impl Scheduled for Partition {
    fn wake(&self) {
        if self.env.memory.is_refused() {
            // The system does not notify the log when memory is available again, so each wake-up of
            // a partition lets waiting appends try again.
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
            completions.complete();
            self.env.backpressure.changed();
        }
        let mut owner = self.owner.lock();
        owner.schedule.is_scheduled = false;
        self.schedule(owner);
    }
}

impl Partition {
    /// Takes the next step of the partition's work, such as a write to a segment or a command.
    fn take_step(&self) {
        let step = self.owner.lock().next_step(&self.env);
        match step {
            Step::Persist(group) => {
                let mut completions = Completions::default();
                let mut files = self.files.lock();
                // Ignore the outcome: `persist` has already stored a failure in the owner's field
                // `health`.
                let _ = self.persist(&mut files, &group, &mut completions);
                drop(files);
                completions.complete();
                self.env.backpressure.changed();
            }
            Step::Resume => self.resume_files(),
            Step::Command(command) => self.execute(command),
            Step::Space => self.prepare_space(),
            Step::Rewrite => self.rewrite_padded(),
            Step::Remove => self.take_removal_step().complete(),
            Step::Release => {
                let mut files = self.files.lock();
                self.release(&mut files);
            }
            Step::Idle => {}
        }
    }

    /// Persists a group, and records the outcome.
    pub(super) fn persist(
        &self,
        files: &mut Files,
        group: &Group,
        completions: &mut Completions,
    ) -> Result<()> {
        let written = panics::catch("a persist", || self.write(files, group));
        let mut owner = self.owner.lock();
        completions.append(match &written {
            Ok(()) => owner.persisted(&self.env, group),
            Err(error) => self.not_persisted(&mut owner, error),
        });
        if let (Ok(()), Some(writer)) = (&written, &files.writer) {
            writer.segment().add_entries(group.entries.iter().copied());
            writer.publish(owner.persisted.end.position);
            owner.schedule.wants_space = writer.wants_space();
            owner.schedule.wants_rewrite = files.rewriting.is_some() || !files.padded.is_empty();
        }
        self.publish_end(&owner);
        written
    }

    /// Records that a group of batches could not be persisted.
    fn not_persisted(&self, owner: &mut Owner, error: &Error) -> Completions {
        let mut completions = owner.not_persisted(&self.env, error);
        completions.append(owner.fail_commands(error));
        // Readers must not keep the chunks of the dropped batches.
        self.publish(owner, |_| ());
        completions
    }

    /// Writes a group. If the group is the first of a segment, creates the segment.
    fn write(&self, files: &mut Files, group: &Group) -> Result<()> {
        let is_other =
            files.writer.as_ref().is_none_or(|writer| writer.segment().start() != group.segment);
        if is_other {
            self.rotate(files, group.segment, None)?;
        }
        let Some(writer) = &mut files.writer else {
            return Err(Error::new(ErrorKind::Internal, "there is no segment to write to"));
        };
        let parts: Vec<IoSlice<'_>> =
            group.parts.iter().map(|part| IoSlice::new(part.bytes())).collect();
        writer.write(&parts, group.position, group.batch_bytes)
    }

    /// Seals the last segment and begins another. `emptied` is a segment that a truncation empties;
    /// if the new segment has its name, it takes over its file.
    pub(super) fn rotate(
        &self,
        files: &mut Files,
        start: SegmentStart,
        emptied: Option<&Arc<Segment>>,
    ) -> Result<()> {
        let (data_end, incarnation, durability, segment_bytes) = {
            let owner = self.owner.lock();
            let options = &owner.options;
            let durability = if owner.is_hardened { Durability::Disk } else { options.durability };
            (owner.persisted.end, owner.incarnation, durability, options.segment_bytes)
        };
        let directory = self.directory(incarnation);
        if let Some(writer) = &mut files.writer {
            let segment = Arc::clone(writer.segment());
            if segment.base_offset() > start.base_offset {
                // An earlier segment must not be begun again: its file would be truncated.
                let (last, next) = (segment.base_offset(), start.base_offset);
                let message = format!("segment {next} of {} would follow segment {last}", self.id);
                return Err(Error::new(ErrorKind::Internal, message));
            }
            let end = if data_end.segment == segment.start() { data_end.position } else { 0 };
            writer.seal(end)?;
            if writer.is_padded() {
                files.padded.push(segment);
            }
            files.writer = None;
        }
        let env_files = &self.env.segment_files;
        let has_file =
            |segment: &&Arc<Segment>| segment.start() == start && segment.generation() == 0;
        let snapshot = self.snapshot();
        let writer = if snapshot.segments.iter().chain(emptied).any(|it| has_file(&it)) {
            let segment = Arc::new(Segment::new(&directory, start, 0, incarnation, 0));
            segment.set_entries(Vec::new());
            SegmentWriter::resume(env_files, &segment, 0, durability, segment_bytes)?
        } else {
            let length_max = segment_bytes;
            SegmentWriter::create(
                env_files,
                &directory,
                start,
                incarnation,
                durability,
                length_max,
            )?
        };
        let segment = Arc::clone(writer.segment());
        files.writer = Some(writer);
        let mut owner = self.owner.lock();
        // With another segment, the partition may exceed its size limit: retention is due.
        owner.schedule.retains_ns = Some(0);
        self.publish(&mut owner, |segments| {
            // The new segment replaces an empty one that a failed write left.
            let is_replaced = |other: &Arc<Segment>| other.base_offset() == start.base_offset;
            let replaced = segments.iter().filter(|other| is_replaced(other));
            let paths =
                replaced.flat_map(|other| [Kind::Log, Kind::Index].map(|it| other.path(it)));
            files.unused.extend(paths.filter(|path| *path != segment.path(Kind::Log)));
            segments.retain(|other| !is_replaced(other));
            segments.push(segment);
        });
        drop(owner);
        // Files that cannot be removed now are removed by the next removal of files.
        let _ = self.remove_unused(files);
        Ok(())
    }

    pub(super) fn directory(&self, incarnation: u64) -> PathBuf {
        layout::incarnation_directory(&self.env.directory, self.id, incarnation)
    }

    fn prepare_space(&self) {
        let mut files = self.files.lock();
        let wants_more = files.writer.as_mut().is_some_and(SegmentWriter::prepare);
        self.owner.lock().schedule.wants_space = wants_more;
    }

    /// Releases the chunks and the preallocated space of an idle partition. Otherwise many idle
    /// partitions would use up the memory and space that active partitions need.
    pub(super) fn release(&self, files: &mut Files) {
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

    /// Copies the next part of a sealed segment without its gaps. When the copy is complete, queues
    /// its installation. A segment that cannot be copied stays as it is.
    fn rewrite_padded(&self) {
        let mut files = self.files.lock();
        let mut is_postponed = false;
        let rewriting = files.rewriting.take().or_else(|| {
            let segment = files.padded.pop()?;
            let begun = dense::Rewriting::begin(&self.env.segment_files, &segment);
            if begun.as_ref().is_err_and(dense::is_postponed) {
                is_postponed = true;
                files.padded.push(segment);
            }
            begun.ok()
        });
        let mut rewritten = None;
        match rewriting.map(|rewriting| rewriting.advance(&self.env.segment_files)) {
            Some(Ok(Advanced::Part(rest))) => files.rewriting = Some(rest),
            Some(Ok(Advanced::Whole(whole))) => rewritten = Some(whole),
            Some(Err(_)) | None => {}
        }
        let has_more = files.rewriting.is_some() || !files.padded.is_empty();
        let mut owner = self.owner.lock();
        owner.schedule.wants_rewrite = has_more && !is_postponed;
        if is_postponed {
            let now_ns = self.env.clock.monotonic_ns();
            owner.schedule.rewrites_ns = Some(now_ns + REWRITE_RETRY_NS);
        }
        if let Some(rewritten) = rewritten {
            owner.schedule.commands.push_back(Command::unattended(Effect::Install(rewritten)));
        }
    }
}
