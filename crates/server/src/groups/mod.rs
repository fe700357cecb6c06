//! Consumer groups: members, assignments, rebalancing.
//!
//! The id and name of a group are durable as a record in the log's catalog ([`record`]). The
//! offsets of a group are durable in the log as well. The members of a group ([`members`]) are
//! sessions, and are kept only in memory.
//!
//! # Locks
//!
//! A thread that takes several locks takes them in the order of this list. Polls and commits take
//! only lock 2, for reading, and lock 4.
//!
//! 1. `changes`: held while a group is created or deleted, including the write to the catalog.
//! 2. `topics`: the existing groups. Held only while groups are looked up or updated in memory.
//! 3. `memberships`: the groups of each session.
//! 4. `members` of a group.

mod assignment;
mod members;
mod poll;
mod record;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use iggy_binary_protocol::WireIdentifier;
use tailwater_io::sync::Mutex;
use tailwater_log::{Consumer, Log, TopicId, TopicInfo};

pub(crate) use poll::Poll;

use crate::config::Config;
use crate::session::SessionId;
use crate::status::Status;
use members::{Members, Refusal};
use record::Record;

/// All consumer groups of the server. Safe to use from any thread.
#[derive(Debug)]
pub(crate) struct Groups {
    /// Maximum number of groups of one topic.
    groups_max: usize,
    /// Maximum time that a handover waits for the old owner to commit the messages that it has
    /// polled.
    rebalancing_timeout: Duration,
    changes: Mutex<()>,
    topics: RwLock<HashMap<TopicId, Topic>>,
    memberships: Mutex<HashMap<SessionId, Memberships>>,
}

/// The groups of which a session is a member, each under its topic and its id.
type Memberships = BTreeMap<(TopicId, u32), Arc<Group>>;

/// The groups of a topic.
#[derive(Debug, Default)]
struct Topic {
    groups: BTreeMap<u32, Arc<Group>>,
    /// Ids of the groups, by their names.
    ids: HashMap<String, u32>,
    /// The id of the next group of the topic. Ids are never reused, so that a new group never finds
    /// the offsets of a deleted group.
    next: u32,
}

/// A group.
#[derive(Debug)]
struct Group {
    topic: TopicId,
    id: u32,
    name: String,
    members: Mutex<Members>,
}

/// A group as reported to clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Summary {
    /// Id of the group within its topic.
    pub(crate) id: u32,
    /// Name of the group.
    pub(crate) name: String,
    /// Number of the topic's partitions.
    pub(crate) partitions: u32,
    /// Number of members.
    pub(crate) members: u32,
}

/// A member as reported to clients.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MemberSummary {
    /// Number of the member within its group.
    pub(crate) id: u32,
    /// The partitions that the member owns, including partitions that it is handing over.
    pub(crate) partitions: Vec<u32>,
}

impl Groups {
    /// Reads all groups from the catalog's records. Completes interrupted deletions: deletes the
    /// offsets of groups that have no record.
    ///
    /// # Errors
    /// Corruption of a record; errors from the log.
    pub(crate) fn open(log: &Log, config: &Config) -> tailwater_log::Result<Self> {
        Self::with_limits(log, config.limits.groups_max, config.rebalancing_timeout)
    }

    fn with_limits(
        log: &Log,
        groups_max: usize,
        rebalancing_timeout: Duration,
    ) -> tailwater_log::Result<Self> {
        let topics = read_topics(log)?;
        forget_orphans(log, &topics)?;
        Ok(Self {
            groups_max,
            rebalancing_timeout,
            changes: Mutex::new(()),
            topics: RwLock::new(topics),
            memberships: Mutex::default(),
        })
    }

    fn topics(&self) -> RwLockReadGuard<'_, HashMap<TopicId, Topic>> {
        self.topics.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn topics_mut(&self) -> RwLockWriteGuard<'_, HashMap<TopicId, Topic>> {
        self.topics.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn group(&self, topic: TopicId, id: u32) -> Option<Arc<Group>> {
        self.topics().get(&topic)?.groups.get(&id).cloned()
    }

    fn existing(&self, topic: TopicId, id: u32) -> Result<Arc<Group>, Status> {
        self.group(topic, id).ok_or(Status::CONSUMER_GROUP_ID_NOT_FOUND)
    }

    /// Returns the id of a group that is identified by its id or name; `None` if there is no such
    /// group.
    pub(crate) fn resolve(&self, topic: TopicId, group: &WireIdentifier) -> Option<u32> {
        let topics = self.topics();
        let topic = topics.get(&topic)?;
        match group {
            WireIdentifier::Numeric(id) => topic.groups.contains_key(id).then_some(*id),
            WireIdentifier::String(name) => topic.ids.get(name.as_str()).copied(),
        }
    }

