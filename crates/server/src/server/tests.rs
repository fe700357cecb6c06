//! Tests of starting and shutting down: the state after a failed start, and the permissions of
//! files.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use tailwater_format::message::batch::Builder;
use tailwater_log::{Durability, ErrorKind, Log, LogOptions, TopicOptions};

use super::Server;
use crate::config::{Config, Flags};

fn config(path: &Path, settings: &[(&str, &str)]) -> Config {
    let defaults = [("tcp.address", "127.0.0.1:0"), ("http.address", "127.0.0.1:0")];
    let settings = defaults.iter().chain(settings);
    let settings = settings.map(|(key, text)| ((*key).to_owned(), (*text).to_owned()));
    let flags =
        Flags { path: Some(path.to_owned()), settings: settings.collect(), ..Flags::default() };
    Config::load(&flags, &BTreeMap::new()).expect("a valid configuration").0
}

/// Regression test: a start that failed had already created the root user, and its generated
/// password was lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_start_creates_no_root_user() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("data");
    let taken = TcpListener::bind("127.0.0.1:0").expect("an address");
    let address = taken.local_addr().expect("an address").to_string();
    let error = Server::start(config(&path, &[("http.address", &address)])).await;
    let error = error.expect_err("the address is taken").to_string();
    assert!(error.starts_with(&format!("http.address: cannot listen on {address}")), "{error}");
    drop(taken);

    let server = Server::start(config(&path, &[])).await.expect("the server starts");
    assert!(server.root_password().is_some_and(|password| password.len() > 20));
    server.shutdown().await.expect("the server shuts down");
    let server = Server::start(config(&path, &[])).await.expect("the server starts");
    assert_eq!(server.root_password(), None);
    server.shutdown().await.expect("the server shuts down");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_owner_may_read_a_new_directory() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("above/data");
    let server = Server::start(config(&path, &[])).await.expect("the server starts");
    let mode = path.metadata().expect("a directory").permissions().mode();
    assert_eq!(mode & 0o077, 0, "{mode:o}");
    server.shutdown().await.expect("the server shuts down");
}

/// Regression test: two servers with the same `system.runtime.path` replaced and removed each
/// other's file.
#[tokio::test(flavor = "multi_thread")]
async fn the_current_configuration_file_of_another_server_is_left_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let runtime = directory.path().join("runtime");
    let runtime_path = runtime.to_str().expect("text");
    let file = runtime.join("current_config.toml");
    let [first, second] = ["first", "second"]
        .map(|name| config(&directory.path().join(name), &[("system.runtime.path", runtime_path)]));
    let server = Server::start(first.clone()).await.expect("the server starts");
    let error = Server::start(second.clone()).await.expect_err("the file belongs to the first");
    assert!(error.to_string().contains("belongs to another server"), "{error}");
    assert!(file.exists());
    server.shutdown().await.expect("the server shuts down");
    assert!(!file.exists());
    let server = Server::start(second).await.expect("the server starts");
    server.shutdown().await.expect("the server shuts down");
}

/// Regression test: in a directory that existed before, everyone could read the files that the
/// server created.
#[tokio::test(flavor = "multi_thread")]
async fn only_the_owner_may_read_the_files_in_an_existing_directory() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("data");
    #[expect(clippy::disallowed_methods, reason = "the directory existed before the server")]
    std::fs::create_dir(&path).expect("a directory");
    std::fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("permissions");
    let server = Server::start(config(&path, &[])).await.expect("the server starts");
    let log = &server.state().log;
    let stream = log.create_stream(None, "s").expect("a stream");
    let options = TopicOptions::default().with_durability(Durability::Disk);
    let topic = log.create_topic(stream, None, "t", &options, 1).expect("a topic");
    let partition = log.partition(topic.partition(0)).expect("a partition");
    let mut batch = Builder::new(0);
    batch.push(1, 0, b"secret", b"").expect("a message");
    partition.append(&batch.finish()).expect("an append").ticket.wait().expect("persisted");
    let (mut directories, mut files) = (vec![path], 0);
    while let Some(directory) = directories.pop() {
        for entry in directory.read_dir().expect("a list").map(|entry| entry.expect("an entry")) {
            let metadata = entry.metadata().expect("metadata");
            let mode = metadata.permissions().mode();
            assert_eq!(mode & 0o077, 0, "{mode:o} {}", entry.path().display());
            if metadata.is_dir() {
                directories.push(entry.path());
            } else {
                files += 1;
            }
        }
    }
    assert!(files > 5, "{files} files");
    server.shutdown().await.expect("the server shuts down");
}

/// Regression test: if the configured certificate did not exist, the server started with a
/// self-signed one.
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_cannot_be_read_stops_the_start() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("data");
    let there = directory.path().to_str().expect("a path in UTF-8");
    let missing = format!("{there}/nowhere.pem");
    for (section, other) in [("tcp", "http"), ("http", "tcp")] {
        for certificate in [missing.as_str(), there] {
            let [enabled, certificate_key, key] =
                ["enabled", "cert_file", "key_file"].map(|name| format!("{section}.tls.{name}"));
            let settings = [
                (enabled.as_str(), "true"),
                (&certificate_key, certificate),
                (&key, certificate),
                (&format!("{other}.enabled"), "false"),
            ];
            let error = Server::start(config(&path, &settings)).await.expect_err("no certificate");
            let expected = format!("{certificate_key}: {certificate}: ");
            assert!(error.to_string().starts_with(&expected), "{error}");
        }
    }
    assert!(!path.exists(), "nothing was created");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_current_configuration_file_exists_while_the_server_runs() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("data");
    let file = path.join("runtime/current_config.toml");
    let server = Server::start(config(&path, &[])).await.expect("the server starts");
    assert!(file.exists());
    // A second server cannot use the directory, and must not change `current_config.toml` of the
    // first server.
    Server::start(config(&path, &[])).await.expect_err("the directory is in use");
    assert!(file.exists());
    server.shutdown().await.expect("the server shuts down");
    assert!(!file.exists(), "it names addresses that nobody listens on");

    // A killed server leaves the file. The next start must remove it, even if that start fails
    // later.
    let server = Server::start(config(&path, &[])).await.expect("the server starts");
    drop(server);
    assert!(file.exists());
    let log = loop {
        // The tasks of the dropped server end in the background, and hold the lock of the log until
        // then.
        match Log::open(path.join("log"), &LogOptions::default()) {
            Ok(log) => break log,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Busy, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    log.set_records(&[("user/0".to_owned(), Some("{".to_owned()))]).expect("a record");
    log.close().expect("closed");
    Server::start(config(&path, &[])).await.expect_err("a damaged record");
    assert!(!file.exists(), "it names addresses that nobody listens on");
}

#[tokio::test(flavor = "multi_thread")]
async fn default_credentials_on_a_public_address_are_reported() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("data");
    let mut first = config(&path, &[("tcp.address", "0.0.0.0:0")]);
    first.root = crate::config::Root::Default;
    for (config, is_exposed) in [
        (first, true),
        // The directory already has a root user, so the credentials in the configuration have no
        // effect.
        (config(&path, &[("tcp.address", "0.0.0.0:0")]), true),
        (config(&path, &[]), false),
        (config(&directory.path().join("other"), &[("tcp.address", "0.0.0.0:0")]), false),
    ] {
        let server = Server::start(config).await.expect("the server starts");
        assert_eq!(server.has_exposed_defaults(), is_exposed, "{server:?}");
        server.shutdown().await.expect("the server shuts down");
    }
}
