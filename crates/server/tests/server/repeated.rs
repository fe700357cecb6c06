//! Tests of requests that are repeated with the same number, and other tests that send hand-made
//! frames.

use std::net::SocketAddr;

use bytes::BytesMut;
use iggy::prelude::PollingStrategy;
use iggy_binary_protocol::consensus::{Command, ReplyHeader, RequestHeader};
use iggy_binary_protocol::requests::messages::send_messages::{RawMessage, SendMessagesEncoder};
use iggy_binary_protocol::requests::streams::CreateStreamRequest;
use iggy_binary_protocol::requests::users::LoginRegisterRequest;
use iggy_binary_protocol::responses::users::LoginRegisterResponse;
use iggy_binary_protocol::{
    ClientVersionInfo, HEADER_SIZE, IGGY_PROTOCOL_VERSION, Operation, WireDecode, WireEncode,
    WireIdentifier, WireName, WireOptions, WirePartitioning,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use xxhash_rust::xxh3::xxh3_64;

use crate::common::{Scene, create_topic, poll};

/// A connection on which a test sends frames of its own making.
pub(crate) struct Raw {
    pub(crate) stream: TcpStream,
    client: u128,
    pub(crate) session: u64,
}

/// The reply to a request: the kind of frame (`command`), the status, and the body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) command: u8,
    pub(crate) status: u32,
    pub(crate) body: Vec<u8>,
}

impl Raw {
    pub(crate) async fn connect(scene: &Scene, client: u128) -> Self {
        Self::connect_to(scene.address(), client).await
    }

    pub(crate) async fn connect_to(address: SocketAddr, client: u128) -> Self {
        let stream = TcpStream::connect(address).await.expect("a connection");
        Self { stream, client, session: 0 }
    }

    pub(crate) fn frame(
        &self,
        operation: Operation,
        request: u64,
        code: u32,
        body: &[u8],
    ) -> Vec<u8> {
        let mut reserved = [0; 60];
        reserved[..4].copy_from_slice(&code.to_le_bytes());
        let header = RequestHeader {
            command: Command::Request,
            operation,
            size: (HEADER_SIZE + body.len()) as u32,
            client: self.client,
            request,
            session: self.session,
            reserved,
            ..RequestHeader::default()
        };
        [bytemuck::bytes_of(&header), body].concat()
    }

    pub(crate) async fn call(&mut self, operation: Operation, request: u64, body: &[u8]) -> Answer {
        let frame = self.frame(operation, request, 0, body);
        self.stream.write_all(&frame).await.expect("a write");
        self.answer().await
    }

    pub(crate) async fn answer(&mut self) -> Answer {
        let mut header = [0; HEADER_SIZE];
        self.stream.read_exact(&mut header).await.expect("a header");
        let size = u32::from_le_bytes(header[48..52].try_into().expect("four bytes")) as usize;
        let mut body = vec![0; size - HEADER_SIZE];
        self.stream.read_exact(&mut body).await.expect("a body");
        let command = header[60];
        let status = if command == Command::Reply as u8 {
            let header: ReplyHeader = bytemuck::checked::pod_read_unaligned(&header);
            header.status
        } else {
            u32::from(header[255])
        };
        Answer { command, status, body }
    }

    /// Logs in as the root user.
    pub(crate) async fn login(&mut self) {
        self.login_as("iggy").await;
    }

    /// Logs in as this user, whose password is the user's name.
    pub(crate) async fn login_as(&mut self, user: &str) {
        let frame = self.login_frame_of(user, user);
        self.stream.write_all(&frame).await.expect("a write");
        let answer = self.answer().await;
        assert_eq!((answer.command, answer.status), (Command::Reply as u8, 0));
        let response = LoginRegisterResponse::decode(&answer.body[4..]).expect("a response").0;
        self.session = response.session;
    }

    pub(crate) fn login_frame(&mut self, password: &str) -> Vec<u8> {
        self.login_frame_of("iggy", password)
    }

    fn login_frame_of(&mut self, user: &str, password: &str) -> Vec<u8> {
        let request = LoginRegisterRequest {
            version_info: ClientVersionInfo {
                protocol_version: IGGY_PROTOCOL_VERSION,
                sdk_name: WireName::new("test").expect("a name"),
                sdk_version: WireName::new("1").expect("a name"),
            },
            username: WireName::new(user).expect("a name"),
            password: password.to_owned().into(),
            client_context: None,
        };
        self.session = 0;
        self.frame(Operation::Register, 0, 0, &request.to_bytes())
    }
}