    /// Returns the number of groups.
    pub(crate) fn count(&self) -> usize {
        self.topics().values().map(|topic| topic.groups.len()).sum()
    }

    /// Returns a topic's groups, ordered by id.
    pub(crate) fn list(&self, topic: TopicId) -> Vec<Summary> {
        let topics = self.topics();
        let groups = topics.get(&topic).into_iter().flat_map(|topic| topic.groups.values());
        groups.map(|group| group.summary(&group.members.lock())).collect()
    }

    /// Returns a group with its members, which are ordered by number.
    pub(crate) fn get(&self, topic: TopicId, id: u32) -> Option<(Summary, Vec<MemberSummary>)> {
        let group = self.group(topic, id)?;
        let members = group.members.lock();
        Some((group.summary(&members), members.list()))
    }

    /// Creates a group. The group is durable when this returns.
    ///
    /// # Errors
    /// Not found, for the topic; name already exists; cannot create, if the topic has the maximum
    /// number of groups; errors from the log.
    pub(crate) fn create(&self, log: &Log, topic: TopicId, name: &str) -> Result<Summary, Status> {
        let _changes = self.changes.lock();
        let info = topic_info(log, topic).ok_or(Status::TOPIC_ID_NOT_FOUND)?;
        self.forget_deleted(log, topic);
        let id = self.next_id(topic, name)?;
        let next = id.checked_add(1).ok_or(Status::CANNOT_CREATE_CONSUMER_GROUP_INFO)?;
        let (key, next_key) = (record::key(topic, id), record::next_key(topic));
        log.set_records(&[
            (key.clone(), Some(record::value(name)?)),
            (next_key.clone(), Some(next.to_string())),
        ])?;
        if topic_info(log, topic).map(|now| now.created_us) != Some(info.created_us) {
            // The topic was deleted before the records were written. The deletion did not remove
            // the records, so they are removed here.
            log.set_records(&[(key, None), (next_key, None)])?;
            return Err(Status::TOPIC_ID_NOT_FOUND);
        }
        let group = Arc::new(Group::new(topic, id, name, &info));
        let summary = group.summary(&group.members.lock());
        let mut topics = self.topics_mut();
        let of_topic = topics.entry(topic).or_default();
        of_topic.insert(group);
        of_topic.next = next;
        Ok(summary)
    }

    /// Returns the id for the topic's next group. Fails if a group `name` cannot be created.
    fn next_id(&self, topic: TopicId, name: &str) -> Result<u32, Status> {
        let topics = self.topics();
        let Some(topic) = topics.get(&topic) else { return Ok(0) };
        if topic.ids.contains_key(name) {
            return Err(Status::CONSUMER_GROUP_NAME_ALREADY_EXISTS);
        }
        if topic.groups.len() >= self.groups_max {
            return Err(Status::CANNOT_CREATE_CONSUMER_GROUP_INFO);
        }
        Ok(topic.next)
    }

    /// Deletes a group with its offsets. The deletion is durable when this returns.
    ///
    /// # Errors
    /// Not found; errors from the log.
    pub(crate) fn delete(&self, log: &Log, topic: TopicId, id: u32) -> Result<(), Status> {
        let _changes = self.changes.lock();
        let group = self.existing(topic, id)?;
        log.set_records(&[(record::key(topic, id), None)])?;
        // A crash after the deletion of the group's record is safe: the next start deletes the
        // offsets of groups that have no record in the log.
        if let Some(of_topic) = self.topics_mut().get_mut(&topic) {
            of_topic.remove(&group);
        }
        // The members are removed before the offsets are deleted, so that no member stores an
        // offset afterwards.
        self.disband(&group);
        let partitions = topic_info(log, topic).map(|info| info.partitions).unwrap_or_default();
        for partition in partitions.into_keys() {
            // An error only means that the group has no offset in this partition, or that the
            // partition no longer exists.
            let _ = log.delete_offset(topic.partition(partition), Consumer::Group(id));
        }
        Ok(())
    }

    fn disband(&self, group: &Group) {
        let mut memberships = self.memberships.lock();
        for session in group.members.lock().disband() {
            if let Some(groups) = memberships.get_mut(&session) {
                groups.remove(&(group.topic, group.id));
                if groups.is_empty() {
                    memberships.remove(&session);
                }
            }
        }
    }

    /// Adds a session to a group as a member, unless it already is one.
    ///
    /// # Errors
    /// Not found, for the group.
    pub(crate) fn join(&self, session: SessionId, topic: TopicId, id: u32) -> Result<(), Status> {
        let group = self.existing(topic, id)?;
        let mut memberships = self.memberships.lock();
        if !group.members.lock().join(session, Instant::now()) {
            return Err(Status::CONSUMER_GROUP_ID_NOT_FOUND);
        }
        memberships.entry(session).or_default().insert((topic, id), group);
        Ok(())
    }

