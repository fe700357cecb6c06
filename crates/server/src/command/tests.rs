//! Tests of command handlers that wait for a metadata change of another handler.

use std::collections::BTreeMap;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use iggy_binary_protocol::WireEncode;
use iggy_binary_protocol::primitives::identifier::{WireIdentifier, WireName};
use iggy_binary_protocol::primitives::options::WireOptions;
use iggy_binary_protocol::primitives::permissions::{
    WireGlobalPermissions, WirePermissions, WireStreamPermissions,
};
use iggy_binary_protocol::requests::partitions::CreatePartitionsRequest;
use iggy_binary_protocol::requests::topics::{CreateTopicRequest, PurgeTopicRequest};
use tailwater_log::TopicOptions;

use super::{Handler, Request, partitions, topics};
use crate::config::{Config, Flags};
use crate::server::Server;
use crate::status::Status;
use crate::users::{NewUser, Permissions};

/// Permission to manage one stream and its topics.
fn manager_of(stream_id: u32) -> Permissions {
    let global = WireGlobalPermissions {
        manage_servers: false,
        read_servers: false,
        manage_users: false,
        read_users: false,
        manage_streams: false,
        read_streams: false,
        manage_topics: false,
        read_topics: false,
        poll_messages: false,
        send_messages: false,
    };
    let stream = WireStreamPermissions {
        stream_id,
        manage_stream: true,
        read_stream: true,
        manage_topics: true,
        read_topics: true,
        poll_messages: true,
        send_messages: true,
        topics: Vec::new(),
    };
    Permissions::from(&WirePermissions { global, streams: vec![stream] })
}

/// Regression test: a handler checked the user's permission on a stream, and then waited while
/// another handler deleted the stream. A new stream got the same id, and the request was executed
/// on the new stream without a permission on it.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_change_needs_a_permission_on_the_object_that_it_changes() {
    let directory = tempfile::tempdir().expect("a directory");
    let settings = [("tcp.address".to_owned(), "127.0.0.1:0".to_owned())];
    let flags = Flags {
        path: Some(directory.path().join("data")),
        settings: settings.into_iter().collect(),
        ..Flags::default()
    };
    let config = Config::load(&flags, &BTreeMap::new()).expect("a valid configuration").0;
    let server = Server::start(config).await.expect("the server starts");
    let state = server.state();
    let create = || {
        let stream = state.log.create_stream(None, "stream").expect("a stream");
        let topic = state.log.create_topic(stream, None, "topic", &TopicOptions::default(), 1);
        (stream, topic.expect("a topic"))
    };
    let (stream, topic) = create();
    let new = NewUser {
        name: "manager",
        password: "password",
        is_active: true,
        permissions: Some(manager_of(stream)),
    };
    let user = tokio::task::block_in_place(|| state.users.create(&state.log, new));
    let user = user.expect("a user").id;

    let stream_id = WireIdentifier::Numeric(stream);
    let topic_id = WireIdentifier::Numeric(topic.topic);
    let name = WireName::new("other").expect("a valid name");
    let (partitions_count, options) = (1, WireOptions::empty());
    let create_topic =
        CreateTopicRequest { stream_id: stream_id.clone(), partitions_count, name, options };
    let create_partitions = CreatePartitionsRequest {
        stream_id: stream_id.clone(),
        topic_id: topic_id.clone(),
        partitions_count,
    };
    let purge_topic = PurgeTopicRequest { stream_id, topic_id };
    let requests: [(Handler, _); 3] = [
        (topics::create_topic, create_topic.to_bytes()),
        (partitions::create_partitions, create_partitions.to_bytes()),
        (topics::purge_topic, purge_topic.to_bytes()),
    ];
    let session = state.sessions.open("127.0.0.1:1".parse().expect("an address"));
    let changing = state.changing.lock();
    let begin = Barrier::new(requests.len() + 1);
    thread::scope(|scope| {
        let waiting: Vec<_> = requests
            .iter()
            .map(|(handler, body)| {
                let (session, begin) = (Arc::clone(&session), &begin);
                scope.spawn(move || {
                    begin.wait();
                    handler(state, &Request { session: &session, user, body, reservation: None })
                })
            })
            .collect();
        begin.wait();
        // After this time, all handlers very probably wait for the lock. A handler that does not
        // wait yet makes the test weaker, but does not fail it.
        thread::sleep(Duration::from_millis(50));
        state.users.forget_stream(&state.log, stream).expect("permissions are removed");
        state.log.delete_stream(stream).expect("the stream is deleted");
        assert_eq!(create(), (stream, topic), "the ids are reused");
        drop(changing);
        for handler in waiting {
            let outcome = handler.join().expect("no panic");
            assert_eq!(outcome.expect_err("no permission"), Status::UNAUTHORIZED);
        }
    });
    drop(session);
    server.shutdown().await.expect("the server shuts down");
}
