//! Random clients of one group. The results of their calls are compared with a model of the group.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use tailwater_testkit::seed;

use crate::groups::members::{Begun, Members};
use crate::session::SessionId;

const TIMEOUT: Duration = Duration::from_secs(30);
/// An empty list of partitions.
const NONE: [u32; 0] = [];

/// What a client learned from its last request for its partitions.
#[derive(Default)]
struct Client {
    generation: u64,
    partitions: Vec<u32>,
}

struct OpenPoll {
    session: SessionId,
    begun: Begun,
    /// Whether the partition has got another owner since the poll began, according to the model.
    is_void: bool,
}

/// The group under test (`members`), and the expected state.
struct Model {
    members: Members,
    now: Instant,
    clients: BTreeMap<SessionId, Client>,
    sessions: u32,
    partitions: Vec<u32>,
    polls: Vec<OpenPoll>,
    /// For each partition with uncommitted messages, the member that polled them and the offset of
    /// the last one.
    uncommitted: BTreeMap<u32, (SessionId, u64)>,
    next_offset: u64,
    /// For each partition that no member may poll at present, the time at which that began.
    unpollable: BTreeMap<u32, Instant>,
    generation: u64,
    views: BTreeMap<SessionId, BTreeSet<u32>>,
    context: String,
}

impl Model {
    fn new(partitions: u32, context: String) -> Self {
        Self {
            members: Members::new(0..partitions),
            now: Instant::now(),
            clients: BTreeMap::new(),
            sessions: 0,
            partitions: (0..partitions).collect(),
            polls: Vec::new(),
            uncommitted: BTreeMap::new(),
            next_offset: 0,
            unpollable: BTreeMap::new(),
            generation: 0,
            views: BTreeMap::new(),
            context,
        }
    }

    fn step(&mut self, rng: &mut fastrand::Rng) {
        let session = rng.choice(self.clients.keys().copied().collect::<Vec<_>>());
        match (rng.u32(0..100), session) {
            (0..8, _) if self.clients.len() < 7 => self.join(),
            (8..12, Some(session)) => self.leave(session),
            (12..15, _) if self.partitions.len() < 12 => self.add_partitions(rng.u32(1..4)),
            (15..18, _) => self.delete_partitions(rng.usize(1..4)),
            (18..55, Some(session)) => self.begin_poll(session, rng),
            (55..75, _) => self.end_poll(rng),
            (75..92, Some(session)) => self.commit(session, rng),
            (92..93, _) => self.purge(),
            (93..96, Some(session)) => self.synchronize(session),
            (96..100, _) => self.pass(Duration::from_secs(rng.u64(1..12))),
            _ => {}
        }
        self.check();
    }

    fn join(&mut self) {
        let session = SessionId(self.sessions);
        self.sessions += 1;
        assert!(self.members.join(session, self.now), "{}", self.context);
        self.clients.insert(session, Client::default());
    }

    fn leave(&mut self, session: SessionId) {
        assert!(self.members.leave(session, self.now), "{}", self.context);
        self.clients.remove(&session);
        self.uncommitted.retain(|_, (by, _)| *by != session);
        self.polls.iter_mut().filter(|poll| poll.session == session).for_each(OpenPoll::void);
    }

    fn add_partitions(&mut self, count: u32) {
        let first = self.partitions.len() as u32;
        self.partitions.extend(first..first + count);
        self.members.set_partitions(&self.partitions, self.now);
    }

    fn delete_partitions(&mut self, count: usize) {
        self.partitions.truncate(self.partitions.len().saturating_sub(count));
        let end = self.partitions.len() as u32;
        self.members.set_partitions(&self.partitions, self.now);
        self.uncommitted.retain(|id, _| *id < end);
        self.unpollable.retain(|id, _| *id < end);
        self.polls.iter_mut().filter(|it| it.begun.partition >= end).for_each(OpenPoll::void);
    }