    /// Ends the membership of a session in a group.
    ///
    /// # Errors
    /// Not found, for the group; member not found.
    pub(crate) fn leave(&self, session: SessionId, topic: TopicId, id: u32) -> Result<(), Status> {
        let group = self.existing(topic, id)?;
        let mut memberships = self.memberships.lock();
        if !group.members.lock().leave(session, Instant::now()) {
            return Err(Status::CONSUMER_GROUP_MEMBER_NOT_FOUND);
        }
        if let Some(groups) = memberships.get_mut(&session) {
            groups.remove(&(topic, id));
            if groups.is_empty() {
                memberships.remove(&session);
            }
        }
        Ok(())
    }

    /// Ends all memberships of a session that was closed or has logged out. The caller must make
    /// sure that every earlier `join` of the session has returned.
    pub(crate) fn leave_all(&self, session: SessionId) {
        let mut memberships = self.memberships.lock();
        for group in memberships.remove(&session).into_iter().flat_map(BTreeMap::into_values) {
            group.members.lock().leave(session, Instant::now());
        }
    }

    /// Returns whether a session is a member of any group.
    pub(crate) fn is_member_anywhere(&self, session: SessionId) -> bool {
        self.memberships.lock().contains_key(&session)
    }

    /// Returns the groups of which a session is a member, each as its topic and id.
    pub(crate) fn of_session(&self, session: SessionId) -> Vec<(TopicId, u32)> {
        let memberships = self.memberships.lock();
        memberships.get(&session).into_iter().flat_map(|groups| groups.keys().copied()).collect()
    }

    /// Returns the generation of the group's assignment, and the partitions that a session may
    /// poll. Returns `None` if the session is not a member.
    pub(crate) fn synchronize(
        &self,
        session: SessionId,
        topic: TopicId,
        id: u32,
    ) -> Option<(u64, Vec<u32>)> {
        let group = self.group(topic, id)?;
        let mut members = group.members.lock();
        members.synchronize(session)
    }

    /// Begins a poll of a partition, or of the member's next partition if `partition` is `None`.
    /// Returns `None` if the poll is refused and the client must request its partitions again. The
    /// reason is that the session is not a member, that it may not poll the partition, or that its
    /// partitions have changed.
    ///
    /// The partition may be deleted between this call and the read.
    pub(crate) fn begin_poll(
        &self,
        session: SessionId,
        topic: TopicId,
        id: u32,
        partition: Option<u32>,
    ) -> Option<Poll> {
        let group = self.group(topic, id)?;
        let begun = group.members.lock().begin_poll(session, partition)?;
        Some(Poll::new(group, begun))
    }

    /// Calls `change`, which stores or deletes the group's offset for a partition. `offset` is the
    /// offset that `change` stores, or `None` if it deletes the stored offset. The partition keeps
    /// its owner until `change` has returned. `change` is called under a lock, and must therefore
    /// not wait for the disk.
    ///
    /// # Errors
    /// Not found, for the group; member not found; partition not owned; errors from `change`.
    pub(crate) fn change_offset<T>(
        &self,
        session: SessionId,
        topic: TopicId,
        id: u32,
        partition: u32,
        offset: Option<u64>,
        change: impl FnOnce() -> Result<T, Status>,
    ) -> Result<T, Status> {
        let group = self.existing(topic, id)?;
        let mut members = group.members.lock();
        members.may_commit(session, partition).map_err(|refusal| match refusal {
            Refusal::NoMember => Status::CONSUMER_GROUP_MEMBER_NOT_FOUND,
            Refusal::NotOwner => Status::CONSUMER_GROUP_PARTITION_NOT_OWNED,
        })?;
        let changed = change()?;
        members.committed(partition, offset);
        Ok(changed)
    }

    /// Updates the groups of a topic after partitions of the topic were created or deleted in the
    /// log.
    pub(crate) fn partitions_changed(&self, log: &Log, topic: TopicId) {
        // The partitions are read under the lock. Of two concurrent calls, the later one therefore
        // sees the changes of both callers.
        let _changes = self.changes.lock();
        let Some(info) = topic_info(log, topic) else { return };
        let partitions: Vec<u32> = info.partitions.into_keys().collect();
        for group in self.groups_of(topic) {
            group.members.lock().set_partitions(&partitions, Instant::now());
        }
    }

    /// Forgets the polled and committed offsets that the server keeps in memory for a topic's
    /// groups. Called after all messages of the topic were removed.
    pub(crate) fn topic_purged(&self, topic: TopicId) {
        for group in self.groups_of(topic) {
            group.members.lock().purge();
        }
    }

    fn groups_of(&self, topic: TopicId) -> Vec<Arc<Group>> {
        let topics = self.topics();
        topics.get(&topic).into_iter().flat_map(|topic| topic.groups.values().cloned()).collect()
    }

