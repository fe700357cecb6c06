//! Tests that correspond to Iggy's own integration tests over TCP, where no other test of this
//! folder covers them.

use std::path::Path;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use iggy::prelude::*;
use tokio::time::{sleep, timeout};

use crate::common::{Scene, assert_refused, create_topic, id, message, numbered, poll, send};

/// Polls a partition of a topic as a single consumer.
async fn try_poll(
    client: &IggyClient,
    stream: &str,
    topic: &str,
    partition: u32,
) -> Result<PolledMessages, IggyError> {
    let (consumer, first) = (Consumer::new(id("reader")), PollingStrategy::first());
    client
        .poll_messages(&id(stream), &id(topic), Some(partition), &consumer, &first, 1, false)
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_name_the_object_that_does_not_exist() {
    let scene = Scene::new().await;
    let client = scene.client().await;
    create_topic(&client, 1).await;
    let none = Identifier::default;
    let no_stream = IggyError::StreamIdNotFound(none());
    let no_topic = IggyError::TopicIdNotFound(none(), none());
    let no_partition = IggyError::PartitionNotFound(0, none(), none());
    let no_group = IggyError::ConsumerGroupIdNotFound(none(), none());
    assert_refused(try_poll(&client, "x", "t", 0).await, &no_stream);
    assert_refused(try_poll(&client, "s", "x", 0).await, &no_topic);
    assert_refused(try_poll(&client, "s", "t", 7).await, &no_partition);
    assert_eq!(try_poll(&client, "s", "t", 0).await.expect("a poll").count, 0);
    let (s, t, g, x) = (id("s"), id("t"), id("g"), id("x"));
    let consumer = Consumer::new(id("reader"));
    let offset = client.get_consumer_offset(&consumer, &s, &t, Some(7)).await;
    assert_refused(offset, &no_partition);

    assert_refused(client.join_consumer_group(&x, &t, &g).await, &no_stream);
    assert_refused(client.join_consumer_group(&s, &x, &g).await, &no_topic);
    assert_refused(client.join_consumer_group(&s, &t, &g).await, &no_group);
    client.create_consumer_group(&s, &t, "g").await.expect("a group");
    let no_member = IggyError::ConsumerGroupMemberNotFound(0, none(), none());
    assert_refused(client.leave_consumer_group(&s, &t, &g).await, &no_member);
    client.join_consumer_group(&s, &t, &g).await.expect("to join");
    client.leave_consumer_group(&s, &t, &g).await.expect("to leave");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poll_from_a_time_includes_the_message_of_that_time() {
    let scene = Scene::new().await;
    let client = scene.client().await;
    create_topic(&client, 1).await;
    for text in ["first", "second"] {
        send(&client, 0, &[text.to_owned()]).await;
        sleep(Duration::from_millis(5)).await;
    }
    let (consumer, first) = (Consumer::new(id("reader")), PollingStrategy::first());
    let all = client.poll_messages(&id("s"), &id("t"), Some(0), &consumer, &first, 9, false).await;
    let all = all.expect("a poll").messages;
    let time = all[1].header.timestamp;
    assert!(time > all[0].header.timestamp);
    let from = |time: u64| PollingStrategy::timestamp(time.into());
    assert_eq!(poll(&client, 0, from(time), 9).await, ["second"]);
    assert!(poll(&client, 0, from(time + 1), 9).await.is_empty());
    assert_eq!(poll(&client, 0, from(0), 9).await, ["first", "second"]);
}

/// Regression test: a poll returned only about 1 MiB of messages, even if more were requested.
/// Programs that got fewer messages than requested concluded that the partition ended there.
#[tokio::test(flavor = "multi_thread")]
async fn a_poll_returns_as_many_messages_as_it_asks_for() {
    let mut scene = Scene::new().await;
    let client = scene.client().await;
    create_topic(&client, 2).await;
    let sent: Vec<String> = (0..5000).map(|number| format!("{number:01000}")).collect();
    for batch in sent.chunks(250) {
        send(&client, 0, batch).await;
    }
    let large: Vec<String> = [1, 1 << 20, 5 << 20, 5 << 20].map(|size| "x".repeat(size)).into();
    for payload in &large {
        send(&client, 1, std::slice::from_ref(payload)).await;
    }
    let strategies =
        [PollingStrategy::first(), PollingStrategy::last(), PollingStrategy::offset(0)];
    for strategy in strategies {
        assert!(poll(&client, 0, strategy, 5000).await == sent, "{strategy:?}");
    }
    assert!(poll(&client, 0, PollingStrategy::offset(17), 4321).await == sent[17..4338]);
    assert!(poll(&client, 1, PollingStrategy::first(), 100).await == large);
    // After a restart, the log has no messages in memory, so the next polls read from segments.
    drop(client);
    scene.stop().await;
    scene.start().await;
    let client = scene.client().await;
    for strategy in strategies {
        assert!(poll(&client, 0, strategy, 5000).await == sent, "{strategy:?}");
    }
    assert!(poll(&client, 1, PollingStrategy::first(), 100).await == large);
}

#[tokio::test(flavor = "multi_thread")]
async fn confirmations_say_where_the_messages_are() {
    let scene = Scene::new().await;
    let client = scene.client().await;
    create_topic(&client, 3).await;
    let stream = client.get_stream(&id("s")).await.expect("a reply").expect("a stream");
    let target = (stream.id, stream.topics[0].id);
    let mut ends = [0; 3];
    for round in 0..9 {
        let partitioning = match round % 3 {
            0 => Partitioning::partition_id(1),
            1 => Partitioning::balanced(),
            _ => Partitioning::messages_key_str("key").expect("a key"),
        };
        let mut messages = [message("one"), message("two")];
        let sent = client.send_messages(&id("s"), &id("t"), &partitioning, &mut messages).await;
        let sent = sent.expect("a send");
        let [confirmed] = sent.confirmations.as_slice() else { panic!("{sent:?}") };
        assert_eq!((confirmed.stream_id, confirmed.topic_id), target);
        let partition = confirmed.partition_id as usize;
        assert!(round % 3 != 0 || partition == 1);
        assert_eq!(confirmed.base_offset, ends[partition]);
        ends[partition] += 2;
    }
    assert_eq!(ends.iter().sum::<u64>(), 18);
}

/// Returns the id and the partitions of each member of a group.
async fn members(client: &IggyClient) -> Vec<(u32, Vec<u32>)> {
    let group = client.get_consumer_group(&id("s"), &id("t"), &id("g")).await;
    let members = group.expect("a reply").expect("a group").members;
    members.into_iter().map(|member| (member.id, member.partitions)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_is_not_replaced_by_another_of_its_name() {
    let scene = Scene::new().await;
    let (root, member) = (scene.client().await, scene.client().await);
    create_topic(&root, 3).await;
    let (s, t, g) = (id("s"), id("t"), id("g"));
    let created = root.create_consumer_group(&s, &t, "g").await.expect("a group");
    member.join_consumer_group(&s, &t, &g).await.expect("to join");
    let before = members(&root).await;
    assert_eq!(before.len(), 1);
    let again = root.create_consumer_group(&s, &t, "g").await;
    let exists = IggyError::ConsumerGroupNameAlreadyExists(String::new(), Identifier::default());
    assert_refused(again, &exists);
    let found = root.get_consumer_group(&s, &t, &g).await.expect("a reply").expect("a group");
    assert_eq!(found.id, created.id);
    assert_eq!(members(&root).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_without_partitions_waits_until_its_group_is_deleted() {
    let scene = Scene::new().await;
    let (root, idle) = (scene.client().await, scene.client().await);
    create_topic(&root, 1).await;
    let (s, t, g) = (id("s"), id("t"), id("g"));
    root.create_consumer_group(&s, &t, "g").await.expect("a group");
    root.join_consumer_group(&s, &t, &g).await.expect("to join");
    let mut consumer = idle
        .consumer_group("g", "s", "t")
        .expect("a consumer")
        .batch_length(1)
        .poll_interval(IggyDuration::new(Duration::from_millis(20)))
        .auto_join_consumer_group()
        .do_not_create_consumer_group_if_not_exists()
        .build();
    consumer.init().await.expect("to join");
    assert_eq!(members(&root).await.len(), 2);
    assert!(timeout(Duration::from_millis(300), consumer.next()).await.is_err(), "it waits");
    root.delete_consumer_group(&s, &t, &g).await.expect("a deletion");
    let end = timeout(Duration::from_secs(10), consumer.next()).await.expect("an end");
    assert!(matches!(end, Some(Err(IggyError::ConsumerGroupNameNotFound(..)))));
}

/// Runs `calls` concurrently, and returns the number of calls that succeeded.
async fn successes<T>(
    calls: impl Iterator<Item = impl Future<Output = Result<T, IggyError>>>,
) -> usize {
    join_all(calls).await.iter().filter(|done| done.is_ok()).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn exactly_one_of_concurrent_creations_of_a_name_succeeds() {
    const CLIENTS: usize = 6;
    let scene = Scene::new().await;
    let clients = join_all((0..CLIENTS).map(|_| scene.client())).await;
    create_topic(&clients[0], 1).await;
    let (s, t) = (id("s"), id("t"));
    let options = TopicCreateOptions::default();
    for round in 0..5 {
        let name = &format!("name{round}");
        let active = UserStatus::Active;
        let counts = [
            successes(clients.iter().map(|it| it.create_stream(name))).await,
            successes(clients.iter().map(|it| it.create_topic(&s, name, &options))).await,
            successes(clients.iter().map(|it| it.create_consumer_group(&s, &t, name))).await,
            successes(clients.iter().map(|it| it.create_user(name, "password", active, None)))
                .await,
        ];
        assert_eq!(counts, [1; 4]);
        let own = |index: usize| format!("name{round}-{index}");
        let names: Vec<_> = (0..CLIENTS).map(own).collect();
        let pairs = || clients.iter().zip(&names);
        let counts = [
            successes(pairs().map(|(it, name)| it.create_stream(name))).await,
            successes(pairs().map(|(it, name)| it.create_topic(&s, name, &options))).await,
            successes(clients.iter().map(|it| it.create_partitions(&s, &t, 1))).await,
        ];
        assert_eq!(counts, [CLIENTS; 3]);
    }
    let stream = clients[0].get_stream(&s).await.expect("a reply").expect("a stream");
    assert_eq!(stream.topics_count as usize, 1 + 5 * (1 + CLIENTS));
    let topic = clients[0].get_topic(&s, &t).await.expect("a reply").expect("a topic");
    assert_eq!(topic.partitions_count as usize, 1 + 5 * CLIENTS);
}

/// Returns whether any file in a directory or its subdirectories contains a text.
#[expect(clippy::disallowed_methods, reason = "searches whatever files there are")]
fn contains(directory: &Path, text: &str) -> bool {
    let entries = std::fs::read_dir(directory).expect("a directory");
    entries.map(|entry| entry.expect("an entry").path()).any(|path| match path.is_dir() {
        true => contains(&path, text),
        false => {
            let bytes = std::fs::read(&path).expect("a file");
            bytes.windows(text.len()).any(|window| window == text.as_bytes())
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_not_written_and_passwords_survive_a_restart() {
    let mut scene = Scene::new().await;
    let root = scene.client().await;
    let active = UserStatus::Active;
    root.create_user("ann", "first-secret", active, None).await.expect("a user");
    let changed = root.change_password(&id("ann"), "first-secret", "second-secret").await;
    changed.expect("another password");
    let expiry = PersonalAccessTokenExpiry::NeverExpire;
    let token = root.create_personal_access_token("robot", expiry).await.expect("a token");
    drop(root);
    scene.stop().await;
    assert!(contains(scene.path(), "robot"), "the name of the token is stored");
    for secret in ["first-secret", "second-secret", &token.token] {
        assert!(!contains(scene.path(), secret), "{secret}");
    }
    scene.start().await;
    drop(scene.client_of("ann", "second-secret").await);
    let old = format!("iggy://ann:first-secret@{}", scene.address());
    let old = IggyClient::from_connection_string(&old);
    assert!(old.expect("a client").connect().await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn sizes_add_up_and_a_purge_survives_a_restart() {
    let mut scene = Scene::new().await;
    let client = scene.client().await;
    create_topic(&client, 2).await;
    client.create_topic(&id("s"), "u", &TopicCreateOptions::default()).await.expect("a topic");
    send(&client, 0, &numbered("m", 20)).await;
    send(&client, 1, &numbered("m", 30)).await;
    let mut messages = [message("x")];
    let partition = Partitioning::partition_id(0);
    let sent = client.send_messages(&id("s"), &id("u"), &partition, &mut messages).await;
    sent.expect("a send");
    let stream = client.get_stream(&id("s")).await.expect("a reply").expect("a stream");
    let sizes: Vec<_> = stream.topics.iter().map(|topic| topic.size.as_bytes_u64()).collect();
    assert!(sizes.iter().all(|size| *size > 0));
    assert_eq!(stream.size.as_bytes_u64(), sizes.iter().sum::<u64>());
    assert_eq!(stream.messages_count, 51);

    client.purge_topic(&id("s"), &id("t")).await.expect("a purge");
    drop(client);
    scene.stop().await;
    scene.start().await;
    let client = scene.client().await;
    let stream = client.get_stream(&id("s")).await.expect("a reply").expect("a stream");
    let counts: Vec<_> = stream.topics.iter().map(|topic| topic.messages_count).collect();
    assert_eq!((stream.messages_count, counts), (1, vec![0, 1]));
    assert_eq!(stream.topics[0].size.as_bytes_u64(), 0);
    send(&client, 1, &numbered("after", 1)).await;
    assert_eq!(poll(&client, 1, PollingStrategy::offset(0), 9).await, ["after-0"]);
}
