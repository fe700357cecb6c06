//! A server whose process may have few files open. The server runs in a child process, because the
//! limit applies to a whole process.

use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use iggy::prelude::*;
use rustix::process::{Pid, Resource, Rlimit, prlimit, setrlimit};
use tailwater_server::Server;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::sleep;

use crate::common::{config, create_topic, poll, send};
use crate::fairness::poll_frame_of;
use crate::repeated::Raw;

/// Environment variable with the limit, the directory and settings of the server, separated by
/// spaces. It is set only in the child process that runs the server.
const TASK: &str = "TAILWATER_TEST_LIMITED";

/// Runs a server until standard input ends, and then shuts it down. The tests below start a child
/// process with this function.
#[tokio::test(flavor = "multi_thread")]
async fn serve() {
    let Ok(task) = std::env::var(TASK) else { return };
    let mut words = task.split(' ');
    let limit = Some(words.next().and_then(|word| word.parse().ok()).expect("a number"));
    setrlimit(Resource::Nofile, Rlimit { current: limit, maximum: limit }).expect("a limit");
    let directory = Path::new(words.next().expect("a directory"));
    let settings: Vec<(String, String)> = words
        .map(|word| word.split_once('=').expect("a setting"))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    let server = Server::start(config(directory, &settings)).await.expect("a server");
    println!("\nserving {}", server.addresses().tcp.expect("an address"));
    let ended = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
    ended.await.expect("a thread").expect("the end of the input");
    server.shutdown().await.expect("a shutdown that persists everything");
}

/// A child process that runs a server. It is killed when this value is dropped.
struct Limited {
    child: Child,
    stop: Option<ChildStdin>,
    /// The rest of the output. The child would fail if it could not write it.
    output: BufReader<ChildStdout>,
    address: SocketAddr,
}

impl Limited {
    fn start(limit: usize, directory: &Path) -> Self {
        Self::start_with(limit, directory, "")
    }

