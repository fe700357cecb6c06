//! Tests of consumer groups with Iggy's client.

use std::collections::BTreeSet;
use std::time::Duration;

use iggy::prelude::*;
use iggy_binary_protocol::requests::consumer_groups::JoinConsumerGroupRequest;
use iggy_binary_protocol::{Operation, WireEncode, WireIdentifier};
use tokio::io::AsyncWriteExt;

use crate::common::{Scene, create_topic, id, numbered, payloads, send};
use crate::repeated::Raw;

/// Joins the group `g` of the topic `t` in the stream `s`.
async fn join(client: &IggyClient) {
    client.join_consumer_group(&id("s"), &id("t"), &id("g")).await.expect("to join");
}

/// Returns the set of partitions of each member of the group `g`, ordered by the member's number.
async fn members(client: &IggyClient) -> Vec<BTreeSet<u32>> {
    let group = client.get_consumer_group(&id("s"), &id("t"), &id("g")).await;
    let group = group.expect("a reply").expect("a group");
    group.members.iter().map(|member| member.partitions.iter().copied().collect()).collect()
}

/// Polls as a member of the group `g`, and commits, until 20 consecutive polls return no messages.
/// Returns the payloads of all messages.
async fn drain(client: &IggyClient) -> Vec<String> {
    let consumer = Consumer::group(id("g"));
    let mut all = Vec::new();
    let mut empty = 0;
    while empty < 20 {
        let next = PollingStrategy::next();
        let polled =
            client.poll_messages(&id("s"), &id("t"), None, &consumer, &next, 3, true).await;
        let polled = payloads(&polled.expect("a poll"));
        empty = if polled.is_empty() { empty + 1 } else { 0 };
        if polled.is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        all.extend(polled);
    }
    all
}

async fn scene(partitions: u32) -> (Scene, IggyClient) {
    let scene = Scene::with(&[("consumer_group.rebalancing_timeout", "1s")]).await;
    let client = scene.client().await;
    create_topic(&client, partitions).await;
    client.create_consumer_group(&id("s"), &id("t"), "g").await.expect("a group");
    (scene, client)
}

#[tokio::test(flavor = "multi_thread")]
async fn two_members_share_partitions_and_one_takes_over() {
    let (scene, root) = scene(4).await;
    let (one, two) = (scene.client().await, scene.client().await);
    join(&one).await;
    assert_eq!(members(&root).await, [BTreeSet::from([0, 1, 2, 3])]);
    join(&two).await;
    let shares = members(&root).await;
    assert_eq!(shares.iter().map(BTreeSet::len).collect::<Vec<_>>(), [2, 2]);
    assert!(shares[0].is_disjoint(&shares[1]));
    let mut sent = Vec::new();
    for partition in 0..4 {
        let payloads = numbered(&format!("p{partition}"), 10);
        send(&root, partition, &payloads).await;
        sent.extend(payloads);
    }
    let (mut of_one, mut of_two) = tokio::join!(drain(&one), drain(&two));
    assert_eq!((of_one.len(), of_two.len()), (20, 20));
    of_one.append(&mut of_two);
    of_one.sort();
    sent.sort();
    assert_eq!(of_one, sent);

    two.leave_consumer_group(&id("s"), &id("t"), &id("g")).await.expect("to leave");
    assert_eq!(members(&root).await, [BTreeSet::from([0, 1, 2, 3])]);
    for partition in 0..4 {
        send(&root, partition, &numbered("more", 2)).await;
    }
    assert_eq!(drain(&one).await.len(), 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_dies_is_replaced() {
    let (scene, root) = scene(2).await;
    let one = scene.client().await;
    join(&one).await;
    {
        let two = scene.client().await;
        join(&two).await;
        assert_eq!(members(&root).await.len(), 2);
        two.disconnect().await.expect("to disconnect");
    }
    for _ in 0..200 {
        if members(&root).await.len() == 1 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(members(&root).await, [BTreeSet::from([0, 1])]);
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_are_found_listed_and_deleted_with_their_offsets() {
    let (scene, root) = scene(1).await;
    send(&root, 0, &numbered("m", 5)).await;
    let member = scene.client().await;
    join(&member).await;
    assert_eq!(drain(&member).await.len(), 5);
    let consumer = Consumer::group(id("g"));
    let offset = root.get_consumer_offset(&consumer, &id("s"), &id("t"), Some(0)).await;
    assert_eq!(offset.expect("a reply").expect("an offset").stored_offset, 4);
    let groups = root.get_consumer_groups(&id("s"), &id("t")).await.expect("groups");
    let [group] = groups.as_slice() else { panic!("{groups:?}") };
    assert_eq!((group.name.as_str(), group.members_count), ("g", 1));
    root.delete_consumer_group(&id("s"), &id("t"), &id("g")).await.expect("a deletion");
    let found = root.get_consumer_group(&id("s"), &id("t"), &id("g")).await.expect("a reply");
    assert!(found.is_none());
    root.create_consumer_group(&id("s"), &id("t"), "g").await.expect("a group");
    let offset = root.get_consumer_offset(&consumer, &id("s"), &id("t"), Some(0)).await;
    assert!(offset.expect("a reply").is_none(), "another group of this name begins anew");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_member_is_evicted() {
    let scene = Scene::with(&[("heartbeat.interval", "1s")]).await;
    let root = scene.client().await;
    create_topic(&root, 2).await;
    root.create_consumer_group(&id("s"), &id("t"), "g").await.expect("a group");
    // This client sends no requests while it waits: its heartbeat interval is ten minutes.
    let address = scene.address();
    let url = format!("iggy://iggy:iggy@{address}?heartbeat_interval=10min");
    let silent = IggyClient::from_connection_string(&url).expect("a client");
    silent.connect().await.expect("a connection");
    join(&silent).await;
    assert_eq!(members(&root).await.len(), 1);
    for _ in 0..500 {
        if members(&root).await.is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the client is still a member: {:?}", members(&root).await);
}

/// A single byte of a frame must not count as activity of the member.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_sends_a_byte_and_no_more_is_evicted() {
    let scene = Scene::with(&[("heartbeat.interval", "1s")]).await;
    let root = scene.client().await;
    create_topic(&root, 2).await;
    root.create_consumer_group(&id("s"), &id("t"), "g").await.expect("a group");
    let mut raw = Raw::connect(&scene, 7).await;
    raw.login().await;
    let name = |name| WireIdentifier::named(name).expect("a name");
    let join =
        JoinConsumerGroupRequest { stream_id: name("s"), topic_id: name("t"), group_id: name("g") };
    let joined = raw.call(Operation::JoinConsumerGroup, 1, &join.to_bytes()).await;
    assert_eq!(joined.status, 0);
    assert_eq!(members(&root).await, [BTreeSet::from([0, 1])]);
    raw.stream.write_all(&[0]).await.expect("a write");
    for _ in 0..1000 {
        if members(&root).await.is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the client is still a member: {:?}", members(&root).await);
}
