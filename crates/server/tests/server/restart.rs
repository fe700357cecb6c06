//! Tests of state that must survive a restart of the server.

use iggy::prelude::*;

use crate::common::{Scene, create_topic, id, message, numbered, poll, send};

#[tokio::test(flavor = "multi_thread")]
async fn all_state_survives_a_restart() {
    let mut scene = Scene::new().await;
    let client = scene.client().await;
    create_topic(&client, 2).await;
    send(&client, 1, &numbered("m", 20)).await;
    let consumer = Consumer::new(id("reader"));
    let stored = client.store_consumer_offset(&consumer, &id("s"), &id("t"), Some(1), 7).await;
    stored.expect("an offset");
    client.create_consumer_group(&id("s"), &id("t"), "g").await.expect("a group");
    let ann = client.create_user("ann", "secret-of-ann", UserStatus::Active, None).await;
    let ann = ann.expect("a user");
    let expiry = PersonalAccessTokenExpiry::NeverExpire;
    let token = client.create_personal_access_token("robot", expiry).await.expect("a token");
    let before = client.get_topic(&id("s"), &id("t")).await.expect("a reply").expect("a topic");
    drop(client);
    scene.stop().await;
    scene.start().await;

    let client = scene.client().await;
    let after = client.get_topic(&id("s"), &id("t")).await.expect("a reply").expect("a topic");
    assert_eq!((after.created_at, after.messages_count), (before.created_at, 20));
    assert_eq!(poll(&client, 1, PollingStrategy::next(), 2).await, ["m-8", "m-9"]);
    let groups = client.get_consumer_groups(&id("s"), &id("t")).await.expect("groups");
    assert_eq!(groups.len(), 1);
    let users = client.get_users().await.expect("users");
    assert_eq!(users.iter().map(|it| it.username.as_str()).collect::<Vec<_>>(), ["iggy", "ann"]);
    drop(scene.client_of("ann", "secret-of-ann").await);
    let with_token =
        TcpClient::from_connection_string(&format!("iggy://{}@{}", token.token, scene.address()));
    let with_token = IggyClient::new(ClientWrapper::Tcp(with_token.expect("a client")));
    with_token.connect().await.expect("a connection");
    assert_eq!(with_token.get_me().await.expect("myself").user_id, Some(0));
    assert_ne!(ann.id, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_reconnects_when_the_server_is_back() {
    let mut scene = Scene::new().await;
    let address = scene.address().to_string();
    let client = scene.client().await;
    create_topic(&client, 1).await;
    send(&client, 0, &numbered("before", 3)).await;
    scene.stop().await;
    // The server listens on the same address again. The test assumes that no other program has
    // taken the port.
    scene.set("tcp.address", &address);
    scene.start().await;
    let mut last = None;
    for _ in 0..100 {
        let mut messages = [message("after")];
        let partition = Partitioning::partition_id(0);
        match client.send_messages(&id("s"), &id("t"), &partition, &mut messages).await {
            Ok(_) => {
                let all = poll(&client, 0, PollingStrategy::first(), 10).await;
                assert_eq!(all, ["before-0", "before-1", "before-2", "after"]);
                return;
            }
            Err(error) => last = Some(error),
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("{last:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn iggys_own_directory_is_refused() {
    use tailwater_io::Storage;
    use tailwater_io::posix::PosixStorage;
    use tailwater_server::Server;

    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let storage = PosixStorage::new();
    storage.create_directory(&directory.path().join("streams")).expect("a directory");
    let config = crate::common::config(directory.path(), &[]);
    let error = Server::start(config).await.expect_err("a refusal").to_string();
    assert!(error.contains("Apache Iggy") && error.contains("streams"), "{error}");
    let entries = storage.list(directory.path()).expect("the entries of the directory");
    assert_eq!(entries.len(), 1, "nothing was written");
}
