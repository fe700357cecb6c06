//! Measures the small requests of one client while other clients put a load on a server.
//!
//! `cargo run --release -p tailwater-server --example neighbours -- ADDRESS setup` creates a
//! stream, topics with messages, and users on a running server, as its root user `iggy`. With the
//! arguments `ADDRESS LOAD CLIENTS SECONDS`, the program then calls the server at fixed rates for
//! the given time: it sends and polls messages of 100 bytes and of 100 KB, and logs in, while
//! `CLIENTS` other connections produce the load `LOAD` (see [`load::KINDS`]). It prints a JSON
//! document with percentiles of the latencies and with the numbers of failed calls. A latency is
//! measured from the time at which the call was scheduled to start, so that a late start counts as
//! latency.
//!
//! `ci/stress/server.py` runs it under each load, and compares the results.

mod load;
mod measure;
mod raw;

use std::net::SocketAddr;
use std::time::Duration;

use iggy::prelude::*;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use load::Load;
use measure::{measure_logins, measure_polls, measure_sends};

/// Name of the stream.
const STREAM: &str = "neighbours";
/// Size of the message in a large batch, in bytes.
const LARGE: usize = 60 << 20;
/// Size of a message of medium size, in bytes: the largest that counts as small.
const MEDIUM: usize = (1 << 20) - 1024;
/// Name of the topic with many segments.
const HISTORY: &str = "history";
/// Size of each of these segments in bytes, the number of batches, each of which fills one, and the
/// number of messages in a batch.
const SEGMENT: u64 = 1 << 20;
const SEGMENTS: usize = 400;
const SEGMENT_MESSAGES: usize = 1000;
/// Sizes of the measured messages, in bytes, with the intervals between two calls.
const SMALL: [(&str, usize, Duration); 2] =
    [("100 B", 100, Duration::from_millis(5)), ("100 KB", 100_000, Duration::from_millis(20))];
/// Number of users whose logins are measured, one after the other. The server has to hash the
/// password only at the first login of each.
const USERS: usize = 1000;
/// Time for which the load runs before the measurement begins.
const WARM_UP: Duration = Duration::from_secs(3);

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        [address, "setup"] => set_up(address.parse()?).await,
        [address, kind, clients, seconds] if load::KINDS.contains(kind) => {
            let seconds = Duration::from_secs(seconds.parse()?);
            run(address.parse()?, kind, clients.parse()?, seconds).await
        }
        _ => {
            let kinds = load::KINDS.join(", ");
            Err(format!("usage: neighbours ADDRESS (setup | LOAD CLIENTS SECONDS); loads: {kinds}")
                .into())
        }
    }
}

/// Measures small calls while clients produce a load, and prints the results.
async fn run(address: SocketAddr, kind: &str, clients: u128, duration: Duration) -> Result<()> {
    let load = Load::new(address, kind)?;
    let clients = load.start(clients);
    sleep(WARM_UP).await;
    let until = Instant::now() + duration;
    let mut measured = JoinSet::new();
    for (label, bytes, every) in SMALL {
        measured.spawn(measure_sends(address, label, bytes, every, until));
        measured.spawn(measure_polls(address, label, every, until));
    }
    measured.spawn(measure_logins(address, until));
    let mut rows = Vec::new();
    while let Some(row) = measured.join_next().await {
        rows.push(row??);
    }
    rows.sort();
    rows.push(load.json());
    println!("{{{}}}", rows.join(", "));
    drop(clients);
    Ok(())
}

fn name(text: &str) -> Identifier {
    text.try_into().expect("a short name")
}

async fn connect(address: SocketAddr) -> Result<IggyClient> {
    let client = IggyClient::from_connection_string(&format!("iggy+tcp://iggy:iggy@{address}"))?;
    client.connect().await?;
    Ok(client)
}

/// Creates the stream, its topics, their messages, and users.
async fn set_up(address: SocketAddr) -> Result<()> {
    let client = connect(address).await?;
    client.create_stream(STREAM).await?;
    for topic in ["large", "sink", "medium", SMALL[0].0, SMALL[1].0, HISTORY] {
        let segment_size = (topic == HISTORY).then(|| IggyByteSize::from(SEGMENT));
        let options =
            TopicCreateOptions { partitions_count: Some(1), segment_size, ..Default::default() };
        client.create_topic(&name(STREAM), topic, &options).await?;
    }
    for (topic, bytes, count) in
        [("large", LARGE, 2), ("medium", MEDIUM, 8), (SMALL[0].0, 100, 8), (SMALL[1].0, 100_000, 8)]
    {
        for _ in 0..count {
            send(&client, topic, bytes).await?;
        }
    }
    for _ in 0..SEGMENTS {
        let bytes = SEGMENT as usize / SEGMENT_MESSAGES;
        send_batch(&client, HISTORY, &vec![bytes; SEGMENT_MESSAGES]).await?;
    }
    client.create_user("nobody", "nobody", UserStatus::Active, None).await?;
    for number in 0..USERS {
        client.create_user(&format!("user{number}"), "secret", UserStatus::Active, None).await?;
    }
    Ok(())
}

async fn send(client: &IggyClient, topic: &str, bytes: usize) -> Result<()> {
    send_batch(client, topic, &[bytes]).await
}

/// Sends a batch of messages with these sizes, in bytes.
async fn send_batch(client: &IggyClient, topic: &str, sizes: &[usize]) -> Result<()> {
    let message = |bytes: &usize| IggyMessage::builder().payload(vec![b'x'; *bytes].into()).build();
    let mut messages =
        sizes.iter().map(message).collect::<std::result::Result<Vec<_>, IggyError>>()?;
    let partitioning = Partitioning::partition_id(0);
    client.send_messages(&name(STREAM), &name(topic), &partitioning, &mut messages).await?;
    Ok(())
}
