//! Tests of connections over pipes. A pipe buffers so few bytes that a reply blocks the server if
//! the client does not read it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use iggy_binary_protocol::consensus::{Command, RequestHeader};
use iggy_binary_protocol::requests::messages::PollMessagesRequest;
use iggy_binary_protocol::{
    Operation, WireConsumer, WireEncode, WireIdentifier, WirePollingStrategy, codes,
};
use rustls_pki_types::{PrivatePkcs8KeyDer, ServerName};
use tailwater_format::message::batch::Builder;
use tailwater_io::Purpose;
use tailwater_log::{Log, LogOptions, TopicId, TopicOptions};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::{End, serve};
use crate::config::{Config, Flags};
use crate::server::Server;
use crate::state::State;
use crate::users::ROOT;

/// Client id in the header of the requests.
const CLIENT: u128 = 1;
/// Size of a large message, in bytes.
const LARGE: usize = 900 << 10;
/// Maximum time that a test waits for an event.
const LONG: Duration = Duration::from_secs(20);

/// Starts a server that does not listen on any address.
async fn server(path: &Path, settings: &[(&str, &str)]) -> Server {
    let defaults = [("tcp.enabled", "false"), ("http.enabled", "false")];
    let settings = defaults.iter().chain(settings);
    let settings = settings.map(|(key, text)| ((*key).to_owned(), (*text).to_owned()));
    let flags = Flags {
        path: Some(path.to_owned()),
        settings: settings.collect(),
        has_default_root_credentials: true,
        ..Flags::default()
    };
    let (config, _) = Config::load(&flags, &BTreeMap::new()).expect("a valid configuration");
    Server::start(config).await.expect("the server starts")
}

/// Spawns a task that serves a connection. If `is_bound` is true, the connection's session is
/// already logged in.
fn connect<S>(state: &Arc<State>, stream: S, is_bound: bool) -> JoinHandle<End>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let state = Arc::clone(state);
    tokio::spawn(async move {
        let session = state.sessions.open(SocketAddr::from(([127, 0, 0, 1], 1)));
        let client = CLIENT + u128::from(session.id.0);
        if is_bound {
            state.sessions.bind(&session, ROOT, client).expect("an id of its own");
        }
        let (shutdown, is_shutdown) = watch::channel(false);
        let end = serve(&state, &session, stream, is_shutdown, Instant::now() + LONG).await;
        drop(shutdown);
        end
    })
}

fn frame(code: u32, body: &[u8]) -> Vec<u8> {
    let mut reserved = [0; 60];
    reserved[..4].copy_from_slice(&code.to_le_bytes());
    let header = RequestHeader {
        command: Command::Request,
        operation: Operation::NonReplicated,
        size: (size_of::<RequestHeader>() + body.len()) as u32,
        client: CLIENT,
        request: 1,
        session: 1,
        reserved,
        ..RequestHeader::default()
    };
    [bytemuck::bytes_of(&header), body].concat()
}

fn poll(topic: TopicId, offset: u64) -> Vec<u8> {
    let request = PollMessagesRequest {
        consumer: WireConsumer::consumer(WireIdentifier::numeric(1)),
        stream_id: WireIdentifier::numeric(topic.stream),
        topic_id: WireIdentifier::numeric(topic.topic),
        partition_id: Some(0),
        strategy: WirePollingStrategy::offset(offset),
        count: 1,
        auto_commit: false,
    };
    let body: Bytes = request.to_bytes();
    frame(codes::POLL_MESSAGES_CODE, &body)
}

fn topic(log: &Log) -> TopicId {
    let stream = log.create_stream(None, "s").expect("a stream");
    log.create_topic(stream, None, "t", &TopicOptions::default(), 2).expect("a topic")
}

fn large_batch() -> Vec<u8> {
    let mut batch = Builder::new(0);
    batch.push(1, 0, &vec![7; LARGE], b"").expect("a message");
    batch.finish()
}

/// Opens a connection, sends a poll of one large message, and does not read the reply.
async fn poll_without_reading(
    state: &Arc<State>,
    topic: TopicId,
    offset: u64,
) -> (DuplexStream, JoinHandle<End>) {
    let (mut client, stream) = duplex(1 << 10);
    let served = connect(state, stream, true);
    client.write_all(&poll(topic, offset)).await.expect("a request");
    (client, served)
}

