//! Tests of requests and replies that use much memory, or use it for a long time. They must delay
//! neither small requests nor those of other clients, and a client that loses memory must still get
//! its messages.

use std::time::Duration;

use iggy::prelude::*;
use iggy_binary_protocol::requests::messages::PollMessagesRequest;
use iggy_binary_protocol::{
    HEADER_SIZE, Operation, WireConsumer, WireEncode, WireIdentifier, WirePollingStrategy, codes,
};
use tailwater_testkit::filesystem::say;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::common::{Scene, create_topic, numbered, poll, send};
use crate::repeated::{Answer, Raw, one_message};

/// Time after which a test regards the server as hanging.
const HANG: Duration = Duration::from_secs(120);
/// Number of bytes at the start of a request with a batch that contain the header and the target.
const START_BYTES: usize = HEADER_SIZE + 64;
const UNAUTHORIZED: u32 = 41;
const NOT_ACCEPTED: u32 = 58;

/// Returns a connection that is logged in as this user.
async fn connect(scene: &Scene, client: u128, user: &str) -> Raw {
    let mut raw = Raw::connect(scene, client).await;
    raw.login_as(user).await;
    raw
}

/// Waits for an answer. Fails if the server hangs.
async fn answer(raw: &mut Raw) -> Answer {
    timeout(HANG, raw.answer()).await.expect("an answer in time")
}

/// Returns a request that polls one message of partition 0, from an offset.
fn poll_frame(raw: &Raw, offset: u64) -> Vec<u8> {
    poll_frame_of(raw, 0, offset)
}

/// Returns a request that polls one message of a partition, from an offset.
pub(crate) fn poll_frame_of(raw: &Raw, partition: u32, offset: u64) -> Vec<u8> {
    let request = PollMessagesRequest {
        consumer: WireConsumer::consumer(WireIdentifier::numeric(1)),
        stream_id: WireIdentifier::named("s").expect("a name"),
        topic_id: WireIdentifier::named("t").expect("a name"),
        partition_id: Some(partition),
        strategy: WirePollingStrategy::offset(offset),
        count: 1,
        auto_commit: false,
    };
    raw.frame(Operation::NonReplicated, 0, codes::POLL_MESSAGES_CODE, &request.to_bytes())
}

/// Regression test: the memory for a large body was reserved, and the body read, before the server
/// looked at the permissions of its user. A few connections of a user without any permission
/// stopped all sends.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_refused_before_its_body_has_arrived() {
    let scene = Scene::with(&[("limits.stall_timeout", "5 m")]).await;
    let root = scene.client().await;
    create_topic(&root, 1).await;
    root.create_user("nobody", "nobody", UserStatus::Active, None).await.expect("a user");
    let mut nobody = connect(&scene, 1, "nobody").await;
    let body = one_message(&[7; 1 << 20]);
    let frame = nobody.frame(Operation::SendMessages, 1, 0, &body);
    nobody.stream.write_all(&frame[..START_BYTES]).await.expect("a write");
    assert_eq!(answer(&mut nobody).await.status, UNAUTHORIZED);
    // The rest of the body is read and discarded.
    let ping = nobody.frame(Operation::NonReplicated, 0, codes::PING_CODE, &[]);
    nobody.stream.write_all(&[&frame[START_BYTES..], &ping].concat()).await.expect("a write");
    assert_eq!(answer(&mut nobody).await.status, 0);

    // The same is true of other reasons for a refusal.
    let mut raw = connect(&scene, 2, "iggy").await;
    root.delete_stream(&"s".try_into().expect("an identifier")).await.expect("a deletion");
    for (operation, code) in [
        (Operation::SendMessages, 0),
        (Operation::NonReplicated, codes::POLL_MESSAGES_CODE),
        (Operation::NonReplicated, 9999),
    ] {
        let frame = raw.frame(operation, 1, code, &body);
        raw.stream.write_all(&frame[..START_BYTES]).await.expect("a write");
        assert_ne!(answer(&mut raw).await.status, 0, "{operation:?} {code}");
        raw.stream.write_all(&frame[START_BYTES..]).await.expect("a write");
    }
    let ping = raw.frame(Operation::NonReplicated, 0, codes::PING_CODE, &[]);
    raw.stream.write_all(&ping).await.expect("a write");
    assert_eq!(answer(&mut raw).await.status, 0);
}

