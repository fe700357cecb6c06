//! Tests of `import`, which fills a log from a running server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use iggy::prelude::*;
use tailwater_format::message::batch::Batch;
use tailwater_log::{Log, LogOptions, Strategy, TopicId};
use tailwater_server::import::{ClientError, ImportError, Imported, Source, import};
use tailwater_server::{Config, Flags, Server};

async fn server(path: &Path) -> Server {
    let settings = [("tcp.address", "127.0.0.1:0"), ("http.enabled", "false")];
    let settings = settings.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned()));
    let flags = Flags {
        path: Some(path.to_owned()),
        settings: settings.collect(),
        has_default_root_credentials: true,
        ..Flags::default()
    };
    let (config, _) = Config::load(&flags, &BTreeMap::new()).expect("a configuration");
    Server::start(config).await.expect("a server")
}

fn source(server: &Server, password: &str) -> Source {
    Source {
        address: server.addresses().tcp.expect("an address").to_string(),
        username: "iggy".to_owned(),
        password: password.to_owned(),
    }
}

fn id(name: &str) -> Identifier {
    name.try_into().expect("an identifier")
}

async fn send(client: &IggyClient, partition: u32, payloads: std::ops::Range<usize>) {
    let message = |number: usize| {
        let key = HeaderKey::try_from("number").expect("a key");
        let value = HeaderValue::try_from(number.to_string().as_str()).expect("a value");
        IggyMessage::builder()
            .id(1000 + number as u128)
            .payload(format!("message {number}").into())
            .user_headers(BTreeMap::from([(key, value)]))
            .build()
            .expect("a message")
    };
    let mut messages: Vec<_> = payloads.map(message).collect();
    let partitioning = Partitioning::partition_id(partition);
    let (stream, topic) = (id("shop"), id("orders"));
    let sent = client.send_messages(&stream, &topic, &partitioning, &mut messages).await;
    sent.expect("a send");
}

/// Runs an import on a thread that may block, because the import is synchronous.
async fn run(
    source: &Source,
    stream: Option<&'static str>,
    directory: &Path,
) -> Result<Imported, ImportError> {
    let (source, directory) = (source.clone(), directory.to_owned());
    let imported =
        tokio::task::spawn_blocking(move || import(&source, stream, &directory, &mut |_| ()));
    imported.await.expect("no panic")
}

/// Returns the ids and payloads of a partition's messages, after checking their offsets.
fn messages(directory: &Path, topic: TopicId, partition: u32) -> Vec<(u128, String)> {
    let log = Log::open(directory, &LogOptions::default()).expect("a log");
    let partition = log.partition(topic.partition(partition)).expect("a partition");
    let mut found = Vec::new();
    loop {
        let next = found.len() as u64;
        let polled = partition.poll(Strategy::Offset(next), 1000).expect("a poll").to_vec();
        let mut rest = polled.as_slice();
        while !rest.is_empty() {
            let batch = Batch::decode_verified(rest).expect("a batch");
            for message in batch.messages() {
                let offset = batch.header().base_offset + u64::from(message.offset_delta);
                assert_eq!(offset, found.len() as u64);
                assert!(!message.user_headers.is_empty());
                let payload = String::from_utf8(message.payload.to_vec()).expect("text");
                found.push((message.id, payload));
            }
            rest = &rest[batch.header().length as usize..];
        }
        if found.len() as u64 == next {
            return found;
        }
    }
}

