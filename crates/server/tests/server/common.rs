//! A server in the process of the test, and helpers for its clients.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;

use iggy::prelude::*;
use tailwater_server::{Config, Flags, Server};

/// A server that can be stopped and started again, and its temporary directory.
pub(crate) struct Scene {
    server: Option<Server>,
    settings: Vec<(String, String)>,
    directory: tempfile::TempDir,
}

impl Scene {
    /// Starts a server in a new directory.
    pub(crate) async fn new() -> Self {
        Self::with(&[]).await
    }

    /// Starts a server in a new directory, with additional settings.
    pub(crate) async fn with(settings: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let settings = settings.iter().map(|(key, value)| ((*key).into(), (*value).into()));
        let mut scene = Self { server: None, settings: settings.collect(), directory };
        scene.start().await;
        scene
    }

    /// Starts the server.
    pub(crate) async fn start(&mut self) {
        let config = config(self.directory.path(), &self.settings);
        self.server = Some(Server::start(config).await.expect("a server"));
    }

    /// Shuts the server down.
    pub(crate) async fn stop(&mut self) {
        let server = self.server.take().expect("a running server");
        let shutdown = server.shutdown().await.expect("a shutdown");
        assert_eq!(shutdown.abandoned, 0);
    }

    /// Sets a key of the configuration for the next start.
    pub(crate) fn set(&mut self, key: &str, value: &str) {
        self.settings.push((key.into(), value.into()));
    }

    /// Returns the server's directory `system.path`.
    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        let server = self.server.as_ref().expect("a running server");
        server.addresses().tcp.expect("an address")
    }

    /// Returns a client that is logged in as the root user.
    pub(crate) async fn client(&self) -> IggyClient {
        self.client_of("iggy", "iggy").await
    }

    /// Returns a client that is logged in with this user name and password.
    pub(crate) async fn client_of(&self, name: &str, password: &str) -> IggyClient {
        let address = self.address();
        let url = format!("iggy://{name}:{password}@{address}");
        let client = IggyClient::from_connection_string(&url).expect("a client");
        client.connect().await.expect("a connection");
        client
    }
}

/// Returns the configuration of a server that uses `directory` and listens on a free port. `more`
/// are additional keys with their values.
pub(crate) fn config(directory: &Path, more: &[(String, String)]) -> Config {
    let path = directory.display().to_string();
    let mut settings: Vec<(String, String)> =
        [("system.path", path.as_str()), ("tcp.address", "127.0.0.1:0"), ("http.enabled", "false")]
            .map(|(key, value)| (key.into(), value.into()))
            .into();
    settings.extend(more.iter().cloned());
    let flags = Flags { settings, has_default_root_credentials: true, ..Flags::default() };
    Config::load(&flags, &BTreeMap::new()).expect("a configuration").0
}

/// Returns the identifier of a stream, topic, group or user from its name, or its number as text.
pub(crate) fn id(name: &str) -> Identifier {
    name.try_into().expect("an identifier")
}

/// Creates the stream `s`, and in it the topic `t` with `partitions` partitions.
pub(crate) async fn create_topic(client: &IggyClient, partitions: u32) {
    client.create_stream("s").await.expect("a stream");
    let options =
        TopicCreateOptions { partitions_count: Some(partitions), ..TopicCreateOptions::default() };
    client.create_topic(&id("s"), "t", &options).await.expect("a topic");
}

/// Sends one message per payload to a partition of the topic `t` in the stream `s`.
pub(crate) async fn send(client: &IggyClient, partition: u32, payloads: &[String]) {
    let mut messages: Vec<IggyMessage> = payloads.iter().map(|it| message(it)).collect();
    let partitioning = Partitioning::partition_id(partition);
    let sent = client.send_messages(&id("s"), &id("t"), &partitioning, &mut messages).await;
    sent.expect("a send");
}

pub(crate) fn message(payload: &str) -> IggyMessage {
    IggyMessage::builder().payload(payload.to_owned().into()).build().expect("a message")
}

/// Polls a partition of the topic `t` in the stream `s`, and returns the payloads.
pub(crate) async fn poll(
    client: &IggyClient,
    partition: u32,
    strategy: PollingStrategy,
    count: u32,
) -> Vec<String> {
    let consumer = Consumer::new(id("reader"));
    let polled = client
        .poll_messages(&id("s"), &id("t"), Some(partition), &consumer, &strategy, count, false)
        .await
        .expect("a poll");
    payloads(&polled)
}

pub(crate) fn payloads(polled: &PolledMessages) -> Vec<String> {
    let text = |message: &IggyMessage| String::from_utf8_lossy(&message.payload).into_owned();
    polled.messages.iter().map(text).collect()
}

/// Returns `count` different payloads, each of which begins with `prefix`.
pub(crate) fn numbered(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{prefix}-{number}")).collect()
}

/// Asserts that a call failed with a given Iggy error.
#[track_caller]
pub(crate) fn assert_refused<T: std::fmt::Debug>(done: Result<T, IggyError>, error: &IggyError) {
    let found = done.expect_err("an error");
    assert_eq!(found.as_code(), error.as_code(), "{found:?} instead of {error:?}");
}