    fn synchronize(&mut self, session: SessionId) {
        let (generation, partitions) = self.members.synchronize(session).expect("a member");
        self.clients.insert(session, Client { generation, partitions });
    }

    /// Polls as a client does. The client first polls a partition that it knows. If that poll is
    /// refused, the client asks the server for its current partitions and polls one of them.
    fn begin_poll(&mut self, session: SessionId, rng: &mut fastrand::Rng) {
        if self.clients[&session].partitions.is_empty() {
            self.synchronize(session);
        }
        let Some(id) = rng.choice(&self.clients[&session].partitions).copied() else { return };
        let client = &self.clients[&session];
        let current = self.members.generation();
        match self.members.begin_poll(session, Some(id)) {
            Some(begun) => self.began(session, id, begun),
            None => {
                assert!(client.generation < current, "refused {id}: {}", self.context);
                self.synchronize(session);
                let Some(id) = rng.choice(&self.clients[&session].partitions).copied() else {
                    return;
                };
                let begun = self.members.begin_poll(session, Some(id));
                let begun = begun.unwrap_or_else(|| panic!("refused {id}: {}", self.context));
                self.began(session, id, begun);
            }
        }
    }

    fn began(&mut self, session: SessionId, id: u32, begun: Begun) {
        let context = &self.context;
        assert_eq!(begun.partition, id, "{context}");
        assert!(self.members.pollable(session).any(|pollable| pollable == id), "{context}");
        let known = &self.clients[&session].partitions;
        for pollable in self.members.pollable(session) {
            assert!(
                known.contains(&pollable),
                "the client was not notified of {pollable}: {context}"
            );
        }
        let (by, _) = self.uncommitted.get(&id).copied().unwrap_or((session, 0));
        assert_eq!(by, session, "polls messages of {id} that another has not committed: {context}");
        let others = self.polls.iter().filter(|it| it.begun.partition == id && !it.is_void);
        assert!(others.into_iter().all(|it| it.session == session), "two poll {id}: {context}");
        self.polls.push(OpenPoll { session, begun, is_void: false });
    }

    fn end_poll(&mut self, rng: &mut fastrand::Rng) {
        if self.polls.is_empty() {
            return;
        }
        let poll = self.polls.swap_remove(rng.usize(0..self.polls.len()));
        let last_offset = rng.bool().then_some(self.next_offset);
        self.next_offset += 1;
        assert_eq!(self.members.is_current(poll.begun), !poll.is_void, "{}", self.context);
        self.members.end_poll(poll.begun, last_offset);
        if let Some(last) = last_offset.filter(|_| !poll.is_void) {
            self.uncommitted.insert(poll.begun.partition, (poll.session, last));
        }
    }

    fn commit(&mut self, session: SessionId, rng: &mut fastrand::Rng) {
        let Some(id) = rng.choice(&self.partitions).copied() else { return };
        let may = self.members.may_commit(session, id).is_ok();
        let Some((by, last)) = self.uncommitted.get(&id).copied() else { return };
        // A partition with uncommitted messages must have the member that polled them as its owner,
        // so only that member may commit.
        assert_eq!(may, by == session, "commit of {id} by {session:?}: {}", self.context);
        if may {
            let offset = if rng.bool() { last } else { last.saturating_sub(1) };
            self.members.committed(id, Some(offset));
            if offset == last {
                self.uncommitted.remove(&id);
            }
        }
    }

    fn purge(&mut self) {
        self.members.purge();
        self.uncommitted.clear();
        self.polls.iter_mut().for_each(OpenPoll::void);
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        let now = self.now;
        self.members.expire(now, TIMEOUT);
        let mut expired = Vec::new();
        self.unpollable.retain(|id, since| {
            let is_expired = now.duration_since(*since) >= TIMEOUT;
            if is_expired {
                expired.push(*id);
            }
            !is_expired
        });
        self.uncommitted.retain(|id, _| !expired.contains(id));
        let polls = self.polls.iter_mut().filter(|it| expired.contains(&it.begun.partition));
        polls.for_each(OpenPoll::void);
    }