fn expected(numbers: std::ops::Range<usize>) -> Vec<(u128, String)> {
    numbers.map(|number| (1000 + number as u128, format!("message {number}"))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_is_complete_and_resumes_where_it_ended() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(&directory.path().join("source")).await;
    let target: PathBuf = directory.path().join("target");
    let source = source(&server, "iggy");
    let url = format!("iggy://iggy:iggy@{}", source.address);
    let client = IggyClient::from_connection_string(&url).expect("a client");
    client.connect().await.expect("a connection");
    client.create_stream("first").await.expect("a stream");
    client.create_stream("shop").await.expect("a stream");
    let options = TopicCreateOptions { partitions_count: Some(2), ..TopicCreateOptions::default() };
    client.create_topic(&id("shop"), "orders", &options).await.expect("a topic");
    let (stream, topic) = {
        let info = client.get_stream(&id("shop")).await.expect("a reply").expect("a stream");
        (info.id, info.topics[0].id)
    };
    let topic = TopicId { stream, topic };
    // More messages than one poll of the import returns, in batches of several sizes.
    send(&client, 0, 0..700).await;
    send(&client, 0, 700..701).await;
    send(&client, 0, 701..2500).await;
    send(&client, 1, 0..10).await;

    let imported = run(&source, None, &target).await.expect("an import");
    assert_eq!((imported.partitions, imported.messages, imported.missed), (2, 2510, 0));
    assert_eq!(messages(&target, topic, 0), expected(0..2500));
    assert_eq!(messages(&target, topic, 1), expected(0..10));

    let again = run(&source, Some("shop"), &target).await.expect("an import");
    assert_eq!(again.messages, 0);
    send(&client, 1, 10..25).await;
    client.create_partitions(&id("shop"), &id("orders"), 1).await.expect("a partition");
    send(&client, 2, 0..3).await;
    let more = run(&source, Some("shop"), &target).await.expect("an import");
    assert_eq!((more.partitions, more.messages), (3, 18));
    assert_eq!(messages(&target, topic, 1), expected(0..25));
    assert_eq!(messages(&target, topic, 2), expected(0..3));

    let error = run(&source, Some("nothing"), &target).await.expect_err("no such stream");
    assert!(error.to_string().ends_with("has no stream 'nothing'"), "{error}");
    // After the stream is renamed in the source, the log has a stream with the same id but another
    // name.
    let options = StreamUpdateOptions::default();
    client.update_stream(&id("first"), "last", &options).await.expect("a name");
    let error = run(&source, None, &target).await.expect_err("another stream");
    assert!(matches!(error, ImportError::Conflict(_)), "{error}");
    server.shutdown().await.expect("a shutdown");
}

/// Regression test: an import silently skipped the messages of a topic that had been purged, or
/// deleted and created again, since the last import.
#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_begins_anew_in_the_source_is_reported_and_nothing_is_imported() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(&directory.path().join("source")).await;
    let target = directory.path().join("target");
    let source = source(&server, "iggy");
    let url = format!("iggy://iggy:iggy@{}", source.address);
    let client = IggyClient::from_connection_string(&url).expect("a client");
    client.connect().await.expect("a connection");
    client.create_stream("shop").await.expect("a stream");
    let create = async || {
        let options =
            TopicCreateOptions { partitions_count: Some(1), ..TopicCreateOptions::default() };
        client.create_topic(&id("shop"), "orders", &options).await.expect("a topic");
        let info = client.get_stream(&id("shop")).await.expect("a reply").expect("a stream");
        TopicId { stream: info.id, topic: info.topics[0].id }
    };
    let topic = create().await;
    send(&client, 0, 0..20).await;
    assert_eq!(run(&source, None, &target).await.expect("an import").messages, 20);
    let refused = async |words: &[&str]| {
        let error = run(&source, None, &target).await.expect_err("another partition");
        assert!(matches!(error, ImportError::Conflict(_)), "{error}");
        let text = error.to_string();
        let place = ["stream 'shop'", "topic 'orders'", "partition 0", "offset 20 of the source"];
        for words in place.iter().chain(words) {
            assert!(text.contains(words), "no '{words}' in: {text}");
        }
        assert_eq!(messages(&target, topic, 0), expected(0..20));
    };

    client.purge_topic(&id("shop"), &id("orders")).await.expect("a purge");
    refused(&["the source ends at offset 0 now"]).await;
    send(&client, 0, 100..105).await;
    refused(&["the source ends at offset 5 now", "another directory"]).await;
    // The source has more messages than were imported.
    send(&client, 0, 105..130).await;
    refused(&["ends at offset 30", "another message at offset 19 now"]).await;

    client.delete_topic(&id("shop"), &id("orders")).await.expect("a deletion");
    assert_eq!(create().await, topic);
    send(&client, 0, 200..203).await;
    refused(&["the source ends at offset 3 now"]).await;

    let other = directory.path().join("other");
    run(&source, None, &other).await.expect("an import into another directory");
    assert_eq!(messages(&other, topic, 0), expected(200..203));
    let log = Log::open(&target, &LogOptions::default()).expect("a log");
    log.delete_topic(topic).expect("a deletion");
    log.close().expect("the log closes");
    drop(log);
    run(&source, None, &target).await.expect("an import of the new topic");
    assert_eq!(messages(&target, topic, 0), expected(200..203));
    server.shutdown().await.expect("a shutdown");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_refuses_a_foreign_directory_and_writes_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = server(&directory.path().join("source")).await;
    let foreign = directory.path().join("foreign");
    let marker = foreign.join("streams/1");
    #[expect(clippy::disallowed_methods, reason = "another program's directory")]
    std::fs::create_dir_all(&marker).expect("a directory");
    let error = run(&source(&server, "iggy"), None, &foreign).await.expect_err("refused");
    assert!(error.to_string().contains("contains another program's files ('streams')"), "{error}");
    assert_eq!(foreign.read_dir().expect("a directory").count(), 1);

    let target = directory.path().join("target");
    let error = run(&source(&server, "wrong"), None, &target).await.expect_err("refused");
    assert!(matches!(error, ImportError::Source(ClientError::Evicted("login"))), "{error}");
    assert!(!target.exists(), "nothing is created before the login");
    server.shutdown().await.expect("a shutdown");
}

