//! The members of one consumer group, and the owner of each partition of the group's topic.
//!
//! # Invariants
//!
//! - While a group has members, each partition has one owner. Only the owner may commit an offset
//!   for the partition. Only the owner may poll the partition, and not even the owner may poll it
//!   during a handover.
//! - The assignment is balanced. For the balance, a partition in a handover counts as a partition
//!   of its new owner.
//! - A partition is busy while its owner polls it, or has polled messages that it has not
//!   committed. A busy partition moves to another owner only when its owner commits these messages,
//!   when its owner leaves the group, or when the handover takes too long.
//! - The generation is a counter. It increases with every rebalance, completed handover and purge,
//!   and therefore whenever the partitions that a member may poll change.
//!
//! # A rebalance
//!
//! 1. A member joins or leaves, or partitions are added or deleted. [`assign`] chooses an owner for
//!    each partition.
//! 2. A partition that is not busy moves to its new owner immediately. For a busy partition, a
//!    handover begins: the next poll by the old owner is refused. The old owner's client then
//!    requests its partitions again, and commits the messages that it has polled.
//! 3. The old owner's commit completes the handover. If there is none, [`Members::expire`]
//!    completes it later.
//!
//! This state is not durable. After a restart of the server, groups have no members until clients
//! join again.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::{Duration, Instant};

use super::MemberSummary;
use super::assignment::{Held, assign};
use crate::session::SessionId;

/// The members of a group and their partitions.
#[derive(Debug, Default)]
pub(super) struct Members {
    generation: u64,
    members: BTreeMap<SessionId, Member>,
    partitions: BTreeMap<u32, Partition>,
    /// Handovers in progress, by the ids of their partitions.
    handovers: BTreeMap<u32, Handover>,
    /// Whether the group was deleted, so that no session may join it.
    is_disbanded: bool,
}

#[derive(Debug)]
struct Member {
    /// Number of the member within the group, as reported to clients.
    id: u32,
    /// The partition that the server chose most recently for this member. The server chooses a
    /// partition if a poll does not name one.
    last_polled: u32,
    /// Whether the client has ever requested its partitions. Such a client names a partition in its
    /// polls.
    has_synchronized: bool,
    /// Whether the member has got a partition since its client last requested its partitions.
    has_news: bool,
}

#[derive(Debug, Default)]
struct Partition {
    owner: Option<SessionId>,
    /// The generation in which the current owner got the partition.
    since: u64,
    /// Number of the owner's polls in progress.
    polls: u32,
    /// Highest offset that the current owner has polled.
    polled: Option<u64>,
    /// Offset of the group's latest commit; `None` if there was no commit since the start of the
    /// server.
    committed: Option<u64>,
}

impl Partition {
    fn is_busy(&self) -> bool {
        self.polls > 0 || self.polled > self.committed
    }
}

#[derive(Debug, Clone, Copy)]
struct Handover {
    to: SessionId,
    since: Instant,
}

/// A poll in progress by a member of the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Begun {
    pub(super) partition: u32,
    /// The generation in which the polling member got the partition.
    since: u64,
}

/// The reason why a session must not commit an offset for a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The session is not a member of the group.
    NoMember,
    /// The session does not own the partition.
    NotOwner,
}

impl Members {
    /// Creates a group for these partitions, without members.
    pub(super) fn new(partitions: impl IntoIterator<Item = u32>) -> Self {
        let partitions = partitions.into_iter().map(|partition| (partition, Partition::default()));
        Self { partitions: partitions.collect(), ..Self::default() }
    }

    /// Adds a session as a member, unless it already is one. Returns false if the group was
    /// deleted.
    pub(super) fn join(&mut self, session: SessionId, now: Instant) -> bool {
        if self.is_disbanded || self.members.contains_key(&session) {
            return !self.is_disbanded;
        }
        let mut taken: Vec<u32> = self.members.values().map(|member| member.id).collect();
        taken.sort_unstable();
        let id = (0..).zip(taken).find(|(id, taken)| id != taken).map(|(id, _)| id);
        let id = id.unwrap_or(self.members.len() as u32);
        let member = Member { id, last_polled: u32::MAX, has_synchronized: false, has_news: false };
        self.members.insert(session, member);
        self.rebalance(now);
        true
    }

    /// Removes a member. Its partitions move to other members immediately. Returns whether the
    /// session was a member.
    pub(super) fn leave(&mut self, session: SessionId, now: Instant) -> bool {
        if self.members.remove(&session).is_none() {
            return false;
        }
        self.rebalance(now);
        true
    }

    /// Removes and returns all members, because the group was deleted. No session can join
    /// afterwards.
    pub(super) fn disband(&mut self) -> Vec<SessionId> {
        self.is_disbanded = true;
        self.handovers.clear();
        self.partitions.clear();
        std::mem::take(&mut self.members).into_keys().collect()
    }

