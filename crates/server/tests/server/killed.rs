//! A server is killed while real clients use it. After the next start, each acknowledged message
//! must exist exactly once, in order. The stored offset of a group must be at least its last
//! acknowledged commit, and purged messages must not exist.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use iggy::prelude::*;
use tailwater_server::Server;

use crate::common::{config, id, message};

/// Environment variable with the directory of the server. It is set only in the child process that
/// runs the server.
const DIRECTORY: &str = "TAILWATER_TEST_SERVE";
/// Number of partitions of the topic, each of which has a separate producer.
const PARTITIONS: u32 = 3;
/// Number of times that the server is killed. The variable `TAILWATER_ROUNDS` multiplies this
/// number.
const LIVES: usize = 10;
/// Number of messages per batch.
const BATCH: u64 = 10;

/// Runs a server until the process is killed. The test below starts a child process with this
/// function.
#[tokio::test(flavor = "multi_thread")]
async fn serve() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let server = Server::start(config(Path::new(&directory), &[])).await.expect("a server");
    println!("\nserving {}", server.addresses().tcp.expect("an address"));
    std::future::pending::<()>().await;
}

/// A child process that runs a server. It is killed when this value is dropped.
struct Process {
    child: Child,
    address: SocketAddr,
}

impl Process {
    fn start(directory: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["killed::serve", "--exact", "--nocapture"])
            .env(DIRECTORY, directory)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a process");
        let output = BufReader::new(child.stdout.take().expect("standard output"));
        let mut lines = output.lines().map_while(Result::ok);
        let address = lines.find_map(|line| line.strip_prefix("serving ")?.parse().ok());
        Self { child, address: address.expect("a server that starts") }
    }

    async fn client(&self) -> IggyClient {
        let url = format!(
            "iggy://iggy:iggy@{}?reconnection_retries=0&heartbeat_interval=1h",
            self.address
        );
        let client = IggyClient::from_connection_string(&url).expect("a client");
        client.connect().await.expect("a connection");
        client
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Errors are ignored, because the process may already have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the producer of one partition knows about its messages.
#[derive(Debug, Default)]
struct Promised {
    /// The number of the last message sent, plus 1.
    sent: AtomicU64,
    /// Number of acknowledged batches.
    acknowledged: AtomicU64,
    /// Numbers of the first messages of batches that were sent, but not acknowledged.
    uncertain: Mutex<Vec<u64>>,
}

/// Sends batches of numbered messages to a partition until the server is killed.
async fn produce(client: IggyClient, partition: u32, promised: Arc<Promised>) {
    loop {
        let first = promised.sent.load(Ordering::Relaxed);
        let mut messages: Vec<_> =
            (first..first + BATCH).map(|number| message(&number.to_string())).collect();
        promised.sent.store(first + BATCH, Ordering::Relaxed);
        let partitioning = Partitioning::partition_id(partition);
        let sent = client.send_messages(&id("s"), &id("t"), &partitioning, &mut messages).await;
        if sent.is_err() {
            promised.uncertain.lock().expect("no panic").push(first);
            return;
        }
        promised.acknowledged.fetch_add(1, Ordering::Relaxed);
    }
}

/// Polls and commits as the only member of the group `g`, until the server is killed. Returns the
/// offset of the last acknowledged commit in each partition.
async fn consume(client: IggyClient) -> Vec<Option<u64>> {
    let mut committed = vec![None; PARTITIONS as usize];
    let consumer = Consumer::group(id("g"));
    let (stream, topic) = (id("s"), id("t"));
    if client.join_consumer_group(&stream, &topic, &id("g")).await.is_err() {
        return committed;
    }
    loop {
        let next = PollingStrategy::next();
        let polled = client.poll_messages(&stream, &topic, None, &consumer, &next, 50, false).await;
        let Ok(polled) = polled else { return committed };
        let Some(last) = polled.messages.last() else {
            tokio::time::sleep(Duration::from_millis(1)).await;
            continue;
        };
        let (partition, offset) = (polled.partition_id, last.header.offset);
        let stored =
            client.store_consumer_offset(&consumer, &stream, &topic, Some(partition), offset).await;
        match stored {
            Ok(()) => committed[partition as usize] = Some(offset),
            Err(_) => return committed,
        }
    }
}

/// Repeatedly sends messages to the topic `purged` and purges it, until the server is killed.
/// `number` is the number of the first message. Returns the number of the first message sent after
/// the last acknowledged purge.
async fn purge(client: IggyClient, mut number: u64) -> u64 {
    let mut first = number;
    loop {
        for _ in 0..5 {
            let mut messages = [message(&number.to_string())];
            number += 1;
            let partition = Partitioning::partition_id(0);
            let sent =
                client.send_messages(&id("s"), &id("purged"), &partition, &mut messages).await;
            if sent.is_err() {
                return first;
            }
        }
        if client.purge_topic(&id("s"), &id("purged")).await.is_err() {
            return first;
        }
        first = number;
    }
}

/// Reads all messages of a partition. For each message, returns its offset and the number that the
/// test sent as its payload.
async fn read(client: &IggyClient, topic: &str, partition: u32) -> Vec<(u64, u64)> {
    let consumer = Consumer::new(id("checker"));
    let mut found: Vec<(u64, u64)> = Vec::new();
    loop {
        let next = found.last().map_or(0, |(offset, _)| offset + 1);
        let strategy = PollingStrategy::offset(next);
        let polled = client
            .poll_messages(&id("s"), &id(topic), Some(partition), &consumer, &strategy, 1000, false)
            .await
            .expect("a poll");
        if polled.messages.is_empty() {
            return found;
        }
        for message in polled.messages {
            let number = String::from_utf8_lossy(&message.payload).parse().expect("a number");
            found.push((message.header.offset, number));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_messages_survive_a_killed_server() {
    let mut seed = tailwater_testkit::seed::rng();
    eprintln!("TAILWATER_SEED={}", seed.value());
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let promised: Vec<Arc<Promised>> = (0..PARTITIONS).map(|_| Arc::default()).collect();
    let mut committed = vec![None; PARTITIONS as usize];
    let mut purged_below = 0;
    for life in 0..LIVES * tailwater_testkit::seed::rounds() {
        let process = Process::start(scratch.path());
        let client = process.client().await;
        if life == 0 {
            crate::common::create_topic(&client, PARTITIONS).await;
            let options = TopicCreateOptions::default();
            client.create_topic(&id("s"), "purged", &options).await.expect("a topic");
            client.create_consumer_group(&id("s"), &id("t"), "g").await.expect("a group");
        }
        for (partition, promised) in (0..).zip(&promised) {
            let found = read(&client, "t", partition).await;
            let numbers: Vec<u64> = found.iter().map(|(_, number)| *number).collect();
            assert!(found.iter().enumerate().all(|(at, (offset, _))| at as u64 == *offset));
            assert!(numbers.is_sorted_by(|a, b| a < b), "life {life}: out of order, or twice");
            // A batch that was not acknowledged may be missing as a whole, because the producer did
            // not send it again.
            let uncertain = promised.uncertain.lock().expect("no panic").clone();
            for first in (0..promised.sent.load(Ordering::Relaxed)).step_by(BATCH as usize) {
                let is_there = |number| numbers.binary_search(&number).is_ok();
                let found = (first..first + BATCH).filter(|number| is_there(*number)).count();
                let is_right = found as u64 == BATCH || (found == 0 && uncertain.contains(&first));
                assert!(is_right, "life {life}: {found} messages of the batch from {first} exist");
            }
            let consumer = Consumer::group(id("g"));
            let stored =
                client.get_consumer_offset(&consumer, &id("s"), &id("t"), Some(partition)).await;
            let stored = stored.expect("a reply").map(|info| info.stored_offset);
            let committed: Option<u64> = committed[partition as usize];
            assert!(stored >= committed, "life {life}: {stored:?} is behind {committed:?}");
        }
        let left = read(&client, "purged", 0).await;
        assert!(left.iter().all(|(_, number)| *number >= purged_below), "{left:?}");
        let next =
            left.last().map_or(purged_below, |(_, number)| number + 1).max(purged_below) + 10;

        let mut producers = tokio::task::JoinSet::new();
        for (partition, promised) in (0..).zip(&promised) {
            let client = process.client().await;
            producers.spawn(produce(client, partition, Arc::clone(promised)));
        }
        let consumer = tokio::spawn(consume(process.client().await));
        let purger = tokio::spawn(purge(process.client().await, next));
        tokio::time::sleep(Duration::from_millis(seed.rng.u64(20..300))).await;
        drop(process);
        while producers.join_next().await.is_some() {}
        for (known, new) in committed.iter_mut().zip(consumer.await.expect("a consumer")) {
            *known = new.or(*known);
        }
        purged_below = purger.await.expect("a purger");
    }
    // If nothing was acknowledged, the test has checked nothing.
    let acknowledged: u64 = promised.iter().map(|it| it.acknowledged.load(Ordering::Relaxed)).sum();
    assert!(acknowledged > 0, "no batch was acknowledged");
    assert!(committed.iter().any(Option::is_some), "no commit was acknowledged");
    assert!(purged_below > 0, "no purge was acknowledged");
}
