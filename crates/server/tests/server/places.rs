//! Tests of the limit on the number of connections.

use std::time::Duration;

use iggy::prelude::*;
use iggy_binary_protocol::{HEADER_SIZE, Operation, codes};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::common::Scene;
use crate::repeated::Raw;

/// Time after which a test regards the server as hanging.
const HANG: Duration = Duration::from_secs(120);

/// Regression test: connections that did not log in took all places, and nobody could log in.
#[tokio::test(flavor = "multi_thread")]
async fn connections_that_do_not_log_in_keep_nobody_from_logging_in() {
    let scene = Scene::with(&[("limits.connections_max", "10")]).await;
    let mut others = Vec::new();
    for _ in 0..10 {
        others.push(TcpStream::connect(scene.address()).await.expect("a connection"));
    }
    let first = timeout(HANG, scene.client()).await.expect("a login in time");
    for number in 0..30 {
        let mut raw = Raw::connect(&scene, 5).await;
        if number % 2 == 0 {
            // Answered pings do not make it a login.
            let ping = raw.frame(Operation::NonReplicated, 0, codes::PING_CODE, &[]);
            let _ = raw.stream.write_all(&ping).await;
            let _ = raw.stream.read(&mut [0; HEADER_SIZE]).await;
        }
        others.push(raw.stream);
    }
    let second = timeout(HANG, scene.client()).await.expect("a login in time");
    for client in [first, second] {
        client.ping().await.expect("an answer");
    }
}