/// A request that was executed gets its reply again, even if its user has lost the permission
/// since.
#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_large_request_is_answered_as_before() {
    let scene = Scene::new().await;
    let root = scene.client().await;
    create_topic(&root, 1).await;
    let mut raw = connect(&scene, 1, "iggy").await;
    let body = one_message(&[7; 1 << 20]);
    let first = raw.call(Operation::SendMessages, 1, &body).await;
    assert_eq!(first.status, 0);
    root.delete_stream(&"s".try_into().expect("an identifier")).await.expect("a deletion");
    assert_eq!(raw.call(Operation::SendMessages, 1, &body).await, first);
    assert_ne!(raw.call(Operation::SendMessages, 2, &body).await.status, 0);
}

/// Regression test: large sends whose clients were slow delayed sends of 100 KB, until the server
/// disconnected the slow clients.
#[tokio::test(flavor = "multi_thread")]
async fn large_sends_that_stall_delay_no_small_ones() {
    const LARGE: usize = 3 << 20;
    let scene = Scene::with(&[
        ("limits.in_flight_bytes_max", "16 MiB"),
        ("message_bus.max_message_size", "4 MiB"),
        ("limits.stall_timeout", "5 m"),
    ])
    .await;
    let root = scene.client().await;
    create_topic(&root, 1).await;
    // These requests use all of the memory for large ones.
    let body = one_message(&vec![7; LARGE]);
    let mut stalled = Vec::new();
    for client in 0..4 {
        let mut raw = connect(&scene, 1 + client, "iggy").await;
        let frame = raw.frame(Operation::SendMessages, 1, 0, &body);
        let (most, last) = frame.split_at(frame.len() - 1);
        // The server does not read from all of them, because there is too little memory.
        let written = timeout(Duration::from_secs(1), raw.stream.write_all(most)).await;
        stalled.push((raw, last.to_vec(), written.is_ok()));
    }
    for _ in 0..20 {
        let sent = async { send(&root, 0, &["x".repeat(100_000)]).await };
        timeout(HANG, sent).await.expect("an answer in time");
    }
    if !stalled.iter().any(|(.., is_written)| *is_written) {
        say("LEFT OUT: the end of stalled requests: the server has read none of them");
    }
    // The stalled requests can still be completed, or be repeated if they have lost their memory to
    // each other.
    for (raw, last, _) in stalled.iter_mut().filter(|(.., is_written)| *is_written) {
        raw.stream.write_all(last).await.expect("a write");
        let mut status = answer(raw).await.status;
        while status == NOT_ACCEPTED {
            status = raw.call(Operation::SendMessages, 1, &body).await.status;
        }
        assert_eq!(status, 0);
    }
}

/// Regression test: replies with large batches whose clients read slowly delayed polls of other
/// clients, until the server disconnected the slow clients.
#[tokio::test(flavor = "multi_thread")]
async fn unread_replies_delay_no_other_polls_and_are_completed_later() {
    let mut scene = Scene::with(&[
        ("limits.in_flight_bytes_max", "16 MiB"),
        ("message_bus.max_message_size", "8 MiB"),
        ("limits.stall_timeout", "5 m"),
    ])
    .await;
    let root = scene.client().await;
    create_topic(&root, 1).await;
    let sizes = [6 << 20, 900 << 10, 100_000, 100];
    let payloads: Vec<String> =
        sizes.iter().zip(["a", "b", "c", "d"]).map(|(size, text)| text.repeat(*size)).collect();
    for payload in &payloads {
        send(&root, 0, std::slice::from_ref(payload)).await;
    }
    root.disconnect().await.expect("disconnected");
    // After a restart, the messages are in a segment only.
    scene.stop().await;
    scene.start().await;
    let root = scene.client().await;
    let mut unread = Vec::new();
    for client in 0..60 {
        let raw = connect(&scene, 1 + client, "iggy").await;
        let (mut raw, offset) = (raw, u64::from(client % 2 == 0));
        let frame = poll_frame(&raw, offset);
        raw.stream.write_all(&frame).await.expect("a write");
        unread.push((raw, offset));
    }
    for round in 0..20 {
        let offset = 1 + round % 3;
        let polled = poll(&root, 0, PollingStrategy::offset(offset), 1);
        let polled = timeout(HANG, polled).await.expect("an answer in time");
        assert!(polled == payloads[offset as usize..=offset as usize], "offset {offset}");
    }
    for (raw, offset) in &mut unread {
        let answer = answer(raw).await;
        assert_eq!(answer.status, 0);
        let payload = &payloads[*offset as usize];
        assert!(answer.body.ends_with(payload.as_bytes()), "offset {offset}");
        assert!(answer.body.len() < payload.len() + 1000);
    }
}