/// Regression test: polls read messages from a segment before they had reserved memory for their
/// replies. Any number of waiting replies could then hold messages in memory.
#[tokio::test(flavor = "multi_thread")]
async fn replies_waiting_for_a_reservation_take_no_memory() {
    const READERS: u64 = 50;
    let directory = tempfile::tempdir().expect("a directory");
    let topic = {
        // The messages are written before the server opens the log. The server's memory for recent
        // messages (the tail) is then empty, and polls read from the segment.
        let log = Log::open(directory.path().join("log"), &LogOptions::default()).expect("a log");
        let topic = topic(&log);
        let partition = log.partition(topic.partition(0)).expect("a partition");
        for _ in 0..8 {
            drop(partition.append(&large_batch()).expect("an append"));
        }
        log.close().expect("closed");
        topic
    };
    let settings =
        [("limits.in_flight_bytes_max", "1 MiB"), ("message_bus.max_message_size", "1 MiB")];
    let server = server(directory.path(), &settings).await;
    let state = server.state();
    let storage = Arc::clone(state.log.storage());
    let read_bytes = || storage.statistics().snapshot(Purpose::LogRead).read_bytes;
    let before = read_bytes();
    let mut readers = Vec::new();
    for reader in 0..READERS {
        readers.push(poll_without_reading(state, topic, reader % 8).await);
    }
    timeout(LONG, async {
        while read_bytes() == before {
            sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .expect("a poll in time");
    sleep(Duration::from_secs(1)).await;
    let read = read_bytes() - before;
    assert!(read < READERS * LARGE as u64 / 2, "{read} bytes were read");
    // The server still answers another client, because the reply to that client needs no reserved
    // memory.
    let (mut other, stream) = duplex(64 << 10);
    let served = connect(state, stream, true);
    other.write_all(&frame(codes::GET_STREAM_CODE + 900, &[])).await.expect("a request");
    let mut answer = [0; 256];
    let answered = tokio::io::AsyncReadExt::read_exact(&mut other, &mut answer);
    timeout(LONG, answered).await.expect("an answer in time").expect("an answer");
    drop((readers, other));
    timeout(LONG, served).await.expect("the connection ends in time").expect("no panic");
    server.shutdown().await.expect("the server shuts down");
}

/// Regression test: a poll of a large batch read the whole batch, even if there was no memory for
/// it, and before its client had read anything.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_without_room_in_memory_is_read_as_its_client_reads() {
    const MIB: u64 = 1 << 20;
    let directory = tempfile::tempdir().expect("a directory");
    let topic = {
        let log = Log::open(directory.path().join("log"), &LogOptions::default()).expect("a log");
        let topic = topic(&log);
        let partition = log.partition(topic.partition(0)).expect("a partition");
        let mut batch = Builder::new(0);
        batch.push(1, 0, &vec![7; 16 << 20], b"").expect("a message");
        drop(partition.append(&batch.finish()).expect("an append"));
        log.close().expect("closed");
        topic
    };
    let settings =
        [("limits.in_flight_bytes_max", "16 MiB"), ("message_bus.max_message_size", "16 MiB")];
    let server = server(directory.path(), &settings).await;
    let state = server.state();
    let storage = Arc::clone(state.log.storage());
    let read_bytes = || storage.statistics().snapshot(Purpose::LogRead).read_bytes;
    let before = read_bytes();
    let (mut client, served) = poll_without_reading(state, topic, 0).await;
    let mut reply = vec![0; 4 << 20];
    tokio::io::AsyncReadExt::read_exact(&mut client, &mut reply).await.expect("a part");
    sleep(Duration::from_millis(200)).await;
    let read = read_bytes() - before;
    assert!((4 * MIB..7 * MIB).contains(&read), "{read} bytes were read");
    assert!(state.in_flight.bytes() <= 2 << 20, "{} bytes are reserved", state.in_flight.bytes());
    drop(client);
    timeout(LONG, served).await.expect("the connection ends in time").expect("no panic");
    assert_eq!(state.in_flight.bytes(), 0);
    server.shutdown().await.expect("the server shuts down");
}

/// Regression test: a client did not read a reply. The unread reply pinned memory of the log's
/// tail, so that appends waited for memory.
#[tokio::test(flavor = "multi_thread")]
async fn slow_readers_do_not_pin_the_tail() {
    let directory = tempfile::tempdir().expect("a directory");
    let settings = [("system.memory.tail_bytes_max", "4 MiB"), ("limits.stall_timeout", "5 m")];
    let server = server(directory.path(), &settings).await;
    let state = server.state();
    let topic = topic(&state.log);
    let [one, other] =
        [0, 1].map(|id| state.log.partition(topic.partition(id)).expect("a partition"));
    let mut readers = Vec::new();
    for offset in 0..4 {
        drop(one.append(&large_batch()).expect("an append"));
        readers.push(poll_without_reading(state, topic, offset).await);
    }
    let appended = tokio::task::spawn_blocking(move || {
        // These batches fit into the tail's memory only if the unread replies no longer pin it.
        for _ in 0..8 {
            drop(other.append(&large_batch()).expect("an append"));
        }
    });
    timeout(LONG, appended).await.expect("there is room in time").expect("no panic");
    drop(readers);
    server.shutdown().await.expect("the server shuts down");
}

/// Regression test: the time limit of a reply did not apply to bytes that an encrypted stream still
/// buffered. A client that read no replies was never disconnected.
#[tokio::test(flavor = "multi_thread")]
async fn replies_over_tls_have_a_time_limit() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(directory.path(), &[("limits.stall_timeout", "1 s")]).await;
    let names = ["localhost".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
    let certificate = made.cert.der().clone();
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let accepting = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key.into())
        .expect("a certificate");
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).expect("a certificate");
    let connecting = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();

    let (client, stream) = duplex(1 << 10);
    let name = ServerName::try_from("localhost").expect("a name");
    let connector = TlsConnector::from(Arc::new(connecting));
    let acceptor = TlsAcceptor::from(Arc::new(accepting));
    let (client, stream) = tokio::join!(connector.connect(name, client), acceptor.accept(stream));
    let (mut client, stream) = (client.expect("a client"), stream.expect("a stream"));
    let served = connect(server.state(), stream, true);
    let ping = frame(codes::PING_CODE, &[]);
    let pings = tokio::spawn(async move {
        // Sends pings without reading the replies, until the server ends the connection.
        while client.write_all(&ping).await.is_ok() && client.flush().await.is_ok() {}
        client
    });
    let end = timeout(LONG, served).await.expect("the connection ends in time").expect("no panic");
    assert!(matches!(end, End::Slow(_)), "{end}");
    timeout(LONG, pings).await.expect("the connection is closed in time").expect("no panic");
    server.shutdown().await.expect("the server shuts down");
}

