//! Tests of groups together with the log: their durability, and their removal together with their
//! topic.

use std::path::Path;
use std::time::{Duration, Instant};

use iggy_binary_protocol::WireIdentifier;
use tailwater_format::message::batch::Builder;
use tailwater_log::{Consumer, Log, LogOptions, TopicId, TopicOptions};

use crate::groups::{Groups, MemberSummary};
use crate::session::SessionId;
use crate::status::Status;

const TIMEOUT: Duration = Duration::from_secs(30);
const GROUPS_MAX: usize = 3;
/// An empty list of partitions.
const NONE: [u32; 0] = [];
const MEMBER: SessionId = SessionId(1);
const OTHER: SessionId = SessionId(2);

fn open(directory: &Path) -> (Log, Groups) {
    let log = Log::open(directory, &LogOptions::default()).expect("open the log");
    let groups = Groups::with_limits(&log, GROUPS_MAX, TIMEOUT).expect("open the groups");
    (log, groups)
}

/// Creates a topic with three partitions, each with four messages.
fn topic(log: &Log, name: &str) -> TopicId {
    let stream = log.catalog().stream_id("s");
    let stream = stream.unwrap_or_else(|| log.create_stream(None, "s").expect("create a stream"));
    let topic = log.create_topic(stream, None, name, &TopicOptions::default(), 3);
    let topic = topic.expect("create a topic");
    for id in 0..3 {
        let mut batch = Builder::new(0);
        for message in 0..4 {
            batch.push(message + 1, 0, b"payload", b"").expect("push");
        }
        let partition = log.partition(topic.partition(id)).expect("a partition");
        let appended = partition.append(&batch.finish()).expect("append");
        appended.ticket.wait().expect("acknowledged");
    }
    topic
}

/// Commits an offset for a partition in the same way as the command that stores offsets.
fn commit(
    log: &Log,
    groups: &Groups,
    session: SessionId,
    topic: TopicId,
    id: u32,
    partition: u32,
    offset: u64,
) -> Result<(), Status> {
    let ticket = groups.change_offset(session, topic, id, partition, Some(offset), || {
        let consumer = Consumer::Group(id);
        Ok(log.store_offset(topic.partition(partition), consumer, offset)?)
    });
    ticket?.wait().map_err(Status::from)
}

fn named(name: &str) -> WireIdentifier {
    WireIdentifier::named(name).expect("a name")
}

#[test]
fn groups_survive_a_restart_and_ids_are_not_used_twice() {
    let directory = tempfile::tempdir().expect("a directory");
    let (log, groups) = open(directory.path());
    let topic = topic(&log, "t");
    let ids = ["a", "b"].map(|name| groups.create(&log, topic, name).expect("create").id);
    assert_eq!(ids, [0, 1]);
    groups.delete(&log, topic, 1).expect("delete");
    groups.join(MEMBER, topic, 0).expect("join");
    drop(groups);
    log.close().expect("close");

    let (log, groups) = open(directory.path());
    let (summary, members) = groups.get(topic, 0).expect("the group");
    assert_eq!((summary.name.as_str(), summary.partitions, summary.members), ("a", 3, 0));
    assert_eq!(members, []);
    assert_eq!(groups.resolve(topic, &named("a")), Some(0));
    assert_eq!(groups.resolve(topic, &named("b")), None);
    assert_eq!(groups.resolve(topic, &WireIdentifier::numeric(1)), None);
    assert_eq!(groups.create(&log, topic, "b").expect("create").id, 2);
    assert_eq!(groups.count(), 2);
}

#[test]
fn names_are_unique_in_a_topic_and_groups_are_limited() {
    let directory = tempfile::tempdir().expect("a directory");
    let (log, groups) = open(directory.path());
    let [first, second] = ["t", "u"].map(|name| topic(&log, name));
    groups.create(&log, first, "a").expect("create");
    groups.create(&log, second, "a").expect("create in another topic");
    let again = groups.create(&log, first, "a");
    assert_eq!(again, Err(Status::CONSUMER_GROUP_NAME_ALREADY_EXISTS));
    for name in ["b", "c"] {
        groups.create(&log, first, name).expect("create");
    }
    let one_more = groups.create(&log, first, "d");
    assert_eq!(one_more, Err(Status::CANNOT_CREATE_CONSUMER_GROUP_INFO));
    groups.delete(&log, first, 0).expect("delete");
    assert_eq!(groups.create(&log, first, "d").expect("create").id, 3);
    let missing = TopicId { topic: 99, ..first };
    assert_eq!(groups.create(&log, missing, "a"), Err(Status::TOPIC_ID_NOT_FOUND));
    assert_eq!(groups.delete(&log, first, 99), Err(Status::CONSUMER_GROUP_ID_NOT_FOUND));
}