    /// Starts a server with settings, each of which follows a space.
    fn start_with(limit: usize, directory: &Path, settings: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["descriptors::serve", "--exact", "--nocapture"])
            .env(TASK, format!("{limit} {}{settings}", directory.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let mut output = BufReader::new(child.stdout.take().expect("standard output"));
        let mut lines = output.by_ref().lines().map_while(Result::ok);
        let address = lines.find_map(|line| line.strip_prefix("serving ")?.parse().ok());
        let stop = child.stdin.take();
        Self { child, stop, output, address: address.expect("a server that starts") }
    }

    async fn client(&self) -> IggyClient {
        let url = format!("iggy://iggy:iggy@{}?heartbeat_interval=1h", self.address);
        let client = IggyClient::from_connection_string(&url).expect("a client");
        client.connect().await.expect("a connection");
        client
    }

    /// Changes the soft limit on the files that the server has open.
    fn limit(&self, limit: u64, maximum: u64) {
        let limit = Rlimit { current: Some(limit), maximum: Some(maximum) };
        prlimit(Some(Pid::from_child(&self.child)), Resource::Nofile, limit).expect("a limit");
    }

    /// Shuts the server down. It must have persisted everything.
    fn stop(mut self) {
        drop(self.stop.take());
        let mut output = String::new();
        self.output.read_to_string(&mut output).expect("text");
        assert!(self.child.wait().expect("an end").success(), "{output}");
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        // Errors are ignored, because the process may already have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn send_to_all(client: &IggyClient, partitions: u32, payload: &str) {
    for partition in 0..partitions {
        send(client, partition, &[payload.to_owned()]).await;
    }
}

async fn assert_all_hold(client: &IggyClient, partitions: u32, payloads: &[&str]) {
    for partition in 0..partitions {
        let found = poll(client, partition, PollingStrategy::first(), 10).await;
        assert_eq!(found, payloads, "partition {partition}");
    }
}

/// Regression test: at a limit of 200 open files, 311 idle connections took all descriptors.
/// Partitions that needed one then refused messages until the server was restarted, although the
/// connections had been closed.
#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_take_no_descriptors_of_the_log() {
    const PARTITIONS: u32 = 100;
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let server = Limited::start(200, scratch.path());
    let client = server.client().await;
    create_topic(&client, PARTITIONS).await;
    let idle: Vec<_> = (0..311).map(|_| TcpStream::connect(server.address)).collect();
    send_to_all(&client, PARTITIONS, "during").await;
    assert_all_hold(&client, PARTITIONS, &["during"]).await;
    drop(idle);
    let another = loop {
        let url = format!("iggy://iggy:iggy@{}?reconnection_retries=0", server.address);
        let another = IggyClient::from_connection_string(&url).expect("a client");
        // The server may not yet have noticed that the idle connections are closed.
        if another.connect().await.is_ok() {
            break another;
        }
    };
    send_to_all(&another, PARTITIONS, "afterwards").await;
    drop((client, another));
    server.stop();
    let server = Limited::start(200, scratch.path());
    assert_all_hold(&server.client().await, PARTITIONS, &["during", "afterwards"]).await;
    server.stop();
}

/// Regression test: with 300 partitions and at most 150 open files, 300 messages were acknowledged,
/// and 133 of them were found after a restart without the shared memory of the first server.
#[tokio::test(flavor = "multi_thread")]
async fn more_partitions_than_descriptors_keep_their_messages() {
    const PARTITIONS: u32 = 300;
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let mut expected = Vec::new();
    for payload in ["first", "second", "third"] {
        let server = Limited::start(150, scratch.path());
        let client = server.client().await;
        if expected.is_empty() {
            create_topic(&client, PARTITIONS).await;
        }
        assert_all_hold(&client, PARTITIONS, &expected).await;
        send_to_all(&client, PARTITIONS, payload).await;
        expected.push(payload);
        assert_all_hold(&client, PARTITIONS, &expected).await;
        drop(client);
        server.stop();
    }
    let server = Limited::start(150, scratch.path());
    assert_all_hold(&server.client().await, PARTITIONS, &expected).await;
    server.stop();
}

/// Regression test: when the process had too many files open for a moment, a reply that had to read
/// messages ended its connection in the middle.
#[tokio::test(flavor = "multi_thread")]
async fn a_reply_that_has_begun_waits_for_descriptors() {
    const LIMIT: u64 = 200;
    const PARTITIONS: u32 = 20;
    const LARGE: usize = 40 << 20;
    const NOT_ACCEPTED: u32 = 58;
    // The reply is too large for its share of the memory, so it is read in parts.
    const SETTINGS: &str = " limits.in_flight_bytes_max=96MiB message_bus.max_message_size=48MiB";
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let server = Limited::start_with(LIMIT as usize, scratch.path(), SETTINGS);
    let client = server.client().await;
    create_topic(&client, PARTITIONS).await;
    send(&client, 0, &["x".repeat(LARGE)]).await;
    send_to_all(&client, PARTITIONS, "small").await;
    drop(client);
    server.stop();
    let server = Limited::start_with(LIMIT as usize, scratch.path(), SETTINGS);
    let mut raw = Raw::connect_to(server.address, 1).await;
    let mut other = Raw::connect_to(server.address, 2).await;
    raw.login().await;
    other.login().await;
    raw.stream.write_all(&poll_frame_of(&raw, 0, 0)).await.expect("a write");
    let mut start = vec![0; 1 << 20];
    raw.stream.read_exact(&mut start).await.expect("a part");
    // Polls that need descriptors close the segment of the large message.
    server.limit(10, LIMIT);
    let mut polls = (1..PARTITIONS).cycle();
    let mut refused = 0;
    while refused < PARTITIONS {
        let partition = polls.next().expect("a partition");
        other.stream.write_all(&poll_frame_of(&other, partition, 0)).await.expect("a write");
        refused += u32::from(other.answer().await.status == NOT_ACCEPTED);
    }
    let size = u32::from_le_bytes(start[48..52].try_into().expect("four bytes")) as usize;
    let mut rest = vec![0; size - start.len()];
    let reading = tokio::spawn(async move {
        let read = raw.stream.read_exact(&mut rest).await;
        (read, rest)
    });
    // The reply needs a descriptor meanwhile.
    sleep(Duration::from_millis(500)).await;
    server.limit(LIMIT, LIMIT);
    let (read, rest) = reading.await.expect("no panic");
    read.expect("the whole reply");
    assert!(size > LARGE && rest.ends_with(&[b'x'; 1000]));
    drop(other);
    server.stop();
}

/// Too low a limit is named when the server starts.
#[tokio::test(flavor = "multi_thread")]
async fn a_limit_that_is_too_low_is_named() {
    let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args(["descriptors::serve", "--exact", "--nocapture"])
        .env(TASK, format!("40 {}", scratch.path().display()))
        .stdin(Stdio::null())
        .output()
        .expect("a process");
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(complaints.contains("at most 40 open files (RLIMIT_NOFILE"), "{complaints}");
}