    /// Removes the groups of a topic from memory, after the topic was deleted in the log.
    pub(crate) fn topic_deleted(&self, log: &Log, topic: TopicId) {
        let _changes = self.changes.lock();
        self.forget_deleted(log, topic);
    }

    /// Removes the groups of a stream from memory, after the stream was deleted in the log.
    pub(crate) fn stream_deleted(&self, log: &Log, stream: u32) {
        let _changes = self.changes.lock();
        let topics: Vec<TopicId> = self.topics().keys().copied().collect();
        for topic in topics.into_iter().filter(|topic| topic.stream == stream) {
            self.forget_deleted(log, topic);
        }
    }

    /// Removes a topic's groups from memory if the log no longer contains their records. When the
    /// log deletes a topic, it also removes the records of the topic's groups. Groups with a record
    /// are kept, because a new topic with the same id may already have groups.
    fn forget_deleted(&self, log: &Log, topic: TopicId) {
        let records = log.records(&record::prefix(topic));
        let is_deleted = |group: &Arc<Group>| !records.contains_key(&record::key(topic, group.id));
        let deleted: Vec<_> = self.groups_of(topic).into_iter().filter(is_deleted).collect();
        let has_next = !log.records(&record::next_key(topic)).is_empty();
        {
            let mut topics = self.topics_mut();
            if !has_next {
                topics.remove(&topic);
            }
            if let Some(of_topic) = topics.get_mut(&topic) {
                deleted.iter().for_each(|group| of_topic.remove(group));
            }
        }
        deleted.iter().for_each(|group| self.disband(group));
    }

    /// Completes handovers of partitions if the old owner's commit takes too long. Called once a
    /// second.
    pub(crate) fn tick(&self, now: Instant) {
        let topics = self.topics();
        for group in topics.values().flat_map(|topic| topic.groups.values()) {
            group.members.lock().expire(now, self.rebalancing_timeout);
        }
    }
}

impl Topic {
    fn insert(&mut self, group: Arc<Group>) {
        self.next = self.next.max(group.id.saturating_add(1));
        self.ids.insert(group.name.clone(), group.id);
        self.groups.insert(group.id, group);
    }

    fn remove(&mut self, group: &Group) {
        self.groups.remove(&group.id);
        self.ids.remove(&group.name);
    }
}

impl Group {
    fn new(topic: TopicId, id: u32, name: &str, info: &TopicInfo) -> Self {
        let members = Mutex::new(Members::new(info.partitions.keys().copied()));
        Self { topic, id, name: name.to_owned(), members }
    }

    fn summary(&self, members: &Members) -> Summary {
        Summary {
            id: self.id,
            name: self.name.clone(),
            partitions: members.partitions() as u32,
            members: members.len() as u32,
        }
    }
}

fn topic_info(log: &Log, id: TopicId) -> Option<TopicInfo> {
    log.catalog().topic(id).cloned()
}

/// Reads the groups from the log's records.
fn read_topics(log: &Log) -> tailwater_log::Result<HashMap<TopicId, Topic>> {
    let catalog = log.catalog();
    let mut topics: HashMap<TopicId, Topic> = HashMap::new();
    let mut orphans = Vec::new();
    for (key, value) in log.records("stream/") {
        let Some(record) = record::decode(&key, &value)? else { continue };
        let (Record::Group { topic, .. } | Record::Next { topic, .. }) = record;
        let Some(info) = catalog.topic(topic) else {
            // The topic of this record no longer exists. The topic was deleted while a group was
            // being created in it, and the server died before it removed the record.
            orphans.push((key, None));
            continue;
        };
        let of_topic = topics.entry(topic).or_default();
        match record {
            Record::Group { id, name, .. } => {
                of_topic.insert(Arc::new(Group::new(topic, id, &name, info)));
            }
            Record::Next { id, .. } => of_topic.next = of_topic.next.max(id),
        }
    }
    if !orphans.is_empty() {
        log.set_records(&orphans)?;
    }
    Ok(topics)
}

/// Deletes the stored offsets of groups that no longer exist.
fn forget_orphans(log: &Log, topics: &HashMap<TopicId, Topic>) -> tailwater_log::Result<()> {
    for partition in log.partitions() {
        let partition = partition.id();
        let groups = topics.get(&partition.topic()).map(|topic| &topic.groups);
        for (consumer, _) in log.offsets(partition)? {
            if let Consumer::Group(id) = consumer
                && groups.is_none_or(|groups| !groups.contains_key(&id))
            {
                // The ticket is dropped, because the deletion may be lost: after a crash, the next
                // start deletes the offset again.
                drop(log.delete_offset(partition, consumer)?);
            }
        }
    }
    Ok(())
}
