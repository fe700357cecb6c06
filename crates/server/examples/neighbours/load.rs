//! The loads that clients put on the server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tailwater_format::message::batch::Builder;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::raw::Raw;
use super::{HISTORY, LARGE, MEDIUM, Result};

/// The loads that clients can produce:
///
/// - `none`: nothing.
/// - `idle`: each client opens a connection, and sends nothing.
/// - `catch-up`: each client polls all messages of a topic with many segments, again and again.
/// - `slow-polls`: each client polls a batch of 60 MiB, and reads the reply at the slowest rate
///   that the server permits.
/// - `polls`: each client polls batches of 60 MiB as fast as it can.
/// - `unread-polls`: each client polls a message of 1 MiB, and does not read the reply.
/// - `slow-sends`: each client sends batches of 60 MiB at the slowest permitted rate.
/// - `sends`: each client sends batches of 60 MiB as fast as it can.
/// - `unauthorised-sends`: like `slow-sends`, of a user without any permission.
/// - `stalled-sends`: each client sends half of a batch of 1 MiB, and then nothing more.
/// - `wrong-passwords`: each client logs in with a wrong password, again and again.
pub(crate) const KINDS: &[&str] = &[
    "none",
    "idle",
    "catch-up",
    "slow-polls",
    "polls",
    "unread-polls",
    "slow-sends",
    "sends",
    "unauthorised-sends",
    "stalled-sends",
    "wrong-passwords",
];

/// Number of messages that a client wants from a poll when it catches up.
const CATCH_UP_COUNT: u32 = 1000;

/// Time after which a client whose connection ended connects again.
const RECONNECT: Duration = Duration::from_millis(500);

/// What the clients of a load share.
pub(crate) struct Load {
    address: SocketAddr,
    kind: String,
    /// The batch that clients send.
    batch: Vec<u8>,
    /// Number of the load's polls, and of those that failed.
    polls: AtomicU64,
    failures: AtomicU64,
}

impl Load {
    pub(crate) fn new(address: SocketAddr, kind: &str) -> Result<Arc<Self>> {
        let batch = match kind {
            "stalled-sends" => batch(MEDIUM)?,
            _ if kind.ends_with("sends") => batch(LARGE)?,
            _ => Vec::new(),
        };
        let (polls, failures) = Default::default();
        Ok(Arc::new(Self { address, kind: kind.to_owned(), batch, polls, failures }))
    }

    /// Starts the clients. They run until the result is dropped. Those whose connection ends
    /// connect again.
    pub(crate) fn start(self: &Arc<Self>, clients: u128) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        for number in 0..clients {
            let load = Arc::clone(self);
            tasks.spawn(async move {
                loop {
                    let _ = load.run(number + 1).await;
                    sleep(RECONNECT).await;
                }
            });
        }
        tasks
    }

    /// Returns the number of polls as a member of a JSON object.
    pub(crate) fn json(&self) -> String {
        let [polls, failures] =
            [&self.polls, &self.failures].map(|count| count.load(Ordering::Relaxed));
        format!("\"load\": {{\"calls\": {polls}, \"failures\": {failures}}}")
    }

    /// Produces the load on one connection, until the server ends the connection.
    async fn run(&self, client: u128) -> Result<()> {
        let kind = self.kind.as_str();
        match kind {
            "none" => return std::future::pending().await,
            "idle" => {
                let mut stream = TcpStream::connect(self.address).await?;
                stream.read_u8().await?;
                return Ok(());
            }
            "wrong-passwords" => {
                Raw::login(self.address, client, "iggy", "wrong").await?;
                return Ok(());
            }
            _ => {}
        }
        let user = if kind == "unauthorised-sends" { "nobody" } else { "iggy" };
        let mut raw = Raw::login(self.address, client, user, user).await?;
        let mut offset = 0;
        for request in 1.. {
            match kind {
                "catch-up" => {
                    let count = self.poll(&mut raw, HISTORY, offset, CATCH_UP_COUNT, false).await?;
                    offset = if count == 0 { 0 } else { offset + u64::from(count) };
                }
                "slow-polls" | "polls" => {
                    self.poll(&mut raw, "large", 0, 1, kind == "slow-polls").await?;
                }
                "unread-polls" => {
                    raw.poll("medium", 0, 1).await?;
                    return std::future::pending().await;
                }
                "stalled-sends" => {
                    raw.send(request, &self.batch, self.batch.len() / 2, false).await?;
                    // Ends when the server closes the connection.
                    raw.answer().await?;
                }
                _ => {
                    let is_slow = kind != "sends";
                    raw.send(request, &self.batch, self.batch.len(), is_slow).await?;
                    raw.answer().await?;
                }
            }
        }
        Ok(())
    }

    /// Polls, and reads the reply. Returns the number of messages.
    async fn poll(
        &self,
        raw: &mut Raw,
        topic: &str,
        offset: u64,
        count: u32,
        is_slow: bool,
    ) -> Result<u32> {
        self.polls.fetch_add(1, Ordering::Relaxed);
        raw.poll(topic, offset, count).await?;
        let polled = raw.discard_polled(is_slow).await;
        polled.inspect_err(|_| {
            self.failures.fetch_add(1, Ordering::Relaxed);
        })
    }
}

/// Builds a batch with one message of `bytes` bytes.
fn batch(bytes: usize) -> Result<Vec<u8>> {
    let mut batch = Builder::new(0);
    batch.push(1, 0, &vec![b'x'; bytes], b"")?;
    Ok(batch.finish())
}
