//! Tests that create streams, topics and partitions, find them by name and by id, change them, and
//! delete them.

use iggy::prelude::*;

use crate::common::{Scene, assert_refused, create_topic, id, numbered, poll, send};

#[tokio::test(flavor = "multi_thread")]
async fn streams() {
    let scene = Scene::new().await;
    let client = scene.client().await;
    let created = client.create_stream("orders").await.expect("a stream");
    assert_eq!((created.name.as_str(), created.topics_count), ("orders", 0));
    assert_refused(
        client.create_stream("orders").await,
        &IggyError::StreamNameAlreadyExists(String::new()),
    );
    let by_id = Identifier::numeric(created.id).expect("an id");
    for identifier in [id("orders"), by_id.clone()] {
        let found = client.get_stream(&identifier).await.expect("a reply").expect("a stream");
        assert_eq!((found.id, found.created_at), (created.id, created.created_at));
    }
    let renamed = client.update_stream(&by_id, "sales", &StreamUpdateOptions::default()).await;
    renamed.expect("another name");
    assert!(client.get_stream(&id("orders")).await.expect("a reply").is_none());
    let names: Vec<_> = client.get_streams().await.expect("streams");
    assert_eq!(names.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["sales"]);
    client.delete_stream(&id("sales")).await.expect("a deletion");
    assert!(client.get_streams().await.expect("streams").is_empty());
    assert_refused(
        client.delete_stream(&id("sales")).await,
        &IggyError::StreamIdNotFound(Identifier::default()),
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn topics_and_their_options() {
    let scene = Scene::new().await;
    let client = scene.client().await;
    client.create_stream("s").await.expect("a stream");
    let options = TopicCreateOptions {
        partitions_count: Some(3),
        message_expiry: Some(IggyExpiry::ExpireDuration(IggyDuration::new_from_secs(3600))),
        max_topic_size: Some(MaxTopicSize::Custom(IggyByteSize::from(10 << 30))),
        segment_size: Some(IggyByteSize::from(128 << 20)),
        durability: Durability::Persisted,
        messages_required_to_save: Some(10),
        ..TopicCreateOptions::default()
    };
    let created = client.create_topic(&id("s"), "t", &options).await.expect("a topic");
    let found = client.get_topic(&id("s"), &id("t")).await.expect("a reply").expect("a topic");
    for topic in [&created, &found] {
        assert_eq!((topic.partitions_count, topic.partitions.len()), (3, 3));
        assert_eq!(u64::from(topic.message_expiry), 3_600_000_000);
        assert_eq!(topic.max_topic_size.as_bytes_u64(), 10 << 30);
    }
    let text = format!("{:?}", found.options);
    for key in ["segment_size", "durability", "messages_required_to_save", "preallocate_segments"] {
        assert!(text.contains(key), "{key} in {text}");
    }

    let smaller = TopicCreateOptions {
        max_topic_size: Some(MaxTopicSize::Custom(IggyByteSize::from(1 << 20))),
        ..TopicCreateOptions::default()
    };
    assert_refused(
        client.create_topic(&id("s"), "u", &smaller).await,
        &IggyError::InvalidTopicSize(MaxTopicSize::Unlimited, IggyByteSize::default()),
    );
    let unknown = TopicCreateOptions {
        raw: [("colour".to_owned(), "red".to_owned())].into(),
        ..TopicCreateOptions::default()
    };
    assert_refused(
        client.create_topic(&id("s"), "u", &unknown).await,
        &IggyError::UnsupportedOptionKey(String::new()),
    );

    let update = TopicUpdateOptions {
        message_expiry: Some(IggyExpiry::NeverExpire),
        ..TopicUpdateOptions::default()
    };
    client.update_topic(&id("s"), &id("t"), "t2", &update).await.expect("an update");
    let found = client.get_topic(&id("s"), &id("t2")).await.expect("a reply").expect("a topic");
    assert_eq!(found.message_expiry, IggyExpiry::NeverExpire);
    assert_eq!(found.max_topic_size.as_bytes_u64(), 10 << 30, "an omitted option keeps its value");

    client.create_partitions(&id("s"), &id("t2"), 2).await.expect("more partitions");
    client.delete_partitions(&id("s"), &id("t2"), 4).await.expect("fewer partitions");
    let topics = client.get_topics(&id("s")).await.expect("topics");
    assert_eq!(topics.iter().map(|it| it.partitions_count).collect::<Vec<_>>(), [1]);
    client.delete_topic(&id("s"), &id("t2")).await.expect("a deletion");
    assert!(client.get_topic(&id("s"), &id("t2")).await.expect("a reply").is_none());
}

/// Regression test: the option `enforce_fsync`, which previews of Iggy had, was accepted. But it
/// was missing in the list of options, and in the descriptions of topics.
#[tokio::test(flavor = "multi_thread")]
async fn enforce_fsync_is_listed_and_returned_to_clients_that_set_it() {
    let scene = Scene::new().await;
    let client = scene.client().await;
    client.create_stream("s").await.expect("a stream");
    let listed = client.describe_options(OptionsScope::Topic).await.expect("options");
    let listed = listed.iter().find(|it| it.key == "enforce_fsync").expect("a listed option");
    assert_eq!((listed.kind, listed.default_value.as_slice()), (HeaderKind::Bool, &[0][..]));

    // This client always sends the durability option together with `enforce_fsync`. The option with
    // the stronger guarantee must apply.
    for (name, enforces, durability, expected) in [
        ("a", "true", Durability::Replicated, ("persisted", true)),
        ("b", "false", Durability::Persisted, ("persisted", true)),
        ("c", "false", Durability::Replicated, ("replicated", false)),
    ] {
        let options = TopicCreateOptions {
            durability,
            raw: [("enforce_fsync".to_owned(), enforces.to_owned())].into(),
            ..TopicCreateOptions::default()
        };
        client.create_topic(&id("s"), name, &options).await.expect("a topic");
        let found = client.get_topic(&id("s"), &id(name)).await.expect("a reply").expect("a topic");
        let durability = option(&found.options, "durability").value.as_str().expect("text");
        let enforces = option(&found.options, "enforce_fsync");
        let value = enforces.value.as_bool().expect("a boolean");
        assert_eq!((durability, value), expected, "{name}");
        assert!(enforces.explicit);
    }
    let options = TopicCreateOptions::default();
    client.create_topic(&id("s"), "d", &options).await.expect("a topic");
    let found = client.get_topic(&id("s"), &id("d")).await.expect("a reply").expect("a topic");
    assert!(!format!("{:?}", found.options).contains("enforce_fsync"));
}

/// Regression test: a size or expiry of 0 means that the client does not set it. It was reported as
/// set by the client, and an update with 0 reset the value to its default.
#[tokio::test(flavor = "multi_thread")]
async fn a_zero_bound_means_not_set() {
    let scene = Scene::new().await;
    let client = scene.client().await;
    client.create_stream("s").await.expect("a stream");
    let options = TopicCreateOptions {
        message_expiry: Some(IggyExpiry::ServerDefault),
        max_topic_size: Some(MaxTopicSize::ServerDefault),
        segment_size: Some(IggyByteSize::from(0)),
        size_of_messages_required_to_save: Some(IggyByteSize::from(0)),
        ..TopicCreateOptions::default()
    };
    client.create_topic(&id("s"), "t", &options).await.expect("a topic");
    let find = async || {
        client.get_topic(&id("s"), &id("t")).await.expect("a reply").expect("a topic").options
    };
    let found = find().await;
    for (key, default) in [
        ("message_expiry", u64::MAX),
        ("max_topic_size", u64::MAX),
        ("segment_size", 1 << 30),
        ("size_of_messages_required_to_save", 1 << 20),
    ] {
        let option = option(&found, key);
        assert!(!option.explicit, "{key}");
        assert_eq!(option.value.as_uint64().expect("a number"), default, "{key}");
    }
    // The first update sets the expiry. The second one sends 0 for it, which must not change it.
    for expiry in
        [IggyExpiry::ExpireDuration(IggyDuration::new_from_secs(60)), IggyExpiry::ServerDefault]
    {
        let update =
            TopicUpdateOptions { message_expiry: Some(expiry), ..TopicUpdateOptions::default() };
        client.update_topic(&id("s"), &id("t"), "t", &update).await.expect("an update");
        let found = find().await;
        let option = option(&found, "message_expiry");
        assert!(option.explicit);
        assert_eq!(option.value.as_uint64().expect("a number"), 60_000_000);
    }
}

/// Returns the value of a topic's option `key`.
#[track_caller]
fn option<'a>(options: &'a ResourceOptions, key: &str) -> &'a OptionValue {
    let key = HeaderKey::try_from(key).expect("a key");
    options.get(&key).unwrap_or_else(|| panic!("{key:?} in {options:?}"))
}

