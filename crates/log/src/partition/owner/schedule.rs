//! The choice of a partition's next step, and the time of its next wake-up.

use std::collections::VecDeque;

use super::{Command, Effect, Group, Health, Owner};
use crate::env::Env;

/// The next step of the owner.
pub(in crate::partition) enum Step {
    Persist(Group),
    /// Goes on with a change of files that could not be completed for lack of space, memory or
    /// descriptors: the recovery of the batches that a dead process left in shared memory, or a
    /// truncation.
    Resume,
    Command(Command),
    Space,
    Rewrite,
    /// Removes files of old segments.
    Remove,
    /// Releases the memory and the preallocated space of an idle partition.
    Release,
    Idle,
}

/// The work that a partition has to do, other than persisting.
#[derive(Debug, Default)]
pub(in crate::partition) struct Schedule {
    pub(in crate::partition) commands: VecDeque<Command>,
    /// Number of barriers that are queued or being executed. A barrier is a command that refuses
    /// appends until it is done.
    pub(in crate::partition) barriers: usize,
    /// Whether the partition is queued in the scheduler, or a thread takes a step for it.
    pub(in crate::partition) is_scheduled: bool,
    /// Whether space should be preallocated for the last segment.
    pub(in crate::partition) wants_space: bool,
    /// Whether files of old segments are to be removed.
    pub(in crate::partition) wants_removal: bool,
    /// Whether the last step persisted a group, so that it is the turn of a removal.
    has_persisted: bool,
    /// Whether sealed segments should be rewritten.
    pub(in crate::partition) wants_rewrite: bool,
    /// Time of the next attempt to rewrite a sealed segment if the last one was postponed, by the
    /// monotonic clock.
    pub(in crate::partition) rewrites_ns: Option<u64>,
    /// Time of the earliest pending wake-up by the scheduler, by the monotonic clock.
    wakes_ns: Option<u64>,
    /// Time of the next retention run, by the monotonic clock.
    pub(in crate::partition) retains_ns: Option<u64>,
}

impl Schedule {
    fn is_rewrite_due(&self, now_ns: u64) -> bool {
        self.wants_rewrite || self.rewrites_ns.is_some_and(|rewrites_ns| rewrites_ns <= now_ns)
    }

    /// Returns the schedule of the partition's next incarnation. The queued commands and pending
    /// wake-ups stay; work on the files of the old incarnation is dropped.
    pub(super) fn of_next_incarnation(self) -> Self {
        let Self { commands, barriers, is_scheduled, wakes_ns, .. } = self;
        Self { commands, barriers, is_scheduled, wakes_ns, ..Self::default() }
    }
}

impl Owner {
    /// Returns whether there is work.
    pub(in crate::partition) fn has_work(&self, env: &Env, now_ns: u64) -> bool {
        !self.schedule.commands.is_empty()
            || self.is_persist_due(env, now_ns)
            || self.schedule.wants_space
            || self.schedule.wants_removal
            || self.schedule.is_rewrite_due(now_ns)
            || self.is_release_due(now_ns)
    }

    /// Queues retention if it is due.
    pub(in crate::partition) fn queue_retention(&mut self, now_ns: u64) {
        let Some(interval_ns) = self.retention_interval_ns() else { return };
        if self.health.has_ended() || matches!(self.health, Health::Failed(_)) {
            return;
        }
        if *self.schedule.retains_ns.get_or_insert(now_ns + interval_ns) <= now_ns {
            self.schedule.retains_ns = Some(now_ns + interval_ns);
            self.schedule.commands.push_back(Command::unattended(Effect::Retain));
        }
    }

    /// Returns the time at which the scheduler must wake the partition. `None` if nothing will
    /// become due, or if the partition is already going to be woken at that time or earlier.
    pub(in crate::partition) fn next_wake(&mut self, now_ns: u64) -> Option<u64> {
        let retains_ns = self.retention_interval_ns().and(self.schedule.retains_ns);
        let due_ns = self.next_due_ns().into_iter().chain(retains_ns).chain(self.release_ns());
        let due_ns = due_ns.chain(self.schedule.rewrites_ns);
        let due_ns = due_ns.min()?.max(now_ns + 1);
        if self.schedule.wakes_ns.is_some_and(|wakes_ns| wakes_ns <= due_ns) {
            return None;
        }
        self.schedule.wakes_ns = Some(due_ns);
        Some(due_ns)
    }

    pub(in crate::partition) fn woken(&mut self) {
        self.schedule.wakes_ns = None;
    }

    pub(in crate::partition) fn next_step(&mut self, env: &Env) -> Step {
        let now_ns = env.clock.monotonic_ns();
        if std::mem::take(&mut self.schedule.has_persisted) && self.schedule.wants_removal {
            return Step::Remove;
        }
        let can_persist = matches!(self.health, Health::Good | Health::Short { .. });
        let is_wanted = match self.schedule.commands.front() {
            None => self.is_persist_due(env, now_ns),
            Some(command) => {
                let offset = self.persisted_before(command);
                !command.persist_failed && offset.is_some_and(|offset| !self.is_persisted(offset))
            }
        };
        if can_persist && is_wanted {
            if self.awaits_files() {
                return Step::Resume;
            }
            let all = self.writes_partial_blocks(env, now_ns);
            if let Some(group) = self.take_group(env, all) {
                self.schedule.has_persisted = true;
                return Step::Persist(group);
            }
        }
        if let Some(command) = self.schedule.commands.pop_front() {
            return Step::Command(command);
        }
        match () {
            () if std::mem::take(&mut self.schedule.wants_space) => Step::Space,
            () if self.schedule.is_rewrite_due(now_ns) => {
                self.schedule.wants_rewrite = false;
                self.schedule.rewrites_ns = None;
                Step::Rewrite
            }
            () if self.schedule.wants_removal => Step::Remove,
            () if self.is_release_due(now_ns) => Step::Release,
            () => Step::Idle,
        }
    }
}