/// Regression test: a client that sent half of a body and then nothing kept its memory for seconds
/// while others waited, and was then disconnected.
#[tokio::test(flavor = "multi_thread")]
async fn a_stalled_body_is_discarded_and_its_client_can_repeat_the_request() {
    const SIZE: usize = 900 << 10;
    let scene = Scene::with(&[
        ("limits.in_flight_bytes_max", "16 MiB"),
        ("message_bus.max_message_size", "2 MiB"),
        ("limits.stall_timeout", "5 m"),
    ])
    .await;
    let root = scene.client().await;
    create_topic(&root, 1).await;
    let body = one_message(&vec![b'x'; SIZE]);
    let mut stalled = Vec::new();
    for client in 0..6 {
        let mut raw = connect(&scene, 1 + client, "iggy").await;
        let frame = raw.frame(Operation::SendMessages, 1, 0, &body);
        let half = frame.len() / 2;
        raw.stream.write_all(&frame[..half]).await.expect("a write");
        stalled.push((raw, frame[half..].to_vec()));
    }
    // There is memory for four halves. Other clients nevertheless get some.
    for _ in 0..10 {
        let sent = async { send(&root, 0, &["y".repeat(SIZE)]).await };
        timeout(HANG, sent).await.expect("an answer in time");
    }
    let mut refused = 0;
    for (raw, rest) in &mut stalled {
        raw.stream.write_all(rest).await.expect("a write");
        match answer(raw).await.status {
            0 => continue,
            NOT_ACCEPTED => refused += 1,
            other => panic!("status {other}"),
        }
        assert_eq!(raw.call(Operation::SendMessages, 1, &body).await.status, 0);
    }
    assert!(refused > 0, "no client lost its memory");
    let mut stored = 0;
    while !poll(&root, 0, PollingStrategy::offset(stored), 1).await.is_empty() {
        stored += 1;
    }
    assert_eq!(stored, 16, "each message once");
}

/// A batch that is sent in parts is verified while it is sent, so damage ends the connection. After
/// that, polls of the batch are refused.
#[tokio::test(flavor = "multi_thread")]
async fn damage_in_a_batch_that_is_sent_in_parts_ends_the_connection() {
    let mut scene = Scene::with(&[
        ("limits.in_flight_bytes_max", "8 MiB"),
        ("message_bus.max_message_size", "8 MiB"),
    ])
    .await;
    let root = scene.client().await;
    create_topic(&root, 1).await;
    send(&root, 0, &["x".repeat(6 << 20)]).await;
    send(&root, 0, &numbered("after", 1)).await;
    root.disconnect().await.expect("disconnected");
    scene.stop().await;
    damage(&scene, 3 << 20);
    scene.start().await;
    let mut raw = connect(&scene, 1, "iggy").await;
    let frame = poll_frame(&raw, 0);
    raw.stream.write_all(&frame).await.expect("a write");
    let mut received = Vec::new();
    timeout(HANG, raw.stream.read_to_end(&mut received)).await.expect("the end").expect("no error");
    let size = u32::from_le_bytes(received[48..52].try_into().expect("four bytes"));
    assert!(received.len() < size as usize, "all {size} bytes were sent");
    let mut raw = connect(&scene, 2, "iggy").await;
    raw.stream.write_all(&frame).await.expect("a write");
    assert_ne!(answer(&mut raw).await.status, 0);
    let root = scene.client().await;
    assert_eq!(poll(&root, 0, PollingStrategy::offset(1), 1).await, numbered("after", 1));
}

/// Changes a byte at a position in the largest segment of the server.
fn damage(scene: &Scene, at: u64) {
    use std::os::unix::fs::FileExt;
    let mut directories = vec![scene.path().to_owned()];
    let mut segments = Vec::new();
    while let Some(directory) = directories.pop() {
        for entry in directory.read_dir().expect("a list").map(|entry| entry.expect("an entry")) {
            let length = entry.metadata().expect("metadata").len();
            match entry.file_type().expect("a type").is_dir() {
                true => directories.push(entry.path()),
                false => segments.push((length, entry.path())),
            }
        }
    }
    let (_, segment) = segments.into_iter().max().expect("a segment");
    #[expect(clippy::disallowed_types, reason = "damages a file as a faulty device does")]
    let file = std::fs::OpenOptions::new().write(true).open(segment).expect("a file");
    file.write_all_at(b"?", at).expect("a write");
}