    /// Sets the ids of the topic's partitions, which may have changed.
    pub(super) fn set_partitions(&mut self, partitions: &[u32], now: Instant) {
        if self.is_disbanded || self.partitions.keys().eq(partitions) {
            return;
        }
        let mut before = std::mem::take(&mut self.partitions);
        let kept = partitions.iter().map(|id| (*id, before.remove(id).unwrap_or_default()));
        self.partitions = kept.collect();
        self.rebalance(now);
    }

    /// Resets the polled and committed offsets of all partitions after a purge of the topic, which
    /// makes offsets begin at 0 again.
    pub(super) fn purge(&mut self) {
        self.generation += 1;
        for partition in self.partitions.values_mut() {
            partition.polls = 0;
            partition.polled = None;
            partition.committed = None;
            // The purge has removed the messages of the polls in progress. The new generation makes
            // the ends of these polls have no effect.
            partition.since = self.generation;
        }
        self.complete_handovers(|_, partition| !partition.is_busy());
    }

    /// Returns the generation of the group's assignment, and the partitions that a session may
    /// poll. Returns `None` if the session is not a member.
    pub(super) fn synchronize(&mut self, session: SessionId) -> Option<(u64, Vec<u32>)> {
        let member = self.members.get_mut(&session)?;
        member.has_synchronized = true;
        member.has_news = false;
        Some((self.generation, self.pollable(session).collect()))
    }

    /// Returns the partitions that a session may poll as a member.
    pub(super) fn pollable(&self, session: SessionId) -> impl Iterator<Item = u32> {
        let owned = self.partitions.iter().filter(move |(_, of)| of.owner == Some(session));
        owned.map(|(id, _)| *id).filter(move |id| !self.handovers.contains_key(id))
    }

    /// Begins a poll by a member: of partition `id`, or of the member's next partition in turn if
    /// `id` is `None`. Returns `None` if the poll is refused. The client must then request its
    /// partitions again.
    ///
    /// A poll of a partition that the member may no longer poll is refused. After the member has
    /// got a partition, its next poll that names a partition is refused as well. Without that, the
    /// client would learn of the new partition only at its next heartbeat.
    pub(super) fn begin_poll(&mut self, session: SessionId, id: Option<u32>) -> Option<Begun> {
        let member = self.members.get_mut(&session)?;
        let id = match id {
            Some(_) if std::mem::take(&mut member.has_news) => return None,
            Some(id) => id,
            None => {
                let last = member.last_polled;
                let next = self.next_pollable(session, last)?;
                self.members.get_mut(&session)?.last_polled = next;
                next
            }
        };
        let partition = self.partitions.get_mut(&id)?;
        if partition.owner != Some(session) || self.handovers.contains_key(&id) {
            return None;
        }
        partition.polls += 1;
        Some(Begun { partition: id, since: partition.since })
    }

    fn next_pollable(&self, session: SessionId, last: u32) -> Option<u32> {
        let behind = self.partitions.range((Bound::Excluded(last), Bound::Unbounded));
        let mut around = behind.chain(self.partitions.range(..=last));
        let is_pollable = |(id, partition): &(&u32, &Partition)| {
            partition.owner == Some(session) && !self.handovers.contains_key(id)
        };
        around.find(is_pollable).map(|(id, _)| *id)
    }

    /// Ends a poll. `last_offset` is the offset of the last message that the poll returned; `None`
    /// if it returned no messages. Has no effect if the partition has got another owner since the
    /// poll began.
    pub(super) fn end_poll(&mut self, poll: Begun, last_offset: Option<u64>) {
        if let Some(partition) = self.polled_partition(poll) {
            partition.polls = partition.polls.saturating_sub(1);
            partition.polled = partition.polled.max(last_offset);
            self.complete_if_idle(poll.partition);
        }
    }

    /// Returns whether the member that began a poll still owns the partition, without interruption.
    pub(super) fn is_current(&mut self, poll: Begun) -> bool {
        self.polled_partition(poll).is_some()
    }

    fn polled_partition(&mut self, poll: Begun) -> Option<&mut Partition> {
        self.partitions
            .get_mut(&poll.partition)
            .filter(|partition| partition.owner.is_some() && partition.since == poll.since)
    }

    /// Returns whether a session may commit or delete a partition's offset.
    pub(super) fn may_commit(&self, session: SessionId, id: u32) -> Result<(), Refusal> {
        if !self.members.contains_key(&session) {
            return Err(Refusal::NoMember);
        }
        match self.partitions.get(&id) {
            Some(partition) if partition.owner == Some(session) => Ok(()),
            _ => Err(Refusal::NotOwner),
        }
    }

    /// Records the offset that the owner of a partition committed; `None` if the owner deleted the
    /// offset.
    pub(super) fn committed(&mut self, id: u32, offset: Option<u64>) {
        if let Some(partition) = self.partitions.get_mut(&id) {
            partition.committed = offset;
            self.complete_if_idle(id);
        }
    }

