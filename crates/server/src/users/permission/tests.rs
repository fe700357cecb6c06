//! Tests every action with every permission.

use fastrand::Rng;
use iggy_binary_protocol::primitives::permissions::WirePermissions;
use iggy_binary_protocol::{WireDecode, WireEncode};
use tailwater_log::TopicId;
use tailwater_testkit::seed;

use super::{Action, GlobalFlags, Permissions, StreamFlags, StreamPermissions, TopicFlags};

const STREAM: u32 = 1;
const TOPIC: TopicId = TopicId { stream: STREAM, topic: 2 };

/// Some actions, and the permissions that allow them. For each level (global, stream, topic), any
/// one of the listed permissions suffices.
struct Row {
    actions: &'static [Action],
    global: &'static [&'static str],
    stream: &'static [&'static str],
    topic: &'static [&'static str],
}

const READS_TOPICS: &[&str] = &["manage_streams", "read_streams", "manage_topics", "read_topics"];
const READS_TOPICS_OF_STREAM: &[&str] =
    &["manage_stream", "read_stream", "manage_topics", "read_topics"];

/// Apache Iggy's rules (`core/metadata/src/permissioner/permissioner_rules`).
const RULES: &[Row] = &[
    Row {
        actions: &[Action::GetStats, Action::GetClients, Action::GetClient, Action::GetSnapshot],
        global: &["manage_servers", "read_servers"],
        stream: &[],
        topic: &[],
    },
    Row {
        actions: &[Action::GetUser, Action::GetUsers],
        global: &["manage_users", "read_users"],
        stream: &[],
        topic: &[],
    },
    Row {
        actions: &[
            Action::CreateUser,
            Action::DeleteUser,
            Action::UpdateUser,
            Action::UpdatePermissions,
            Action::ChangePassword,
        ],
        global: &["manage_users"],
        stream: &[],
        topic: &[],
    },
    Row {
        actions: &[Action::GetStreams],
        global: &["manage_streams", "read_streams"],
        stream: &[],
        topic: &[],
    },
    Row { actions: &[Action::CreateStream], global: &["manage_streams"], stream: &[], topic: &[] },
    Row {
        actions: &[Action::GetStream(STREAM)],
        global: &["manage_streams", "read_streams"],
        stream: &["manage_stream", "read_stream"],
        topic: &[],
    },
    Row {
        actions: &[
            Action::UpdateStream(STREAM),
            Action::DeleteStream(STREAM),
            Action::PurgeStream(STREAM),
        ],
        global: &["manage_streams"],
        stream: &["manage_stream"],
        topic: &[],
    },
    Row {
        actions: &[Action::GetTopics(STREAM)],
        global: READS_TOPICS,
        stream: READS_TOPICS_OF_STREAM,
        topic: &[],
    },
    Row {
        actions: &[Action::CreateTopic(STREAM)],
        global: &["manage_streams", "manage_topics"],
        stream: &["manage_stream", "manage_topics"],
        topic: &[],
    },
    Row {
        actions: &[
            Action::GetTopic(TOPIC),
            Action::GetGroup(TOPIC),
            Action::GetGroups(TOPIC),
            Action::CreateGroup(TOPIC),
            Action::DeleteGroup(TOPIC),
            Action::JoinGroup(TOPIC),
            Action::LeaveGroup(TOPIC),
        ],
        global: READS_TOPICS,
        stream: READS_TOPICS_OF_STREAM,
        topic: &["manage_topic", "read_topic"],
    },
    Row {
        actions: &[
            Action::UpdateTopic(TOPIC),
            Action::DeleteTopic(TOPIC),
            Action::PurgeTopic(TOPIC),
            Action::CreatePartitions(TOPIC),
            Action::DeletePartitions(TOPIC),
            Action::DeleteSegments(TOPIC),
        ],
        global: &["manage_streams", "manage_topics"],
        stream: &["manage_stream", "manage_topics"],
        topic: &["manage_topic"],
    },
    Row {
        actions: &[
            Action::PollMessages(TOPIC),
            Action::GetOffset(TOPIC),
            Action::StoreOffset(TOPIC),
            Action::DeleteOffset(TOPIC),
        ],
        global: &[
            "manage_streams",
            "read_streams",
            "manage_topics",
            "read_topics",
            "poll_messages",
        ],
        stream: &["manage_stream", "read_stream", "manage_topics", "read_topics", "poll_messages"],
        topic: &["manage_topic", "read_topic", "poll_messages"],
    },
    Row {
        actions: &[Action::AppendMessages(TOPIC), Action::FlushMessages(TOPIC)],
        global: &["manage_streams", "manage_topics", "send_messages"],
        stream: &["manage_stream", "manage_topics", "send_messages"],
        topic: &["manage_topic", "send_messages"],
    },
];

