//! Tests of the HTTP interface of a running server.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::config::{Config, Flags};
use crate::server::Server;

fn config(path: &Path) -> Config {
    let settings = [("http.address", "127.0.0.1:0"), ("tcp.address", "127.0.0.1:0")];
    let settings = settings.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned()));
    let flags = Flags {
        path: Some(path.to_owned()),
        settings: settings.collect(),
        has_default_root_credentials: true,
        ..Flags::default()
    };
    Config::load(&flags, &BTreeMap::new()).expect("a valid configuration").0
}

/// Sends a request. Returns the status, the headers and the body of the reply.
async fn ask(address: SocketAddr, request: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    stream.write_all(request.as_bytes()).await.expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).expect("a status").parse().expect("a number");
    (status, head.to_lowercase(), body.to_owned())
}

async fn get(address: SocketAddr, path: &str) -> (u16, String, String) {
    ask(address, &format!("GET {path} HTTP/1.1\r\nhost: here\r\n\r\n")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_and_health_are_served_and_the_rest_is_not() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::start(config(directory.path())).await.expect("the server starts");
    let address = server.addresses().http.expect("HTTP is on");

    let (status, _, body) = get(address, "/ping").await;
    assert_eq!((status, body.as_str()), (200, "pong"));
    let (status, head, body) = get(address, "/health").await;
    assert_eq!(status, 200);
    assert!(head.contains("content-type: application/json"), "{head}");
    let document: serde_json::Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(document["status"], "healthy");

    let (status, head, body) = get(address, "/metrics").await;
    assert_eq!(status, 200);
    assert!(head.contains("text/plain; version=0.0.4"), "{head}");
    let values = crate::prometheus::tests::parse(&body);
    assert_eq!(values["users"], 1.0);
    assert_eq!(values["tailwater_partitions_failed"], 0.0);
    assert_eq!(values["tailwater_tail_bytes_max"], f64::from(256 << 20));

    let (status, _, body) = get(address, "/streams").await;
    assert_eq!(status, 501);
    let document: serde_json::Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(document["path"], "/streams");

    let post = "POST /ping HTTP/1.1\r\nhost: here\r\ncontent-length: 5\r\n\r\nhello";
    let (status, head, _) = ask(address, post).await;
    assert_eq!(status, 405);
    assert!(head.contains("allow: get, head"), "{head}");
    let (status, _, body) = ask(address, "HEAD /ping HTTP/1.1\r\nhost: here\r\n\r\n").await;
    assert_eq!((status, body.as_str()), (200, ""));

    // The first request has a header that is too long. The second one is not HTTP.
    let long = format!("GET /ping HTTP/1.1\r\nhost: {}\r\n\r\n", "x".repeat(64 << 10));
    for request in [long.as_str(), "\0\x01\x02 nothing\r\n\r\n"] {
        let mut stream = TcpStream::connect(address).await.expect("a connection");
        // The write may fail, because the server may close the connection before it has read
        // everything.
        let _ = stream.write_all(request.as_bytes()).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        assert!(!answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
    }
    server.shutdown().await.expect("the server shuts down");
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_do_not_block_new_ones() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::start(config(directory.path())).await.expect("the server starts");
    let address = server.addresses().http.expect("HTTP is on");
    let mut idle = Vec::new();
    for _ in 0..server.descriptors().http_connections {
        idle.push(TcpStream::connect(address).await.expect("a connection"));
    }
    // The limit on connections is reached. Each further connection closes the oldest one.
    for _ in 0..3 {
        let (status, _, body) = get(address, "/ping").await;
        assert_eq!((status, body.as_str()), (200, "pong"));
    }
    let mut rest = Vec::new();
    let closed = tokio::time::timeout(super::HEADER_TIMEOUT / 2, idle[0].read_to_end(&mut rest));
    assert!(closed.await.is_ok(), "the oldest connection is still open");
    let newest = idle.last_mut().expect("a connection");
    newest.write_all(b"GET /ping HTTP/1.1\r\nhost: here\r\n\r\n").await.expect("a request");
    newest.read_to_end(&mut rest).await.expect("an answer");
    assert!(rest.starts_with(b"HTTP/1.1 200"), "the newest connection is served");
    drop(idle);
    server.shutdown().await.expect("the server shuts down");
}

#[tokio::test(flavor = "multi_thread")]
async fn health_names_no_files() {
    use tailwater_log::{Log, LogOptions, TopicOptions};

    let directory = tempfile::tempdir().expect("a directory");
    let log_directory = directory.path().join("log");
    let log = Log::open(&log_directory, &LogOptions::default()).expect("a log");
    let stream = log.create_stream(None, "s").expect("a stream");
    let topic = log.create_topic(stream, None, "t", &TopicOptions::default(), 1);
    let partition = log.partition(topic.expect("a topic").partition(0)).expect("a partition");
    // If only the last batch of a segment were damaged, recovery would take it for a torn write.
    // The later batches prove that the first one was persisted, so that recovery reports its
    // damage.
    for _ in 0..5 {
        let mut batch = tailwater_format::message::batch::Builder::new(0);
        batch.push(1, 0, b"payload", b"").expect("a message");
        partition.append(&batch.finish()).expect("an append").ticket.wait().expect("acknowledged");
        partition.flush(true).wait().expect("persisted");
    }
    log.close().expect("closed");
    damage(&log_directory);

    let server = Server::start(config(directory.path())).await.expect("the server starts");
    let (status, _, body) = get(server.addresses().http.expect("HTTP is on"), "/health").await;
    assert_eq!(status, 503, "{body}");
    let document: serde_json::Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(document["failures"][0]["error"], "Corruption");
    assert!(!body.contains(".log") && !body.contains('/'), "{body}");
    server.shutdown().await.expect_err("the damage is reported");
}

/// Damages every segment below a directory by changing a byte of its first batch. Also removes the
/// indexes, so that opening the log reads the segments and finds the damage.
fn damage(directory: &Path) {
    use std::io::{Seek, SeekFrom, Write};

    for entry in directory.read_dir().expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            damage(&path);
        } else if path.extension().is_some_and(|extension| extension == "index") {
            #[expect(clippy::disallowed_methods, reason = "damages a log behind its back")]
            std::fs::remove_file(&path).expect("an index");
        } else if path.extension().is_some_and(|extension| extension == "log") {
            #[expect(clippy::disallowed_types, reason = "damages a file behind the log's back")]
            let file = std::fs::OpenOptions::new().write(true).open(&path);
            let mut file = file.expect("a segment");
            file.seek(SeekFrom::Start(300)).expect("a position");
            file.write_all(&[0xff]).expect("a write");
        }
    }
}