    /// Records the offset up to which the owner of a partition committed what it polled. An earlier
    /// commit of a higher offset stays.
    pub(super) fn committed_polled(&mut self, id: u32, offset: u64) {
        let earlier = self.partitions.get(&id).and_then(|partition| partition.committed);
        self.committed(id, earlier.max(Some(offset)));
    }

    /// Completes the handovers of partitions to new owners, if they began at least `timeout` ago.
    pub(super) fn expire(&mut self, now: Instant, timeout: Duration) {
        self.complete_handovers(|handover, _| now.duration_since(handover.since) >= timeout);
    }

    fn complete_handovers(&mut self, is_complete: impl Fn(&Handover, &Partition) -> bool) {
        let complete = self.handovers.iter().filter(|(id, handover)| {
            self.partitions.get(id).is_some_and(|partition| is_complete(handover, partition))
        });
        for id in complete.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.complete(id);
        }
    }

    fn complete_if_idle(&mut self, id: u32) {
        if !self.handovers.is_empty() && self.partitions.get(&id).is_some_and(|it| !it.is_busy()) {
            self.complete(id);
        }
    }

    fn complete(&mut self, id: u32) {
        if let Some(handover) = self.handovers.remove(&id) {
            self.generation += 1;
            self.give(id, Some(handover.to));
        }
    }

    /// Makes `to` the owner of a partition, from the current generation on.
    fn give(&mut self, id: u32, to: Option<SessionId>) {
        if let Some(partition) = self.partitions.get_mut(&id) {
            partition.owner = to;
            partition.since = self.generation;
            partition.polls = 0;
            partition.polled = None;
        }
        self.note_news(to);
    }

    /// Called when a member has got a partition. Notes that the member's client does not know of
    /// this partition yet.
    fn note_news(&mut self, session: Option<SessionId>) {
        if let Some(member) = session.and_then(|session| self.members.get_mut(&session)) {
            member.has_news = member.has_synchronized;
        }
    }

    /// Chooses an owner for each partition. Moves partitions that are not busy, and begins
    /// handovers of those that are.
    fn rebalance(&mut self, now: Instant) {
        self.generation += 1;
        let ids: Vec<u32> = self.partitions.keys().copied().collect();
        let held = self.partitions.iter().map(|(id, partition)| Held {
            owner: partition.owner,
            target: self.handovers.get(id).map(|handover| handover.to),
            is_busy: partition.is_busy(),
        });
        let held: Vec<Held> = held.collect();
        let members: Vec<SessionId> = self.members.keys().copied().collect();
        if members.is_empty() {
            self.handovers.clear();
            ids.iter().for_each(|id| self.give(*id, None));
            return;
        }
        self.handovers.retain(|id, _| self.partitions.contains_key(id));
        let owners = assign(&held, &members);
        for ((id, held), to) in ids.into_iter().zip(held).zip(owners) {
            self.move_to(id, held, to, now);
        }
    }

    fn move_to(&mut self, id: u32, held: Held, to: SessionId, now: Instant) {
        let owner = held.owner.filter(|owner| self.members.contains_key(owner));
        if owner == Some(to) {
            if self.handovers.remove(&id).is_some() {
                self.note_news(owner);
            }
        } else if owner.is_some() && held.is_busy {
            self.handovers.entry(id).or_insert(Handover { to, since: now }).to = to;
        } else {
            self.handovers.remove(&id);
            self.give(id, Some(to));
        }
    }

    /// Returns the generation of the group's assignment.
    #[cfg(test)]
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the partitions that are being handed over.
    #[cfg(test)]
    pub(super) fn handovers(&self) -> impl Iterator<Item = &u32> {
        self.handovers.keys()
    }

    /// Returns, for each partition, its current owner, and its owner after all handovers are
    /// completed.
    #[cfg(test)]
    pub(super) fn owners(&self) -> BTreeMap<u32, (Option<SessionId>, Option<SessionId>)> {
        let target = |id: &u32| self.handovers.get(id).map(|handover| handover.to);
        let owners =
            self.partitions.iter().map(|(id, of)| (*id, (of.owner, target(id).or(of.owner))));
        owners.collect()
    }

    /// Returns all members, ordered by their numbers. The partitions of a member include partitions
    /// that it is handing over.
    pub(super) fn list(&self) -> Vec<MemberSummary> {
        let mut owned: BTreeMap<SessionId, Vec<u32>> = BTreeMap::new();
        for (id, partition) in &self.partitions {
            if let Some(owner) = partition.owner {
                owned.entry(owner).or_default().push(*id);
            }
        }
        let member = |(session, member): (&SessionId, &Member)| MemberSummary {
            id: member.id,
            partitions: owned.remove(session).unwrap_or_default(),
        };
        let mut list: Vec<_> = self.members.iter().map(member).collect();
        list.sort_unstable();
        list
    }

    /// Returns the number of members.
    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns the number of partitions.
    pub(super) fn partitions(&self) -> usize {
        self.partitions.len()
    }
}