#[test]
fn memberships_end_with_the_session_the_group_and_the_topic() {
    let directory = tempfile::tempdir().expect("a directory");
    let (log, groups) = open(directory.path());
    let topic = topic(&log, "t");
    for name in ["a", "b"] {
        let id = groups.create(&log, topic, name).expect("create").id;
        groups.join(MEMBER, topic, id).expect("join");
        groups.join(OTHER, topic, id).expect("join");
        groups.join(OTHER, topic, id).expect("join again");
    }
    assert_eq!(groups.of_session(MEMBER), [(topic, 0), (topic, 1)]);
    groups.delete(&log, topic, 0).expect("delete");
    assert_eq!(groups.of_session(MEMBER), [(topic, 1)]);
    assert_eq!(groups.join(MEMBER, topic, 0), Err(Status::CONSUMER_GROUP_ID_NOT_FOUND));

    groups.leave_all(OTHER);
    assert!(!groups.is_member_anywhere(OTHER));
    let member = MemberSummary { id: 0, partitions: vec![0, 1, 2] };
    assert_eq!(groups.get(topic, 1).expect("the group").1, [member]);
    assert_eq!(groups.leave(OTHER, topic, 1), Err(Status::CONSUMER_GROUP_MEMBER_NOT_FOUND));

    log.delete_topic(topic).expect("delete the topic");
    groups.topic_deleted(&log, topic);
    assert!(!groups.is_member_anywhere(MEMBER));
    assert_eq!(groups.count(), 0);
    assert_eq!(groups.synchronize(MEMBER, topic, 1), None);
}

#[test]
fn a_topic_with_the_id_of_a_deleted_one_has_no_groups() {
    let directory = tempfile::tempdir().expect("a directory");
    let (log, groups) = open(directory.path());
    let old = topic(&log, "t");
    groups.create(&log, old, "a").expect("create");
    groups.create(&log, old, "b").expect("create");
    groups.join(MEMBER, old, 0).expect("join");
    log.delete_topic(old).expect("delete the topic");
    let new = topic(&log, "u");
    assert_eq!(new, old, "ids of topics are used again");
    // The command that deleted the first topic calls `topic_deleted` only now, after a topic with
    // the same id was created.
    assert_eq!(groups.create(&log, new, "a").expect("create").id, 0);
    groups.topic_deleted(&log, old);
    assert_eq!(groups.list(new).len(), 1);
    assert!(!groups.is_member_anywhere(MEMBER));

    log.delete_stream(new.stream).expect("delete the stream");
    groups.stream_deleted(&log, new.stream);
    assert_eq!(groups.count(), 0);
    assert!(log.records("stream/").is_empty());
}

#[test]
fn a_group_has_the_partitions_of_its_topic() {
    let directory = tempfile::tempdir().expect("a directory");
    let (log, groups) = open(directory.path());
    let topic = topic(&log, "t");
    let id = groups.create(&log, topic, "a").expect("create").id;
    groups.join(MEMBER, topic, id).expect("join");
    let before = groups.synchronize(MEMBER, topic, id).expect("a member");
    log.create_partitions(topic, 2).expect("create partitions");
    groups.partitions_changed(&log, topic);
    let (generation, partitions) = groups.synchronize(MEMBER, topic, id).expect("a member");
    assert!(generation > before.0);
    assert_eq!(partitions, [0, 1, 2, 3, 4]);
    log.delete_partitions(topic, 4).expect("delete partitions");
    groups.partitions_changed(&log, topic);
    assert_eq!(groups.synchronize(MEMBER, topic, id).expect("a member").1, [0]);
    assert!(groups.begin_poll(MEMBER, topic, id, Some(3)).is_none());
}