fn on_stream(stream: u32, flags: StreamFlags) -> Permissions {
    let mut permissions = Permissions::default();
    permissions.streams.insert(stream, StreamPermissions { flags, ..Default::default() });
    permissions
}

fn on_topic(topic: TopicId, flags: TopicFlags) -> Permissions {
    let mut permissions = Permissions::default();
    let stream = permissions.streams.entry(topic.stream).or_default();
    stream.topics.insert(topic.topic, flags);
    permissions
}

/// Returns whether, according to `row`, a user with these permissions may execute the row's
/// actions.
fn is_granted(row: &Row, permissions: &Permissions) -> bool {
    let global = GlobalFlags::EACH.iter().filter(|(_, flag)| permissions.global.has(*flag));
    let own = permissions.streams.get(&STREAM).cloned().unwrap_or_default();
    let stream = StreamFlags::EACH.iter().filter(|(_, flag)| own.flags.has(*flag));
    let own = own.topics.get(&TOPIC.topic).copied().unwrap_or_default();
    let topic = TopicFlags::EACH.iter().filter(|(_, flag)| own.has(*flag));
    global.map(|(name, _)| name).any(|name| row.global.contains(name))
        || stream.map(|(name, _)| name).any(|name| row.stream.contains(name))
        || topic.map(|(name, _)| name).any(|name| row.topic.contains(name))
}

#[test]
fn each_permission_alone_permits_what_its_rule_lists() {
    let other_stream = TopicId { stream: 9, ..TOPIC };
    let other_topic = TopicId { topic: 9, ..TOPIC };
    for row in RULES {
        for action in row.actions {
            assert!(!Permissions::default().allow(*action), "{action:?} without any");
            assert!(Permissions::root().allow(*action), "{action:?} by root");
            for (name, flag) in GlobalFlags::EACH {
                let permissions = Permissions { global: *flag, ..Default::default() };
                let is_enough = row.global.contains(name);
                assert_eq!(permissions.allow(*action), is_enough, "{action:?}, global {name}");
            }
            for (name, flag) in StreamFlags::EACH {
                let is_enough = row.stream.contains(name);
                let is_allowed = on_stream(STREAM, *flag).allow(*action);
                assert_eq!(is_allowed, is_enough, "{action:?}, stream {name}");
                assert!(!on_stream(9, *flag).allow(*action), "{action:?}, other stream {name}");
            }
            for (name, flag) in TopicFlags::EACH {
                let is_enough = row.topic.contains(name);
                let is_allowed = on_topic(TOPIC, *flag).allow(*action);
                assert_eq!(is_allowed, is_enough, "{action:?}, topic {name}");
                for other in [other_stream, other_topic] {
                    assert!(!on_topic(other, *flag).allow(*action), "{action:?}, {other:?} {name}");
                }
            }
        }
    }
}

#[test]
fn permissions_combine_without_implying_others() {
    let mut seed = seed::rng();
    for round in 0..2000 * seed::rounds() {
        let permissions = random(&mut seed.rng);
        for row in RULES {
            for action in row.actions {
                let expected = is_granted(row, &permissions);
                let found = permissions.allow(*action);
                let seed = seed.value();
                assert_eq!(
                    found, expected,
                    "seed {seed}, round {round}: {action:?} {permissions:?}"
                );
            }
        }
    }
}

#[test]
fn permissions_round_trip_on_the_wire_and_in_records() {
    let mut seed = seed::rng();
    for round in 0..500 * seed::rounds() {
        let permissions = random(&mut seed.rng);
        let bytes = WirePermissions::from(&permissions).to_bytes();
        let wire = WirePermissions::decode_from(&bytes).unwrap();
        assert_eq!(Permissions::from(&wire), permissions, "seed {}, {round}", seed.value());
        let json = serde_json::to_string(&permissions).unwrap();
        let record: Permissions = serde_json::from_str(&json).unwrap();
        assert_eq!(record, permissions, "seed {}, {round}: {json}", seed.value());
    }
}

/// Returns up to three random permissions. With more of them, one permission would often hide the
/// effect of another.
fn random(rng: &mut Rng) -> Permissions {
    let mut permissions = Permissions::default();
    for _ in 0..rng.usize(0..4) {
        let stream = permissions.streams.entry(rng.u32(0..3));
        match rng.u8(0..3) {
            0 => permissions.global.add(pick(rng, GlobalFlags::EACH)),
            1 => stream.or_default().flags.add(pick(rng, StreamFlags::EACH)),
            _ => {
                let topic = stream.or_default().topics.entry(rng.u32(0..4)).or_default();
                topic.add(pick(rng, TopicFlags::EACH));
            }
        }
    }
    permissions
}

fn pick<T: Copy>(rng: &mut Rng, flags: &[(&str, T)]) -> T {
    flags[rng.usize(0..flags.len())].1
}