    fn check(&mut self) {
        let context = &self.context;
        let owners = self.members.owners();
        let ids: Vec<u32> = owners.keys().copied().collect();
        assert_eq!(ids, self.partitions, "{context}");
        assert!(self.members.handovers().all(|id| owners.contains_key(id)), "{context}");
        let listed = self.members.list();
        let mut owned: Vec<u32> = listed.into_iter().flat_map(|member| member.partitions).collect();
        owned.sort_unstable();
        if self.clients.is_empty() {
            assert_eq!(owned, NONE, "{context}");
        } else {
            assert_eq!(owned, self.partitions, "each has one owner: {context}");
        }
        let mut counts: BTreeMap<SessionId, usize> =
            self.clients.keys().map(|session| (*session, 0)).collect();
        for (_, target) in owners.values().filter(|_| !self.clients.is_empty()) {
            let target = target.expect("an owner");
            *counts.get_mut(&target).expect("a member") += 1;
        }
        let (least, most) = (counts.values().min(), counts.values().max());
        let spread = least.zip(most).map_or(0, |(least, most)| most - least);
        assert!(spread <= 1, "balanced: {counts:?}: {context}");
        self.check_views(&owners);
    }

    fn check_views(&mut self, owners: &BTreeMap<u32, (Option<SessionId>, Option<SessionId>)>) {
        let context = &self.context;
        let view = |session: &SessionId| (*session, self.members.pollable(*session).collect());
        let views: BTreeMap<SessionId, BTreeSet<u32>> = self.clients.keys().map(view).collect();
        let generation = self.members.generation();
        assert!(generation >= self.generation, "{context}");
        for (session, view) in &views {
            if self.views.get(session).is_some_and(|before| before != view) {
                assert!(generation > self.generation, "a silent change: {context}");
            }
        }
        let mut pollable = BTreeSet::new();
        for (session, view) in &views {
            for id in view {
                assert!(pollable.insert(*id), "two may poll {id}: {context}");
                assert_eq!(owners[id].0, Some(*session), "{context}");
            }
        }
        for (id, (owner, target)) in owners {
            if pollable.contains(id) || owner.is_none() {
                self.unpollable.remove(id);
                continue;
            }
            let since = *self.unpollable.entry(*id).or_insert(self.now);
            assert!(self.now.duration_since(since) < TIMEOUT, "{id} is stuck: {context}");
            assert_ne!(owner, target, "nobody may poll {id}: {context}");
            let is_polled = self.polls.iter().any(|it| it.begun.partition == *id && !it.is_void);
            let is_busy = is_polled || self.uncommitted.contains_key(id);
            assert!(is_busy, "the handover of {id} waits for nothing: {context}");
        }
        self.generation = generation;
        self.views = views;
    }

    /// Ends all polls and commits all polled messages, which completes all handovers.
    fn quiesce(&mut self, rng: &mut fastrand::Rng) {
        while !self.polls.is_empty() {
            self.end_poll(rng);
            self.check();
        }
        while let Some((id, (_, last))) = self.uncommitted.pop_first() {
            self.members.committed(id, Some(last));
            self.check();
        }
        assert!(self.unpollable.is_empty(), "{}", self.context);
    }
}

impl OpenPoll {
    fn void(&mut self) {
        self.is_void = true;
    }
}

#[test]
fn members_never_share_partitions_or_messages_in_flight() {
    let mut seed = seed::rng();
    for round in 0..60 * seed::rounds() {
        let context = format!("TAILWATER_SEED={} round {round}", seed.value());
        let mut model = Model::new(seed.rng.u32(0..9), context.clone());
        for step in 0..600 {
            model.context = format!("{context} step {step}");
            model.step(&mut seed.rng);
            if seed.rng.u32(0..200) == 0 {
                model.quiesce(&mut seed.rng);
            }
        }
        model.quiesce(&mut seed.rng);
    }
}