/// Regression test: a request to delete more partitions than a topic has was refused with status
/// 2015, which means too many partitions, instead of the status for an invalid number of
/// partitions.
#[tokio::test(flavor = "multi_thread")]
async fn only_partitions_that_exist_are_deleted() {
    let scene = Scene::new().await;
    let client = scene.client().await;
    create_topic(&client, 3).await;
    for count in [0, 1001] {
        let (s, t) = (id("s"), id("t"));
        let too_many = IggyError::TooManyPartitions;
        assert_refused(client.create_partitions(&s, &t, count).await, &too_many);
        assert_refused(client.delete_partitions(&s, &t, count).await, &too_many);
    }
    let deleted = client.delete_partitions(&id("s"), &id("t"), 4).await;
    assert_refused(deleted, &IggyError::InvalidPartitionsCount);
    client.delete_partitions(&id("s"), &id("t"), 3).await.expect("a deletion");
    let deleted = client.delete_partitions(&id("s"), &id("t"), 1).await;
    assert_refused(deleted, &IggyError::InvalidPartitionsCount);
    let topic = client.get_topic(&id("s"), &id("t")).await.expect("a reply").expect("a topic");
    assert_eq!((topic.partitions_count, topic.partitions.len()), (0, 0));
}

/// Regression test: a request for the topics of a missing stream was answered with status 1009
/// instead of an empty list. Iggy's Python tests failed because of that.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_does_not_exist_has_no_topics() {
    let scene = Scene::new().await;
    let client = scene.client().await;
    for missing in ["missing", "7"] {
        let topics = client.get_topics(&id(missing)).await.expect("a reply");
        assert!(topics.is_empty(), "{missing}: {topics:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_purge_removes_all_messages_and_restarts_offsets() {
    let scene = Scene::new().await;
    let client = scene.client().await;
    create_topic(&client, 2).await;
    for partition in [0, 1] {
        send(&client, partition, &numbered("before", 5)).await;
    }
    client.purge_topic(&id("s"), &id("t")).await.expect("a purge");
    for partition in [0, 1] {
        assert!(poll(&client, partition, PollingStrategy::first(), 10).await.is_empty());
    }
    send(&client, 0, &numbered("after", 1)).await;
    assert_eq!(poll(&client, 0, PollingStrategy::offset(0), 10).await, ["after-0"]);
    client.purge_stream(&id("s")).await.expect("a purge");
    assert!(poll(&client, 0, PollingStrategy::first(), 10).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_segments_stops_at_messages_that_consumers_have_not_read() {
    let scene = Scene::new().await;
    let client = scene.client().await;
    client.create_stream("s").await.expect("a stream");
    let options = TopicCreateOptions {
        segment_size: Some(IggyByteSize::from(1 << 20)),
        ..TopicCreateOptions::default()
    };
    client.create_topic(&id("s"), "t", &options).await.expect("a topic");
    let large = vec!["x".repeat(400 << 10)];
    for _ in 0..12 {
        send(&client, 0, &large).await;
    }
    client.flush_unsaved_buffer(&id("s"), &id("t"), 0, true).await.expect("a flush");
    let consumer = Consumer::new(id("slow"));
    let stored = client.store_consumer_offset(&consumer, &id("s"), &id("t"), Some(0), 4).await;
    stored.expect("an offset");
    client.delete_segments(&id("s"), &id("t"), 0, 100).await.expect("a deletion");
    let left = client
        .poll_messages(&id("s"), &id("t"), Some(0), &consumer, &PollingStrategy::next(), 1, false)
        .await
        .expect("a poll");
    assert_eq!(left.messages[0].header.offset, 5, "the next message is kept");
    let topic = client.get_topic(&id("s"), &id("t")).await.expect("a reply").expect("a topic");
    assert!(topic.messages_count < 12, "segments were removed");
}

#[tokio::test(flavor = "multi_thread")]
async fn server_statistics_and_clients_are_reported() {
    let scene = Scene::new().await;
    let client = scene.client().await;
    create_topic(&client, 2).await;
    send(&client, 0, &numbered("m", 7)).await;
    let stats = client.get_stats().await.expect("statistics");
    assert_eq!((stats.streams_count, stats.topics_count, stats.partitions_count), (1, 1, 2));
    assert_eq!((stats.messages_count, stats.clients_count), (7, 1));
    assert!(stats.memory_usage.as_bytes_u64() > 0 && stats.total_disk_space.as_bytes_u64() > 0);
    let me = client.get_me().await.expect("myself");
    let found = client.get_client(me.client_id).await.expect("a reply").expect("a client");
    assert_eq!(found.address, me.address);
    assert_eq!(client.get_clients().await.expect("clients").len(), 1);
    assert!(client.get_client(me.client_id + 1).await.expect("a reply").is_none());
    let cluster = client.get_cluster_metadata().await.expect("a cluster");
    assert_eq!(cluster.nodes.len(), 1);
    let options = client.describe_options(OptionsScope::Topic).await.expect("options");
    assert_eq!(options.len(), 10);
    let types = vec![SystemSnapshotType::All];
    let snapshot = client.snapshot(SnapshotCompression::Deflated, types).await.expect("a snapshot");
    assert_eq!(&snapshot.0[..2], b"PK");
    let types = vec![SystemSnapshotType::Test];
    let snapshot = client.snapshot(SnapshotCompression::Stored, types).await.expect("a snapshot");
    assert!(String::from_utf8_lossy(&snapshot.0).contains("test.txt"));
    client.ping().await.expect("an answer");
}

/// One client renames a topic while another adds partitions. Both changes must take effect.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_changes_of_a_topic_all_apply() {
    const ROUNDS: u32 = 30;
    let scene = Scene::new().await;
    let (one, two) = (scene.client().await, scene.client().await);
    one.create_stream("s").await.expect("a stream");
    let options = TopicCreateOptions {
        partitions_count: Some(1),
        segment_size: Some(IggyByteSize::from(1 << 20)),
        // The size limit is divided among the partitions. Adding a partition therefore also updates
        // the options of the topic, which could overwrite a concurrent change of the name.
        max_topic_size: Some(MaxTopicSize::Custom(IggyByteSize::from(1 << 30))),
        ..TopicCreateOptions::default()
    };
    let topic = one.create_topic(&id("s"), "t", &options).await.expect("a topic");
    let topic = Identifier::numeric(topic.id).expect("an id");
    let by_id = topic.clone();
    let adding = tokio::spawn(async move {
        for _ in 0..ROUNDS {
            two.create_partitions(&id("s"), &by_id, 1).await.expect("a partition");
        }
    });
    let mut round = 0;
    while round < ROUNDS || !adding.is_finished() {
        let name = format!("t{round}");
        let update = TopicUpdateOptions::default();
        one.update_topic(&id("s"), &topic, &name, &update).await.expect("another name");
        let found = one.get_topic(&id("s"), &topic).await.expect("a reply").expect("a topic");
        assert_eq!(found.name, name, "the name was acknowledged");
        round += 1;
    }
    adding.await.expect("no panic");
    let found = one.get_topic(&id("s"), &topic).await.expect("a reply").expect("a topic");
    assert_eq!(found.partitions_count, ROUNDS + 1);
}
