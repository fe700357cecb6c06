//! Tests of clients that send garbage, are slow, or use too many resources. The server must still
//! serve other clients.

use std::time::Duration;

use iggy::prelude::*;
use iggy_binary_protocol::consensus::Command;
use iggy_binary_protocol::{HEADER_SIZE, Operation};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::bodies;
use crate::common::{Scene, create_topic, id, numbered, poll, send};
use crate::repeated::Raw;

/// Time after which a test regards the server as hanging.
const HANG: Duration = Duration::from_secs(120);

/// Waits until the server closes a connection. Returns false after a timeout.
async fn is_closed(stream: &mut TcpStream) -> bool {
    let mut rest = Vec::new();
    let read = tokio::time::timeout(HANG, stream.read_to_end(&mut rest));
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
        // The write may fail, because the server may close the connection during it.
        let _ = stream.write_all(&bytes).await;
        assert!(is_closed(&mut stream).await);
        send(&client, 0, &numbered("m", 1)).await;
    }
    assert_eq!(poll(&client, 0, PollingStrategy::first(), 100).await.len(), 50);
}

/// Regression test: a client of Iggy 0.8 got no reply until the time limit for logins. The first
/// frame of such a client is shorter than a header of this protocol, and the server waited for the
/// rest.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_the_earlier_protocol_is_refused_at_once() {
    let scene = Scene::new().await;
    for (code, body) in [(1_u32, ""), (38, "\x04iggy\x04iggy"), (44, "\x05token")] {
        let mut stream = TcpStream::connect(scene.address()).await.expect("a connection");
        let length = (4 + body.len()) as u32;
        let frame = [&length.to_le_bytes()[..], &code.to_le_bytes(), body.as_bytes()].concat();
        stream.write_all(&frame).await.expect("a write");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.expect("the end of the connection");
        // A reply of the earlier protocol: status 5, which means that the feature is unavailable,
        // and a body length of 0.
        assert_eq!(answer, [5, 0, 0, 0, 0, 0, 0, 0]);
    }
    scene.client().await.ping().await.expect("an answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_bodies_of_every_command_do_no_harm() {
    let mut seed = tailwater_testkit::seed::rng();
    eprintln!("TAILWATER_SEED={}", seed.value());
    let scene = Scene::with(&[("limits.failed_logins_max", "1000000")]).await;
    let client = scene.client().await;
    create_topic(&client, 1).await;
    let mut raw = Raw::connect(&scene, 99).await;
    raw.login().await;
    let bodies = bodies::of_every_command();
    for request in 1..=4000 {
        let (meta, body) = &bodies[seed.rng.usize(..bodies.len())];
        let mut body = body.clone();
        match seed.rng.u8(..4) {
            0 => body = (0..seed.rng.usize(..120)).map(|_| seed.rng.u8(..8)).collect(),
            1 => body = (0..seed.rng.usize(..120)).map(|_| seed.rng.u8(..)).collect(),
            2 => body.truncate(seed.rng.usize(..=body.len())),
            _ => {
                for _ in 0..seed.rng.usize(1..4) {
                    match body.len() {
                        0 => body.push(seed.rng.u8(..)),
                        length => body[seed.rng.usize(..length)] = seed.rng.u8(..),
                    }
                }
            }
        }
        let frame = match meta.operation {
            Some(operation) => raw.frame(operation, request, 0, &body),
            None => raw.frame(Operation::NonReplicated, 0, meta.code, &body),
        };
        raw.stream.write_all(&frame).await.expect("a write");
        let answer = raw.answer().await;
        assert_eq!(answer.command, Command::Reply as u8, "{}: {body:?}", meta.name);
        // Status 1 would mean that the handler of the request has panicked.
        assert_ne!(answer.status, 1, "{}: {body:?}", meta.name);
        if request % 100 == 0 {
            // A request with a damaged body may have deleted the stream or the topic.
            let _ = client.create_stream("s").await;
            let options = TopicCreateOptions::default();
            let _ = client.create_topic(&id("s"), "t", &options).await;
        }
    }
    let _ = client.delete_stream(&id("s")).await;
    create_topic(&client, 1).await;
    send(&client, 0, &numbered("m", 1)).await;
    assert_eq!(poll(&client, 0, PollingStrategy::first(), 100).await, ["m-0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_and_slow_clients_are_disconnected() {
    let limits = [("limits.unauthenticated_timeout", "1s"), ("limits.stall_timeout", "1s")];
    let scene = Scene::with(&limits).await;
    let client = scene.client().await;
    create_topic(&client, 1).await;
    let mut silent = TcpStream::connect(scene.address()).await.expect("a connection");
    let mut slow = Raw::connect(&scene, 5).await;
    slow.login().await;
    let frame = slow.frame(Operation::SendMessages, 1, 0, &[0; 1000]);
    slow.stream.write_all(&frame[..300]).await.expect("a write");
    // A client that sends a complete request and then closes its sending side must still get a
    // reply.
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
async fn no_requests_are_read_from_a_client_that_reads_no_replies() {
    let scene = Scene::with(&[("limits.stall_timeout", "2s")]).await;
    let client = scene.client().await;
    create_topic(&client, 1).await;
    let large = vec!["x".repeat(900 << 10)];
    for _ in 0..8 {
        send(&client, 0, &large).await;
    }
    let mut greedy = Raw::connect(&scene, 7).await;
    greedy.login().await;
    // This client sends many polls, and reads no replies.
    let poll_body = iggy_binary_protocol::WireEncode::to_bytes(
        &iggy_binary_protocol::requests::messages::PollMessagesRequest {
            consumer: iggy_binary_protocol::WireConsumer::consumer(
                iggy_binary_protocol::WireIdentifier::numeric(1),
            ),
            stream_id: iggy_binary_protocol::WireIdentifier::named("s").expect("a name"),
            topic_id: iggy_binary_protocol::WireIdentifier::named("t").expect("a name"),
            partition_id: Some(0),
            strategy: iggy_binary_protocol::WirePollingStrategy::first(),
            count: 2,
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
    // Reading the replies would end the stall, so wait until the server has closed the connection.
    while client.get_clients().await.expect("clients").len() > 1 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
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

/// Pings before the login must not extend the time limit for logins, even if the server always has
/// the beginning of the next ping in its buffer.
#[tokio::test(flavor = "multi_thread")]
async fn pings_do_not_extend_the_login_time_limit() {
    let scene = Scene::with(&[("limits.unauthenticated_timeout", "1s")]).await;
    let raw = Raw::connect(&scene, 8).await;
    let ping = raw.frame(Operation::NonReplicated, 0, 1, &[]);
    let (mut reading, mut writing) = raw.stream.into_split();
    let trickle = tokio::spawn(async move {
        // Each write ends with the first byte of the next ping, so that the server always has a
        // part of a frame.
        let mut wanted = ping.len() + 1;
        let bytes = ping.repeat(2);
        let mut at = 0;
        loop {
            if writing.write_all(&bytes[at..at + wanted]).await.is_err() {
                return;
            }
            at = (at + wanted) % ping.len();
            wanted = ping.len();
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    });
    let mut answers = Vec::new();
    let closed = tokio::time::timeout(HANG, reading.read_to_end(&mut answers));
    assert!(closed.await.is_ok(), "the connection is still open");
    assert!(answers.len() >= 256, "pings were answered before");
    trickle.abort();
}

/// A login that is delayed because of earlier failed logins must not keep its connection open
/// beyond the time limit for logins.
#[tokio::test(flavor = "multi_thread")]
async fn delayed_logins_hold_no_connections_beyond_the_time_limit() {
    let scene = Scene::with(&[
        ("limits.failed_logins_max", "1"),
        ("limits.unauthenticated_timeout", "1s"),
        ("limits.connections_max", "60"),
    ])
    .await;
    let mut waiting = Vec::new();
    for client in 0..59 {
        let mut raw = Raw::connect(&scene, 100 + client).await;
        let frame = raw.login_frame("wrong");
        raw.stream.write_all(&frame).await.expect("a write");
        waiting.push(raw);
    }
    let began = tokio::time::Instant::now();
    for raw in &mut waiting {
        assert!(is_closed(&mut raw.stream).await);
    }
    // If the server waited for one login after another, the 59 logins would take more than 58 s.
    assert!(began.elapsed() < Duration::from_secs(40), "{:?}", began.elapsed());
    let deadline = tokio::time::Instant::now() + HANG;
    loop {
        let mut raw = Raw::connect(&scene, 1).await;
        let frame = raw.login_frame("iggy");
        raw.stream.write_all(&frame).await.expect("a write");
        let mut header = [0; 256];
        if raw.stream.read_exact(&mut header).await.is_ok() {
            assert_eq!(header[60], Command::Reply as u8);
            break;
        }
        // The login is tried again on a new connection: it may be delayed by a second after the
        // last failed login, and the time limit for logins is also a second.
        assert!(tokio::time::Instant::now() < deadline, "nobody can log in");
    }
}

/// Clients that send only the headers of large frames must not block other clients.
#[tokio::test(flavor = "multi_thread")]
async fn announced_frames_reserve_no_memory() {
    let scene = Scene::with(&[
        ("limits.in_flight_bytes_max", "1 MiB"),
        ("message_bus.max_message_size", "1 MiB"),
        ("limits.stall_timeout", "5 m"),
    ])
    .await;
    let root = scene.client().await;
    create_topic(&root, 1).await;
    let mut announcing = Vec::new();
    for client in 0..3 {
        let mut raw = Raw::connect(&scene, 200 + client).await;
        raw.login().await;
        let frame = raw.frame(Operation::SendMessages, 1, 0, &[0; (1 << 20) - HEADER_SIZE]);
        raw.stream.write_all(&frame[..HEADER_SIZE]).await.expect("a write");
        announcing.push((raw, frame));
    }
    let large = vec!["x".repeat(600 << 10)];
    let served = async {
        let client = scene.client().await;
        send(&client, 0, &numbered("m", 1)).await;
        send(&client, 0, &large).await;
        assert_eq!(poll(&client, 0, PollingStrategy::first(), 1).await, ["m-0"]);
    };
    tokio::time::timeout(HANG, served).await.expect("answers in time");
    // When the first byte of a body arrives, the server reserves memory for the body. If the client
    // sends nothing more, the server must disconnect it earlier than the time limit of 5 minutes,
    // because other clients wait for that memory.
    for (raw, frame) in &mut announcing {
        raw.stream.write_all(&frame[HEADER_SIZE..=HEADER_SIZE]).await.expect("a write");
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    let served = async {
        let client = scene.client().await;
        send(&client, 0, &numbered("n", 1)).await;
        assert_eq!(poll(&client, 0, PollingStrategy::last(), 1).await, ["n-0"]);
        send(&client, 0, &large).await;
    };
    tokio::time::timeout(Duration::from_secs(60), served).await.expect("answers in time");
}

/// A client that repeatedly sends requests that end its session must be disconnected. Otherwise it
/// could fill the server's log files.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_is_evicted_again_and_again_is_closed() {
    let scene = Scene::new().await;
    let mut raw = Raw::connect(&scene, 9).await;
    let legacy = raw.frame(Operation::NonReplicated, 0, 38, &[]);
    for _ in 0..3 {
        raw.stream.write_all(&legacy).await.expect("a write");
        assert_eq!(raw.answer().await.status, 15);
    }
    // The server counts how often it has evicted the client's session on this connection. A login
    // resets the count.
    raw.login().await;
    for _ in 0..4 {
        raw.stream.write_all(&legacy).await.expect("a write");
        assert_eq!(raw.answer().await.status, 15);
    }
    raw.login().await;
    for _ in 0..1000 {
        // The server closes the connection during one of these writes.
        if raw.stream.write_all(&legacy).await.is_err() {
            break;
        }
    }
    let mut answers = Vec::new();
    let closed = tokio::time::timeout(HANG, raw.stream.read_to_end(&mut answers));
    assert!(closed.await.is_ok(), "the connection is still open");
    assert!(answers.len() <= 5 * HEADER_SIZE, "{} bytes of evictions", answers.len());
}

/// Clients that have sent only a part of a request, or that have not logged in, must not delay the
/// shutdown.
#[tokio::test(flavor = "multi_thread")]
async fn unfinished_requests_do_not_delay_the_shutdown() {
    let mut scene = Scene::new().await;
    let mut header = Raw::connect(&scene, 10).await;
    header.stream.write_all(&[0; 100]).await.expect("a write");
    let mut body = Raw::connect(&scene, 11).await;
    body.login().await;
    let frame = body.frame(Operation::SendMessages, 1, 0, &[0; 1 << 20]);
    body.stream.write_all(&frame[..300]).await.expect("a write");
    // Gives the server time to read the beginnings of both requests.
    tokio::time::sleep(Duration::from_millis(200)).await;
    // `stop` checks that no connection was aborted because of the time limit of the shutdown.
    scene.stop().await;
    assert!(is_closed(&mut header.stream).await && is_closed(&mut body.stream).await);

    let mut scene = Scene::with(&[("tcp.tls.enabled", "true")]).await;
    let mut silent = TcpStream::connect(scene.address()).await.expect("a connection");
    tokio::time::sleep(Duration::from_millis(200)).await;
    scene.stop().await;
    assert!(is_closed(&mut silent).await);
}
