//! The choice of a partition's next step, and the time of its next wake-up.

use super::{Health, Owner};
use crate::env::Env;
use crate::partition::Step;
use crate::partition::commands::{Command, Effect};

impl Owner {
    /// Returns whether there is work.
    pub(in crate::partition) fn has_work(&self, env: &Env, now_ns: u64) -> bool {
        !self.commands.is_empty()
            || self.is_persist_due(env, now_ns)
            || self.wants_space
            || self.wants_rewrite
            || self.is_release_due(now_ns)
    }

    /// Queues retention if it is due.
    pub(in crate::partition) fn queue_retention(&mut self, now_ns: u64) {
        let Some(interval_ns) = self.retention_interval_ns() else { return };
        if matches!(self.health, Health::Closed | Health::Failed(_)) {
            return;
        }
        if *self.retains_ns.get_or_insert(now_ns + interval_ns) <= now_ns {
            self.retains_ns = Some(now_ns + interval_ns);
            self.commands.push_back(Command::unattended(Effect::Retain));
        }
    }

    /// Returns the time at which the scheduler must wake the partition. `None` if nothing will
    /// become due, or if the partition is already going to be woken at that time or earlier.
    pub(in crate::partition) fn next_wake(&mut self, now_ns: u64) -> Option<u64> {
        let retains_ns = self.retention_interval_ns().and(self.retains_ns);
        let due_ns = self.next_due_ns().into_iter().chain(retains_ns).chain(self.release_ns());
        let due_ns = due_ns.min()?.max(now_ns + 1);
        if self.wakes_ns.is_some_and(|wakes_ns| wakes_ns <= due_ns) {
            return None;
        }
        self.wakes_ns = Some(due_ns);
        Some(due_ns)
    }

    pub(in crate::partition) fn woken(&mut self) {
        self.wakes_ns = None;
    }

    pub(in crate::partition) fn next_step(&mut self, env: &Env) -> Step {
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