/// An imported topic must keep its expiry and its size limit, even after a server has opened the
/// log.
#[tokio::test(flavor = "multi_thread")]
async fn an_imported_topic_keeps_its_expiry_and_size_limit() {
    let directory = tempfile::tempdir().expect("a directory");
    let first = server(&directory.path().join("source")).await;
    let source = source(&first, "iggy");
    let connect = async |address: &str| {
        let url = format!("iggy://iggy:iggy@{address}");
        let client = IggyClient::from_connection_string(&url).expect("a client");
        client.connect().await.expect("a connection");
        client
    };
    let client = connect(&source.address).await;
    client.create_stream("shop").await.expect("a stream");
    let options = TopicCreateOptions {
        partitions_count: Some(2),
        message_expiry: Some(IggyExpiry::ExpireDuration(IggyDuration::new_from_secs(3600))),
        max_topic_size: Some(MaxTopicSize::Custom(IggyByteSize::from(10 << 30))),
        ..TopicCreateOptions::default()
    };
    client.create_topic(&id("shop"), "orders", &options).await.expect("a topic");
    let plain = TopicCreateOptions::default();
    client.create_topic(&id("shop"), "plain", &plain).await.expect("a topic");
    send(&client, 0, 0..5).await;
    let target = directory.path().join("target");
    run(&source, None, &target.join("log")).await.expect("an import");
    first.shutdown().await.expect("a shutdown");

    for _ in 0..2 {
        let second = server(&target).await;
        let address = second.addresses().tcp.expect("an address").to_string();
        let client = connect(&address).await;
        let find = async |name| {
            let found = client.get_topic(&id("shop"), &id(name)).await;
            found.expect("a reply").expect("a topic")
        };
        let orders = find("orders").await;
        assert_eq!((orders.messages_count, orders.partitions_count), (5, 2));
        assert_eq!(u64::from(orders.message_expiry), 3_600_000_000);
        assert_eq!(orders.max_topic_size.as_bytes_u64(), 10 << 30);
        let plain = find("plain").await;
        assert_eq!(plain.message_expiry, IggyExpiry::NeverExpire);
        assert_eq!(plain.max_topic_size, MaxTopicSize::Unlimited);
        drop(client);
        second.shutdown().await.expect("a shutdown");
    }
}