fn sessions<const N: usize>() -> [SessionId; N] {
    std::array::from_fn(|number| SessionId(number as u32))
}

#[test]
fn a_handover_waits_for_the_commit() {
    let now = Instant::now();
    let [first, second] = sessions();
    let mut members = Members::new(0..2);
    members.join(first, now);
    for id in 0..2 {
        let poll = members.begin_poll(first, Some(id)).expect("its partition");
        members.end_poll(poll, Some(9));
    }
    members.join(second, now);
    assert_eq!(members.synchronize(second).expect("a member").1, NONE);
    assert_eq!(members.begin_poll(first, Some(1)), None, "it is being handed over");
    assert!(members.may_commit(first, 1).is_ok());
    members.committed(1, Some(8));
    assert_eq!(members.synchronize(second).expect("a member").1, NONE);
    members.committed(1, Some(9));
    assert_eq!(members.synchronize(second).expect("a member").1, [1]);
    assert!(members.may_commit(first, 1).is_err());
    assert!(members.begin_poll(second, Some(1)).is_some());
}

#[test]
fn a_handover_waits_for_a_poll_under_way_and_for_the_timeout() {
    let now = Instant::now();
    let [first, second] = sessions();
    let mut members = Members::new(0..2);
    members.join(first, now);
    let polls = [0, 1].map(|id| members.begin_poll(first, Some(id)).expect("its partition"));
    members.join(second, now);
    assert_eq!(members.synchronize(second).expect("a member").1, NONE);
    members.end_poll(polls[1], Some(4));
    members.expire(now + TIMEOUT - Duration::from_millis(1), TIMEOUT);
    assert_eq!(members.synchronize(second).expect("a member").1, NONE);
    members.expire(now + TIMEOUT, TIMEOUT);
    assert_eq!(members.synchronize(second).expect("a member").1, [1]);
}

#[test]
fn partitions_of_a_member_that_dies_move_at_once() {
    let now = Instant::now();
    let [first, second] = sessions();
    let mut members = Members::new(0..4);
    members.join(first, now);
    members.join(second, now);
    assert_eq!(members.synchronize(second).expect("a member").1, [2, 3]);
    let poll = members.begin_poll(first, Some(0)).expect("its partition");
    members.leave(first, now);
    members.end_poll(poll, Some(3));
    // The client's next poll is refused, so that the client learns that its partitions have
    // changed.
    assert_eq!(members.begin_poll(second, Some(2)), None);
    assert_eq!(members.synchronize(second).expect("a member").1, [0, 1, 2, 3]);
    assert!(members.begin_poll(second, Some(0)).is_some());
}

#[test]
fn a_poll_without_a_partition_takes_the_members_partitions_in_turn() {
    let now = Instant::now();
    let [first, second] = sessions();
    let mut members = Members::new(0..3);
    members.join(first, now);
    let mut next = |session| members.begin_poll(session, None).map(|poll| poll.partition);
    assert_eq!([0; 4].map(|_| next(first)), [Some(0), Some(1), Some(2), Some(0)]);
    assert_eq!(next(second), None);
}

#[test]
fn a_new_member_gets_the_lowest_free_id() {
    let now = Instant::now();
    let [first, second, third] = sessions();
    let mut members = Members::new(0..1);
    members.join(first, now);
    members.join(second, now);
    members.leave(first, now);
    members.join(third, now);
    assert_eq!(members.list().iter().map(|member| member.id).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(members.list()[1].partitions, [0], "the second member kept its number");
}

#[test]
fn messages_committed_before_are_not_in_flight_when_read_again() {
    let now = Instant::now();
    let [first, second] = sessions();
    let mut members = Members::new(0..2);
    members.join(first, now);
    for id in 0..2 {
        members.committed(id, Some(50));
        let poll = members.begin_poll(first, Some(id)).expect("its partition");
        members.end_poll(poll, Some(10));
    }
    members.join(second, now);
    assert_eq!(members.synchronize(second).expect("a member").1, [1]);
}