/// Returns the body of a request that sends one message to partition 0 of topic `t` in stream `s`.
pub(crate) fn one_message(payload: &[u8]) -> BytesMut {
    let mut body = BytesMut::new();
    let name = |name| WireIdentifier::named(name).expect("a name");
    let messages = [RawMessage { id: 1, origin_timestamp: 5, headers: None, payload }];
    let partition = WirePartitioning::PartitionId(0);
    SendMessagesEncoder::encode(&mut body, &name("s"), &name("t"), &partition, &messages)
        .expect("a body");
    body
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_request_has_no_further_effect() {
    let scene = Scene::new().await;
    let client = scene.client().await;
    create_topic(&client, 1).await;
    let mut raw = Raw::connect(&scene, 42).await;
    raw.login().await;
    let body = one_message(b"once");
    let first = raw.call(Operation::SendMessages, 1, &body).await;
    assert_eq!(first.status, 0);
    let again = raw.call(Operation::SendMessages, 1, &body).await;
    assert_eq!(again, first);
    assert_eq!(poll(&client, 0, PollingStrategy::first(), 10).await, ["once"]);
    assert_eq!(raw.call(Operation::SendMessages, 2, &one_message(b"twice")).await.status, 0);
    // The first request is repeated after the second one. A client with several requests in flight
    // may do that.
    assert_eq!(raw.call(Operation::SendMessages, 1, &body).await, first);
    // This request has the number of the first one, but another body.
    let older = raw.call(Operation::SendMessages, 1, &one_message(b"other")).await;
    assert_eq!(older.status, 59);
    // This request has the number of the second one, but is another command.
    let other = raw.call(Operation::StoreConsumerOffset, 2, &body).await;
    assert_eq!(other.status, 3);
    assert_eq!(poll(&client, 0, PollingStrategy::first(), 10).await, ["once", "twice"]);

    let name = CreateStreamRequest {
        name: WireName::new("another").expect("a name"),
        options: WireOptions::empty(),
    };
    let created = raw.call(Operation::CreateStream, 3, &name.to_bytes()).await;
    assert_eq!(created.status, 0);
    assert_eq!(raw.call(Operation::CreateStream, 3, &name.to_bytes()).await, created);
    assert_eq!(raw.call(Operation::CreateStream, 4, &name.to_bytes()).await.status, 1012);
}

/// Preview versions of the client send no checksums, and do not increase the request number when
/// they send messages. All requests with messages have the same number until the client sends a
/// request of another kind that changes state.
#[tokio::test(flavor = "multi_thread")]
async fn different_messages_under_one_number_are_all_appended() {
    let scene = Scene::new().await;
    let client = scene.client().await;
    create_topic(&client, 1).await;
    let mut raw = Raw::connect(&scene, 44).await;
    raw.login().await;
    for text in ["one", "two", "two", "three"] {
        let sent = raw.call(Operation::SendMessages, 1, &one_message(text.as_bytes())).await;
        assert_eq!(sent.status, 0);
    }
    let name = CreateStreamRequest {
        name: WireName::new("another").expect("a name"),
        options: WireOptions::empty(),
    };
    assert_eq!(raw.call(Operation::CreateStream, 1, &name.to_bytes()).await.status, 0);
    assert_eq!(poll(&client, 0, PollingStrategy::first(), 10).await, ["one", "two", "three"]);
}

/// Regression test: Iggy's Java client has one sequence of request numbers for messages and
/// offsets, and another sequence for all other changes. The server expected a single sequence.
/// After a few messages, it refused to create a stream or topic, because the request had a lower
/// number. The status was 59 ("already applied").
#[tokio::test(flavor = "multi_thread")]
async fn messages_and_other_changes_may_be_numbered_separately() {
    let scene = Scene::new().await;
    let client = scene.client().await;
    create_topic(&client, 1).await;
    let mut raw = Raw::connect(&scene, 45).await;
    raw.login().await;
    let stream = |name| CreateStreamRequest {
        name: WireName::new(name).expect("a name"),
        options: WireOptions::empty(),
    };
    for number in 1..=9 {
        let body = one_message(format!("m{number}").as_bytes());
        assert_eq!(raw.call(Operation::SendMessages, number, &body).await.status, 0);
    }
    let first = raw.call(Operation::CreateStream, 1, &stream("one").to_bytes()).await;
    assert_eq!(first.status, 0);
    assert_eq!(raw.call(Operation::CreateStream, 2, &stream("two").to_bytes()).await.status, 0);
    assert_eq!(raw.call(Operation::CreateStream, 1, &stream("one").to_bytes()).await, first);
    assert_eq!(raw.call(Operation::SendMessages, 10, &one_message(b"m10")).await.status, 0);
    assert_eq!(poll(&client, 0, PollingStrategy::first(), 100).await.len(), 10);
}

/// Regression test: if a request arrived after a request with a higher number, the server refused
/// it with status 59 (already applied), even if the request was new.
#[tokio::test(flavor = "multi_thread")]
async fn requests_out_of_order_are_executed_once_each() {
    let scene = Scene::new().await;
    let client = scene.client().await;
    create_topic(&client, 1).await;
    let mut raw = Raw::connect(&scene, 46).await;
    raw.login().await;
    for (number, text) in [(2, "b"), (1, "a"), (4, "d"), (3, "c"), (1, "a"), (2, "b")] {
        let sent = raw.call(Operation::SendMessages, number, &one_message(text.as_bytes())).await;
        assert_eq!(sent.status, 0, "{text}");
    }
    assert_eq!(poll(&client, 0, PollingStrategy::first(), 10).await, ["b", "a", "d", "c"]);
    // After 64 further requests, the server no longer remembers request 1. It cannot know whether a
    // request with that number is a repetition, so it must refuse the request.
    for number in 5..=70 {
        let body = one_message(format!("m{number}").as_bytes());
        assert_eq!(raw.call(Operation::SendMessages, number, &body).await.status, 0);
    }
    assert_eq!(raw.call(Operation::SendMessages, 1, &one_message(b"a")).await.status, 59);
    assert_eq!(poll(&client, 0, PollingStrategy::first(), 100).await.len(), 70);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_without_a_session() {
    let scene = Scene::new().await;
    let client = scene.client().await;
    create_topic(&client, 1).await;
    let mut raw = Raw::connect(&scene, 43).await;
    // Before a login, the server answers pings and refuses reads. If the client requests a change,
    // the server ends the session.
    let ping = raw.frame(Operation::NonReplicated, 0, 1, &[]);
    raw.stream.write_all(&ping).await.expect("a write");
    assert_eq!(raw.answer().await.status, 0);
    let list = raw.frame(Operation::NonReplicated, 0, 201, &[]);
    raw.stream.write_all(&list).await.expect("a write");
    assert_eq!(raw.answer().await.status, 40);
    raw.session = 9;
    let sent = raw.call(Operation::SendMessages, 1, &one_message(b"x")).await;
    assert_eq!((sent.command, sent.status), (Command::Eviction as u8, 1));
    raw.login().await;
    let unknown = raw.frame(Operation::NonReplicated, 0, 9999, &[]);
    raw.stream.write_all(&unknown).await.expect("a write");
    assert_eq!(raw.answer().await.status, 3);
    // If another connection logs in with the same client id, the server ends the session of the
    // first one.
    let mut second = Raw::connect(&scene, 43).await;
    second.login().await;
    let evicted = raw.answer().await;
    assert_eq!((evicted.command, evicted.status), (Command::Eviction as u8, 1));
    assert_eq!(second.call(Operation::SendMessages, 1, &one_message(b"y")).await.status, 0);
    // A request with a wrong session number ends the session.
    second.session += 1;
    let sent = second.call(Operation::SendMessages, 2, &one_message(b"z")).await;
    assert_eq!((sent.command, sent.status), (Command::Eviction as u8, 1));
    assert_eq!(poll(&client, 0, PollingStrategy::first(), 10).await, ["y"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_contradict_their_checksum_are_refused() {
    let scene = Scene::new().await;
    let mut raw = Raw::connect(&scene, 47).await;
    raw.login().await;
    let ping = raw.frame(Operation::NonReplicated, 0, 1, b"body");
    let at = std::mem::offset_of!(RequestHeader, request_checksum);
    let right = u128::from(xxh3_64(b"body"));
    for (checksum, status) in [(right, 0), (right ^ 1, 4), (0, 0)] {
        let mut stamped = ping.clone();
        stamped[at..at + 16].copy_from_slice(&checksum.to_le_bytes());
        raw.stream.write_all(&stamped).await.expect("a write");
        assert_eq!(raw.answer().await.status, status, "{checksum}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_batches_are_refused() {
    let scene = Scene::new().await;
    let client = scene.client().await;
    create_topic(&client, 1).await;
    let mut raw = Raw::connect(&scene, 44).await;
    raw.login().await;
    let whole = one_message(b"payload");
    let mut request = 0;
    for at in 0..whole.len() {
        let mut damaged = whole.to_vec();
        damaged[at] ^= 1;
        request += 1;
        let answer = raw.call(Operation::SendMessages, request, &damaged).await;
        let appended = poll(&client, 0, PollingStrategy::first(), 10).await;
        // A request with a damaged byte that no checksum covers may be accepted, if it still names
        // a valid target. Even then, the payload must be intact.
        assert!(answer.status != 0 || appended.iter().all(|it| it == "payload"), "byte {at}");
    }
    for length in 0..whole.len() {
        request += 1;
        let answer = raw.call(Operation::SendMessages, request, &whole[..length]).await;
        assert_ne!(answer.status, 0, "{length} bytes");
    }
}