#[test]
fn only_the_owner_commits_and_a_deleted_group_has_no_offsets() {
    let directory = tempfile::tempdir().expect("a directory");
    let (log, groups) = open(directory.path());
    let topic = topic(&log, "t");
    let id = groups.create(&log, topic, "a").expect("create").id;
    groups.join(MEMBER, topic, id).expect("join");
    let not_a_member = commit(&log, &groups, OTHER, topic, id, 0, 1);
    assert_eq!(not_a_member, Err(Status::CONSUMER_GROUP_MEMBER_NOT_FOUND));
    groups.join(OTHER, topic, id).expect("join");
    let not_the_owner = commit(&log, &groups, OTHER, topic, id, 0, 1);
    assert_eq!(not_the_owner, Err(Status::CONSUMER_GROUP_PARTITION_NOT_OWNED));
    commit(&log, &groups, MEMBER, topic, id, 0, 1).expect("commit");
    let stored = || log.offset(topic.partition(0), Consumer::Group(id)).expect("a partition");
    assert_eq!(stored(), Some(1));

    let deleted = groups.change_offset(MEMBER, topic, id, 0, None, || {
        let consumer = Consumer::Group(id);
        Ok(log.delete_offset(topic.partition(0), consumer)?)
    });
    deleted.expect("delete the offset").wait().expect("deleted");
    assert_eq!(stored(), None);

    commit(&log, &groups, MEMBER, topic, id, 0, 1).expect("commit");
    groups.delete(&log, topic, id).expect("delete");
    assert_eq!(stored(), None);
    let gone = commit(&log, &groups, MEMBER, topic, id, 0, 2);
    assert_eq!(gone, Err(Status::CONSUMER_GROUP_ID_NOT_FOUND));
    assert_eq!(stored(), None);
}

#[test]
fn a_deletion_that_was_cut_short_is_completed_by_the_next_start() {
    let directory = tempfile::tempdir().expect("a directory");
    let (log, groups) = open(directory.path());
    let topic = topic(&log, "t");
    let ids = ["a", "b"].map(|name| groups.create(&log, topic, name).expect("create").id);
    for id in ids {
        groups.join(MEMBER, topic, id).expect("join");
        commit(&log, &groups, MEMBER, topic, id, 1, 2).expect("commit");
    }
    // A deletion first removes the group's record, and then the group's offsets. This is the state
    // after a crash in between.
    log.set_records(&[(format!("stream/{}/topic/{}/group/0", topic.stream, topic.topic), None)])
        .expect("set records");
    drop(groups);
    log.close().expect("close");

    let (log, groups) = open(directory.path());
    assert_eq!(groups.count(), 1);
    let offsets = log.offsets(topic.partition(1)).expect("a partition");
    assert_eq!(offsets, [(Consumer::Group(1), 2)]);
}