/// Regression test: the memory of a body could be revoked only until the first byte of the next
/// frame arrived. Clients that sent that byte and no more, or did not read the reply, kept the
/// memory from others.
#[tokio::test(flavor = "multi_thread")]
async fn memory_of_the_last_body_is_revoked_whatever_its_client_does() {
    const BODY: usize = 32 << 10;
    let directory = tempfile::tempdir().expect("a directory");
    let settings = [
        ("limits.in_flight_bytes_max", "1 MiB"),
        ("message_bus.max_message_size", "1 MiB"),
        ("limits.stall_timeout", "5 m"),
    ];
    let server = server(directory.path(), &settings).await;
    let state = server.state();
    for is_reply_read in [true, false] {
        let (mut client, stream) = duplex(64);
        let served = connect(state, stream, true);
        let request = frame(codes::GET_STREAM_CODE, &[0xff; BODY]);
        client.write_all(&request).await.expect("a request");
        if is_reply_read {
            let mut reply = [0; 256];
            let read = tokio::io::AsyncReadExt::read_exact(&mut client, &mut reply);
            timeout(LONG, read).await.expect("an answer in time").expect("an answer");
            client.write_all(&[0]).await.expect("a byte");
        }
        // The share of small requests has 128 KiB.
        let mut other = state.in_flight.request(128 << 10).expect("counted");
        timeout(LONG, other.grow(128 << 10)).await.expect("memory");
        drop((other, client));
        timeout(LONG, served).await.expect("the connection ends in time").expect("no panic");
    }
    server.shutdown().await.expect("the server shuts down");
}

/// Regression test: polls of large batches kept the memory for one read of small messages while
/// they waited for their turn to read. 64 of them stopped all polls of small messages.
#[tokio::test(flavor = "multi_thread")]
async fn polls_that_wait_for_their_turn_take_no_memory_of_small_polls() {
    const SMALL: usize = 100_000;
    let directory = tempfile::tempdir().expect("a directory");
    let topic = {
        let log = Log::open(directory.path().join("log"), &LogOptions::default()).expect("a log");
        let topic = topic(&log);
        let partition = log.partition(topic.partition(0)).expect("a partition");
        for bytes in [4 << 20, SMALL] {
            let mut batch = Builder::new(0);
            batch.push(1, 0, &vec![7; bytes], b"").expect("a message");
            drop(partition.append(&batch.finish()).expect("an append"));
        }
        log.close().expect("closed");
        topic
    };
    // The share of small replies has 2 MiB.
    let settings =
        [("limits.in_flight_bytes_max", "16 MiB"), ("message_bus.max_message_size", "16 MiB")];
    let server = server(directory.path(), &settings).await;
    let state = server.state();
    let mut turns = Vec::new();
    while let Ok(turn) = timeout(Duration::from_millis(10), state.in_flight.large_read()).await {
        turns.push(turn);
    }
    let mut waiting = Vec::new();
    for _ in 0..4 {
        waiting.push(poll_without_reading(state, topic, 0).await);
    }
    sleep(Duration::from_millis(300)).await;
    let (mut client, served) = poll_without_reading(state, topic, 1).await;
    let mut reply = vec![0; SMALL];
    let read = tokio::io::AsyncReadExt::read_exact(&mut client, &mut reply);
    timeout(LONG, read).await.expect("an answer in time").expect("an answer");
    // The others are answered when it is their turn.
    drop(turns);
    for (client, _) in &mut waiting {
        let mut reply = vec![0; 4 << 20];
        let read = tokio::io::AsyncReadExt::read_exact(client, &mut reply);
        timeout(LONG, read).await.expect("an answer in time").expect("an answer");
    }
    drop((waiting, client));
    timeout(LONG, served).await.expect("the connection ends in time").expect("no panic");
    server.shutdown().await.expect("the server shuts down");
}
