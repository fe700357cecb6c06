//! Tests of permissions: each command must be refused without the required permission, and executed
//! with it.

use std::collections::BTreeMap;

use iggy::prelude::*;

use crate::common::{Scene, assert_refused, create_topic, id, message, numbered, send};

async fn user(
    root: &IggyClient,
    scene: &Scene,
    name: &str,
    may: Option<Permissions>,
) -> IggyClient {
    let password = format!("password-of-{name}");
    root.create_user(name, &password, UserStatus::Active, may).await.expect("a user");
    scene.client_of(name, &password).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_without_permissions_may_do_nothing() {
    let scene = Scene::new().await;
    let root = scene.client().await;
    create_topic(&root, 1).await;
    send(&root, 0, &numbered("m", 3)).await;
    root.create_consumer_group(&id("s"), &id("t"), "g").await.expect("a group");
    let nobody = user(&root, &scene, "nobody", None).await;
    let (s, t, g) = (id("s"), id("t"), id("g"));
    let consumer = Consumer::new(id("reader"));
    let unauthorized = &IggyError::Unauthorized;

    assert_refused(nobody.get_stats().await, unauthorized);
    assert_refused(nobody.get_clients().await, unauthorized);
    assert_refused(nobody.get_client(1).await, unauthorized);
    let types = vec![SystemSnapshotType::Test];
    assert_refused(nobody.snapshot(SnapshotCompression::Stored, types).await, unauthorized);
    assert_refused(nobody.get_users().await, unauthorized);
    assert_refused(nobody.get_user(&id("iggy")).await, unauthorized);
    let created = nobody.create_user("other", "password", UserStatus::Active, None).await;
    assert_refused(created, unauthorized);
    assert_refused(nobody.delete_user(&id("iggy")).await, unauthorized);
    let options = UserUpdateOptions::default();
    let updated = nobody.update_user(&id("iggy"), Some("x-name"), None, &options).await;
    assert_refused(updated, unauthorized);
    assert_refused(nobody.update_permissions(&id("nobody"), None).await, unauthorized);
    let changed = nobody.change_password(&id("iggy"), "iggy", "another").await;
    assert_refused(changed, unauthorized);

    assert_refused(nobody.get_streams().await, unauthorized);
    assert_refused(nobody.get_stream(&s).await, unauthorized);
    assert_refused(nobody.create_stream("mine").await, unauthorized);
    let options = StreamUpdateOptions::default();
    assert_refused(nobody.update_stream(&s, "mine", &options).await, unauthorized);
    assert_refused(nobody.delete_stream(&s).await, unauthorized);
    assert_refused(nobody.purge_stream(&s).await, unauthorized);
    assert_refused(nobody.get_topics(&s).await, unauthorized);
    assert_refused(nobody.get_topic(&s, &t).await, unauthorized);
    let options = TopicCreateOptions::default();
    assert_refused(nobody.create_topic(&s, "mine", &options).await, unauthorized);
    let options = TopicUpdateOptions::default();
    assert_refused(nobody.update_topic(&s, &t, "mine", &options).await, unauthorized);
    assert_refused(nobody.delete_topic(&s, &t).await, unauthorized);
    assert_refused(nobody.purge_topic(&s, &t).await, unauthorized);
    assert_refused(nobody.create_partitions(&s, &t, 1).await, unauthorized);
    assert_refused(nobody.delete_partitions(&s, &t, 1).await, unauthorized);
    assert_refused(nobody.delete_segments(&s, &t, 0, 1).await, unauthorized);

    let mut messages = [message("m")];
    let partition = Partitioning::partition_id(0);
    assert_refused(nobody.send_messages(&s, &t, &partition, &mut messages).await, unauthorized);
    let first = PollingStrategy::first();
    let polled = nobody.poll_messages(&s, &t, Some(0), &consumer, &first, 1, false).await;
    assert_refused(polled, unauthorized);
    assert_refused(nobody.flush_unsaved_buffer(&s, &t, 0, false).await, unauthorized);
    let offset = nobody.get_consumer_offset(&consumer, &s, &t, Some(0)).await;
    assert_refused(offset, unauthorized);
    let stored = nobody.store_consumer_offset(&consumer, &s, &t, Some(0), 0).await;
    assert_refused(stored, unauthorized);
    let deleted = nobody.delete_consumer_offset(&consumer, &s, &t, Some(0)).await;
    assert_refused(deleted, unauthorized);

    assert_refused(nobody.get_consumer_groups(&s, &t).await, unauthorized);
    assert_refused(nobody.get_consumer_group(&s, &t, &g).await, unauthorized);
    assert_refused(nobody.create_consumer_group(&s, &t, "mine").await, unauthorized);
    assert_refused(nobody.delete_consumer_group(&s, &t, &g).await, unauthorized);
    assert_refused(nobody.join_consumer_group(&s, &t, &g).await, unauthorized);
    assert_refused(nobody.leave_consumer_group(&s, &t, &g).await, unauthorized);

    // Commands about the user's own client, tokens and password require no permission.
    nobody.get_me().await.expect("itself");
    nobody.get_personal_access_tokens().await.expect("the list of tokens");
    let streams = root.get_streams().await.expect("streams");
    assert_eq!((streams.len(), streams[0].messages_count), (1, 3), "nothing was changed");
}

#[tokio::test(flavor = "multi_thread")]
async fn permissions_permit_exactly_what_they_name() {
    let scene = Scene::new().await;
    let root = scene.client().await;
    create_topic(&root, 1).await;
    root.create_topic(&id("s"), "private", &TopicCreateOptions::default()).await.expect("a topic");
    let stream = root.get_stream(&id("s")).await.expect("a reply").expect("a stream");
    let topic = root.get_topic(&id("s"), &id("t")).await.expect("a reply").expect("a topic");
    let of_topic = TopicPermissions {
        manage_topic: false,
        read_topic: false,
        poll_messages: false,
        send_messages: true,
    };
    let of_stream = StreamPermissions {
        manage_stream: false,
        read_stream: false,
        manage_topics: false,
        read_topics: false,
        poll_messages: false,
        send_messages: false,
        topics: Some(BTreeMap::from([(topic.id as usize, of_topic)])),
    };
    let may_send = Permissions {
        global: GlobalPermissions::default(),
        streams: Some(BTreeMap::from([(stream.id as usize, of_stream)])),
    };
    let producer = user(&root, &scene, "producer", Some(may_send)).await;
    send(&producer, 0, &numbered("m", 2)).await;
    let partition = Partitioning::partition_id(0);
    let elsewhere =
        producer.send_messages(&id("s"), &id("private"), &partition, &mut [message("m")]).await;
    assert_refused(elsewhere, &IggyError::Unauthorized);
    let consumer = Consumer::new(id("reader"));
    let first = PollingStrategy::first();
    let (s, t) = (id("s"), id("t"));
    let polled = producer.poll_messages(&s, &t, Some(0), &consumer, &first, 1, false).await;
    assert_refused(polled, &IggyError::Unauthorized);

    let global = GlobalPermissions { poll_messages: true, ..GlobalPermissions::default() };
    let may_poll = Permissions { global, streams: None };
    let reader = user(&root, &scene, "reader", Some(may_poll)).await;
    let polled = reader.poll_messages(&s, &t, Some(0), &consumer, &first, 10, false).await;
    assert_eq!(polled.expect("a poll").count, 2);
    // Revoking a permission must affect the next request of a connected client.
    root.update_permissions(&id("reader"), None).await.expect("no permissions");
    let polled = reader.poll_messages(&s, &t, Some(0), &consumer, &first, 10, false).await;
    assert_refused(polled, &IggyError::Unauthorized);
}

#[tokio::test(flavor = "multi_thread")]
async fn users_passwords_and_tokens() {
    let scene = Scene::new().await;
    let root = scene.client().await;
    let ann = user(&root, &scene, "ann", None).await;
    let again = root.create_user("ann", "password", UserStatus::Active, None).await;
    assert_refused(again, &IggyError::UserAlreadyExists);
    let address = scene.address();
    let wrong = IggyClient::from_connection_string(&format!("iggy://ann:wrong@{address}"));
    let wrong = wrong.expect("a client");
    assert!(wrong.connect().await.is_err());
    let wrong = ann.change_password(&id("ann"), "wrong-password", "another-password").await;
    assert_refused(wrong, &IggyError::InvalidCredentials);
    let changed = ann.change_password(&id("ann"), "password-of-ann", "another-password").await;
    changed.expect("another password");
    let ann = scene.client_of("ann", "another-password").await;

    let expiry = PersonalAccessTokenExpiry::ExpireDuration(IggyDuration::ONE_SECOND);
    let token = ann.create_personal_access_token("short", expiry).await.expect("a token");
    let tokens = ann.get_personal_access_tokens().await.expect("tokens");
    assert_eq!(tokens.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["short"]);
    let by_token = scene.client().await;
    let identity = by_token.login_with_personal_access_token(&token.token).await;
    assert_ne!(identity.expect("a login").user_id, 0);
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    let by_token = scene.client().await;
    assert!(by_token.login_with_personal_access_token(&token.token).await.is_err());

    let options = UserUpdateOptions::default();
    let inactive = Some(UserStatus::Inactive);
    root.update_user(&id("ann"), None, inactive, &options).await.expect("an inactive user");
    let refused =
        IggyClient::from_connection_string(&format!("iggy://ann:another-password@{address}"));
    assert!(refused.expect("a client").connect().await.is_err());
    assert_refused(root.delete_user(&id("iggy")).await, &IggyError::CannotDeleteUser(0));
    root.delete_user(&id("ann")).await.expect("a deletion");
    assert!(root.get_user(&id("ann")).await.expect("a reply").is_none());
}

/// A new stream or topic may get the id of a deleted one. Users with permissions on the deleted one
/// must not have them on the new one.
#[tokio::test(flavor = "multi_thread")]
async fn permissions_end_with_the_stream_or_topic() {
    let scene = Scene::new().await;
    let root = scene.client().await;
    create_topic(&root, 1).await;
    send(&root, 0, &numbered("m", 2)).await;
    let all = TopicPermissions {
        manage_topic: true,
        read_topic: true,
        poll_messages: true,
        send_messages: true,
    };
    let of_stream = StreamPermissions {
        manage_stream: false,
        read_stream: false,
        manage_topics: false,
        read_topics: false,
        poll_messages: false,
        send_messages: true,
        topics: Some(BTreeMap::from([(0, all)])),
    };
    let may = Permissions {
        global: GlobalPermissions::default(),
        streams: Some(BTreeMap::from([(0, of_stream)])),
    };
    let alice = user(&root, &scene, "alice", Some(may)).await;
    let (s, t) = (id("s"), id("t"));
    let consumer = Consumer::new(id("reader"));
    let poll = async || {
        let first = PollingStrategy::first();
        alice.poll_messages(&s, &t, Some(0), &consumer, &first, 1, false).await
    };
    let append = async || {
        let partition = Partitioning::partition_id(0);
        alice.send_messages(&s, &t, &partition, &mut [message("m")]).await
    };
    assert_eq!(poll().await.expect("a poll").count, 1);

    let options = TopicCreateOptions::default();
    root.delete_topic(&s, &t).await.expect("a deletion");
    let again = root.create_topic(&s, "t", &options).await.expect("a topic");
    assert_eq!(again.id, 0, "the id is used again");
    send(&root, 0, &numbered("secret", 1)).await;
    assert_refused(poll().await, &IggyError::Unauthorized);
    append().await.expect("a send: the permission is the stream's");

    root.delete_stream(&s).await.expect("a deletion");
    create_topic(&root, 1).await;
    let again = root.get_stream(&s).await.expect("a reply").expect("a stream");
    assert_eq!(again.id, 0, "the id is used again");
    assert_refused(append().await, &IggyError::Unauthorized);
    let found = root.get_user(&id("alice")).await.expect("a reply").expect("a user");
    let left = found.permissions.and_then(|permissions| permissions.streams);
    assert!(left.is_none_or(|streams| streams.is_empty()));
}
