//! Tests of sending and polling messages.

use std::collections::BTreeMap;

use iggy::prelude::*;

use crate::common::{
    Scene, assert_refused, create_topic, id, message, numbered, payloads, poll, send,
};

#[tokio::test(flavor = "multi_thread")]
async fn every_strategy_of_polling() {
    let scene = Scene::new().await;
    let client = scene.client().await;
    create_topic(&client, 1).await;
    send(&client, 0, &numbered("a", 5)).await;
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    let between = IggyTimestamp::now();
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    send(&client, 0, &numbered("b", 5)).await;
    let all = [numbered("a", 5), numbered("b", 5)].concat();
    assert_eq!(poll(&client, 0, PollingStrategy::first(), 100).await, all);
    assert_eq!(poll(&client, 0, PollingStrategy::offset(3), 3).await, all[3..6]);
    assert_eq!(poll(&client, 0, PollingStrategy::last(), 2).await, all[8..]);
    assert_eq!(poll(&client, 0, PollingStrategy::timestamp(between), 100).await, all[5..]);
    assert!(poll(&client, 0, PollingStrategy::offset(10), 100).await.is_empty());
    assert_eq!(poll(&client, 0, PollingStrategy::next(), 2).await, all[..2]);

    let consumer = Consumer::new(id("committing"));
    let (stream, topic) = (id("s"), id("t"));
    for expected in all.chunks(4) {
        let next = PollingStrategy::next();
        let polled =
            client.poll_messages(&stream, &topic, Some(0), &consumer, &next, 4, true).await;
        assert_eq!(payloads(&polled.expect("a poll")), expected);
    }
    let offset = client.get_consumer_offset(&consumer, &stream, &topic, Some(0)).await;
    let offset = offset.expect("a reply").expect("an offset");
    assert_eq!((offset.stored_offset, offset.current_offset), (9, 9));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_partitioning() {
    let scene = Scene::new().await;
    let client = scene.client().await;
    create_topic(&client, 3).await;
    let (stream, topic) = (id("s"), id("t"));
    for number in 0..6 {
        let mut messages = [message(&format!("balanced-{number}"))];
        let balanced = Partitioning::balanced();
        client.send_messages(&stream, &topic, &balanced, &mut messages).await.expect("a send");
    }
    for partition in 0..3 {
        assert_eq!(poll(&client, partition, PollingStrategy::first(), 10).await.len(), 2);
    }
    let mut found = Vec::new();
    for _ in 0..3 {
        let mut messages = [message("keyed")];
        let key = Partitioning::messages_key_str("customer-7").expect("a key");
        let sent = client.send_messages(&stream, &topic, &key, &mut messages).await;
        found.push(sent.expect("a send").confirmations[0].partition_id);
    }
    assert!(found.iter().all(|partition| *partition == found[0]), "{found:?}");
    let mut messages = [message("nowhere")];
    let nowhere = Partitioning::partition_id(9);
    assert_refused(
        client.send_messages(&stream, &topic, &nowhere, &mut messages).await,
        &IggyError::PartitionNotFound(0, Identifier::default(), Identifier::default()),
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn user_headers_ids_and_large_payloads() {
    let scene = Scene::new().await;
    let client = scene.client().await;
    create_topic(&client, 1).await;
    let mut headers = BTreeMap::new();
    headers.insert(
        HeaderKey::try_from("colour").expect("a key"),
        HeaderValue::try_from("red").expect("a value"),
    );
    let large = "x".repeat(9 << 20);
    let mut messages = [
        IggyMessage::builder()
            .id(77)
            .payload("with headers".into())
            .user_headers(headers.clone())
            .build()
            .expect("a message"),
        message(&large),
    ];
    let (stream, topic, partition) = (id("s"), id("t"), Partitioning::partition_id(0));
    client.send_messages(&stream, &topic, &partition, &mut messages).await.expect("a send");
    let consumer = Consumer::new(id("reader"));
    let first = PollingStrategy::first();
    let polled = client.poll_messages(&stream, &topic, Some(0), &consumer, &first, 10, false).await;
    let polled = polled.expect("a poll");
    assert_eq!((polled.count, polled.messages[0].header.id), (2, 77));
    assert_eq!(polled.messages[0].user_headers_map().expect("headers"), Some(headers));
    assert!(polled.messages[1].payload == large.as_bytes());
}

#[tokio::test(flavor = "multi_thread")]
async fn offsets_of_consumers() {
    let scene = Scene::new().await;
    let client = scene.client().await;
    create_topic(&client, 1).await;
    send(&client, 0, &numbered("m", 5)).await;
    let (stream, topic) = (id("s"), id("t"));
    let named = Consumer::new(id("named"));
    let numbered = Consumer::new(Identifier::numeric(7).expect("an id"));
    for consumer in [&named, &numbered] {
        let none = client.get_consumer_offset(consumer, &stream, &topic, Some(0)).await;
        assert!(none.expect("a reply").is_none());
        let stored = client.store_consumer_offset(consumer, &stream, &topic, Some(0), 3).await;
        stored.expect("a stored offset");
        let found = client.get_consumer_offset(consumer, &stream, &topic, Some(0)).await;
        assert_eq!(found.expect("a reply").expect("an offset").stored_offset, 3);
        let behind = client.store_consumer_offset(consumer, &stream, &topic, Some(0), 5).await;
        assert_refused(behind, &IggyError::InvalidOffset(0));
    }
    let deleted = client.delete_consumer_offset(&named, &stream, &topic, Some(0)).await;
    deleted.expect("a deletion");
    let none = client.get_consumer_offset(&named, &stream, &topic, Some(0)).await;
    assert!(none.expect("a reply").is_none());
    let again = client.delete_consumer_offset(&named, &stream, &topic, Some(0)).await;
    assert_refused(again, &IggyError::ConsumerOffsetNotFound(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_has_a_bounded_number_of_consumers() {
    let scene = Scene::with(&[("limits.consumers_max", "3")]).await;
    let client = scene.client().await;
    create_topic(&client, 2).await;
    for partition in [0, 1] {
        send(&client, partition, &numbered("m", 5)).await;
    }
    let (stream, topic) = (id("s"), id("t"));
    let store = async |number: u32, partition: u32| {
        let consumer = Consumer::new(Identifier::numeric(number).expect("an id"));
        client.store_consumer_offset(&consumer, &stream, &topic, Some(partition), 3).await
    };
    for number in 1..=3 {
        store(number, 0).await.expect("an offset");
    }
    assert_refused(store(4, 0).await, &IggyError::TooManyConsumerOffsets);
    store(3, 0).await.expect("an offset of a known consumer");
    store(4, 1).await.expect("an offset in another partition");
    let fourth = Consumer::new(Identifier::numeric(4).expect("an id"));
    let first = PollingStrategy::first();
    let polled = client.poll_messages(&stream, &topic, Some(0), &fourth, &first, 1, true).await;
    assert_refused(polled, &IggyError::TooManyConsumerOffsets);
    let polled = client.poll_messages(&stream, &topic, Some(0), &fourth, &first, 1, false).await;
    assert_eq!(polled.expect("a poll that stores nothing").count, 1);
}

/// A reply must not exceed the memory limit of a connection. A poll may therefore return fewer
/// messages than requested.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_has_a_bounded_number_of_bytes() {
    let scene = Scene::with(&[("limits.connection_bytes_max", "100 KiB")]).await;
    let client = scene.client().await;
    create_topic(&client, 1).await;
    let sent: Vec<String> = (0..8).map(|number| number.to_string().repeat(40 << 10)).collect();
    for payload in &sent {
        send(&client, 0, std::slice::from_ref(payload)).await;
    }
    let mut found = Vec::new();
    while found.len() < sent.len() {
        let next = PollingStrategy::offset(found.len() as u64);
        let some = poll(&client, 0, next, 100).await;
        assert!((1..=2).contains(&some.len()), "{} messages", some.len());
        found.extend(some);
    }
    assert!(found == sent);
    assert_eq!(poll(&client, 0, PollingStrategy::last(), 1).await.len(), 1);
    let mut large = [message(&"x".repeat(101 << 10))];
    let (stream, topic, partition) = (id("s"), id("t"), Partitioning::partition_id(0));
    let sent = client.send_messages(&stream, &topic, &partition, &mut large);
    let sent = tokio::time::timeout(std::time::Duration::from_secs(5), sent).await;
    assert!(!matches!(sent, Ok(Ok(_))), "a frame that is too large was accepted");
}