#[test]
fn group_records_of_a_missing_topic_are_removed() {
    let directory = tempfile::tempdir().expect("a directory");
    let (log, groups) = open(directory.path());
    drop(groups);
    let record = |value: &str| Some(value.to_owned());
    log.set_records(&[
        ("stream/7/topic/0/group/0".to_owned(), record(r#"{"name":"a"}"#)),
        ("stream/7/topic/0/next_group".to_owned(), record("1")),
        ("stream/7/something".to_owned(), record("else")),
    ])
    .expect("set records");
    let groups = Groups::with_limits(&log, GROUPS_MAX, TIMEOUT).expect("open the groups");
    assert_eq!(groups.count(), 0);
    assert_eq!(log.records("stream/").into_keys().collect::<Vec<_>>(), ["stream/7/something"]);
    log.set_records(&[("stream/7/topic/0/group/0".to_owned(), record("no JSON"))])
        .expect("set records");
    let error = Groups::with_limits(&log, GROUPS_MAX, TIMEOUT).expect_err("a corrupt record");
    assert!(error.to_string().contains("stream/7/topic/0/group/0"), "{error}");
}

#[test]
fn a_poll_protects_its_messages_until_they_are_committed() {
    let directory = tempfile::tempdir().expect("a directory");
    let (log, groups) = open(directory.path());
    let topic = topic(&log, "t");
    log.delete_partitions(topic, 1).expect("delete a partition");
    let id = groups.create(&log, topic, "a").expect("create").id;
    groups.join(MEMBER, topic, id).expect("join");
    let begin = |partition| groups.begin_poll(MEMBER, topic, id, Some(partition)).expect("a poll");
    let of_other = || groups.synchronize(OTHER, topic, id).expect("a member").1;

    begin(0).polled(3);
    let poll = begin(1);
    groups.join(OTHER, topic, id).expect("join");
    assert_eq!(of_other(), NONE, "a poll is under way");
    drop(poll);
    assert_eq!(of_other(), [1], "it returned nothing");

    groups.leave(OTHER, topic, id).expect("leave");
    let poll = begin(1);
    groups.join(OTHER, topic, id).expect("join");
    let store = || {
        let consumer = Consumer::Group(id);
        Ok(log.store_offset(topic.partition(1), consumer, 3)?)
    };
    drop(poll.committed(3, store).expect("commit"));
    assert_eq!(of_other(), [1], "its messages are committed");
    assert_eq!(log.offset(topic.partition(1), Consumer::Group(id)).expect("stored"), Some(3));

    groups.leave(OTHER, topic, id).expect("leave");
    let poll = begin(1);
    groups.join(OTHER, topic, id).expect("join");
    groups.tick(Instant::now() + TIMEOUT);
    assert_eq!(of_other(), [1], "it took too long");
    let late = poll.committed(3, || Ok(()));
    assert_eq!(late, Err(Status::CONSUMER_GROUP_PARTITION_NOT_OWNED));

    groups.leave(OTHER, topic, id).expect("leave");
    begin(1).polled(5);
    groups.join(OTHER, topic, id).expect("join");
    assert_eq!(of_other(), NONE, "its messages are not committed");
    groups.topic_purged(topic);
    assert_eq!(of_other(), [1], "its messages were removed");
}

#[test]
fn sessions_and_groups_come_and_go_concurrently() {
    let directory = tempfile::tempdir().expect("a directory");
    let (log, groups) = open(directory.path());
    let topic = topic(&log, "t");
    let mut seed = tailwater_testkit::seed::rng();
    eprintln!("TAILWATER_SEED={}", seed.value());
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let mut rng = seed.rng.fork();
            let (log, groups) = (&log, &groups);
            scope.spawn(move || {
                for round in 0..25 {
                    let session = SessionId(worker * 1000 + round);
                    work(log, groups, topic, session, &mut rng);
                }
            });
        }
    });
    assert!(groups.memberships.lock().is_empty());
    for group in groups.list(topic) {
        assert_eq!(group.members, 0);
    }
    for partition in log.partitions() {
        for (consumer, _) in log.offsets(partition.id()).expect("a partition") {
            let Consumer::Group(id) = consumer else { panic!("only groups stored offsets") };
            assert!(groups.get(topic, id).is_some(), "offsets of the deleted group {id}");
        }
    }
}

/// Executes random group commands of one session.
fn work(log: &Log, groups: &Groups, topic: TopicId, session: SessionId, rng: &mut fastrand::Rng) {
    for _ in 0..20 {
        let group = rng.choice(groups.list(topic)).map(|group| group.id);
        // The outcome is ignored, because it depends on the other threads.
        let _is_done = match (rng.u32(0..20), group) {
            (0, _) => groups.create(log, topic, &format!("group {}", rng.u32(0..4))).is_ok(),
            (1, Some(group)) => groups.delete(log, topic, group).is_ok(),
            (2..6, Some(group)) => groups.join(session, topic, group).is_ok(),
            (6, Some(group)) => groups.leave(session, topic, group).is_ok(),
            (_, Some(group)) => poll_and_commit(log, groups, topic, session, group, rng),
            _ => false,
        };
        groups.tick(Instant::now());
    }
    groups.leave_all(session);
}

fn poll_and_commit(
    log: &Log,
    groups: &Groups,
    topic: TopicId,
    session: SessionId,
    group: u32,
    rng: &mut fastrand::Rng,
) -> bool {
    let assignment = groups.synchronize(session, topic, group);
    let partition = rng.choice(assignment.map_or(Vec::new(), |(_, partitions)| partitions));
    let Some(poll) = groups.begin_poll(session, topic, group, partition) else { return false };
    let partition = poll.partition();
    poll.polled(3);
    commit(log, groups, session, topic, group, partition, 3).is_ok()
}
