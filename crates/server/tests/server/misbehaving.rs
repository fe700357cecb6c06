//! Clients that send garbage, are slow, or take too much: others are served all the while.

use std::time::Duration;

use iggy::prelude::*;
use iggy_binary_protocol::Operation;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::common::{Scene, create_topic, numbered, poll, send};
use crate::repeated::Raw;

/// Waits until the server closes a connection.
async fn is_closed(stream: &mut TcpStream) -> bool {
    let mut rest = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut rest));
    read.await.is_ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_ends_its_own_connection_only() {
    let mut seed = tailwater_testkit::seed::rng();
    eprintln!("TAILWATER_SEED={}", seed.value());
    let scene = Scene::new().await;
    let client = scene.client().await;
    create_topic(&client, 1).await;
    for _ in 0..50 {
        let mut stream = TcpStream::connect(scene.address()).await.expect("a connection");
        let bytes: Vec<u8> = (0..seed.rng.usize(256..2000)).map(|_| seed.rng.u8(..)).collect();
        // The server may close while this is written.
        let _ = stream.write_all(&bytes).await;
        assert!(is_closed(&mut stream).await);
        send(&client, 0, &numbered("m", 1)).await;
    }
    assert_eq!(poll(&client, 0, PollingStrategy::first(), 100).await.len(), 50);
}

#[tokio::test(flavor = "multi_thread")]
async fn random_bodies_of_every_command_do_no_harm() {
    let mut seed = tailwater_testkit::seed::rng();
    eprintln!("TAILWATER_SEED={}", seed.value());
    let scene = Scene::new().await;
    let client = scene.client().await;
    create_topic(&client, 1).await;
    let mut raw = Raw::connect(&scene, 99).await;
    raw.login().await;
    let codes = [
        10, 11, 12, 13, 14, 20, 21, 22, 31, 32, 41, 100, 102, 103, 104, 120, 123, 200, 201, 300,
        302, 600, 601, 606,
    ];
    for _ in 0..2000 {
        let code = codes[seed.rng.usize(..codes.len())];
        let body: Vec<u8> = (0..seed.rng.usize(..120)).map(|_| seed.rng.u8(..8)).collect();
        let frame = raw.frame(Operation::NonReplicated, 0, code, &body);
        raw.stream.write_all(&frame).await.expect("a write");
        raw.answer().await;
    }
    // What changes something: with its own number each, and bodies that are no names of anything.
    let operations = [
        Operation::UpdateStream,
        Operation::DeleteStream,
        Operation::CreateTopic,
        Operation::DeleteTopic,
        Operation::CreatePartitions,
        Operation::DeleteSegments,
        Operation::CreateConsumerGroup,
        Operation::JoinConsumerGroup,
        Operation::CreateUser,
        Operation::UpdatePermissions,
        Operation::SendMessages,
        Operation::StoreConsumerOffset,
    ];
    for request in 1..2000 {
        let operation = operations[seed.rng.usize(..operations.len())];
        let body: Vec<u8> = (0..seed.rng.usize(..120)).map(|_| seed.rng.u8(100..)).collect();
        raw.call(operation, request, &body).await;
    }
    send(&client, 0, &numbered("m", 1)).await;
    assert_eq!(poll(&client, 0, PollingStrategy::first(), 100).await, ["m-0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn silence_and_slowness_have_an_end() {
    let limits = [("limits.unauthenticated_timeout", "1s"), ("limits.stall_timeout", "1s")];
    let scene = Scene::with(&limits).await;
    let client = scene.client().await;
    create_topic(&client, 1).await;
    let mut silent = TcpStream::connect(scene.address()).await.expect("a connection");
    let mut slow = Raw::connect(&scene, 5).await;
    slow.login().await;
    let frame = slow.frame(Operation::SendMessages, 1, 0, &[0; 1000]);
    slow.stream.write_all(&frame[..300]).await.expect("a write");
    // One that has sent everything and closed its side is answered still.
    let mut half = Raw::connect(&scene, 6).await;
    let ping = half.frame(Operation::NonReplicated, 0, 1, &[]);
    half.stream.write_all(&ping).await.expect("a write");
    half.stream.shutdown().await.expect("to close one side");
    assert_eq!(half.answer().await.status, 0);
    assert!(is_closed(&mut silent).await);
    assert!(is_closed(&mut slow.stream).await);
    send(&client, 0, &numbered("m", 1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_takes_no_replies_is_not_read_from() {
    let scene = Scene::with(&[("limits.stall_timeout", "2s")]).await;
    let client = scene.client().await;
    create_topic(&client, 1).await;
    let large = vec!["x".repeat(900 << 10)];
    for _ in 0..8 {
        send(&client, 0, &large).await;
    }
    let mut greedy = Raw::connect(&scene, 7).await;
    greedy.login().await;
    // Polls without end, and takes nothing.
    let poll_body = iggy_binary_protocol::WireEncode::to_bytes(
        &iggy_binary_protocol::requests::messages::PollMessagesRequest {
            consumer: iggy_binary_protocol::WireConsumer::consumer(
                iggy_binary_protocol::WireIdentifier::numeric(1),
            ),
            stream_id: iggy_binary_protocol::WireIdentifier::named("s").expect("a name"),
            topic_id: iggy_binary_protocol::WireIdentifier::named("t").expect("a name"),
            partition_id: Some(0),
            strategy: iggy_binary_protocol::WirePollingStrategy::first(),
            count: 1000,
            auto_commit: false,
        },
    );
    let frame = greedy.frame(Operation::NonReplicated, 0, 100, &poll_body);
    for _ in 0..200 {
        if greedy.stream.write_all(&frame).await.is_err() {
            break;
        }
    }
    for _ in 0..20 {
        send(&client, 0, &numbered("m", 1)).await;
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(is_closed(&mut greedy.stream).await);
    assert_eq!(poll(&client, 0, PollingStrategy::last(), 1).await, ["m-0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn more_connections_than_are_allowed_are_refused() {
    let scene = Scene::with(&[("limits.connections_max", "3")]).await;
    let first = scene.client().await;
    let second = scene.client().await;
    let third = scene.client().await;
    let mut fourth = TcpStream::connect(scene.address()).await.expect("a connection");
    assert!(is_closed(&mut fourth).await);
    for client in [&first, &second, &third] {
        client.ping().await.expect("an answer");
    }
}
