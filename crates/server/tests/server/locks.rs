//! Two servers on one directory, which is possible if the LOCK of the log is removed.

use iggy::prelude::*;
use tailwater_server::Server;

use crate::common::{config, create_topic, id, message, poll, send};

async fn client(server: &Server) -> IggyClient {
    let address = server.addresses().tcp.expect("an address");
    let url = format!("iggy://iggy:iggy@{address}?reconnection_retries=0&heartbeat_interval=1h");
    let client = IggyClient::from_connection_string(&url).expect("a client");
    client.connect().await.expect("a connection");
    client
}

/// Regression test: after the LOCK was removed and another server was started, both servers wrote
/// to the same files, and messages that either of them had acknowledged were lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_lock_was_removed_leaves_the_log_to_the_other() {
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let path = scratch.path();
    let first = Server::start(config(path, &[])).await.expect("a server");
    let of_first = client(&first).await;
    create_topic(&of_first, 1).await;
    send(&of_first, 0, &["first".to_owned()]).await;
    let lock = path.join("log/LOCK");
    #[expect(clippy::disallowed_methods, reason = "as a user does")]
    std::fs::remove_file(&lock).expect("a removal");

    let second = Server::start(config(path, &[])).await.expect("a server");
    let of_second = client(&second).await;
    send(&of_second, 0, &["second".to_owned()]).await;
    // An append checks the LOCK if the last check is 10 ms ago.
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    let partition = Partitioning::partition_id(0);
    let sent = of_first.send_messages(&id("s"), &id("t"), &partition, &mut [message("lost")]).await;
    sent.expect_err("the log belongs to the second server");
    of_first.create_stream("other").await.expect_err("the log belongs to the second server");
    drop(of_first);
    let error = first.shutdown().await.expect_err("the log belongs to the second server");
    let text = error.to_string();
    assert!(text.contains(&lock.display().to_string()), "{text}");
    assert!(text.contains("make sure that no other process uses the directory"), "{text}");
    assert!(path.join("runtime/current_config.toml").exists(), "it belongs to the second server");

    send(&of_second, 0, &["third".to_owned()]).await;
    drop(of_second);
    second.shutdown().await.expect("a shutdown");
    let server = Server::start(config(path, &[])).await.expect("a server");
    let client = client(&server).await;
    let found = poll(&client, 0, PollingStrategy::first(), 10).await;
    assert_eq!(found, ["first", "second", "third"]);
    drop(client);
    server.shutdown().await.expect("a shutdown");
}
