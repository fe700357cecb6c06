//! The queue of commands. [`commands`](crate::partition::commands) executes them.

use std::collections::VecDeque;
use std::mem::take;
use std::sync::Arc;

use super::{Completions, Owner};
use crate::Error;
use crate::env::Env;
use crate::offsets::Offsets;
use crate::segment::dense;
use crate::ticket::{Completer, Ticket};

/// A command, which the partition's owner executes in the order of submission.
#[derive(Debug)]
pub(in crate::partition) struct Command {
    pub(in crate::partition) effect: Effect,
    /// Whether a write failed while the command was queued. The command then no longer waits until
    /// messages are persisted.
    pub(in crate::partition) persist_failed: bool,
    pub(in crate::partition) completer: Completer,
}

/// The effect of a command.
#[derive(Debug)]
pub(in crate::partition) enum Effect {
    /// Persists all messages of an incarnation below an offset, and syncs them if `is_synced`.
    /// A truncation that is executed before it lowers the offset ([`Owner::truncate_flushes`]). If
    /// the partition has another incarnation by then, a purge has removed the messages.
    Flush { incarnation: u64, offset: u64, is_synced: bool },
    /// Removes all messages: a new incarnation begins at offset 0.
    Purge,
    /// Removes the messages at and after an offset. Stored offsets of consumers beyond the new last
    /// message become the offset of that message.
    Truncate { offset: u64, offsets: Option<Arc<Offsets>> },
    /// Removes up to `count` of the oldest sealed segments, as long as the messages of each are all
    /// below offset `below`.
    DeleteSegments { count: usize, below: u64 },
    /// Removes expired segments, and the oldest segments while the partition exceeds its size
    /// limit.
    Retain,
    /// Makes all writes durable from now on.
    Harden,
    /// Replaces a segment by its copy without gaps.
    Install(dense::Rewritten),
    /// Persists everything and closes the partition.
    Close,
    /// Closes the partition and removes its files, after its removal from the catalog.
    Delete,
}

impl Command {
    /// Creates a command, and the ticket for its outcome.
    pub(in crate::partition) fn new(effect: Effect) -> (Self, Ticket) {
        let (completer, ticket) = Ticket::pending();
        (Self { effect, persist_failed: false, completer }, ticket)
    }

    /// Creates a command for whose completion no caller waits.
    pub(in crate::partition) fn unattended(effect: Effect) -> Self {
        Self::new(effect).0
    }

    /// Returns whether appends are refused while the command is queued or executed.
    pub(in crate::partition) fn is_barrier(&self) -> bool {
        match self.effect {
            Effect::Purge | Effect::Truncate { .. } | Effect::Close | Effect::Delete => true,
            Effect::Flush { .. }
            | Effect::DeleteSegments { .. }
            | Effect::Retain
            | Effect::Harden
            | Effect::Install(_) => false,
        }
    }
}

impl Owner {
    /// Returns the offset below which all messages must be persisted before a command is executed.
    pub(in crate::partition) fn persisted_before(&self, command: &Command) -> Option<u64> {
        match command.effect {
            Effect::Flush { incarnation, offset, .. } => {
                (incarnation == self.incarnation).then_some(offset)
            }
            Effect::Truncate { .. } | Effect::Close => Some(self.next_offset),
            _ => None,
        }
    }

    /// Returns the error for a command that requires all batches to be persisted. Call this if a
    /// batch is not persisted.
    pub(in crate::partition) fn why_not_persisted(&self) -> Error {
        self.health.error(self.id).unwrap_or_else(|| Error::closed(self.id))
    }

    /// After a truncation, queued flushes need not persist the messages that were removed.
    pub(in crate::partition) fn truncate_flushes(&mut self, end: u64) {
        for command in &mut self.schedule.commands {
            if let Effect::Flush { offset, .. } = &mut command.effect {
                *offset = (*offset).min(end);
            }
        }
    }

    /// Queues a command.
    pub(in crate::partition) fn queue(&mut self, command: Command) {
        self.schedule.barriers += usize::from(command.is_barrier());
        self.schedule.commands.push_back(command);
    }

    /// Fails the queued flushes and truncations, because a write failed. All other commands stay
    /// queued and are executed without waiting for a write.
    pub(in crate::partition) fn fail_commands(&mut self, error: &Error) -> Completions {
        let mut completions = Completions::default();
        let mut stay = VecDeque::new();
        for mut command in take(&mut self.schedule.commands) {
            command.persist_failed = true;
            match command.effect {
                Effect::Flush { .. } | Effect::Truncate { .. } => {
                    self.schedule.barriers -= usize::from(command.is_barrier());
                    completions.add(command.completer, Err(error.clone()));
                }
                _ => stay.push_back(command),
            }
        }
        self.schedule.commands = stay;
        completions
    }

    /// Refuses all queued commands of a closed or deleted partition.
    pub(in crate::partition) fn refuse_commands(&mut self, env: &Env) -> Completions {
        let commands = take(&mut self.schedule.commands);
        let error = self.health.error(self.id).unwrap_or_else(|| Error::closed(self.id));
        let refused = commands.into_iter().map(|command| {
            self.schedule.barriers -= usize::from(command.is_barrier());
            if let Effect::Install(rewritten) = command.effect {
                rewritten.discard(&env.segment_files);
            }
            (command.completer, Err(error.clone()))
        });
        refused.collect()
    }
}
